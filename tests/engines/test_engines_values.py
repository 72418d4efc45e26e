# ruff: noqa: E501  statements read better unbroken
"""Forms about values of many units on three engines: the answer is DuckDB's, or a refusal with a hint."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from support.stores import Store

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
delta = 1e-2
max_epsilon_per_query = 1e9
default_epsilon = 1e6
default_delta = 1e-9
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 20
groups = 20
[tables.patients]
source = "patients.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["patient_id"]]
[tables.patients.domain]
region = ["N", "S", "W"]
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["visit_id"]]
same_unit = { bill_id = "bills.bill_id" }
[tables.visits.covers]
opened = [2023-01-01, 2023-02-19]
[tables.visits.domain]
day = { from = 2023-01-01, to = 2023-02-28 }
code.values = ["a", "b", "c", "d", "e", "f"]
room = { from = 1, to = 5 }
[tables.visits.bounds]
cost = { from = 0, to = 100 }
minutes = { from = 0, to = 60 }
[tables.bills]
source = "bills.parquet"
unit = "patient_id"
unit_kind = "patient"
unique = [["bill_id"]]
[tables.bills.bounds]
paid = { from = 0, to = 50 }
[tables.codes]
source = "codes.parquet"
public = true
unique = [["code"]]
"""
TABLES = {
    "patients": "SELECT i AS patient_id, ['N', 'S', 'W'][1 + i % 3] AS region, 1950 + i % 40 AS born, i % 4 AS married FROM range(150) t(i)",
    "visits": "SELECT i AS visit_id, i % 150 AS patient_id, ['a', 'b', 'c', 'd'][1 + (i * i) % 4] AS code, (1 + i % 5)::INTEGER AS room, "
    "DATE '2023-01-01' + (i % 50)::INTEGER AS day, DATE '2023-01-01' + (i % 50)::INTEGER AS opened, (i * 7 % 89)::INTEGER AS cost, "
    "(i * 11 % 53)::INTEGER AS minutes, 'n' || (i % 9) AS note, 1672531200 + i * 3600 AS stamp, i AS bill_id FROM range(1200) t(i)",
    "bills": "SELECT i AS bill_id, i % 150 AS patient_id, (i % 40)::INTEGER AS paid FROM range(1000) t(i)",
    "codes": "SELECT unnest(['a', 'b', 'c', 'd', 'e', 'f']) AS code, unnest(['x', 'x', 'y', 'y', 'z', 'z']) AS kind, unnest([10, 20, 30, 40, 50, 60])::INTEGER AS rank",
}
V = "FROM visits"
FORMS = {
    "1 groups of few": f"SELECT COUNT(*) AS n FROM (SELECT note {V} GROUP BY note HAVING COUNT(*) > 133) AS t",
    "2.1 different rows": f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT code, note {V}) AS t",
    "2.1 COUNT(DISTINCT (a, b))": f"SELECT COUNT(DISTINCT (code, room)) AS n {V}",
    "2.2 INTERSECT": f"SELECT code {V} WHERE room = 1 INTERSECT SELECT code {V} WHERE cost > 50",
    "2.1 DISTINCT ON": f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT ON (code, room) note {V}) AS t",
    "2.2 rows of two columns": f"SELECT code, room {V} WHERE minutes > 5 INTERSECT SELECT code, room {V} WHERE cost > 20 ORDER BY code, room",
    "2.2 EXCEPT": f"SELECT room {V} EXCEPT SELECT room {V} WHERE room < 3",
    "2.2 UNION": f"SELECT COUNT(*) AS n FROM (SELECT code {V} WHERE room = 1 UNION SELECT code {V} WHERE cost > 50) AS t",
    "2.2 undeclared values": f"SELECT COUNT(*) AS n FROM (SELECT note {V} WHERE room = 1 UNION SELECT region FROM patients) AS t",
    "2.2 undeclared EXCEPT": f"SELECT COUNT(*) AS n FROM (SELECT note, room {V} EXCEPT SELECT note, room {V} WHERE note = 'n4') AS t",
    "2.3 NOT IN": f"SELECT COUNT(*) AS n FROM codes WHERE code NOT IN (SELECT code {V} WHERE cost > 20)",
    "2.3 EXISTS": "SELECT kind, COUNT(*) AS n FROM codes c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.code = c.code) GROUP BY kind ORDER BY kind",
    "2.3 anti-join": "SELECT COUNT(*) AS n FROM codes c LEFT JOIN visits v ON v.code = c.code WHERE v.code IS NULL",
    "2.4 found values": f"SELECT COUNT(*) AS n {V} WHERE code IN (SELECT code {V} WHERE cost > 80)",
    "2.4 NOT IN found values": f"SELECT COUNT(*) AS n {V} WHERE room NOT IN (SELECT room {V} WHERE room > 3)",
    "3 another key": "SELECT SUM(b.paid) AS n FROM visits v JOIN bills b ON b.bill_id = v.bill_id",
    "4.1 rank of a share": f"SELECT MIN(cost) FILTER (WHERE r >= 0.5 * c) AS n FROM (SELECT cost, ROW_NUMBER() OVER (ORDER BY cost) AS r, COUNT(*) OVER () AS c {V}) AS t",
    "4.1 PERCENT_RANK": f"SELECT COUNT(*) AS n FROM (SELECT patient_id, cost, PERCENT_RANK() OVER (ORDER BY cost) AS p {V}) AS t WHERE p >= 0.9",
    "4.2 NTILE": f"SELECT q, COUNT(*) AS n FROM (SELECT NTILE(4) OVER (ORDER BY cost) AS q {V}) AS t GROUP BY q ORDER BY q",
    "4.2 scores": f"SELECT f, COUNT(*) AS n FROM (SELECT patient_id, NTILE(2) OVER (ORDER BY MAX(minutes) DESC) AS r, NTILE(2) OVER (ORDER BY SUM(cost)) AS f {V} GROUP BY patient_id) AS t WHERE r > 0 GROUP BY f ORDER BY f",
    "8 number of a key": "SELECT COUNT(*) AS n FROM visits v WHERE v.cost > 1.02 * (SELECT AVG(w.cost) FROM visits w WHERE w.room = v.room)",
    "8 number of a text key": "SELECT COUNT(*) AS n FROM visits v WHERE v.cost > 1.02 * (SELECT AVG(w.cost) FROM visits w WHERE w.code = v.code)",
    "how many have so many rows": f"SELECT k, COUNT(*) AS n FROM (SELECT patient_id, COUNT(*) AS k {V} WHERE cost > 40 GROUP BY patient_id) AS t GROUP BY k ORDER BY k",
    "4.3 first rows": f"SELECT SUM(cost) AS n FROM (SELECT cost, ROW_NUMBER() OVER (ORDER BY minutes DESC) AS r {V}) AS t WHERE r <= 50",
    "5 covered days": f"SELECT COUNT(*) AS n {V} WHERE opened >= (SELECT MAX(opened) {V}) - INTERVAL 7 DAY",
    "5 last day": f"SELECT COUNT(*) AS n {V} WHERE day >= (SELECT MAX(day) {V}) - INTERVAL 7 DAY",
    "5 as_of": f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (as_of = DATE '2023-02-01') COUNT(*) AS n {V} WHERE day > current_date - 10",
    "1.3 released number": f"SELECT COUNT(*) AS n {V} WHERE cost > (SELECT AVG(cost) {V})",
    "1.3 released list": f"SELECT COUNT(*) AS n {V} WHERE room IN (SELECT room {V} WHERE cost > 10 GROUP BY room ORDER BY COUNT(*) DESC LIMIT 5)",
    "6 WIDTH_BUCKET": f"SELECT WIDTH_BUCKET(cost, 0, 90, 3) AS b, COUNT(*) AS n {V} GROUP BY b ORDER BY b",
    "6 epochs": f"SELECT COUNT(*) AS n {V} WHERE TO_TIMESTAMP(stamp) < TIMESTAMP '2023-01-15'",
    "6 days of an average": f"SELECT EXTRACT(DAY FROM AVG(CAST(day AS TIMESTAMP) - TIMESTAMP '2022-12-01')) AS n {V}",
    "6 AGE": f"SELECT COUNT(*) AS n {V} WHERE date_part('day', AGE(day, DATE '2022-12-31')) > 10",
    "6 week days": f"SELECT dayofweek(day) AS d, COUNT(*) AS n {V} GROUP BY d ORDER BY d",
    "6 INTERVAL (-1)": f"SELECT COUNT(*) AS n {V} WHERE day > DATE '2023-02-20' + INTERVAL (-1) MONTH",
    "6 time buckets": f"SELECT COUNT(*) AS n {V} WHERE date_trunc('week', day) = DATE '2023-01-16'",
    "6 names of days": f"SELECT DATENAME(weekday, day) AS d, COUNT(*) AS n {V} GROUP BY d ORDER BY d",
    "6 styles": f"SELECT CONVERT(varchar(7), day, 120) AS m, COUNT(*) AS n {V} GROUP BY m ORDER BY m",
    "6 DECODE": f"SELECT DECODE(code, 'a', 1, 'b', 2, 0) AS k, COUNT(*) AS n {V} GROUP BY k ORDER BY k",
    "6 written days": f"SELECT COUNT(*) AS n {V} WHERE day > STR_TO_DATE('15.01.2023', '%d.%m.%Y')",
    "7 a public row": f"SELECT COUNT(*) AS n {V} WHERE cost > (SELECT rank FROM codes WHERE code = 'b')",
    "7 fixed columns": "SELECT c.code, c.kind, COUNT(*) AS n FROM visits v JOIN codes c ON c.code = v.code GROUP BY c.code ORDER BY c.code",
    "7 label looked up": "SELECT v.code, MIN(c.kind) AS k, COUNT(*) AS n FROM visits v JOIN codes c ON c.code = v.code GROUP BY v.code ORDER BY v.code",
    "7 series": "SELECT s.d, COUNT(*) AS n FROM generate_series(DATE '2023-01-01', DATE '2023-01-04', INTERVAL 1 DAY) AS s(d) JOIN visits v ON v.day = s.d GROUP BY s.d ORDER BY s.d",
    "7 subquery in ON": "SELECT COUNT(*) AS n FROM visits v JOIN codes c ON c.code = v.code AND c.rank > (SELECT MIN(rank) FROM codes)",
    "7 DISTINCT ON": "SELECT region, COUNT(*) AS n FROM (SELECT DISTINCT ON (patient_id) patient_id, region FROM patients) AS t GROUP BY region ORDER BY region",
    "7 truth of a number": "SELECT COUNT(*) AS n FROM patients WHERE married",
    "8 ORDER BY AVG": f"SELECT room, AVG(cost) AS a {V} GROUP BY room ORDER BY AVG(cost) DESC LIMIT 2",
    "8 carried join": "WITH r AS (SELECT code, COUNT(*) AS n FROM visits GROUP BY code) SELECT r.code, r.n, s.m FROM r JOIN (SELECT code, COUNT(DISTINCT patient_id) AS m FROM visits GROUP BY code) AS s ON s.code = r.code ORDER BY r.code",
    "8 ROLLUP": f"SELECT room, code, COUNT(*) AS n {V} GROUP BY ROLLUP (room, code) ORDER BY room, code",
    "8 MODE": f"SELECT MODE(room) AS m {V} WHERE room = 3 OR cost > 60",
    "8 APPROX_TOP_K": f"SELECT APPROX_TOP_K(code, 2) AS m {V} WHERE code = 'a' OR cost > 30",
    "8 STRING_AGG": f"SELECT STRING_AGG(DISTINCT code, ',') AS m {V}",
    "8 LIST": f"SELECT LIST(DISTINCT room) AS m {V} WHERE room < 4",
    "8 quantile list": f"SELECT QUANTILE_CONT(cost, [0.25, 0.75]) AS m {V}",
    "8 HISTOGRAM": f"SELECT HISTOGRAM(code) AS m {V}",
    "8 LAG": f"SELECT room, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY room) AS b {V} GROUP BY room ORDER BY room",
    "8 largest SUM of each": f"SELECT room, code, SUM(cost) AS n {V} GROUP BY room, code QUALIFY ROW_NUMBER() OVER (PARTITION BY room ORDER BY SUM(cost) DESC) = 1 ORDER BY room",
    "9 CORR": f"SELECT CORR(cost, minutes) AS n {V}",
    "9 COVAR_POP": f"SELECT COVAR_POP(cost, minutes) AS n {V}",
    "9 REGR_SLOPE": f"SELECT REGR_SLOPE(cost, minutes) AS n {V}",
}


home = world_fixture(POLICY, **TABLES)
"""DuckDB's session."""


@pytest.fixture(scope="module")
def away(store: Store) -> Iterator[Session]:
    """The engine's session."""
    with duckdb.connect() as connection:
        sources = store.put(connection, TABLES)
    session = store.session(store.policy(POLICY, sources))
    yield session
    session.close()


def table(session: Session, statement: str) -> pa.Table | QueryRefused:
    """Return the answer to a statement, or its refusal."""
    try:
        return session.run(statement).table
    except QueryRefused as refused:
        return refused


NOT_WRITTEN = {("Spark", "5 last day")} | {
    (engine, form)
    for engine in ("PostgreSQL", "Spark")
    for form in (
        *("6 epochs", "6 days of an average", "6 AGE", "6 names of days"),
        *("8 number of a key", "8 number of a text key"),
    )
}
"""The engines and forms that are refused on them, though DuckDB has them."""


@pytest.mark.parametrize("form", FORMS)
def test_the_answer_is_that_of_duckdb(form: str, home: Session, away: Session, store: Store) -> None:
    ours, theirs = table(home, FORMS[form]), table(away, FORMS[form])
    if isinstance(theirs, QueryRefused):
        assert isinstance(ours, QueryRefused) or (store.name, form) in NOT_WRITTEN
        if isinstance(ours, QueryRefused):  # else the message says that the engine has no such function
            assert theirs.obstacles[0].hint or theirs.hint
        return
    assert not isinstance(ours, QueryRefused)
    assert (store.name, form) not in NOT_WRITTEN
    assert ours.schema.names == theirs.schema.names
    assert ours.num_rows == theirs.num_rows
    for one, other in zip(ours.to_pylist(), theirs.to_pylist(), strict=True):
        for left, right in zip(one.values(), other.values(), strict=True):
            assert _is_alike(left, right), (one, other)


def _is_alike(left: object, right: object) -> bool:
    """Return whether two values are equal but for noise that is hardly any."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        return bool(abs(left - right) <= 0.6 + 0.01 * abs(left))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_alike, left, right))
    return left == right
