"""A policy with every kind of table the rules know, and its shell database; no file is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dpsql.engines.declared_domains import Domains
from dpsql.engines.duckdb import duckdb_settings
from dpsql.engines.duckdb.table_readers import Reader
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.policy import BudgetPolicy, Defaults, ParquetSource, Policy, Table, UnitColumn, UnitRow, UnitVia
from dpsql.policy.table_parts import BooleanDomain, EnumDomain, RangeDomain, TableDomain, ValuesDomain
from dpsql.types import column_type

__all__ = ["PERSON", "World", "worlds"]

PERSON = "person"
KINDS = {
    "VARCHAR": "text",
    "BOOLEAN": "bool",
    "DOUBLE": "dbl",
    "DATE": "date",
    "TIMESTAMP": "ts",
    "TIME": "time",
    "UUID": "uuid",
    "VARCHAR[]": "texts",
    "BIGINT[]": "ints",
    "DOUBLE[]": "dbls",
}


def kind_of(declared: str) -> str:
    """Return the generator's word for a declared type: all integers are `int`, all DECIMALs `dec`."""
    if declared.startswith("DECIMAL"):
        return "dec"
    if declared.startswith("ENUM"):
        return "enum"
    return KINDS.get(declared, "int")


@dataclass(frozen=True)
class World:
    """One policy, the declared type of each column as text, and the shell its statements are compiled on."""

    name: str
    policy: Policy
    columns: dict[str, dict[str, str]]
    schema_database: SchemaDatabase
    units: str
    """What unit columns are: `integer`, or one type."""
    public: dict[str, pa.Table]
    domains: Domains
    readers: dict[str, Reader]

    def create(self, connection: duckdb.DuckDBPyConnection, catalog: str) -> None:
        """Make the public tables and the domains in an attached, empty database."""
        connection.execute(f"USE {catalog}")
        for name, values in self.public.items():
            connection.register("incoming", values)
            listed = ", ".join(f"CAST({c} AS {t}) AS {c}" for c, t in self.columns[name].items())
            connection.execute(f"CREATE TABLE main.{name} AS SELECT {listed} FROM incoming")
            connection.unregister("incoming")
        self.domains.create(connection)


def _tables(unit: dict[str, str]) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """Columns and declarations of every table; `unit` gives the type of each table's unit column."""

    def person(**more: Any) -> dict[str, Any]:
        return {"unit": UnitColumn("user_id", PERSON), **more}

    days = RangeDomain(date(2024, 1, 1), date(2024, 2, 29))
    return {
        "visits": (
            {
                "user_id": unit["visits"],
                "page": "VARCHAR",
                "country": "VARCHAR",
                "ms": "INTEGER",
                "score": "DOUBLE",
                "price": "DECIMAL(9,2)",
                "day": "DATE",
                "moment": "TIMESTAMP",
                "note": "VARCHAR",
                "flag": "BOOLEAN",
                "tags": "VARCHAR[]",
            },
            person(
                domain={
                    "page": TableDomain("pages", "page"),
                    "country": ValuesDomain(("DE", "FR", "a")),
                    "ms": RangeDomain(0, 7),
                    "day": days,
                    "moment": days,
                    "flag": BooleanDomain(),
                    "score": ValuesDomain((Decimal("0"), Decimal("1.5"), Decimal("-2"))),
                }
            ),
        ),
        "users": (
            {
                "user_id": unit["users"],
                "age": "SMALLINT",
                "city": "ENUM('X', 'Y', 'Z')",
                "vip": "BOOLEAN",
                "joined": "DATE",
                "level": "UBIGINT",
                "note": "VARCHAR",
                "nums": "BIGINT[]",
            },
            person(
                unique=(("user_id",),),
                domain={"city": EnumDomain(), "age": RangeDomain(-1, 10), "joined": days},
            ),
        ),
        "orders": (
            {
                "order_id": "BIGINT",
                "user_id": unit["orders"],
                "page": "VARCHAR",
                "total": "DECIMAL(18,4)",
                "day": "DATE",
                "tod": "TIME",
                "big": "BIGINT",
            },
            person(unique=(("order_id",),), domain={"page": ValuesDomain(("a", "b", "é", "É"))}),
        ),
        "items": (
            {"order_id": "BIGINT", "sku": "VARCHAR", "qty": "INTEGER", "weight": "DOUBLE"},
            {
                "unit": UnitVia("order_id", "orders", "order_id", PERSON),
                "domain": {"sku": ValuesDomain(("a", "b", "c")), "qty": RangeDomain(0, 5)},
            },
        ),
        "likes": (
            {
                "user_id": unit["likes"],
                "page": "VARCHAR",
                "stars": "TINYINT",
                "note": "VARCHAR",
                "receipt": "BIGINT",
            },
            person(
                unique=(("user_id", "page"),),
                same_unit={"receipt": ("orders", "big")},
                domain={"stars": RangeDomain(0, 5), "page": TableDomain("pages", "page")},
            ),
        ),
        "devices": (
            {"device_id": unit["devices"], "os": "VARCHAR", "ms": "INTEGER", "seen": "TIMESTAMP"},
            {
                "unit": UnitColumn("device_id", "device"),
                "domain": {"os": ValuesDomain(("a", "b", "c")), "ms": RangeDomain(0, 7)},
            },
        ),
        "logs": (
            {"level": "VARCHAR", "ms": "BIGINT", "page": "VARCHAR", "moment": "TIMESTAMP", "score": "DOUBLE"},
            {
                "unit": UnitRow("row"),
                "domain": {"level": ValuesDomain(("a", "b", "DE")), "page": TableDomain("pages", "page")},
            },
        ),
        "pages": (
            {
                "page": "VARCHAR",
                "category": "VARCHAR",
                "rank": "INTEGER",
                "fee": "DECIMAL(9,2)",
                "w": "DOUBLE",
            },
            {"public": True, "unique": (("page",),)},
        ),
        "vips": (
            {"user_id": unit["visits"], "page": "VARCHAR", "rank": "INTEGER"},
            {"public": True},
        ),
        "days": ({"day": "DATE", "holiday": "BOOLEAN"}, {"public": True, "unique": (("day",),)}),
    }


_PUBLIC: dict[str, list[tuple[str | None, str | None, int | None, str | None, float | None]]] = {
    # The fact `unique` of pages holds in the first of these and fails in the second.
    "single": [
        ("a", "news", 1, "1.50", 0.0),
        ("b", "news", 2, "0.00", 1.5),
        ("c", "shop", 3, "-2.25", None),
        ("É", "shop", None, None, float("nan")),
        ("z", None, 7, "10.00", -0.0),
        (None, "none", 0, "1.00", float("inf")),
    ],
    "double": [
        ("a", "news", 1, "1.50", 0.0),
        ("a", "shop", 2, "1.50", 1.5),
        ("b", "news", 2, "0.00", -2.0),
        ("b", "news", 2, "0.00", -2.0),
        ("c", None, 5, None, None),
        (None, "none", 0, "1.00", float("nan")),
        (None, "none", 1, "1.00", 0.1),
    ],
}


def _public(which: str, units: str) -> dict[str, pa.Table]:
    pages = _PUBLIC[which]
    names = {
        "integer": ["1", "2", "2", None],
        "VARCHAR": ["1", "01", "a", None],
        "UUID": ["00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002", None, None],
        "DATE": ["2024-01-01", "2024-01-02", "infinity", None],
    }[units]
    days = ["2024-01-01", "2024-01-05", "2024-02-03", "5881580-07-10"]
    return {
        "pages": pa.table(
            {
                "page": [p[0] for p in pages],
                "category": [p[1] for p in pages],
                "rank": [p[2] for p in pages],
                "fee": [p[3] for p in pages],
                "w": pa.array([p[4] for p in pages], pa.float64()),
            }
        ),
        "vips": pa.table({"user_id": names, "page": ["a", "b", "z", None], "rank": [1, 2, None, 0]}),
        "days": pa.table({"day": days, "holiday": [True, False, None, True]}),
    }


def _world(
    name: str,
    units: str,
    public: str,
    unit: dict[str, str],
    defaults: Defaults | None = None,
    *,
    shared: bool,
    facts: bool,
) -> World:
    declared = _tables(unit)
    if not shared:
        columns, more = declared["likes"]
        del columns["receipt"], more["same_unit"]
    if facts:
        declared["users"][1]["covers"] = {"joined": (date(2024, 1, 1), date(2024, 2, 29))}
        declared["visits"][1]["determines"] = {"page": ("country",)}
        declared["orders"][1]["owned"] = ("day",)
    tables = {
        n: Table(
            name=n,
            source=ParquetSource(Path(f"{n}.parquet")),
            columns={c: column_type(t) for c, t in columns.items()},
            **more,
        )
        for n, (columns, more) in declared.items()
    }
    policy = Policy(
        budget=BudgetPolicy(epsilon=Fraction(10), delta=Fraction(1, 1000)),
        tables=tables,
        defaults=defaults or Defaults(),
    )
    readers = {n: Reader(t, tuple((t.columns or {}).items()), "", ()) for n, t in policy.tables.items()}
    listed = {n: c for n, (c, _) in declared.items()}
    domains = Domains(policy, readers)
    incoming = _public(public, units)
    typed = {n: _typed(values, listed[n]) for n, values in incoming.items()}
    return World(
        name, policy, listed, SchemaDatabase(readers, typed, domains), units, typed, domains, readers
    )


def _typed(values: pa.Table, columns: dict[str, str]) -> pa.Table:
    """Read public values through their declared types, as the engine does."""
    with duckdb_settings.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("incoming", values)
        listed = ", ".join(
            f"CASE WHEN isnan({c}) THEN 'nan'::DOUBLE ELSE {c} + 0.0 END AS {c}"
            if t == "DOUBLE"
            else f"TRY_CAST({c} AS {t}) AS {c}"
            for c, t in columns.items()
        )
        return connection.sql(f"SELECT {listed} FROM incoming").to_arrow_table()


def worlds(*, shared: bool = True, facts: bool = False) -> list[World]:
    """Make the worlds: unit columns of every allowed type, facts about public tables that hold or fail.

    Without `shared` no key is shared by two tables, as in the worlds whose statements are recorded. With
    `facts` the owner declares more of private columns, which rows need not keep.
    """
    same = ("visits", "users", "orders", "likes", "devices")
    mixed = {
        "visits": "BIGINT",
        "users": "BIGINT",
        "orders": "UBIGINT",
        "likes": "TINYINT",
        "devices": "BIGINT",
    }
    few, two = Defaults(rows_per_unit=3, groups=2), Defaults(rows_per_unit=2)
    return [
        _world("integers", "integer", "single", mixed, few, shared=shared, facts=facts),
        _world("texts", "VARCHAR", "double", dict.fromkeys(same, "VARCHAR"), shared=shared, facts=facts),
        _world("uuids", "UUID", "single", dict.fromkeys(same, "UUID"), two, shared=shared, facts=facts),
        _world("dates", "DATE", "double", dict.fromkeys(same, "DATE"), shared=shared, facts=facts),
    ]
