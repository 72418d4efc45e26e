"""Compiled expressions with their types, and public domains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum

from dpsql.tree import (
    Call,
    Column,
    Constant,
    Expr,
    Item,
    Query,
    Range,
    Select,
    duckdb_sql,
    facts,
    guarded,
    total,
)
from dpsql.types import NULL, SqlType


class UnitRole(Enum):
    """Whether a visible column holds the privacy unit, by its provenance, not its name."""

    NONE = "none"
    """It does not."""
    EXACT = "exact"
    """It holds the unit of the row."""
    NULLABLE = "nullable"
    """It holds the unit of the row or NULL, after an outer join."""


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """A public domain: a query for the values that a group key may take.

    `query` has the value in column `v` (distinct, never NULL) and, when `ordered`, its place in the
    domain's own order in column `o`.
    """

    query: Query
    ordered: bool = False
    origin: str = ""
    """The origin of the values, in words, for EXPLAIN."""

    @property
    def sql(self) -> str:
        """DuckDB's text of the query."""
        return duckdb_sql(self.query)


_MILLISECONDS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}
GRAINS = tuple(_MILLISECONDS)
"""The grains of time from the coarsest to the finest; each is a multiple of the next."""

MAX_GRID = 10_000_000
"""The largest number of grid points that an expression is evaluated on; as large as a domain may be."""


@dataclass(frozen=True, slots=True)
class Span:
    """The declared days of a TIMESTAMP column, both ends included; `origin` is the text for EXPLAIN."""

    first: date
    last: date
    origin: str = ""

    def size(self, grain: str) -> int:
        """Return how many days, hours, minutes or seconds (`grain`) the declared days have."""
        return ((self.last - self.first).days + 1) * (_MILLISECONDS["day"] // _MILLISECONDS[grain])

    def grid(self, grain: str) -> KeyDomain | None:
        """Return the starts of all days, hours, minutes or seconds; None for more than `MAX_GRID`."""
        if self.size(grain) > MAX_GRID:
            return None
        step, epoch = _MILLISECONDS[grain], date(1970, 1, 1)
        start = (self.first - epoch).days * _MILLISECONDS["day"]
        stop = start + self.size(grain) * step
        i = Column("", "i")
        items = (Item(Call("epoch_ms", (i,)), "v"), Item(i, "o"))
        return KeyDomain(Select(items, Range(start, stop, step)), ordered=True, origin=self.origin)


@dataclass(frozen=True, slots=True)
class Literal:
    """The Python value of a constant that the analyst typed."""

    value: object


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled expression: a node over generated names, with its type and what the rules know of it."""

    node: Expr
    type: SqlType
    literal: Literal | None = None
    unit: UnitRole = UnitRole.NONE
    link: str = ""
    """The parent key that this column is or refers to, or "". Equal keys belong to one unit."""
    fact: bool = False
    """Whether it is a column of FROM with one value for each unit in the rows (see `unit_facts`)."""
    domain: KeyDomain | None = None
    span: Span | None = None
    """The public range of a TIMESTAMP column; set only for the column itself."""
    grains: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The grain for each TIMESTAMP column on which the value depends at that grain only."""

    @property
    def sql(self) -> str:
        """DuckDB's text of the node, without the TRY around what could fail."""
        return duckdb_sql(self.node)

    @property
    def guarded_node(self) -> Expr:
        """The node for a query, in which every part that could fail on a row is inside TRY."""
        return guarded(self.node)

    @property
    def reads(self) -> frozenset[str]:
        """The generated columns that it depends on (`t1.c0`), and `OPAQUE`."""
        return facts(self.node).reads

    @property
    def size(self) -> int:
        """The number of nodes of the expression, which is limited since forms may repeat an argument."""
        return facts(self.node).size

    @property
    def text(self) -> str | None:
        """The value of a text constant; None for every other expression."""
        return (
            self.literal.value if self.literal is not None and isinstance(self.literal.value, str) else None
        )

    @property
    def is_column(self) -> bool:
        """Whether it is a column, so that its value is stored, not computed."""
        return isinstance(self.node, Column)

    def column_span(self) -> Span | None:
        """Return the public range of the values if the expression is a column; else None."""
        return self.span if self.is_column else None

    @property
    def total(self) -> bool:
        """Whether it fails on no row, apart from parts that are put into TRY."""
        return total(self.node)

    def guarding(self) -> Typed:
        """Return the expression with its guarded node, for the argument of an aggregate or window."""
        return replace(self, node=self.guarded_node)

    def with_unit(self, role: UnitRole) -> Typed:
        """Return the expression with another unit role."""
        return replace(self, unit=role)

    def with_fact(self, fact: bool) -> Typed:
        """Return the column marked as a fact of the unit, or not."""
        return self if self.fact is fact else replace(self, fact=fact)


def constant(value: object, sql_type: SqlType) -> Typed:
    """Return a constant that the analyst typed."""
    return Typed(Constant(value, sql_type), sql_type, literal=Literal(value))


UNKNOWN = Typed(Constant(None, NULL), NULL)
"""What stands for an expression until it is compiled; it fits everywhere."""


def column(table: str, name: str, sql_type: SqlType) -> Typed:
    """Return a column of an item of FROM, by its generated names."""
    return Typed(Column(table, name), sql_type)
