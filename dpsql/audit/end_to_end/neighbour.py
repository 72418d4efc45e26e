"""Makes the neighbouring database of an end-to-end audit: the data without one privacy unit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from dpsql.analysis import quote
from dpsql.engines.duckdb.file_scans import scan_files
from dpsql.errors import ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import DatabaseSource, ParquetSource, Policy, Table, UnitColumn, UnitRow, UnitVia


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The neighbouring database: the same policy over data without one unit."""

    policy: Policy
    """The policy, its changed sources in a scratch folder."""
    removed: str
    """Which unit is missing, in words."""
    rows: int
    """How many rows it had."""


def neighbour(policy: Policy, tables: Sequence[str], unit: str | None, folder: Path) -> Neighbour:
    """Copy the private tables in which a unit has rows, without these rows, to a folder.

    `tables` are those that a statement reads: its units are meant. `unit` is one as text, or the number of a
    row, from 1, where rows are units; None stands for the unit with the most rows, or the first row.

    Raises `ProgrammingError` if there is no such unit or the data cannot be copied.
    """
    private = [table for name in tables if (table := policy.table(name)) is not None and table.unit]
    if not private:
        raise ProgrammingError("the statement reads no private table: there is no unit to remove")
    try:
        with duckdb.connect() as connection:
            return _Copying(policy, connection, folder).without(private[0], unit)
    except (duckdb.Error, OSError) as problem:
        why = type(problem).__name__
        raise ProgrammingError(f"the data cannot be copied without a unit ({why})") from None


class _Copying:
    """Builds the neighbouring database of one policy."""

    def __init__(self, policy: Policy, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.policy, self.connection, self.folder = policy, connection, folder
        if policy.database is not None:
            connection.execute(f"ATTACH {_literal(policy.database)} AS d (READ_ONLY)")
        self.conditions: dict[str, str] = {}
        """Table -> the condition on the unit's rows; parents stand before their children."""

    def without(self, table: Table, unit: str | None) -> Neighbour:
        """Remove a unit of this table."""
        root = table
        while isinstance(root.unit, UnitVia):
            root = self._table(root.unit.table)
        if isinstance(root.unit, UnitRow):
            number = unit or "1"
            if not number.isdigit() or int(number) < 1:
                raise ProgrammingError("each row is a unit: name one by its number, from 1")
            self.conditions[root.name] = f"rowid = {int(number) - 1}"
            removed = f"row {number} of {root.name}"
        elif isinstance(root.unit, UnitColumn):
            unit = unit or self._largest(root, root.unit.column)
            self.conditions[root.name] = _equals(root.unit.column, unit)
            removed = f"{root.unit.kind} {unit}"
        # Conditions are evaluated on the unchanged data: all are made before any row is removed.
        for other in self.policy.tables.values():
            self._condition(other, root, unit)
        rows = sum(
            self._query(f"SELECT COUNT(*) FROM {self._load_numbered(self._table(name))} WHERE {condition}")[
                0
            ][0]
            for name, condition in self.conditions.items()
        )
        if not rows:
            raise ProgrammingError(f"there is no {removed}")
        return Neighbour(self._copy_tables(), removed, rows)

    def _table(self, name: str) -> Table:
        found = self.policy.table(name)
        if found is None:
            raise ProgrammingError(f"there is no table {name}")
        return found

    def _query(self, text: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(text).fetchall()

    def _largest(self, root: Table, column: str) -> str:
        """Return the unit with the most rows."""
        found = self._query(
            f"SELECT CAST({quote(column)} AS VARCHAR) AS u FROM {self._load_numbered(root)} "
            f"WHERE u IS NOT NULL GROUP BY u ORDER BY COUNT(*) DESC, u LIMIT 1"
        )
        if not found:
            raise ProgrammingError(f"{root.name} has no rows")
        return str(found[0][0])

    def _condition(self, table: Table, root: Table, unit: str | None) -> str | None:
        """Return the condition that the unit's rows of a table meet; None if it has none."""
        if table.name in self.conditions:
            return self.conditions[table.name]
        condition, own, of_root = None, table.unit, root.unit
        if isinstance(own, UnitVia):
            parent = self._table(own.table)
            of_parent = self._condition(parent, root, unit)
            if of_parent is not None:
                found = self._query(
                    f"SELECT DISTINCT CAST({quote(own.column)} AS VARCHAR) AS key "
                    f"FROM {self._load_numbered(parent)} WHERE {of_parent} AND key IS NOT NULL"
                )
                keys = ", ".join(_literal(key) for (key,) in found) or "NULL"
                condition = f"CAST({quote(own.via)} AS VARCHAR) IN ({keys})"
        elif isinstance(own, UnitColumn) and isinstance(of_root, UnitColumn) and own.kind == of_root.kind:
            condition = _equals(own.column, unit)
        if condition is not None:
            self.conditions[table.name] = condition
        return condition

    def _scan(self, table: Table) -> str:
        if isinstance(table.source, DatabaseSource):
            return f"d.{quote(table.source.schema or 'main')}.{quote(table.source.table)}"
        return scan_files(table, self.folder).sql

    def _load_numbered(self, table: Table) -> str:
        """Return the name of a table with row numbers; a file is loaded into one on first use."""
        if isinstance(table.source, DatabaseSource):
            return self._scan(table)
        name = quote(f"t {table.name}")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM {self._scan(table)}")
        return name

    def _copy_tables(self) -> Policy:
        """Write the changed tables, and return the policy with these as sources."""
        tables, database = dict(self.policy.tables), self.policy.database
        inside = {}
        for number, (name, condition) in enumerate(self.conditions.items()):
            table = self._table(name)
            if isinstance(table.source, DatabaseSource):
                inside[self._scan(table).removeprefix("d.")] = condition
                continue
            path = self.folder / f"table{number}.parquet"
            self.connection.execute(
                f"COPY (SELECT * FROM {self._load_numbered(table)} WHERE ({condition}) IS NOT TRUE) "
                f"TO {_literal(path)} (FORMAT parquet)"
            )
            tables[table.name] = replace(table, source=ParquetSource(path))
        if inside and database is not None:
            copy = shutil.copyfile(database, self.folder / "neighbour.duckdb")
            with duckdb.connect(copy) as connection:
                # Rows of children have to be deleted before those of their parents.
                for name, condition in reversed(inside.items()):
                    connection.execute(f"DELETE FROM {name} WHERE {condition}")
            database = copy
        return replace(self.policy, tables=tables, database=database)


def _equals(column: str, unit: str | None) -> str:
    return f"CAST({quote(column)} AS VARCHAR) = {_literal(unit)}"


def _literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
