"""In how many of its groups a unit is counted, as the statement, the policy or a kept ladder says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.large_domains import choose_groups_kept, is_noise_seen
from dpsql.analysis.released import find_default_groups, find_ladder_groups, state_groups
from dpsql.analysis.released.released_calls import find_cells

if TYPE_CHECKING:
    from dpsql.analysis.outer_query import OuterQuery
    from dpsql.analysis.released.quantiles import CellRows
    from dpsql.language import Options


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
