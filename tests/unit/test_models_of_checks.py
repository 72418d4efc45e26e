"""Models of streams: what is expected by public tables that stand for private ones, and what they learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql import connect
from dpsql.composition.model_numbers import count_models
from dpsql.composition.prepared import PreparedCheck, PreparedCommand
from dpsql.errors import PolicyError, ProgrammingError, QueryRefused, QuerySyntaxError
from dpsql.kernel.mechanisms import CheckStream
from dpsql.language import OpenChecks, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.support.exact import exact_of
from tests.support.world import open_world, write_world
from tests.unit.test_boards import ask

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c", "d"] }
[tables.visits.bounds]
cost = { from = 0, to = 10 }
[tables.visits_old]
source = "visits_old.parquet"
public = true
stands_for = "visits"
model = "old"
[tables.visits_flat]
source = "visits_flat.parquet"
public = true
stands_for = "visits"
model = "flat"
[tables.wards]
source = "wards.parquet"
unit = "user_id"
[tables.other]
source = "other.parquet"
public = true
"""
TABLES = {
    "visits": "SELECT i // 2 AS user_id, ['a', 'b', 'c'][i % 3 + 1] AS page, (i % 13)::DOUBLE AS cost "
    "FROM range(6000) t(i) UNION ALL SELECT 1, 'z', 2.0",
    "visits_old": "SELECT i // 2 AS user_id, ['a', 'b', 'c'][i % 3 + 1] AS page, (i % 13)::DOUBLE AS cost "
    "FROM range(4000) t(i) UNION ALL SELECT 1, 'z', 2.0 UNION ALL SELECT 1, NULL, 2.0",
    "visits_flat": "SELECT i AS user_id, ['a', 'b', 'c', 'd'][i % 4 + 1] AS page, 5.0 AS cost "
    "FROM range(1000) t(i)",
    "wards": "SELECT 1 AS user_id, 'x' AS ward",
    "other": "SELECT 1 AS user_id",
}
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
ROWS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 1)"
GROUPS = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
SCALES = "models = 'old', scales = '1, 1.25, 1.5'"
OPEN = f"OPEN CHECKS m OPTIONS (epsilon = 300, misses = 4, tolerance = 50, {SCALES})"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_world(tmp_path, POLICY, **TABLES).parent


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with closing(Session(load(folder / "dpsql.toml"))) as opened:
        yield opened


def prepare_check(session: Session, text: str) -> PreparedCheck:
    prepared = session.planner.prepare(text)
    assert isinstance(prepared, PreparedCommand)
    assert isinstance(prepared.command, PreparedCheck)
    return prepared.command


def test_the_median_is_expected_and_learns_from_answers(session: Session) -> None:
    """2,000 of the model times 1.25 is off; then that, and what is below it, has less weight."""
    ask(session, OPEN)
    (first,) = ask(session, f"ASK m {COUNT}")
    assert (first["checked"], first["expected"]) == ("off", 2500)
    assert abs(first["n"] - 3000) < 20
    (second,) = ask(session, f"ASK m {COUNT} WHERE cost < 100")
    assert (second["checked"], second["expected"], second["n"]) == ("as expected", 3000, 3000)
    (row,) = ask(session, "SHOW STREAMS")
    assert row["left"] == 3


def test_weights_outlive_sessions_rounds_and_other_checks(folder: Path) -> None:
    for text, expected in [
        (f"ASK m {COUNT}", 2500),
        (f"CHECK m {COUNT} EXPECT n = 3000", 3000),
        (f"ASK m {COUNT} WHERE cost < 100", 3000),
        ("REFILL STREAM m", None),
        (f"ASK m {COUNT} WHERE cost < 101", 3000),
        ("CLOSE STREAM m", None),
        (OPEN, None),
        (f"ASK m {COUNT} WHERE cost < 102", 3000),
        ("CLOSE STREAM m", None),
        (OPEN.replace("1.25", "1.2"), None),
        (f"ASK m {COUNT} WHERE cost < 103", 2400),
    ]:
        with closing(Session(load(folder / "dpsql.toml"))) as session:
            if not session.ledger.streams.list("analyst"):
                ask(session, OPEN)
            rows = ask(session, text)
            assert expected is None or rows[0]["expected"] == expected, text
            assert session.ledger.check() == []


def test_groups_are_expected_each_by_its_own_numbers(session: Session) -> None:
    ask(session, OPEN.replace("scales = '1, 1.25, 1.5'", "at_once = 9, scales = '1.5'"))
    result = session.run(f"CHECK m {GROUPS} EXPECT n = MODELS")
    found = {row["page"]: (row["expected"], row["checked"]) for row in result.table.to_pylist()}
    assert found["d"] == (0, "as expected")
    assert found[None] == (1.5, "as expected")
    assert all(found[key][0] > 1900 and found[key][1] == "as expected" for key in "abc")


@pytest.mark.parametrize(
    "select",
    [
        COUNT,
        GROUPS,
        f"{COUNT} WHERE cost > 4 AND page <> 'b'",
        f"SELECT {ROWS} COUNT(*) AS n FROM visits",
        f"SELECT {ROWS} page, SUM(cost) AS n FROM visits GROUP BY page",
    ],
)
@pytest.mark.sampled(2, rest="longer")
def test_models_are_counted_as_private_rows_would_be(tmp_path: Path, select: str) -> None:
    """With bounds, conditions and declared values: the numbers are those of a policy with these rows."""
    with open_world(tmp_path / "one", POLICY, **TABLES) as session:
        made = prepare_check(session, f"CHECK m {select} EXPECT n = MODELS")
        opened = parse("OPEN CHECKS m OPTIONS (epsilon = 1, misses = 1, models = 'old', scales = '1')")
        assert isinstance(opened, OpenChecks)
        found = count_models(made, opened)
    with open_world(tmp_path / "two", POLICY, **{**TABLES, "visits": TABLES["visits_old"]}) as session:
        other = prepare_check(session, f"CHECK m {select} EXPECT n = 1")
        exact = exact_of(other.counting.count())
    step = other.counting.plan.counts[0].step
    keys = exact.keys.to_pylist() if other.keys else [{}]
    rows = list(zip(map(tuple, map(dict.values, keys)), exact.n[0].tolist(), strict=True))
    outside = next(iter(exact.places.values())) if other.counting.plan.outside else [0] * len(rows)
    wanted = {key: n * step for (key, n), at in zip(rows, outside, strict=True) if not at}
    assert {key: found.values(key)[0] for key in wanted} == wanted
    assert sum(wanted.values()) > 0


def test_only_what_was_released_changes_the_weights(session: Session) -> None:
    """Statements that are as expected change nothing, however near they were to be off."""
    ask(session, OPEN)
    for number in range(4):
        ask(session, f"CHECK m {COUNT} WHERE cost < {100 + number} EXPECT n = MODELS TOLERANCE 560")
    (row,) = ask(session, f"ASK m {COUNT}")
    assert row["expected"] == 2500


def test_the_same_question_is_stored_until_something_is_learnt(session: Session) -> None:
    ask(session, OPEN)
    text = f"CHECK m {COUNT} WHERE cost < 50 EXPECT n = MODELS TOLERANCE 700"
    first = session.run(text)
    again = session.run(text)
    assert again.table == first.table
    assert any("stored answer" in note for note in again.notices)
    ask(session, f"ASK m {COUNT}")
    assert ask(session, text)[0]["expected"] == 3000


def test_a_check_that_waited_expects_by_the_newest_weights(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its key and its count another check was answered."""
    ask(session, OPEN)
    streams, begin = session.ledger.streams, type(session.ledger.streams).begin
    waited: list[int] = []

    def begin_later(self: Any, *given: Any) -> Any:
        if not waited:
            waited.append(1)
            ask_inside = session._checks.check
            ask_inside(prepare_check(session, f"ASK m {COUNT}"))
        return begin(self, *given)

    monkeypatch.setattr(type(streams), "begin", begin_later)
    (row,) = ask(session, f"ASK m {COUNT} WHERE cost < 99")
    assert row["expected"] == 3000
    assert row["checked"] == "as expected"


REFUSED = [
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = 'new')", "no model new"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = old)", "a list in quotes"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = 'old, old')", "different ones"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = 'old', scales = '1, x')", "different ones"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = 'old', scales = '1, -1')", "different ones"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = 'old', answers = 0)", "learn from answers"),
    ("ASK m SELECT COUNT(*) FROM visits", "has no name"),
    ("ASK m SELECT AVG(cost) AS n FROM visits", "MODELS is of counts and sums"),
    ("CHECK m SELECT MEDIAN(cost) AS n FROM visits EXPECT n = MODELS", "MODELS is of counts and sums"),
    ("ASK m", "takes the name of a stream and a SELECT"),
    ("ASK m SELECT COUNT(DISTINCT user_id) AS n FROM wards", "no table for wards"),
    (f"ASK plain {COUNT}", "the stream plain has no models"),
    (f"ASK nobody {COUNT}", "you have no stream nobody"),
    (f"CHECK plain {COUNT} EXPECT n = MODELS TOLERANCE 5", "has no models"),
    (f"CHECK low {COUNT} EXPECT n = MODELS TOLERANCE 5", "takes counts with EXPECT .. AT MOST alone"),
    ("OPEN CHECKS x OPTIONS (epsilon = 1, misses = 2, models = 'old', sides = AT_MOST)", "both sides count"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_world(tmp_path_factory.mktemp("models"), POLICY, **TABLES) as opened:
        ask(opened, OPEN)
        ask(opened, "OPEN CHECKS plain OPTIONS (epsilon = 1, misses = 8)")
        ask(opened, "OPEN CHECKS low OPTIONS (epsilon = 1, misses = 8, sides = AT_MOST)")
        yield opened


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused_and_free(shared: Session, text: str, message: str) -> None:
    with pytest.raises((QueryRefused, QuerySyntaxError, ProgrammingError)) as caught:
        ask(shared, text)
    assert message in str(caught.value)
    assert {row["left"] for row in ask(shared, "SHOW STREAMS")} == {4, 8}
    assert shared.budget().spent.epsilon == 302


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('stands_for = "visits"\nmodel = "old"', 'stands_for = "visit"', "there is no table 'visit'"),
        ('stands_for = "visits"\nmodel = "old"', 'stands_for = "other"', "nothing has to stand for it"),
        ('stands_for = "visits"\nmodel = "old"', 'model = "old"', "is for tables that stand for others"),
        ('model = "flat"', 'model = "old"', "two tables of the model old"),
        ('model = "flat"', 'model = "a, b"', "without a comma"),
        ('source = "wards.parquet"', 'source = "wards.parquet"\nstands_for = "visits"', "is public"),
    ],
)
def test_models_of_a_policy(folder: Path, before: str, after: str, message: str) -> None:
    path = folder / "dpsql.toml"
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(PolicyError, match=message):
        load(path)


def test_a_table_without_model_is_one_by_itself(folder: Path) -> None:
    path = folder / "dpsql.toml"
    path.write_text(path.read_text().replace('model = "old"\n', ""))
    assert {name: dict(each) for name, each in load(path).models.items()} == {
        "visits_old": {"visits": "visits_old"},
        "flat": {"visits": "visits_flat"},
    }


def test_other_columns_cannot_stand_for_a_table(tmp_path: Path) -> None:
    other = TABLES["visits_old"].replace("(i % 13)::DOUBLE AS cost", "i % 13 AS cost").replace("2.0", "2")
    with open_world(tmp_path, POLICY, **{**TABLES, "visits_old": other}) as session:
        ask(session, OPEN)
        with pytest.raises(QueryRefused, match="its column cost is no DOUBLE"):
            ask(session, f"ASK m {COUNT}")


def test_a_policy_with_models_asks_the_same(folder: Path) -> None:
    """No stored answer depends on them: the fingerprint of the private tables is the same."""
    path = folder / "dpsql.toml"
    before = load(path)
    text = "".join(x for x in path.read_text().splitlines(True) if not x.startswith(("stands_for", "model")))
    path.write_text(text)
    after = load(path)
    private = [[table for table in each.tables.values() if not table.public] for each in (before, after)]
    assert before.fingerprint(private[0]) == after.fingerprint(private[1])


def test_expectations_are_public(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a check gets is its statistic over the guess, a number that follows from models and answers."""
    given: list[Fraction] = []
    check = CheckStream.check

    def record(stream: CheckStream, statistic: Fraction) -> Fraction | None:
        given.append(statistic)
        return check(stream, statistic)

    monkeypatch.setattr(CheckStream, "check", record)
    ask(session, OPEN)
    ask(session, f"ASK m {COUNT}")
    assert given == [3000 - 2500 - 50]


def test_explain_says_what_is_expected_and_how_many_misses_it_takes(session: Session) -> None:
    found = {row["property"]: row["value"] for row in ask(session, f"EXPLAIN {OPEN}")}
    assert found["models"] == "old, each times 1, 1.25, 1.5: 3 hypotheses"
    assert "at most 2 misses if one is never far off, 8 if it is twice" in found["EXPECT .. = MODELS"]
    ask(session, OPEN)
    for text, wanted in [
        (f"ASK m {COUNT}", "2500: "),
        (f"CHECK m {GROUPS} EXPECT n = MODELS", "of each group: "),
    ]:
        found = {row["property"]: row["value"] for row in ask(session, f"EXPLAIN {text}")}
        assert found["expected"] == f"{wanted}the weighted median of 3 hypotheses"
    assert ask(session, "SHOW STREAMS")[0]["charged"] == "0"


def test_models_in_python(folder: Path) -> None:
    with connect(folder / "dpsql.toml") as con:
        m = con.checks("m", epsilon=300, misses=4, tolerance=50, models="old", scales="1, 1.25, 1.5")
        assert m.ask(f"{COUNT} WHERE cost < ?", [100]).off
        found = m.check(f"{COUNT} WHERE cost < 101", expect="models", tolerance=60)
        assert (found.off, found.table.to_pylist()[0]["expected"]) == (False, 3000)
        with con.checked(tolerance=50, epsilon=300, misses=4, models="old", scales="1.5") as other:
            assert not other.ask(COUNT).off


def test_a_name_that_was_of_another_kind_has_learnt_nothing(folder: Path) -> None:
    path = folder / "dpsql.toml"
    path.write_text(path.read_text().replace("epsilon = 1000\n", "epsilon = 1000\ndelta = 1e-3\n"))
    with closing(Session(load(path))) as session:
        ask(session, "OPEN STABLE m OPTIONS (epsilon = 10, delta = 1e-6, unstable = 2, questions = 9)")
        ask(
            session,
            "ASK m SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1",
        )
        ask(session, "CLOSE STREAM m")
        ask(session, OPEN)
        assert ask(session, f"ASK m {COUNT}")[0]["expected"] == 2500
        ask(session, f"CHECK m {COUNT} EXPECT n = LAST")
