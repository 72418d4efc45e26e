"""Drivers and libraries of Python, unmodified."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

from tests.serve.clients.cookbook import Answered, Rows
from tests.serve.clients.questions import LARGE, LONG, PARAMETERS, WRONG
from tests.serve.clients.shop import PASSWORD, Shop
from tests.serve.clients.subject import Cancelled, Login, Refusal, Subject, conninfo, url
from tests.serve.clients.watching import tls_of, when_running

_T = TypeVar("_T")
COLUMNS = """SELECT column_name FROM information_schema.columns
WHERE table_schema = 'public' AND table_name = 'visits' ORDER BY ordinal_position"""
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
WHO = "SELECT pg_backend_pid(), current_user"


class _Package(Subject):
    """A package of Python."""

    packages: ClassVar[tuple[str, ...]]

    def missing(self) -> str | None:
        lacking = [name for name in self.packages if importlib.util.find_spec(name) is None]
        return f"not installed: {', '.join(lacking)}" if lacking else None


class _Dbapi(_Package):
    """A driver by PEP 249 whose parameters are written `%s`, or `?`."""

    marker: ClassVar[str] = "%s"
    bound: ClassVar[bool] = True
    cancels: ClassVar[bool] = True
    """The driver has a way of its own to cancel; else a second connection asks for it."""

    def connect(self, shop: Shop, user: str) -> Any:
        raise NotImplementedError

    def cancel(self, connection: Any, cursor: Any) -> None:
        raise NotImplementedError

    def refusal(self, error: Exception) -> Refusal:
        raise NotImplementedError

    @contextmanager
    def cursor(self, shop: Shop, user: str = "alice") -> Iterator[tuple[Any, Any]]:
        with closing(self.connect(shop, user)) as connection, closing(connection.cursor()) as cursor:
            yield connection, cursor

    def ask(self, cursor: Any, text: str, values: Sequence[object] = ()) -> Answered:
        cursor.execute(re.sub(r"\$\d", self.marker, text), values) if values else cursor.execute(text)
        return Answered(
            tuple(column[0] for column in cursor.description), list(map(tuple, cursor.fetchall()))
        )

    def login(self, shop: Shop) -> Login:
        with self.cursor(shop) as (_, cursor):
            ((number, user),) = self.ask(cursor, WHO).rows
            return Login(str(user), tls_of(shop, number), self.bound)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        with self.cursor(shop) as (_, cursor):
            return [self.ask(cursor, text) for text in statements]

    def parameters(self, shop: Shop) -> list[Rows]:
        with self.cursor(shop) as (_, cursor):
            return [self.ask(cursor, text, values).rows for text, asked in PARAMETERS for values in asked]

    def large(self, shop: Shop) -> int:
        with self.cursor(shop) as (_, cursor):
            return len(self.ask(cursor, LARGE).rows)

    def refused(self, shop: Shop) -> Refusal:
        with self.cursor(shop) as (_, cursor):
            try:
                cursor.execute(WRONG)
            except Exception as error:  # noqa: BLE001  each driver has classes of its own
                return self.refusal(error)
        raise AssertionError("nothing was refused")

    def cancelled(self, shop: Shop) -> Cancelled:
        with self.cursor(shop, "bob") as (connection, cursor), self.cursor(shop, "bob") as (_, other):
            ((number, _user),) = self.ask(cursor, WHO).rows

            def cancel() -> None:
                if self.cancels:
                    self.cancel(connection, cursor)
                else:
                    self.ask(other, f"SELECT pg_cancel_backend({number})")

            with when_running(shop, cancel):
                try:
                    self.ask(cursor, LONG)
                    text = ""
                except Exception as error:  # noqa: BLE001  as above
                    text = str(error)
            connection.rollback()
            return Cancelled(text, self.ask(cursor, "SELECT 2").rows[0][0])

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        with self.cursor(shop) as (_, cursor):
            return self.by_statements(cursor)

    def by_statements(self, cursor: Any) -> dict[str, list[str]]:
        """Browse by the catalogue's tables: the driver has no functions of its own for it."""
        found: dict[str, list[str]] = {str(name): [] for (name,) in self.ask(cursor, TABLES).rows}
        found["visits"] = [str(name) for (name,) in self.ask(cursor, COLUMNS).rows]
        return found


class Psycopg(_Dbapi):
    name = "psycopg"
    packages = ("psycopg",)

    def connect(self, shop: Shop, user: str) -> Any:
        import psycopg

        return psycopg.connect(conninfo(shop, user), password=PASSWORD, prepare_threshold=1)

    def cancel(self, connection: Any, cursor: Any) -> None:
        connection.cancel_safe()

    def refusal(self, error: Any) -> Refusal:
        return Refusal(str(error), error.sqlstate, int(error.diag.statement_position or 0))


class Pg8000(_Dbapi):
    name = "pg8000"
    packages = ("pg8000",)
    # pg8000 binds the login to the certificate by itself, but cannot insist on it.

    def connect(self, shop: Shop, user: str) -> Any:
        import pg8000.dbapi

        context = ssl.create_default_context(cafile=str(shop.certificate))
        return pg8000.dbapi.connect(
            user, "localhost", "shop", shop.wire, PASSWORD, ssl_context=context, timeout=60
        )

    bound = False
    cancels = False

    def cancel(self, connection: Any, cursor: Any) -> None:
        raise NotImplementedError

    def refusal(self, error: Exception) -> Refusal:
        fields = error.args[0]
        return Refusal(fields["M"], fields["C"], int(fields.get("P", 0)))


class Pyodbc(_Dbapi):
    """psqlODBC, called from Python."""

    name = "psqlODBC-pyodbc"
    packages = ("pyodbc",)
    marker = "?"

    def missing(self) -> str | None:
        if lacking := super().missing():
            return lacking
        import pyodbc

        return None if "PostgreSQL Unicode" in pyodbc.drivers() else "psqlODBC is not installed"

    def connect(self, shop: Shop, user: str) -> Any:
        import pyodbc

        return pyodbc.connect(odbc(shop, user))

    def cancel(self, connection: Any, cursor: Any) -> None:
        cursor.cancel()

    def refusal(self, error: Exception) -> Refusal:
        return Refusal(error.args[1], error.args[0])

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        with self.cursor(shop) as (_, cursor):
            tables = [row.table_name for row in cursor.tables(tableType="TABLE", schema="public").fetchall()]
            found: dict[str, list[str]] = {name: [] for name in tables}
            found["visits"] = [row.column_name for row in cursor.columns(table="visits").fetchall()]
            return found


def odbc(shop: Shop, user: str, *, password: str = PASSWORD) -> str:
    """Return psqlODBC's connection string: what it does not know, libpq does.

    Without a password the program has to add it.
    """
    secured = f"sslrootcert={shop.certificate} channel_binding=require"
    return (
        f"Driver={{PostgreSQL Unicode}};Servername=localhost;Port={shop.wire};Database=shop;Uid={user};"
        f"SSLmode=verify-full;pqopt={{{secured}}};{f'Pwd={password};' if password else ''}"
    )


class Adbc(_Dbapi):
    """ADBC, whose results come by COPY in binary."""

    name = "ADBC"
    packages = ("adbc_driver_postgresql", "pyarrow")

    def connect(self, shop: Shop, user: str) -> Any:
        from adbc_driver_postgresql import dbapi

        return dbapi.connect(url(shop, "postgresql", user))

    def cancel(self, connection: Any, cursor: Any) -> None:
        cursor.adbc_cancel()

    def parameters(self, shop: Shop) -> list[Rows]:
        """Ask with floats for decimals: ADBC sends 30.50 as 30.5000000000, which is another literal."""
        with self.cursor(shop) as (_, cursor):
            return [
                self.ask(cursor, text, [float(v) if isinstance(v, Decimal) else v for v in values]).rows
                for text, asked in PARAMETERS
                for values in asked
            ]

    def ask(self, cursor: Any, text: str, values: Sequence[object] = ()) -> Answered:
        cursor.execute(text, values or None)
        table = cursor.fetch_arrow_table()
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return Answered(tuple(table.column_names), list(rows))

    def refusal(self, error: Any) -> Refusal:
        return Refusal(str(error), error.sqlstate)

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        with self.cursor(shop) as (connection, _):
            catalogs = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
            (tables,) = (
                schema["db_schema_tables"]
                for catalog in catalogs
                for schema in catalog["catalog_db_schemas"] or ()
                if schema["db_schema_name"] == "public"
            )
            return {
                table["table_name"]: [column["column_name"] for column in table["table_columns"]]
                for table in tables
            }


class Asyncpg(_Package):
    name = "asyncpg"
    packages = ("asyncpg",)

    def run(self, shop: Shop, ask: Callable[[Any], Coroutine[Any, Any, _T]], user: str = "alice") -> _T:
        import asyncpg

        async def connected() -> _T:
            connection = await asyncpg.connect(
                host="localhost",
                port=shop.wire,
                user=user,
                password=PASSWORD,
                database="shop",
                ssl=ssl.create_default_context(cafile=str(shop.certificate)),
                timeout=60,
            )
            try:
                return await ask(connection)
            finally:
                await connection.close()

        return asyncio.run(connected())

    def login(self, shop: Shop) -> Login:
        async def ask(connection: Any) -> Login:
            number, user = await connection.fetchrow(WHO)
            return Login(user, tls_of(shop, number), bound=False)

        return self.run(shop, ask)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        async def ask(connection: Any) -> list[Answered]:
            found = []
            for text in statements:
                prepared = await connection.prepare(text)
                columns = tuple(attribute.name for attribute in prepared.get_attributes())
                found.append(Answered(columns, list(map(tuple, await prepared.fetch()))))
            return found

        return self.run(shop, ask)

    def parameters(self, shop: Shop) -> list[Rows]:
        async def ask(connection: Any) -> list[Rows]:
            found = []
            for text, asked in PARAMETERS:
                prepared = await connection.prepare(text)
                found += [list(map(tuple, await prepared.fetch(*values))) for values in asked]
            return found

        return self.run(shop, ask)

    def large(self, shop: Shop) -> int:
        async def ask(connection: Any) -> int:
            return len(await connection.fetch(LARGE))

        return self.run(shop, ask)

    def refused(self, shop: Shop) -> Refusal:
        async def ask(connection: Any) -> Refusal:
            import asyncpg

            try:
                await connection.fetch(WRONG)
            except asyncpg.PostgresError as error:
                return Refusal(str(error), error.sqlstate, int(error.position or 0))
            raise AssertionError("nothing was refused")

        return self.run(shop, ask)

    def cancelled(self, shop: Shop) -> Cancelled:
        async def ask(connection: Any) -> Cancelled:
            loop = asyncio.get_running_loop()
            task = loop.create_task(connection.fetch(LONG))
            with when_running(shop, lambda: loop.call_soon_threadsafe(task.cancel)):
                try:
                    await task
                    text = ""
                except asyncio.CancelledError:
                    text = "cancelled"  # asyncpg tells its own cancellation, not the server's answer
            return Cancelled(text, await connection.fetchval("SELECT 2"))

        return self.run(shop, ask, "bob")

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        async def ask(connection: Any) -> dict[str, list[str]]:
            found: dict[str, list[str]] = {row["table_name"]: [] for row in await connection.fetch(TABLES)}
            found["visits"] = [row["column_name"] for row in await connection.fetch(COLUMNS)]
            return found

        return self.run(shop, ask)


def position_of(error: Any) -> int:
    """Return the position that dpsql's own error tells by line and column, from 1."""
    lines = WRONG.split("\n")[: error.line - 1]
    return sum(len(line) + 1 for line in lines) + int(error.col)


class SqlAlchemy(_Package):
    """SQLAlchemy with pandas; by psycopg, or by the dialect that dpsql brings."""

    packages = ("sqlalchemy", "pandas")

    def __init__(self, scheme: str, name: str) -> None:
        self.scheme = scheme
        self.name = name  # type: ignore[misc]  # one class, two clients

    def missing(self) -> str | None:
        lacking = super().missing()
        if lacking is None and "psycopg" in self.scheme and importlib.util.find_spec("psycopg") is None:
            return "not installed: psycopg"
        return lacking

    @contextmanager
    def engine(self, shop: Shop, user: str = "alice") -> Iterator[Any]:
        import sqlalchemy

        where = url(shop, self.scheme, user)
        if self.scheme == "dpsql":
            where = re.sub(r"\?.*", f"?sslrootcert={shop.certificate}", where)
        engine = sqlalchemy.create_engine(where)
        try:
            yield engine
        finally:
            engine.dispose()

    def ask(self, engine: Any, text: str, values: Sequence[object] = ()) -> Answered:
        import pandas
        import sqlalchemy

        names = {f"p{number}": value for number, value in enumerate(values, 1)}
        named = re.sub(r"\$(\d)", r":p\1", text) if values else text.replace(":", "\\:")
        frame = pandas.read_sql(sqlalchemy.text(named), engine, params=names, dtype_backend="pyarrow")
        found = frame.astype(object).where(frame.notna(), None)
        return Answered(tuple(frame.columns), list(found.itertuples(index=False, name=None)))

    def login(self, shop: Shop) -> Login:
        with self.engine(shop) as engine:
            ((number, user),) = self.ask(engine, WHO).rows
            return Login(str(user), tls_of(shop, int(str(number))), bound=True)

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        with self.engine(shop) as engine:
            return [self.ask(engine, text) for text in statements]

    def parameters(self, shop: Shop) -> list[Rows]:
        with self.engine(shop) as engine:
            return [self.ask(engine, text, values).rows for text, asked in PARAMETERS for values in asked]

    def large(self, shop: Shop) -> int:
        import pandas

        with self.engine(shop) as engine:
            return sum(len(part) for part in pandas.read_sql(LARGE, engine, chunksize=10_000))

    def refused(self, shop: Shop) -> Refusal:
        import sqlalchemy

        with self.engine(shop) as engine, engine.connect() as connection:
            try:
                connection.execute(sqlalchemy.text(WRONG))
            except sqlalchemy.exc.DBAPIError as error:
                original: Any = error.orig
                if self.scheme == "dpsql":
                    return Refusal(str(original), original.sqlstate, position_of(original))
                position = original.diag.statement_position
                return Refusal(str(original), original.sqlstate, int(position or 0))
        raise AssertionError("nothing was refused")

    def cancelled(self, shop: Shop) -> Cancelled:
        import sqlalchemy

        with self.engine(shop, "bob") as engine, engine.connect() as connection:
            driver = connection.connection.driver_connection
            cancel = driver.cancel if self.scheme == "dpsql" else driver.cancel_safe
            text = ""
            with when_running(shop, cancel):
                try:
                    connection.execute(sqlalchemy.text(LONG))
                except sqlalchemy.exc.DBAPIError as error:
                    text = str(error.orig)
            connection.rollback()
            return Cancelled(text, connection.execute(sqlalchemy.text("SELECT 2")).scalar())

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        import sqlalchemy

        with self.engine(shop) as engine:
            inspector = sqlalchemy.inspect(engine)
            return {
                table: [column["name"] for column in inspector.get_columns(table)]
                for table in inspector.get_table_names()
            }


class Own(_Dbapi):
    """dpsql's own connection to a server."""

    name = "dpsql"
    packages = ("dpsql",)
    marker = "?"

    def connect(self, shop: Shop, user: str) -> Any:
        import dpsql

        where = f"dpsql://{user}@localhost:{shop.wire}/shop?sslrootcert={shop.certificate}"
        return dpsql.connect(where, password=PASSWORD)

    def cancel(self, connection: Any, cursor: Any) -> None:
        connection.cancel()

    def refusal(self, error: Any) -> Refusal:
        return Refusal(str(error), error.sqlstate, position_of(error))


DRIVERS: tuple[Subject, ...] = (
    Psycopg(),
    Asyncpg(),
    Pg8000(),
    SqlAlchemy("postgresql+psycopg", "SQLAlchemy-pandas"),
    SqlAlchemy("dpsql", "SQLAlchemy-pandas-dpsql"),
    Adbc(),
    Pyodbc(),
    Own(),
)
