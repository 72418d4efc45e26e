"""Units of one period each on PostgreSQL and Spark: the same pairs of patient and week as on DuckDB."""

from __future__ import annotations

from contextlib import closing

import duckdb
import pytest
from support.stores import Store

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import OperationalError
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 30
[tables.visits]
source = "visits.parquet"
unit = "pid"
unit_kind = "patient"
unit_period = { column = "COLUMN", every = "week", until = false }
rows_per_unit = 2
[tables.patients]
source = "patients.parquet"
unit = "pid"
unit_kind = "patient"
unique = [["pid"]]
"""
DATA = {
    "visits": "SELECT i % 500 AS pid, i AS x,"
    " CASE WHEN i % 29 > 0 THEN DATE '2026-01-05' + CAST((i * 5 + i // 500 * 7) % 28 AS INTEGER) END AS day,"
    " day + INTERVAL 10 HOUR AS moment FROM range(4000) t(i)",
    "patients": "SELECT i AS pid, ['F', 'M'][1 + i % 2] AS sex FROM range(400) t(i)",
}
WEEK = "DATE '2026-01-12'"
PAIRS = "SELECT pid, date_trunc('week', c) AS w, COUNT(*) AS n FROM visits GROUP BY 1, 2"
CUT = f"SELECT SUM(LEAST(n, 2)) FROM ({PAIRS})"
STATEMENTS = {
    f"SELECT COUNT(*) FROM visits WHERE date_trunc('week', c) = {WEEK}": f"{CUT} WHERE w = {WEEK}",
    "SELECT COUNT(*) FROM visits": CUT,
    "SELECT COUNT(DISTINCT pid) FROM visits": "SELECT COUNT(DISTINCT pid) FROM visits",
    f"SELECT COUNT(*) FROM ({PAIRS}) g WHERE n > 1": f"SELECT COUNT(*) FROM ({PAIRS}) WHERE n > 1",
    "SELECT COUNT(*) FROM visits v JOIN patients p ON v.pid = p.pid WHERE sex = 'F'": f"{CUT}"
    " JOIN patients USING (pid) WHERE sex = 'F'",
}


@pytest.mark.parametrize("column", ["day", "moment"])
def test_pairs_are_counted_as_they_are(store: Store, column: str) -> None:
    with duckdb.connect() as connection:
        policy = store.policy(POLICY.replace("COLUMN", column), store.put(connection, DATA))
        for name, sql in DATA.items():
            connection.execute(f"CREATE TABLE {name} AS {sql}")
        with closing(Session(policy)) as session:
            for text, sql in STATEMENTS.items():
                prepared = session.prepare(text.replace("c)", f"{column})"))
                assert isinstance(prepared, PreparedPrivate)
                (exact,) = connection.execute(sql.replace("c)", f"{column})")).fetchall()[0]
                told = session.run(text.replace("c)", f"{column})")).table.column(0)[0].as_py()
                assert abs(told - float(exact)) < 10, text


def test_a_date_of_no_period_is_noticed(store: Store) -> None:
    early = {**DATA, "visits": DATA["visits"].replace("DATE '2026-01-05' +", "DATE '0900-01-05' +")}
    with duckdb.connect() as connection:
        policy = store.policy(POLICY.replace("COLUMN", "day"), store.put(connection, early))
        with closing(Session(policy)) as session, pytest.raises(OperationalError, match="as declared"):
            session.run("SELECT COUNT(*) FROM visits")
