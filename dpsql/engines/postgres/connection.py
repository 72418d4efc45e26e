"""A connection to PostgreSQL: read-only, with pinned settings, and without error texts of the server."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dpsql.engines.postgres.forms import string_literal
from dpsql.errors import OperationalError, PolicyError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor

    from dpsql.engines.postgres.guard import Guard


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


class Connection:
    """A read-only session; a failed statement raises an exception that `worker.run` handles."""

    def __init__(self, address: str, timeout: int) -> None:
        try:
            from adbc_driver_postgresql import dbapi  # noqa: PLC0415  an extra
        except ImportError:
            raise PolicyError(
                "database.engine: the PostgreSQL driver is not installed",
                hint="pip install dpsql[postgres]",
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
    def _statement(self, guards: Collection[Guard], seconds: int | None = None) -> Iterator[Cursor]:
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
                        guard.check(lambda sql: _rows(cursor, sql))
                yield cursor
            finally:
                self._running = None
                with suppress(Exception):
                    cursor.execute("ROLLBACK")

    def _pin(self, cursor: Cursor, timeout: int) -> None:
        pinned = {**_PINNED, "statement_timeout": str(timeout), **dict([_WATCHED] if self._watched else [])}
        listed = ", ".join(f"{_set(name, value)} AS s{i}" for i, (name, value) in enumerate(pinned.items()))
        _rows(cursor, f"SELECT {listed}")
        # PostgreSQL 17 and later have this setting.
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
            raise _UnsuitableError("the PostgreSQL server does not accept the settings of a transaction")
        listed = ", ".join(f"{condition} AS s{i}" for i, condition in enumerate(_REQUIRED))
        (held,) = _rows(cursor, f"SELECT {listed}")
        for what, holds in zip(_REQUIRED.values(), held, strict=True):
            if holds is not True:
                raise _UnsuitableError(f"the PostgreSQL server must be set so that {what}")

    def _accepts(self, name: str, value: str) -> bool:
        """Return whether the server has a setting, and accepts a value of it for a transaction."""
        with suppress(Exception), self._statement(()) as cursor:
            _rows(cursor, f"SELECT {_set(name, value)} AS s")
            return True
        return False

    def table(self, sql: str, guards: Collection[Guard] = ()) -> pa.Table:
        """Run a SELECT and return its rows; check before and after it that the tables are unchanged."""
        with self._statement(guards) as cursor:
            cursor.execute(sql)
            found = cursor.fetch_arrow_table()
            # Some changes ignore the lock: ATTACH PARTITION, INHERIT, an index dropped concurrently.
            for guard in guards:
                guard.check(lambda text: _rows(cursor, text))
            return found

    def alive(self) -> bool:
        """Whether the session still answers."""
        with suppress(Exception):
            self.table("SELECT 1 AS x")
            return True
        return False

    def locks(self, guards: Collection[Guard], seconds: int) -> bool:
        """Return whether the tables can be locked in time, and are as they were when they were opened."""
        with suppress(Exception), self._statement(guards, seconds):
            return True
        return False

    def explain(self, sql: str, guards: Collection[Guard], seconds: int) -> bool:
        """Let the server plan a statement without running it; return whether it succeeded in time.

        The time is that after the tables are locked, which takes at most `LOCK_SECONDS`.
        """
        with suppress(Exception), self._statement(guards, min(seconds, LOCK_SECONDS)) as cursor:
            timeout = str(min(self._timeout, seconds * 1000))
            _rows(cursor, f"SELECT {_set('statement_timeout', timeout)} AS s")
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
            rows = _listed(self.table(sql))
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
        """Close the connection."""
        self.open = False
        if self._adbc is not None:
            with suppress(Exception):
                self._adbc.close()


def _set(name: str, value: str) -> str:
    """Write the expression that gives a setting a value for this transaction."""
    return f"pg_catalog.set_config({string_literal(name)}, {string_literal(value)}, true)"


def _rows(cursor: Cursor, sql: str) -> list[tuple[object, ...]]:
    cursor.execute(sql)
    return _listed(cursor.fetch_arrow_table())


def _listed(rows: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))
