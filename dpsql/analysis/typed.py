"""Compiled expressions with their types: what one rule hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING

from dpsql.errors import InternalError

if TYPE_CHECKING:
    from dpsql.types import SqlType

__all__ = ["GRAINS", "MAX_GRID", "OPAQUE", "Guarded", "KeyDomain", "Literal", "Span", "Typed", "UnitRole"]

OPAQUE = "?"
"""Stands among what an expression reads when that is more than columns of its row: a subquery, a window."""


class UnitRole(Enum):
    """Whether a visible column is the privacy unit: a provenance, never a name."""

    NONE = "none"
    """Something else."""
    EXACT = "exact"
    """The row's unit."""
    NULLABLE = "nullable"
    """The row's unit or NULL: the nullable side of an outer join."""


@dataclass(frozen=True, slots=True)
class KeyDomain:
    """A public domain: the values a group key may take.

    `sql` is a SELECT with the value in column `v` (distinct, never NULL) and, when `ordered`, its place
    in the domain's own order in column `o`.
    """

    sql: str
    ordered: bool = False
    origin: str = ""
    """Where the values come from, in words, for EXPLAIN."""


_MILLISECONDS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}
GRAINS = tuple(_MILLISECONDS)
"""From the coarsest to the finest; each is a whole number of the next."""

MAX_GRID = 10_000_000
"""The most points of time that an expression is computed over, as many as a domain may have."""


@dataclass(frozen=True, slots=True)
class Span:
    """The days on which a TIMESTAMP column's values lie, both ends included; `origin` says it for EXPLAIN."""

    first: date
    last: date
    origin: str = ""

    def size(self, grain: str) -> int:
        """Return how many points the grid of a grain has."""
        return ((self.last - self.first).days + 1) * (_MILLISECONDS["day"] // _MILLISECONDS[grain])

    def grid(self, grain: str) -> KeyDomain | None:
        """Return the first instant of every day, hour, minute or second; None for more than `MAX_GRID`."""
        if self.size(grain) > MAX_GRID:
            return None
        step, epoch = _MILLISECONDS[grain], date(1970, 1, 1)
        start = (self.first - epoch).days * _MILLISECONDS["day"]
        stop = start + self.size(grain) * step
        sql = f"SELECT epoch_ms(i) AS v, i AS o FROM range({start}, {stop}, {step}) AS r(i)"
        return KeyDomain(sql, ordered=True, origin=self.origin)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant as typed by the analyst: its Python value."""

    value: object


@dataclass(frozen=True, slots=True)
class Guarded:
    """The text of one expression in which every part that could fail on a row stands under TRY."""

    of: str
    """The bare text it was made of; it says nothing about any other."""
    sql: str


@dataclass(frozen=True, slots=True)
class Typed:
    """One compiled expression: stock SQL over generated names, fully parenthesised, with its type.

    `reads` names the generated columns it depends on (`t1.c0`); `size` counts its nodes, so that
    templates which repeat an argument cannot grow without bound.
    """

    sql: str
    type: SqlType
    reads: frozenset[str] = frozenset()
    literal: Literal | None = None
    unit: UnitRole = UnitRole.NONE
    link: str = ""
    """Names the parent's key if this column is one or leads to one: equal keys have one owner."""
    domain: KeyDomain | None = None
    size: int = 1
    span: Span | None = None
    """The public range of a TIMESTAMP column, as long as this is the column itself."""
    grains: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Columns of which the value depends on a part of time alone, and that part; others are seen whole."""
    guard: Guarded | None = None
    """Set for what needs no TRY of its own: comparisons, choices, subqueries."""

    def column_span(self) -> Span | None:
        """Return the public range of a column's values; None for anything but a column."""
        return self.span if self.reads == {self.sql} else None

    @property
    def total(self) -> bool:
        """Whether it fails on no row by its form alone: a column, a literal, or what has a `guard`."""
        column = self.reads == {self.sql}
        return column or self.literal is not None or (self.guard is not None and self.guard.of == self.sql)

    @property
    def guarded(self) -> str:
        """The text that goes into a query: whatever a row holds, it is a value or NULL.

        Whether a statement fails would tell what a row holds. The forms of functions are total one by one;
        this is the second wall, which does not rest on their list.
        """
        if self.guard is not None and self.guard.of == self.sql:
            return self.guard.sql
        if self.total:
            return self.sql
        if OPAQUE in self.reads:
            raise InternalError("this is a bug of dpsql, nothing was run or charged: a subquery under TRY")
        return f"TRY({self.sql})"

    def closed(self) -> Typed:
        """Return the same expression, whose text is made of guarded parts already."""
        return replace(self, guard=Guarded(self.sql, self.sql))

    def guarding(self) -> Typed:
        """Return the same expression with its guarded text: as the argument of an aggregate or window."""
        return replace(self, sql=self.guarded).closed()

    def with_unit(self, role: UnitRole) -> Typed:
        """Return the same expression with another role."""
        return replace(self, unit=role)
