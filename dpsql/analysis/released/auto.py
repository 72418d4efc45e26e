"""Bounds of calls that are found privately: `contribution_bounds => AUTO`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.grids import searched, whole
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.released.aggregate import AggregateCall
from dpsql.analysis.typed import Typed
from dpsql.tree import kept
from dpsql.types import DOUBLE

_HIGHEST_VALUE = 61
"""The largest bound of values is 2 to this power, in least steps of the type."""
_HIGHEST_ROWS = 20
"""The most rows of a unit that may count are 2 to this power."""


def is_auto(named: Sequence[exp.Expr]) -> bool:
    """Return whether the named arguments of a call are `contribution_bounds => AUTO` alone."""
    value = named[0].args.get("expression")
    word = value.name if isinstance(value, (exp.Column, exp.Var)) else ""
    return len(named) == 1 and named[0].name.lower() == "contribution_bounds" and word.upper() == "AUTO"


def rows_ladder(call: AggregateCall, most: int | None = None) -> Ladder:
    """Return the bounds on how many rows of a unit count, up to the least power of two from `most` on."""
    row = kept(whole(1), call.condition())
    top = _HIGHEST_ROWS if most is None else min(_HIGHEST_ROWS, (most - 1).bit_length())
    return Ladder(Contribution.ROWS, row, 0, Fraction(1), top, call.by_row)


def searched_rows(call: AggregateCall, most: int | None) -> int:
    """Return how many rows of a unit count, found privately; at most as many as somebody said.

    A bound that the statement writes is taken as it is.
    """
    if most is not None and (call.compiler.max_rows is not None or most == 1):
        return most
    found = call.compiler.bound(rows_ladder(call, most))
    return found if most is None else min(most, found)


def is_signed(value: Typed) -> bool:
    """Return whether values below 0 are to be expected, as far as the type and the policy say."""
    bounds, kind = value.bounds, value.type
    return (bounds is None or bounds.low < 0) and (not kind.integer or kind.signed)


def ladder(call: AggregateCall, value: Typed, of: Contribution) -> Ladder:
    """Return the bounds on what one unit contributes to an aggregate of values."""
    grid = searched(value.type, signed=True)
    row, scale = grid.uncut(value.guarded_node)
    condition = call.condition()
    counted = kept(row, condition)
    # Steps grow with the bound, except those of totals of exact numbers.
    exact = of is Contribution.TOTAL and value.type != DOUBLE
    top = call.compiler.highest_power if exact else _HIGHEST_VALUE
    return Ladder(of, counted, scale, grid.step, top, call.by_row)


def searched_ends(call: AggregateCall, value: Typed) -> tuple[Fraction, Fraction]:
    """Return the bounds of values that are found privately."""
    highest, lowest = (ladder(call, value, of) for of in (Contribution.HIGHEST, Contribution.LOWEST))
    high = highest.step * call.compiler.bound(highest)
    low = -lowest.step * call.compiler.bound(lowest) if is_signed(value) else Fraction(0)
    return low, high if high > low else high + highest.step
