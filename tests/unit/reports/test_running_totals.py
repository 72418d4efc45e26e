"""Running totals in reports: blocks of their days are measured, too, so that totals err less."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import numpy as np
import pytest

from dpsql.composition import derived_columns
from dpsql.estimates.reports.marginal_estimate import MarginalAnswer
from dpsql.policy import load
from dpsql.reports import PlannedReport
from dpsql.reports.answers import TableEstimate, answer_report
from dpsql.reports.planned import find_shown
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 10
ledger = "ledger.sqlite"
high_water = false
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unique = [["user_id"]]
not_null = ["day", "region", "size"]
domain.day = { from = 2025-01-01, to = 2025-12-31, complete = true }
domain.region = { values = ["north", "south"], complete = true }
domain.size = { values = ["s", "m", "l"], complete = true }
"""
BY_DAY = "SELECT WITH DIFFERENTIAL_PRIVACY day, COUNT(*) AS n FROM signups GROUP BY day"
TOTALS = f"SELECT day, SUM(n) OVER (ORDER BY day) AS total FROM ({BY_DAY})"
BOTH_KEYS = "SELECT region, day, COUNT(*) AS n FROM signups GROUP BY region, day"
FINE = "SELECT size, region, COUNT(*) AS n, COUNT(*) FILTER (WHERE region = 'north') AS m FROM signups"
FINE = f"({FINE} GROUP BY size, region)"
SPRING = "signups WHERE day < DATE '2025-04-01'"
DAYS = np.sqrt(2 * 183)
"""The error of running totals of a year if each day is measured alone."""

Opened = Callable[..., Session]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Opens sessions, each with a budget of its own."""
    tmp_path = tmp_path_factory.mktemp("signups")
    with duckdb.cursor() as connection:
        connection.execute(
            "CREATE TEMP TABLE signups AS SELECT i AS user_id, ['s', 'm', 'l'][1 + i % 3] AS size,"
            " DATE '2025-01-01' + CAST(i % 365 AS INTEGER) AS day, ['north', 'south'][1 + i % 2] AS region"
            " FROM range(3650) t(i)"
        )
        connection.execute(f"COPY signups TO '{tmp_path / 'signups.parquet'}' (FORMAT parquet)")
    sessions: list[Session] = []

    def open_one(more: str = "") -> Session:
        own = POLICY.replace("ledger.sqlite", f"ledger_{len(sessions)}.sqlite")
        (tmp_path / "dpsql.toml").write_text(own.replace("epsilon = 10\n", f"epsilon = 10\n{more}"))
        sessions.append(Session(load(tmp_path / "dpsql.toml"), analyst="ann"))
        return sessions[-1]

    yield open_one
    for each in sessions:
        each.close()


@pytest.fixture(scope="module")
def session(opened: Opened) -> Session:
    """A session for tests that measure nothing."""
    return opened()


def plan(session: Session, *texts: str, epsilon: str = "1") -> PlannedReport:
    return session.reports.plan(texts, epsilon)


def sizes(planned: PlannedReport) -> list[int]:
    return [marginal.size for marginal, _ in planned.plans[0].measured]


@pytest.mark.parametrize(
    ("text", "groups", "most"),
    [
        (TOTALS, 365, 2.3),
        (TOTALS.replace("ORDER BY day", "ORDER BY day ROWS UNBOUNDED PRECEDING"), 365, 2.3),
        (f"WITH d AS ({BY_DAY}) SELECT day, SUM(n) OVER w AS t FROM d WINDOW w AS (ORDER BY day)", 365, 2.3),
        (TOTALS.replace("ORDER BY day", "ORDER BY day DESC"), 365, 2.3),
        (
            f"SELECT region, day, SUM(n) OVER (PARTITION BY region ORDER BY day) AS t FROM ({BOTH_KEYS})",
            730,
            2.3,
        ),
        (f"SELECT day, SUM(SUM(n)) OVER (ORDER BY day) AS t FROM ({BOTH_KEYS}) GROUP BY day", 365, 80),
    ],
)
@pytest.mark.sampled(6, rest="longer")
def test_running_totals_have_blocks(session: Session, text: str, groups: int, most: float) -> None:
    planned = plan(session, text)
    (found,) = planned.plans
    assert max(sizes(planned)) >= groups
    assert len(found.measured) > 1
    assert DAYS / found.deviation >= 2.0
    assert found.added is not None
    assert 1.5 < found.added / np.sqrt(2) < most
    assert f"that of a number that is only added up is {found.added:.3g}" in found.words()
    assert f" in {groups} groups (" in found.words()


@pytest.mark.longer
def test_gaussian_running_totals_gain_more(opened: Opened) -> None:
    planned = plan(opened('delta = 0.000001\naccounting = "zcdp"\n'), TOTALS)
    (found,) = planned.plans
    assert found.way == "gaussian"
    assert min(DAYS, found.even) / found.deviation >= 2.8
    assert planned.price.epsilon <= 1


@pytest.mark.longer
def test_days_that_are_shown_count_as_much_as_totals(session: Session) -> None:
    alone = plan(session, TOTALS).plans[0]
    both = plan(session, TOTALS.replace("SELECT day,", "SELECT day, n,", 1)).plans[0]
    assert both.added is None
    assert alone.added is not None
    apart = plan(session, TOTALS, BY_DAY).plans[0]
    assert sum(share for marginal, share in both.measured if marginal.size == 365) >= 0.5
    assert both.even == pytest.approx(apart.even)
    assert both.deviation == pytest.approx(apart.deviation, rel=0.01)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT size, region, SUM(n) OVER (ORDER BY size, region) AS t FROM {FINE}",
        f"SELECT size, SUM(CASE size WHEN 's' THEN 2 * n ELSE n END) OVER (ORDER BY size) AS t FROM {FINE}",
        f"SELECT day, n - LAG(n) OVER (ORDER BY day) AS more FROM ({BY_DAY})",
        f"SELECT day, SUM(n) OVER (ORDER BY day) / SUM(n) OVER () AS share FROM ({BY_DAY})",
        f"SELECT day, SUM(n) OVER (ORDER BY day) AS t FROM ({BY_DAY}) QUALIFY t > 50",
        BY_DAY,
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_other_numbers_are_planned_as_their_groups(session: Session, text: str) -> None:
    planned = plan(session, text)
    assert planned.plans[0].added is None
    assert 365 in sizes(planned) or 6 in sizes(planned)


def test_sums_over_sets_of_groups_are_planned_as_what_is_shown(opened: Opened) -> None:
    session = opened()
    text = f"SELECT size, SUM(n) AS n FROM ({SIZES}) GROUP BY size"
    planned = plan(session, text)
    (found,) = planned.plans
    assert found.deviation < 1.5  # 2 if the six groups are measured alone
    (statement,) = planned.statements
    ((shown,),) = find_shown(statement.prepared, statement.linear)  # type: ignore[misc]  # one release
    assert (shown.columns, shown.shape) == (("signups.size", "signups.region"), (3, 1))
    answer = session.reports.run(planned)[0].table
    assert answer.num_rows == 3


SIZE_SUMS = f"SELECT size, SUM(n) AS t FROM {FINE} GROUP BY size"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT size, region, SUM(n) OVER (PARTITION BY region ORDER BY size) AS t FROM {FINE}",
        f"SELECT SUM(n) OVER (PARTITION BY region ORDER BY size ROWS 1 PRECEDING) AS t, region FROM {FINE}",
        f"SELECT region, size, SUM(m) OVER (PARTITION BY size) AS t FROM {FINE} WHERE size <> 'm'",
        f"{SIZE_SUMS} UNION ALL SELECT region, SUM(n) FROM {FINE} GROUP BY region",
        f"SELECT size, SUM(t) OVER (ORDER BY size DESC) AS t FROM ({SIZE_SUMS})",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_what_is_planned_is_what_is_shown(opened: Opened, text: str) -> None:
    session = opened()
    planned = plan(session, text, epsilon="2")
    (statement,) = planned.statements
    releases = session.reports._release(planned.prepared, ())
    (answer,) = answer_report(planned, releases, session.planner.policy)
    catalog = session.planner.database.engines().schema_database
    pairs = [(each.query, release) for each, release in zip(planned.measured, releases, strict=True)]
    estimate = TableEstimate.of("signups", pairs, planned.digest, session.planner.policy, catalog).estimate
    found = set[tuple[float, float, float]]()
    for shown in find_shown(statement.prepared, statement.linear):
        assert shown is not None
        for marginal in shown:
            told = estimate.answer(marginal)
            assert isinstance(told, MarginalAnswer)
            columns = (told.values, told.stddev, told.high)
            for value, stddev, high in zip(*(each.ravel().tolist() for each in columns), strict=True):
                found.add((value, stddev, high - value))
    rows = answer.release.table.to_pylist()  # type: ignore[union-attr]
    for row in rows:
        value, stddev, half = min(found, key=lambda each: abs(each[0] - row["t"]))
        assert row["t"] == pytest.approx(value, abs=1e-5)
        assert row["t_stddev"] == pytest.approx(stddev, rel=0.01)
        assert row["t_high"] - row["t"] == pytest.approx(half, rel=0.01)
    for value, *_ in found:
        assert min(abs(value - row["t"]) for row in rows) < 1e-5


SIZES = "SELECT size, region, COUNT(*) AS n FROM signups GROUP BY size, region"


def test_running_totals_are_the_sums_of_their_days(opened: Opened) -> None:
    session = opened()
    texts = [text.replace("signups", SPRING) for text in (TOTALS, BY_DAY)]
    planned = plan(session, *texts, epsilon="5")
    totals, days = session.reports.run(planned)
    found = totals.release.table.to_pylist()  # type: ignore[union-attr]
    sums = np.cumsum([row["n"] for row in days.table.to_pylist()])
    assert [row["total"] for row in found] == pytest.approx(sums.tolist(), abs=1e-6)
    exact = 10 * np.arange(1, 91)
    inside = [row["total_low"] <= n <= row["total_high"] for row, n in zip(found, exact, strict=True)]
    assert np.mean(inside) > 0.5  # .95 is expected; errors of neighbours are nearly equal
    spread = np.array([row["total_stddev"] for row in found])
    assert np.sqrt(np.mean(spread**2)) < np.sqrt(2) * planned.plans[0].deviation
    widths = np.array([row["total_high"] - row["total_low"] for row in found])
    assert (widths[40:] / spread[40:]) == pytest.approx(2 * 1.96, rel=0.05)


def test_a_registered_report_of_running_totals_tells_its_plan(opened: Opened) -> None:
    session = opened()
    session.run(f"CREATE REPORT spring OPTIONS (epsilon = 1) AS $$ {TOTALS.replace('signups', SPRING)} $$")
    told = {row["property"]: row["value"] for row in session.run("EXPLAIN REPORT spring").table.to_pylist()}
    assert told["error of numbers that are only added up"] == "2.22"
    assert float(told["predicted error"]) < 0.75 * np.sqrt(2 * 45.5)
    assert told["one by one"] == f"{np.sqrt(2 * 45.5):.3g}"
    assert told["price of this run"] == "1"
    assert session.run("EXECUTE REPORT spring").table.num_rows == 90
    assert session.reports.plan_run("spring").price.epsilon == 0


def test_totals_of_too_many_numbers_say_that_they_have_no_interval(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_columns, "MOST", 464)  # one less than 1 + 2 + .. + 30
    text = TOTALS.replace("PRIVACY", "PRIVACY OPTIONS (epsilon = 1)")
    text = text.replace("signups", "signups WHERE day < DATE '2025-01-31'")
    answer = opened().run(text)
    assert answer.release is not None
    (note,) = (each for each in answer.release.warnings if "no interval" in each)
    assert note.startswith("no interval of total in 30 of 30 rows: its values are made of more than")
