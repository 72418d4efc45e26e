"""`CountedGroups`: what is counted of which rows; and one counting query for several of the same rows.

Statements that differ in what they select of their groups count the same: another number of groups, another
threshold, another epsilon. Where they release other numbers of the same rows, one query counts all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from dpsql.analysis.domains import Candidates
from dpsql.analysis.groups import (
    CountingQuery,
    Rows,
    all_groups,
    groups_with_units,
    largest_groups,
    one_group,
)
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.counts import DistinctValues
from dpsql.errors import InternalError
from dpsql.kernel.tree import Select, duckdb_sql, items
from dpsql.lazy_dataclass import dataclass

_FEWEST = 1024
"""How many of the largest groups are counted at least where counts are shared: others may want more."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedGroups:
    """The rows of a counting query, its groups, and the numbers that it counts of each."""

    rows: Rows
    """The projected rows, of all groups, and the numbers."""
    domains: tuple[Candidates, ...]
    """The domains of all keys; none if a key has no domain."""
    size: int | None
    """The number of groups in the domains; None: that is not known before the data are read."""
    most: int | None = None
    """In how many groups a unit's rows are kept; None: in all."""
    existence: int | None = None
    """The place of the number that decides which groups of undeclared keys there are."""
    outside: bool = False
    """Whether the rows in no group of the domains are one more group, the last; `size` counts it."""
    largest: tuple[int, int] | None = None
    """The place of a number and how many groups, the largest by it, are wanted; one more is counted."""
    shape: tuple[object, ...] = field(init=False, repr=False)
    """What is equal for queries of the same rows and groups, whatever they count of them."""

    def __post_init__(self) -> None:
        # It is written now: where the analysis refuses a statement that is nested too deeply.
        deciding = self.existence if self.largest is None else self.largest[0]
        shape = (
            duckdb_sql(replace(self._projection, items=self._projection.items[: 1 + self.rows.keys])),
            tuple((d.keys, d.domain.ordered, duckdb_sql(d.domain.query)) for d in self.domains),
            self.most,
            self.outside,
            None if deciding is None else self.numbers[deciding],
            self.largest is None,
            self.rows.by_row,
            self.rows.alike,
        )
        object.__setattr__(self, "shape", shape)

    @property
    def _projection(self) -> Select:
        query = self.rows.query
        if not isinstance(query, Select):
            raise InternalError("this is a bug of dpsql, nothing was run or charged: rows that are no SELECT")
        return query

    def counting(self, order: Sequence[tuple[int, bool]] | None) -> CountingQuery:
        """Build the counting query, in the public order of some keys if there is one."""
        rows = self.rows
        if not rows.keys:
            return one_group(rows)
        if self.outside:
            rows = rows.with_outside(self.domains)
            rows = rows if self.most is None else rows.bounded(self.most, ())
            return all_groups(rows, self.domains, order or (), outside=True)
        if self.most is not None:
            rows = rows.bounded(self.most, self.domains)
        elif rows.weighted:
            rows = rows.among(self.domains)
        if self.domains:
            return all_groups(rows, self.domains, order)
        if self.existence is not None:
            return groups_with_units(rows, self.existence)
        if self.largest is None:
            raise InternalError("this is a bug of dpsql, nothing was run or charged: groups of no domain")
        return largest_groups(rows, *self.largest)

    @property
    def numbers(self) -> tuple[ReleasedAggregate, ...]:
        """The numbers of each group, in the order of the columns."""
        return self.rows.released

    @property
    def way(self) -> tuple[bool, bool]:
        """How the rows are counted: by rows weighted by what a unit has in all groups, by different values.

        Numbers that are counted in different ways take longer in one query than in one each.
        """
        parts = [part for number in self.numbers for part in number.parts]
        return any(p.total is not None for p in parts), any(isinstance(p, DistinctValues) for p in parts)

    @property
    def limit(self) -> int | None:
        """How many groups are counted, those with the largest numbers; None: all."""
        return None if self.largest is None else self.largest[1] + 1

    def shared(self, others: Sequence[CountedGroups]) -> CountedGroups:
        """Return the groups with the numbers of others, too; all have the same shape."""
        query = self._projection
        every = (self, *others)
        row = tuple(dict.fromkeys(e for each in every for e in each.rows.row))
        numbers = tuple(dict.fromkeys(n for each in every for n in each.numbers))
        projected = replace(query, items=(*query.items[: 1 + self.rows.keys], *items("f", row)))
        rows = replace(self.rows, query=projected, row=row, released=numbers)
        existence = None if self.existence is None else numbers.index(self.numbers[self.existence])
        largest = None
        if self.largest is not None:
            wanted = max(_FEWEST, *(1 << (limit - 1).bit_length() for e in every if (limit := e.limit)))
            largest = numbers.index(self.numbers[self.largest[0]]), wanted - 1
        return replace(self, rows=rows, existence=existence, largest=largest)
