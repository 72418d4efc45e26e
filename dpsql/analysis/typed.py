"""Compiled expressions with their types: what one rule hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.analysis.spans import Span
    from dpsql.types import SqlType

__all__ = ["Candidates", "Literal", "Typed", "UnitRole"]


class UnitRole(Enum):
    """Whether a visible column is the privacy unit: a provenance, never a name."""

    NONE = "none"
    """Something else."""
    EXACT = "exact"
    """The row's unit."""
    NULLABLE = "nullable"
    """The row's unit or NULL: the nullable side of an outer join."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A public domain: the values a group key may take.

    `sql` is a SELECT with the value in column `v` (distinct, never NULL) and, when `ordered`, its place
    in the domain's own order in column `o`.
    """

    sql: str
    ordered: bool = False
    origin: str = ""
    """Where the values come from, in words, for EXPLAIN."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant as typed by the analyst: its Python value."""

    value: object


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
    candidates: Candidates | None = None
    size: int = 1
    span: Span | None = None
    """The public range of a TIMESTAMP column, as long as this is the column itself."""
    grains: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Columns of which the value depends on a part of time alone, and that part; others are seen whole."""

    def column_span(self) -> Span | None:
        """Return the public range of a column's values; None for anything but a column."""
        return self.span if self.reads == {self.sql} else None

    def with_unit(self, role: UnitRole) -> Typed:
        """Return the same expression with another role."""
        return replace(self, unit=role)
