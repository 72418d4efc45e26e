"""The databases a statement runs on: one whole, and its neighbours without each unit.

The compiled text names `main.visits`; which database that is says the search path, and a neighbour holds
only the tables in which it differs from the whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import _write_cell, read_sources
from dpsql.policy import BudgetPolicy, CsvSource, ParquetSource, Policy
from dpsql.types import column_type
from fuzz.data import FEW, GIANT, PERSONAL, PLACE, TABLES, TIMES, Data
from fuzz.world import World

__all__ = ["Stage"]

UNITS = 18
"""At most so many privacy units can be removed from a database."""


class Stage:
    """One world's connections, filled with one random database after the other.

    In the i-th neighbour the i-th person, the i-th device and the i-th row of `logs` are gone together: a
    statement counts units of one kind, so for it only one of the three is.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.connection = _connect(1)
        self.twin = _connect(3)
        """The whole once more, on several threads."""
        self.ranged = _connect(1)
        """And once with an optimizer that looks at minimum and maximum, for plain statements."""
        duckdb_settings._switch_off(self.ranged, duckdb_settings._UNSAFE_OPTIMIZERS)
        for connection in (self.connection, self.twin, self.ranged):
            connection.execute("ATTACH ':memory:' AS whole")
            world.create(connection, "whole")
        self.neighbours = [f"{word}{i}" for i in range(UNITS) for word in ("minus", "only")]
        for name in (*self.neighbours, "nobody", "shuffled", "parquet", "csv"):
            self.connection.execute(f"ATTACH ':memory:' AS {name}")
        self.folder = tempfile.TemporaryDirectory()
        self.plain = self.connection.cursor()
        """The same databases with the optimizer off."""
        self.plain.execute("PRAGMA disable_optimizer")
        self.twin.execute("PRAGMA verify_parallelism")
        for connection in (self.plain, self.twin, self.ranged):
            connection.execute("SET search_path = 'whole.main,whole.dpsql_domain'")
        self.data = Data({}, (), orphans=False)
        self.fills = 0
        self._parsed: dict[str, duckdb.Statement] = {}

    def close(self) -> None:
        """Let go of the databases."""
        for connection in (self.plain, self.connection, self.twin, self.ranged):
            connection.close()
        self.folder.cleanup()

    def enter(self, name: str) -> None:
        """Let `main` mean the whole, or one of its neighbours."""
        first = "" if name == "whole" else f"{name}.main,"
        self.connection.execute(f"SET search_path = '{first}whole.main,whole.dpsql_domain'")

    def parsed(self, sql: str) -> duckdb.Statement:
        """Return a statement parsed but not bound: it is counted on many databases."""
        if sql not in self._parsed:
            (self._parsed[sql],) = self.connection.extract_statements(sql)
        return self._parsed[sql]

    def fill(self, data: Data) -> None:
        """Replace the databases by a new one and its neighbours."""
        self.data = data
        self._parsed.clear()
        self.enter("whole")
        for connection in (self.connection, self.twin, self.ranged):
            for table in TABLES:
                self._table(connection, table, data.rows[table])
                if table in data.big:
                    self._repeat(connection, table)
        for i, unit in enumerate(data.units):
            self._neighbour(f"minus{i}", unit, i, keep=False)
            if not data.big and i < FEW:
                self._neighbour(f"only{i}", unit, i, keep=True)
        self._neighbour("nobody", "NULL", -1, keep=True)
        every = (*TABLES, *self.world.public)
        self.fills += 1
        order = "rowid DESC" if self.fills % 2 else "hash(rowid * 7919)"
        self._copy("shuffled", lambda t: f"SELECT * FROM whole.main.{t} ORDER BY {order}", every)

    def write(self, name: str) -> None:
        """Write the whole to files, and let the database of that name read them as a session does."""
        self.enter("whole")
        kind = ParquetSource if name == "parquet" else CsvSource
        tables = {}
        for table in TABLES:
            path = Path(self.folder.name) / f"{table}.{name}"
            self.connection.execute(f"COPY whole.main.{table} TO '{path}' (FORMAT {name})")
            tables[table] = replace(self.world.policy.tables[table], source=kind(path), domain={})
        policy = Policy(budget=BudgetPolicy(epsilon=Fraction(1)), tables=tables)
        for table, reader in read_sources(self.connection, policy, None).items():
            self.connection.execute(f"CREATE OR REPLACE VIEW {name}.main.{table} AS {reader.sql}")

    def _table(self, connection: duckdb.DuckDBPyConnection, table: str, rows: list[list[str]]) -> None:
        columns = self.world.columns[table]
        listed = ", ".join(f"{c} {t}" for c, t in columns.items())
        connection.execute(f"CREATE OR REPLACE TABLE whole.main.{table} ({listed})")
        # As the scan of a declared column gives it: one zero, one NaN.
        cells = ", ".join(_write_cell(c, t, column_type(t), collated=False) for c, t in columns.items())
        for begin in range(0, len(rows), 400):
            values = ", ".join("(" + ", ".join(row) + ")" for row in rows[begin : begin + 400])
            names = ", ".join(columns)
            source = f"(VALUES {values}) AS r({names})"
            typed = ", ".join(f"{c}::{t} AS {c}" for c, t in columns.items())
            connection.execute(
                f"INSERT INTO whole.main.{table} SELECT {cells} FROM (SELECT {typed} FROM {source})"
            )

    def _repeat(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Repeat the rows of the unit that outnumbers all others; order numbers stay unique."""
        first = len(self.data.rows[table]) - GIANT
        number = " REPLACE (1000000 + row_number() OVER () AS order_id)" if table == "orders" else ""
        connection.execute(
            f"INSERT INTO whole.main.{table} SELECT t.*{number} FROM whole.main.{table} AS t, "
            f"range({TIMES - 1}) AS r(i) WHERE t.rowid >= {first}"
        )

    def _neighbour(self, name: str, unit: str, number: int, *, keep: bool) -> None:
        """Make the database without (or `keep`: of nobody but) one unit; rows that have none stay."""
        same, equal = ("IS NOT DISTINCT FROM", "=") if keep else ("IS DISTINCT FROM", "<>")
        other = "IS DISTINCT FROM" if keep else "IS NOT DISTINCT FROM"
        own = f"(user_id {same} {unit} OR user_id IS NULL)"
        # Of parents with one key the least unit has the child, as the analysis says.
        gone = (
            "SELECT order_id FROM whole.main.orders WHERE user_id IS NOT NULL AND order_id IS NOT NULL "
            f"GROUP BY order_id HAVING MIN(user_id) {other} {unit}"
        )

        def source(table: str) -> str | None:
            if not keep and not self._touched(table, unit, number):
                return None
            every = f"SELECT * FROM whole.main.{table}"
            if table in PERSONAL:
                return f"{every} WHERE {own}"
            if table == "items":
                if self.data.orphans:
                    return None
                return f"{every} WHERE order_id IS NULL OR order_id NOT IN ({gone})"
            if table == "devices":
                return f"{every} WHERE device_id {same} {unit} OR device_id IS NULL"
            return f"{every} WHERE rowid {equal} {number}"

        self._copy(name, source)

    def _touched(self, table: str, unit: str, number: int) -> bool:
        rows = self.data.rows[table]
        if table == "logs":
            return number < len(rows)
        if table == "items":
            return any(row[PLACE["orders"]] == unit for row in self.data.rows["orders"])
        return any(row[PLACE[table]] == unit for row in rows)

    def _copy(self, name: str, source: Callable[[str], str | None], tables: tuple[str, ...] = TABLES) -> None:
        for table in tables:
            sql = source(table)
            if sql is None:
                self.connection.execute(f"DROP TABLE IF EXISTS {name}.main.{table}")
            else:
                self.connection.execute(f"CREATE OR REPLACE TABLE {name}.main.{table} AS {sql}")


def _connect(threads: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb_settings.connect()
    connection.execute(f"SET threads = {threads}")
    return connection
