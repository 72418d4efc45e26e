"""The columns of private tables of which each value belongs to one unit, and the checks of such declarations.

A policy says it of a column in three ways: rows find their unit through it (`unit = { via = .. }`), it is
unique, or the owner declares it (`owned`, `same_unit`). Columns that one declaration connects are one key:
all rows of their tables with one value belong to one unit.

What is declared here decides only whether a statement asks what it seems to ask. Queries of units compare
the units themselves besides, so no guarantee depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpsql.kernel.facts import fold
from dpsql.policy.names import suggest, wrong
from dpsql.policy.table import Table
from dpsql.policy.table_parts import UnitRow, UnitVia
from dpsql.types import SqlType

ColumnOfTable = tuple[str, str]
"""A table and one of its columns, as folded names."""


def find_owned_keys(tables: Mapping[str, Table]) -> dict[ColumnOfTable, str]:
    """Return the name of the key that each column is whose values belong to one unit each.

    Columns have one key if declarations connect them, directly or through others.
    """
    found = {place: place for table in tables.values() for place in _list_owned(table)}
    for table in tables.values():
        for one, other in list_connected(table):
            a, b = found.setdefault(one, one), found.setdefault(other, other)
            found |= {place: a for place, key in found.items() if key == b}
    return {place: ".".join(key) for place, key in found.items()}


def _list_owned(table: Table) -> Iterator[ColumnOfTable]:
    """Yield the columns of a table whose values belong to one unit each, as the table itself says."""
    if table.unit is None or isinstance(table.unit, UnitRow):
        return
    for column in (*table.owned, *(fact[0] for fact in table.unique if len(fact) == 1)):
        yield fold(table.name), fold(column)


def list_connected(table: Table) -> Iterator[tuple[ColumnOfTable, ColumnOfTable]]:
    """Yield the columns of other tables that a table's columns have their units from, or share them with."""
    name = fold(table.name)
    if isinstance(table.unit, UnitVia):
        yield (name, fold(table.unit.via)), (fold(table.unit.table), fold(table.unit.column))
    for column, (other, theirs) in table.same_unit.items():
        yield (name, fold(column)), (fold(other), fold(theirs))


def check_owned_keys(tables: Mapping[str, Table]) -> None:
    """Check that keys of two tables are of private tables with units of one kind, and of one type."""
    for table in tables.values():
        for column, (named, theirs) in table.same_unit.items():
            place, other = table.place("same_unit", column), tables.get(named)
            if other is None:
                raise wrong(place, f"there is no table {named!r}", suggest(named, tables, "tables"))
            if other is table:
                raise wrong(place, "is a column of the same table", f'write owned = ["{column}"]')
            if other.unit is None or isinstance(other.unit, UnitRow):
                raise wrong(place, f"the rows of {other.name!r} have no unit in common with others")
            if table.unit is not None and table.unit.kind != other.unit.kind:
                raise wrong(
                    place,
                    f"a unit of {other.name!r} is a {other.unit.kind}, and here it is a {table.unit.kind}",
                    "tables of different kinds are never joined",
                )
            expected = other.declared_type(theirs, place, repr(other.name))
            own = table.declared_type(column, place)
            if expected is not None and own is not None and not _are_alike(own, expected):
                raise wrong(place, f"{column!r} is {own}, but {theirs!r} of {other.name!r} is {expected}")


def _are_alike(one: SqlType, other: SqlType) -> bool:
    return one == other or (one.integer and other.integer)
