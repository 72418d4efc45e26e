"""Forms of functions: for which types of arguments a dialect writes a function, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dpsql.engines.writer.value import NOT_CONSTANT, Untranslatable, Value, type_family
from dpsql.types import SqlType

__all__ = ["Form", "RangeRule", "collect", "fits", "form"]

RangeRule = Callable[[list[Value]], tuple[float, float] | None]
"""Computes the value range of a result from the arguments."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a dialect writes a function for one list of argument types.

    `arguments` has an entry for each argument: a letter of `type_family`, `#p` for a positive integer
    literal, `#n` for an integer literal from zero on, `#s` for a text literal that is not empty, or `=year`
    for the text literal "year". `text` is a template of the arguments' SQL, or a function of the arguments.
    """

    arguments: tuple[str, ...]
    type: SqlType | None
    """The type of the result; None stands for the type of the first argument."""
    text: str | Callable[[list[Value]], str]
    value_range: RangeRule | None = None

    def apply(self, values: list[Value]) -> Value:
        """Write the call with these arguments."""
        text = self.text.format(*(v.sql for v in values)) if isinstance(self.text, str) else self.text(values)
        sql_type = self.type if self.type is not None else values[0].type
        return Value(
            f"({text})", sql_type, self.value_range(values) if self.value_range is not None else None
        )


def form(
    arguments: str,
    sql_type: SqlType | None,
    text: str | Callable[[list[Value]], str],
    value_range: RangeRule | None = None,
) -> Form:
    """Make a form; `arguments` is its list of entries, separated by spaces."""
    return Form(tuple(arguments.split()), sql_type, text, value_range)


def collect(rows: Iterable[tuple[str, Form]]) -> dict[str, list[Form]]:
    """Collect forms by function name; a row may have several names, separated by spaces."""
    found: dict[str, list[Form]] = {}
    for names, entry in rows:
        for name in names.split():
            found.setdefault(name, []).append(entry)
    return found


def fits(entry: Form, values: list[Value]) -> bool:
    """Whether a form accepts these arguments."""
    if len(entry.arguments) != len(values):
        return False
    return all(_fits(want, value) for want, value in zip(entry.arguments, values, strict=True))


def _fits(want: str, value: Value) -> bool:
    constant = value.constant
    if want.startswith("="):
        return isinstance(constant, str) and constant.lower() == want[1:]
    if want in ("#p", "#n"):
        least = 1 if want == "#p" else 0
        return isinstance(constant, int) and not isinstance(constant, bool) and least <= constant < 2**31
    if want == "#s":
        return isinstance(constant, str) and bool(constant)
    if constant is not NOT_CONSTANT and constant is None:
        return value.type.name != "NULL" and want == type_family(value.type)
    return want == type_family(value.type)


def no_form(name: str, engine: str, forms: bool) -> Untranslatable:
    """Return the error that an engine has no form of a function, or none for these arguments."""
    what = f"{name} with these arguments" if forms else name
    return Untranslatable(
        f"{engine} does not run {what}: its result could differ from DuckDB's, or it could fail"
    )
