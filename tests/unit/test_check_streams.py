"""Streams of checks in SQL: what is checked, what it costs, what is refused; beside exact numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import Error, OperationalError, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.kernel.mechanisms import CheckStream
from dpsql.session import Session
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 1
ledger = "ledger.sqlite"
max_failures = 3
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c", "d"] }
[tables.visits.bounds]
cost = { from = 0, to = 10 }
[tables.forecast]
source = "forecast.parquet"
public = true
"""
VISITS = """SELECT i AS user_id, ['a', 'b', 'c'][i % 3 + 1] AS page, (i % 5)::DOUBLE AS cost, i % 7 AS minutes
FROM range(6000) t(i) UNION ALL SELECT 1, 'z', 2.0, 0"""
FORECAST = "SELECT * FROM (VALUES ('c', 2000, 100), ('a', 2500, 100), ('d', 0, NULL)) t(page, n, tolerance)"
SHARP = "epsilon = 100"


session = world_fixture(POLICY, scope="function", visits=VISITS, forecast=FORECAST)


def ask(session: Session, text: str, parameters: Any = None) -> list[dict[str, Any]]:
    return session.run(text, parameters).table.to_pylist()


def spent(session: Session) -> Fraction:
    return session.budget().spent.epsilon or Fraction(0)


COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"


@pytest.fixture(scope="module")
def sharp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_world(tmp_path_factory.mktemp("sharp"), POLICY, visits=VISITS, forecast=FORECAST) as opened:
        ask(opened, "OPEN CHECKS sharp OPTIONS (epsilon = 900, misses = 20)")
        yield opened


class TestOneNumber:
    def test_a_count(self, session: Session) -> None:
        ask(session, f"OPEN CHECKS daily OPTIONS ({SHARP}, misses = 2)")
        (row,) = ask(session, f"CHECK daily {COUNT} EXPECT n = 6000 TOLERANCE 100")
        assert (row["n"], row["checked"], row["gap"]) == (6000, "as expected", None)
        assert row["low"] < 5900
        assert row["high"] > 6100
        (row,) = ask(session, f"CHECK daily {COUNT} EXPECT n = 5000 WITHIN 5%")
        assert row["checked"] == "off"
        assert abs(row["n"] - 6000) < 10
        assert row["low"] < row["n"] < row["high"]
        assert abs(row["gap"] - 750) < 10

    @pytest.mark.parametrize(
        ("number", "expected", "checked"),
        [
            ("AVG(cost) AS x", "x = 2 TOLERANCE 0.5", "as expected"),
            ("AVG(cost) AS x", "x = 3 TOLERANCE 0.5", "off"),
            ("AVG(cost) AS x", "x BETWEEN 2.5 AND 4", "off"),
            ("AVG(cost) AS x", "x AT LEAST 1", "as expected"),
            ("AVG(cost) AS x", "x AT MOST 1", "off"),
            ("AVG(cost > 3) AS x", "x = 0.2 TOLERANCE 0.05", "as expected"),
            ("AVG(cost > 3 AND NOT cost > 9) AS x", "x AT LEAST 0.3", "off"),
            ("AVG(cost, contribution_bounds_per_row => (1, 3)) AS x", "x = 2 TOLERANCE 0.2", "as expected"),
            ("AVG(cost, contribution_bounds_per_row => (1, 3)) AS x", "x AT LEAST 2.5", "off"),
            ("AVG(cost, contribution_bounds_per_row => (1, 3)) AS x", "x BETWEEN 0 AND 1.5", "off"),
            ("SUM(cost) AS x", "x = 12002 TOLERANCE 400", "as expected"),
            ("SUM(cost) AS x", "x = 11000 TOLERANCE 400", "off"),
            ("COUNT(*) AS x", "x AT MOST 6100", "as expected"),
            ("COUNT(*) FILTER (WHERE cost > 3) AS x", "x AT LEAST 1300", "off"),
            ("MEDIAN(cost) AS x", "x BETWEEN 1 AND 3", "as expected"),
            ("MEDIAN(cost) AS x", "x AT MOST 1 TOLERANCE 100 ROWS", "off"),
            ("MEDIAN(cost) AS x", "x AT LEAST 3", "off"),
            ("QUANTILE_CONT(cost, 0.9) AS x", "x BETWEEN 3.5 AND 5", "as expected"),
            ("QUANTILE_DISC(cost, 0.1) AS x", "x AT LEAST 1", "off"),
        ],
    )
    @pytest.mark.sampled(3, rest="longer")
    def test_other_numbers(self, sharp: Session, number: str, expected: str, checked: str) -> None:
        options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2)"
        (row,) = ask(sharp, f"CHECK sharp SELECT {options} {number} FROM visits EXPECT {expected}")
        assert row["checked"] == checked

    def test_values_of_parameters(self, session: Session) -> None:
        ask(session, f"OPEN CHECKS daily OPTIONS ({SHARP}, misses = 2, tolerance = 50)")
        text = f"CHECK daily {COUNT} WHERE page = ? EXPECT n = ?"
        assert ask(session, text, ["a", 2000])[0]["checked"] == "as expected"
        assert ask(session, text, ["a", 1000])[0]["checked"] == "off"


class TestGroups:
    GROUPS = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"

    def test_one_expectation_for_all(self, session: Session) -> None:
        ask(session, f"OPEN CHECKS daily OPTIONS ({SHARP}, misses = 9, at_once = 9)")
        result = session.run(f"CHECK daily {self.GROUPS} EXPECT n AT LEAST 1500")
        found = {row["page"]: row["checked"] for row in result.table.to_pylist()}
        assert found == {"a": "as expected", "b": "as expected", "c": "as expected", "d": "off"} | (
            {None: "off"} if None in found else {}
        )
        assert "rows whose keys are in no declared group are not checked" in result.notices

    def test_a_table_of_expectations(self, session: Session) -> None:
        """In its order; groups without one are not checked, and its tolerance may be the stream's."""
        ask(session, f"OPEN CHECKS daily OPTIONS ({SHARP}, misses = 9, tolerance = 30)")
        result = session.run(f"CHECK daily {self.GROUPS} EXPECT n FROM forecast")
        rows = result.table.to_pylist()
        assert [(row["page"], row["expected"], row["checked"]) for row in rows] == [
            ("c", 2000, "as expected"),
            ("a", 2500, "off"),
            ("d", 0, "as expected"),
        ]
        assert abs(rows[1]["n"] - 2000) < 10
        assert any("have no expectation and are not checked" in note for note in result.notices)

    def test_the_rest_of_a_statement_is_not_checked_after_so_many(self, session: Session) -> None:
        ask(session, f"OPEN CHECKS daily OPTIONS ({SHARP}, misses = 9, at_once = 1)")
        rows = ask(session, f"CHECK daily {self.GROUPS} EXPECT n = 9000 TOLERANCE 1")
        assert [row["checked"] for row in rows][:2] == ["off", "not checked"]
        assert ask(session, "SHOW STREAMS")[0]["left"] == 8


class TestCharges:
    def test_what_is_as_expected_is_free(self, session: Session) -> None:
        before = spent(session)
        ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 2, misses = 2)")
        assert spent(session) == before + 2
        for _ in range(20):
            ask(session, f"CHECK daily {COUNT} EXPECT n = 6000 TOLERANCE 3000")
        ask(session, "CLOSE STREAM daily")
        one = spent(session) - before
        assert 0 < one < 1
        (row,) = ask(session, "SHOW STREAMS")
        assert (row["state"], row["left"]) == ("closed", 2)

    def test_misses_are_used_up_and_refilled(self, session: Session) -> None:
        ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 2, misses = 1)")
        ask(session, f"CHECK daily {COUNT} EXPECT n = 0 TOLERANCE 1")
        with pytest.raises(OperationalError, match="REFILL STREAM daily charges 2 again"):
            ask(session, f"CHECK daily {COUNT} EXPECT n = 0 TOLERANCE 2")
        ask(session, "REFILL STREAM daily OPTIONS (misses = 3)")
        assert ask(session, "SHOW STREAMS")[0]["left"] == 3
        assert spent(session) == 4

    def test_a_stream_above_a_cap_is_not_opened(self, session: Session) -> None:
        with pytest.raises(Error):
            ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 1001, misses = 1)")
        assert spent(session) == 0
        assert ask(session, "SHOW STREAMS") == []

    def test_a_failed_check_uses_the_misses_that_it_could_use(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It counts as one that failed, and the stream goes on."""
        ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 2, misses = 5)")
        monkeypatch.setattr("dpsql.composition.asked_checks.Run", None)
        with pytest.raises(Error, match="could not finish"):
            ask(session, f"CHECK daily {COUNT} EXPECT n = 6000 TOLERANCE 3000")
        with pytest.raises(Error, match="could not finish"):
            ask(session, f"CHECK daily {TestGroups.GROUPS} EXPECT n AT LEAST 1500")
        monkeypatch.undo()
        assert session.ledger.count_failures("analyst") == 2
        assert ask(session, "SHOW STREAMS")[0]["left"] == 5 - 1 - 2
        ask(session, f"CHECK daily {COUNT} EXPECT n = 6000 TOLERANCE 3000")
        assert spent(session) == 2
        assert session.ledger.check() == []

    def test_explain_costs_nothing(self, session: Session) -> None:
        rows = ask(session, "EXPLAIN OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 8)")
        found = {row["property"]: row["value"] for row in rows}
        assert "45.5 bounds" in found["as expected means"]
        assert "197 bounds" in found["no false alarm in 200 checks"]
        assert spent(session) == 0


REFUSED = [
    (f"CHECK daily {COUNT} EXPECT n = (SELECT 5)", "expectations are public"),
    (f"CHECK daily {COUNT} EXPECT n FROM visits", "no public table"),
    (f"CHECK daily {COUNT} EXPECT n FROM forecasts", "no public table"),
    (f"CHECK daily {COUNT} EXPECT m = 5", "no item named m"),
    (f"CHECK daily {COUNT} EXPECT n = 5", "has no tolerance"),
    (f"CHECK daily {COUNT} EXPECT n BETWEEN 9 AND 5", "less than the first"),
    (f"CHECK daily {COUNT} EXPECT n = 5 TOLERANCE -1", "a tolerance is at least 0"),
    (f"CHECK daily {COUNT} EXPECT n = 5 TOLERANCE 1 MORE", "cannot read `MORE`"),
    ("CHECK daily SELECT AVG(cost) AS x FROM visits EXPECT x = 5", "needs a tolerance of its own"),
    (
        "CHECK daily SELECT AVG(cost, contribution_bounds_per_group => (0, 9)) AS x FROM visits "
        "EXPECT x = 5 TOLERANCE 1",
        "bounds on the values of rows",
    ),
    ("CHECK daily SELECT MAX(cost) AS x FROM visits EXPECT x = 5", "one COUNT, SUM, AVG"),
    ("CHECK daily SELECT 1 + COUNT(*) AS x FROM visits EXPECT x = 5", "one COUNT, SUM, AVG"),
    ("CHECK daily SELECT SUM(cost) AS x FROM visits EXPECT x = 5 TOLERANCE 1", "searches no bounds"),
    ("CHECK daily SELECT SUM(cost) AS x, COUNT(*) FROM visits EXPECT x = 5 TOLERANCE 1", ""),
    (
        "CHECK daily SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS x FROM visits "
        "EXPECT x = 5",
        "the stream pays",
    ),
    (
        f"CHECK daily {TestGroups.GROUPS} ORDER BY n DESC LIMIT 2 EXPECT n = 5 TOLERANCE 1",
        "without a selection",
    ),
    (f"CHECK daily {TestGroups.GROUPS} HAVING COUNT(*) > 5 EXPECT n = 5 TOLERANCE 1", ""),
    ("CHECK daily SELECT n FROM forecast EXPECT n = 5", ""),
    ("CHECK daily", "takes the name of a stream"),
    ("OPEN CHECKS x", "needs its epsilon"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 0)", "from 1 to 10,000"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, answers = 1)", "less than 1"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, mises = 2)", "there is no option mises"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2) more", "cannot read `more`"),
    ("OPEN daily", "OPEN CHECKS takes the name"),
    ("CLOSE daily", "CLOSE STREAM takes the name"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_world(tmp_path_factory.mktemp("checks"), POLICY, visits=VISITS, forecast=FORECAST) as opened:
        ask(opened, "OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 8)")
        yield opened


@pytest.mark.parametrize(("text", "message"), REFUSED)
@pytest.mark.sampled(3, rest="longer")
def test_refused_and_free(shared: Session, text: str, message: str) -> None:
    """Nothing is read, no miss is used, nothing is charged, and the stream goes on."""
    with pytest.raises((QueryRefused, QuerySyntaxError, ProgrammingError)) as caught:
        ask(shared, text)
    assert message in str(caught.value)
    (row,) = ask(shared, "SHOW STREAMS")
    assert [row["state"], row["left"], row["charged"], spent(shared)] == ["open", 8, "0", 1]


def test_one_side_alone(session: Session) -> None:
    ask(session, f"OPEN CHECKS low OPTIONS ({SHARP}, misses = 2, sides = AT_MOST)")
    assert ask(session, f"CHECK low {COUNT} EXPECT n AT MOST 6100")[0]["checked"] == "as expected"
    for text in (f"CHECK low {COUNT} EXPECT n AT LEAST 1", f"CHECK low {COUNT} EXPECT n = 6000 TOLERANCE 1"):
        with pytest.raises(QueryRefused, match="AT MOST alone"):
            ask(session, text)


def test_no_stream_of_another_name(session: Session) -> None:
    with pytest.raises(ProgrammingError, match="you have no stream daily: OPEN CHECKS daily"):
        ask(session, f"CHECK daily {COUNT} EXPECT n = 5 TOLERANCE 1")
    ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 2)")
    with pytest.raises(ProgrammingError, match="is open: CLOSE STREAM daily"):
        ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 1, misses = 2)")


@pytest.mark.parametrize("units", [(0, 4), pytest.param(tuple(range(6)), marks=pytest.mark.longer)])
def test_statistics_move_by_at_most_a_bound(
    units: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through SQL: each unit is deleted in turn; what the stream gets of each check moves by at most 1."""
    given: list[Fraction] = []
    check = CheckStream.check

    def record(stream: CheckStream, statistic: Fraction) -> Fraction | None:
        given.append(statistic)
        return check(stream, statistic)

    monkeypatch.setattr(CheckStream, "check", record)
    rows = """SELECT i % 6 AS user_id, ['a', 'b', 'c'][(i * i) % 3 + 1] AS page,
        CASE WHEN i % 11 <> 3 THEN ((i * 7) % 13)::DOUBLE END AS cost FROM range(40) t(i)"""
    kept = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2)"
    checks = [
        "SELECT COUNT(DISTINCT user_id) AS x FROM visits EXPECT x = 3 TOLERANCE 1",
        "SELECT page, COUNT(DISTINCT user_id) AS x FROM visits GROUP BY page EXPECT x BETWEEN 2 AND 3",
        f"SELECT {kept} COUNT(*) AS x FROM visits EXPECT x = 9 TOLERANCE 2",
        f"SELECT {kept} page, SUM(cost) AS x FROM visits GROUP BY page EXPECT x = 11 TOLERANCE 1/3",
        f"SELECT {kept} AVG(cost) AS x FROM visits EXPECT x = 4 WITHIN 10%",
        f"SELECT {kept} page, AVG(cost) AS x FROM visits GROUP BY page EXPECT x AT LEAST 5",
        f"SELECT {kept} MEDIAN(cost) AS x FROM visits EXPECT x BETWEEN 2 AND 5 TOLERANCE 1 ROWS",
        f"SELECT {kept} page, QUANTILE_CONT(cost, 0.9) AS x FROM visits GROUP BY page EXPECT x AT MOST 7",
    ]
    found = {}
    for without in (None, *units):
        own = rows if without is None else f"SELECT * FROM ({rows}) WHERE user_id <> {without}"
        with open_world(tmp_path / str(without), POLICY, visits=own, forecast=FORECAST) as session:
            ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 100, misses = 900, at_once = 900)")
            for text in checks:
                given.clear()
                ask(session, f"CHECK daily {text}")
                found[without, text] = list(given)
    most = dict.fromkeys(checks, Fraction(0))
    for (_, text), values in found.items():
        for a, b in zip(values, found[None, text], strict=True):
            most[text] = max(most[text], abs(a - b))
    assert 0 < max(most.values()) <= 1
    if len(units) < 6:
        return
    assert max(most.values()) == 1
    assert min(most.values()) > Fraction(1, 5), most  # the bounds are not much larger than needed


KEYS = """SELECT i AS user_id, i % 7 AS minutes, 'p' || (i % 3) AS site, 'a' AS page, 0.0::DOUBLE AS cost,
DATE '2024-01-01' + (i % 4)::INT AS day, CASE WHEN i % 3 > 0 THEN i % 3 END AS part,
(i % 5)::DECIMAL(6, 2) - 1.5 AS price,
TIMESTAMP '2024-01-01 10:00:00' + INTERVAL (i % 2) HOUR AS seen FROM range(4200) t(i)"""


@pytest.mark.parametrize(
    ("key", "values", "counts"),
    [
        ("minutes", "1, 6, 100", [600, 600, 0]),
        ("site", "'p0', 'it''s'", [1400, 0]),
        ("day", "DATE '2024-01-02', DATE '1999-12-31'", [1050, 0]),
        ("price", "-1.50, 2.50, 9.75", [840, 840, 0]),
        ("part", "2, NULL", [1400]),
        ("seen", "TIMESTAMP '2024-01-01 11:00:00'", [2100]),
        ("minutes % 2", "1", [1800]),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_keys_of_expectations_are_public_where_no_domain_is_declared(
    tmp_path: Path, key: str, values: str, counts: list[int]
) -> None:
    """Of each group that is expected the number is checked, without delta; of others nothing is said."""
    listed = ", ".join(f"({value}, 100000, 1)" for value in values.split(", "))
    table = f"(SELECT * FROM (VALUES {listed}) t(k, n, tolerance))"
    with open_world(tmp_path, POLICY, visits=KEYS, forecast=FORECAST) as opened:
        ask(opened, "OPEN CHECKS s OPTIONS (epsilon = 900, misses = 20, at_once = 9)")
        text = f"SELECT {key} AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k EXPECT n FROM {table}"
        rows = ask(opened, f"CHECK s {text}")
        assert [row["checked"] for row in rows] == ["off"] * len(counts)
        assert [row["n"] for row in rows] == pytest.approx(counts, abs=8)
        assert spent(opened) == 900
        with pytest.raises(QueryRefused, match="not declared") as error:
            ask(opened, "CHECK s " + text.partition(" EXPECT")[0] + " EXPECT n AT MOST 4000")
        assert "delta" not in str(error.value).partition("Hint:")[2]
