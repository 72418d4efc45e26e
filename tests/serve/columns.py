"""Clients that get columns, unmodified, and a server on a table of many groups, to ask by each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

import dpsql
from dpsql.serve.users import User
from tests.serve.process import DPSQL, PASSWORDS, running
from tests.served import let_in

POLICY = """
[budget]
epsilon = 100
ledger = "ledger.sqlite"
[tables.events]
source = "events.parquet"
unit = "user_id"
unique = [["user_id"]]
domain.item = {{ from = 0, to = {last}, complete = true }}
[serve]
listen = ["127.0.0.1:0"]
name = "events"
max_rows = {groups}
"""
STATEMENT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) item, COUNT(*) AS n FROM events GROUP BY item"
)
Ask = Callable[[], pa.Table]


@contextmanager
def asked(folder: Path, groups: int) -> Iterator[dict[str, Ask]]:
    """Serve a table with so many groups; yield what asks STATEMENT, by the client's name. All use TLS."""
    with duckdb.connect() as made:
        rows = f"SELECT i AS user_id, i % {groups} AS item FROM range({2 * groups}) t(i)"
        made.execute(f"COPY ({rows}) TO '{folder}/events.parquet'")
    policy, password = folder / "dpsql.toml", PASSWORDS["alice"]
    policy.write_text(POLICY.format(last=groups - 1, groups=groups))
    let_in(folder, password, User("alice", "alice"))
    with running([*DPSQL, "-p", str(policy), "serve"]) as server:
        (port,) = re.findall(r"port=(\d+)", server.psql)
        certificate = folder / "dpsql-server.pem"
        libpq = (
            f"host=localhost hostaddr=127.0.0.1 port={port} user=alice dbname=events password='{password}' "
            f"sslmode=verify-full sslrootcert={certificate}"
        )
        url = f"dpsql://alice@127.0.0.1:{port}/events?sslrootcert={certificate}"
        with _dpsql(url, password) as own, _adbc(libpq) as adbc, _copy(libpq) as copy:
            yield {"dpsql's own client": own, "ADBC for PostgreSQL": adbc, "COPY (FORMAT arrow)": copy}


@contextmanager
def _dpsql(url: str, password: str) -> Iterator[Ask]:
    with closing(dpsql.connect(url, password=password)) as connection:
        yield lambda: connection.execute(STATEMENT).fetch_arrow_table()


@contextmanager
def _adbc(address: str) -> Iterator[Ask]:
    from adbc_driver_postgresql import dbapi

    with (
        closing(dbapi.connect(address, autocommit=True)) as connection,
        closing(connection.cursor()) as cursor,
    ):

        def ask() -> pa.Table:
            cursor.execute(STATEMENT)
            return cursor.fetch_arrow_table()

        yield ask


@contextmanager
def _copy(address: str) -> Iterator[Ask]:
    import psycopg

    with closing(psycopg.connect(address, autocommit=True)) as connection, connection.cursor() as cursor:

        def ask() -> pa.Table:
            with cursor.copy(f"COPY ({STATEMENT}) TO STDOUT (FORMAT arrow)") as rows:
                return pa.ipc.open_stream(b"".join(rows)).read_all()

        yield ask
