"""A stored release of a million groups by ADBC Flight SQL, over the same rows from DuckDB as Arrow.

`python -m tests.benchmarks --only flight`. The release is stored before; then pricing, redeeming the
ticket and reading all rows alternate with DuckDB.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import closing

import duckdb

from dpsql.serve.user import User
from tests.benchmarks.measures import Figure, Goal, beside
from tests.serve.process import DPSQL, PASSWORDS, running
from tests.served import let_in

from . import Setting

TITLE = "Flight SQL"
GOAL = "a stored release of a million groups comes at no less than a fifth of DuckDB's rate"

GROUPS = 1_000_000
POLICY = """
[budget]
epsilon = 100
ledger = "ledger.sqlite"
[tables.events]
source = "events.parquet"
unit = "user_id"
unique = [["user_id"]]
domain.item = {{ from = 0, to = {last} }}
[serve]
listen = ["127.0.0.1:0"]
max_rows = {groups}
[flight]
listen = "127.0.0.1:0"
"""
STATEMENT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) item, COUNT(*) AS n FROM events GROUP BY item"
)


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure one statement; nothing without ADBC's driver."""
    if any(importlib.util.find_spec(name) is None for name in ("grpc", "adbc_driver_flightsql")):
        return
    from adbc_driver_flightsql import dbapi

    folder = setting.folder / "flight"
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as made:
        rows = f"SELECT i AS user_id, i % {GROUPS} AS item FROM range({2 * GROUPS}) t(i)"
        made.execute(f"COPY ({rows}) TO '{folder}/events.parquet'")
    policy = folder / "dpsql.toml"
    policy.write_text(POLICY.format(last=GROUPS - 1, groups=GROUPS))
    let_in(folder, PASSWORDS["alice"], User("alice", "alice"))
    with running([*DPSQL, "-p", str(policy), "serve"]) as server:
        url = next(line.strip() for line in server.said if "grpc://" in line)
        login = {"username": "alice", "password": PASSWORDS["alice"]}
        with (
            closing(dbapi.connect(url, db_kwargs=login, autocommit=True)) as connection,
            closing(connection.cursor()) as cursor,
            duckdb.connect(str(folder / "raw.duckdb")) as raw,
        ):

            def ours() -> object:
                cursor.execute(STATEMENT)
                return cursor.fetch_arrow_table()

            first = ours()
            raw.register("answer", first)
            raw.execute("CREATE OR REPLACE TABLE answer_copy AS SELECT * FROM answer")
            ours()  # it is kept from the first answer that the ledger gave on
            run = beside(
                ours, lambda: raw.sql("SELECT * FROM answer_copy").to_arrow_table(), 3 * setting.rounds
            )
            goal = Goal("ratio", 5)
            yield run.figure(TITLE, f"a stored release of {GROUPS:,} groups", goal=goal)
