"""Read whole numbers beside a DECIMAL as DECIMALs, as the engine does: `n - 0.5` and `n * 0.5` are exact.

What is computed of whole numbers is a BIGINT, of 19 digits: of `n + 1` with an INTEGER n it is known that it
has no more than 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsql.analysis.conversions import cast
from dpsql.analysis.type_rules import DIGITS
from dpsql.analysis.typed_expression import Typed
from dpsql.kernel.tree import Form
from dpsql.types import SqlType


def read_as_decimal(form: Form, given: Typed) -> Typed:
    """Return a whole number as a DECIMAL of its digits, as the engine does beside a DECIMAL; else itself."""
    digits = _count_digits(given, natural=form.result == "sum")
    if digits is None or digits > 18 or form.result not in ("sum", "product"):
        return given
    return cast(given, SqlType("DECIMAL", digits, 0), lossless=given.digits is None)


def is_decimal_in_sql(form: Form, arguments: Sequence[Typed]) -> bool:
    """Return whether SQL computes a DECIMAL where a form computes a DOUBLE, since 18 digits are too few."""
    if form.name not in ("+", "-", "*", "neg") or form.result != "DOUBLE":
        return False
    decimal = [a.type.name == "DECIMAL" or a.decimal for a in arguments]
    return any(decimal) and all(d or a.type.integer for d, a in zip(decimal, arguments, strict=True))


def _count_digits(value: Typed, *, natural: bool = False) -> int | None:
    """Return the most digits of a whole number; of a literal its own, or (`natural`) those of its type."""
    if value.literal is not None and isinstance(value.literal.value, int) and not natural:
        return len(str(abs(value.literal.value)))
    return value.digits or DIGITS.get(value.type.name)


def count_digits_of_call(name: str, arguments: Sequence[Typed]) -> int | None:
    """Return the most digits of what an operator makes of whole numbers."""
    digits = [each for a in arguments if (each := _count_digits(a)) is not None]
    if len(digits) < len(arguments) or name not in _DIGITS_OF:
        return None
    return _DIGITS_OF[name](digits)


_DIGITS_OF: dict[str, Callable[[Sequence[int]], int]] = {
    **dict.fromkeys("+-", lambda digits: max(digits) + 1),
    **dict.fromkeys(("//", "%", "abs", "neg"), lambda digits: digits[0]),
    "*": sum,
}
