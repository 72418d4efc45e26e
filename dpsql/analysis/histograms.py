"""The counting query of quantiles and extremes: for each group, the rows of each cell of the values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpsql.analysis.domains import Candidates
from dpsql.analysis.groups import CountingQuery, Rows, all_groups
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.cells import CellRows
from dpsql.kernel.tree import (
    CellsOfDecided,
    Decided,
    Query,
    Sampled,
)


def cells_of_all(
    rows: Rows, domains: Sequence[Candidates], part: CellRows, order: Iterable[tuple[int, bool]]
) -> CountingQuery:
    """Count the rows of each group of the domain and each of its cells: the cell in `n0`, its rows in `n1`.

    A group without rows has one row, with 0 rows in cell 0. Which cells a group has is private; the order of
    the groups is public, as that of `all_groups`.
    """
    return all_groups(rows, domains, order, cells=cells(rows, part))


def cells_of_one(rows: Rows, part: CellRows) -> CountingQuery:
    """Count the rows of each cell, of all rows together; without any, there is none."""
    return CountingQuery(cells(rows, part), order=())


def cells_of_existing(rows: Rows, part: CellRows, units: ReleasedAggregate) -> CountingQuery:
    """Count the rows of the cells of all groups that have a unit, with the units of the group in `n2`.

    Which groups there are is private, and their order says nothing, as in `groups_with_units`.
    """
    groups = Decided(replace(rows, released=(units,)).grouped(), rows.keys, 1, 0)
    return CountingQuery(CellsOfDecided(groups, cells(rows, part)))


def cells(rows: Rows, part: CellRows) -> Query:
    """Return the keys, the cells `n0` and the numbers of their rows `n1`, of the rows that units keep.

    For an extreme a unit keeps one row in each group, with its least or greatest cell.
    """
    one = "rows" if rows.by_row or part.single else part.extreme or None
    return Sampled(rows.query, rows.keys, part.most, one)
