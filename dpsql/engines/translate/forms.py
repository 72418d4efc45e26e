"""Functions as a target writes them: which arguments a form takes, and the text it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dpsql.engines.translate.value import NOT_CONSTANT, Untranslatable, Value, type_family
from dpsql.types import SqlType

__all__ = ["Form", "RangeRule", "collect", "fits", "form"]

RangeRule = Callable[[list[Value]], tuple[float, float] | None]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a function.

    `arguments` has a letter of `kind_of` an argument; `#p` is a literal above zero, `#n` one from zero on,
    `#s` a literal text that is not empty, `=year` that very word. `text` is a template, or a function of
    the arguments for what a template cannot say.
    """

    arguments: tuple[str, ...]
    type: SqlType | None
    """Of the result; None: that of the first argument."""
    text: str | Callable[[list[Value]], str]
    value_range: RangeRule | None = None

    def apply(self, values: list[Value]) -> Value:
        """Write the call."""
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
    """Make a form; its arguments are words in one text."""
    return Form(tuple(arguments.split()), sql_type, text, value_range)


def collect(rows: Iterable[tuple[str, Form]]) -> dict[str, list[Form]]:
    """Collect forms by name; a row may carry several names that mean the same."""
    found: dict[str, list[Form]] = {}
    for names, entry in rows:
        for name in names.split():
            found.setdefault(name, []).append(entry)
    return found


def fits(entry: Form, values: list[Value]) -> bool:
    """Whether a form takes these arguments."""
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
    """Say that a function, or this use of it, does not travel."""
    what = f"{name} with these arguments" if forms else name
    return Untranslatable(f"{what} does not mean on {engine} what it means in DuckDB, or could fail there")
