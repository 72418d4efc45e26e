"""How a policy's tables belong together: the paths by which rows find their privacy unit, and the checks.

Each violation is a `PolicyError` with its key.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.kernel.facts import fold
from dpsql.policy.files import CsvSource
from dpsql.policy.names import Names, key_path, same_name, suggest, wrong
from dpsql.policy.parts import TableDomain, UnitColumn, UnitRow, UnitVia
from dpsql.policy.table import Table, may_be_unit
from dpsql.types import SqlType

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
"""What stands in `describe_protected` before the tables of a path."""


def describe_protected(tables: Mapping[str, Table], table: Table) -> str | None:
    """Say whom a table protects, and through which tables its rows find them; None for a public table."""
    match table.unit:
        case UnitVia(kind=kind):
            return with_article(kind) + FOUND + ", ".join(parent.name for parent in path_of(tables, table))
        case UnitColumn(kind=kind):
            return with_article(kind)
        case UnitRow():
            return "each row alone"
    return None


def with_article(kind: str) -> str:
    """Write a kind of unit with its article.

    >>> with_article("employee"), with_article("unit"), with_article("patient")
    ('an employee', 'a unit', 'a patient')
    """
    return f"{'an' if kind[:1].lower() in 'aeio' else 'a'} {kind}"


def check_tables(tables: Names[Table]) -> None:
    """Check names, parents, table domains and unit kinds."""
    for name, table in tables.items():
        if not same_name(name, table.name):
            raise wrong(key_path("tables", name), f"holds a table named {table.name!r}")
    for table in tables.values():
        if isinstance(table.unit, UnitVia):
            _check_parent(table, table.unit, tables)
        for column, domain in table.domain.items():
            if isinstance(domain, TableDomain):
                sql_type = (table.columns or {}).get(column)
                _check_table_domain(domain, sql_type, tables, table.place("domain", column))
    _check_kinds(tables)
    _check_row_kinds(tables)


def _check_parent(table: Table, unit: UnitVia, tables: Names[Table]) -> None:
    """Check that each row of a child table has at most one row of its parent table, and so one unit."""
    place = table.place("unit")
    parent = tables.get(unit.table)
    if parent is None:
        raise wrong(place, f"there is no table {unit.table!r}", suggest(unit.table, tables, "tables"))
    if not isinstance(parent.unit, UnitColumn | UnitVia):
        raise wrong(
            place,
            f"the parent table {parent.name!r} does not name its unit by a column, nor find it via a table",
        )
    _check_path(table, tables)
    sql_type = parent.declared_type(unit.column, place, repr(parent.name))
    own = table.declared_type(unit.via, place)
    if sql_type is not None and not may_be_unit(sql_type):
        raise wrong(place, f"a column of type {sql_type} cannot link a child table to its parent")
    if sql_type is not None and own is not None and _unit_type(sql_type) != _unit_type(own):
        raise wrong(
            place,
            f"{unit.via!r} is {own}, but {unit.column!r} of {parent.name!r} is {sql_type}",
            "declare both columns with the same type",
        )
    if not any(len(columns) == 1 and same_name(columns[0], unit.column) for columns in parent.unique):
        raise wrong(
            place,
            f"{unit.column!r} must be unique in {parent.name!r}, else a row would have two owners",
            f'if it is, write unique = [["{unit.column}"]] in [{parent.place()}]',
        )
    if unit.kind != parent.unit.kind:
        raise wrong(
            table.place("unit_kind"),
            f"is {unit.kind!r}, but that of the parent table {parent.name!r} is {parent.unit.kind!r}",
            "leave it out: a child table has its parent's kind",
        )


def _check_path(table: Table, tables: Names[Table]) -> None:
    """Check that a table's path ends: it runs in no circle and has few hops."""
    parents = path_of(tables, table)
    names = ", ".join(parent.name for parent in parents)
    if parents and isinstance(last := parents[-1].unit, UnitVia) and last.table in tables:
        again = "" if table in parents else f", {last.table}"
        raise wrong(
            table.place("unit"),
            f"its path runs in a circle: {table.name}, {names}{again}",
            "one of them names its unit by a column",
        )
    if len(parents) > MOST_HOPS:
        raise wrong(
            table.place("unit"),
            f"its path goes through {len(parents)} tables, and {MOST_HOPS} are the most: {names}",
            "add the unit's column to a table in between",
        )


def _check_table_domain(
    domain: TableDomain, sql_type: SqlType | None, tables: Names[Table], place: str
) -> None:
    """Check that the table of a domain is declared and public and has a column of a comparable type."""
    table = tables.get(domain.table)
    if table is None:
        raise wrong(place, f"there is no table {domain.table!r}", suggest(domain.table, tables, "tables"))
    if not table.public:
        raise wrong(
            place,
            f"{table.name!r} is private, so its values cannot be a public domain",
            "a domain may not be derived from private data; list the values, or name a public table",
        )
    if table.columns is None:
        return
    found = table.declared_type(domain.column, place, repr(table.name))
    if found is not None and sql_type is not None and not _comparable(found, sql_type):
        raise wrong(place, f"the column is {sql_type}, but {domain.column!r} of {table.name!r} is {found}")


def _comparable(one: SqlType, other: SqlType) -> bool:
    texts = ("VARCHAR", "ENUM")
    return (
        one == other or (one.numeric and other.numeric) or (one.name in texts and other.name in texts)
    ) and one.name not in ("LIST", "STRUCT", "BLOB")


def _unit_type(sql_type: SqlType) -> str:
    """Return the type that units of one kind must share; integers of any width count as one type."""
    return "integer" if sql_type.integer else sql_type.name


def is_one_type(one: SqlType, other: SqlType) -> bool:
    """Whether units of these two types may be of one kind."""
    return _unit_type(one) == _unit_type(other)


def _check_kinds(tables: Names[Table]) -> None:
    """Check that the unit columns of one kind have one type, because they are compared with each other."""
    seen: dict[str, tuple[Table, UnitColumn, SqlType]] = {}
    for table in tables.values():
        if not isinstance(table.unit, UnitColumn) or table.columns is None:
            continue
        found = table.columns[table.unit.column]
        first, unit, expected = seen.setdefault(table.unit.kind, (table, table.unit, found))
        if not is_one_type(found, expected):
            others = "if they are different things, give the tables different unit_kind"
            texts = [
                t
                for t in ((table, table.unit, expected), (first, unit, found))
                if isinstance(t[0].source, CsvSource)
            ]
            if texts:  # its type is what the policy says
                of, column, kind = texts[0]
                place = key_path("tables", of.name, "columns")
                others = f'write {key_path(column.column)} = "{kind}" in [{place}]; {others}'
            raise wrong(
                table.place("unit"),
                f"units of one kind have one type, but this is {_unit_type(found)} and that of "
                f"{first.name!r} is {_unit_type(expected)}",
                others,
            )


def _check_row_kinds(tables: Names[Table]) -> None:
    """Refuse a table whose rows are units if its unit_kind is also the kind of another table's unit."""
    for table in tables.values():
        if not isinstance(table.unit, UnitRow):
            continue
        for other in tables.values():
            if other is table or other.unit is None or fold(other.unit.kind) != fold(table.unit.kind):
                continue
            if isinstance(other.unit, UnitRow) and table.unit.kind == UnitRow().kind:
                continue
            raise wrong(
                table.place("unit_kind"),
                f"is {table.unit.kind!r} as in {other.name!r}, but a unit of {table.name!r} is one row, "
                f"not everything of one {other.unit.kind}",
                "name the column of that unit, go through the table that has it (unit = { via = .., "
                "table = .., column = .. }), or leave unit_kind out",
            )
