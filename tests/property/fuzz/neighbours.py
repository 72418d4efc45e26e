"""Many databases and their neighbours without each unit, on all of which one query counts.

Each table has the rows of all databases, with the number of the database. A compiled query stands in a
lateral join to these numbers, its tables cut to the rows of one: so the engine plans it once. What is counted
so can be counted again in one database alone, which says whether the engine joins as it should.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernel.claims import Fetched, fetch

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import _write_cell
from dpsql.types import column_type
from fuzz.data import PERSONAL, TABLES, Data
from fuzz.world import World

__all__ = ["Neighbours", "Whole"]

_UNIT_TYPES = {"integer": "HUGEINT", "VARCHAR": "VARCHAR", "UUID": "UUID", "DATE": "DATE"}
_TABLE = re.compile(r'main\."(\w+)"')


@dataclass
class Whole:
    """A database, the number that it has in the tables, and those of its neighbours."""

    data: Data
    number: int
    less: range = field(default_factory=lambda: range(0))


class Neighbours:
    """One world's tables, filled with some random databases after the other.

    In the i-th neighbour the i-th person, the i-th device and the i-th row of `logs` are gone together: a
    statement counts units of one kind, so for it only one of the three is.
    """

    def __init__(self, world: World) -> None:
        self.world, self.databases, self.fills = world, list[Whole](), 0
        self.connection = duckdb_settings.connect()
        run = self.connection.execute
        run("SET threads = 1; ATTACH ':memory:' AS whole; ATTACH ':memory:' AS every")
        world.create(self.connection, "whole")
        run("ATTACH ':memory:' AS shuffled; SET search_path = 'whole.main,whole.dpsql_domain'")
        unit = _UNIT_TYPES[world.units]
        run(f"CREATE TABLE every.main.numbers (d INTEGER, base INTEGER, i INTEGER, unit {unit})")
        for table in world.public:
            run(f"CREATE TABLE shuffled.main.{table} AS FROM whole.main.{table} ORDER BY hash(rowid * 7919)")
        for table in TABLES:
            listed = ", ".join(f"{c} {t}" for c, t in world.columns[table].items())
            run(f"CREATE TABLE whole.main.{table}_drawn (base INTEGER, i INTEGER, {listed})")
            for name in ("every", "shuffled"):
                run(f"CREATE TABLE {name}.main.{table} (d INTEGER, {listed})")

    def close(self) -> None:
        self.connection.close()

    def fill(self, databases: Sequence[Data]) -> None:
        """Replace all rows by those of new databases and their neighbours."""
        self.databases, values = [], list[str]()
        self.fills += 1
        for base, data in enumerate(databases):
            made = Whole(data, len(values))
            values.append(f"({made.number}, {base}, NULL, NULL)")
            made.less = range(len(values), len(values) + len(data.units))
            values += (f"({made.less[i]}, {base}, {i}, {unit})" for i, unit in enumerate(data.units))
            self.databases.append(made)
        run = self.connection.execute
        run(f"DELETE FROM every.main.numbers; INSERT INTO every.main.numbers VALUES {', '.join(values)}")
        for table in TABLES:
            self._draw(table)
        for table in TABLES:
            names = ", ".join(f"z.{c}" for c in self.world.columns[table])
            rows = f"SELECT n.d, {names} FROM whole.main.{table}_drawn AS z, every.main.numbers AS n"
            run(f"DELETE FROM every.main.{table}; DELETE FROM shuffled.main.{table}")
            run(
                f"INSERT INTO every.main.{table} {rows} "
                f"WHERE z.base = n.base AND (n.unit IS NULL OR {self._kept(table)})"
            )
            run(
                f"INSERT INTO shuffled.main.{table} FROM every.main.{table} "
                f"WHERE d IN ({', '.join(str(w.number) for w in self.databases)}) "
                f"ORDER BY {'rowid DESC' if self.fills % 2 else 'hash(rowid * 7919)'}"
            )

    def _draw(self, table: str) -> None:
        columns = self.world.columns[table]
        self.connection.execute(f"DELETE FROM whole.main.{table}_drawn")
        # As the scan of a declared column gives it: one zero, one NaN.
        cells = ", ".join(_write_cell(c, t, column_type(t), collated=False) for c, t in columns.items())
        typed = ", ".join(f"{c}::{t} AS {c}" for c, t in columns.items())
        rows = [
            f"({base}, {i}, {', '.join(row)})"
            for base, whole in enumerate(self.databases)
            for i, row in enumerate(whole.data.rows[table])
        ]
        for begin in range(0, len(rows), 400):
            source = f"(VALUES {', '.join(rows[begin : begin + 400])}) AS r(base, i, {', '.join(columns)})"
            self.connection.execute(
                f"INSERT INTO whole.main.{table}_drawn "
                f"SELECT base, i, {cells} FROM (SELECT base, i, {typed} FROM {source})"
            )

    def _kept(self, table: str) -> str:
        """Return when a row stays in a neighbour; rows that have no unit stay in all."""
        if table in PERSONAL:
            return "z.user_id IS DISTINCT FROM n.unit"
        if table == "devices":
            return "z.device_id IS DISTINCT FROM n.unit"
        if table == "logs":
            return "z.i <> n.i"
        orphans = ", ".join(str(base) for base, w in enumerate(self.databases) if w.data.orphans)
        # Of parents with one key the least unit has the child, as the analysis says.
        least = (
            "SELECT MIN(o.user_id) FROM whole.main.orders_drawn AS o WHERE o.base = z.base "
            "AND o.order_id = z.order_id"
        )
        kept = f"({least}) IS DISTINCT FROM n.unit"
        return f"(z.base IN ({orphans}) OR {kept})" if orphans else kept

    def count_all(self, sql: str, *, exact: bool = False) -> dict[int, Fetched]:
        """Count on all databases and all neighbours."""
        inner = self._cut(sql, "n.d", "every")
        found = fetch(
            self.connection,
            f"SELECT n.d, l.* FROM (SELECT d FROM every.main.numbers) AS n, LATERAL ({inner}) AS l",
            exact=exact,
        )
        rows: dict[int, list[tuple[object, ...]]] = {
            d: [] for whole in self.databases for d in (whole.number, *whole.less)
        }
        for row in found.rows:
            rows[row[0]].append(row[1:])
        return {d: Fetched(found.names[1:], found.whole[1:], each) for d, each in rows.items()}

    def count_one(self, sql: str, number: int, *, shuffled: bool = False, exact: bool = False) -> Fetched:
        """Count on one database or neighbour alone; `shuffled`: on one with all units, in another order."""
        text = self._cut(sql, str(number), "shuffled" if shuffled else "every")
        return fetch(self.connection, text, exact=exact)

    def _cut(self, sql: str, number: str, name: str) -> str:
        def rows_of(found: re.Match[str]) -> str:
            table = found[1]
            if table in self.world.public:
                return f"{'shuffled' if name == 'shuffled' else 'whole'}.{found[0]}"
            listed = ", ".join(f"z.{c}" for c in self.world.columns[table])
            return f"(SELECT {listed} FROM {name}.main.{table} AS z WHERE z.d = {number})"

        return _TABLE.sub(rows_of, sql)
