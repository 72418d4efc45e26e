"""The SQLAlchemy dialect: `dpsql:///dpsql.toml` or a server's URL, for pandas, notebooks and BI tools.

::

    engine = sqlalchemy.create_engine("dpsql:///dpsql.toml?analyst=alice")
    engine = sqlalchemy.create_engine("dpsql://alice@host:5433/shop?sslrootcert=server.pem")
    pandas.read_sql("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page, ...", engine)

Three slashes lead to a path relative to the current folder, four to an absolute one. A server's password may
stand in the URL, or in the environment's DPSQL_PASSWORD, or in `~/.pgpass`. What tools send by
themselves (`SELECT 1`, listing tables and columns, commit, rollback) reads nothing private and costs nothing.
In SQLAlchemy's own language the options go before the columns::

    select(...).prefix_with("WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)")

`result.cursor.release` is the `dpsql.Release`, until all rows are fetched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from sqlalchemy import exc, types
from sqlalchemy.engine import URL, Connection, default, interfaces, reflection

from dpsql import dbapi
from dpsql.lazy_pattern import lazy_pattern
from dpsql.types import SqlType, column_type

_SCHEMA = "main"
_VIEW = "view"
"""What SHOW TABLES says of a view in the place of its unit."""
_PATH = ", found through "
"""What it says before the tables through which rows find their unit."""

_PROBE = lazy_pattern(
    r"""\s*SELECT\s+\*\s+FROM\s+(?:main\s*\.\s*)?(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>\w+))
    \s+(?:WHERE\s+(?:1\s*=\s*0|0\s*=\s*1|FALSE)|LIMIT\s+0)\s*;?\s*""",
    re.IGNORECASE | re.VERBOSE | re.ASCII,
)
"""Queries by which tools find the columns of a table, or whether it exists; they return no row."""

_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.SMALLINT,
    "UTINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "USMALLINT": types.INTEGER,
    "INTEGER": types.INTEGER,
    "UINTEGER": types.BIGINT,
    "BIGINT": types.BIGINT,
    "UBIGINT": types.BIGINT,
    "DOUBLE": types.DOUBLE,
    "VARCHAR": types.VARCHAR,
    "ENUM": types.VARCHAR,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "UUID": types.UUID,
    "BLOB": types.BLOB,
}


class Dialect(default.DefaultDialect):
    """The dialect of dpsql's SQL over `dpsql.dbapi`."""

    name = "dpsql"
    driver = "dpsql"
    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    supports_default_values = False
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    returns_native_bytes = True
    div_is_floordiv = False
    postfetch_lastrowid = False

    # -- connecting

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of the DB-API connector, `dpsql`."""
        return dbapi

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, str]]:
        """Read the URL: the path of the policy and the analyst (`?analyst=NAME`), or a server."""
        if url.host or "host" in url.query:
            # `set` takes None for "as it is"; the password is handed over apart from the text.
            shown = url._replace(password=None).render_as_string()
            return [shown], {} if url.password is None else {"password": str(url.password)}
        if url.port or url.password:
            raise exc.ArgumentError(
                "a dpsql URL names a file, dpsql:///dpsql.toml (three slashes), or a host"
            )
        unknown = sorted(set(url.query) - {"analyst"})
        if unknown:
            raise exc.ArgumentError(f"a dpsql URL takes analyst=NAME, not {unknown[0]}")
        analyst = url.query.get("analyst", url.username)
        if isinstance(analyst, tuple):
            raise exc.ArgumentError("a dpsql URL names one analyst")
        return [url.database or "dpsql.toml"], {} if analyst is None else {"analyst": analyst}

    def is_disconnect(self, e: Exception, connection: object, cursor: object) -> bool:
        """Return whether the connection can no longer be used: if it was closed, by either side."""
        lost = getattr(e, "sqlstate", "") == "57P01" or "server closed the connection" in str(e)
        return lost or (isinstance(e, dbapi.InterfaceError) and "connection is closed" in str(e))

    def get_isolation_level_values(self, dbapi_conn: object) -> Sequence[interfaces.IsolationLevel]:
        """Return the only level: there are no transactions, a charge is durable as soon as it is made."""
        return ["AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: object) -> interfaces.IsolationLevel:
        """Return the isolation level of all connections, the only one there is."""
        return "AUTOCOMMIT"

    def set_isolation_level(self, dbapi_connection: object, level: interfaces.IsolationLevel) -> None:
        """Accept the only level and change nothing."""

    def _get_default_schema_name(self, connection: Connection) -> str:
        return _SCHEMA

    def _get_server_version_info(self, connection: Connection) -> None:
        return None

    def do_execute(
        self,
        cursor: dbapi.Cursor,  # type: ignore[override]  # it is always the connector's
        statement: str,
        parameters: Any,  # noqa: ANN401  what SQLAlchemy hands over
        context: object = None,
    ) -> None:
        """Run a statement; a tool's probe for the columns of a private table is answered without rows."""
        probe = _PROBE.fullmatch(statement)
        if probe is not None:
            statement = _without_rows(cursor, probe) or statement
        cursor.execute(statement, parameters)

    def do_execute_no_params(
        self,
        cursor: dbapi.Cursor,  # type: ignore[override]  # it is always the connector's
        statement: str,
        context: object = None,
    ) -> None:
        """Run a statement without parameters, as `do_execute`."""
        self.do_execute(cursor, statement, None, context)

    # -- reflection: what the policy declares, from SHOW TABLES and DESCRIBE

    def get_schema_names(self, connection: Connection, **kw: object) -> list[str]:
        """Return the name of the schema that holds all tables, the only one there is."""
        return [_SCHEMA]

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: object) -> list[str]:
        """List the declared tables, private and public."""
        found = _tables(connection) if schema in (None, _SCHEMA) else {}
        return [name for name, unit in found.items() if unit != _VIEW]

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: object) -> list[str]:
        """Return the names of the views that the policy declares."""
        found = _tables(connection) if schema in (None, _SCHEMA) else {}
        return [name for name, unit in found.items() if unit == _VIEW]

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: object
    ) -> bool:
        """Return whether a table or view is declared; names are compared without case."""
        found = _tables(connection) if schema in (None, _SCHEMA) else {}
        return table_name.lower() in {name.lower() for name in found}

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: object
    ) -> list[interfaces.ReflectedColumn]:
        """List a table's declared columns."""
        self._must_exist(connection, table_name, schema)
        rows = connection.exec_driver_sql(f"DESCRIBE {_quote(table_name)}").fetchall()
        return [
            {"name": column, "type": _read_type(text), "nullable": True, "default": None}
            for column, text, *_ in rows
        ]

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: object
    ) -> interfaces.ReflectedTableComment:
        """Return the privacy unit of a table as its comment."""
        self._must_exist(connection, table_name, schema)
        rows = connection.exec_driver_sql("SHOW TABLES")
        unit, *more = next(facts for name, *facts in rows if name.lower() == table_name.lower())
        if more and more[0] and _PATH in more[0]:
            return {"text": f"private, protects {more[0]}"}
        plain = unit in ("public", _VIEW)
        return {"text": unit if plain else f"private, the privacy unit is {unit}"}

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: object
    ) -> interfaces.ReflectedPrimaryKeyConstraint:
        """Return no primary key: a policy declares none."""
        self._must_exist(connection, table_name, schema)
        return {"constrained_columns": [], "name": None}

    def _nothing(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: object
    ) -> list[Any]:
        """Return an empty list: a policy declares no keys, indexes or constraints."""
        self._must_exist(connection, table_name, schema)
        return []

    get_foreign_keys = get_indexes = get_unique_constraints = get_check_constraints = _nothing

    def _must_exist(self, connection: Connection, table_name: str, schema: str | None) -> None:
        if not self.has_table(connection, table_name, schema):
            raise exc.NoSuchTableError(table_name)


def _tables(connection: Connection) -> dict[str, str]:
    """Return each declared table or view with its privacy unit, or "public", or "view"."""
    return {name: unit for name, unit, *_ in connection.exec_driver_sql("SHOW TABLES")}


def _without_rows(cursor: dbapi.Cursor, probe: re.Match[str]) -> str | None:
    """Write a public statement with a private table's columns and no rows; None for other tables."""
    name = (probe["quoted"] or "").replace('""', '"') or probe["plain"]
    private = [t for t, unit, *_ in cursor.connection.execute("SHOW TABLES") if unit != "public"]
    if name.lower() not in [t.lower() for t in private]:
        return None
    rows = cursor.connection.execute(f"DESCRIBE {_quote(name)}").fetchall()
    typed = [(_quote(column), "VARCHAR" if kind == "ENUM" else kind) for column, kind, *_ in rows]
    return (
        "SELECT " + ", ".join(f"CAST(NULL AS {kind}) AS {column}" for column, kind in typed) + " WHERE 1 = 0"
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_type(text: str) -> types.TypeEngine[Any]:
    """Translate a column's type as DESCRIBE writes it; an ENUM's values are not shown there."""
    return _translate_type(SqlType("ENUM") if text == "ENUM" else column_type(text))


def _translate_type(kind: SqlType) -> types.TypeEngine[Any]:
    if kind.name == "DECIMAL":
        return types.DECIMAL(kind.precision, kind.scale)
    if kind.name == "TIMESTAMPTZ":
        return types.TIMESTAMP(timezone=True)
    if kind.name == "LIST" and kind.item is not None:
        return types.ARRAY(_translate_type(kind.item))
    return _TYPES.get(kind.name, types.NullType)()
