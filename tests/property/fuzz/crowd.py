"""One large database: enough rows for several threads to share them, and for plans to differ."""

from __future__ import annotations

import threading
from random import Random

import duckdb

from dpsql.analysis import Plan
from fuzz.check import Counts, Finding, Tried, compile_releases, counts, moved
from fuzz.data import PERSONAL, TABLES, Data, random_row
from fuzz.stage import Stage
from fuzz.statements import Statement, statement
from fuzz.world import World

__all__ = ["Crowd"]

SIZES = {
    "visits": 250_000,
    "users": 40_000,
    "orders": 150_000,
    "items": 100_000,
    "likes": 30_000,
    "devices": 20_000,
    "logs": 150_000,
}
PEOPLE = 40_000
GONE = (3, 777, 20_001, 39_999)
TEMPLATES = 150
PATIENCE = 60
"""Seconds after which a statement is given up: what it joins is too much for this size."""


class Crowd:
    """A large whole, the same in another order, and without each of four units."""

    def __init__(self, rng: Random, world: World) -> None:
        self.rng = rng
        self.stage = Stage(world)
        rows = {t: [random_row(rng, world, t, ["1"], 0.05) for _ in range(TEMPLATES)] for t in TABLES}
        for number, row in enumerate(rows["orders"]):
            row[0] = str(number)
        self.stage.fill(Data(rows, ("1",), orphans=False))
        for connection in (self.stage.connection, self.stage.twin):
            for table in TABLES:
                self._grow(connection, table)
        copy = self.stage.connection.execute
        for table in TABLES:
            other = f"FROM whole.main.{table} ORDER BY hash(rowid)"
            copy(f"CREATE OR REPLACE TABLE shuffled.main.{table} AS {other}")
            for i, unit in enumerate(GONE):
                rest = self._without(table, unit)
                copy(f"CREATE OR REPLACE TABLE minus{i}.main.{table} AS FROM whole.main.{table} WHERE {rest}")

    def close(self) -> None:
        """Let go of the databases."""
        self.stage.close()

    def _grow(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Repeat a table's rows under the names of many units; declared facts stay true."""
        cells = []
        for column, kind in self.stage.world.columns[table].items():
            if column in ("user_id", "device_id"):
                people = 120 if table == "likes" else PEOPLE
                unit = "i" if table == "users" else f"hash(i * 31 + {len(table)}) % {people}"
                cells.append(f"CAST(CASE WHEN i % 50 <> 7 THEN {unit} END AS {kind}) AS {column}")
            elif column == "order_id":
                cells.append(
                    f"CAST({'i' if table == 'orders' else 'hash(i * 7) % 150000'} AS {kind}) AS {column}"
                )
            else:
                cells.append(f"t.{column}")
        key = {"users": "user_id", "likes": "user_id, page"}.get(table)
        distinct = f"DISTINCT ON ({key})" if key is not None else ""
        order = "ORDER BY ALL" if key is not None else ""
        listed = ", ".join(cells)
        connection.execute(
            f"CREATE OR REPLACE TABLE whole.main.{table} AS SELECT {distinct} * FROM (SELECT {listed} "
            f"FROM range({SIZES[table]}) AS r(i) JOIN (SELECT *, rowid AS k FROM whole.main.{table}) AS t "
            f"ON t.k = hash(i * 13 + 5) % {TEMPLATES}) AS s {order}"
        )

    def _without(self, table: str, unit: int) -> str:
        if table in PERSONAL:
            return f"user_id IS DISTINCT FROM {unit}"
        if table == "devices":
            return f"device_id IS DISTINCT FROM {unit}"
        return f"rowid <> {unit}" if table == "logs" else "TRUE"

    def run(self, statements: int, tried: Tried) -> None:
        """Make statements, and count each on all databases, on one thread and on three."""
        while tried.accepted < statements:
            made = statement(self.rng, self.stage.world)
            for each, plan in compile_releases(self.stage.world, made, tried):
                try:
                    self._check(each, plan, tried)
                except duckdb.InterruptException:
                    tried.refused["took too long"] += 1

    def _check(self, made: Statement, plan: Plan, tried: Tried) -> None:
        stage = self.stage
        stage.enter("whole")
        whole = _patient(stage.connection, plan)
        for name in ("shuffled", *(f"minus{i}" for i in range(len(GONE)))):
            stage.enter(name)
            other = _patient(stage.connection, plan)
            wrong = moved(plan, whole, other) if name.startswith("minus") else _same(whole, other)
            tried.removals += name.startswith("minus")
            if wrong:
                tried.findings.append(Finding(wrong, made.text, plan.compiled.sql, name))
        for _ in range(2):
            wrong = _same(whole, _patient(stage.twin, plan))
            if wrong:
                tried.findings.append(Finding(wrong, made.text, plan.compiled.sql, "three threads"))


def _same(whole: Counts, other: Counts) -> str:
    return "" if whole == other else "the counts differ"


def _patient(connection: duckdb.DuckDBPyConnection, plan: Plan) -> Counts:
    timer = threading.Timer(PATIENCE, connection.interrupt)
    timer.start()
    try:
        return counts(connection, plan)
    finally:
        timer.cancel()
