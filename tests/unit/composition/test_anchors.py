# ruff: noqa: E501  a statement stands on one line, as it is typed
"""The last day of a table as a literal or a release, and other released constants than numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction

import duckdb
import pytest

from dpsql.analysis import list_marks, put_values
from dpsql.analysis.released_values import Known
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present
from tests.support.world import open_world

LAST = date(2024, 9, 6)
POLICY = """
[budget]
epsilon = 1e12
max_epsilon_per_query = 1e9
default_epsilon = 1
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 5
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
page.values = ["a", "b", "c", "d"]
page.complete = true
day = { from = 2024-01-01, to = 2024-12-31 }
ms = { from = 0, to = 100, complete = true }
[tables.stays]
source = "stays.parquet"
unit = "user_id"
trust_source = true
covers = { day = [2024-01-01, 2024-09-06] }
[tables.stays.domain]
day = { from = 2023-01-01, to = 2025-12-31 }
"""
VISITS = (
    "SELECT i AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page, i * 37 % 101 AS ms, "
    "DATE '2024-01-01' + (i % 250)::INTEGER AS day, i % 2 = 0 AS late FROM range(50000) t(i)"
)
SINCE = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE day >= (SELECT MAX(day) FROM visits) - INTERVAL 30 DAY"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("anchors") / "data"
    with open_world(folder, POLICY, visits=VISITS, stays=VISITS) as opened:
        opened.run("SET dp_epsilon = 1")
        yield opened


def exact(session: Session, sql: str) -> list[tuple[object, ...]]:
    folder = present(session.policy.path).parent
    with duckdb.connect() as con:
        for name in ("visits", "stays"):
            con.execute(f"CREATE VIEW {name} AS FROM '{folder / name}.parquet'")
        return con.execute(sql).fetchall()


LIKE_SQL = [
    SINCE,
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE day = (SELECT MAX(day) FROM visits WHERE late)",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE day = (SELECT MIN(day) FROM visits)",
    "WITH m AS (SELECT MAX(day) AS last FROM visits) SELECT page, COUNT(DISTINCT user_id) FROM visits, m WHERE day > last - 7 GROUP BY page ORDER BY page",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_trunc('month', day) = date_trunc('month', (SELECT MAX(day) FROM visits))",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE day BETWEEN (SELECT MAX(day) FROM visits) - 6 AND (SELECT MAX(day) FROM visits)",
    "WITH t AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE day > (SELECT MAX(day) - INTERVAL 1 MONTH FROM stays) GROUP BY page) SELECT MAX(n) FROM t",
    "SELECT COUNT(DISTINCT user_id) FROM stays WHERE day >= (SELECT MAX(day) FROM stays) - INTERVAL 30 DAY",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE date_diff('day', day, (SELECT MAX(day) FROM visits)) < 30",
    "SELECT COUNT(*) FROM (SELECT user_id, (SELECT MAX(day) FROM visits) - MAX(day) AS recency, SUM(date_diff('day', (SELECT MAX(day) FROM visits WHERE late), day)) AS s FROM visits GROUP BY user_id) AS t WHERE recency < 30 AND s < 0",
    "WITH u AS (SELECT user_id, MAX(day) AS last FROM visits GROUP BY user_id), m AS (SELECT MAX(day) AS d, COUNT(DISTINCT user_id) AS n FROM visits), s AS (SELECT *, m.d - u.last AS recency FROM u CROSS JOIN m) SELECT COUNT(*) FROM s WHERE recency < 30 AND n > 9",
    "WITH u AS (SELECT user_id, MAX(day) AS last FROM visits GROUP BY user_id), m AS (SELECT MAX(day) AS d FROM visits), s AS (SELECT u.*, m.d, m.d - u.last AS recency FROM u, m) SELECT COUNT(*) FROM s WHERE recency < 30 AND last < d",
    "WITH m AS (SELECT MAX(day) AS last, 30 AS days FROM stays) SELECT COUNT(DISTINCT user_id) FROM stays WHERE date_diff('day', day, (SELECT last FROM m)) < (SELECT days FROM m)",
    "WITH span(first, days) AS (SELECT DATE '2024-01-02', 2), whole AS (SELECT first, s.first + days AS last FROM span s) SELECT COUNT(DISTINCT user_id) FROM visits WHERE day BETWEEN (SELECT first FROM whole) AND (SELECT last FROM whole) AND ms > (SELECT k.n * 2 FROM (SELECT 30 AS n) k)",
    "WITH m AS (SELECT MIN(day) AS first, MAX(day) AS last FROM stays) SELECT COUNT(DISTINCT user_id) FROM stays, m WHERE day IN (first, last)",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE page = (SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1)",
    "SELECT COUNT(DISTINCT user_id) FROM visits WHERE page NOT IN (SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2)",
    "WITH t AS (SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ms) SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms IN (SELECT ms FROM t WHERE n > 495)",
    "WITH t AS (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) SELECT COUNT(DISTINCT user_id) FROM visits WHERE page IN (SELECT page FROM t WHERE n > 1000000)",
]


@pytest.mark.parametrize("sql", LIKE_SQL)
@pytest.mark.sampled(4, rest="longer")
def test_the_answer_is_that_of_plain_sql(session: Session, sql: str) -> None:
    session.run("SET dp_epsilon = 10000")
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist()]
    session.run("SET dp_epsilon = 1")
    wanted = exact(session, sql)
    rows = [row for row in found if len(wanted) == 1 or row[0] != "d"]  # a page without rows
    assert len(rows) == len(wanted)
    for row, true in zip(rows, wanted, strict=True):
        assert row[:-1] == true[:-1]
        assert row[-1] == pytest.approx(true[-1], abs=0.5)


def test_the_days_that_a_table_covers_are_literals(session: Session) -> None:
    """No release is made for them, whatever the rows are: they are the owner's word."""
    sql = "SELECT COUNT(DISTINCT user_id) FROM stays WHERE day >= (SELECT MAX(day) FROM stays) - INTERVAL 30 DAY"
    made = of_type(session.prepare(sql), PreparedPrivate)
    assert made.price.epsilon == 1
    assert "2024-09-06" in made.plan.compiled.sql
    release = present(session.run(sql).release)
    assert [str(each) for each in release.assumed if "last" in str(each)] == [
        "the last day is 2024-09-06 (policy)"
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(DISTINCT user_id) FROM stays WHERE day > (SELECT MAX(day) FROM stays WHERE late)",
        "SELECT COUNT(DISTINCT user_id) FROM stays WHERE day > (SELECT MAX(day) FROM visits)",
        "WITH stays AS (SELECT * FROM visits WHERE late) SELECT COUNT(DISTINCT user_id) FROM visits WHERE day > (SELECT MAX(day) FROM stays)",
    ],
)
def test_only_whole_tables_have_their_last_day_in_the_policy(session: Session, sql: str) -> None:
    made = of_type(session.prepare(sql), PreparedComposed)
    assert len(made.parts) == 2
    assert any("released value 1" in part.plan.compiled.sql for part in made.parts)


def test_a_day_takes_an_eighth_of_epsilon(session: Session) -> None:
    for options, whole in (("", 1), ("WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4) ", 4)):
        made = of_type(session.prepare(SINCE.replace("SELECT", f"SELECT {options}", 1)), PreparedComposed)
        prices = sorted(part.method.quote.charge.epsilon for part in made.parts)
        assert prices == [Fraction(whole, 8), Fraction(7 * whole, 8)]
        assert {part.method.quote.mechanism for part in made.parts} >= {"sparse vector with gap"}
    both = "SELECT COUNT(DISTINCT user_id) FROM visits WHERE day BETWEEN (SELECT MIN(day) FROM visits) + 9 AND (SELECT MAX(day) FROM visits)"
    made = of_type(session.prepare(both), PreparedComposed)
    assert sorted(part.method.quote.charge.epsilon for part in made.parts) == [Fraction(1, 8)] * 2 + [
        Fraction(3, 4)
    ]


def test_options_around_a_release_that_is_not_outermost_hold_for_all(session: Session) -> None:
    sql = f"WITH t AS ({SINCE}) SELECT n + 1 FROM t"
    made = of_type(session.prepare(sql), PreparedComposed)
    assert sum(part.method.quote.charge.epsilon for part in made.parts) == 1


def test_the_day_is_told_with_its_price(session: Session) -> None:
    """Noise may take an earlier day, or none: it does so in a few of a hundred runs, not in five of five."""
    told = r"the last day was taken as 2024-0[89]-\d\d \(epsilon 0\.125\)"
    before, found = session.defaults, list[str]()
    session.defaults = replace(before, fresh=True)
    try:
        for _ in range(5):
            found += present(session.run(SINCE).release).warnings
    finally:
        session.defaults = before
    assert any(re.fullmatch(told, each) for each in found)


def test_explain_says_which_release_reads_which(session: Session) -> None:
    rows = session.run(f"EXPLAIN {SINCE}").table.to_pylist()
    shown = "\n".join(f"{row['property']}: {row['value']}" for row in rows)
    assert "as a constant" in shown
    assert "the last day was taken as the day that is found" in shown


@pytest.mark.parametrize("runs", [5, pytest.param(20, marks=pytest.mark.longer)])
def test_a_day_is_found_although_noise_hides_a_few_units(session: Session, runs: int) -> None:
    """At epsilon 1 each day has 200 units, a little less than the threshold: the day found is never after the last."""
    for i in range(runs):
        sql = SINCE.replace("WHERE", f"WHERE ms >= 0 AND {i} = {i} AND")
        release = present(
            session.run(
                sql.replace(
                    "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, fresh = TRUE)", 1
                )
            ).release
        )
        day = date.fromisoformat(next(w for w in release.warnings if "taken as" in w).split()[6])
        assert LAST - timedelta(days=3) <= day <= LAST


VALUES: dict[str, list[Known]] = {
    "day >= (SELECT MAX(day) FROM visits)": [None, date(2024, 2, 3), date.min, date.max],
    "day >= (SELECT MAX(day) FROM visits) - INTERVAL 30 DAY": [
        None,
        datetime(2024, 2, 3, 4, 5),
        datetime.max,
    ],
    "page = (SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1)": [
        None,
        "a",
        "'; --",
        "",
    ],
    "date_diff('day', day, (SELECT MAX(day) FROM visits WHERE late)) < 30": [LAST, date(1990, 1, 1), None],
    "page IN (SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2)": [
        (),
        ("a",),
        ("a", "b", "it's"),
    ],
    "ms NOT IN (SELECT ms FROM (SELECT ms, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ms) WHERE n > 9)": [
        (),
        (5,),
        tuple(range(99)),
    ],
}


@pytest.mark.parametrize("condition", VALUES)
@pytest.mark.sampled(3, rest="longer")
def test_nothing_but_the_constant_depends_on_the_value(session: Session, condition: str) -> None:
    """The plan is made before it is known: rule, noise and candidates are the same, also for lists of any length."""
    sql = f"SELECT page, COUNT(DISTINCT user_id) AS n FROM visits WHERE {condition} GROUP BY page"
    made = of_type(session.prepare(sql), PreparedComposed)
    part = next(part for part in made.parts if part.values)
    (mark,) = list_marks(part.query.tree)
    before = part.plan
    for value in VALUES[condition]:
        after = put_values(before, {mark.place: value}, session.policy, engine_of(session).schema_database)
        assert after.compiled.sql != before.compiled.sql
        assert "released value" not in after.compiled.sql
        for name in ("outputs", "selection", "domain_size", "cells", "key_types", "options", "ladders"):
            assert getattr(after, name) == getattr(before, name), name
        old, new = before.compiled.certificate, after.compiled.certificate
        assert (old.numbers, old.most_groups, old.keys) == (new.numbers, new.most_groups, new.keys)
    part.counting.check_unknown()


def test_a_value_of_an_empty_release_is_null(session: Session) -> None:
    sql = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page = (SELECT page FROM visits GROUP BY page HAVING COUNT(DISTINCT user_id) > 10000000 ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1)"
    session.run("SET dp_epsilon = 10000")
    (row,) = session.run(sql).table.to_pylist()
    session.run("SET dp_epsilon = 1")
    assert row["n"] == pytest.approx(0, abs=0.5)


def test_the_clock_can_be_given(session: Session) -> None:
    """The same day for the rows that are counted, and for what is computed of released numbers."""
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10000, as_of = DATE '2024-09-06') "
        "COUNT(DISTINCT user_id) AS n, current_date AS d FROM visits WHERE day > current_date - 7"
    )
    (row,) = session.run(sql).table.to_pylist()
    assert row["n"] == pytest.approx(1400, abs=0.5)
    assert row["d"] == LAST
    later = session.run(
        sql.replace("09-06", "02-01").replace(" > ", " <= ").replace(" - 7", "").replace("= 10000", "= 9000")
    )
    assert later.table.to_pylist()[0]["n"] == pytest.approx(32 * 200, abs=0.5)


@pytest.mark.parametrize("text", ["DATE '2024-13-01'", "5", "tomorrow", "DATE"])
def test_the_clock_is_a_day(session: Session, text: str) -> None:
    with pytest.raises(Exception, match="option as_of"):
        session.prepare(
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (as_of = {text}) COUNT(DISTINCT user_id) FROM visits"
        )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(DISTINCT user_id) FROM visits GROUP BY day > (SELECT MAX(day) FROM visits)",
        "SELECT COUNT(DISTINCT user_id) FROM visits v WHERE day > (SELECT MAX(w.day) FROM visits w WHERE w.page = v.page)",
        "SELECT COUNT(DISTINCT user_id) FROM visits GROUP BY (SELECT 1)",
        "WITH k AS (SELECT 3 AS n UNION ALL SELECT 4) SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > (SELECT n FROM k)",
        "SELECT COUNT(DISTINCT user_id) FROM visits WHERE late = (SELECT late FROM visits GROUP BY late ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1)",
    ],
)
def test_what_is_no_constant_is_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)
