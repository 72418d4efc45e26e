"""Bounds of calls that are found privately: `contribution_bounds => AUTO`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.grids import whole
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.released.aggregate import AggregateCall
from dpsql.tree import Case, Expr, IsNull, conjunction

_HIGHEST_ROWS = 20
"""The most rows of a unit that may count are 2 to this power."""


def is_auto(named: Sequence[exp.Expr]) -> bool:
    """Return whether the named arguments of a call are `contribution_bounds => AUTO` alone."""
    value = named[0].args.get("expression")
    word = value.name if isinstance(value, (exp.Column, exp.Var)) else ""
    return len(named) == 1 and named[0].name.lower() == "contribution_bounds" and word.upper() == "AUTO"


def rows_ladder(call: AggregateCall, value: Expr | None = None) -> Ladder:
    """Return the bounds on the rows of a unit that a call aggregates: those with a value, if there is one."""
    there = [] if value is None else [IsNull(value, negated=True)]
    condition = conjunction([*call.condition(), *there])
    row: Expr = whole(1) if condition is None else Case(((condition, whole(1)),))
    return Ladder(Contribution.ROWS, row, 0, Fraction(1), _HIGHEST_ROWS, call.by_row)
