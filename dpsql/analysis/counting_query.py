"""The counting query of a release, and the one query that counts for several.

It reads the projected private rows (`u` the hidden unit, `k0`.. the keys, `f0`.. what the numbers depend on)
and has one row for each group: the keys, then the numbers as BIGINT.

NULL is a value of a key as any other. Its group is one more group of the same partition of the rows: a row
is in exactly one group, with or without it. So a unit that is in one group is in one, a unit that is kept to
m groups is in m, what bounds a unit's rows in all groups together bounds them there, too, and no bound on
what a unit changes is larger with it. What changes is the number of groups that one noise is for (k + 1 for
k, k + 2 with the rows in no group).

Statements that differ in what they select of their groups count the same: another number of groups, another
threshold, another epsilon. Where they release other numbers of the same rows, one query counts all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsql.analysis.bound_ladders import Contribution, Ladder
from dpsql.analysis.compiled_relation import From, select_list
from dpsql.analysis.grids import SMALL
from dpsql.analysis.public_domains import Candidates
from dpsql.analysis.released.quantiles import CellRows
from dpsql.analysis.released.released_numbers import ReleasedAggregate
from dpsql.analysis.released.unit_counts import DistinctValues
from dpsql.analysis.typed_expression import Typed
from dpsql.errors import InternalError
from dpsql.kernel.tree import (
    Aggregate,
    Bounded,
    Call,
    CellsOfDecided,
    Column,
    Decided,
    Derived,
    Expr,
    IsNull,
    Item,
    Marked,
    OnDomain,
    Query,
    Sampled,
    Scores,
    Select,
    Source,
    Sums,
    Weighted,
    columns,
    conjunction,
    items,
)
from dpsql.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class CountingQuery:
    """A counting query, and the columns, if any, that order its groups by public values of all keys."""

    query: Query
    order: tuple[tuple[str, bool], ...] | None = None


@dataclass(frozen=True, slots=True)
class ProjectedRows:
    """The projected private rows, and the numbers that are released of them."""

    query: Query
    keys: int
    row: tuple[Expr, ...]
    """The distinct expressions of a row that the numbers depend on, in order of first use."""
    released: tuple[ReleasedAggregate, ...]
    by_row: bool
    """Whether each row is a privacy unit. All rows then have the same hidden unit."""
    alike: bool = False
    """Whether the query gives the same rows each time it is read (`schema_catalog.has_stable_reads`)."""
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
    ) -> ProjectedRows:
        """Project the rows of a FROM clause to the unit, the keys and what the numbers depend on.

        `more` are expressions of a row beside those of the numbers.
        """
        row = tuple(dict.fromkeys([*(e for r in released for p in r.parts for e in p.fields), *more]))
        listed = (*select_list(made.unit, "k", (k.guarded_node for k in keys)), *items("f", row))
        by_row = made.owner is None or made.owner.row
        return cls(Select(listed, made.source, where), len(keys), row, tuple(released), by_row, alike)

    def add_expressions(self, more: Sequence[Expr]) -> ProjectedRows:
        """Return the same rows with more expressions of a row; before groups are joined to them."""
        query = self.query
        if not isinstance(query, Select) or not more:
            return self
        row = tuple(dict.fromkeys((*self.row, *more)))
        listed = (*query.items[: 1 + self.keys], *items("f", row))
        return replace(self, query=replace(query, items=listed), row=row)

    def count_by_group(self) -> Query:
        """Return the query of the numbers by group, if need be over one row for each unit and group."""
        own = {e: Column("s", f"f{i}") for i, e in enumerate(self.row)}
        numbers = tuple(
            tuple(p.build_counted(*(own[e] for e in p.fields)) for p in r.parts) for r in self.released
        )
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
        return bool(self.keys) and any(p.l1_over_groups is not None for r in self.released for p in r.parts)

    def keep_candidates(self, domains: Sequence[Candidates]) -> ProjectedRows:
        """Keep the rows that are in a group of the domain; without a domain, all."""
        source: Source = Derived(self.query, "x")
        there: list[Expr] = []
        keys = columns("x", "k", self.keys)
        for i, each in enumerate(domains):
            source, known = each.join_rows(source, keys, f"d{i}")
            there += known
        names = ["u", *(f"k{i}" for i in range(self.keys)), *(f"f{i}" for i in range(len(self.row)))]
        query = Select(tuple(Item(Column("x", n), n) for n in names), source, conjunction(there))
        return replace(self, query=query, ungrouped=None)

    def bound_groups(
        self, groups: int, domains: Sequence[Candidates], by: Sequence[int] = ()
    ) -> ProjectedRows:
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
            inside, known = each.join_rows(inside, keys, f"d{i}")
            conditions += known
        there = conjunction(conditions)
        pairs = Select(tuple(Item(Column("s", n)) for n in ("u", *chosen)), inside, there, distinct=True)
        names = (*(f"k{i}" for i in range(self.keys)), *(f"f{i}" for i in range(len(self.row))))
        return replace(self, query=Bounded(self.query, names, tuple(chosen), groups, pairs), ungrouped=None)

    def add_outside(self, domains: Sequence[Candidates]) -> ProjectedRows:
        """Add a key that says whether a row is in no candidate group; all other keys of such rows are NULL.

        So all rows whose keys the domains do not list are one group, `outside`, of one partition with the
        candidates. It is formed here, before a unit is kept to some groups or weighed by its rows in all of
        them: it counts as one of these groups, and no bound on what a unit changes is larger with it. Formed
        later, it would be an m+1-th group of a unit that is kept to m candidates.
        """
        parts = tuple(each.long_range or each.listed for each in domains)
        query = Marked(self.query, self.keys, len(self.row), parts)
        return replace(self, query=query, keys=self.keys + 1, ungrouped=self.query)


def count_all_groups(
    rows: ProjectedRows,
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
    counts, numbers = cells or rows.count_by_group(), 2 if cells is not None else len(rows.released)
    listed = tuple(each.listed for each in domains)
    query = OnDomain(counts, numbers, listed, order is not None, outside)
    if order is None:
        return CountingQuery(query)
    ordered = {each.keys[0] for each in listed if each.ordered}
    terms = [(f"o{query.keys}", False)] if outside else []
    terms += [(f"k{i}", descending) for i, descending in order]
    terms += [(f"{'o' if key in ordered else 'k'}{key}", False) for key in range(query.keys)]
    return CountingQuery(query, order=tuple(terms))


def count_largest_groups(
    rows: ProjectedRows,
    place: int,
    candidates: int,
    domains: Sequence[Candidates] = (),
    by: Sequence[int] = (),
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
        Decided(rows.count_by_group(), rows.keys, numbers, place, candidates + 1, tuple(by), listed)
    )


_FEWEST = 1024
"""How many of the largest groups are counted at least where counts are shared: others may want more."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedGroups:
    """The rows of a counting query, its groups, and the numbers that it counts of each."""

    rows: ProjectedRows
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

    @property
    def shape(self) -> tuple[object, ...]:
        """What is equal for queries of the same rows and groups, whatever they count of them."""
        deciding = self.existence if self.largest is None else self.largest[0]
        return (
            replace(self._projection, items=self._projection.items[: 1 + self.rows.keys]),
            tuple((d.keys, d.domain.ordered, d.domain.query) for d in self.domains),
            self.most,
            self.outside,
            None if deciding is None else self.numbers[deciding],
            self.largest is None,
            self.rows.by_row,
            self.rows.alike,
        )

    @property
    def _projection(self) -> Select:
        query = self.rows.query
        if not isinstance(query, Select):
            raise InternalError("this is a bug of dpsql, nothing was run or charged: rows that are no SELECT")
        return query

    def build_query(self, order: Sequence[tuple[int, bool]] | None) -> CountingQuery:
        """Build the counting query, in the public order of some keys if there is one."""
        rows = self.rows
        if not rows.keys:
            return CountingQuery(rows.count_by_group(), order=())
        if self.outside:
            rows = rows.add_outside(self.domains)
            rows = rows if self.most is None else rows.bound_groups(self.most, ())
            return count_all_groups(rows, self.domains, order or (), outside=True)
        if self.most is not None:
            rows = rows.bound_groups(self.most, self.domains)
        elif rows.weighted:
            rows = rows.keep_candidates(self.domains)
        if self.domains:
            return count_all_groups(rows, self.domains, order)
        if self.existence is not None:  # which groups there are is private; their order says nothing
            return CountingQuery(
                Decided(rows.count_by_group(), rows.keys, len(rows.released), self.existence)
            )
        if self.largest is None:
            raise InternalError("this is a bug of dpsql, nothing was run or charged: groups of no domain")
        return count_largest_groups(rows, *self.largest)

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
        return any(p.l1_over_groups is not None for p in parts), any(
            isinstance(p, DistinctValues) for p in parts
        )

    @property
    def limit(self) -> int | None:
        """How many groups are counted, those with the largest numbers; None: all groups."""
        return None if self.largest is None else self.largest[1] + 1

    def merge(self, others: Sequence[CountedGroups]) -> CountedGroups:
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


def count_cells_of_all(
    rows: ProjectedRows, domains: Sequence[Candidates], part: CellRows, order: Iterable[tuple[int, bool]]
) -> CountingQuery:
    """Count the rows of each group of the domain and each of its cells: the cell in `n0`, its rows in `n1`.

    A group without rows has one row, with 0 rows in cell 0. Which cells a group has is private; the order of
    the groups is public, as that of `count_all_groups`.
    """
    return count_all_groups(rows, domains, order, cells=list_cells(rows, part))


def count_cells_of_one(rows: ProjectedRows, part: CellRows) -> CountingQuery:
    """Count the rows of each cell, of all rows together; without any, there is none."""
    return CountingQuery(list_cells(rows, part), order=())


def count_cells_of_existing(rows: ProjectedRows, part: CellRows, units: ReleasedAggregate) -> CountingQuery:
    """Count the rows of the cells of all groups that have a unit, with the units of the group in `n2`.

    Which groups there are is private, and their order says nothing, as in `count_groups_with_units`.
    """
    groups = Decided(replace(rows, released=(units,)).count_by_group(), rows.keys, 1, 0)
    return CountingQuery(CellsOfDecided(groups, list_cells(rows, part)))


def list_cells(rows: ProjectedRows, part: CellRows) -> Query:
    """Return the keys, the cells `n0` and the numbers of their rows `n1`, of the rows that units keep.

    For an extreme a unit keeps one row in each group, with its least or greatest cell.
    """
    one = "rows" if rows.by_row or part.single else part.extreme or None
    return Sampled(rows.query, rows.keys, part.most, one)


def score_rungs(rows: ProjectedRows, ladder: Ladder, *, server: bool = False) -> Query:
    """Return the query of the scores of bounds (`kernel.tree.scores`): units alone are grouped."""
    terms = [Column("s", f"f{rows.row.index(each)}") for each in ladder.rows]
    source = Derived(_select_only(rows.query, *(term.name for term in terms)), "s")
    unit, keys = Column("s", "u"), bool(rows.keys)
    if ladder.of is Contribution.GROUPS:
        units = rows.groups_of_units("t", terms)
    elif not terms:
        raise InternalError("all but groups are searched by a value of rows")
    elif rows.by_row:
        units = Select((Item(ladder.measure_row(terms), "t"),), source)
    elif ladder.of_one_group:
        by = (unit, *columns("s", "k", rows.keys))
        each = Select(
            (*map(Item, by), Item(ladder.measure_unit(terms, keys=keys), "n")),
            Derived(rows.query, "s"),
            IsNull(unit, negated=True),
            group=by,
        )
        most = Aggregate("MAX", (Column("g", "n"),))
        units = Select((Item(most, "t"),), Derived(each, "g"), group=(Column("g", "u"),))
    else:
        there, own = IsNull(unit, negated=True), ladder.measure_unit(terms, keys=keys)
        units = Select((Item(own, "t"),), source, there, group=(unit,))
    sums = ladder.choose_sums(keys=keys)
    signed = sums is Sums.SIGNED
    units, fine = units if signed else _size_of_units(ladder, units), None if keys else ladder.fine
    return Scores(units, ladder.bounds, ladder.by_excess, ladder.wide, sums, fine, server, signed)


def score_rungs_of_small(rows: ProjectedRows, ladder: Ladder) -> tuple[tuple[Query, int], ...]:
    """Return a query with the scores of `score_rungs` if no unit exceeds all of its bounds, and their number.

    DuckDB sums DOUBLEs faster than HUGEINTs: of units with small totals of values from 0 on. Any other unit
    exceeds all of these bounds.
    """
    if ladder.small is None or rows.by_row or ladder.small not in rows.row:
        return ()
    unit, keys, name = Column("s", "u"), bool(rows.keys), f"f{rows.row.index(ladder.small)}"
    own, there = ladder.measure_small_unit(Column("s", name)), IsNull(unit, negated=True)
    units = Select((Item(own, "t"),), Derived(_select_only(rows.query, name), "s"), there, group=(unit,))
    bounds = tuple(bound for bound in ladder.bounds if bound < SMALL)
    sized = Select((Item(Column("x", "t"), "a"),), Derived(units, "x"))
    sums, fine = ladder.choose_sums(keys=keys), None if keys else ladder.fine
    return ((Scores(sized, bounds, True, False, sums, fine), len(bounds)),)


def _size_of_units(ladder: Ladder, units: Select) -> Select:
    """Return what units have, from `t`: as `t` and as `a` without its sign."""
    total = Column("x", "t")
    signed = ladder.of in (Contribution.TOTAL, Contribution.TOTAL_IN_A_GROUP)
    size = Call("abs", (total,)) if signed else total
    return Select((Item(size, "a"), Item(total)), Derived(units, "x"))


def _select_only(query: Query, *names: str) -> Query:
    """Return rows with their unit and some of the columns alone: a shorter text is planned faster."""
    if isinstance(query, Bounded):
        return replace(query, columns=tuple(name for name in query.columns if name in names))
    if not isinstance(query, Select) or query.distinct:
        return query
    return replace(query, items=tuple(item for item in query.items if item.name in ("u", *names)))
