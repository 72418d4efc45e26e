"""Bounds of calls that are found privately: `contribution_bounds => AUTO`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.grids import in_search, near_and_far
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.released.aggregate import AggregateCall
from dpsql.analysis.typed import Typed
from dpsql.kernel.tree import kept
from dpsql.kernel.tree.exact import whole
from dpsql.types import DOUBLE, HUGEINT, SqlType

HIGHEST = 83
"""The largest bound is 2 to this power, of 2^20 rows with 2^63 least steps; those of a DOUBLE are 2^-20."""
HIGHEST_ROWS = 20
"""The most rows of a unit that may count are 2 to this power."""


def is_auto(named: Sequence[exp.Expr]) -> bool:
    """Return whether the named arguments of a call are `contribution_bounds => AUTO` alone."""
    value = named[0].args.get("expression")
    word = value.name if isinstance(value, (exp.Column, exp.Var)) else ""
    return len(named) == 1 and named[0].name.lower() == "contribution_bounds" and word.upper() == "AUTO"


def rows_ladder(call: AggregateCall, most: int | None = None) -> Ladder:
    """Return the bounds on how many rows of a unit count, up to the least power of two from `most` on."""
    row = kept(whole(1), call.condition())
    top = HIGHEST_ROWS if most is None else min(HIGHEST_ROWS, (most - 1).bit_length())
    ends = most is not None and most <= 1 << top
    return Ladder(Contribution.ROWS, row, 0, Fraction(1), top, call.by_row, ends)


def searched_rows(call: AggregateCall, most: int | None) -> int:
    """Return how many rows of a unit count, found privately; at most as many as somebody said.

    A bound that the statement writes is taken as it is.
    """
    if most is not None and (call.compiler.max_rows is not None or most == 1):
        return most
    found = call.compiler.bound(rows_ladder(call, most))
    return found if most is None else min(most, found)


def has_negatives(kind: SqlType) -> bool:
    """Return whether a type has values below 0."""
    return not kind.integer or kind.signed


def is_signed(value: Typed) -> bool:
    """Return whether values below 0 are to be expected, as far as the type and the policy say.

    The policy's bounds are no promise: only where values are cut at 0 is a sum of them never negative.
    """
    return (value.bounds is None or value.bounds.low < 0) and has_negatives(value.type)


def ladder(call: AggregateCall, value: Typed, of: Contribution) -> Ladder:
    """Return the bounds on what one unit contributes to an aggregate of values."""
    row, scale, step = in_search(value.guarded_node, value.type)
    condition, total = call.condition(), of is Contribution.TOTAL
    counted = kept(row, condition)
    if value.type == DOUBLE and total:
        near, far = (kept(each, condition) for each in near_and_far(value.guarded_node))
        made = Ladder(of, near, scale, step, HIGHEST, call.by_row, type=value.type, far=far)
        if call.compiler.policy.engine != "duckdb":
            return made
        return replace(made, small=kept(value.guarded_node, condition))
    if value.type == DOUBLE:
        return Ladder(of, counted, scale, step, HIGHEST, call.by_row, type=value.type)
    power = power_of(value.type)
    single = call.one_row or call.by_row
    # A value beyond BIGINT has no type in an answer.
    top = min(power + (0 if single else HIGHEST_ROWS), HIGHEST) if total else min(power, 63)
    ends = power <= top and (single or not total)
    return Ladder(of, counted, scale, step, top, call.by_row, ends, value.type)


def power_of(sql_type: SqlType) -> int:
    """Return the least power of two that no value of an exact type exceeds, in its least steps."""
    if sql_type == HUGEINT:
        return 127
    if sql_type.name == "DECIMAL":
        return int(10**sql_type.precision - 1).bit_length()
    return sql_type.bits - sql_type.signed


def searched_ends(call: AggregateCall, value: Typed) -> tuple[Fraction, Fraction]:
    """Return the bounds of values that are found privately, within the ends of their type."""
    highest, lowest = (ladder(call, value, of) for of in (Contribution.HIGHEST, Contribution.LOWEST))
    high = highest.step * call.compiler.bound(highest)
    low = -lowest.step * call.compiler.bound(lowest) if is_signed(value) else Fraction(0)
    if value.type.name == "DECIMAL":
        most = 10**value.type.precision - 1
        low, high = max(low, -most * highest.step), min(high, most * highest.step)
    elif value.type != DOUBLE:
        low, high = max(low, Fraction(-(1 << 63))), min(high, Fraction((1 << 63) - 1))
    return low, high if high > low else high + highest.step
