"""One database for many sessions: what they share, and what one of them cannot do to another."""

from __future__ import annotations

import gc
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpsql
from dpsql.database import Database
from dpsql.engines import Cancelled
from dpsql.errors import InterfaceError, OperationalError, PolicyError
from dpsql.kernel.counts import Counts
from dpsql.session import Session
from tests.narrow import of_type
from tests.support import shared_schemas
from tests.unit.test_one_path import in_a_child

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
max_failures = 2
ledger = "ledger.sqlite"
[analysts.alice]
epsilon = 20
[analysts.bob]
epsilon = 10
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.other]
source = "other.csv"
unit = "id"
columns = { id = "INTEGER" }
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "VARCHAR" }
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
ENDLESS = "SELECT COUNT(*) AS n0 FROM range(100000) AS a, range(1000000) AS b WHERE a.range + b.range < 0"
LONG = "SELECT COUNT(*) AS n0 FROM range(100000) AS a, range(3000) AS b WHERE a.range + b.range < 0"
UNITS = 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = f"SELECT i AS user_id, i % 3 AS page FROM range({UNITS}) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/visits.parquet'")
    (tmp_path / "other.csv").write_text("id\n1\n")
    (tmp_path / "pages.csv").write_text("page\na\n")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    with Database(folder / "dpsql.toml") as made:
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def states(database: Database) -> dict[str, list[str]]:
    """Return the states of each analyst's entries, oldest first."""
    found: dict[str, list[str]] = {}
    for entry in database.ledger.entries()[::-1]:
        found.setdefault(entry.analyst, []).append(entry.state)
    return found


def instead(database: Database, sql: str) -> Callable[[object], object]:
    """Return a count that runs another statement on a cursor of the private engine."""
    engine: Any = database.engines().engine
    return lambda _: engine._run(lambda cursor: cursor.sql(sql).to_arrow_table(), "stopped", counts_only=True)


def cancelled(session: Session, running: Future[Any]) -> None:
    """Cancel what a session runs, again and again: the first time may be before it has begun."""
    while not running.done():
        session.cancel()
        threading.Event().wait(0.01)


def test_statements_of_two_analysts_run_at_once_and_each_pays(
    database: Database, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = Session(database, "alice"), Session(database, "bob")
    both, engine = threading.Barrier(2), database.engines().engine
    true = engine.count

    def count(compiled: Any) -> Counts:
        both.wait(60)  # each waits until the other counts too
        return true(compiled)

    monkeypatch.setattr(engine, "count", count)
    alice.run("SET dp_epsilon = 3")
    answers = [pool.submit(one.run, COUNT) for one in (alice, bob)]
    for answer in answers:
        release = answer.result().release
        assert release is not None
        assert abs(release.rows.column("n")[0].as_py() - UNITS) < 40  # false alarms: e^-40
    assert [one.budget().spent.epsilon for one in (alice, bob)] == [Fraction(3), Fraction(1)]
    assert [one.budget().remaining.epsilon for one in (alice, bob)] == [Fraction(17), Fraction(9)]
    assert database.ledger.budget().spent.epsilon == 4
    assert [r.statement for r in database.ledger.releases("bob")] == [COUNT]


def test_cancelling_one_statement_leaves_the_others(
    database: Database, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = Session(database, "alice"), Session(database, "bob")
    engine = database.engines().engine
    prepared = {one: one.prepare(COUNT) for one in (alice, bob)}
    begun = threading.Barrier(3)
    endless, long, true = instead(database, ENDLESS), instead(database, LONG), engine.count

    def count(compiled: Any) -> object:
        begun.wait(60)
        if threading.current_thread() is alices:
            return endless(compiled)
        long(compiled)  # it goes on while hers is cancelled
        return true(compiled)

    monkeypatch.setattr(engine, "count", count)
    hers: Future[Any] = Future()

    def ask() -> None:
        try:
            hers.set_result(alice.execute(prepared[alice]))
        except Exception as error:  # noqa: BLE001  the test asks for it
            hers.set_exception(error)

    alices = threading.Thread(target=ask)
    alices.start()
    his = pool.submit(bob.execute, prepared[bob])
    begun.wait(60)
    cancelled(alice, hers)
    with pytest.raises(Cancelled):
        hers.result()
    alices.join()
    assert his.result().release is not None
    assert states(database) == {"alice": ["cancelled"], "bob": ["settled"]}


def test_cancelling_a_public_statement_leaves_the_others(
    database: Database, pool: ThreadPoolExecutor
) -> None:
    alice, bob = Session(database, "alice"), Session(database, "bob")
    hers = pool.submit(alice.run, ENDLESS)
    his = pool.submit(bob.run, LONG)
    cancelled(alice, hers)
    with pytest.raises(Cancelled, match="nothing was charged"):
        hers.result()
    assert his.result().table.column("n0").to_pylist() == [0]


def test_statements_of_one_session_wait_for_each_other(
    database: Database, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, inside, most = Session(database, "alice"), [], [0]
    true = Session._execute

    def execute(self: Session, prepared: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        try:
            return true(self, prepared)
        finally:
            inside.pop()

    monkeypatch.setattr(Session, "_execute", execute)
    list(pool.map(session.run, ["SELECT 1 AS x"] * 60))
    assert len(most) == 61
    assert max(most) == 1


def test_handles_are_opened_once(
    folder: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    for module in (duckdb, sqlite3):

        def connect(*args: Any, true: Any = module.connect, name: str = module.__name__, **named: Any) -> Any:
            opened.append(name)
            return true(*args, **named)

        monkeypatch.setattr(module, "connect", connect)
    shared_schemas.forget()
    with Database(folder / "dpsql.toml") as database:
        for name in ("alice", "bob"):
            Session(database, name).run(COUNT)
        before = sorted(opened)
        assert before.count("duckdb") == 2  # private and schema database
        sessions = [Session(database, name) for name in ("alice", "bob") * 3]
        for result in pool.map(lambda one: one.run(COUNT), sessions):
            assert result.release is not None
        for session in sessions:
            session.close()
        assert sorted(opened) == before


def test_a_statement_runs_on_the_database_that_prepared_it(database: Database, tmp_path: Path) -> None:
    """It would read the data of one policy, and be charged to another."""
    other = tmp_path / "other.toml"
    other.write_text(POLICY.replace("ledger.sqlite", "other.sqlite"))
    with Database(other) as elsewhere:
        prepared = Session(elsewhere, "alice").prepare(COUNT)
        with pytest.raises(InterfaceError, match="on which it was prepared"):
            Session(database, "alice").execute(prepared)
    assert states(database) == {}


def test_closing_a_session_leaves_the_database_open(database: Database) -> None:
    alice, bob = Session(database, "alice"), Session(database, "bob")
    alice.close()
    alice.close()
    assert bob.run(COUNT).release is not None
    uses: list[Callable[[], object]] = [
        lambda: alice.run("SELECT 1"),
        lambda: alice.prepare("SELECT 1"),
        alice.budget,
        alice.cancel,
        lambda: alice.release(1),
    ]
    for use in uses:
        with pytest.raises(InterfaceError, match="closed"):
            use()


def test_closing_the_database_waits_for_a_statement(
    database: Database, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, engine = Session(database, "alice"), database.engines().engine
    counting, go, true = threading.Event(), threading.Event(), engine.count

    def count(compiled: Any) -> Counts:
        counting.set()
        assert go.wait(60)
        return true(compiled)

    monkeypatch.setattr(engine, "count", count)
    answer = pool.submit(session.run, COUNT)
    assert counting.wait(60)
    closing = pool.submit(database.close)
    assert not closing.done()
    go.set()
    assert answer.result().release is not None
    closing.result()


def test_a_connection_closes_the_database_that_it_opened_alone(database: Database, folder: Path) -> None:
    with dpsql.connect(database, analyst="alice") as con:
        assert con.execute("SELECT page FROM pages").fetchall() == [("a",)]
    with dpsql.connect(database, analyst="bob") as con:
        assert con.execute("SELECT 1").fetchone() == (1,)
    with dpsql.connect(folder / "dpsql.toml", analyst="bob") as con:
        own = of_type(con._session, Session).database
    with pytest.raises(InterfaceError, match="closed"):
        own.engines()
    for given in (database, folder / "dpsql.toml"):
        with pytest.raises(PolicyError, match="lists its analysts"):
            dpsql.connect(given, analyst="carol")
    assert Session(database, "bob").run("SELECT 1 AS x").table.num_rows == 1


def test_a_forks_child_cannot_use_its_parents_database(database: Database) -> None:
    uses: list[Callable[[], object]] = [
        database.engines,
        database.close,
        lambda: Session(database, "alice"),
        lambda: dpsql.connect(database, analyst="alice"),
    ]
    for use in uses:
        assert in_a_child(use) == "InterfaceError"
    assert in_a_child(lambda: database.__exit__(None, None, None)) == "nothing"
    assert Session(database, "alice").run(COUNT).release is not None


def test_failures_of_one_analyst_are_no_failures_of_another(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = Session(database, "alice"), Session(database, "bob")
    other = Session(database, "alice")
    with monkeypatch.context() as patch:
        broken = instead(database, "SELECT error('a failure') FROM range(3)")
        patch.setattr(database.engines().engine, "count", broken)
        for session in (alice, other):
            with pytest.raises(OperationalError, match="could not finish"):
                session.run(COUNT)
    for session in (alice, other):
        with pytest.raises(OperationalError, match="failed"):
            session.run(COUNT)
    assert bob.run(COUNT).release is not None
    assert states(database) == {"alice": ["failed", "failed"], "bob": ["settled"]}


def test_a_failure_leaves_what_others_run(
    database: Database, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine opens its databases again after a failure; a running statement keeps its own."""
    alice, bob = Session(database, "alice"), Session(database, "bob")
    engine: Any = database.engines().engine
    prepared = [one.prepare(COUNT) for one in (alice, bob)]
    running, failed, true = threading.Event(), threading.Event(), engine.count

    def wait(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
        running.set()
        assert failed.wait(60)
        return cursor.sql("SELECT COUNT(*) AS n FROM main.visits").to_arrow_table()

    def count(compiled: Any) -> object:
        made = engine._run(wait, "stopped", counts_only=True)
        assert made.column("n").to_pylist() == [UNITS]
        return true(compiled)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "count", count)
        his = pool.submit(bob.execute, prepared[1])
        assert running.wait(60)
        patch.setattr(engine, "count", instead(database, "SELECT error('a failure') FROM range(3)"))
        with pytest.raises(OperationalError, match="could not finish"):
            alice.execute(prepared[0])
        failed.set()
        assert his.result().release is not None
    assert alice.run(COUNT).release is not None


def test_engines_are_opened_again_while_a_statement_runs_on_the_old_ones(
    database: Database, folder: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = Session(database, "alice"), Session(database, "bob")
    old = weakref.ref(database.engines())
    engine = database.engines().engine
    counting, go, true = threading.Event(), threading.Event(), engine.count

    def count(compiled: Any) -> Counts:
        counting.set()
        assert go.wait(60)
        return true(compiled)

    monkeypatch.setattr(engine, "count", count)
    hers = pool.submit(alice.run, COUNT)
    assert counting.wait(60)
    (folder / "pages.csv").write_text("page\na\nb\n")
    assert bob.run("SELECT page FROM pages").table.num_rows == 2
    assert bob.run(COUNT).release is not None, "on the new engines, while hers runs on the old ones"
    assert old() is not None
    assert old() is not database.engines()
    go.set()
    assert hers.result().release is not None
    del hers
    monkeypatch.undo()
    pool.submit(lambda: None).result()
    gc.collect()
    assert old() is None, "closed with its last statement"
    assert alice.budget().spent.epsilon == Fraction(1)
