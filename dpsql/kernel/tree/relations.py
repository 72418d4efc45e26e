"""The queries and the items of FROM in the query tree."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.kernel.tree.expressions import Column, OrderTerm
from dpsql.kernel.tree.node import Expr, Node, Query, Source

DOMAIN_SCHEMA = "dpsql_domain"
"""The schema in which the schema database and the private database hold declared domains."""


@dataclass(frozen=True, slots=True, eq=False)
class Item(Node):
    """An item of a select list; an empty `name` stands for an item without AS."""

    expr: Expr
    name: str = ""

    @property
    def column(self) -> str:
        """The name of the column that it is; "" for an expression without a name."""
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
