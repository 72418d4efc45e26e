"""In how many of its groups a unit is counted, and how many of its rows in each group of a selection.

A selection of the k largest of many groups may have noise for what a unit adds to one group, times 2 k, or
for what it adds to all groups together. Which is less depends on how units are spread over the groups: a
search finds a bound on each, and the statement is answered with the one whose noise is less.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.analysis.bound_ladders import ROWS, Contribution, Ladder
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.large_domains import choose_groups_kept, is_noise_seen
from dpsql.analysis.released import HIGHEST_ROWS, find_default_groups, find_ladder_groups, state_groups
from dpsql.analysis.released.released_calls import find_cells
from dpsql.analysis.released.unit_counts import BoundedRows, WeightedRows
from dpsql.kernel.tree import kept as kept_value
from dpsql.kernel.tree.exact import whole
from dpsql.language import TopK

if TYPE_CHECKING:
    from dpsql.analysis.outer_query import OuterQuery
    from dpsql.analysis.released.quantiles import CellRows
    from dpsql.language import Options

FEW_SHOWN = 4
"""So many groups for each that is shown may make a bound on the rows in each group less than one on all."""
WORTH_A_SEARCH = 8
"""So many rows in a group at least must leave less noise than a bound that is known, to be searched."""


def bound_rows_in_groups(
    compiler: StatementCompiler, block: OuterQuery, options: Options, size: int | None
) -> OuterQuery:
    """Return a selection by a number of rows with a bound c on each group, where its noise is less.

    Laplace noise on all groups is for C, the rows of a unit in all of them. Noisy top-k with gap and the
    measurements of k groups have half of epsilon each: noise for 2 k c. At 2 k c <= C neither is larger, and
    the measurements have one noise for all k. C is found by a search, or known from a kept ladder; a number
    that the statement or the policy says is taken as it is.
    """
    selection, bound = block.selection, _find_rows_bound(compiler, block)
    if bound is None or not isinstance(selection, TopK) or selection.threshold is not None:
        return block
    few = size is not None and size > FEW_SHOWN * selection.k and options.mechanism in (None, "AUTO")
    if not few or options.max_groups_contributed is not None or options.noise is not None:
        return block
    times = 2 * selection.k
    if compiler.whole is not None and bound.most < times * WORTH_A_SEARCH:
        return block
    row = kept_value(whole(1), bound.row)
    found = compiler.bound(
        Ladder(Contribution.ROWS_IN_A_GROUP, row, 0, Fraction(1), HIGHEST_ROWS, by_row=False)
    )
    if times * found > bound.most:
        return block
    counts = (replace(block.counts[0], parts=(BoundedRows(bound.row, found),), measure=""),)
    return replace(block, counts=counts, rows=replace(block.rows, released=counts))


def _find_rows_bound(compiler: StatementCompiler, block: OuterQuery) -> WeightedRows | None:
    """Return the number of rows that the statement releases alone, of which a search or a ladder bounds all.

    None: it releases other numbers, or somebody says how many rows of a unit count.
    """
    part = block.counts[0].parts[0] if len({*block.counts}) == 1 else None
    if not isinstance(part, WeightedRows) or block.one_group or compiler.max_rows is not None:
        return None
    row = kept_value(whole(1), part.row)
    searched = any(each.of is Contribution.ROWS and each.row == row for each in compiler.ladders)
    return part if searched or block.counts[0].measure == ROWS else None


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
