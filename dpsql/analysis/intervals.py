"""Interval arithmetic: the bounds of an expression from the bounds of its parts, exact as fractions.

The results hold for numbers; where a part is NULL or NaN, or beyond its own bounds, the value of the
expression may lie outside of them. That costs accuracy, never privacy: an aggregate cuts each value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.analysis.typed import TRUTH, Bounds, Typed
from dpsql.kernel.tree import Cast, Constant, Expr, Paren
from dpsql.types import BOOLEAN, DOUBLE, SqlType

DAY = 86_400_000_000
_LARGEST = 2048
"""The most bits of an end: DOUBLE has 1,024, and products of products would grow without a limit."""

Ends = tuple[Fraction, Fraction]


def bounds_of(value: Typed) -> Bounds | None:
    """Return the bounds of an expression; those of a BOOLEAN are 0 and 1."""
    return TRUTH if value.type == BOOLEAN else value.bounds


def hull(values: Iterable[Typed]) -> Bounds | None:
    """Return the least interval with the bounds of all expressions, without bare NULLs; None if one has none.

    A step is kept if all have the same.
    """
    parts = [bounds_of(v) for v in values if not _is_null(v.node)]
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    steps = {p.step for p in known}
    step = steps.pop() if len(steps) == 1 else None
    return Bounds(min(p.low for p in known), max(p.high for p in known), _origin(known), step)


def _is_null(node: Expr) -> bool:
    """Return whether an expression is a bare NULL, converted or not, which needs no bounds."""
    while isinstance(node, (Paren, Cast)):
        node = node.inner if isinstance(node, Paren) else node.operand
    return isinstance(node, Constant) and node.value is None


def of_greatest(name: str, values: Sequence[Typed]) -> Bounds | None:
    """Return the bounds of GREATEST or LEAST, which skip NULL: at least one of the values is the result.

    A constant is never skipped.
    """
    found = hull(values)
    constants = [b for v in values if not v.reads and (b := v.bounds) is not None]
    if found is None or not constants:
        return found
    if name == "greatest":
        return replace(found, low=max(found.low, *(b.low for b in constants)), step=None)
    return replace(found, high=min(found.high, *(b.high for b in constants)), step=None)


def of_cast(value: Typed, sql_type: SqlType) -> Bounds | None:
    """Return the bounds of an expression after a conversion to another type."""
    found = bounds_of(value)
    if found is None:
        return None
    if value.type == sql_type:
        return found
    pair = (value.type.held.name, sql_type.held.name)
    if sql_type.numeric and (value.type.numeric or value.type == BOOLEAN):
        if sql_type == DOUBLE:
            return replace(found, step=None)
        return _made(_rounded(found, 0 if sql_type.integer else sql_type.scale), [found])
    if pair == ("DATE", "TIMESTAMP"):
        return _made((found.low * DAY, found.high * DAY), [found])
    if pair == ("TIMESTAMP", "DATE"):
        return _made((Fraction(found.low // DAY), Fraction(found.high // DAY)), [found])
    return None


def of_call(name: str, arguments: Sequence[Typed], sql_type: SqlType) -> Bounds | None:
    """Return the bounds of a call of an operator or function; None if its rule or a part is not known.

    The time between two dates has none: a column's range says little of it, which is often far shorter.
    """
    rule = _RULES.get((name.lower(), len(arguments)))
    parts = [b for a in arguments if a.type.numeric and (b := a.bounds) is not None]
    if rule is None or len(parts) < len(arguments) or not sql_type.numeric:
        return None
    return _made(rule(*parts), parts)


def _made(ends: Ends | None, parts: Sequence[Bounds]) -> Bounds | None:
    if ends is None or _long(ends[0]) or _long(ends[1]):
        return None
    only, origin = parts[0] if len(parts) == 1 else None, _origin(parts)
    if only is not None and ends == (only.low, only.high) and only.step is None and origin == only.origin:
        return only
    return Bounds(*ends, origin)


def _long(end: Fraction) -> bool:
    return end.numerator.bit_length() > _LARGEST or end.denominator.bit_length() > _LARGEST


def _origin(parts: Iterable[Bounds]) -> str:
    texts = dict.fromkeys(p.origin for p in parts if p.origin)
    if len(texts) > 1 or any(" and " in text for text in texts):
        texts = dict.fromkeys(origin for text in texts for origin in text.split(" and "))
    return " and ".join(texts)


def _rounded(x: Bounds, digits: int) -> Ends:
    """Round the ends outward: engines differ in how they round halves."""
    if digits >= 0 and x.low.denominator == 1 == x.high.denominator:
        return x.low, x.high
    unit = Fraction(10) ** -digits
    return math.floor(x.low / unit) * unit, math.ceil(x.high / unit) * unit


def _plus(x: Bounds, y: Bounds) -> Ends:
    return x.low + y.low, x.high + y.high


def _minus(x: Bounds, y: Bounds) -> Ends:
    return x.low - y.high, x.high - y.low


def _times(x: Bounds, y: Bounds) -> Ends:
    found = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(found), max(found)


def _over(x: Bounds, y: Bounds) -> Ends | None:
    if y.low <= 0 <= y.high:
        return None
    found = [a / b for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(found), max(found)


def _whole_over(x: Bounds, y: Bounds) -> Ends | None:
    found = _over(x, y)
    return None if found is None else (Fraction(math.trunc(found[0])), Fraction(math.trunc(found[1])))


def _negated(x: Bounds) -> Ends:
    return -x.high, -x.low


def _absolute(x: Bounds) -> Ends:
    return max(Fraction(0), x.low, -x.high), max(x.high, -x.low)


def _each(function: Callable[[Fraction], int]) -> Callable[[Bounds], Ends]:
    """Return the rule of a function that never decreases."""
    return lambda x: (Fraction(function(x.low)), Fraction(function(x.high)))


def _to_digits(x: Bounds, digits: Bounds) -> Ends | None:
    return _rounded(x, int(digits.low)) if digits.low == digits.high and abs(digits.low) <= 30 else None


_RULES: dict[tuple[str, int], Callable[..., Ends | None]] = {
    ("+", 2): _plus,
    ("-", 2): _minus,
    ("*", 2): _times,
    ("/", 2): _over,
    ("//", 2): _whole_over,
    ("neg", 1): _negated,
    ("abs", 1): _absolute,
    ("floor", 1): _each(math.floor),
    ("ceil", 1): _each(math.ceil),
    ("trunc", 1): _each(math.trunc),
    ("round", 1): lambda x: _rounded(x, 0),
    ("round", 2): _to_digits,
    ("trunc", 2): _to_digits,
}
"""The rule of each function, by its name and its number of arguments."""
