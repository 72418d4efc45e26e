"""Bound the groups of a unit by a search, where units of many groups are counted and nobody bounds them.

All numbers of d groups have noise for a unit that is in all d of them. Where d is large hardly any unit is in
so many: a bound B that few units exceed costs a part of epsilon, and noise for B groups is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.analysis.bounds import default_groups
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.kept_bounds import WholeTable
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.plan import Partitions
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.counts import Units, UnitsOfFew
from dpsql.errors import InternalError
from dpsql.estimates.box import box_variance
from dpsql.kernel.mechanisms.box import pads
from dpsql.kernel.tree import conjunction
from dpsql.language import AllGroups, Options

MANY_GROUPS = 100
"""From so many groups on the noise for all of them is larger than that for the units of a few."""


def with_few_groups(
    compiler: StatementCompiler,
    block: OuterQuery,
    options: Options,
    size: int | None,
    parts: Partitions | None,
) -> OuterQuery:
    """Return the block with units that count in a bounded number of groups, which a search finds.

    The kept ladder of the keys comes before a search, and before the policy's number. It is for all groups of
    declared keys. Which B groups count of a unit in c > B groups is a hash of unit and group: each of them
    does with probability B/c, so a group is short of what a weight would leave out.
    """
    selection = block.selection
    every = isinstance(selection, AllGroups) and selection.limit is None and parts is None
    if not every or size is None or block.one_group or block.values is not None or block.rows.by_row:
        return block
    if options.max_groups_contributed is not None or _named(options):
        return block
    if (kept := _by_ladder(compiler, block)) is not None:
        # Each of them is bounded in all groups together, or has the noise for all: no other bound is needed.
        bound = _least_error(kept, size)
        return _with(block, [_kept(count, kept.by, bound) for count in block.counts], known=True)
    said = default_groups(compiler, block.source, selection)
    if said is not None or size < MANY_GROUPS or not compiler.policy.defaults.auto_bounds:
        return block
    return _with(block, [_of_few(compiler, count, size) for count in block.counts])


def _with(block: OuterQuery, counts: Sequence[ReleasedAggregate], *, known: bool = False) -> OuterQuery:
    found = tuple(counts)
    return replace(block, counts=found, rows=replace(block.rows, released=found), groups_known=known)


def _by_ladder(compiler: StatementCompiler, block: OuterQuery) -> WholeTable | None:
    """Return the table whose kept ladder has the groups of all units that are counted; None: none has."""
    whole = compiler.whole
    if whole is None or not whole.declared or whole.groups_bound() is None:
        return None
    counts = [count for count in block.counts if count.total is None]
    units = all(len(count.parts) == 1 and type(count.parts[0]) is Units for count in counts)
    return whole if counts and units and not any(count.parts[0].row for count in counts) else None


def _least_error(whole: WholeTable, size: int) -> int | None:
    """Return the bound on the groups of a unit, unless one noise for all groups errs less; then None.

    What is compared is a function of the ladder's release. An error that is asked for takes the ladder's
    bound where its noise is less.
    """
    bound, kept = whole.groups_bound(), whole.ladders.find(whole.table, whole.by)
    if bound is None or kept is None:
        raise InternalError("this is a bug of dpsql, nothing was run or charged: a ladder was lost")
    lost = 0.0
    if whole.epsilon is not None:
        lost = kept.ladder.cut(bound) * float(whole.epsilon) / (2 * whole.groups)
    number = size * whole.numbers
    return bound if 2 * (bound * whole.numbers) ** 2 + lost**2 < box_variance(number, pads(number)) else None


def _kept(count: ReleasedAggregate, measure: str, bound: int | None) -> ReleasedAggregate:
    if bound is None or count.total is not None:
        return count
    return replace(count, parts=(UnitsOfFew(count.parts[0].row, bound),), measure=measure)


def _named(options: Options) -> bool:
    """Return whether the statement names the noise, which may be for all groups."""
    named = (options.mechanism, options.noise, options.measure_strategy)
    return any(each not in (None, "AUTO") for each in named) or options.intervals == "SIMULTANEOUS"


def _of_few(compiler: StatementCompiler, count: ReleasedAggregate, size: int) -> ReleasedAggregate:
    if len(count.parts) != 1 or type(count.parts[0]) is not Units:
        return count
    row = count.parts[0].row
    top = max(size - 1, 1).bit_length()
    ladder = Ladder(Contribution.GROUPS, conjunction(row), 0, Fraction(1), top, by_row=False, ends=True)
    return replace(count, parts=(UnitsOfFew(row, compiler.bound(ladder)),))
