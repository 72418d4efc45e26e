"""The queries and items of FROM in the query tree, and the nodes that say which groups a query has.

These nodes take a query of groups, with keys `k0`, .. and numbers `n0`, ..: one row for each group that has
rows. They have all groups of a public domain (`OnDomain`), those of it that have rows (`OfDomain`), or the
largest (`Decided`); `Marked` marks rows by a domain before they are counted. `items` and `columns` make lists
with generated names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial, reduce

from dpsql.kernel.tree.exact import whole
from dpsql.kernel.tree.expressions import (
    Binary,
    Call,
    Case,
    Column,
    Constant,
    IsNull,
    OrderTerm,
    Paren,
    Window,
)
from dpsql.kernel.tree.node import Expr, Lowered, Node, Query, Source, parts
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BOOLEAN, NULL

DOMAIN_SCHEMA = "dpsql_domain"
"""The schema in which the schema database and the private database hold declared domains."""


@dataclass(frozen=True, slots=True, eq=False)
class Item(Node):
    """An item of a select list; an empty `name` stands for an item without AS."""

    expr: Expr
    name: str = ""

    @property
    def column(self) -> str:
        """The name of the column that the item is; "" for an expression without a name."""
        return self.name or (self.expr.name if isinstance(self.expr, Column) else "")


@dataclass(frozen=True, slots=True, eq=False)
class Select(Query):
    """One SELECT. A whole number in `group` is a place in the select list."""

    items: tuple[Item, ...]
    source: Source | None = None
    where: Expr | None = None
    group: tuple[Expr, ...] = ()
    order: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SetOperation(Query):
    """UNION, INTERSECT or EXCEPT (`word`, with ` ALL` or without) of two queries."""

    left: Query
    word: str
    right: Query


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Source):
    """A declared table, private or public."""

    table: str
    alias: str


def list_tables(node: Node) -> frozenset[str]:
    """Return the tables that a node reads, also in queries below it; each query keeps its own."""
    found: frozenset[str] | None = getattr(node, "_tables", None)
    if found is None:
        names, waiting = set[str](), [node]
        for each in waiting:
            if isinstance(each, Scan):
                names.add(each.table)
            elif each is not node and isinstance(each, Query):
                names |= list_tables(each)
            else:
                waiting += parts(each)
        found = frozenset(names)
        if isinstance(node, Query):
            object.__setattr__(node, "_tables", found)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class DomainScan(Source):
    """A table of a declared domain, in the schema of domains; its columns are `v` and `o`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Derived(Source):
    """A query as an item of FROM."""

    query: Query
    alias: str


@dataclass(frozen=True, slots=True, eq=False)
class Values(Source):
    """VALUES with names for its columns."""

    rows: tuple[tuple[Expr, ...], ...]
    alias: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Range(Source):
    """The whole numbers from `start` to below `stop`, as one column."""

    start: int
    stop: int
    step: int | None = None
    alias: str = "r"
    column: str = "i"


@dataclass(frozen=True, slots=True, eq=False)
class Unnest(Source):
    """The items of a list, as column `c0`; it follows a CROSS JOIN."""

    items: Expr
    alias: str


@dataclass(frozen=True, slots=True, eq=False)
class Join(Source):
    """A join; `kind` is CROSS, INNER, LEFT, RIGHT, FULL, SEMI, ANTI, or empty for INNER."""

    left: Source
    kind: str
    right: Source
    on: Expr | None = None


def columns(table: str, prefix: str, count: int) -> tuple[Column, ...]:
    """Return the columns `t.k0`, `t.k1`, .. of an item of FROM."""
    return tuple(Column(table, f"{prefix}{i}") for i in range(count))


def items(prefix: str, expressions: Iterable[Expr]) -> tuple[Item, ...]:
    """Return the items of a select list with the names `k0`, `k1`, .."""
    return tuple(Item(expr, f"{prefix}{i}") for i, expr in enumerate(expressions))


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """Return the conditions joined by AND, an OR among them in parentheses; None if there are none."""
    listed = list(conditions)
    if len(listed) > 1:
        listed = [Paren(c) if isinstance(c, Binary) and c.operator == "OR" else c for c in listed]
    return reduce(partial(Binary, "AND"), listed) if listed else None


def kept(value: Expr, condition: tuple[Expr, ...]) -> Expr:
    """Return a value where a condition holds, else NULL; without a condition, the value."""
    return Case(((condition[0], value),)) if condition else value


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Node):
    """The public values that some keys, by their places, can take together: `v`, or `v0`, .. of several keys.

    `null`: whether NULL may be one, and is equal to itself; `ordered`: whether `o` is their place.
    """

    query: Query
    keys: tuple[int, ...]
    null: bool
    ordered: bool

    def columns(self, table: str) -> dict[int, Column]:
        """Return for each key of the domain the column that holds its candidates."""
        names = ["v"] if len(self.keys) == 1 else [f"v{i}" for i in range(len(self.keys))]
        return {key: Column(table, name) for key, name in zip(self.keys, names, strict=True)}

    def match_keys(self, keys: Sequence[Expr], alias: str) -> list[Expr]:
        """Return the conditions by which the keys of rows equal the values of a candidate."""
        return [_same(keys[key], v, null=self.null) for key, v in self.columns(alias).items()]


def _same(one: Expr, other: Expr, *, null: bool = True) -> Expr:
    return Binary("IS NOT DISTINCT FROM" if null else "=", one, other)


def _numbers(table: str, count: int) -> tuple[Item, ...]:
    """Return numbers that are 0 where there are none."""
    return items("n", (Call("COALESCE", (n, whole(0))) for n in columns(table, "n", count)))


@dataclass(frozen=True, slots=True, eq=False)
class OnDomain(Lowered):
    """Every combination of candidates with the numbers of its group, 0 if it has no rows.

    With `places`, `o0`, .. are the places of candidates that are ordered, by the first of their keys. With
    `outside` the last key of the groups, a truth value, tells the group of all rows whose keys are no
    candidates. It is one more, without keys, and the column `o` with the number of keys is 1 for it alone.

    *Lemma.* The candidates are public, so there is a row for each combination, whatever the rows are. In each
    combination every key has one value, so it is joined with one group at most: that of these keys. If no
    two candidates are equal in their values, no two rows are equal in all keys: each group is met once.
    """

    counts: Query
    numbers: int
    domains: tuple[Candidates, ...]
    places: bool
    outside: bool = False

    @property
    def keys(self) -> int:
        """How many keys of the groups have listed candidates."""
        return sum(len(each.keys) for each in self.domains)

    def _lower(self) -> Query:
        found = {key: v for i, each in enumerate(self.domains) for key, v in each.columns(f"d{i}").items()}
        ordered = {d.keys[0]: Column(f"d{i}", "o") for i, d in enumerate(self.domains) if d.ordered}
        places = {f"o{key}": ordered[key] for key in sorted(ordered)} if self.places else {}
        values = items("k", (found[key] for key in range(self.keys)))
        listed: list[Source] = [Derived(each.query, f"d{i}") for i, each in enumerate(self.domains)]
        every = reduce(lambda left, right: Join(left, "CROSS", right), listed)
        counts, own = Derived(self.counts, "g"), columns("g", "k", self.keys)
        numbers = _numbers("g", self.numbers)
        if not self.outside:
            known = conjunction(c for i, d in enumerate(self.domains) for c in d.match_keys(own, f"d{i}"))
            shown = (*values, *numbers, *(Item(o, name) for name, o in places.items()))
            return Select(shown, Join(every, "LEFT", counts, known))
        mark, keys = f"k{self.keys}", columns("c", "k", self.keys)
        inside = (*values, Item(Constant(False, BOOLEAN), mark), *(Item(o, n) for n, o in places.items()))
        null = items("k", [Constant(None, NULL)] * self.keys)
        last = (*null, Item(Constant(True, BOOLEAN), mark), *(Item(whole(0), name) for name in places))
        both = Derived(SetOperation(Select(inside, every), "UNION ALL", Select(last)), "c")
        same = [_same(a, b) for a, b in zip(own, keys, strict=True)]
        same.append(Binary("=", Column("g", mark), Column("c", mark)))
        place = Case(((Column("c", mark), whole(1)),), whole(0))
        shown = (*items("k", keys), *numbers, Item(place, f"o{self.keys}"))
        shown += tuple(Item(Column("c", name), name) for name in places)
        return Select(shown, Join(both, "LEFT", counts, conjunction(same)))


@dataclass(frozen=True, slots=True, eq=False)
class Decided(Lowered):
    """The groups of which the number at `place` is more than 0: all, or the `most` largest by it.

    With `by`, keys with candidates, so many of each combination of their values that is one of candidates.

    *Lemma.* A row is a group with its numbers, and is there by these alone; of equal ones those with the
    least keys. No two groups are equal in all keys, so the order is total.
    """

    counts: Query
    keys: int
    numbers: int
    place: int
    most: int | None = None
    by: tuple[int, ...] = ()
    domains: tuple[Candidates, ...] = ()

    def _lower(self) -> Query:
        keys, numbers = columns("g", "k", self.keys), columns("g", "n", self.numbers)
        listed = tuple(map(Item, (*keys, *numbers)))
        source: Source = Derived(self.counts, "g")
        there = Binary(">", numbers[self.place], whole(0))
        order = (OrderTerm(numbers[self.place], "DESC"), *map(OrderTerm, keys))
        if self.most is None:
            return Select(listed, source, there)
        if not self.by:
            return Select(listed, source, there, order=order, limit=self.most)
        for i, each in enumerate(self.domains):
            known = conjunction(each.match_keys(keys, f"d{i}"))
            source = Join(source, "", Derived(each.query, f"d{i}"), known)
        rank = Window(Call("ROW_NUMBER", ()), tuple(keys[i] for i in self.by), order)
        ranked = Derived(Select((*listed, Item(rank, "r")), source, there), "h")
        shown = (*columns("h", "k", self.keys), *columns("h", "n", self.numbers))
        return Select(tuple(map(Item, shown)), ranked, Binary("<=", Column("h", "r"), whole(self.most)))


@dataclass(frozen=True, slots=True, eq=False)
class CellsOfDecided(Lowered):
    """The groups of a `Decided` with the cells `n0` of each and their rows `n1`; `n2` is its number.

    *Lemma.* A group without cells has one row, with 0 rows in cell 0. The number of a group is repeated in
    each of its cells, and is one number all the same.
    """

    groups: Decided
    cells: Query

    def _lower(self) -> Query:
        keys = columns("g", "k", self.groups.keys)
        known = conjunction(_same(key, Column("c", key.name)) for key in keys)
        source = Join(Derived(self.groups, "g"), "LEFT", Derived(self.cells, "c"), known)
        listed = (*(Item(key, key.name) for key in keys), *_numbers("c", 2), Item(Column("g", "n0"), "n2"))
        return Select(listed, source)


@dataclass(frozen=True, slots=True, eq=False)
class Numbered(Node):
    """Candidates `v0`, .. of keys, by their places, with a number `p`; without a query a key is the number.

    That lies between two `ends`, and `null`, which does not, is the number of NULL if that is a candidate.
    """

    keys: tuple[int, ...]
    query: Query | None
    nullable: bool = False
    ends: tuple[int, int] = (0, 0)
    null: int | None = None

    def columns(self, table: str) -> dict[int, Column]:
        """Return for each key of the domain the column that holds its candidates."""
        return dict(zip(self.keys, columns(table, "v", len(self.keys)), strict=True))


def in_range(key: Expr, ends: tuple[int, int], *, null: bool) -> list[Expr]:
    """Return the conditions that a key is between two ends, or NULL if that may be."""
    both: list[Expr] = [Binary(">=", key, whole(ends[0])), Binary("<=", key, whole(ends[1]))]
    return [Paren(Binary("OR", IsNull(key), Paren(Binary("AND", *both))))] if null else both


@dataclass(frozen=True, slots=True, eq=False)
class Marked(Lowered):
    """The rows with one more key, which says whether their keys are no candidates; the others are then NULL.

    *Lemma.* If no two candidates are equal in their values, each row has one of them at most. So each row is
    there exactly once, with its unit and the columns `f0`, .. as they are.
    """

    rows: Query
    keys: int
    fields: int
    domains: tuple[Candidates | Numbered, ...]

    def _lower(self) -> Query:
        keys, inside = columns("x", "k", self.keys), list[Expr]()
        made: Source = Derived(self.rows, "x")
        for i, each in enumerate(self.domains):
            if isinstance(each, Numbered):
                key = keys[each.keys[0]]
                inside += in_range(key, each.ends, null=each.nullable)
                inside += [] if each.nullable else [IsNull(key, negated=True)]
                continue
            listed = (*map(Item, each.columns("e").values()), Item(Constant(True, BOOLEAN), "m"))
            known = Derived(Select(listed, Derived(each.query, "e")), f"d{i}")
            made = Join(made, "LEFT", known, conjunction(each.match_keys(keys, f"d{i}")))
            inside.append(IsNull(Column(f"d{i}", "m"), negated=True))
        there = conjunction(map(Paren, inside)) or Constant(True, BOOLEAN)
        own = items("k", (Case(((there, key),)) for key in keys))
        mark = Case(((there, Constant(False, BOOLEAN)),), Constant(True, BOOLEAN))
        shown = (Item(Column("x", "u"), "u"), *own, Item(mark, f"k{self.keys}"))
        return Select((*shown, *items("f", columns("x", "f", self.fields))), made)


@dataclass(frozen=True, slots=True, eq=False)
class OfDomain(Lowered):
    """The groups of a domain that have rows: their numbers, and in `o0`, .. those of their keys' candidates.

    *Lemma.* A group is there if its keys are candidates. If no two of these are equal in their values, it is
    there once; if no two have one number, no two groups are equal in all numbers.
    """

    counts: Query
    numbers: int
    parts: tuple[Numbered, ...]

    def _lower(self) -> Query:
        source: Source = Derived(self.counts, "g")
        there: list[Expr] = []
        numbers: list[Expr] = []
        keys = {key: Column("g", f"k{key}") for part in self.parts for key in part.keys}
        for i, part in enumerate(self.parts):
            if part.query is not None:
                pairs = part.columns(f"d{i}").items()
                known = conjunction(_same(keys[key], v, null=part.nullable) for key, v in pairs)
                source = Join(source, "", Derived(part.query, f"d{i}"), known)
                numbers.append(Column(f"d{i}", "p"))
                continue
            key = keys[part.keys[0]]
            there += in_range(key, part.ends, null=part.null is not None)
            numbers.append(key if part.null is None else Call("COALESCE", (key, whole(part.null))))
        listed = (*map(Item, columns("g", "n", self.numbers)), *items("o", numbers))
        return Select(listed, source, conjunction(there))
