"""Read whole numbers beside a DECIMAL as DECIMALs, as the engine does: `n - 0.5` and `n * 0.5` are exact.

What is computed of whole numbers is a BIGINT, of 19 digits: of `n + 1` with an INTEGER n it is known that it
has no more than 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from dpsql.analysis.conversions import cast, common_decimal
from dpsql.analysis.type_rules import DIGITS
from dpsql.analysis.typed_expression import Typed, make_constant
from dpsql.kernel.tree import Form
from dpsql.types import BIGINT, DOUBLE, SqlType


def read_as_decimal(form: Form, given: Typed) -> Typed:
    """Return a whole number as a DECIMAL of its digits, as the engine does beside a DECIMAL; else itself."""
    digits = _count_digits(given, natural=form.result == "sum")
    if digits is None or digits > 18 or form.result not in ("sum", "product"):
        return given
    return cast(given, SqlType("DECIMAL", digits, 0), lossless=given.digits is None)


def is_decimal_choice(values: Sequence[Typed], sql_type: SqlType) -> bool:
    """Return whether one of several numbers is a DECIMAL in SQL although it is converted to a DOUBLE."""
    numbers = [value for value in values if value.type.name != "NULL"]
    decimal = [v.type.name == "DECIMAL" or v.decimal for v in numbers]
    exact = all(d or v.type.integer for d, v in zip(decimal, numbers, strict=True))
    return sql_type == DOUBLE and any(decimal) and exact


def compute_remainder(call: Callable[[str, Sequence[Typed]], Typed], a: Typed, b: Typed) -> Typed | None:
    """Compute the remainder of DECIMALs as that of whole numbers of their least steps; None if they are none.

    `call` compiles a function of arguments.
    """
    kinds = {a.type.name, b.type.name}
    if "DECIMAL" not in kinds or not all(v.type.integer or v.type.name == "DECIMAL" for v in (a, b)):
        return None
    wanted = common_decimal(a, b)
    if wanted.name != "DECIMAL" or wanted.precision + wanted.scale + 1 > 18:
        return None
    steps = SqlType("DECIMAL", wanted.scale + 1, 0)
    many = make_constant(Decimal(10**wanted.scale), steps)
    whole = [cast(call("*", [_widen(value, wanted), many]), BIGINT) for value in (a, b)]
    rest = cast(call("%", whole), SqlType("DECIMAL", wanted.precision, 0))
    step = make_constant(Decimal(1).scaleb(-wanted.scale), SqlType("DECIMAL", wanted.scale + 1, wanted.scale))
    return cast(call("*", [rest, step]), wanted)


def _widen(value: Typed, wanted: SqlType) -> Typed:
    return value if value.type == wanted else cast(value, wanted, lossless=value.digits is None)


def is_decimal_in_sql(form: Form, arguments: Sequence[Typed]) -> bool:
    """Return whether SQL computes a DECIMAL where a form computes a DOUBLE, since 18 digits are too few."""
    if form.name not in ("+", "-", "*", "%", "neg", "abs") or form.result != "DOUBLE":
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
