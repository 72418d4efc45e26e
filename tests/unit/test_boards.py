"""Boards and holdouts in SQL: what is answered, what is free, what is refused; beside exact scores."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql.check_streams import CheckStreams
from dpsql.composition.boards import Best, series_of
from dpsql.dbapi.named_streams import write_options
from dpsql.errors import Error, OperationalError, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
max_failures = 40
[tables.patients]
source = "patients.parquet"
unit = "id"
rows_per_unit = 1
[tables.patients.bounds]
cost = { from = 0, to = 10 }
[tables.visits]
source = "visits.parquet"
unit = "id"
[tables.many]
source = "many.parquet"
unit = "id"
"""
FEW = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 2)"
PATIENTS = "SELECT i AS id, i % 10 < 3 AS ill, i % 10 AS x, (i % 5)::DOUBLE AS cost FROM range(6000) t(i)"
MANY = (
    "SELECT i % 200 AS id, i // 200 AS x FROM range(400) t(i) "
    "UNION ALL SELECT i % 100, 9 FROM range(3000) t(i)"
)
VISITS = "SELECT i % 50 AS id, i % 3 AS x FROM range(400) t(i)"
OPEN = (
    "OPEN BOARD b OPTIONS (epsilon = 100, improvements = 3, step = 0.02, best = LOWEST, start = 0.5, "
    "rows = 5000)"
)


session = world_fixture(POLICY, scope="function", patients=PATIENTS, visits=VISITS, many=MANY)


def ask(session: Session, text: str, parameters: Any = None) -> list[dict[str, Any]]:
    return session.run(text, parameters).table.to_pylist()


def submit(session: Session, wrong: str, name: str = "b") -> dict[str, Any]:
    (row,) = ask(
        session, f"CHECK {name} SELECT AVG(CASE WHEN {wrong} THEN 1 ELSE 0 END) AS loss FROM patients"
    )
    return row


def stream(session: Session) -> dict[str, Any]:
    (row,) = ask(session, "SHOW STREAMS")
    return row


class TestBoard:
    def test_new_bests_are_answered_and_the_rest_is_free(self, session: Session) -> None:
        ask(session, OPEN)
        assert session.budget().spent.epsilon == 100
        first = submit(session, "x < 4")
        assert (first["checked"], first["expected"]) == ("new best", 0.48)
        assert first["low"] < first["loss"] < first["high"]
        assert abs(first["loss"] - 0.4) < 0.01
        for wrong in ("x < 5", "x < 4 AND id > 10", "x < 9"):  # worse, or better by less than the step
            row = submit(session, wrong)
            assert (row["checked"], row["loss"]) == ("no new best", None)
            assert row["expected"] == pytest.approx(first["loss"] - 0.02)
            assert row["expected"] - 0.01 < row["low"] < row["expected"]
        assert stream(session)["left"] == 2
        assert submit(session, "x < 1")["checked"] == "new best"
        assert submit(session, "x < 3")["checked"] == "no new best"
        ask(session, "CLOSE STREAM b")
        assert 60 < session.budget().spent.epsilon < 80
        assert session.ledger.check() == []

    def test_the_highest_may_be_the_best(self, session: Session) -> None:
        ask(session, OPEN.replace("LOWEST", "HIGHEST"))
        assert [submit(session, wrong)["checked"] for wrong in ("x < 4", "x < 7", "x < 6", "x < 8")] == [
            "no new best",
            "new best",
            "no new best",
            "new best",
        ]

    @pytest.mark.parametrize(("runs", "least"), [(20, 1), pytest.param(60, 5, marks=pytest.mark.longer)])
    def test_a_score_of_no_rows_is_no_best(self, session: Session, runs: int, least: int) -> None:
        """Noise may answer it. What is shown of its error tells that it is noise, and then the best stays."""
        ask(session, OPEN.replace("100, improvements = 3", "20, improvements = 60").replace("0.02", "0.0001"))
        answered = 0
        for most in range(-runs, 0):
            text = f"SELECT AVG(CASE WHEN ill THEN 1 ELSE 0 END) AS loss FROM patients WHERE id < {most}"
            found = session.run(f"CHECK b {text}")
            (row,) = found.table.to_pylist()
            if row["checked"] != "no new best" and row["low"] is None:
                answered += 1
                assert row["checked"] == "answered"
                assert "too few rows for a score: the best stays" in found.notices
        assert answered > least

    def test_the_best_goes_on_in_other_sessions_and_after_refill(self, session: Session) -> None:
        ask(session, OPEN)
        submit(session, "x < 4")
        other = Session(load(session.policy.path or ""), session.analyst)
        assert submit(other, "x < 5")["checked"] == "no new best"
        ask(other, "REFILL STREAM b OPTIONS (improvements = 2)")
        row = submit(other, "x < 5")
        assert (row["checked"], stream(other)["misses"]) == ("no new best", 2)
        assert row["expected"] == pytest.approx(0.38, abs=0.01)
        ask(other, "CLOSE STREAM b")
        ask(other, OPEN)  # another board of the same name begins anew
        assert submit(other, "x < 4")["expected"] == 0.48
        other.close()

    def test_the_same_submission_is_stored_until_there_is_a_new_best(self, session: Session) -> None:
        ask(session, OPEN)
        assert submit(session, "x < 5") == submit(session, "x < 5")
        (asked,) = [each.asked for each in session.ledger.streams.list()]
        assert asked == 1
        submit(session, "x < 4")
        assert submit(session, "x < 5")["expected"] < 0.4

    def test_improvements_are_used_up(self, session: Session) -> None:
        ask(session, OPEN)
        for wrong in ("x < 4", "x < 3", "x < 2"):
            assert submit(session, wrong)["checked"] == "new best"
        with pytest.raises(OperationalError, match="all 3 improvements of b are used up: REFILL STREAM b"):
            submit(session, "x < 1")

    @pytest.mark.parametrize(
        ("best", "start", "score", "exact"),
        [
            ("LOWEST", "0.5", "AVG(CASE WHEN x < 4 THEN 1 ELSE 0 END) AS s FROM patients", 0.4),
            ("HIGHEST", "0.5", "AVG(CASE WHEN x < 8 THEN 1 ELSE 0 END) AS s FROM patients", 0.8),
            ("LOWEST", "5", "AVG(CASE WHEN cost > 0 THEN cost END) AS s FROM patients WHERE x <> 3", 17 / 7),
            ("HIGHEST", "0.1", f"{FEW} AVG(CASE WHEN x < 1 THEN 1 ELSE 0 END) AS s FROM many", 106.25 / 400),
            ("LOWEST", "0.5", "AVG(CASE WHEN x < 0 THEN 1 ELSE 0 END) AS s FROM patients", 0.0),
        ],
    )
    @pytest.mark.sampled(2, rest="longer")
    def test_a_score_follows_from_its_gap(
        self, session: Session, best: str, start: str, score: str, exact: float
    ) -> None:
        """Values that are NULL are no rows; of a unit with more rows than count each counts less.

        Half of the units of `many` have two rows, one of them below 1, and half have 30 more: each a 16th of
        a row.
        """
        opened = OPEN.replace("LOWEST", best).replace("start = 0.5", f"start = {start}")
        ask(session, opened)
        (row,) = ask(session, f"CHECK b SELECT {score}")
        assert row["checked"] == "new best"
        assert row["low"] <= exact <= row["high"]
        assert row["low"] <= row["s"] <= row["high"] < row["low"] + (0.2 if start == "5" else 0.12)
        assert row["gap"] > 0

    def test_a_score_by_little_may_be_noise(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is the best, but how much worse it may be is not known."""
        ask(session, OPEN)
        monkeypatch.setattr(CheckStream, "check", lambda own, _: own.use() + Fraction(1, 1000))
        (row,) = ask(session, "CHECK b SELECT AVG(CASE WHEN x < 9 THEN 1 ELSE 0 END) AS s FROM patients")
        assert (row["checked"], row["high"]) == ("new best", None)
        assert row["low"] < row["s"] < 0.48

    def test_losses_in_bounds_and_several_rows_of_a_unit(self, session: Session) -> None:
        ask(session, OPEN.replace("start = 0.5", "start = 5"))
        (row,) = ask(session, "CHECK b SELECT AVG(cost) FROM patients")
        assert (row["checked"], round(row["score"], 1)) == ("new best", 2)
        options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 8)"
        (row,) = ask(
            session, f"CHECK b SELECT {options} AVG(CASE WHEN x = 9 THEN 1 ELSE 0 END) s FROM visits"
        )
        assert row["checked"] == "new best"

    def test_two_sessions_take_turns(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        """A submission that was compared with an older best is compared anew."""
        ask(session, OPEN)
        other = Session(load(session.policy.path or ""), session.analyst)
        text = "CHECK b SELECT AVG(CASE WHEN x < 4 THEN 1 ELSE 0 END) AS loss FROM patients"
        prepared = other.prepare(text)
        assert submit(session, "x < 2")["checked"] == "new best"
        (row,) = other.execute(prepared).table.to_pylist()
        assert (row["checked"], round(row["expected"], 1)) == ("no new best", 0.2)
        # The same while it begins: another check has ended behind the back of the one that is to begin.
        before = CheckStreams._wait
        moved: list[dict[str, Any]] = []

        def wait(own: CheckStreams, work: Any) -> Any:
            if own is other._checks and not moved:
                moved.append(submit(session, "x < 1"))
            return before(own, work)

        monkeypatch.setattr(CheckStreams, "_wait", wait)
        (row,) = other.run(text.replace("x < 4", "x < 3")).table.to_pylist()
        assert moved[0]["checked"] == "new best"
        assert (row["checked"], round(row["expected"], 2)) == ("no new best", 0.08)
        other.close()

    def test_one_of_several_threads_uses_the_last_improvement(self, session: Session) -> None:
        ask(session, OPEN.replace("improvements = 3", "improvements = 1"))
        found: list[object] = []

        def run(number: int) -> None:
            own = Session(load(session.policy.path or ""), session.analyst)
            try:
                found.append(submit(own, f"x < 2 AND id > {number}")["checked"])
            except Error as error:
                found.append(type(error))
            own.close()

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert found.count("new best") == 1
        assert {*found} == {"new best", OperationalError}


def test_a_file_is_prepared_before_its_board_is_open(session: Session) -> None:
    submission = "CHECK b SELECT AVG(CASE WHEN x < 4 THEN 1 ELSE 0 END) AS loss FROM patients"
    opened, checked = session.prepare(OPEN), session.prepare(submission)
    with pytest.raises(ProgrammingError, match="you have no board b: OPEN BOARD b"):
        session.execute(checked)
    session.execute(opened)
    (row,) = session.execute(checked).table.to_pylist()
    assert (row["checked"], row["expected"]) == ("new best", 0.48)


def test_a_best_is_of_one_round(session: Session) -> None:
    """Also where the edge of another round, or of a board that was not open yet, is the same number."""
    text = "CHECK b SELECT AVG(CASE WHEN x < 4 THEN 1 ELSE 0 END) AS loss FROM patients"
    early = session.prepare(text)
    opened = OPEN.replace("start = 0.5", "start = 0.02")
    ask(session, opened)
    for prepared in (early, session.prepare(text)):
        (row,) = session.execute(prepared).table.to_pylist()
        assert (row["checked"], row["expected"]) == ("no new best", 0)
        asked = session.ledger.streams.list()[0]
        assert session.ledger.streams.find_last(asked, series_of(asked)) is not None
        ask(session, "REFILL STREAM b")


class TestHoldout:
    OPEN = "OPEN HOLDOUT h OPTIONS (epsilon = 100, misses = 2, training = 'other units', rows = 6000)"
    SCORE = "CHECK h SELECT AVG(CASE WHEN ill = (x < 2) THEN 1 ELSE 0 END) AS acc FROM patients EXPECT acc = "

    def test_what_stands_is_free_and_what_is_overfit_is_told(self, session: Session) -> None:
        ask(session, self.OPEN)
        (row,) = ask(session, self.SCORE + "0.91 TOLERANCE 0.03")
        assert (row["checked"], row["acc"]) == ("as expected", 0.91)
        assert 0.87 < row["low"] < 0.88
        assert 0.94 < row["high"] < 0.95
        (row,) = ask(session, self.SCORE + "0.97 TOLERANCE 0.03")
        assert row["checked"] == "off"
        assert abs(row["acc"] - 0.9) < 0.01
        assert stream(session)["left"] == 1

    def test_what_is_answered_is_what_is_checked(self, session: Session) -> None:
        """Of a unit with more rows than count each counts less, in the answer as in the check."""
        ask(session, self.OPEN)
        for number, exact in ((1, 106.25 / 400), (2, 212.5 / 400)):
            score = f"AVG(CASE WHEN x < 1 THEN {number} ELSE 0 END) AS acc FROM many"
            (row,) = ask(session, f"CHECK h SELECT {FEW} {score} EXPECT acc = 0.9 TOLERANCE 0.1")
            assert row["checked"] == "off"
            assert row["low"] < exact < row["high"] < row["low"] + 0.2

    def test_without_rows_an_average_has_no_ends(self, session: Session) -> None:
        ask(session, self.OPEN.replace(", rows = 6000", ""))
        (row,) = ask(session, self.SCORE + "0.91 TOLERANCE 0.03")
        assert (row["low"], row["high"]) == (None, None)


def test_in_python(session: Session) -> None:
    path = str(session.policy.path)
    with dpsql.connect(path) as con:
        board = con.board("b", epsilon=99.5, improvements=3, step=0.02, best="LOWEST", start=0.5)
        found = board.submit("SELECT AVG(CASE WHEN x < ? THEN 1 ELSE 0 END) FROM patients", [4])
        assert (found.new_best, found.edge, found.off) == (True, 0.48, False)
        assert found.score == pytest.approx(0.4, abs=0.01)
        found = con.board("b").submit("SELECT AVG(CASE WHEN x < 5 THEN 1 ELSE 0 END) FROM patients")
        assert (found.new_best, found.score) == (False, None)
        assert con.board("b").best == pytest.approx(0.4, abs=0.01)
        assert con.board("b").left == 2
        board.close()
        with pytest.raises(ProgrammingError, match="you have no stream other"):
            con.board("other")
        holdout = con.holdout(
            "h", table="patients", where="x < 5", epsilon=100, misses=2, training="other units"
        )
        assert not holdout.score("x < 2", label="ill", train=0.8).off
        assert holdout.score("x < 2", label="ill", train=0.9).off


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.5, "0.5"), ("0.01", "0.01"), (3, "3"), (-1.25, "-1.25"), (Fraction(1, 3), "1/3"), (0.0, "0")],
)
def test_options_are_written_exactly(number: Any, text: str) -> None:
    assert write_options({"step": number}) == f"step = {text}"


REFUSED = [
    (
        "OPEN BOARD c OPTIONS (epsilon = 1, improvements = 2, best = LOWEST, start = 1)",
        "needs the option step",
    ),
    ("OPEN BOARD c OPTIONS (epsilon = 1, improvements = 2, step = 0, best = LOWEST, start = 1)", "above 0"),
    ("OPEN BOARD c OPTIONS (epsilon = 1, improvements = 2, step = 1, best = LEAST, start = 1)", "HIGHEST"),
    (
        "OPEN BOARD c OPTIONS (epsilon = 1, misses = 2, step = 1, best = LOWEST, start = 1)",
        "no option misses",
    ),
    ("OPEN HOLDOUT c OPTIONS (epsilon = 1, misses = 2)", "needs the option training"),
    ("OPEN HOLDOUT c OPTIONS (epsilon = 1, misses = 2, training = MINE)", "expected one of OTHER_UNITS"),
    ("CHECK b SELECT COUNT(*) AS n FROM patients", "a board compares averages"),
    ("CHECK b SELECT MEDIAN(x) AS n FROM patients", "a board compares averages"),
    ("CHECK b SELECT MAX(x) AS n FROM patients", "one COUNT, SUM, AVG"),
    ("CHECK b SELECT AVG(cost), COUNT(*) FROM patients", "is of one score"),
    ("CHECK b SELECT x, AVG(cost) AS s FROM patients GROUP BY x", "is of one score"),
    ("CHECK b SELECT AVG(cost) AS s FROM patients GROUP BY x", ""),
    ("CHECK b SELECT AVG(cost) AS s FROM patients EXPECT s = 2 TOLERANCE 1", "the board b expects its best"),
    ("CHECK b SELECT AVG(CASE WHEN x < 2 THEN 1 ELSE 0 END) AS s FROM visits", "searches no bounds"),
    ("CHECK h SELECT AVG(cost) AS s FROM patients", "h is no board"),
    ("CHECK h SELECT COUNT(*) AS s FROM patients EXPECT s = 2 TOLERANCE 1", "a holdout checks an average"),
    ("CHECK nobody SELECT AVG(cost) AS s FROM patients", "you have no board nobody: OPEN BOARD"),
    ("REFILL STREAM b OPTIONS (step = 1)", "there is no option step"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("boards")
    with open_world(folder, POLICY, patients=PATIENTS, visits=VISITS, many=MANY) as opened:
        ask(opened, OPEN)
        ask(opened, "OPEN HOLDOUT h OPTIONS (epsilon = 1, misses = 2, training = PRIVATE)")
        yield opened


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused_and_free(shared: Session, text: str, message: str) -> None:
    with pytest.raises((QueryRefused, QuerySyntaxError, ProgrammingError)) as caught:
        ask(shared, text)
    assert message in str(caught.value)
    assert [(row["left"], row["charged"]) for row in ask(shared, "SHOW STREAMS")] == [(3, "0"), (2, "0")]


def test_hints_are_accepted(shared: Session) -> None:
    for text, _ in REFUSED:
        try:
            ask(shared, text)
        except Error as error:
            hint = str(error).partition("Hint: ")[2]
            if hint.startswith("OPEN "):
                shared.prepare(hint)


def test_explain_says_what_it_costs_and_means(shared: Session) -> None:
    def explained(text: str) -> dict[str, str]:
        return {row["property"]: row["value"] for row in ask(shared, f"EXPLAIN {text}")}

    found = explained(OPEN)
    plan = CheckStreamPlan.plan(100, 3, answers=Fraction(1, 10))
    assert found["no new best means"].startswith("not better than the best by more than 0.02 + ")
    assert f"{plan.slack():.3g} bounds / rows" in found["no new best means"]
    assert found["improvements"] == "3"
    assert re.fullmatch(
        r"follows from the gap, within \d.* bounds / rows \(95%\); its rows are counted at epsilon 2\.\d+",
        found["score"],
    )
    score = explained("CHECK b SELECT AVG(cost) AS s FROM patients")
    # The edge is 0.48, and a cost up to 10: a unit moves the sum by up to 9.52.
    assert score["bound"] == "one unit can change it by 9.52"
    assert "at most" in score["no new best means"]
    holdout = explained(TestHoldout.OPEN)
    assert holdout["training"] == "you say that no unit of the training rows is in the holdout"


@pytest.mark.parametrize("units", [(0, 5), pytest.param(tuple(range(6)), marks=pytest.mark.longer)])
def test_a_score_moves_by_at_most_its_bound(
    units: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through SQL: each unit is deleted in turn; what the board gets of a submission moves by at most 1."""
    given: list[Fraction] = []
    check = CheckStream.check

    def record(own: CheckStream, statistic: Fraction) -> Fraction | None:
        given.append(statistic)
        return check(own, statistic)

    monkeypatch.setattr(CheckStream, "check", record)
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 8)"
    asked = [
        ("LOWEST", "1/2", "AVG(CASE WHEN x < 6 THEN 1 ELSE 0 END) AS s FROM patients"),
        ("LOWEST", "7", "AVG(cost) AS s FROM patients"),
        ("HIGHEST", "7", "AVG(cost) AS s FROM patients"),
        ("HIGHEST", "-2", f"{options} AVG(CASE WHEN x < 1 THEN 1 ELSE 0 END) AS s FROM visits"),
    ]
    patients = PATIENTS.replace("range(6000)", "range(12)")
    visits = "SELECT i % 5 AS id, i % 3 AS x FROM range(37) t(i)"
    found = {}
    for without in (None, *units):
        rows = {"patients": patients, "visits": visits, "many": MANY}
        own = {
            name: text if without is None else f"SELECT * FROM ({text}) WHERE id <> {without}"
            for name, text in rows.items()
        }
        with open_world(tmp_path / str(without), POLICY, **own) as opened:
            for number, (best, start, text) in enumerate(asked):
                ask(
                    opened,
                    f"OPEN BOARD b{number} OPTIONS (epsilon = 1, improvements = 9, step = 0.1, "
                    f"best = {best}, start = {start})",
                )
                given.clear()
                ask(opened, f"CHECK b{number} SELECT {text}")
                (found[without, number],) = given
    for number in range(len(asked)):
        moves = [abs(found[None, number] - found[without, number]) for without in units]
        assert max(moves) <= 1, (asked[number], moves)
        assert len(units) < 6 or max(moves) > Fraction(1, 2), (asked[number], moves)


@pytest.mark.parametrize("highest", [False, True])
def test_the_best_is_the_better_of_both(highest: bool) -> None:
    rng = np.random.default_rng(1)
    best, scores = Best(Fraction(1, 2), Fraction(1, 8), highest), [0.5, *rng.random(50).tolist()]
    for n, score in enumerate(scores):
        best = best.after(score)
        assert float(best.value) == pytest.approx((max if highest else min)(scores[: n + 1]), abs=1e-15)
        assert best.edge - best.value == (Fraction(1, 8) if highest else Fraction(-1, 8))


def test_options_without_which_nothing_is_checked(session: Session) -> None:
    for wrong, message in (
        ("step = 1/3", "at most 18 decimals"),
        ("start = 1e-90", "at most 18 decimals"),
        ("rows = 0", "must be at least 1"),
    ):
        name = wrong.split()[0]
        before = {"step": "step = 0.02", "start": "start = 0.5", "rows": "rows = 5000"}[name]
        with pytest.raises(QuerySyntaxError, match=message):
            ask(session, OPEN.replace(before, wrong))
    assert session.budget().spent.epsilon == 0


@pytest.mark.parametrize("name", ["checked", "Low", "gap"])
def test_a_score_has_a_name_of_its_own(session: Session, name: str) -> None:
    ask(session, OPEN)
    with pytest.raises(QueryRefused, match="another column"):
        ask(session, f"CHECK b SELECT AVG(cost) AS {name} FROM patients")
    assert stream(session)["left"] == 3


def test_explain_of_a_score_that_was_prepared_before_its_board_is_open(session: Session) -> None:
    """Its bound follows from the best, which is not known then; later the plan is made anew."""
    text = "EXPLAIN CHECK b SELECT AVG(cost) AS s FROM patients"
    early = session.prepare(text)

    def explained(prepared: Any) -> dict[str, str]:
        return {row["property"]: row["value"] for row in session.execute(prepared).table.to_pylist()}

    for before in (True, False):
        found = explained(early)
        assert found["bound"].startswith("not known before the board is open")
        assert found["stream"] == "you have no open stream b"
        ask(session, OPEN)
        for prepared in (early, session.prepare(text)):
            assert explained(prepared)["bound"] == "one unit can change it by 9.52"
        ask(session, "CLOSE STREAM b")
        if before:
            early = session.prepare(text)
