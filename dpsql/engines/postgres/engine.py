"""The private engine on PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dpsql.engines.duckdb.sources import Reader, declared_columns
from dpsql.engines.postgres import rows
from dpsql.engines.postgres.catalog import find_table
from dpsql.engines.postgres.connection import LOCK_SECONDS, Connection
from dpsql.engines.postgres.dialect import PostgresDialect
from dpsql.engines.postgres.guard import Guard, raise_if_changed
from dpsql.engines.postgres.schema import columns_of, never_null, scan
from dpsql.engines.remote import PLANNING_SECONDS, RemoteEngine, check_digits
from dpsql.engines.writer import TargetColumn, Translated, Untranslatable
from dpsql.engines.writer.statement import tables_of
from dpsql.errors import OperationalError, PolicyError
from dpsql.policy import DatabaseSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dpsql.analysis import CompiledQuery
    from dpsql.policy import Policy, Table


class PostgresEngine(RemoteEngine):
    """Implements `dpsql.engines.Engine` on PostgreSQL."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._guards: dict[str, Guard] = {}
        self._idle: list[Connection] = []
        self.open_tables()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Reserve a connection for one statement.

        An idle connection, or a new one.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = Connection(self._policy.engine, self._policy.timeout)
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
        scanned = scan(table, found, columns, self._policy.longest_value)
        if not table.public:
            guard = Guard(table, table.source, columns, found)
            guard.check_facts(found)
            self._guards[table.name] = guard
        there = {column.name.lower(): self.dialect.quote(column.name) for column in found.columns}
        return Reader(
            table,
            columns,
            "",
            (),
            never_null=never_null(table, found, columns, self._policy.longest_value),
            scan=f"{found.text} AS r" if found.children else f"ONLY {found.text} AS r",
            cells=tuple(f"r.{there[name.lower()]}" for name, _ in columns),
        ), scanned

    def translate(self, compiled: CompiledQuery) -> str:
        """Return the SQL that the engine will run, for display; raises `Untranslatable` before any charge.

        Before a charge, connections that the server has ended are closed.
        """
        with self.connection() as connection:
            if not connection.alive():
                self.discard(connection)
                self.disconnect()
        return super().translate(compiled)

    def bind(self, statement: Translated) -> None:
        """Let the engine plan a statement without reading rows; raises `Untranslatable` if it cannot."""
        sql, guards = rows.executable_sql(statement, self.dialect), self._guards_of(statement.tables)
        with self.connection() as connection:
            planned = connection.explain(sql, guards, PLANNING_SECONDS)
        if not planned:
            self._check(guards, 1)  # planning has waited for the locks before
            raise Untranslatable("PostgreSQL cannot plan this statement", "write it in a simpler form")

    def current(self, compiled: CompiledQuery) -> bool:
        """Whether the tables of a query are as they were when it was translated; asked before a charge.

        Raises `OperationalError` if a table was altered, or is locked by somebody else.
        """
        self._check(self._guards_of(tables_of(compiled.query)), LOCK_SECONDS)
        return True

    def _guards_of(self, tables: frozenset[str] | None) -> list[Guard]:
        """Return the guards of the private tables among some; None: of all."""
        return [guard for name, guard in self._guards.items() if tables is None or name in tables]

    def _check(self, guards: list[Guard], seconds: int) -> None:
        """Raise unless tables can be locked for reading soon, and are as they were when they were opened."""
        for _ in range(2):  # a connection that the server has ended is seen at its first use
            with self.connection() as connection:
                if connection.locks(guards, seconds):
                    return
                if connection.alive():
                    break
                self.discard(connection)
            self.disconnect()
        with self.connection() as connection:
            raise_if_changed(guards, connection.ask)
        raise OperationalError(
            "a table that the statement reads is locked by somebody who changes it; nothing was charged, "
            "ask again"
        )

    def fetch(self, connection: Connection, statement: Translated) -> pa.Table:
        """Run a statement. It is called in a worker thread and may raise any exception."""
        guards = self._guards_of(statement.tables)
        found = connection.table(rows.executable_sql(statement, self.dialect), guards)
        return rows.storage_types(found)

    def show(self, statement: Translated) -> str:
        """Return a statement's SQL for display, without public rows."""
        return rows.display_sql(statement, self.dialect)

    def checksum(self, cells: list[str]) -> str:
        """Write an aggregate that reads every value of some columns."""
        return f"bit_xor({self.dialect.hash_values(cells)})"

    def stop(self, connection: Connection) -> None:
        """Stop the statement that a connection runs."""
        connection.cancel()

    def discard(self, connection: Connection) -> None:
        """Let nobody use a connection again, since a statement failed on it.

        The server may have ended it.
        """
        connection.close()

    def interrupted(self, error: BaseException) -> bool:
        """Whether an error is the engine's report that a statement was interrupted.

        By the SQLSTATE, since messages are in the server's language.
        """
        return getattr(error, "sqlstate", None) == "57014"  # query_canceled

    def disconnect(self) -> None:
        """Close the connections that no statement uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
