"""Makes the neighbouring database of an end-to-end audit: the data without one privacy unit."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import ProgrammingError
from dpsql.policy import CsvSource, DatabaseSource, ParquetSource, UnitColumn, UnitRow, UnitVia

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from dpsql.policy import Policy, Table

__all__ = ["Neighbour", "neighbour"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The neighbouring database: the same policy over data without one unit.

    Attributes
    ----------
    policy
        The policy, its changed sources in a scratch folder.
    removed
        Which unit is missing, in words.
    rows
        How many rows it had.
    """

    policy: Policy
    removed: str
    rows: int


def neighbour(policy: Policy, tables: Sequence[str], unit: str | None, folder: Path) -> Neighbour:
    """Copy the private tables in which a unit has rows, without these rows.

    Parameters
    ----------
    policy
        Whose data.
    tables
        The tables a statement reads: whose units are meant.
    unit
        The unit, as text; for tables whose rows are units the number of a row, from 1. None: the unit
        with the most rows, or the first row.
    folder
        Where the copies go.

    Raises
    ------
    ProgrammingError
        If there is no such unit or the data cannot be copied.
    """
    import duckdb

    private = [table for name in tables if (table := policy.table(name)) is not None and table.unit]
    if not private:
        raise ProgrammingError("the statement reads no private table: there is no unit to remove")
    try:
        with duckdb.connect() as connection:
            copying = _Copying(policy, connection, folder)
            return copying.without(private[0], unit)
    except (duckdb.Error, OSError) as problem:
        why = type(problem).__name__
        raise ProgrammingError(f"the data cannot be copied without a unit ({why})") from None


class _Copying:
    """Builds the neighbouring database of one policy."""

    def __init__(self, policy: Policy, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.policy, self.connection, self.folder = policy, connection, folder
        if policy.database is not None:
            connection.execute(f"ATTACH {_text(str(policy.database))} AS d (READ_ONLY)")
        self.conditions: dict[str, str] = {}

    def without(self, table: Table, unit: str | None) -> Neighbour:
        """Remove a unit of this table."""
        root = self._root(table)
        where, removed = self._of_root(root, unit)
        self.conditions[root.name] = where
        # Conditions are evaluated on the unchanged data: all are made before any row is removed.
        for other in self.policy.tables.values():
            self._condition(other, root)
        counts = [self._count(name, condition) for name, condition in self.conditions.items()]
        if not sum(counts):
            raise ProgrammingError(f"there is no {removed}")
        return Neighbour(self._copied(), removed, sum(counts))

    def _root(self, table: Table) -> Table:
        while isinstance(table.unit, UnitVia):
            table = self._table(table.unit.table)
        return table

    def _table(self, name: str) -> Table:
        found = self.policy.table(name)
        if found is None:
            raise ProgrammingError(f"there is no table {name}")
        return found

    def _of_root(self, root: Table, unit: str | None) -> tuple[str, str]:
        """Return the condition that a unit's rows meet, and the unit in words."""
        if isinstance(root.unit, UnitRow):
            number = unit or "1"
            if not number.isdigit() or int(number) < 1:
                raise ProgrammingError("each row is a unit: name one by its number, from 1")
            return f"rowid = {int(number) - 1}", f"row {number} of {root.name}"
        column = _name(root.unit.column) if isinstance(root.unit, UnitColumn) else ""
        if unit is None:
            found = self.connection.execute(
                f"SELECT CAST({column} AS VARCHAR) AS u, COUNT(*) FROM {self._scan(root)} "
                f"WHERE {column} IS NOT NULL GROUP BY u ORDER BY 2 DESC, 1 LIMIT 1"
            ).fetchone()
            if found is None:
                raise ProgrammingError(f"{root.name} has no rows")
            unit = str(found[0])
        kind = root.unit.kind if root.unit is not None else "unit"
        return f"CAST({column} AS VARCHAR) = {_text(unit)}", f"{kind} {unit}"

    def _condition(self, table: Table, root: Table) -> str | None:
        """Return the condition that the unit's rows of a table meet; None if it has none."""
        if table.name in self.conditions:
            return self.conditions[table.name]
        condition = None
        if isinstance(table.unit, UnitVia):
            parent = self._table(table.unit.table)
            of_parent = self._condition(parent, root)
            if of_parent is not None:
                found = self.connection.execute(
                    f"SELECT DISTINCT CAST({_name(table.unit.column)} AS VARCHAR) "
                    f"FROM {self._loaded(parent)} WHERE {of_parent}"
                ).fetchall()
                keys = ", ".join(_text(str(key)) for (key,) in found if key is not None) or "NULL"
                condition = f"CAST({_name(table.unit.via)} AS VARCHAR) IN ({keys})"
        elif (
            isinstance(table.unit, UnitColumn)
            and isinstance(root.unit, UnitColumn)
            and table.unit.kind == root.unit.kind
        ):
            value = self.conditions[root.name].split(" = ", 1)[1]
            condition = f"CAST({_name(table.unit.column)} AS VARCHAR) = {value}"
        if condition is not None:
            self.conditions[table.name] = condition
        return condition

    def _count(self, name: str, condition: str) -> int:
        rows = self.connection.execute(
            f"SELECT COUNT(*) FROM {self._loaded(self._table(name))} WHERE {condition}"
        ).fetchall()
        return int(rows[0][0])

    def _scan(self, table: Table) -> str:
        match table.source:
            case ParquetSource(path=path):
                return f"read_parquet({_text(str(path))})"
            case CsvSource(path=path):
                with Path(path).open(encoding="utf-8-sig", newline="") as file:
                    header = next(csv.reader(file))
                columns = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in header)
                return (
                    f"read_csv({_text(str(path))}, auto_detect = false, header = true, delim = ',', "
                    f"quote = '\"', escape = '\"', nullstr = '', columns = {{{columns}}})"
                )
            case DatabaseSource(schema=schema, table=name):
                return f"d.{_name(schema or 'main')}.{_name(name)}"
        raise ProgrammingError(f"{table.name} cannot be copied")

    def _loaded(self, table: Table) -> str:
        """Return the name of a table with row numbers; a file is loaded into one on first use."""
        if isinstance(table.source, DatabaseSource):
            return self._scan(table)
        name = _name(f"t {table.name}")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM {self._scan(table)}")
        return name

    def _copied(self) -> Policy:
        """Write the changed tables, and return the policy with these as sources."""
        tables = dict(self.policy.tables)
        database = self.policy.database
        inside = {}
        for number, (name, condition) in enumerate(self.conditions.items()):
            table = self._table(name)
            if isinstance(table.source, DatabaseSource):
                inside[self._scan(table).removeprefix("d.")] = condition
                continue
            path = self.folder / f"table{number}.parquet"
            self.connection.execute(
                f"COPY (SELECT * FROM {self._loaded(table)} WHERE ({condition}) IS NOT TRUE) "
                f"TO {_text(str(path))} (FORMAT parquet)"
            )
            tables[table.name] = replace(table, source=ParquetSource(path))
        if inside and database is not None:
            database = self._database(database, inside)
        return replace(self.policy, tables=tables, database=database)

    def _database(self, original: Path, inside: dict[str, str]) -> Path:
        import duckdb

        copy = self.folder / "neighbour.duckdb"
        shutil.copyfile(original, copy)
        with duckdb.connect(copy) as connection:
            # Children follow their parents in this order, and their rows have to be deleted first.
            for name, condition in reversed(inside.items()):
                connection.execute(f"DELETE FROM {name} WHERE {condition}")
        return copy


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
