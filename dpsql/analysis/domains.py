"""Public domains of group keys: the values a key may take, computed from public data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.expressions import listed
from dpsql.analysis.relation import Scope
from dpsql.analysis.typed import KeyDomain, Typed
from dpsql.tree import (
    Column,
    Constant,
    Derived,
    Expr,
    IsNull,
    Item,
    Join,
    Query,
    Select,
    SetOperation,
    Source,
    Values,
    duckdb_sql,
)
from dpsql.types import BOOLEAN, INTEGER, NULL

_BOTH = Values(tuple((Constant(bool(i), BOOLEAN), Constant(i, INTEGER)) for i in (0, 1)), "r", ("v", "o"))
BOOLEANS = KeyDomain(
    Select((Item(Column("", "v")), Item(Column("", "o"))), _BOTH), ordered=True, origin="FALSE and TRUE"
)


MAX_IMAGE = 1_000_000
"""The largest number of combinations of column values that an expression is evaluated on."""


def with_domain(catalog: Catalog, value: Typed, scope: Scope) -> Typed:
    """Return the expression with its public domain: of its column, of its type, or computed by `image`."""
    if value.domain is not None:
        return value
    if value.type == BOOLEAN:
        return replace(value, domain=BOOLEANS)
    columns = {name: c for c in scope.columns for name in c.reads}
    if len(value.reads) > 1:
        listed = [_listed(value, name, columns) for name in value.reads]
        sizes = [catalog.count(duckdb_sql(d.query)) + 1 for d in listed if d is not None]
        if len(sizes) == len(value.reads) and prod(sizes) > MAX_IMAGE:
            return value
    return replace(value, domain=image(value, columns))


def listed_values(values: Sequence[Expr]) -> KeyDomain:
    """Return the domain that consists of the literals of an IN list."""
    return KeyDomain(
        listed(values, IsNull(Column("", "v"), negated=True)), ordered=True, origin="the IN list"
    )


def image(value: Typed, columns: Mapping[str, Typed]) -> KeyDomain | None:
    """Return the values of an expression when its columns range over their domains and NULL.

    `columns` maps generated names (`t1.c0`) to the columns. The result is None if one of them has no
    public domain. The generated names are kept, so the text of the expression is evaluated unchanged.
    """
    if not value.reads:
        return None
    tables: dict[str, list[tuple[str, KeyDomain]]] = {}
    for name in sorted(value.reads):
        domain = _listed(value, name, columns)
        if domain is None:
            return None
        node = columns[name].node
        assert isinstance(node, Column)  # noqa: S101  the columns of an origin are columns
        tables.setdefault(node.table, []).append((node.name, domain))
    sources: list[Source] = []
    for table, parts in tables.items():
        ranges = [Derived(_or_null(domain, name), f"d_{name}") for name, domain in parts]
        cells = tuple(Item(Column(f"d_{name}", name)) for name, _ in parts)
        sources.append(Derived(Select(cells, cross_join(ranges)), table))
    origins = " and ".join(dict.fromkeys(d.origin for parts in tables.values() for _, d in parts))
    return distinct_values(value.guarded_node, cross_join(sources), f"computed from {origins}")


def _or_null(domain: KeyDomain, name: str) -> Query:
    values = Select((Item(Column("", "v"), name),), Derived(domain.query, "d"))
    return SetOperation(values, "UNION ALL", Select((Item(Constant(None, NULL)),)))


def distinct_values(value: Expr, source: Source, origin: str) -> KeyDomain:
    """Return the domain that consists of the values of an expression over public rows."""
    query = Select((Item(value, "v"),), source, IsNull(value, negated=True), distinct=True)
    return KeyDomain(query, origin=origin)


def cross_join(sources: Sequence[Source]) -> Source:
    """Return all combinations of the rows of several sources."""
    return reduce(lambda left, right: Join(left, "CROSS", right), sources)


def _listed(value: Typed, name: str, columns: Mapping[str, Typed]) -> KeyDomain | None:
    """Return the values of one column of an expression: its domain, or the grid of its TIMESTAMP range."""
    column = columns.get(name)
    if column is None:
        return None
    if column.domain is None and column.span is not None and name in value.grains:
        return column.span.grid(value.grains[name])
    return column.domain
