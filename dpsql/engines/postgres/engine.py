"""The private engine on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.engines.duckdb.sources import Reader, declared_columns
from dpsql.engines.postgres import rows
from dpsql.engines.postgres.catalog import find_table
from dpsql.engines.postgres.connection import Connection
from dpsql.engines.postgres.dialect import PostgresDialect
from dpsql.engines.postgres.guard import Guard
from dpsql.engines.postgres.schema import columns_of, scan
from dpsql.engines.remote import RemoteEngine, open_remote
from dpsql.engines.writer import TargetColumn, Translated, Untranslatable
from dpsql.errors import PolicyError
from dpsql.policy import DatabaseSource

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.analysis import CompiledQuery
    from dpsql.engines.schema_database import SchemaDatabase
    from dpsql.policy import Policy, Table

__all__ = ["PostgresEngine", "open_postgres"]


def open_postgres(policy: Policy) -> tuple[SchemaDatabase, RemoteEngine]:
    """Open the schema database, and a session on the PostgreSQL server that a policy names."""
    return open_remote(PostgresEngine(policy))


class PostgresEngine(RemoteEngine):
    """Implements `dpsql.engines.Engine` on PostgreSQL."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._guards: dict[str, Guard] = {}
        self._con = Connection(policy.engine, policy.timeout)

    @property
    def dialect(self) -> PostgresDialect:
        """See `RemoteEngine`."""
        return PostgresDialect(self._scans)

    def introspect(self, table: Table) -> tuple[Reader, tuple[str, dict[str, TargetColumn]]]:
        """See `RemoteEngine`."""
        if not isinstance(table.source, DatabaseSource):
            raise PolicyError(f"tables.{table.name}.source: is not a table of the database")
        found = find_table(self._con.ask, table, table.source)
        columns = declared_columns(table, [(name, word) for name, _, word in columns_of(found)])
        scanned = scan(table, found, columns, self._policy.longest_value)
        if not table.public:
            guard = Guard(table, table.source, columns, found)
            guard.check_facts(found)
            self._guards[table.name] = guard
        return Reader(table, columns, "", ()), scanned

    def translate(self, compiled: CompiledQuery) -> str:
        """See `RemoteEngine`: before anything is charged, a session that the server has ended is replaced."""
        if not self._con.alive():
            self.reopen()
        return super().translate(compiled)

    def bind(self, statement: Translated) -> None:
        """See `RemoteEngine`."""
        sql = rows.executable_sql(statement, self.dialect)
        if not self._con.explain(sql, self._guards.values()):
            raise Untranslatable("PostgreSQL cannot plan this statement", "write it in a simpler form")

    def fetch(self, statement: Translated) -> pa.Table:
        """See `RemoteEngine`."""
        found = self._con.table(rows.executable_sql(statement, self.dialect), self._guards.values())
        return rows.storage_types(found)

    def show(self, statement: Translated) -> str:
        """See `RemoteEngine`."""
        return rows.display_sql(statement, self.dialect)

    def checksum(self, cells: list[str]) -> str:
        """See `RemoteEngine`."""
        return f"bit_xor({self.dialect.hash_values(cells)})"

    def stop(self) -> None:
        """See `RemoteEngine`."""
        self._con.cancel()

    def interrupted(self, error: BaseException) -> bool:
        """See `RemoteEngine`: by the SQLSTATE, since messages are in the server's language."""
        return getattr(error, "sqlstate", None) == "57014"  # query_canceled

    def reopen(self) -> None:
        """See `RemoteEngine`: the session may be closed."""
        self._con.close()
        self._con = Connection(self._policy.engine, self._policy.timeout)

    def close(self) -> None:
        """See `RemoteEngine`."""
        self._con.close()
        if self._schema_database is not None:
            self._schema_database = None
