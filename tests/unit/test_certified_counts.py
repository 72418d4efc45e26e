"""Nothing is counted or charged of a query that the kernel does not certify, through every door."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql import connect
from dpsql.analysis import CompiledQuery, check_sealed
from dpsql.composition.planned_count import PlannedCount
from dpsql.dbapi import Connection
from dpsql.dbapi.named_streams import open_unnamed
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import Error, InternalError
from dpsql.kernel.check import NotCertified
from dpsql.owner.ladder_releases import parse_measure, release_ladders
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = ["a", "b", "c"]
"""
ROWS = "SELECT i % 40 AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page, i % 9 AS ms FROM range(200) t(i)"
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
SUM = "SELECT SUM(ms) AS n FROM visits"
READS = f"{COUNT} WHERE ms > (SELECT AVG(ms, contribution_bounds_per_row => (0, 9)) FROM visits)"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    duckdb.sql(f"COPY ({ROWS}) TO '{tmp_path / 'visits'}.parquet'")
    with sessions_in(tmp_path, POLICY) as opened:
        yield opened()


def opened(session: Session) -> Connection:
    return connect(session.database, analyst="alice")


def run(text: str) -> Callable[[Session], object]:
    return lambda session: session.run(text)


def answer_by_a_stream(session: Session) -> None:
    with open_unnamed(session, 1, 1, {"tolerance": 5}) as stream:
        stream.count(COUNT, 3)


def keep_ladders(session: Session) -> None:
    measures = [parse_measure(session.database, name) for name in ("visits", "visits.ms", "visits by page")]
    release_ladders(session.database, measures, Fraction(1), "dpsql bounds")


def answer_by_the_connector(session: Session) -> None:
    with opened(session) as connection:
        connection.execute(SUM).fetchall()


DOORS: dict[str, Callable[[Session], object]] = {
    "one count": run(COUNT),
    "groups": run("SELECT page, COUNT(*) AS n FROM visits GROUP BY page"),
    "a search of a bound": run(SUM),
    "quantiles": run("SELECT MEDIAN(ms, contribution_bounds_per_row => (0, 9)) AS n FROM visits"),
    "several releases": run(f"SELECT a.n, b.n AS m FROM ({COUNT}) AS a CROSS JOIN ({SUM}) AS b"),
    "a value of another release": run(READS),
    "explain": run(f"EXPLAIN {SUM}"),
    "a stream of checked counts": answer_by_a_stream,
    "kept ladders": keep_ladders,
    "the connector": answer_by_the_connector,
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record what an engine is asked to count."""
    found: list[object] = []
    own = DuckDBEngine.count

    def count(engine: DuckDBEngine, compiled: CompiledQuery) -> object:
        found.append(compiled)
        return own(engine, compiled)

    monkeypatch.setattr(DuckDBEngine, "count", count)
    return found


def refuse(*_: object) -> object:
    raise NotCertified("a rule that is missing")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.sampled(4, rest="longer")
def test_what_is_not_certified_is_neither_counted_nor_charged(
    session: Session, counted: list[object], monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    before = session.budget()
    monkeypatch.setattr("dpsql.analysis.compiled_query.certify", refuse)
    with pytest.raises(Error, match="this is a bug of dpsql, nothing was run or charged") as caught:
        DOORS[door](session)
    assert "SELECT" not in str(caught.value)
    assert counted == []
    assert session.budget() == before


@pytest.mark.parametrize("door", [door for door in DOORS if door != "explain"])
@pytest.mark.sampled(4, rest="longer")
def test_what_is_counted_is_certified(session: Session, counted: list[object], door: str) -> None:
    DOORS[door](session)
    assert counted
    for compiled in counted:
        check_sealed(compiled)


def test_a_refusal_after_the_charge_keeps_it(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlannedCount, "check_unknown", lambda self: None)
    monkeypatch.setattr(PlannedCount, "with_bounds", lambda self, found: refuse())
    before = session.budget().remaining
    with pytest.raises(InternalError, match=r"this is a bug of dpsql: .* not certified; its charge is kept"):
        session.run(SUM)
    assert session.budget().remaining.epsilon == before.epsilon - 1


@pytest.mark.parametrize("text", [SUM, READS])
def test_what_follows_from_a_release_is_certified_before_the_charge(
    session: Session, counted: list[object], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    prepared, before = session.prepare(text), session.budget()
    monkeypatch.setattr(PlannedCount, "with_bounds", lambda self, found: refuse())
    monkeypatch.setattr(PlannedCount, "with_values", lambda self, values: refuse())
    with pytest.raises(NotCertified):
        session.execute(prepared)
    assert counted == []
    assert session.budget() == before


def test_a_query_with_the_certificate_of_another_is_not_counted(session: Session) -> None:
    one, other = (private(session.prepare(text)).plan.compiled for text in (COUNT, f"{COUNT} WHERE ms > 3"))
    object.__setattr__(one, "certificate", other.certificate)
    engines = session.database.engines()
    for count in (engine_of(session).count, lambda compiled: engines.count(compiled, [])):
        with pytest.raises(InternalError, match="an engine counts certified queries alone"):
            count(one)


def test_the_product_has_no_way_past_the_checker() -> None:
    for path in Path(dpsql.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        assert not re.search(r"^\s*(from|import) tests\b", text, re.MULTILINE), path
        assert "_SEAL" not in text or path.parent.name == "check", path
