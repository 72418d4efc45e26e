"""Value ranges of DOUBLE arithmetic. Engines that raise on overflow run only what cannot overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.engines.writer.value import Value

__all__ = ["INTEGERS", "product_range", "quotient_range", "sum_range"]

ValueRange = tuple[float, float] | None

INTEGERS: ValueRange = (1.0, 2.0**63)
"""The value range of a BIGINT converted to DOUBLE."""

_LEAST, _MOST = 1e-290, 1e290
_ULP = 2.0**-53


def _within(low: float, high: float) -> ValueRange:
    return (low, high) if low >= _LEAST and high <= _MOST else None


def sum_range(values: list[Value]) -> ValueRange:
    """Return the range of a sum or difference.

    Where the operands cancel, the result is zero or a multiple of the last bit of the smaller one.
    """
    a, b = (v.value_range for v in values)
    if a is None or b is None:
        return None
    return _within(min(a[0], b[0]) * _ULP, a[1] + b[1])


def product_range(values: list[Value]) -> ValueRange:
    """Return the range of a product."""
    a, b = (v.value_range for v in values)
    return None if a is None or b is None else _within(a[0] * b[0], a[1] * b[1])


def quotient_range(values: list[Value]) -> ValueRange:
    """Return the range of a quotient whose divisor is not zero."""
    a, b = (v.value_range for v in values)
    return None if a is None or b is None else _within(a[0] / b[1], a[1] / b[0])
