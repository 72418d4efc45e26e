"""FIRST STABLE SELECT .. ELSE ..: the first stable answer of a list, at one price; what is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.composition.planned_count import PlannedCount
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.kernel.mechanisms import FirstStable, StableStream
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1000
delta = 0.9
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c"], complete = true }
[tables.pages]
source = "pages.parquet"
public = true
[views.halves]
sql = "SELECT user_id, half FROM visits"
"""
VISITS = """SELECT i AS user_id, CASE WHEN i < 2500 THEN 'a' ELSE 'b' END AS page, 'h' || (i % 2) AS half,
'w' || (i % 4) AS word, i % 7 AS day FROM range(4000) t(i)"""
OPTIONS = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6)"


def top(key: str, table: str = "visits") -> str:
    return f"{key} AS k FROM {table} GROUP BY {key} ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1"


CLEAR, CLOSE, CLOSER = top("page"), top("half"), top("word")


def listed(first: str, *others: str, options: str = OPTIONS) -> str:
    return " ELSE ".join([f"FIRST STABLE SELECT {options} {first}", *(f"SELECT {each}" for each in others)])


session = world_fixture(POLICY, visits=VISITS, pages="SELECT 'a' AS page")


def said(session: Session, text: str) -> str:
    return " ".join(present(session.run(text).release).warnings)


@pytest.mark.parametrize(
    ("selects", "shown", "charged", "which"),
    [
        ((CLEAR, CLOSE), [{"k": "a"}], "1", "the answer of SELECT 1 of 2"),
        ((CLOSE, CLEAR), [{"k": "a"}], "1", "the answer of SELECT 2 of 2: no answer before it is stable"),
        ((CLOSE, CLOSER, CLEAR), [{"k": "a"}], "1", "the answer of SELECT 3 of 3"),
        ((CLOSE, CLOSER), [], "3/20", "more or less might change the answer"),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_the_first_stable_answer_is_shown(
    session: Session, selects: tuple[str, ...], shown: list[dict[str, str]], charged: str, which: str
) -> None:
    """All cost epsilon, or its first part if nothing is shown; delta is paid once."""
    before, text = session.budget().spent, listed(*selects)
    found = session.run(text)
    assert found.table.to_pylist() == shown
    assert which in said(session, text)  # as stored: it costs nothing again
    spent = session.budget().spent
    assert spent.epsilon - before.epsilon == Fraction(charged)
    assert spent.delta - before.delta == Fraction(1, 10**6)
    assert session.ledger.check() == []


def test_all_are_counted_whichever_is_shown(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, count = [], PlannedCount.count

    def record(planned: PlannedCount, *given: Any, **options: Any) -> Any:
        counted.append(planned)
        return count(planned, *given, **options)

    monkeypatch.setattr(PlannedCount, "count", record)
    session.run(listed(CLEAR, CLOSE, options=OPTIONS.replace("1e-6", "1e-7")))
    assert len(counted) == 2


def test_one_noise_of_the_threshold_serves_all(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests are those of a list of so many: the cutoff is that for all of them."""
    streams, test = list[StableStream](), StableStream.test

    def record(stream: StableStream, distance: Fraction) -> bool:
        streams.append(stream)
        return test(stream, distance)

    monkeypatch.setattr(StableStream, "test", record)
    session.run(listed(CLOSE, CLOSER, CLEAR, options=OPTIONS.replace("1e-6", "1e-8")))
    assert len(streams) == 3
    assert len({*map(id, streams)}) == 1
    assert streams[0].plan == FirstStable.plan(3, 1, Fraction(1, 10**8))


def test_what_is_read_and_costs(session: Session) -> None:
    text = listed(CLOSE, top("half", "halves"), options=OPTIONS.replace("1e-6", "1e-5"))
    (cell,) = session.run(f"EXPLAIN (FORMAT JSON) {text}").table.column(0).to_pylist()
    facts = json.loads(cell)
    assert (facts["mechanism"], facts["epsilon"], facts["delta"]) == ("stability tests", 1, 1e-5)
    assert len(facts["compiled_sql"]) == 2
    assert [each[:21] for each in facts["warnings"] if each.startswith("SELECT")] == [
        "SELECT 1: it is shown",
        "SELECT 2: it is shown",
    ]
    proved = session.run(f"EXPLAIN (FORMAT CERTIFICATE) {text}").table.column(0).to_pylist()
    assert {*proved} == {"SELECT 1", "SELECT 2"}


def test_parameters_and_case(session: Session) -> None:
    """ELSE of a CASE is no end of a SELECT; markers are counted over the whole statement."""
    case = "CASE WHEN page = ? THEN 'x' ELSE 'y' END AS k FROM visits WHERE day < ? GROUP BY 1"
    text = listed(CLOSE, f"{case} ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 1")
    assert session.run(text, ["a", 9]).table.to_pylist() == [{"k": "x"}]
    assert session.run(text, ["b", 9]).table.to_pylist() == [{"k": "y"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (listed(CLEAR), "takes several SELECTs"),
        (listed(CLEAR) + " ELSE", "takes SELECTs, with ELSE"),
        (listed(CLEAR, top("day")), "the same columns, of the same names and types"),
        (listed(CLEAR, CLEAR.replace("AS k", "AS page")), "the same columns"),
        (listed(CLEAR, f"{OPTIONS} {CLOSE}"), "has one price and one test, so epsilon"),
        (listed(CLEAR, "page AS k FROM pages"), "reads private tables"),
        (listed(CLEAR, "COUNT(DISTINCT user_id) AS k FROM visits"), "is a number, which one"),
        (
            listed(CLEAR, CLOSE, options=OPTIONS.replace("epsilon", "mechanism = NOISY_TOP_K, epsilon")),
            "of its own",
        ),
        (
            listed(CLEAR, CLOSE, options=OPTIONS.replace("epsilon = 1", "error = 9")),
            "no meaning for an exact",
        ),
        (listed(CLEAR, CLOSE, options="WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"), "needs a delta"),
        (listed(CLEAR, CLOSE, options=""), "gives no epsilon"),
    ],
)
def test_refused(session: Session, text: str, message: str) -> None:
    before = session.budget().spent
    with pytest.raises((QueryRefused, QuerySyntaxError), match=message):
        session.run(text)
    assert session.budget().spent == before


CLINIC = """
[budget]
epsilon = 1000
delta = 0.9
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "patient_id"
unit_kind = "patient"
unit_period = { column = "day", every = "week" }
rows_per_unit = 3
[tables.visits.domain]
c = { values = ["a", "b", "z"], complete = true }
[tables.patients]
source = "patients.parquet"
unit = "patient_id"
unit_kind = "patient"
rows_per_unit = 1
[tables.letters]
source = "letters.parquet"
unit = "patient_id"
unit_kind = "patient"
rows_per_unit = 2
trust_source = true
[tables.devices]
source = "devices.parquet"
unit = "device_id"
unit_kind = "device"
rows_per_unit = 1
"""


def test_one_kind_of_unit_and_the_facts_of_all(tmp_path: Path) -> None:
    """The guarantee of the one answer tells one unit: of a patient's weeks it would be false."""
    rows = "SELECT i % 4000 AS patient_id, CASE WHEN i % 4000 < 2500 THEN 'a' ELSE 'b' END AS c"
    largest = "c AS k FROM {} GROUP BY c ORDER BY COUNT(*) DESC LIMIT 1"
    patients, visits, letters, devices = map(largest.format, ("patients", "visits", "letters", "devices"))
    with open_world(
        tmp_path,
        CLINIC,
        visits=f"{rows}, DATE '2024-01-01' + CAST(i // 4000 AS INT) * 7 AS day FROM range(12000) t(i)",
        patients=f"{rows} FROM range(4000) t(i)",
        letters=f"{rows} FROM range(4000) t(i)",
        devices=f"{rows.replace('patient_id', 'device_id')} FROM range(4000) t(i)",
    ) as opened:
        for first, other in ((patients, visits), (visits, patients), (patients, devices)):
            with pytest.raises(QueryRefused, match="protect the same unit"):
                opened.run(listed(first, other))
        release = present(opened.run(listed(patients, letters)).release)
        assert any("the answer of SELECT 1 of 2" in text for text in release.warnings)
        options = OPTIONS.replace("epsilon", "mechanism = FIRST_STABLE, epsilon")
        alone = present(opened.run(f"SELECT {options} {letters}").release)
        assert alone.assumed
        assert {*release.assumed} >= {*alone.assumed}
