"""Decide whether groups of undeclared keys are shown by their noisy numbers of units."""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.analysis.bounds import groups_of_unit, unit_name
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.outer_query import OuterQuery
from dpsql.analysis.released.aggregate import Part, ReleasedAggregate
from dpsql.analysis.released.counts import SingleRows, Units, UnitsOfFew
from dpsql.language import AllGroups, Options, Query, TopK
from dpsql.policy import MOST_ROWS

_ORDERED = frozenset({"gap", "p_value", "rank"})


def shown_by_units(
    compiler: StatementCompiler, query: Query, block: OuterQuery, options: Options
) -> OuterQuery:
    """Return the block with the number of units that decides which groups of undeclared keys are shown.

    That is so for all groups. The largest groups by a count of rows are selected from them, if few units
    suffice to show a group: another selection shows none with fewer rows than one unit may have.
    """
    selection = block.selection
    if isinstance(selection, TopK):
        if not _suits(compiler, block, selection, options):
            _check_units(compiler, query, block, selection)
            return block
    elif not isinstance(selection, AllGroups):
        return block
    most = groups_of_unit(compiler, block.source, selection, options, one_group=block.one_group)
    if most is not None and not block.one_group and all(c.total is not None for c in block.counts):
        # What bounds the other counts does not cut rows: only this number needs a bound on groups.
        part: Part = UnitsOfFew((), most)
    else:
        part = SingleRows(()) if block.single else Units(())
    units = ReleasedAggregate((part,))
    counts = block.counts if units in block.counts else (*block.counts, units)
    return replace(
        block, counts=counts, rows=replace(block.rows, released=counts), existence=counts.index(units)
    )


def _check_units(compiler: StatementCompiler, query: Query, block: OuterQuery, selection: TopK) -> None:
    """Refuse to choose by a sum: one unit alone may have the largest."""
    if block.counts[selection.count].share is not None:
        unit = f"COUNT(DISTINCT {unit_name(block.source)})"
        raise compiler.source.refuse(
            f"groups of undeclared keys are chosen by {unit}, not by a SUM",
            query.tree.args.get("order"),
            f"ORDER BY {unit} DESC",
        )


def _suits(compiler: StatementCompiler, block: OuterQuery, selection: TopK, options: Options) -> bool:
    """Return whether the largest groups are selected from those that have enough units."""
    rows = block.counts[selection.count].total
    most = groups_of_unit(compiler, block.source, selection, options, one_group=block.one_group)
    if compiler.ladders:
        rows = MOST_ROWS  # whatever bound is found, the groups are shown by the same numbers
    if rows is None or most is None or options.delta is None or options.epsilon is None:
        return False
    named = (options.mechanism, options.noise, options.measure_strategy, options.candidates)
    if any(each not in (None, "AUTO") for each in named) or options.intervals == "SIMULTANEOUS":
        return False
    if any(output.kind in _ORDERED for output in block.outputs):
        return False
    # Half of epsilon decides in both. The least size that is shown is about this many units, or rows.
    epsilon, delta = float(options.epsilon) / 2, float(options.delta)
    units = 1 + most / epsilon * math.log(most / (2 * delta))
    return units <= rows * (1 + selection.k / epsilon * math.log(1 / delta))
