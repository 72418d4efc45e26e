"""One connection to PostgreSQL: settings pinned, read-only, errors kept away from everybody."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dpsql.engines.postgres.dialect import string_literal
from dpsql.errors import OperationalError, PolicyError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor

    from dpsql.engines.postgres.guard import Guard

__all__ = ["Connection"]

_PINNED = {
    # What a text of ours means must not depend on the server, the database or the role.
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "error",  # notices are printed by nobody
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "xmloption": "content",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "row_security": "off",  # what a policy would filter fails instead, whatever the rows
    "default_transaction_read_only": "on",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "gin_fuzzy_search_limit": "0",  # a scan of an index would leave rows out at random
    "jit": "off",  # it costs more than it gains where a statement runs once
}
_REQUIRED = {
    # A role cannot set these for itself; where they differ, some rows would fail, or vanish.
    "pg_size_bytes(current_setting('max_stack_depth')) >= 2097152": "max_stack_depth is at least 2MB",
    "current_setting('zero_damaged_pages') = 'off'": "zero_damaged_pages is off",
    "current_setting('ignore_checksum_failure') = 'off'": "ignore_checksum_failure is off",
}
# Not REPEATABLE READ: the catalog must be seen as it is once the tables are locked, and again after the
# count. What counts is one statement, which has one snapshot anyway.
_BEGIN = "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"


class _UnsuitableError(Exception):
    """The server's settings are none that every row is read alike under; the text says which."""


class Connection:
    """A session that can read and nothing else; every failure is a plain exception for `worker.run`."""

    def __init__(self, address: str, timeout: int) -> None:
        try:
            from adbc_driver_postgresql import dbapi  # noqa: PLC0415  an extra
        except ImportError:
            raise PolicyError(
                "database.engine: PostgreSQL is reached by a driver that is not installed",
                hint="pip install dpsql[postgres]",
            ) from None
        self._running: Any = None
        self._timeout = timeout * 1000
        self._lock = threading.RLock()  # one statement at a time
        self._adbc: Any = None
        problem = ""
        try:
            self._adbc = dbapi.connect(address, autocommit=True)
            self.table("SELECT 1 AS x")
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
    def _statement(self, guards: Collection[Guard]) -> Iterator[Cursor]:
        """Begin a transaction, pin its settings, lock what is read and see that it is what was opened.

        All of it in every transaction: a pooler may give each to another session, and forget settings.
        """
        with self._lock, self._adbc.cursor() as cursor:
            self._running = cursor
            try:
                cursor.execute(_BEGIN)
                self._pin(cursor)
                if guards:
                    names = ", ".join(guard.name for guard in guards)
                    cursor.execute(f"LOCK TABLE {names} IN ACCESS SHARE MODE")
                    for guard in guards:
                        guard.check(lambda sql: _rows(cursor, sql))
                yield cursor
            finally:
                self._running = None
                with suppress(Exception):
                    cursor.execute("ROLLBACK")

    def _pin(self, cursor: Cursor) -> None:
        pinned = {**_PINNED, "statement_timeout": str(self._timeout)}
        listed = ", ".join(
            f"pg_catalog.set_config({string_literal(name)}, {string_literal(value)}, true) AS s{i}"
            for i, (name, value) in enumerate(pinned.items())
        )
        _rows(cursor, f"SELECT {listed}")
        # Of PostgreSQL 17; an older server does not know it.
        _rows(
            cursor,
            "SELECT pg_catalog.set_config(name, '0', true) AS s FROM pg_catalog.pg_settings "
            "WHERE name = 'transaction_timeout'",
        )
        there = ", ".join(
            f"pg_catalog.current_setting({string_literal(name)}) AS s{i}"
            for i, name in enumerate((*_PINNED, "transaction_read_only"))
        )
        if _rows(cursor, f"SELECT {there}") != [(*_PINNED.values(), "on")]:
            raise _UnsuitableError("the PostgreSQL server does not take the settings of a transaction")
        listed = ", ".join(f"{condition} AS s{i}" for i, condition in enumerate(_REQUIRED))
        (held,) = _rows(cursor, f"SELECT {listed}")
        for what, holds in zip(_REQUIRED.values(), held, strict=True):
            if holds is not True:
                raise _UnsuitableError(f"the PostgreSQL server must be set so that {what}")

    def table(self, sql: str, guards: Collection[Guard] = ()) -> pa.Table:
        """Run a SELECT; its rows come as Arrow. What is read must still be what it was after it has run."""
        with self._statement(guards) as cursor:
            cursor.execute(sql)
            found = cursor.fetch_arrow_table()
            # Some changes do not wait for the lock: ATTACH PARTITION, INHERIT, an index dropped concurrently.
            for guard in guards:
                guard.check(lambda text: _rows(cursor, text))
            return found

    def alive(self) -> bool:
        """Whether the session is still there."""
        with suppress(Exception):
            self.table("SELECT 1 AS x")
            return True
        return False

    def explain(self, sql: str, guards: Collection[Guard] = ()) -> bool:
        """Let the server bind and plan a statement without running it; False if it does not."""
        with suppress(Exception), self._statement(guards) as cursor:
            # What EXPLAIN prints cannot be copied out, as the driver does with rows.
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(f"EXPLAIN (COSTS off) {sql}")
            cursor.fetchall()
            return True
        return False

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """Ask the catalog."""
        rows: list[tuple[object, ...]] | None = None
        with suppress(Exception):
            rows = _listed(self.table(sql))
        if rows is None:
            raise OperationalError("the PostgreSQL server does not answer about its tables")
        return rows

    def cancel(self) -> None:
        """Stop what runs, from another thread."""
        running = self._running
        if running is not None:
            with suppress(Exception):
                running.adbc_cancel()

    def close(self) -> None:
        """Let go of the server."""
        if self._adbc is not None:
            with suppress(Exception):
                self._adbc.close()


def _rows(cursor: Cursor, sql: str) -> list[tuple[object, ...]]:
    cursor.execute(sql)
    return _listed(cursor.fetch_arrow_table())


def _listed(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))
