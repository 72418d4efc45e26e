"""The counting query: groups from public domains, released numbers from private rows.

It reads the projected private rows (`u` the hidden unit, `k0`.. the keys, `f0`.. what the numbers depend on)
and has one row for each group: the keys, then the numbers as BIGINT.

NULL is a value of a key as any other. Its group is one more group of the same partition of the rows: a row
is in exactly one group, with or without it. So a unit that is in one group is in one, a unit that is kept to
m groups is in m, what bounds a unit's rows in all groups together bounds them there, too, and no bound on
what a unit changes is larger with it. What changes is the number of groups that one noise is for (k + 1 for
k, k + 2 with the rows in no group).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dpsql.analysis.domains import Candidates
from dpsql.analysis.relation import From, select_list
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.typed import Typed
from dpsql.errors import InternalError
from dpsql.kernel.tree import (
    Aggregate,
    Bounded,
    Column,
    Decided,
    Derived,
    Expr,
    IsNull,
    Item,
    Marked,
    OnDomain,
    Query,
    Select,
    Source,
    Weighted,
    columns,
    conjunction,
    items,
)
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CountingQuery:
    """A counting query, and the columns, if any, that order its groups by public values of all keys."""

    query: Query
    order: tuple[tuple[str, bool], ...] | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The projected private rows, and the numbers that are released of them."""

    query: Query
    keys: int
    row: tuple[Expr, ...]
    """The distinct expressions of a row that the numbers depend on, in order of first use."""
    released: tuple[ReleasedAggregate, ...]
    by_row: bool
    """Whether each row is a privacy unit. All rows then have the same hidden unit."""
    alike: bool = False
    """Whether the query gives the same rows each time it is read (see `rereading`)."""
    ungrouped: Query | None = None
    """The same rows without the groups of the domains, which take a join; None: there are no such rows."""

    @classmethod
    def of(
        cls,
        made: From,
        where: Expr | None,
        keys: Sequence[Typed],
        released: Sequence[ReleasedAggregate],
        more: Iterable[Expr] = (),
        *,
        alike: bool = False,
    ) -> Rows:
        """Project the rows of a FROM clause to the unit, the keys and what the numbers depend on.

        `more` are expressions of a row beside those of the numbers.
        """
        row = tuple(dict.fromkeys([*(e for r in released for p in r.parts for e in p.row), *more]))
        listed = (*select_list(made.unit, "k", (k.guarded_node for k in keys)), *items("f", row))
        by_row = made.owner is None or made.owner.row
        return cls(Select(listed, made.source, where), len(keys), row, tuple(released), by_row, alike)

    def beside(self, more: Sequence[Expr]) -> Rows:
        """Return the same rows with more expressions of a row; before groups are joined to them."""
        query = self.query
        if not isinstance(query, Select) or not more:
            return self
        row = tuple(dict.fromkeys((*self.row, *more)))
        listed = (*query.items[: 1 + self.keys], *items("f", row))
        return replace(self, query=replace(query, items=listed), row=row)

    def grouped(self) -> Query:
        """Return the query of the numbers by group, if need be over one row for each unit and group."""
        own = {e: Column("s", f"f{i}") for i, e in enumerate(self.row)}
        numbers = tuple(tuple(p.counted(*(own[e] for e in p.row)) for p in r.parts) for r in self.released)
        made = Weighted(self.query, self.keys, len(self.row), numbers)
        if self.by_row and not made.by_rows:
            raise InternalError("this is a bug of dpsql, nothing was run or charged: rows by unit")
        return replace(made, alone=self.ungrouped or self.query) if self.alike else made

    def groups_of_units(self, name: str, condition: Sequence[Expr] = ()) -> Select:
        """Return in how many groups each unit has a row that meets a condition, of units in any of them."""
        unit = Column("s", "u")
        by = (unit, *columns("s", "k", self.keys))
        where = conjunction((IsNull(unit, negated=True), *condition))
        each = Select(tuple(map(Item, by)), Derived(self.query, "s"), where, group=by)
        return Select((Item(Aggregate("COUNT"), name),), Derived(each, "g"), group=(Column("g", "u"),))

    @property
    def weighted(self) -> bool:
        """Whether what counts of a unit's rows in a group depends on its rows in other groups."""
        return bool(self.keys) and any(p.total is not None for r in self.released for p in r.parts)

    def among(self, domains: Sequence[Candidates]) -> Rows:
        """Keep the rows that are in a group of the domain; without a domain, all."""
        source: Source = Derived(self.query, "x")
        there: list[Expr] = []
        keys = columns("x", "k", self.keys)
        for i, each in enumerate(domains):
            source, known = each.joined(source, keys, f"d{i}")
            there += known
        names = ["u", *(f"k{i}" for i in range(self.keys)), *(f"f{i}" for i in range(len(self.row)))]
        query = Select(tuple(Item(Column("x", n), n) for n in names), source, conjunction(there))
        return replace(self, query=query, ungrouped=None)

    def bounded(self, groups: int, domains: Sequence[Candidates], by: Sequence[int] = ()) -> Rows:
        """Keep each unit's rows in at most `groups` groups of the domain, chosen by a hash.

        With `by`, the places of some keys, rows are kept in so many combinations of their values. NULL is a
        value of a key as any other, so the group of NULL is one of these: a unit that is in it and in
        `groups` others is kept to `groups` of all of them.
        """
        chosen = [f"k{i}" for i in by or range(self.keys)]
        unit, keys = Column("s", "u"), columns("s", "k", self.keys)
        inside: Source = Derived(self.query, "s")
        conditions: list[Expr] = [IsNull(unit, negated=True)]
        for i, each in enumerate(domains):
            inside, known = each.joined(inside, keys, f"d{i}")
            conditions += known
        there = conjunction(conditions)
        pairs = Select(tuple(Item(Column("s", n)) for n in ("u", *chosen)), inside, there, distinct=True)
        names = (*(f"k{i}" for i in range(self.keys)), *(f"f{i}" for i in range(len(self.row))))
        return replace(self, query=Bounded(self.query, names, tuple(chosen), groups, pairs), ungrouped=None)

    def with_outside(self, domains: Sequence[Candidates]) -> Rows:
        """Add a key that says whether a row is in no candidate group; all other keys of such rows are NULL.

        So all rows whose keys the domains do not list are one group, `outside`, of one partition with the
        candidates. It is formed here, before a unit is kept to some groups or weighed by its rows in all of
        them: it counts as one of these groups, and no bound on what a unit changes is larger with it. Formed
        later, it would be an m+1-th group of a unit that is kept to m candidates.
        """
        parts = tuple(each.long_range or each.listed for each in domains)
        query = Marked(self.query, self.keys, len(self.row), parts)
        return replace(self, query=query, keys=self.keys + 1, ungrouped=self.query)


def one_group(rows: Rows) -> CountingQuery:
    """Count all rows together. The result is one row, so its order is public."""
    return CountingQuery(rows.grouped(), order=())


def all_groups(
    rows: Rows,
    domains: Sequence[Candidates],
    order: Iterable[tuple[int, bool]] | None,
    *,
    cells: Query | None = None,
    outside: bool = False,
) -> CountingQuery:
    """Count every group of the domain, also the empty ones; with the columns of a public order if asked.

    With `cells`, a query for the cells of each group, `n0`, and their rows, `n1`, these are its numbers. With
    `outside`, of `rows.with_outside(domains)`, the rows in no group are the last group, whatever its keys.

    The terms of the order are columns of the domains alone: the keys that the statement names, then for
    every key its place `o` in its domain, or its value where the domain has no order of its own. Both are
    distinct within a domain, so no two groups are equal in all terms, and the order is total. The groups are
    sorted by them where they are received: how an engine orders rows is no proof.
    """
    counts, numbers = cells or rows.grouped(), 2 if cells is not None else len(rows.released)
    listed = tuple(each.listed for each in domains)
    query = OnDomain(counts, numbers, listed, order is not None, outside)
    if order is None:
        return CountingQuery(query)
    ordered = {each.keys[0] for each in listed if each.ordered}
    terms = [(f"o{query.keys}", False)] if outside else []
    terms += [(f"k{i}", descending) for i, descending in order]
    terms += [(f"{'o' if key in ordered else 'k'}{key}", False) for key in range(query.keys)]
    return CountingQuery(query, order=tuple(terms))


def groups_with_units(rows: Rows, place: int) -> CountingQuery:
    """Count all groups of undeclared keys that have a unit; which groups there are is private.

    Their order says nothing: it is that of the engine, and what is released of them is sorted by key.
    """
    return CountingQuery(Decided(rows.grouped(), rows.keys, len(rows.released), place))


def largest_groups(
    rows: Rows, place: int, candidates: int, domains: Sequence[Candidates] = (), by: Sequence[int] = ()
) -> CountingQuery:
    """Count only the `candidates + 1` largest groups; of equal groups, those with the least keys.

    The groups and their order depend on the counts, so the order is not public. Groups with equal counts are
    ordered by their keys, so that the physical order of rows has no influence.

    `by` has the places of the keys that make partitions, if so many of each are counted; the domains are
    theirs, and perhaps of others. A partition without rows is missing.
    """
    listed = tuple(each.listed for each in domains)
    numbers = len(rows.released)
    return CountingQuery(
        Decided(rows.grouped(), rows.keys, numbers, place, candidates + 1, tuple(by), listed)
    )
