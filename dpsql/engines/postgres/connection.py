"""One connection to PostgreSQL: settings pinned, read-only, errors kept away from everybody."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpsql.errors import OperationalError, PolicyError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Connection"]

_PINNED = {
    # What a text of ours means must not depend on the server, the database or the role.
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO, MDY'",
    "IntervalStyle": "'postgres'",
    "extra_float_digits": "3",
    "standard_conforming_strings": "on",
    "bytea_output": "'hex'",
    "client_encoding": "'UTF8'",
    "client_min_messages": "error",  # notices are printed by nobody
    "lc_monetary": "'C'",
    "lc_numeric": "'C'",
    "lc_time": "'C'",
    "xmloption": "content",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "jit": "off",  # it costs more than it gains where a statement runs once
}


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
        self._lock = threading.RLock()  # one statement at a time
        self._adbc: Any = None
        failed = False
        try:
            self._adbc = dbapi.connect(address, autocommit=True)
            self._pin(timeout)
        except Exception:  # noqa: BLE001  its text names hosts and roles, and may quote a password file
            failed = True
        if failed:
            self.close()
            raise OperationalError("the PostgreSQL server of the policy cannot be reached")
        if self.ask("SELECT current_setting('server_encoding')") != [("UTF8",)]:
            self.close()
            raise PolicyError("database.engine: the database's encoding is not UTF8")

    def _pin(self, timeout: int) -> None:
        with self._adbc.cursor() as cursor:
            for name, value in _PINNED.items():
                cursor.execute(f"SET SESSION {name} = {value}")
            cursor.execute(f"SET SESSION statement_timeout = {timeout * 1000}")
            cursor.execute(
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            )
            cursor.execute("SET SESSION default_transaction_read_only = on")

    def table(self, sql: str) -> pa.Table:
        """Run a SELECT; its rows come as Arrow."""
        with self._lock, self._adbc.cursor() as cursor:
            self._running = cursor
            try:
                cursor.execute(sql)
                return cursor.fetch_arrow_table()
            finally:
                self._running = None

    def alive(self) -> bool:
        """Whether the session is still there."""
        with suppress(Exception):
            self.table("SELECT 1 AS x")
            return True
        return False

    def explain(self, sql: str) -> bool:
        """Let the server bind and plan a statement without running it; False if it does not."""
        with suppress(Exception), self._lock, self._adbc.cursor() as cursor:
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
            rows = list(zip(*(c.to_pylist() for c in self.table(sql).columns), strict=True))
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
