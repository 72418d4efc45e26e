"""Check the consistency of a policy's tables; each violation is a `PolicyError` with its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from dpsql.policy import budget_rules
from dpsql.policy.domain_rules import check_table_domain, checked_domain
from dpsql.policy.engine_rules import check_engine
from dpsql.policy.fields import PolicyFields, TableFields
from dpsql.policy.length_rules import read_length
from dpsql.policy.names import Names, fold, joined, name_problem, same_name, suggest, wrong
from dpsql.policy.parts import (
    CsvSource,
    DatabaseSource,
    ParquetSource,
    TableDomain,
    UnitColumn,
    UnitRow,
    UnitVia,
)
from dpsql.types import SqlType

V = TypeVar("V")

_UNIT_TYPES = ("VARCHAR", "UUID", "DATE")


def checked_table(table: TableFields) -> dict[str, object]:
    """Check a table on its own; return its fields in normal form."""
    key = ("tables", table.name)
    if problem := name_problem(table.name):
        raise wrong(joined(*key), problem)
    if not isinstance(table.source, (ParquetSource, CsvSource, DatabaseSource)):
        raise wrong(joined(*key, "source"), "is required")
    columns = None
    if table.columns is not None:
        columns = _names(table.columns, *key, "columns")
        if not columns:
            raise wrong(joined(*key, "columns"), "a table has at least one column")
    elif isinstance(table.source, CsvSource):
        raise wrong(
            joined(*key, "columns"),
            "a CSV file is never sniffed, so its columns must be declared",
            'write columns = { user_id = "BIGINT", page = "VARCHAR" }, in the order of the file',
        )
    _check_unit(table, columns, *key)
    unique = tuple(tuple(columns_of) for columns_of in table.unique)
    for position, fact in enumerate(unique):
        _check_fact(fact, columns, *key, f"unique[{position}]")
    domain = {}
    for column, values in _names(table.domain, *key, "domain").items():
        place = joined(*key, "domain", column)
        domain[column] = checked_domain(values, _column(column, columns, place), place)
    return {"columns": columns, "unique": unique, "domain": Names(domain)}


def checked_policy(policy: PolicyFields) -> dict[str, object]:
    """Check the tables, analysts and budget of a policy together; return its fields in normal form."""
    check_engine(policy)
    if not policy.tables:
        raise wrong("tables", "a policy declares at least one table")
    tables = _names(policy.tables, "tables")
    for name, table in tables.items():
        if not same_name(name, table.name):
            raise wrong(joined("tables", name), f"holds a table named {table.name!r}")
    for table in tables.values():
        if isinstance(table.unit, UnitVia):
            _check_parent(table, table.unit, tables)
        for column, domain in table.domain.items():
            if isinstance(domain, TableDomain):
                place = joined("tables", table.name, "domain", column)
                check_table_domain(domain, (table.columns or {}).get(column), tables, place)
    _check_kinds(tables)
    _check_row_kinds(tables)
    budget_rules.check_budget(policy.budget)
    for name, analyst in policy.analysts.items():
        if name != analyst.name:
            raise wrong(joined("analysts", name), f"holds an analyst named {analyst.name!r}")
        budget_rules.check_analyst(analyst)
    length = read_length(policy.longest_value)
    return {"tables": tables, "analysts": dict(policy.analysts), "longest_value": length}


def _names(items: Mapping[str, V], *key: str) -> Names[V]:
    """Return a mapping as `Names`, after a check that its names are printable ASCII and distinct."""
    for name in items:
        if problem := name_problem(name):
            raise wrong(joined(*key, name), problem)
    try:
        return Names(items)
    except ValueError as problem:
        raise wrong(joined(*key), str(problem), "names are compared without regard to case") from None


def _column(name: str, columns: Names[SqlType] | None, place: str, of: str = "the table") -> SqlType | None:
    """Return a column's declared type; None when the table's columns are not declared."""
    if columns is None:
        if problem := name_problem(name):
            raise wrong(place, problem)
        return None
    if name not in columns:
        raise wrong(place, f"{of} has no column {name!r}", suggest(name, columns, "its columns"))
    return columns[name]


def _check_unit(table: TableFields, columns: Names[SqlType] | None, *key: str) -> None:
    place = joined(*key, "unit")
    unit = table.unit
    if table.public:
        if unit is not None:
            raise wrong(place, "a public table has no privacy unit", "leave out unit, or public = true")
        return
    if unit is None:
        raise wrong(
            place,
            "a private table names its privacy unit",
            'write unit = "user_id" (a column), unit = "ROW" (each row is one), or public = true',
        )
    if not isinstance(unit, (UnitColumn, UnitRow, UnitVia)):
        raise wrong(place, "expected a UnitColumn, UnitRow or UnitVia")
    if name_problem(unit.kind):
        raise wrong(joined(*key, "unit_kind"), "a kind is a word of printable ASCII characters")
    if isinstance(unit, UnitRow):
        if columns is not None and "row" in columns:
            raise wrong(place, '"ROW" means each row, but the table has a column of that name')
        return
    sql_type = _column(unit.column if isinstance(unit, UnitColumn) else unit.via, columns, place)
    if sql_type is not None and not _may_be_unit(sql_type):
        raise wrong(
            place,
            f"a column of type {sql_type} cannot name privacy units",
            "declare it as an integer, VARCHAR, UUID or DATE",
        )


def _may_be_unit(sql_type: SqlType) -> bool:
    return sql_type.integer or sql_type.name in _UNIT_TYPES


def _check_fact(fact: tuple[str, ...], columns: Names[SqlType] | None, *key: str) -> None:
    place = f"{joined(*key[:-1])}.{key[-1]}"
    if not fact:
        raise wrong(place, "names no column", 'write unique = [["user_id", "page"]]')
    for column in fact:
        _column(column, columns, place)
    if len({fold(column) for column in fact}) < len(fact):
        raise wrong(place, "names a column twice")


def _check_parent(table: TableFields, unit: UnitVia, tables: Names[TableFields]) -> None:
    """Check that each row of a child table has at most one row of its parent table, and so one unit."""
    place = joined("tables", table.name, "unit")
    parent = tables.get(unit.table)
    if parent is None:
        raise wrong(place, f"there is no table {unit.table!r}", suggest(unit.table, tables, "tables"))
    if not isinstance(parent.unit, UnitColumn):
        raise wrong(place, f"the parent table {parent.name!r} does not name its unit by a column")
    sql_type = _column(unit.column, _declared(parent), place, repr(parent.name))
    own = _column(unit.via, _declared(table), place)
    if sql_type is not None and not _may_be_unit(sql_type):
        raise wrong(place, f"a column of type {sql_type} cannot link a child table to its parent")
    if sql_type is not None and own is not None and _unit_type(sql_type) != _unit_type(own):
        raise wrong(
            place,
            f"{unit.via!r} is {own}, but {unit.column!r} of {parent.name!r} is {sql_type}",
            "declare both columns with the same type",
        )
    if not any(len(fact) == 1 and same_name(fact[0], unit.column) for fact in parent.unique):
        raise wrong(
            place,
            f"{unit.column!r} must be unique in {parent.name!r}, else a row would have two owners",
            f'if it is, write unique = [["{unit.column}"]] in [{joined("tables", parent.name)}]',
        )
    if unit.kind != parent.unit.kind:
        raise wrong(
            joined("tables", table.name, "unit_kind"),
            f"is {unit.kind!r}, but that of the parent table {parent.name!r} is {parent.unit.kind!r}",
            "leave it out: a child table has its parent's kind",
        )


def _declared(table: TableFields) -> Names[SqlType] | None:
    return None if table.columns is None else Names(table.columns)


def _unit_type(sql_type: SqlType) -> str:
    """Return the type that units of one kind must share; integers of any width count as one type."""
    return "integer" if sql_type.integer else sql_type.name


def _check_kinds(tables: Names[TableFields]) -> None:
    """Check that the unit columns of one kind have one type, because they are compared with each other."""
    seen: dict[str, tuple[str, str]] = {}
    for table in tables.values():
        if not isinstance(table.unit, UnitColumn) or table.columns is None:
            continue
        found = _unit_type(table.columns[table.unit.column])
        first, expected = seen.setdefault(table.unit.kind, (table.name, found))
        if found != expected:
            raise wrong(
                joined("tables", table.name, "unit"),
                f"units of one kind have one type, but this is {found} and that of {first!r} is {expected}",
                "if they are different things, give the tables different unit_kind",
            )


def _check_row_kinds(tables: Names[TableFields]) -> None:
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
                joined("tables", table.name, "unit_kind"),
                f"is {table.unit.kind!r} as in {other.name!r}, but a unit of {table.name!r} is one row, "
                f"not everything of one {other.unit.kind}",
                "name the column of that unit, go through the table that has it (unit = { via = .., "
                "table = .., column = .. }), or leave unit_kind out",
            )
