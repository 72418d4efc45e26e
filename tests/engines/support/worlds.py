# ruff: noqa: E501  statements and lists of values read better unbroken
"""The fuzzer's world in an engine: the columns it holds, the whole database and its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
from fuzz.data import PERSONAL, PLACE, TABLES, Data, small_data
from fuzz.world import World, _public, _tables

from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.remote_engine import RemoteEngine
from dpsql.policy import BudgetPolicy, DatabaseSource, ParquetSource, Policy, Source, Table
from dpsql.policy.table_parts import EnumDomain, ValuesDomain
from dpsql.types import column_type
from support.stores import Store

UNITS = {"visits": "BIGINT", "users": "BIGINT", "orders": "BIGINT", "likes": "TINYINT", "devices": "BIGINT"}
AWAY = ("[]", "TIME", "UUID")
"""Types that stay in DuckDB."""


def declared() -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """Return the fuzzer's tables without what engines do not hold."""
    found = {}
    for name, (columns, more) in _tables(UNITS).items():
        kept = {
            c: "VARCHAR" if kind.startswith("ENUM") else kind
            for c, kind in columns.items()
            if not kind.endswith(AWAY)
        }
        domain = {
            c: ValuesDomain(("X", "Y", "Z")) if isinstance(d, EnumDomain) else d
            for c, d in more.get("domain", {}).items()
            if c in kept
        }
        found[name] = (kept, {**more, **({"domain": domain} if "domain" in more else {})})
    return found


def held(column: str, kind: str) -> str:
    """Write a cell as every engine can hold it: no NUL, dates of the years 1 to 9999, one zero."""
    cell = f'TRY_CAST("{column}" AS {kind})'
    if kind == "VARCHAR":
        return f"replace({cell}, chr(0), '?')"
    if kind in ("DATE", "TIMESTAMP"):
        return f"CASE WHEN {cell} BETWEEN {kind} '0001-01-01' AND {kind} '9999-12-31' THEN {cell} END"
    return f"CASE WHEN isnan({cell}) THEN 'nan'::DOUBLE ELSE {cell} + 0.0 END" if kind == "DOUBLE" else cell


@dataclass
class Town:
    """One world filled with random rows: in DuckDB, and in an engine whole and without each unit."""

    store: Store
    world: World
    engine: RemoteEngine
    duck: duckdb.DuckDBPyConnection
    units: int

    def enter(self, name: str) -> None:
        """Let the engine count on the whole (`whole`) or on a neighbour (`minus0`, ..)."""
        for table in TABLES:
            source = self._sources[
                f"{table}_{name}" if f"{table}_{name}" in self._sources else f"{table}_whole"
            ]
            declared_table = self.world.policy.tables[table]
            moved = Table(
                name=table,
                source=source,
                unit=declared_table.unit,
                columns=declared_table.columns,
                unique=declared_table.unique,
                domain=declared_table.domain,
            )
            self.engine._scans[table] = self.engine.introspect(moved)[1]
        self.engine._translations.clear()

    _sources: dict[str, Source] = field(default_factory=dict)  # set by `fill`


def _source(text: str) -> Source:
    if text.endswith(".parquet"):
        return ParquetSource(Path(text))
    schema, name = text.replace('"', "").split(".")
    return DatabaseSource(schema, name)


def town(store: Store, rng: Random) -> Iterator[Town]:
    """Fill a world and open it in the engine."""
    columns = {name: c for name, (c, _) in declared().items()}
    with duckdb_settings.connect() as duck:
        duck.execute("SET threads = 1")
        for name, rows in _public("single", "integer").items():
            duck.register("incoming", rows)
            _create(duck, name, columns[name], "incoming")
            duck.unregister("incoming")
        data = small_data(rng, World("", None, columns, None, "integer", {}, None, {}))  # type: ignore[arg-type]
        _fill(duck, data, columns)
        tables = {name: f"SELECT * FROM main.{name}" for name in ("pages", "vips", "days")}
        tables |= {f"{t}_whole": f"SELECT * FROM main.{t}" for t in TABLES}
        for i, unit in enumerate(data.units):
            for table, condition in _without(data, i, unit).items():
                tables[f"{table}_minus{i}"] = f"SELECT * FROM main.{table} WHERE {condition}"
        put = store.put(duck, tables)
        sources = {name: _source(text) for name, text in put.items()}
        policy = Policy(
            budget=BudgetPolicy(epsilon=Fraction(10), delta=Fraction(1, 1000)),
            engine=store.engine,
            tables={
                name: Table(
                    name=name,
                    source=sources[name if more.get("public") else f"{name}_whole"],
                    columns={c: column_type(t) for c, t in columns[name].items()},
                    **more,
                )
                for name, (_, more) in declared().items()
            },
        )
        for name, text in put.items():
            store.keep(policy.tables[name.partition("_")[0]], text)
        schema_database, engine = store.open(policy)
        try:
            world = World(
                "engine",
                policy,
                columns,
                schema_database,
                "integer",
                {},
                schema_database.domains,
                engine.readers,
            )
            schema_database.domains.create(duck)
            made = Town(store, world, engine, duck, len(data.units))
            made._sources = sources
            yield made
        finally:
            engine.close()
            schema_database.close()


def _create(duck: duckdb.DuckDBPyConnection, name: str, columns: dict[str, str], source: str) -> None:
    cells = ", ".join(f'{held(c, kind)} AS "{c}"' for c, kind in columns.items())
    duck.execute(f"CREATE TABLE main.{name} AS SELECT {cells} FROM {source}")


def _fill(duck: duckdb.DuckDBPyConnection, data: Data, columns: dict[str, dict[str, str]]) -> None:
    for name in TABLES:
        listed = ", ".join(f'"{c}" VARCHAR' for c in columns[name])
        duck.execute(f"CREATE TEMP TABLE raw_{name} ({listed})")
        for row in data.rows[name]:
            duck.execute(f"INSERT INTO raw_{name} SELECT {', '.join(f'({cell})::VARCHAR' for cell in row)}")
        _create(duck, name, columns[name], f"raw_{name}")


def _without(data: Data, i: int, unit: str) -> dict[str, str]:
    """Say which rows stay when the i-th person, device and row of `logs` go."""
    gone = dict.fromkeys(PERSONAL, f"user_id IS DISTINCT FROM TRY_CAST({unit} AS BIGINT)")
    gone["devices"] = f"device_id IS DISTINCT FROM TRY_CAST({unit} AS BIGINT)"
    gone["logs"] = f"rowid <> {i}"
    if not data.orphans:
        owned = f"SELECT order_id FROM main.orders WHERE user_id = TRY_CAST({unit} AS BIGINT) AND order_id IS NOT NULL"
        gone["items"] = f"order_id IS NULL OR order_id NOT IN ({owned})"
    assert set(PLACE) <= set(gone)
    return gone
