"""Compiled expressions with their types, and public domains."""

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
"""A member of `Typed.reads` if the expression contains a subquery or a window."""


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

    `sql` is a SELECT with the value in column `v` (distinct, never NULL) and, when `ordered`, its place
    in the domain's own order in column `o`.
    """

    sql: str
    ordered: bool = False
    origin: str = ""
    """The origin of the values, in words, for EXPLAIN."""


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
        """Return the number of grid points of a grain."""
        return ((self.last - self.first).days + 1) * (_MILLISECONDS["day"] // _MILLISECONDS[grain])

    def grid(self, grain: str) -> KeyDomain | None:
        """Return the starts of all days, hours, minutes or seconds; None for more than `MAX_GRID`."""
        if self.size(grain) > MAX_GRID:
            return None
        step, epoch = _MILLISECONDS[grain], date(1970, 1, 1)
        start = (self.first - epoch).days * _MILLISECONDS["day"]
        stop = start + self.size(grain) * step
        sql = f"SELECT epoch_ms(i) AS v, i AS o FROM range({start}, {stop}, {step}) AS r(i)"
        return KeyDomain(sql, ordered=True, origin=self.origin)


@dataclass(frozen=True, slots=True)
class Literal:
    """The Python value of a constant that the analyst typed."""

    value: object


@dataclass(frozen=True, slots=True)
class Guarded:
    """The SQL text of an expression in which every part that could fail on a row is inside TRY."""

    of: str
    """The text without TRY that it was made from. It is not valid for an expression with another text."""
    sql: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled expression: SQL over generated names, fully parenthesised, with its type.

    `reads` names the generated columns it depends on (`t1.c0`); `size` counts its nodes, so that
    templates which repeat an argument cannot grow without bound.
    """

    sql: str
    type: SqlType
    reads: frozenset[str] = frozenset()
    literal: Literal | None = None
    unit: UnitRole = UnitRole.NONE
    link: str = ""
    """The parent key that this column is or refers to, or "". Equal keys belong to one unit."""
    domain: KeyDomain | None = None
    size: int = 1
    span: Span | None = None
    """The public range of a TIMESTAMP column; set only for the column itself."""
    grains: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The grain for each TIMESTAMP column on which the value depends at that grain only."""
    guard: Guarded | None = None
    """Set for expressions that need no TRY around them: comparisons, choices, subqueries."""

    def column_span(self) -> Span | None:
        """Return the public range of the values if the expression is a column; else None."""
        return self.span if self.reads == {self.sql} else None

    @property
    def total(self) -> bool:
        """Whether it cannot fail on any row: it is a column, a literal, or has a `guard`."""
        column = self.reads == {self.sql}
        return column or self.literal is not None or (self.guard is not None and self.guard.of == self.sql)

    @property
    def guarded(self) -> str:
        """The SQL text for a query. It evaluates to a value or NULL on every row and never fails.

        A failure would reveal the values of a row. The form of each allowed function is already total. TRY
        is a second protection that does not depend on the list of functions.
        """
        if self.guard is not None and self.guard.of == self.sql:
            return self.guard.sql
        if self.total:
            return self.sql
        if OPAQUE in self.reads:
            raise InternalError("this is a bug of dpsql, nothing was run or charged: a subquery under TRY")
        return f"TRY({self.sql})"

    def closed(self) -> Typed:
        """Return the expression with its own text as its guard, because its parts are guarded."""
        return replace(self, guard=Guarded(self.sql, self.sql))

    def guarding(self) -> Typed:
        """Return the expression with its guarded text, for the argument of an aggregate or window."""
        return replace(self, sql=self.guarded).closed()

    def with_unit(self, role: UnitRole) -> Typed:
        """Return the expression with another unit role."""
        return replace(self, unit=role)
