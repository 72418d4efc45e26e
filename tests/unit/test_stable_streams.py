"""Streams of exact answers in SQL and Python: what is shown, what is used, what lasts and what is refused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsql
from dpsql.errors import Error, OperationalError, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms import StableStream
from dpsql.ledger import Ledger
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import open_world, write_world

POLICY = """
[budget]
epsilon = 100
delta = 0.01
ledger = "ledger.sqlite"
max_failures = 3
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c", "d"] }
[tables.visits.bounds]
minutes = { from = 0, to = 20 }
"""
VISITS = """SELECT i AS user_id, CASE WHEN i < 3000 THEN 'a' WHEN i < 4000 THEN 'b' ELSE 'c' END AS page,
'w' || (CASE WHEN i < 3500 THEN 1 ELSE 2 END) AS word, CASE WHEN i < 3000 THEN 7 ELSE i % 20 END AS minutes
FROM range(4010) t(i)"""
OPEN = "OPEN STABLE s OPTIONS (epsilon = 1, delta = 1e-6, unstable = 2, questions = 20)"
UNITS = "COUNT(DISTINCT user_id)"
TOP = f"SELECT page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 1"
CLOSE = f"SELECT page FROM visits GROUP BY page ORDER BY {UNITS} LIMIT 1"
FOURTH = f"SELECT page FROM visits GROUP BY page ORDER BY {UNITS} DESC LIMIT 4"
DELTA = Fraction(1, 10**6)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_world(tmp_path, POLICY, visits=VISITS)
    old = time.time() - 60  # files that were written a moment ago may change unseen
    os.utime(tmp_path / "visits.parquet", (old, old))
    session = Session(load(tmp_path / "dpsql.toml"))
    yield session
    session.close()


@pytest.fixture(scope="module")
def unasked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session with an open stream that nothing is asked."""
    with open_world(tmp_path_factory.mktemp("unasked"), POLICY, visits=VISITS) as session:
        rows(session, OPEN)
        yield session


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    return session.run(text).table.to_pylist()


def facts(session: Session, name: str = "s") -> dict[str, Any]:
    return {row["property"]: row["value"] for row in rows(session, f"SHOW STREAM {name}")}


class TestAnswers:
    def test_stable_answers_are_free_and_others_are_none(self, session: Session) -> None:
        rows(session, OPEN)
        assert session.budget().spent.epsilon == 1
        assert session.budget().spent.delta == DELTA
        assert rows(session, f"ASK s {TOP}") == [{"page": "a"}]
        pages = f"SELECT page FROM visits GROUP BY page HAVING {UNITS} >= 500"
        assert rows(session, f"ASK s {pages}") == [{"page": "a"}, {"page": "b"}]
        word = TOP.replace("page", "word")
        assert rows(session, f"ASK s {word}") == [{"word": "w1"}]
        bound = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 1)"
        median = f"SELECT {bound} MEDIAN(minutes) AS m FROM visits"
        assert rows(session, f"ASK s {median}") == [{"m": 7.0}]
        assert facts(session)["left"] == "2 of 2"
        found = session.run(f"ASK s {CLOSE}")
        assert found.table.num_rows == 0
        assert "unstable" in found.notices[0]
        assert (facts(session)["left"], facts(session)["asked"]) == ("1 of 2", "5")
        assert session.budget().spent.epsilon == 1

    def test_an_empty_answer_says_that_it_is_one(self, session: Session) -> None:
        rows(session, OPEN)
        found = session.run(f"ASK s SELECT page FROM visits GROUP BY page HAVING {UNITS} >= 4005")
        assert found.table.num_rows == 0
        assert found.notices[0].startswith("stable: no group")

    def test_equal_questions_are_answered_once(self, session: Session) -> None:
        rows(session, OPEN)
        for _ in range(3):
            assert rows(session, f"ASK s {CLOSE}") == []
        assert facts(session)["asked"] == "1"
        fresh = CLOSE.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE)", 1)
        assert rows(session, f"ASK s {fresh}") == []
        assert facts(session)["left"] == "0 of 2"
        with pytest.raises(OperationalError, match="used up: REFILL STREAM s"):
            rows(session, f"ASK s {TOP}")

    def test_settled_by_what_was_used_and_all_of_delta(self, session: Session) -> None:
        rows(session, OPEN)
        rows(session, f"ASK s {TOP}")
        rows(session, f"ASK s {CLOSE}")
        terms = session.ledger.streams.list()[0].terms
        rows(session, "CLOSE STREAM s")
        spent = session.budget().spent
        assert spent.epsilon == terms.first + terms.each
        assert spent.delta == DELTA
        with pytest.raises(ProgrammingError, match="closed"):
            rows(session, f"ASK s {TOP}")

    def test_a_stream_that_was_not_asked_costs_nothing(self, session: Session) -> None:
        rows(session, OPEN)
        rows(session, "CLOSE STREAM s")
        assert session.budget().spent == Charge()

    def test_no_more_questions_than_delta_is_for(self, session: Session) -> None:
        rows(session, OPEN.replace("questions = 20", "questions = 2"))
        rows(session, f"ASK s {TOP}")
        rows(session, f"ASK s {TOP.replace('page', 'word')}")
        with pytest.raises(OperationalError, match="all 2 questions of s are asked"):
            rows(session, f"ASK s {TOP.replace('LIMIT 1', 'LIMIT 2')}")

    def test_refill_is_another_threshold_at_the_whole_price(self, session: Session) -> None:
        rows(session, OPEN)
        rows(session, f"ASK s {TOP}")
        first = session.ledger.streams.list()[0]
        rows(session, "REFILL STREAM s OPTIONS (unstable = 3)")
        second = session.ledger.streams.list()[0]
        assert (second.round, second.terms.misses, second.terms.delta) == (2, 3, DELTA)
        assert first.seal != second.seal
        assert session.budget().spent.epsilon == first.terms.first + 1
        assert session.budget().spent.delta == 2 * DELTA


class TestLasting:
    def test_the_threshold_is_one_noise_in_every_session(self, tmp_path: Path, monkeypatch: Any) -> None:
        levels = []
        init = StableStream.__init__

        def kept(self: StableStream, *args: Any, **options: Any) -> None:
            init(self, *args, **options)
            levels.append((self.threshold_steps, self.used, self.asked))

        monkeypatch.setattr(StableStream, "__init__", kept)
        with open_world(tmp_path, POLICY, visits=VISITS) as opened:
            rows(opened, OPEN)
            rows(opened, f"ASK s {CLOSE}")
        again = Session(load(tmp_path / "dpsql.toml"))
        rows(again, f"ASK s {TOP}")
        assert facts(again)["left"] == "1 of 2"
        again.close()
        assert len({level for level, *_ in levels}) == 1
        assert levels[-1][1:] == (1, 1)

    def test_another_key_answers_nothing(self, session: Session, tmp_path: Path) -> None:
        rows(session, OPEN)
        rows(session, f"ASK s {TOP}")
        key = tmp_path / "ledger.sqlite.key"
        key.write_text("0" * 64)
        with pytest.raises(OperationalError, match="nothing more is checked"):
            rows(session, f"ASK s {CLOSE}")
        key.unlink()
        with pytest.raises(OperationalError, match="nothing more is checked"):
            rows(session, f"ASK s {CLOSE}")
        rows(session, "CLOSE STREAM s")

    def test_a_question_that_fails_uses_what_it_could_use(self, session: Session, monkeypatch: Any) -> None:
        rows(session, OPEN)

        def fail(*_: Any) -> Any:
            raise RuntimeError("a secret")

        monkeypatch.setattr("dpsql.composition.asked_checks.ask_stable", fail)
        with pytest.raises(Error) as caught:
            rows(session, f"ASK s {TOP}")
        assert "secret" not in str(caught.value)
        assert (facts(session)["left"], facts(session)["asked"]) == ("1 of 2", "1")

    def test_the_ledger_is_verified(self, session: Session, tmp_path: Path) -> None:
        rows(session, OPEN)
        rows(session, f"ASK s {TOP}")
        rows(session, f"ASK s {CLOSE}")
        rows(session, "CLOSE STREAM s")
        ledger = Ledger.of(load(tmp_path / "dpsql.toml"))
        assert ledger.check() == []


class TestWords:
    def test_explain(self, session: Session) -> None:
        text = "OPEN STABLE s OPTIONS (epsilon = 1, delta = 1e-6, unstable = {}, questions = 1000)"
        for unstable, needed in ((5, 246), (10, 458)):
            found = rows(session, f"EXPLAIN {text.format(unstable)}")
            said = {row["property"]: row["value"] for row in found}["an answer is shown"]
            lead = float(said.split("about ")[1].split(" ")[0])
            assert needed < lead < 1.2 * needed  # needed: where it passes as often as not
        rows(session, OPEN)
        (cell,) = session.run(f"EXPLAIN (FORMAT JSON) ASK s {TOP}").table.column(0).to_pylist()
        assert json.loads(cell)["epsilon"] == "0: its stream has paid"
        assert session.budget().spent.epsilon == 1

    @pytest.mark.parametrize(
        ("text", "error", "why"),
        [
            (
                "OPEN STABLE t OPTIONS (epsilon = 1, unstable = 2)",
                QuerySyntaxError,
                "needs its epsilon and delta",
            ),
            ("OPEN STABLE t OPTIONS (epsilon = 1, delta = 2, unstable = 2)", QuerySyntaxError, "delta"),
            (
                "OPEN STABLE t OPTIONS (epsilon = 1, delta = 1e-6, misses = 2)",
                QuerySyntaxError,
                "no option misses",
            ),
            (f"ASK t {TOP}", ProgrammingError, "you have no stream t"),
            ("ASK s", QuerySyntaxError, "the name of a stream and a SELECT"),
            (f"ASK s SELECT {UNITS} AS n FROM visits", QueryRefused, "n is a number"),
            (
                f"CHECK s SELECT {UNITS} AS n FROM visits EXPECT n = 3 TOLERANCE 1",
                ProgrammingError,
                "ASK s SELECT",
            ),
            (
                "ASK s SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page FROM visits GROUP BY page "
                f"ORDER BY {UNITS} DESC LIMIT 1",
                QueryRefused,
                "has no epsilon",
            ),
            ("SHOW STREAM t", ProgrammingError, "you have no stream t"),
            (OPEN, ProgrammingError, "the stream s is open"),
        ],
    )
    def test_refused(self, unasked: Session, text: str, error: type[Error], why: str) -> None:
        before = unasked.budget().spent
        with pytest.raises(error, match=why):
            rows(unasked, text)
        assert unasked.budget().spent == before
        assert facts(unasked)["asked"] == "0"

    def test_an_open_that_does_not_fit_writes_nothing(self, session: Session) -> None:
        with pytest.raises(Error, match="delta"):
            rows(session, OPEN.replace("1e-6", "0.5"))
        assert rows(session, "SHOW STREAMS") == []
        assert session.budget().spent.epsilon == 0

    def test_a_question_is_asked_with_no_budget_left(self, session: Session) -> None:
        rows(session, OPEN.replace("epsilon = 1,", "epsilon = 100,"))
        assert session.budget().remaining.epsilon == 0
        assert rows(session, f"ASK s {TOP}") == [{"page": "a"}]


class TestPython:
    def test_a_stream_by_name(self, session: Session, tmp_path: Path) -> None:
        session.close()
        with dpsql.connect(tmp_path / "dpsql.toml") as con:
            stream = con.stable("mine", epsilon=1, delta="1e-6", unstable=2, questions=50)
            found = stream.ask(TOP)
            assert (found.stable, found.table.to_pylist()) == (True, [{"page": "a"}])
            close = con.stable("mine").ask(CLOSE)
            assert (close.stable, close.table.num_rows, close.off) == (False, 0, False)
            assert stream.left == 1
            stream.close()

    def test_rows_are_what_is_expected(self, session: Session, tmp_path: Path) -> None:
        session.close()
        table = pa.table({"page": ["a", "b", "it's"], "n": [3000, 400.5, 1], "tolerance": [100, 50, None]})
        with dpsql.connect(tmp_path / "dpsql.toml") as con:
            stream = con.checks("daily", epsilon=50, misses=3, tolerance=10)
            groups = f"SELECT page, {UNITS} AS n FROM visits GROUP BY page"
            for given in (table, table.to_pandas(), table):
                found = stream.check(groups, given).table.to_pylist()
                assert [(row["page"], row["checked"]) for row in found] == [
                    ("a", "as expected"),
                    ("b", "off"),
                ]
            assert stream.left >= 1  # the last time it is the stored answer


def test_expected_rows_are_public(session: Session) -> None:
    rows(session, "OPEN CHECKS daily OPTIONS (epsilon = 50, misses = 3, tolerance = 100)")
    check = f"CHECK daily SELECT page, {UNITS} AS n FROM visits GROUP BY page EXPECT n FROM"
    found = session.run(f"{check} (VALUES ('a', 3000), ('c', ?)) AS e(page, n)", [10]).table.to_pylist()
    assert [row["checked"] for row in found] == ["as expected", "as expected"]
    for private in ("(SELECT page, 1 AS n FROM visits)", "(SELECT 'a' AS page, (SELECT 1 FROM visits) AS n)"):
        with pytest.raises(QueryRefused, match="is no public table"):
            rows(session, f"{check} {private} AS e TOLERANCE 5")
    with pytest.raises(QuerySyntaxError, match="not closed"):
        rows(session, f"{check} (VALUES ('a', 1)")


def test_one_number_is_expected_by_a_relation_of_one_row(session: Session) -> None:
    rows(session, "OPEN CHECKS daily OPTIONS (epsilon = 50, misses = 3, tolerance = 100)")
    check = f"CHECK daily SELECT {UNITS} AS n FROM visits EXPECT n FROM"
    found = [rows(session, f"{check} (SELECT {n} AS n)") for n in (4010, 9000)]
    assert [[row["checked"] for row in each] for each in found] == [["as expected"], ["off"]]
    with pytest.raises(QueryRefused, match="one number is expected"):
        rows(session, f"{check} (VALUES (1), (2)) AS e(n)")


def test_expected_rows_that_are_no_numbers_use_nothing(session: Session) -> None:
    rows(session, "OPEN CHECKS daily OPTIONS (epsilon = 50, misses = 3, tolerance = 100)")
    check = f"CHECK daily SELECT page, {UNITS} AS n FROM visits GROUP BY page EXPECT n FROM"
    for wrong in ("TRUE AS n", "DATE '2024-01-01' AS n", "3 AS n, TRUE AS tolerance"):
        with pytest.raises(QueryRefused, match="are numbers"):
            rows(session, f"{check} (SELECT 'a' AS page, {wrong})")
    assert facts(session, "daily")["left"] == "3 of 3"
    found = session.run(f"{check} (VALUES ('a', 3000), ('nowhere', 1), ('b', NULL)) AS e(page, n)")
    assert [row["page"] for row in found.table.to_pylist()] == ["a"]
    assert "2 rows of what is expected have no number or no group" in found.notices


def test_a_stored_answer_has_the_names_that_are_asked_for(session: Session) -> None:
    rows(session, OPEN)
    assert rows(session, f"ASK s {TOP}") == [{"page": "a"}]
    assert rows(session, f"ASK s {TOP.replace('page', 'page AS best', 1)}") == [{"best": "a"}]


def test_what_is_expected_in_python_is_one_of_its_kinds(session: Session, tmp_path: Path) -> None:
    session.close()
    with dpsql.connect(tmp_path / "dpsql.toml") as con:
        stream = con.checks("daily", epsilon=50, misses=3, tolerance=10)
        text = f"SELECT {UNITS} AS n FROM visits"
        wrong: list[Any] = ["modles", (1, 2, 3), float("nan"), True, {"n": [1]}]
        for expected in (*wrong, pa.table({"n": [float("inf")]})):
            with pytest.raises(dpsql.InterfaceError):
                stream.check(text, expected)
        with pytest.raises(ProgrammingError):
            stream.check("SELECT", 3)
        assert stream.left == 3


@pytest.mark.parametrize("rest", ["DESC LIMIT 200000000", "LIMIT 1", "DESC LIMIT 20000001"])
def test_which_groups_of_a_large_domain_have_rows_is_private(tmp_path: Path, rest: str) -> None:
    policy = POLICY.replace("page = {", "seat = { from = 1, to = 20000000 }\npage = {")
    visits = f"SELECT *, (user_id // 1500 + 7)::INTEGER AS seat FROM ({VISITS})"
    with open_world(tmp_path, policy, visits=visits) as session:
        rows(session, OPEN)
        with pytest.raises(QueryRefused, match="only those with rows are counted"):
            rows(session, f"ASK s SELECT seat FROM visits GROUP BY seat ORDER BY {UNITS} {rest}")
        assert facts(session)["left"] == "2 of 2"


@pytest.mark.parametrize("c", [2, 1, 3])
@pytest.mark.sampled(3, rest="longer")
def test_distances_move_by_at_most_a_bound_and_are_0_where_one_unit_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, c: int
) -> None:
    """Through SQL: each unit is deleted in turn, and each answer is shown, with its distance."""
    given: list[Fraction] = []

    def show(_: StableStream, distance: Fraction) -> bool:
        given.append(distance)
        return True

    monkeypatch.setattr(StableStream, "test", show)
    kept = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = {c})"
    measure = UNITS if c == 1 else "COUNT(*)"
    top = f"SELECT {kept if c > 1 else ''} page FROM visits GROUP BY page"
    questions = [
        *(f"{top} ORDER BY {measure} DESC LIMIT {k}" for k in (1, 2, 3)),
        f"{top} ORDER BY {measure} LIMIT 1",
        *(f"{top} HAVING {measure} >= {t}" for t in (2, 4)),
        *(
            f"SELECT {kept} {each} AS m FROM visits"
            for each in ("MEDIAN(minutes)", "QUANTILE_DISC(minutes, 0.8)")
        ),
    ]
    visits = f"""SELECT i % 8 AS user_id, ['a', 'b', 'c', 'd'][1 + (i * i * 5 // {c}) % 4] AS page,
        (i * i * 5 // {c}) % 4 + 7 * (i % {c} // 2) AS minutes FROM range(36) t(i)"""
    found: dict[Any, tuple[Fraction, Any]] = {}
    for without in (None, *range(8)):
        own = visits if without is None else f"SELECT * FROM ({visits}) WHERE user_id <> {without}"
        with open_world(tmp_path / str(without), POLICY, visits=own) as opened:
            rows(opened, OPEN)
            for text in questions:
                answer = rows(opened, f"ASK s {text}")
                found[without, text] = given.pop(), answer
    moved, decided = set[Fraction](), 0
    for (_, text), (distance, answer) in found.items():
        other, before = found[None, text]
        moved.add(abs(distance - other))
        if answer != before:
            decided += 1
            assert distance == other == 0, text
    assert 0 < max(moved) <= 1
    assert decided > 1
