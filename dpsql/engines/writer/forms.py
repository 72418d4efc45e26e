"""Forms of functions: for which types of arguments a dialect writes a function, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.value import NOT_CONSTANT, Value, type_family
from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType

Range = tuple[float, float] | None
RangeRule = Callable[[list[Value]], Range]
"""Computes the value range of a result from the arguments, or refuses them."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a dialect writes functions for one list of argument types.

    `names` are DuckDB's names of the functions, separated by spaces. `wanted` has an entry for each argument:
    letters of `type_family`, `I!` or `D!` for a constant that is not zero, `#p` for a positive integer
    literal, `#n` for an integer literal from zero on, `#s` for a text literal that is not empty, or `=year`
    for the text literal "year". `text` is a template of the arguments' SQL, or a function of the arguments.
    """

    names: str
    wanted: str
    type: SqlType | None
    """The type of the result; None stands for the type of the first argument."""
    text: str | Callable[[list[Value]], str]
    value_range: RangeRule | None = None

    def apply(self, values: list[Value]) -> Value:
        """Write the call with these arguments."""
        value_range = self.value_range(values) if self.value_range is not None else None
        text = self.text.format(*(v.sql for v in values)) if isinstance(self.text, str) else self.text(values)
        return Value(f"({text})", self.type if self.type is not None else values[0].type, value_range)


def collect(*groups: Iterable[Form]) -> dict[str, list[Form]]:
    """Collect forms by function name; of several that take the arguments, the first is used."""
    found: dict[str, list[Form]] = {}
    for group in groups:
        for entry in group:
            for name in entry.names.split():
                found.setdefault(name, []).append(entry)
    return found


def fits(entry: Form, values: list[Value]) -> bool:
    """Whether a form accepts these arguments."""
    wanted = entry.wanted.split()
    return len(wanted) == len(values) and all(map(_fits, wanted, values))


def _fits(want: str, value: Value) -> bool:
    constant = value.constant
    if want.startswith("="):
        return isinstance(constant, str) and constant.lower() == want[1:]
    if want in ("#p", "#n"):
        least = 1 if want == "#p" else 0
        return isinstance(constant, int) and not isinstance(constant, bool) and least <= constant < 2**31
    if want == "#s":
        return isinstance(constant, str) and bool(constant)
    if want.endswith("!") and (constant is NOT_CONSTANT or not constant):
        return False
    return value.type.name != "NULL" and type_family(value.type) in want


def no_form(name: str, engine: str, forms: bool) -> Untranslatable:
    """Return the error that an engine has no form of a function, or none for these arguments."""
    what = f"{name} with these arguments" if forms else name
    return Untranslatable(
        f"{engine} does not run {what}: its result could differ from DuckDB's, or it could fail"
    )
