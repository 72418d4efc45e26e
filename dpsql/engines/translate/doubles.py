"""How large results of DOUBLE arithmetic can be: engines that raise on overflow get only what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.engines.translate.value import Value

__all__ = ["INTEGERS", "added", "bounded", "divided", "multiplied"]

Spread = tuple[float, float] | None

INTEGERS: Spread = (1.0, 2.0**63)
"""Of a BIGINT read as DOUBLE."""

_LEAST, _MOST = 1e-290, 1e290
_ULP = 2.0**-53


def bounded(values: list[Value]) -> bool:
    """Whether all values are known to be finite."""
    return all(v.spread is not None for v in values)


def _within(low: float, high: float) -> Spread:
    return (low, high) if low >= _LEAST and high <= _MOST else None


def added(values: list[Value]) -> Spread:
    """Of a sum or difference; what cancels leaves a multiple of the smaller one's last bit."""
    a, b = (v.spread for v in values)
    if a is None or b is None:
        return None
    return _within(min(a[0], b[0]) * _ULP, a[1] + b[1])


def multiplied(values: list[Value]) -> Spread:
    """Of a product."""
    a, b = (v.spread for v in values)
    return None if a is None or b is None else _within(a[0] * b[0], a[1] * b[1])


def divided(values: list[Value]) -> Spread:
    """Of a quotient whose divisor is not zero."""
    a, b = (v.spread for v in values)
    return None if a is None or b is None else _within(a[0] / b[1], a[1] / b[0])
