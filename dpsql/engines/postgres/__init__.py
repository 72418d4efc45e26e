"""The private engine on PostgreSQL, over ADBC, and its connections: read-only, queried for counts only.

A connection has pinned settings, and gives no error texts of the server. ``postgres_tables`` finds a table,
reads its types and guards it; ``postgres_sql`` writes its SQL and sends public rows; ``postgres_owner`` is
for the owner.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dpsql.engines.duckdb.table_readers import Reader, declared_columns
from dpsql.engines.postgres import postgres_sql
from dpsql.engines.postgres.postgres_sql import PostgresDialect, string_literal
from dpsql.engines.postgres.postgres_tables import (
    PostgresGuard,
    columns_of,
    find_table,
    never_null_columns,
    raise_if_changed,
    write_scan,
)
from dpsql.engines.remote_engine import PLANNING_SECONDS, RemoteEngine, check_digits
from dpsql.engines.writer import TargetColumn, Translated, Untranslatable
from dpsql.errors import OperationalError, PolicyError
from dpsql.kernel.tree import list_tables
from dpsql.policy import DatabaseSource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor

    from dpsql.analysis import CompiledQuery
    from dpsql.policy import Policy, Table

_PINNED = {
    # The meaning of a statement must not depend on the server, the database or the role.
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "error",  # no notices are sent
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "xmloption": "content",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "row_security": "off",  # a statement that a policy would filter fails, whatever the rows
    "default_transaction_read_only": "on",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "gin_fuzzy_search_limit": "0",  # otherwise an index scan may omit rows at random
    "jit": "off",  # compiling costs more than it saves for a statement that runs once
}
LOCK_SECONDS = 5
"""How long a statement waits for the locks of its tables before it is charged."""
_WATCHED = ("client_connection_check_interval", "2s")
"""The setting by which the server ends a statement whose client is gone, and how often it looks.

PostgreSQL 14 and later have it, on systems that tell it of a closed socket; others refuse it.
"""
_REQUIRED = {
    # A role cannot set these for itself. With other values some rows would fail, or would be missing.
    "pg_size_bytes(current_setting('max_stack_depth')) >= 2097152": "max_stack_depth is at least 2MB",
    "current_setting('zero_damaged_pages') = 'off'": "zero_damaged_pages is off",
    "current_setting('ignore_checksum_failure') = 'off'": "ignore_checksum_failure is off",
    # An analyst can choose a statement whose sort takes just so much: one row more, and it fails.
    "pg_size_bytes(current_setting('temp_file_limit')) NOT BETWEEN 0 AND 1099511627775": (
        "temp_file_limit is -1 for dpsql's role, or at least 1TB"
    ),
    # Somebody's own conversion, operator or function would be called in place of the server's, and could
    # raise on a row. Objects from 16384 on did not come with the server; casts WITH INOUT are what it does.
    "NOT EXISTS (SELECT FROM pg_cast WHERE oid >= 16384 AND castsource < 16384 AND casttarget < 16384 "
    "AND castmethod <> 'i')": "its database has no user-defined cast between built-in types",
    "NOT EXISTS (SELECT FROM pg_operator WHERE oid >= 16384 AND oprnamespace = 'pg_catalog'::regnamespace)": (
        "its database has no user-defined operator in the schema pg_catalog"
    ),
    "NOT EXISTS (SELECT FROM pg_proc p WHERE p.oid >= 16384 AND p.pronamespace = 'pg_catalog'::regnamespace "
    "AND EXISTS (SELECT FROM pg_proc b WHERE b.oid < 16384 AND b.proname = p.proname))": (
        "its database has no user-defined function in the schema pg_catalog with a built-in name"
    ),
}
# Not REPEATABLE READ: the catalog is read as it is after the tables are locked, and again after the count.
# The count is one statement, which has one snapshot anyway.
_BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"


class _UnsuitableError(Exception):
    """The server has a setting, or the database an object, under which rows could fail or be missing.

    The text names it.
    """


class PostgresConnection:
    """A read-only session; a failed statement raises an exception that `run_in_thread` handles."""

    def __init__(self, address: str, timeout: int) -> None:
        try:
            from adbc_driver_postgresql import dbapi  # noqa: PLC0415  an extra
        except ImportError:
            raise PolicyError(
                "database.engine: the PostgreSQL driver is not installed", hint="pip install dpsql[postgres]"
            ) from None
        self._running: Any = None
        self.open = True
        """Whether it may be used; false after `close`."""
        self._timeout = timeout * 1000
        self._lock = threading.RLock()  # one statement at a time
        self._adbc: Any = None
        self._watched = False
        """Whether the server accepts `_WATCHED`."""
        problem = ""
        try:
            self._adbc = dbapi.connect(address, autocommit=True)
            self.table("SELECT 1 AS x")
            self._watched = self._accepts(*_WATCHED)
        except _UnsuitableError as unsuitable:
            problem = str(unsuitable)
        except Exception:  # noqa: BLE001  its text names hosts and roles, and may quote a password file
            problem = "the PostgreSQL server of the policy cannot be reached"
        if problem:
            self.close()
            raise OperationalError(problem)
        if self.ask("SELECT current_setting('server_encoding')") != [("UTF8",)]:
            self.close()
            raise PolicyError("database.engine: the database's encoding is not UTF8")

    @contextmanager
    def _begin(self, guards: Collection[PostgresGuard], seconds: int | None = None) -> Iterator[Cursor]:
        """Begin a transaction, pin its settings, lock the private tables and check that they are unchanged.

        Every transaction does all of this: a pooler may run each on another session without its settings.
        Each statement in it is stopped after the timeout, or after `seconds` if these are fewer.
        """
        with self._lock, self._adbc.cursor() as cursor:
            self._running = cursor
            try:
                cursor.execute(_BEGIN)
                self._pin(cursor, self._timeout if seconds is None else min(self._timeout, seconds * 1000))
                if guards:
                    names = ", ".join(guard.name for guard in guards if guard.lockable)
                    cursor.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE" if names else "SELECT 1 AS x")
                    for guard in guards:
                        guard.check(lambda sql: _fetch_rows(cursor, sql))
                yield cursor
            finally:
                self._running = None
                with suppress(Exception):
                    cursor.execute("ROLLBACK")

    def _pin(self, cursor: Cursor, timeout: int) -> None:
        pinned = {**_PINNED, "statement_timeout": str(timeout), **dict([_WATCHED] if self._watched else [])}
        listed = ", ".join(
            f"{_write_setting(name, value)} AS s{i}" for i, (name, value) in enumerate(pinned.items())
        )
        _fetch_rows(cursor, f"SELECT {listed}")
        # PostgreSQL 17 and later have this setting.
        _fetch_rows(
            cursor,
            "SELECT pg_catalog.set_config(name, '0', true) AS s FROM pg_catalog.pg_settings "
            "WHERE name = 'transaction_timeout'",
        )
        there = ", ".join(
            f"pg_catalog.current_setting({string_literal(name)}) AS s{i}"
            for i, name in enumerate((*_PINNED, "transaction_read_only"))
        )
        if _fetch_rows(cursor, f"SELECT {there}") != [(*_PINNED.values(), "on")]:
            raise _UnsuitableError("the PostgreSQL server does not accept the settings of a transaction")
        listed = ", ".join(f"{condition} AS s{i}" for i, condition in enumerate(_REQUIRED))
        (held,) = _fetch_rows(cursor, f"SELECT {listed}")
        for what, holds in zip(_REQUIRED.values(), held, strict=True):
            if holds is not True:
                raise _UnsuitableError(f"the PostgreSQL server must be set so that {what}")

    def _accepts(self, name: str, value: str) -> bool:
        """Return whether the server has a setting, and accepts a value of it for a transaction."""
        with suppress(Exception), self._begin(()) as cursor:
            _fetch_rows(cursor, f"SELECT {_write_setting(name, value)} AS s")
            return True
        return False

    def table(self, sql: str, guards: Collection[PostgresGuard] = ()) -> pa.Table:
        """Run a SELECT and return its rows; check before and after it that the tables are unchanged."""
        with self._begin(guards) as cursor:
            cursor.execute(sql)
            found = cursor.fetch_arrow_table()
            # Some changes ignore the lock: ATTACH PARTITION, INHERIT, an index dropped concurrently.
            for guard in guards:
                guard.check(lambda text: _fetch_rows(cursor, text))
            return found

    def is_alive(self) -> bool:
        """Whether the session still answers."""
        with suppress(Exception):
            self.table("SELECT 1 AS x")
            return True
        return False

    def can_lock(self, guards: Collection[PostgresGuard], seconds: int) -> bool:
        """Return whether the tables can be locked in time, and are as they were when they were opened."""
        with suppress(Exception), self._begin(guards, seconds):
            return True
        return False

    def explain(self, sql: str, guards: Collection[PostgresGuard], seconds: int) -> bool:
        """Let the server plan a statement without running it; return whether it succeeded in time.

        The time is that after the tables are locked, which takes at most `LOCK_SECONDS`.
        """
        with suppress(Exception), self._begin(guards, min(seconds, LOCK_SECONDS)) as cursor:
            timeout = str(min(self._timeout, seconds * 1000))
            _fetch_rows(cursor, f"SELECT {_write_setting('statement_timeout', timeout)} AS s")
            # The driver reads rows by COPY, which does not accept EXPLAIN.
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(f"EXPLAIN (COSTS off) {sql}")
            cursor.fetchall()
            return True
        return False

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """Run a query on the catalog and return its rows."""
        rows: list[tuple[object, ...]] | None = None
        with suppress(Exception):
            rows = _to_rows(self.table(sql))
        if rows is None:
            raise OperationalError("the catalog of the PostgreSQL server cannot be read")
        return rows

    def cancel(self) -> None:
        """Stop the running statement, from another thread."""
        running = self._running
        if running is not None:
            with suppress(Exception):
                running.adbc_cancel()

    def close(self) -> None:
        """Close the engine's connection to the server."""
        self.open = False
        if self._adbc is not None:
            with suppress(Exception):
                self._adbc.close()


def _write_setting(name: str, value: str) -> str:
    """Write the expression that gives a setting a value for this transaction."""
    return f"pg_catalog.set_config({string_literal(name)}, {string_literal(value)}, true)"


def _fetch_rows(cursor: Cursor, sql: str) -> list[tuple[object, ...]]:
    cursor.execute(sql)
    return _to_rows(cursor.fetch_arrow_table())


def _to_rows(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))


class PostgresEngine(RemoteEngine):
    """The private engine on PostgreSQL: opens the tables of a server, and counts there."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._guards: dict[str, PostgresGuard] = {}
        self._idle: list[PostgresConnection] = []
        self.open_tables()

    @contextmanager
    def connection(self) -> Iterator[PostgresConnection]:
        """Reserve a connection for one statement.

        It is an idle one, or a new one.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = PostgresConnection(self._policy.engine, self._policy.timeout)
        try:
            yield connection
        finally:
            if connection.open:
                self._idle.append(connection)

    @property
    def dialect(self) -> PostgresDialect:
        """The dialect of the engine, with the scans of the tables found."""
        return PostgresDialect(self._scans, self._policy.longest_value, self._policy.timeout)

    def introspect(self, table: Table) -> tuple[Reader, tuple[str, dict[str, TargetColumn]]]:
        """Find a table in the engine's catalog, and write its scan; raises `PolicyError`. No row is read."""
        if not isinstance(table.source, DatabaseSource):
            raise PolicyError(f"tables.{table.name}.source: is not a table of the database")
        with self.connection() as connection:
            found = find_table(connection.ask, table, table.source)
        physical = [(name, word) for name, _, word in columns_of(found)]
        check_digits(table, physical)
        columns = declared_columns(table, physical)
        scanned = write_scan(table, found, columns, self._policy.longest_value)
        if not table.public:
            guard = PostgresGuard(table, table.source, columns, found)
            guard.check_facts(found)
            self._guards[table.name] = guard
        there = {column.name.lower(): self.dialect.quote(column.name) for column in found.columns}
        return Reader(
            table,
            columns,
            "",
            (),
            never_null=never_null_columns(table, found, columns, self._policy.longest_value),
            scan=f"{found.text} AS r" if found.children else f"ONLY {found.text} AS r",
            cells=tuple(f"r.{there[name.lower()]}" for name, _ in columns),
        ), scanned

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the SQL that the engine will run, for display; raises `Untranslatable` before any charge.

        Before a charge, connections that the server has ended are closed.
        """
        with self.connection() as connection:
            if not connection.is_alive():
                self.discard(connection)
                self.disconnect()
        return super().translate(compiled)

    def bind(self, statement: Translated) -> None:
        """Let the engine plan a statement without reading rows; raises `Untranslatable` if it cannot."""
        sql, guards = postgres_sql.executable_sql(statement, self.dialect), self._guards_of(statement.tables)
        with self.connection() as connection:
            planned = connection.explain(sql, guards, PLANNING_SECONDS)
        if not planned:
            self._check(guards, 1)  # planning has waited for the locks before
            raise Untranslatable("PostgreSQL cannot plan this statement", "write it in a simpler form")

    def is_current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge.

        Raises `OperationalError` if a table was altered, or is locked by somebody else.
        """
        self._check(self._guards_of(list_tables(compiled.query)), LOCK_SECONDS)
        return True

    def _guards_of(self, tables: frozenset[str] | None) -> list[PostgresGuard]:
        """Return the guards of the private tables among some; None: of all."""
        return [guard for name, guard in self._guards.items() if tables is None or name in tables]

    def _check(self, guards: list[PostgresGuard], seconds: int) -> None:
        """Raise unless tables can be locked for reading soon, and are as they were when they were opened."""
        for _ in range(2):  # a connection that the server has ended is seen at its first use
            with self.connection() as connection:
                if connection.can_lock(guards, seconds):
                    return
                if connection.is_alive():
                    break
                self.discard(connection)
            self.disconnect()
        with self.connection() as connection:
            raise_if_changed(guards, connection.ask)
        raise OperationalError(
            "a table that the statement reads is locked by somebody who changes it; nothing was charged, "
            "ask again"
        )

    def fetch(self, connection: PostgresConnection, statement: Translated) -> pa.Table:
        """Run a statement. It is called in a worker thread and may raise any exception."""
        guards = self._guards_of(statement.tables)
        found = connection.table(postgres_sql.executable_sql(statement, self.dialect), guards)
        return postgres_sql.to_storage_types(found)

    def show(self, statement: Translated) -> str:
        """Return a statement's SQL for display, without public rows."""
        return postgres_sql.display_sql(statement, self.dialect)

    def checksum(self, cells: list[str]) -> str:
        """Write an aggregate that reads every value of some columns."""
        return f"bit_xor({self.dialect.hash_values(cells)})"

    def stop(self, connection: PostgresConnection) -> None:
        """Stop the statement that a connection runs."""
        connection.cancel()

    def discard(self, connection: PostgresConnection) -> None:
        """Let nobody use a connection again, since a statement failed on it.

        The server may have ended it.
        """
        connection.close()

    def is_interrupt(self, error: BaseException) -> bool:
        """Whether an error is the engine's report that a statement was interrupted.

        It is known by its SQLSTATE, since messages are in the server's language.
        """
        return getattr(error, "sqlstate", None) == "57014"  # query_canceled

    def disconnect(self) -> None:
        """Close the connections that no statement uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
