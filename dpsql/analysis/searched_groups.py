"""Bound the groups of a unit by a search, where units of many groups are counted and nobody bounds them.

All numbers of d groups have noise for a unit that is in all d of them. Where d is large hardly any unit is in
so many: a bound B that few units exceed costs a part of epsilon, and noise for B groups is left.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpsql.analysis.bounds import default_groups
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.ladders import Contribution, Ladder
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.plan import Partitions
from dpsql.analysis.released import ReleasedAggregate
from dpsql.analysis.released.counts import Units, UnitsOfFew
from dpsql.language import AllGroups, Options
from dpsql.tree import conjunction

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

    It is for all groups of declared keys. Which B groups count of a unit in c > B groups is a hash of unit
    and group: each of them does with probability B/c, so a group is short of what a weight would leave out.
    """
    selection = block.selection
    every = isinstance(selection, AllGroups) and selection.limit is None and parts is None
    if not every or size is None or size < MANY_GROUPS or block.one_group or block.values is not None:
        return block
    said = options.max_groups_contributed or default_groups(compiler.policy, block.source)
    if said is not None or not compiler.policy.defaults.auto_bounds or block.rows.by_row or _named(options):
        return block
    counts = tuple(_of_few(compiler, count, size) for count in block.counts)
    return replace(block, counts=counts, rows=replace(block.rows, released=counts))


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
