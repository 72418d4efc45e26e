"""Decide in how many groups each unit counts: in all, in those that the policy says, or in few by a search.

All numbers of d groups have noise for a unit that is in all d of them. Where d is large hardly any unit is in
so many: a bound B that few units exceed costs a part of epsilon, and noise for B groups is left. Of groups of
undeclared keys those are shown that have enough units, more for a larger B.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.analysis.bound_ladders import Contribution, Ladder, WholeTable
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.released import HIGHEST_ROWS, bound_groups, find_default_groups, name_unit
from dpsql.analysis.released.released_calls import AGGREGATED_AFTERWARDS
from dpsql.analysis.released.released_numbers import ReleasedAggregate, UnitNumber
from dpsql.analysis.released.unit_counts import SingleRows, Units, UnitsOfFew
from dpsql.analysis.statement_plan import Partitions
from dpsql.errors import InternalError
from dpsql.estimates.box_law import box_variance
from dpsql.kernel.mechanisms.measure import pads
from dpsql.kernel.tree import Expr, conjunction
from dpsql.language import AllGroups, Options, Query, TopK
from dpsql.policy import MOST_ROWS

_ORDERED = frozenset({"gap", "p_value", "rank"})


def show_by_units(
    compiler: StatementCompiler, query: Query, block: OuterQuery, options: Options
) -> OuterQuery:
    """Return the block with the number of units that decides which groups of undeclared keys are shown.

    That is so for all groups. The largest groups by a count of rows are selected from them, if few units
    suffice to show a group: another selection shows none with fewer rows than one unit may have.
    """
    selection = block.selection
    if isinstance(selection, TopK):
        if not is_shown_by_units(compiler, query, block, selection, options):
            _check_units(compiler, query, block, selection)
            return block
    elif not isinstance(selection, AllGroups):
        return block
    most = bound_groups(compiler, block.source, selection, options, one_group=block.one_group)
    if most is None and may_search_groups(compiler, query, block, options):
        top = HIGHEST_ROWS
        bounded = [_bound_by_search(compiler, count, top, ends=False) for count in block.counts]
        block = _replace_counts(block, bounded)
        most = compiler.bound(_make_ladder((), top, ends=False))
    if most is not None and not block.one_group and all(c.l1_over_groups is not None for c in block.counts):
        # What bounds the other counts does not cut rows: only this number needs a bound on groups.
        part: UnitNumber = UnitsOfFew((), most)
    else:
        part = SingleRows(()) if block.single else Units(())
    units = ReleasedAggregate((part,))
    counts = block.counts if units in block.counts else (*block.counts, units)
    return replace(
        block, counts=counts, rows=replace(block.rows, released=counts), existence=counts.index(units)
    )


def _check_units(compiler: StatementCompiler, query: Query, block: OuterQuery, selection: TopK) -> None:
    """Refuse to choose by a sum: one unit alone may have the largest."""
    if block.counts[selection.count].noise_group is not None:
        unit = f"COUNT(DISTINCT {name_unit(block.source)})"
        raise compiler.source.refuse(
            f"groups of undeclared keys are chosen by {unit}, not by a SUM",
            query.tree.args.get("order"),
            f"ORDER BY {unit} DESC",
        )


def is_shown_by_units(
    compiler: StatementCompiler, query: Query, block: OuterQuery, selection: TopK, options: Options
) -> bool:
    """Return whether the largest groups are selected from those that have enough units."""
    count = block.counts[selection.count]
    rows, (in_a_group, _) = count.l1_over_groups, count.difference
    if rows is None and in_a_group * count.step > 1:
        rows = in_a_group
    most = bound_groups(compiler, block.source, selection, options, one_group=block.one_group)
    if compiler.ladders:
        rows = MOST_ROWS  # whatever bound is found, the groups are shown by the same numbers
    if rows is None or options.delta is None or options.epsilon is None:
        return False
    if _is_noise_named(options) or options.candidates is not None:
        return False
    if any(output.kind in _ORDERED for output in block.outputs):
        return False
    if most is None:
        # Noisy top-k has noise for k times a unit's rows, and it is in no more groups. It has none for sums.
        worse = count.noise_group is not None or (bool(compiler.ladders) and selection.k > 1)
        return worse and may_search_groups(compiler, query, block, options)
    # Half of epsilon decides in both. The least size that is shown is about this many units, or rows.
    epsilon, delta = float(options.epsilon) / 2, float(options.delta)
    units = 1 + most / epsilon * math.log(most / (2 * delta))
    return units <= rows * (1 + selection.k / epsilon * math.log(1 / delta))


MANY_GROUPS = 100
"""From so many groups on the noise for all of them is larger than that for the units of a few."""


def search_few_groups(
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
    if options.max_groups_contributed is not None or _is_noise_named(options):
        return block
    if (kept := _find_ladder(compiler, block)) is not None:
        # Each of them is bounded in all groups together, or has the noise for all: no other bound is needed.
        bound = _choose_bound(kept, size)
        return _replace_counts(
            block, [_bound_by_ladder(count, kept.by, bound) for count in block.counts], known=True
        )
    said = find_default_groups(compiler, block.source, selection)
    if said is not None or size < MANY_GROUPS or not compiler.policy.defaults.auto_bounds:
        return block
    top = max(size - 1, 1).bit_length()
    return _replace_counts(
        block, [_bound_by_search(compiler, count, top, ends=True) for count in block.counts]
    )


def _replace_counts(
    block: OuterQuery, counts: Sequence[ReleasedAggregate], *, known: bool = False
) -> OuterQuery:
    found = tuple(counts)
    return replace(block, counts=found, rows=replace(block.rows, released=found), groups_known=known)


def _find_ladder(compiler: StatementCompiler, block: OuterQuery) -> WholeTable | None:
    """Return the table whose kept ladder has the groups of all units that are counted; None: none has."""
    whole = compiler.whole
    if whole is None or not whole.declared or whole.groups_bound() is None:
        return None
    counts = [count for count in block.counts if count.l1_over_groups is None]
    units = all(map(_counts_units, counts))
    return whole if counts and units and not any(count.parts[0].row for count in counts) else None


def _choose_bound(whole: WholeTable, size: int) -> int | None:
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


def _bound_by_ladder(count: ReleasedAggregate, measure: str, bound: int | None) -> ReleasedAggregate:
    if bound is None or count.l1_over_groups is not None:
        return count
    return replace(count, parts=(UnitsOfFew(count.parts[0].row, bound),), measure=measure)


def _is_noise_named(options: Options) -> bool:
    """Return whether the statement names the noise, which may be for all groups."""
    named = (options.mechanism, options.noise, options.measure_strategy)
    return any(each not in (None, "AUTO") for each in named) or options.intervals == "SIMULTANEOUS"


def may_search_groups(compiler: StatementCompiler, query: Query, block: OuterQuery, options: Options) -> bool:
    """Return whether a search may find in how many groups of undeclared keys a unit counts.

    It may where no number needs another bound than one on all groups together. Groups that are not shown are
    missing in what SQL computes over them: for that somebody has to say the bound.
    """
    if query.tree.meta.get(AGGREGATED_AFTERWARDS) or _is_noise_named(options):
        return False
    return compiler.policy.defaults.auto_bounds and all(
        count.l1_over_groups is not None or _counts_units(count) for count in block.counts
    )


def _counts_units(count: ReleasedAggregate) -> bool:
    """Return whether a count is one number of units, without a bound on their groups."""
    return len(count.parts) == 1 and type(count.parts[0]) is Units


def _bound_by_search(
    compiler: StatementCompiler, count: ReleasedAggregate, top: int, *, ends: bool
) -> ReleasedAggregate:
    if not _counts_units(count):
        return count
    row = count.parts[0].row
    return replace(count, parts=(UnitsOfFew(row, compiler.bound(_make_ladder(row, top, ends=ends))),))


def _make_ladder(row: Sequence[Expr], top: int, *, ends: bool) -> Ladder:
    """Return the bounds on the groups in which a unit has a row that meets conditions."""
    return Ladder(Contribution.GROUPS, conjunction(row), 0, Fraction(1), top, by_row=False, ends=ends)
