"""One engine as the tests use it: put rows into it, name them in a policy, open a session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa

from dpsql.engines import open_engine
from dpsql.engines.remote_engine import RemoteEngine, _cast_to_declared
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.writer import write
from dpsql.policy import Policy, Table, UnitColumn, load
from dpsql.session import Session
from support.reading import query_of
from tests.narrow import engine_of

PLAIN = {
    # Small statements: Spark spends its time on compiling and on empty tasks.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


class Store:
    """An engine that holds tables; `name` is as messages call it."""

    name = ""
    types: ClassVar[Mapping[str, str]]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()

    def put(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str]) -> dict[str, str]:
        """Copy the results of SELECTs; return each table's `source` for a policy."""
        raise NotImplementedError  # pragma: no cover  both engines have it

    def policy(self, text: str, sources: Mapping[str, str]) -> Policy:
        """Read a policy written for files `NAME.parquet`, with the tables where they are."""
        folder = self.folder / f"policy{next(self._numbers)}"
        folder.mkdir()
        for name, source in sources.items():
            assert f'"{name}.parquet"' in text
            text = text.replace(f'"{name}.parquet"', f"'{source}'")
        (folder / "dpsql.toml").write_text(f'[database]\nengine = "{self.engine}"\n{text}', "utf-8")
        return load(folder / "dpsql.toml")

    @property
    def engine(self) -> str:
        raise NotImplementedError  # pragma: no cover  both engines have it

    def session(self, policy: Policy) -> Session:
        session = Session(policy)
        self.tune(engine_of(session))
        return session

    def open(self, policy: Policy) -> tuple[SchemaDatabase, RemoteEngine]:
        engine = open_engine(policy)
        assert isinstance(engine, RemoteEngine)
        self.tune(engine)
        return engine.schema_database, engine

    def keep(self, table: Table, source: str) -> None:
        """Let the engine keep what a policy vouches for, where it is so."""

    def tune(self, engine: object) -> None:
        """Make small statements quick."""


class PostgresStore(Store):
    name = "PostgreSQL"
    types: ClassVar[Mapping[str, str]] = {
        "DOUBLE": "float8",
        "VARCHAR": "text",
        "TINYINT": "smallint",
        "UTINYINT": "smallint",
        "UINTEGER": "bigint",
        "UBIGINT": "numeric(20,0)",
    }

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self.address = address

    @property
    def engine(self) -> str:
        return self.address

    def execute(self, *statements: str) -> None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address, autocommit=True) as connection, connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    @contextmanager
    def locked(self, sql: str) -> Iterator[None]:
        """Keep a transaction open in this block, in which a statement was run."""
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(sql)
            yield
            cursor.execute("ROLLBACK")

    def put(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str]) -> dict[str, str]:
        from adbc_driver_postgresql import dbapi

        schema = f"s{next(self._numbers)}_{id(self):x}"
        with dbapi.connect(self.address, autocommit=True) as store, store.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {schema}")
            for name, sql in tables.items():
                described = connection.execute(f"DESCRIBE {sql}").fetchall()
                texts = ", ".join(f'CAST("{row[0]}" AS VARCHAR) AS "{row[0]}"' for row in described)
                rows = connection.sql(f"SELECT {texts} FROM ({sql}) AS r").to_arrow_table()
                cursor.adbc_ingest("incoming", rows, mode="create", db_schema_name=schema)
                cells = ", ".join(
                    f'CAST("{row[0]}" AS {self.types.get(row[1], row[1])}) AS "{row[0]}"' for row in described
                )
                cursor.execute(f'CREATE TABLE {schema}."{name}" AS SELECT {cells} FROM {schema}.incoming')
                cursor.execute(f"DROP TABLE {schema}.incoming")
                cursor.execute(f'ANALYZE {schema}."{name}"')
        return {name: f'{schema}."{name}"' for name in tables}

    def policy(self, text: str, sources: Mapping[str, str]) -> Policy:
        """Read a policy; what it vouches for is kept by an index, where it is so."""
        policy = super().policy(text, sources)
        for table in policy.tables.values():
            if not table.public:
                self.keep(table, sources[table.name])
        return policy

    def keep(self, table: Table, source: str) -> None:
        for fact in table.unique:
            unit = table.unit.column if isinstance(table.unit, UnitColumn) else ""
            filled = ", ".join(f'ALTER "{c}" SET NOT NULL' for c in fact if c.lower() != unit.lower())
            index = "CREATE UNIQUE INDEX ON {} ({})".format(source, ", ".join(f'"{c}"' for c in fact))
            with suppress(Exception):
                self.execute(f"{index} NULLS NOT DISTINCT")
            with suppress(Exception):
                self.execute(index, *([f"ALTER TABLE {source} {filled}"] if filled else []))


class SparkStore(Store):
    name = "Spark"

    @property
    def engine(self) -> str:
        return "spark"

    def put(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str]) -> dict[str, str]:
        folder = self.folder / f"rows{next(self._numbers)}"
        folder.mkdir()
        for name, sql in tables.items():
            connection.execute(f"COPY ({sql}) TO '{folder / name}.parquet'")
        return {name: str(folder / f"{name}.parquet") for name in tables}

    def tune(self, engine: object) -> None:
        for name, value in PLAIN.items():
            engine.session.conf.set(name, value)  # type: ignore[attr-defined]  # SparkEngine


def compare(engine: RemoteEngine, sql: str) -> pa.Table:
    """Run any text of the compiled language, translated, and give its columns DuckDB's types."""
    made = write(query_of(sql), engine.dialect, engine.schema_database, engine._private, {})
    engine.bind(made)
    return _cast_to_declared(engine._run(made), [c.type for c in made.columns])
