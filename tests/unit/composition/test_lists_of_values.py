# ruff: noqa: E501  a statement stands on one line, as it is typed
"""MODE, APPROX_TOP_K, STRING_AGG and LIST of different values, lists of quantiles: releases of groups."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.exact import exact_of
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
delta = 1e-3
max_epsilon_per_query = 1e9
default_epsilon = 100000
default_delta = 1e-6
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 8
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
unique = [["visit"]]
[tables.visits.domain]
code = { from = 1, to = 40 }
place = ["east", "north", "south", "west"]
cost = { from = 0, to = 99 }
[tables.codes]
source = "codes.parquet"
public = true
"""
CODES = "SELECT 1 + i AS code FROM range(40) t(i)"
VISITS = """SELECT i // 4 AS user_id, CASE WHEN i % 11 <> 3 THEN 1 + i * i % 37 END AS code, i % 100 AS cost,
['north', 'east', NULL, 'south', 'north', NULL, NULL][1 + i % 7] AS place, 'n' || (i % 6) AS note, i AS visit
FROM range(8000) t(i) UNION ALL SELECT 9000, 40, 99, 'west', 'rare', 99999"""

LIKE_SQL = [
    "SELECT MODE(place) FROM visits",
    "SELECT MODE(place) AS m, COUNT(*) AS n FROM visits WHERE cost < 50",
    "SELECT mode() WITHIN GROUP (ORDER BY place) FROM visits",
    "SELECT MODE(code % 3) FILTER (WHERE place = 'east') FROM visits",
    "SELECT UPPER(MODE(place)) || '!' AS m FROM visits",
    "SELECT STRING_AGG(DISTINCT place, ', ' ORDER BY place) FROM visits WHERE user_id < 9000",
    "SELECT STRING_AGG(DISTINCT place ORDER BY place DESC) FROM visits WHERE user_id < 9000",
    "SELECT LIST(DISTINCT note ORDER BY note) AS l, COUNT(*) AS n FROM visits WHERE cost < 50",
    "SELECT ARRAY_AGG(DISTINCT code ORDER BY code) FILTER (WHERE code < 9) FROM visits",
    "SELECT m, n FROM (SELECT MODE(place) AS m, COUNT(*) AS n FROM visits WHERE cost > 10) AS t",
    "SELECT COUNT(*) AS n FROM visits WHERE place = (SELECT MODE(place) FROM visits)",
    "SELECT COUNT(*) AS n FROM (SELECT code FROM codes EXCEPT SELECT code FROM visits WHERE code < 30) AS t",
    "SELECT note FROM visits WHERE cost < 20 INTERSECT SELECT note FROM visits WHERE cost > 80 ORDER BY note",
    "SELECT COUNT(*) AS n FROM (SELECT code FROM visits WHERE user_id < 9000 AND code < 30 EXCEPT SELECT DISTINCT code FROM visits WHERE code > 20) AS t",
    "SELECT COUNT(*) AS n FROM ((SELECT place FROM visits WHERE user_id < 9000 AND place IS NOT NULL) UNION SELECT note FROM visits WHERE user_id < 9000) AS t",
    "SELECT place, note FROM visits WHERE cost < 20 AND user_id < 9000 INTERSECT SELECT place, note FROM visits WHERE cost > 30 ORDER BY ALL",
    "SELECT COUNT(*) AS n FROM (SELECT place, code % 5 AS k FROM visits WHERE user_id < 9000 EXCEPT SELECT place, code % 5 FROM visits WHERE code > 20) AS t",
    "SELECT place, code > 20 AS high, cost // 50 AS half FROM visits WHERE user_id < 9000 UNION SELECT place, FALSE, 7 FROM visits WHERE user_id < 9000 ORDER BY ALL",
    "SELECT COUNT(*) AS n FROM (SELECT code, code // 9 AS k FROM codes EXCEPT SELECT code, code // 9 FROM visits) AS t",
    "SELECT place, COUNT(*) AS n FROM visits WHERE place = 'north' GROUP BY place ORDER BY n DESC LIMIT 5 OFFSET 0",
    "SELECT DISTINCT place FROM visits WHERE user_id < 9000 ORDER BY place NULLS FIRST",
    "SELECT DISTINCT v.code % 3 AS k, note FROM visits v WHERE user_id < 9000 ORDER BY note DESC, k LIMIT 5 OFFSET 1",
    "SELECT note FROM visits WHERE user_id < 9000 GROUP BY note ORDER BY 1",
    "SELECT upper(place) AS p, cost > 50 AS high FROM visits WHERE user_id < 9000 GROUP BY ALL ORDER BY high, p",
    "SELECT place FROM visits WHERE user_id < 9000 GROUP BY visits.place ORDER BY visits.place",
    "WITH v AS (SELECT * FROM visits WHERE code < 20) SELECT DISTINCT c.code FROM v JOIN codes c ON c.code = v.code ORDER BY code",
    "SELECT DISTINCT place FROM visits WHERE user_id < 9000 ORDER BY place",
    "SELECT DISTINCT place AS p, cost // 50 AS half FROM visits WHERE user_id < 9000 ORDER BY p DESC, 2 LIMIT 3",
    "SELECT place, code > 20 AS high FROM visits WHERE user_id < 9000 GROUP BY place, high ORDER BY ALL",
    "WITH v AS (SELECT * FROM visits WHERE cost > 10) SELECT DISTINCT note FROM v WHERE user_id < 9000 ORDER BY note",
    "WITH v AS (SELECT * FROM visits WHERE cost > 10) SELECT MODE(place), STRING_AGG(DISTINCT place ORDER BY place) FROM v WHERE user_id < 9000",
]


session = world_fixture(POLICY, visits=VISITS, codes=CODES)


@pytest.mark.parametrize("sql", LIKE_SQL)
@pytest.mark.sampled(4, rest="longer")
def test_values_of_many_units_are_those_of_sql(session: Session, sql: str) -> None:
    with duckdb.connect() as raw:
        raw.execute(f"CREATE TABLE visits AS {VISITS}")
        raw.execute(f"CREATE TABLE codes AS {CODES}")
        exact = raw.execute(sql).fetchall()
    found = [tuple(row.values()) for row in session.run(sql).table.select(range(len(exact[0]))).to_pylist()]
    assert found == [
        tuple(pytest.approx(v, abs=0.4) if isinstance(v, int) else v for v in row) for row in exact
    ]


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("SELECT APPROX_TOP_K(place, 2) FROM visits WHERE place <> 'south'", ["north", "east"]),
        ("SELECT APPROX_TOP_COUNT(place, 1) FROM visits", ["north"]),
        ("SELECT QUANTILE_CONT(cost, [0.1, 0.9]) FROM visits", [10, 90]),
        ("SELECT PERCENTILE_DISC([0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY cost) FROM visits", [25, 50, 75]),
        ("SELECT place, QUANTILE_CONT(cost, [0.5]) FROM visits WHERE place = 'north' GROUP BY place", [50]),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_lists_of_largest_groups_and_of_quantiles(session: Session, sql: str, meant: list[object]) -> None:
    (row,) = session.run(sql).table.to_pylist()
    found = next(value for value in row.values() if isinstance(value, list))
    assert found == [pytest.approx(v, abs=2) if isinstance(v, int) else v for v in meant]


def test_a_histogram_is_a_map_of_the_groups_that_have_rows(session: Session) -> None:
    asked = "SELECT HISTOGRAM(place) AS h, COUNT(*) AS n FROM visits WHERE cost < 50 AND user_id < 9000"
    answer = session.run(asked)
    assert answer.table.column_names[:2] == ["h", "n"]
    with duckdb.connect() as raw:
        raw.execute(f"CREATE TABLE visits AS {VISITS}")
        ((exact, _),) = raw.execute(asked).fetchall()
    found = dict(answer.table.to_pylist()[0]["h"])
    assert found == {place: pytest.approx(n, abs=0.4) for place, n in exact.items()}
    assert "west" not in found
    assert (
        "HISTOGRAM(place): values whose number rounds to 0 are left out" in present(answer.release).warnings
    )


def test_from_how_many_units_on_a_value_is_listed_is_told(session: Session) -> None:
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) STRING_AGG(DISTINCT place) FROM visits"
    said = present(
        session.run(asked).release
    ).warnings  # by its noise, a place of one unit is listed one time in nine
    assert [w for w in said if w.startswith("found: a place counts as there from about 4 units ")]


def test_one_user_speaks_for_one_value(session: Session) -> None:
    """Each unit is in one group of the release: one unit moves one number of speakers by one."""
    prepared = of_type(session.prepare("SELECT LIST(DISTINCT code) FROM visits"), PreparedComposed)
    (part,) = prepared.parts
    assert part.plan.compiled.certificate.most_groups == 1
    (change,) = part.plan.compiled.certificate.numbers
    assert (change.low, change.high, change.total) == (0, 1, 1)
    assert sum(int(n) for each in exact_of(part.counting.count()).n for n in each) == 2001


def test_branches_are_found_apart_and_what_is_left_out_is_told(session: Session) -> None:
    both = "SELECT place, note FROM visits INTERSECT SELECT place, note FROM visits WHERE cost < 50"
    assert any("row of place, note" in each for each in present(session.run(both).release).warnings)
    asked = "SELECT place FROM visits EXCEPT SELECT place FROM visits WHERE cost < 50"
    prepared = of_type(session.prepare(asked), PreparedComposed)
    assert [part.plan.compiled.certificate.most_groups for part in prepared.parts] == [1, 1]
    told = present(session.run(asked).release).warnings[0]
    assert told.startswith("found: a place counts")
    assert told.endswith(". Rows without a place are left out")


def test_the_most_frequent_value_is_no_group_that_may_be_missing(session: Session) -> None:
    found = present(session.run("SELECT MODE(place), COUNT(*) FROM visits").release)
    assert not [told for told in found.warnings if told.startswith("SQL has no groups")]


def test_calls_without_groups_read_no_rows_besides(session: Session) -> None:
    prepared = of_type(
        session.prepare("SELECT MODE(place), MODE(code) FROM visits WHERE cost > 3"), PreparedComposed
    )
    assert len(prepared.parts) == 2
    assert prepared.price.epsilon == 100_000


@pytest.mark.parametrize(
    "items",
    [
        "LIST(place)",
        "STRING_AGG(place, ',')",
        "STRING_AGG(DISTINCT place, note)",
        "STRING_AGG(DISTINCT place ORDER BY cost)",
        "LIST(DISTINCT user_id)",
        "LIST(DISTINCT visit)",
        "MODE(user_id)",
        "MODE(DISTINCT place)",
        "place, MODE(code)",
        "APPROX_TOP_K(place, 0)",
        "APPROX_TOP_K(place, 1001)",
        "APPROX_TOP_K(user_id, 3)",
        "MODE(place) OVER ()",
        "QUANTILE_CONT(cost, [])",
        "QUANTILE_CONT(cost, [code])",
        "QUANTILE_CONT(cost, [1.5])",
    ],
)
def test_what_shows_rows_or_single_units_is_refused(session: Session, items: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(f"SELECT {items} FROM visits{' GROUP BY place' if 'place, M' in items else ''}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT place FROM visits INTERSECT ALL SELECT place FROM visits",
        "SELECT place FROM visits UNION ALL SELECT place FROM visits",
        "SELECT user_id FROM visits INTERSECT SELECT user_id FROM visits",
        "SELECT visit FROM visits EXCEPT SELECT visit FROM visits",
        "SELECT place, user_id FROM visits INTERSECT SELECT place, user_id + 1 FROM visits",
        "SELECT * FROM visits EXCEPT SELECT * FROM visits",
        "SELECT MAX(place) FROM visits EXCEPT SELECT place FROM visits",
    ],
)
def test_other_set_operations_of_rows_are_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT STRING_AGG(DISTINCT x, ', ' ORDER BY x DESC) FROM (VALUES ('a'), ('b'), ('a')) AS t (x)",
        "SELECT STRING_AGG(DISTINCT x, '') FILTER (WHERE x <> 'b') FROM (VALUES ('a'), ('b'), ('a')) AS t (x)",
        "SELECT ARG_MAX(DISTINCT x, y) FROM (VALUES ('a', 1), ('b', 3), ('a', 1)) AS t (x, y)",
        "SELECT STRING_AGG(DISTINCT place, '; ' ORDER BY place) FROM (SELECT place, COUNT(*) AS n FROM visits WHERE user_id < 9000 GROUP BY place HAVING COUNT(*) > 100) AS t",
    ],
)
def test_distinct_has_the_first_argument_over_public_and_released_rows(session: Session, sql: str) -> None:
    with duckdb.connect() as raw:
        raw.execute(f"CREATE TABLE visits AS {VISITS}")
        assert session.run(sql).table.to_pydict().popitem()[1] == [present(raw.execute(sql).fetchone())[0]]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT MODE(place) FROM visits WHERE cost < 0", "MODE(place) of no rows is some value"),
        ("SELECT MODE(note) FROM visits WHERE note IN ('x', 'y')", "MODE(note) of no rows is some value"),
        ("SELECT LIST(DISTINCT place) FROM visits", "Rows without a place are left out, where SQL has NULL"),
        ("SELECT LIST(DISTINCT UPPER(note)) FROM visits", "found: a value is found as a group of"),
    ],
)
def test_what_sql_would_show_is_told(session: Session, sql: str, said: str) -> None:
    (line,) = [each for each in present(session.run(sql).release).warnings if said in each]
    assert "dpsql_fn" not in line


@pytest.mark.parametrize(
    "sql", ["SELECT MODE(place) FROM visits", "SELECT MODE(note) FROM visits WHERE cost < 0"]
)
def test_a_mode_that_is_null_or_of_all_rows_needs_no_line(session: Session, sql: str) -> None:
    assert not any("of no rows" in each for each in present(session.run(sql).release).warnings)
