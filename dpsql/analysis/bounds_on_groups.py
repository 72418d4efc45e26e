"""In how many of its groups a unit is counted, and how much of it counts in each group of a selection.

A selection of the k largest of many groups may have noise for what a unit adds to one group, times 2 k, or
for what it adds to all groups together. Which is better depends on how units are spread over the groups: a
search finds a bound on each, and these say which one answers the statement.

Constants of the statement and of the policy may cut what a unit has, too, where nobody knows how much. Where
facts prove that no unit is beyond a bound, such as a unique key, the number has no such constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis.bound_ladders import ConstantCut, Contribution, Ladder
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.cut_contributions import bound_on_rows, has_bound_of
from dpsql.analysis.large_domains import choose_groups_kept, is_noise_seen
from dpsql.analysis.released import HIGHEST_ROWS, find_default_groups, find_ladder_groups, state_groups
from dpsql.analysis.released.few_groups import FewGroups
from dpsql.analysis.released.first_rows import FirstNumber
from dpsql.analysis.released.quantiles import CellRows
from dpsql.analysis.released.released_calls import find_cells
from dpsql.analysis.released.released_numbers import CappedSum, GroupSum, ReleasedAggregate, UnitNumber
from dpsql.analysis.released.unit_counts import (
    BoundedRows,
    DistinctValues,
    OwnedValues,
    UnitsOfFew,
    WeightedRows,
)
from dpsql.analysis.statement_plan import Partitions
from dpsql.analysis.whole_tables import find_groups_left_out, find_left_out
from dpsql.kernel.tree import kept as kept_value
from dpsql.kernel.tree.exact import whole
from dpsql.language import Options, Selection, TopK

if TYPE_CHECKING:
    from dpsql.analysis.outer_query import OuterQuery
    from dpsql.analysis.released.quantiles import CellRows
    from dpsql.language import Options

FEW_SHOWN = 4
"""So many groups for each that is shown may make a bound on each group much less than one on all groups."""
WORTH_A_SEARCH = 8
"""A bound on each group is searched beside one on all that is known if so large a one would be better."""


def bound_each_group(
    compiler: StatementCompiler, block: OuterQuery, options: Options, size: int | None
) -> OuterQuery:
    """Return a selection by rows or a sum with a bound c on what a unit has in each group, if that is better.

    Laplace noise on all groups is for C, what a unit has in all of them, and selects and measures: intervals
    of what it selects are wide enough for all groups at once. Noisy top-k with gap and the measurements of k
    groups have half of epsilon each, noise for 2 k c, and one noise for all k. At k c <= C the noise that
    selects has at most sqrt(2) times the deviation, and intervals are narrower several times. C is found by a
    search, or known from a kept ladder; a number that the statement or the policy says is taken as it is.
    """
    selection = block.selection
    if not isinstance(selection, TopK) or selection.threshold is not None or len({*block.counts}) > 1:
        return block
    few = size is not None and size > FEW_SHOWN * selection.k and options.mechanism in (None, "AUTO")
    if not few or block.one_group or options.max_groups_contributed is not None or options.noise is not None:
        return block
    count = block.counts[0]
    part = count.parts[0]
    ladder = _make_ladder(compiler, part, searched=not count.measure)
    if ladder is None or not isinstance(part, WeightedRows | CappedSum):
        return block
    if count.measure and part.most < selection.k * WORTH_A_SEARCH:
        return block
    most = compiler.bound(ladder)
    if isinstance(part, WeightedRows):
        bounded = replace(count, parts=(BoundedRows(part.row, most),))
    else:
        most = max(1, math.ceil(most * ladder.step / part.grid.step))
        bounded = _sum_in_each_group(count, part, most)
    if selection.k * most > part.most:
        return block
    counts = (replace(bounded, measure=""),) * len(block.counts)
    rows = block.rows.add_expressions(part.row)  # the condition of rows that counted by their shares
    return replace(block, counts=counts, rows=replace(rows, released=counts[:1]))


def _make_ladder(compiler: StatementCompiler, part: UnitNumber, *, searched: bool) -> Ladder | None:
    """Return the bounds on what a unit has in one group; None where somebody says what it may have in all.

    None also for sums of DOUBLEs that no search of this statement has in steps.
    """
    if isinstance(part, WeightedRows):
        row = kept_value(whole(1), part.row)
        of_all = any(each.of is Contribution.ROWS and each.row == row for each in compiler.ladders)
        if compiler.max_rows is not None or (searched and not of_all):
            return None
        return Ladder(Contribution.ROWS_IN_A_GROUP, row, 0, Fraction(1), HIGHEST_ROWS, by_row=False)
    if not isinstance(part, CappedSum) or part.single:
        return None
    totals = [each for each in compiler.ladders if each.of is Contribution.TOTAL]
    if not searched or len(totals) != 1:
        return None
    return replace(totals[0], of=Contribution.TOTAL_IN_A_GROUP, small=None, ends=False)


def _sum_in_each_group(count: ReleasedAggregate, part: CappedSum, most: int) -> ReleasedAggregate:
    """Return a sum of which each unit's total in a group is cut at so many steps, with its sign."""
    grid = replace(part.grid, low=-most if part.grid.low < 0 else 0, high=most)
    argument = count.argument
    if argument is not None:
        low, high = grid.low * grid.step, grid.high * grid.step
        argument = replace(argument, low=low, high=high, per_group=True, cut=True)
    return replace(count, parts=(GroupSum(part.row, grid, part.scale, part.single),), argument=argument)


def choose_bound_on_groups(
    compiler: StatementCompiler, block: OuterQuery, options: Options, size: int | None
) -> int | None:
    """Return in how many of its groups each unit is counted; None: in all of them."""
    if block.one_group or block.values is not None:  # one noise is for any number of groups
        return None
    written = options.max_groups_contributed
    default = None if block.groups_known else find_default_groups(compiler, block.source, block.selection)
    part = find_cells(block.counts)
    if part is not None and block.existence is None:
        return _choose_bound_for_cells(
            compiler, block, part, written or default, assumed=written is None, size=size
        )
    if written is not None and not is_noise_seen(block.counts, options, size or default):
        written = None
        default = default if size is None else None
    kept = written or default
    if block.existence is not None and block.counts[block.existence].l1_over_groups is not None:
        if written is None and default is not None:
            _assume_groups(compiler, block, default)
        return None
    if block.existence is None:
        kept = choose_groups_kept(block.selection, options, block.counts, size, kept)
    if kept is not None and written is None:
        _assume_groups(compiler, block, kept)
    return kept


def _assume_groups(compiler: StatementCompiler, block: OuterQuery, groups: int) -> None:
    """Note the policy's bound on the groups of a unit; a kept ladder's bound is noted with the answer."""
    if find_ladder_groups(compiler, block.selection) is None:
        compiler.assume(state_groups(block.source, groups))


def _choose_bound_for_cells(
    compiler: StatementCompiler,
    block: OuterQuery,
    part: CellRows,
    most: int | None,
    *,
    assumed: bool,
    size: int | None,
) -> int | None:
    """Return in how many groups a unit's extremes count; the rows of a quantile have a bound of their own."""
    if not part.extreme or most is None or (size is not None and most >= size):
        return None
    if assumed:
        _assume_groups(compiler, block, most)
    return most


_ROWS, _GROUPS = "max_rows_contributed", "max_groups_contributed"


def find_constant_cuts(
    compiler: StatementCompiler,
    counts: Sequence[ReleasedAggregate],
    selection: Selection,
    options: Options,
    *,
    groups: int | None,
    domain_size: int | None,
    partitions: Partitions | None,
) -> tuple[ConstantCut, ...]:
    """Return the constants that may cut; `groups` is how many of them the query keeps of a unit, if any."""
    made = [each for count in counts for each in _cuts_of(compiler, count, options, domain_size)]
    by = _by(options, _GROUPS)
    if groups is not None and not find_groups_left_out(compiler, selection, options):
        made.append(ConstantCut("groups", groups, by))
    if partitions is not None and partitions.bounded:
        made.append(ConstantCut("partitions", partitions.per_unit, by))
    return tuple(dict.fromkeys(made))


def _by(options: Options, name: str) -> str:
    """Return in words where a bound is from, if an option has it, that is written or that was chosen."""
    if getattr(options, name) is None:
        return ""
    return f"as {name} says" if name in options.at else f"chosen for the least noise ({name} says another)"


def _cuts_of(
    compiler: StatementCompiler, count: ReleasedAggregate, options: Options, domain_size: int | None
) -> Iterator[ConstantCut]:
    """Yield the constants that may cut one number."""
    part, of = count.parts[0], {ladder.of for ladder in compiler.ladders}
    searched = any(has_bound_of(count, ladder, compiler.bound(ladder)) for ladder in tuple(compiler.ladders))
    if searched or find_left_out(compiler, count) is not None:
        return
    by_rows, by_groups = _by(options, _ROWS), _by(options, _GROUPS)
    rows = bound_on_rows(count)
    if isinstance(part, CellRows) and not (part.single or part.extreme or Contribution.ROWS in of):
        rows = part.most
    if rows is not None:
        yield ConstantCut("rows", rows, by_rows)
    match part:
        case OwnedValues(most=most):
            yield ConstantCut("different values in a group", most, "")
        case DistinctValues(most=most, kept=True, declared=declared, each=None):
            if Contribution.VALUES not in of and (declared is None or most < declared):
                yield ConstantCut("different values in a group", most, "")
        case UnitsOfFew(most=most) if domain_size is None or most < domain_size:
            yield ConstantCut("groups", most, by_groups)
        case FewGroups(most=most):
            yield ConstantCut("groups", most, by_groups)
        case FirstNumber(most=most, single=False):
            yield ConstantCut("rows", most, by_rows)
