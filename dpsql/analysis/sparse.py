"""Domains of many groups, of which only those that are not empty are counted.

A domain is the product of the candidates of its keys. A group is named by its position: the number whose
digits are the places of its keys in their candidates, the last ones the least significant. So the counting
query needs no row for an empty group, and the keys of any group follow from its position. A range of integers
is not even listed: the place of a value is its distance from the first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.domains import Candidates, integers
from dpsql.analysis.groups import CountingQuery, Rows
from dpsql.analysis.typed import KeyDomain
from dpsql.kernel.tree import (
    Call,
    Column,
    Derived,
    Expr,
    Item,
    Numbered,
    OfDomain,
    OrderTerm,
    Query,
    Select,
    Window,
    items,
)
from dpsql.language import AboveThreshold, Selection, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.types import SqlType

MAX_SPARSE = 10**12
"""The most groups of a domain of which only those that are not empty are counted."""


@dataclass(frozen=True, slots=True)
class DomainPart:
    """The candidates of some keys: a list with a number for each, or a range of integers."""

    keys: tuple[int, ...]
    """The places of the keys in GROUP BY."""
    types: tuple[SqlType, ...]
    size: int
    first: int
    """The number of the first candidate; those of the others follow without a gap."""
    query: Query | None
    """The candidates in columns `v0`, .., with their numbers in `p`; None: the keys are the numbers."""
    descending: bool = False
    """Whether the last candidate has the first place."""
    null: int | None = None
    """The number of NULL where the keys are the numbers; None: NULL is none of them, or is in the query."""
    nullable: bool = False
    """Whether NULL may be in the query."""

    @property
    def numbered(self) -> Numbered:
        """The same for the kernel."""
        first = self.first + (self.null == self.first)
        ends = first, first + self.size - 1 - (self.null is not None)
        return Numbered(self.keys, self.query, self.nullable, ends, self.null)


@dataclass(frozen=True, slots=True)
class SparseDomain:
    """A product of candidates; the counting query has the numbers of part i in column `o{i}`.

    The first parts are the most significant, so that positions are a public order of the groups.
    """

    parts: tuple[DomainPart, ...]

    @property
    def size(self) -> int:
        """The number of groups."""
        return prod(part.size for part in self.parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the numbers of each part."""
        return tuple(f"o{i}" for i in range(len(self.parts)))


def size_of(catalog: Catalog, domain: KeyDomain) -> int:
    """Return the number of values of a domain, NULL among them."""
    every = integers(domain.query)
    return catalog.count(domain.sql) if every is None else every.stop - every.start + domain.null


def number_of_groups(catalog: Catalog, domains: Sequence[Candidates]) -> int:
    """Return how many groups candidates make together."""
    return math.prod(size_of(catalog, each.domain) for each in domains)


def selects_few(selection: Selection) -> bool:
    """Return whether a selection shows so many groups at most, so that the empty ones need not be counted."""
    return isinstance(selection, TopK) or (
        isinstance(selection, AboveThreshold) and selection.limit is not None
    )


def sparse_domain(
    catalog: Catalog,
    domains: Sequence[Candidates],
    types: Sequence[SqlType],
    order: Sequence[tuple[int, bool]],
) -> SparseDomain | None:
    """Return the domain of keys of these types, numbered; None if no numbers have the order of some keys.

    `order` has the places of the keys that order the groups by their values, and whether descending. Keys
    behind them have the order of their domain, or of their values if it has none.
    """
    of = {each.keys: each for each in domains}
    by = dict(reversed(order))  # a key that comes again orders no more
    if any((key,) not in of for key in by):
        return None
    first = [key for key, _ in dict.fromkeys((key, by[key]) for key, _ in order)]
    parts = [_part(catalog, of[key,], types, by_value=True, descending=by[key]) for key in first]
    parts += [_part(catalog, each, types) for each in domains if not set(each.keys) & set(first)]
    return SparseDomain(tuple(parts))


def _part(
    catalog: Catalog,
    each: Candidates,
    kinds: Sequence[SqlType],
    *,
    by_value: bool = False,
    descending: bool = False,
) -> DomainPart:
    types, query = tuple(kinds[key] for key in each.keys), each.domain.query
    every = integers(query)
    if every is not None:
        size = every.stop - every.start
        if not each.domain.null:
            return DomainPart(each.keys, types, size, every.start, None, descending)
        # NULL is the last, in either direction.
        null = every.start - 1 if descending else every.stop
        return DomainPart(each.keys, types, size + 1, min(null, every.start), None, descending, null)
    size, values = catalog.count(each.domain.sql), [*each.listed.columns("d").values()]
    number: Expr = Column("d", "o")
    if by_value and descending:
        terms = tuple(OrderTerm(e, "DESC", "LAST") for e in values)
        listed = (*items("v", values), Item(Window(Call("ROW_NUMBER", ()), order=terms), "p"))
        made = Select(listed, Derived(query, "d"))
        return DomainPart(each.keys, types, size, 1, made, nullable=each.domain.null)
    ordered = each.domain.ordered and not by_value
    first: int | None = None
    if ordered and not each.domain.null:  # the place of NULL is none of those that follow without a gap
        first = _first(catalog, each.domain.sql, size)
    if first is None:
        order = tuple(OrderTerm(e) for e in ([number] if ordered else values))
        number, first = Window(Call("ROW_NUMBER", ()), order=order), 1
    listed = (*items("v", values), Item(number, "p"))
    made = Select(listed, Derived(query, "d"))
    return DomainPart(each.keys, types, size, first, made, descending, nullable=each.domain.null)


def _first(catalog: Catalog, sql: str, size: int) -> int | None:
    """Return the least number of an ordered domain if its numbers have no gap."""
    ends = [catalog.evaluate(f"(SELECT {end}(o) FROM ({sql}) AS d)") for end in ("MIN", "MAX")]
    if not all(isinstance(end, int) for end in ends):
        return None
    first, last = (int(str(end)) for end in ends)
    return first if last - first + 1 == size else None


def listed_groups(rows: Rows, domain: SparseDomain) -> CountingQuery:
    """Count the groups of the domain that have rows; each row has the numbers of its keys' candidates."""
    parts = tuple(part.numbered for part in domain.parts)
    return CountingQuery(OfDomain(rows.grouped(), len(rows.released), parts))
