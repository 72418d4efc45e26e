"""The schema database: every declared table with its types, in which private tables are empty.

It is the binder, the catalog and the engine of public statements. Public statements, domains, EXPLAIN and
the binding of compiled queries run here, so none of them can disclose private data.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import duckdb

from dpsql.analysis import quote
from dpsql.engines.duckdb import settings
from dpsql.engines.protocol import CANCELLED, FAILED, UNCHARGED, Cancelled
from dpsql.engines.worker import running_statement
from dpsql.errors import OperationalError, ProgrammingError
from dpsql.policy import fold
from dpsql.types import HUGEINT, INTERVAL, JSON, NULL, SqlType, column_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    import pyarrow as pa

    from dpsql.engines.duckdb.domains import Domains
    from dpsql.engines.duckdb.sources import Reader
    from dpsql.tree import Query


_INTERNAL_TYPES = {"HUGEINT": HUGEINT, "INTERVAL": INTERVAL, "JSON": JSON, '"NULL"': NULL, "NULL": NULL}


_WIDE_DECIMAL = re.compile(r"DECIMAL\((19|2\d|3\d),(\d+)\)")
_BARE_NUMBER = re.compile(r"(:\s*-?)(nan|inf)(inity)?\b", re.IGNORECASE)


def _parse_json(text: str) -> dict[str, Any]:
    """Parse JSON written by DuckDB, which writes NaN and infinity without quotes."""
    found: dict[str, Any]
    try:
        found = json.loads(text)
    except ValueError:
        found = json.loads(
            _BARE_NUMBER.sub(lambda m: m[1] + {"nan": "NaN", "inf": "Infinity"}[m[2].lower()], text)
        )
    return found


class SchemaDatabase:
    """Implements `dpsql.analysis.Catalog` and runs public statements."""

    def __init__(self, readers: dict[str, Reader], public: dict[str, pa.Table], domains: Domains) -> None:
        self._readers = {fold(name): reader for name, reader in readers.items()}
        self._domains = domains
        self._types: dict[str, SqlType] = {}
        self._values: dict[str, object] = {}
        self._unique: dict[str, tuple[tuple[str, ...], ...]] = {}
        self._con = settings.connect()
        self._con.execute("SET GLOBAL threads = 1")
        for name, reader in readers.items():
            columns = ", ".join(f"{quote(column)} {sql_type}" for column, sql_type in reader.columns)
            self._con.execute(f"CREATE TABLE main.{quote(name)} ({columns})")
            if name in public:
                self._con.register("dpsql_incoming", public[name])
                self._con.execute(f"INSERT INTO main.{quote(name)} SELECT * FROM dpsql_incoming")
                self._con.unregister("dpsql_incoming")
        domains.create(self._con)
        settings.lock(self._con, (), None)

    def has_generated_column(self, table: str) -> bool:
        """Whether the definition of a table computes a column, so that every scan may find other values."""
        return self._readers[fold(table)].generated

    def columns(self, table: str) -> tuple[tuple[str, SqlType], ...]:
        """See `Catalog`."""
        return self._readers[fold(table)].columns

    def type_of(self, expression: str) -> SqlType:
        """See `Catalog`."""
        if expression not in self._types:
            text = self._fetch(f"SELECT typeof({expression})")[0][0]
            wide = _WIDE_DECIMAL.fullmatch(text)
            if wide:  # a DECIMAL of more than 18 digits, which the rules of the analysis narrow
                self._types[expression] = SqlType("DECIMAL", int(wide[1]), int(wide[2]))
            else:
                self._types[expression] = _INTERNAL_TYPES.get(text) or column_type(text)
        return self._types[expression]

    def evaluate(self, expression: str) -> object:
        """See `Catalog`."""
        if expression not in self._values:
            self._values[expression] = self._fetch(f"SELECT {expression}")[0][0]
        return self._values[expression]

    def count(self, relation: str) -> int:
        """See `Catalog`."""
        return int(str(self.evaluate(f"(SELECT COUNT(*) FROM ({relation}) AS r)")))

    def plan(self, sql: str) -> object:
        """See `Catalog`."""
        literal = "'" + sql.replace("'", "''") + "'"
        bound = _parse_json(self._fetch(f"SELECT json_serialize_plan({literal}, optimize := false)")[0][0])
        if bound.get("error"):
            raise ValueError("the compiled statement does not bind")
        return bound["plans"]

    def domain(self, table: str, column: str) -> Query | None:
        """See `Catalog`."""
        return self._domains.query(table, column)

    def span(self, table: str, column: str) -> tuple[date, date] | None:
        """See `Catalog`."""
        return self._domains.span(table, column)

    def unique(self, table: str) -> tuple[tuple[str, ...], ...]:
        """See `Catalog`: the declared unique facts of a public table that hold."""
        key = fold(table)
        if key not in self._unique:
            reader = self._readers[key]
            held = []
            for fact in reader.table.unique:
                listed = ", ".join(quote(c) for c in fact)
                name = f"main.{quote(reader.table.name)}"
                repeated = self._fetch(f"SELECT 1 FROM {name} GROUP BY {listed} HAVING COUNT(*) > 1 LIMIT 1")
                if not repeated:
                    held.append(fact)
            self._unique[key] = tuple(held)
        return self._unique[key]

    def run(self, sql: str) -> pa.Table:
        """Run a public statement that the analysis has checked."""
        binds = True

        def work(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
            nonlocal binds
            try:
                return cursor.sql(sql).to_arrow_table()
            except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
                binds = False
                raise

        result = settings.run_on_cursor(lambda: self._con, work, UNCHARGED)
        if result is not None:
            return result
        if not binds:
            raise ProgrammingError(
                "the engine cannot bind this public statement: check the names and types of its columns"
            )
        raise OperationalError("the engine could not finish this public statement")

    def calculate(self, table: pa.Table, expressions: Sequence[str]) -> list[pa.Array]:
        """Evaluate expressions over released rows, aliased `r`: post-processing, without charge."""
        listed = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(expressions))

        def work(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
            cursor.register("dpsql_incoming", table)
            return cursor.sql(f"SELECT {listed} FROM dpsql_incoming AS r").to_arrow_table()

        result = settings.run_on_cursor(lambda: self._con, work, CANCELLED)
        if result is None:
            raise OperationalError(FAILED)
        return [result.column(i).combine_chunks() for i in range(result.num_columns)]

    def close(self) -> None:
        """Close the database."""
        self._con.close()

    def _fetch(self, sql: str) -> list[tuple[Any, ...]]:
        failed = cancelled = False
        with running_statement() as statement, self._con.cursor() as cursor:
            try:
                with settings.interruptible(), statement.stopped_by(lambda: settings.interrupt(cursor)):
                    if not statement.cancelled:
                        return cursor.execute(sql).fetchall()
                    cancelled = True
            except duckdb.InterruptException:
                cancelled = True
            except (duckdb.Error, RuntimeError):  # DuckDB raises some faults as RuntimeError
                failed = True
        if cancelled:
            raise Cancelled(UNCHARGED)
        if failed:
            raise ValueError("does not bind")
        return []
