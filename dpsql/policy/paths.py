"""Paths of foreign keys: the tables through which the rows of a table find their privacy unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpsql.policy.parts import UnitColumn, UnitRow, UnitVia

if TYPE_CHECKING:
    from dpsql.policy.table import Table

MOST_HOPS = 8
"""The most foreign keys of a path."""


def path_of(tables: Mapping[str, Table], table: Table) -> tuple[Table, ...]:
    """Return the parents through which a table's rows find their unit, the nearest first.

    The last one names its units by a column. Tables that name their own units have no parents. A path that
    runs in a circle, or to a table that is not declared, ends where it does.
    """
    found: list[Table] = []
    while isinstance(table.unit, UnitVia):
        parent = tables.get(table.unit.table)
        if parent is None or parent in found:
            break
        found.append(parent)
        table = parent
    return tuple(found)


FOUND = ", found through "
"""What stands in `protected` before the tables of a path."""


def protected(tables: Mapping[str, Table], table: Table) -> str | None:
    """Say whom a table protects, and through which tables its rows find them; None for a public table."""
    match table.unit:
        case UnitVia(kind=kind):
            return article(kind) + FOUND + ", ".join(parent.name for parent in path_of(tables, table))
        case UnitColumn(kind=kind):
            return article(kind)
        case UnitRow():
            return "each row alone"
    return None


def article(kind: str) -> str:
    """Write a kind of unit with its article.

    >>> article("employee"), article("unit"), article("patient")
    ('an employee', 'a unit', 'a patient')
    """
    return f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"
