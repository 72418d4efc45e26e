"""Public domains of group keys: the values a key may take, computed from public data only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from dpsql.analysis.typed import MAX_LISTED, KeyDomain, Typed
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Join,
    Paren,
    Query,
    Range,
    Select,
    SetOperation,
    Source,
    Unary,
    Values,
    conjunction,
    walk,
)
from dpsql.kernel.tree.groups import in_range
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, NULL, SqlType

_BOTH = Values(tuple((Constant(bool(i), BOOLEAN), Constant(i, INTEGER)) for i in (0, 1)), "r", ("v", "o"))
BOOLEANS = KeyDomain(
    Select((Item(Column("", "v")), Item(Column("", "o"))), _BOTH),
    ordered=True,
    origin="FALSE and TRUE",
    complete=True,
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The combinations of values that some keys can take together: columns `v0`, `v1`, .. of the domain.

    Of one key the column is `v`.
    """

    keys: tuple[int, ...]
    """The places of the keys in GROUP BY."""
    domain: KeyDomain

    @property
    def listed(self) -> tree.Candidates:
        """The same for the kernel."""
        return tree.Candidates(self.domain.query, self.keys, self.domain.null, self.domain.ordered)

    @property
    def long_range(self) -> tree.Numbered | None:
        """The whole numbers that they are, if these are too many for a list."""
        every = integers(self.domain.query)
        if every is None or every.stop - every.start <= MAX_LISTED:
            return None
        return tree.Numbered(self.keys, None, self.domain.null, (every.start, every.stop - 1))

    def joined(self, source: Source, keys: Sequence[Expr], alias: str) -> tuple[Source, list[Expr]]:
        """Join rows with the candidates of their keys; return the source, and conditions on it."""
        every = self.long_range
        if every is not None:
            return source, in_range(keys[self.keys[0]], every.ends, null=every.nullable)
        known = conjunction(self.listed.matched(keys, alias))
        return Join(source, "", Derived(self.domain.query, alias), known), []


_LAST = 2**62
"""The place of NULL in a domain that is no range of integers: behind all others, a constant."""
_IN_BIGINT = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


def integers(query: Query) -> Range | None:
    """Return the range of integers that a domain consists of, perhaps with NULL; None for another domain."""
    match query:
        case SetOperation(
            Select(_, Derived(values, "d")), "UNION ALL", Select((Item(Constant(None), "v"), *_))
        ):
            return integers(values)
        case Select(
            (Item(Cast(Column("", "i"), sql_type), "v"), Item(Column("", "i"), "o")), Range() as every
        ):
            plain = query == Select(query.items, every) and every.step is None
            return every if plain and fits_bigint(sql_type) else None
    return None


def fits_bigint(sql_type: SqlType) -> bool:
    """Return whether every value of an integer type is a BIGINT."""
    return sql_type.name in _IN_BIGINT


def whole(number: int) -> Expr:
    """Return a BIGINT constant."""
    return Constant(number, BIGINT)


def same(value: Expr, other: Expr, *, null: bool) -> Expr:
    """Return the condition that two values are equal; with `null`, NULL equals NULL."""
    return Binary("IS NOT DISTINCT FROM" if null else "=", value, other)


def with_null(domain: KeyDomain) -> KeyDomain:
    """Return a domain with NULL as its last value."""
    values = domain.without_null()
    every = integers(values.query)
    there = IsNull(Column("d", "v"), negated=True) if _may_lack_a_value(values.query) else None
    cells = Select(values.cells, Derived(values.query, "d"), there)
    null = Item(Constant(None, NULL), "v")
    # Values from which NULL was taken out have its place no more, but the kernel knows no ends without it.
    known = [n.value for n in walk(values.query) if isinstance(n, Constant)] if domain.null else []
    after = max((n + 1 for n in known if isinstance(n, int) and n >= _LAST), default=_LAST)
    place = Item(whole(after if every is None else every.stop), "o")
    last = Select((null, place) if values.ordered else (null,))
    return replace(values, query=SetOperation(cells, "UNION ALL", last), null=True)


def _may_lack_a_value(query: Query) -> bool:
    """Return whether values are computed from others: a function may have none."""
    if not isinstance(query, Select) or not query.distinct:
        return False
    values = (item.expr for item in query.items if not isinstance(item.expr, Column))
    return any(query.where != IsNull(value, negated=True) for value in values)


def listed_values(values: Sequence[Expr]) -> KeyDomain:
    """Return the domain that consists of the literals of an IN list."""
    return KeyDomain(
        listed(values, IsNull(Column("", "v"), negated=True)),
        ordered=True,
        origin="the IN list",
        complete=True,
    )


def distinct_values(value: Expr, source: Source, origin: str) -> KeyDomain:
    """Return the domain that consists of the values of an expression over public rows."""
    query = Select((Item(value, "v"),), source, IsNull(value, negated=True), distinct=True)
    return KeyDomain(query, origin=origin)


def cross_join(sources: Sequence[Source]) -> Source:
    """Return all combinations of the rows of several sources."""
    return reduce(lambda left, right: Join(left, "CROSS", right), sources)


def names_of(query: Query) -> list[str]:
    """Return the names of the columns of a query."""
    while isinstance(query, SetOperation):
        query = query.left
    items = query.items if isinstance(query, Select) else ()
    return [i.column for i in items]


def connected(links: Iterable[Collection[str]]) -> list[frozenset[str]]:
    """Return the sets of names that links connect, in order.

    >>> [sorted(s) for s in connected([["a"], ["b", "c"], ["c", "d"]])]
    [['a'], ['b', 'c', 'd']]
    """
    found: list[frozenset[str]] = []
    for link in links:
        if link:
            touched = [s for s in found if s & set(link)]
            found = [s for s in found if s not in touched]
            found.append(frozenset(link).union(*touched))
    return found


def literal_domain(values: Sequence[Typed]) -> KeyDomain | None:
    """Return the domain of an expression that chooses among literals; None if one is not a literal."""
    if any(v.literal is None for v in values):
        return None
    shown = [v.node for v in values if v.literal is not None and v.literal.value is not None]
    return (
        KeyDomain(listed(dict.fromkeys(shown)), ordered=True, origin="the CASE", complete=True)
        if shown
        else None
    )


def listed(values: Iterable[Expr], where: Expr | None = None) -> Select:
    """Return the query of a domain that consists of constants, in their order."""
    v, o = Column("", "v"), Column("", "o")
    rows = tuple((_with_one_zero(node), Constant(i, INTEGER)) for i, node in enumerate(values))
    items = (Item(v), Item(Aggregate("MIN", (o,)), "o"))
    return Select(items, Values(rows, "r", ("v", "o")), where, group=(v,))


def _with_one_zero(node: Expr) -> Expr:
    """Return a constant, 0 for the other zero of DOUBLEs: of equal values a domain has one, as rows do."""
    inner = node
    while isinstance(inner, Paren):
        inner = inner.inner
    if isinstance(inner, Unary) and isinstance(inner.operand, Constant) and inner.operand == _ZERO:
        return _ZERO
    return node


_ZERO = Constant(0.0, DOUBLE)
