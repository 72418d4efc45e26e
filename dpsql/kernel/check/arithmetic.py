"""Arithmetic and conversions: the ends of numbers, and that none overflows.

Of exact numbers the ends are exact. What is converted to a DOUBLE has ends that are wide enough for every
rounding, or none. A DOUBLE with two ends is never NaN: where NaN or an infinity can come, there are none.
Arithmetic on DOUBLEs is in forms of the table of functions, and in `aggregates.whole_total`.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import (
    INFINITY,
    Around,
    Number,
    Value,
    check_decided,
    check_ends,
    common,
    derive,
    digits_kept,
    ends,
    exact,
    fit,
    fits,
    has_doubles,
    natural,
    needs_try,
    place,
    rule,
    size,
    unwrap,
    whole,
    whole_number,
)
from dpsql.kernel.tree import Binary, Call, Cast, Constant, Expr, Unary
from dpsql.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTERVAL, TIMESTAMP, SqlType


@rule(Unary)
def _unary(node: Unary, at: Around) -> Value:
    x = derive(node.operand, at)
    check_decided((x,), node)
    if node.operator != "-":
        raise NotCertified("an operator that has no rule", node)
    if not (exact(x.type) or x.type.name in ("DECIMAL", "DOUBLE", "NULL")):
        raise NotCertified("a sign of what is no number", node)
    made = x._replace(low=-x.high, high=-x.low, canonical=x.type != DOUBLE or x.low > 0 or x.high < 0)
    return made._replace(type=natural(int(made.low))) if x.literal else check_ends(made, node, at)


def arithmetic(node: Binary, operator: str, x: Value, y: Value, at: Around) -> Value:
    """Return what is known of an operator's result for two values."""
    check_decided((x, y), node)
    kind = common(x, y, computed=True)
    nullable = x.nullable or y.nullable
    if kind is None or not (exact(kind) or kind.name in ("DECIMAL", "DOUBLE", "NULL")):
        return _value_of_dates(node, operator, x, y, at)
    if kind.name == "NULL" or x.low > x.high or y.low > y.high:
        return Value(kind, INFINITY, -INFINITY)
    if not exact(kind):
        if kind == DOUBLE or operator not in ("+", "-"):
            raise NotCertified("an operator on numbers with a point that has no rule", node)
        kind = SqlType("DECIMAL", min(38, kind.precision + 1), kind.scale)
    if not (fits(x, kind) and fits(y, kind)):
        needs_try(node, at, "a conversion for arithmetic that can fail")
    match operator:
        case "+":
            low, high = x.low + y.low, x.high + y.high
        case "-":
            low, high = _ends_of_difference(node, at) or (x.low - y.high, x.high - y.low)
        case "*":
            corners = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
            low, high = _ends_of_rest(node, at) or (min(corners), max(corners))
        case "//" | "%":
            if _has_zero(node.right, y):
                needs_try(node, at, "a division by what can be 0")
                nullable = True
            low, high = _ends_of_quotient(node, x, y, at) if operator == "//" else _ends_of_remainder(x, y)
        case _:
            raise NotCertified("an operator that has no rule", node)
    return check_ends(Value(kind, low, high, nullable), node, at)


_DAYS = 1 << 30
"""From a date that is written, so many days lead to a DATE: the years of a constant are from 1 to 9999."""


def _value_of_dates(node: Binary, operator: str, x: Value, y: Value, at: Around) -> Value:
    near = isinstance(unwrap(node.left), Constant) and size(y) <= _DAYS
    if not (near and operator == "+" and x.type == DATE and exact(y.type)):
        needs_try(node, at, "arithmetic on dates outside TRY")
    one, two = x.type.name, y.type.name
    if operator == "-" and one == two == "DATE":
        return whole(BIGINT)
    if operator == "-" and one == two == "TIMESTAMP":
        return Value(INTERVAL)
    if operator in ("+", "-") and two == "INTERVAL" and one in ("DATE", "TIMESTAMP"):
        return Value(TIMESTAMP)
    if operator in ("+", "-") and one == "DATE" and (exact(y.type) or two == "NULL"):
        return Value(DATE, nullable=x.nullable or y.nullable or not near)
    raise NotCertified("an operator on values of types that have no rule", node)


def _quotient(x: Expr) -> Binary:
    return Binary("//", Binary("+", Binary("*", place("k"), x), place("o")), place("d"))


_DIFFERENCE = Binary("-", _quotient(place("x")), _quotient(Binary("-", place("x"), place("r"))))


def _ends_of_difference(node: Binary, at: Around) -> tuple[Number, Number] | None:
    """Return the ends of `(k * x + o) // d - (k * (x - r) + o) // d`, for `k` and `r` from 0, `d` from 1 on.

    A quotient that is rounded towards 0 does not fall where its dividend rises, and two of them differ by at
    most 1 more than the quotients themselves, of which `k * r / d` is the difference.
    """
    found = fit(_DIFFERENCE, node)
    if found is None:
        return None
    factor, fall, divisor = (derive(found[name], at) for name in "krd")
    if factor.low < 0 or fall.low < 0 or divisor.low < 1:
        return None
    return 0, factor.high * fall.high + 1


_K, _ONE = place("k"), place("one")
_RUNGS = Call("GREATEST", (Binary("//", place("d"), Call("GREATEST", (_K, _ONE))), _ONE))
_REST_OF_RUNG = Binary("*", Call("LEAST", (Binary("-", place("a"), _K), _K)), _RUNGS)


def _ends_of_rest(node: Binary, at: Around) -> tuple[Number, Number] | None:
    """Return the ends of `LEAST(a - k, k) * GREATEST(d // GREATEST(k, 1), 1)` for `a`, `k` and `d` from 0 on.

    The first factor is from -k to k, and k times the second is at most d, or k if that is more.
    """
    found = fit(_REST_OF_RUNG, node)
    d = None if found is None or whole_number(found["one"]) != 1 else whole_number(found["d"])
    if found is None or d is None or d < 0:
        return None
    rung = derive(found["k"], at)
    if rung.low < 0 or rung.nullable or derive(found["a"], at).low < 0:
        return None
    most = max(d, rung.high)
    return -most, most


def _has_zero(node: Expr, value: Value) -> bool:
    node = unwrap(node)
    if isinstance(node, Call) and node.name.upper() == "NULLIF" and len(node.arguments) == 2:
        return whole_number(node.arguments[1]) != 0
    return value.low <= 0 <= value.high


def _quotient_towards_0(x: Number, y: Number) -> int:
    """Return a quotient of whole numbers, rounded towards 0."""
    quotient = abs(int(x)) // abs(int(y))
    return quotient if (x < 0) == (y < 0) else -quotient


def _ends_of_quotient(node: Binary, x: Value, y: Value, at: Around) -> tuple[Number, Number]:
    share = _ends_of_share(node, at)
    if share is not None:
        return share
    if y.low >= 1 or y.high <= -1:
        corners = [_quotient_towards_0(p, q) for p in (x.low, x.high) for q in (y.low, y.high)]
        return min(corners), max(corners)
    most = size(x)
    return -most if x.low < 0 or y.low < 0 else 0, most


def _ends_of_share(node: Binary, at: Around) -> tuple[Number, Number] | None:
    """Return the ends of `(LEAST(x, n * w) * k) // n`, which are 0 and `w * k`, for `x` and `n` from 0 on.

    It may be without `w` or `k`, and with the divisor NULLIF(n, ..).
    """
    n, (least, k) = unwrap(node.right), _factors(node.left)
    if isinstance(n, Call) and n.name.upper() == "NULLIF" and len(n.arguments) == 2:
        n = unwrap(n.arguments[0])
    if not isinstance(least, Call) or least.name.upper() != "LEAST" or len(least.arguments) != 2:
        return None
    top = unwrap(least.arguments[1])
    top, w = (top, 1) if top == n else _factors(top)
    if top != n or k is None or w is None or k < 0 or w < 0:
        return None
    return (0, w * k) if all(derive(each, at).low >= 0 for each in (least.arguments[0], n)) else None


def _factors(node: Expr) -> tuple[Expr, int | None]:
    """Return a and k of `a * k`; of another expression itself, and 1."""
    node = unwrap(node)
    if isinstance(node, Binary) and node.operator == "*":
        return unwrap(node.left), whole_number(node.right)
    return node, 1


def _ends_of_remainder(x: Value, y: Value) -> tuple[Number, Number]:
    most = size(y) - 1
    return max(x.low, -most) if x.low < 0 else 0, min(x.high, most) if x.high > 0 else 0


@rule(Cast)
def _cast(node: Cast, at: Around) -> Value:
    x, kind = derive(node.operand, at), node.type.held
    check_decided((x,), node)
    if "TIMESTAMPTZ" in (x.type.name, node.type.name):
        raise NotCertified("a conversion that depends on the zone of the session", node)
    if x.type.item is not None and kind.name in ("VARCHAR", "BLOB", "JSON") and at.measured is not node:
        # It is longer than its items, and may be taken apart again.
        raise NotCertified("a list as a text", node)
    certain = fits(x, kind)
    if not node.safe and not certain:
        needs_try(node, at, "a conversion that can fail")
    low, high = ends(kind)
    if (low, high) != (-INFINITY, INFINITY) or kind == DOUBLE:
        low, high = _convert_ends(x, kind, low, high)
    # A text can be that of another zero or NaN, which has a sign.
    known = has_doubles(x.type) or exact(x.type) or x.type.name in ("DECIMAL", "BOOLEAN", "NULL")
    canonical = (
        (x.canonical and known) or not has_doubles(kind) or (kind == DOUBLE and _has_no_sign(node.operand))
    )
    return Value(kind, low, high, x.nullable or not certain, canonical)


def _has_no_sign(node: Expr) -> bool:
    """Return whether an expression is a text that is written, without the sign of a zero or NaN."""
    node = unwrap(node)
    return isinstance(node, Constant) and isinstance(node.value, str) and "-" not in node.value


def _convert_ends(x: Value, kind: SqlType, low: Number, high: Number) -> tuple[Number, Number]:
    """Return the ends of a number after a conversion; beyond the ends of the new type it has no value."""
    if x.low > x.high:
        return x.low, x.high
    if kind == DOUBLE and (x.type == DOUBLE or (exact(x.type) and size(x) <= 1 << 53)):
        return x.low, x.high  # it has all these whole numbers
    if kind == DOUBLE and (exact(x.type) or x.type.name == "DECIMAL"):
        return min(2 * x.low, Fraction(x.low) / 2), max(2 * x.high, Fraction(x.high) / 2)
    if not (exact(x.type) or x.type.name in ("DECIMAL", "DOUBLE", "BOOLEAN")):
        return low, high
    if kind.name == "DECIMAL" or exact(x.type) or x.type == BOOLEAN:
        rounded = kind.name == "DECIMAL" and not digits_kept(x.type, kind)
        unit = Fraction(1, 10**kind.scale) if rounded else 0
        return max(low, x.low - unit), min(high, x.high + unit)
    down = x.low if x.low == -INFINITY else math.floor(x.low)
    up = x.high if x.high == INFINITY else math.ceil(x.high)
    return max(low, down), min(high, up)
