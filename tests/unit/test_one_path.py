"""One path for all private work: nothing is answered under a charge that has ended or is in use."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpsql import connect
from dpsql.dbapi.named_streams import Checked, open_unnamed
from dpsql.engines import Cancelled
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import BudgetExceeded, Error, InterfaceError, OperationalError, ProgrammingError
from dpsql.kernel.ledger.schema import VERSION
from dpsql.kernel.loss import Charge, exact
from dpsql.language import copy_parameters
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present, private
from tests.unit.test_session import spent

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
page.values = ["a", "b", "c"]
page.complete = true
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
WHERE = f"{COUNT} WHERE page = ?"
UNITS = 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = f"SELECT i AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page FROM range({UNITS}) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/visits.parquet'")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    made = Session(load(folder / "dpsql.toml"))
    yield made
    with contextlib.suppress(Error):
        made.close()


def states(session: Session) -> list[str]:
    return [entry.state for entry in session.ledger.entries()][::-1]


def in_a_child(work: Callable[[], object]) -> str:
    """Run work in a fork's child; return the name of what it raised."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = "nothing"
        try:
            work()
        except BaseException as error:  # noqa: BLE001  the child tells which
            told = type(error).__name__
        finally:
            os.write(write, told.encode())
            os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(read) as pipe:
        return pipe.read()


# --- what is handed over ---------------------------------------------------------------------------------


class Text(str):
    """A text whose methods lie."""

    __slots__ = ()

    def __str__(self) -> str:
        return "lie"

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Whole(int):
    """A number whose methods lie."""

    def __int__(self) -> int:
        return 99

    def __index__(self) -> int:
        return 99

    def __mul__(self, other: int) -> Whole:
        return Whole(int.__mul__(self, other))

    def __divmod__(self, other: int) -> tuple[int, int]:
        return Whole(int.__floordiv__(self, other)), 0

    def __rsub__(self, other: object) -> int:
        raise AssertionError("it met the count")

    @property
    def numerator(self) -> int:
        return self


def test_what_is_handed_over_becomes_plain() -> None:
    class Names(dict):  # type: ignore[type-arg]
        pass

    values = copy_parameters([Text("a"), Whole(5), np.float64(0.5), True, None])
    assert values == ("a", 5, 0.5, True, None)
    assert [type(value) for value in values] == [str, int, float, bool, type(None)]
    named = copy_parameters(Names({Text("x"): Whole(1)}))
    assert type(named) is dict
    assert [(type(k), type(v)) for k, v in named.items()] == [(str, int)]
    for wrong in ("text", b"bytes", 5, {1, 2}, iter([1])):
        with pytest.raises(ProgrammingError):
            copy_parameters(wrong)
    assert type(exact(Whole(5)).numerator) is int
    assert exact(Whole(5)) == 5


class Closing(list):  # type: ignore[type-arg]
    """Parameters that do something whenever they are read."""

    act: Callable[[], object] = staticmethod(lambda: None)

    def __getitem__(self, place: Any) -> Any:
        self.act()
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[object]:
        self.act()
        return super().__iter__()

    def __len__(self) -> int:
        self.act()
        return super().__len__()


def test_parameters_that_close_their_stream_get_nothing_for_free(session: Session) -> None:
    answered = 0
    for _ in range(4):
        stream = open_unnamed(session, 1, 1, {"tolerance": 5})
        given = Closing(["a"])
        given.act = stream.close
        with contextlib.suppress(ProgrammingError):
            stream.count(WHERE, 1000, given)
            answered += 1
        stream.close()
    assert answered == 0
    assert spent(session) == 0
    assert states(session) == ["settled"] * 4


def test_parameters_that_ask_again_are_read_before_anything_is_decided(session: Session) -> None:
    with open_unnamed(session, 1, 1, {"tolerance": 5}) as stream:
        given = Closing(["a"])
        inner: list[Checked] = []

        def again() -> None:
            if not inner:
                inner.append(stream.count(WHERE, 1000, ["b"]))

        given.act = again
        with pytest.raises(OperationalError, match="1 misses of unnamed_1 are used up"):
            stream.count(WHERE, 1000, given)
    assert len(inner) == 1
    assert spent(session) == 1


def test_a_guess_never_meets_the_count(session: Session) -> None:
    with open_unnamed(session, 1, Whole(1), {"tolerance": 5}) as stream:
        assert stream.count(COUNT, Whole(1000)).hit is False


# --- threads, signals, forks -----------------------------------------------------------------------------


@contextlib.contextmanager
def waiting(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, ...]]:
    """Let the engine wait in the middle of a count."""
    inside, go = threading.Event(), threading.Event()
    true = engine_of(session).count

    def count(compiled: object) -> object:
        inside.set()
        assert go.wait(60)
        return true(compiled)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(engine_of(session), "count", count)
        yield inside, go


def test_closing_waits_for_the_count_in_flight(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_unnamed(session, 1, 2, {"tolerance": 5})
    said: list[Checked] = []
    with waiting(session, monkeypatch) as (inside, go):
        asker = threading.Thread(target=lambda: said.append(stream.count(COUNT, 1000)))
        asker.start()
        assert inside.wait(60)
        closer = threading.Thread(target=stream.close)
        closer.start()
        closer.join(0.2)
        assert states(session) == ["reserved"], "nothing is settled while a count runs"
        go.set()
        asker.join()
        closer.join()
    assert said[0].hit is False
    assert states(session) == ["settled"]
    assert 0 < float(spent(session)) == pytest.approx(float(stream.facts["charged"]), abs=1e-8)
    with pytest.raises(ProgrammingError, match="closed"):
        stream.count(COUNT, 1000)


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.1])
def test_closing_from_a_thread_never_settles_below_what_was_answered(session: Session, delay: float) -> None:
    answers: list[Checked] = []
    for _ in range(3):
        stream = open_unnamed(session, 1, 1, {"tolerance": 5})
        timer = threading.Timer(delay, stream.close)
        timer.start()
        with contextlib.suppress(ProgrammingError):
            answers.append(stream.count(COUNT, 1000))
        timer.join()
    assert spent(session) == len(answers)
    assert session.ledger.check() == []


@pytest.mark.parametrize("what", ["close", "count", "execute", "session"])
def test_a_signal_handler_cannot_use_what_is_in_use(
    session: Session, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    stream = open_unnamed(session, 1, 2, {"tolerance": 5})
    refused: list[type[BaseException]] = []
    acts: dict[str, Callable[[], object]] = {
        "close": stream.close,
        "count": lambda: stream.count(COUNT, 1000),
        "execute": lambda: session.run(COUNT),
        "session": session.close,
    }

    def handler(*_: object) -> None:
        try:
            acts[what]()
        except Error as error:
            refused.append(type(error))

    true = engine_of(session).count

    def count(compiled: object) -> object:
        signal.raise_signal(signal.SIGUSR1)
        return true(compiled)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_of(session), "count", count)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert stream.count(COUNT, 1000).hit is False
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert {*refused} == {InterfaceError}
    stream.close()
    assert 0 < float(spent(session)) == pytest.approx(float(stream.facts["charged"]), abs=1e-8)


def test_a_forks_child_gets_nothing_from_its_parents_objects(folder: Path) -> None:
    con = connect(folder / "dpsql.toml")
    session = of_type(con._session, Session)
    cursor = con.execute("SELECT 1")
    stream = con.checked(tolerance=5, epsilon=1, misses=1)
    prepared = private(session.prepare(COUNT))
    acts: list[Callable[[], object]] = [
        lambda: stream.count(COUNT, 1000),
        stream.close,
        lambda: con.execute("SELECT 1"),
        lambda: con.execute(COUNT),
        con.cursor,
        con.budget,
        con.cancel,
        con.close,
        cursor.fetchone,
        lambda: con.checked(tolerance=5, epsilon=1, misses=1),
        lambda: session.run(COUNT),
        lambda: session.execute(prepared),
        session.close,
        lambda: engine_of(session).count(prepared.plan.compiled),
    ]
    for act in acts:
        assert in_a_child(act) == "InterfaceError"
    leaves: tuple[Callable[..., object], ...] = (stream.__exit__, con.__exit__)
    for leave in leaves:
        assert in_a_child(partial(leave, None, None, None)) == "nothing"
    assert states(session) == ["reserved"]
    # A child of a child, by whatever number it goes, is no parent either.
    assert in_a_child(lambda: [None, stream.count(COUNT, 1000)]) == "InterfaceError"
    assert stream.count(COUNT, 1000).hit is False
    with pytest.raises(OperationalError, match="used up"):
        stream.count(COUNT, 1001)
    con.close()
    with connect(folder / "dpsql.toml") as again:
        assert again.budget().spent == Charge(Fraction(1))


# --- what is durable -------------------------------------------------------------------------------------


def test_an_answer_that_cannot_be_written_down_is_not_given(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its miss is used, and the stream goes on."""
    stream = open_unnamed(session, 1, 2, {"tolerance": 5})

    def full(*_: object) -> None:
        raise OperationalError("the ledger cannot be written: the disk is full")

    monkeypatch.setattr(session.ledger.streams, "finish", full)
    with pytest.raises(OperationalError, match="disk is full"):
        stream.count(COUNT, 10**6)
    monkeypatch.undo()
    assert stream.left == 1
    assert stream.count(COUNT, 10**6).hit is False
    stream.close()
    assert states(session) == ["settled"]
    assert spent(session) == 1


def test_a_connection_settles_its_unnamed_streams(folder: Path) -> None:
    con = connect(folder / "dpsql.toml")
    streams = [con.checked(tolerance=5, epsilon=1, misses=2) for _ in range(3)]
    con.checks("daily", epsilon=1, misses=1)
    assert len({stream.name for stream in streams}) == 3
    streams[0].count(COUNT, 10**6)
    streams[1].close()
    streams[1].close()
    con.execute(f"CLOSE STREAM {streams[2].name}")
    charged = float(streams[0].facts["charged"])
    con.close()
    with connect(folder / "dpsql.toml") as again:
        states = {row[0]: row[1] for row in again.execute("SELECT 1").execute("SHOW STREAMS").fetchall()}
        assert states == dict.fromkeys((stream.name for stream in streams), "closed") | {"daily": "open"}
        assert 2 > float(again.budget().spent.epsilon) == pytest.approx(1 + charged, abs=1e-8)
        with again.checked(tolerance=5, epsilon=1, misses=1) as other:
            assert other.name not in states


# --- how it ended ----------------------------------------------------------------------------------------

BROKEN = "SELECT error('a failure of the engine') FROM range(3) t(i) WHERE i < 2"
LONG = "SELECT COUNT(*) AS n0 FROM range(100000) AS a, range(1000000) AS b WHERE a.range + b.range < 0"


def instead(session: Session, sql: str) -> Callable[[object], object]:
    """Return a count that runs another statement in the engine's own way."""

    engine = engine_of(session)
    assert isinstance(engine, DuckDBEngine)

    def count(compiled: object) -> object:
        def work(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
            return cursor.sql(sql).to_arrow_table()

        made = engine._run(work, "stopped", counts_only=False)
        if made is None:
            raise OperationalError("failed")
        return made

    return count


def test_a_failure_stays_one_whatever_is_cancelled_afterwards(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled at once when the engine has failed, and again until the error is raised."""
    engine = engine_of(session)
    assert isinstance(engine, DuckDBEngine)
    true = engine._reopen

    def reopen() -> None:
        session.cancel()
        true()

    monkeypatch.setattr(engine_of(session), "_reopen", reopen)

    def work(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
        try:
            return cursor.sql(BROKEN).to_arrow_table()
        finally:
            session.cancel()

    monkeypatch.setattr(
        engine, "count", lambda _: present(engine._run(work, "stopped", counts_only=False)).num_rows
    )
    with pytest.raises(OperationalError, match="could not finish") as caught:
        session.run(COUNT)
    assert not isinstance(caught.value, Cancelled)
    assert states(session) == ["failed"]
    assert session.ledger.count_failures("analyst") == 1


@pytest.mark.parametrize("delay", [0.005, 0.02, 0.05, 0.1])
@pytest.mark.sampled(2, rest="longer")
def test_what_the_engine_reports_as_interrupted_is_cancelled(
    session: Session, monkeypatch: pytest.MonkeyPatch, delay: float
) -> None:
    monkeypatch.setattr(engine_of(session), "count", instead(session, LONG))
    ended = threading.Event()

    def stop() -> None:
        # Again and again, once it is charged: the first may come before the engine has begun.
        while not ended.wait(delay):
            if states(session):
                session.cancel()

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        with pytest.raises(Cancelled):
            session.run(COUNT)
    finally:
        ended.set()
        stopper.join()
    assert states(session) == ["cancelled"]
    assert (session.ledger.count_failures("analyst"), session.ledger.count_cancelled("analyst")) == (0, 1)


def test_a_ctrl_c_that_meets_a_failure_does_not_hide_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reopen() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_of(session), "_reopen", reopen)
    monkeypatch.setattr(engine_of(session), "count", instead(session, BROKEN))
    with pytest.raises(KeyboardInterrupt):
        session.run(COUNT)
    assert states(session) == ["failed"]


def test_a_ctrl_c_in_the_way_of_another_error_is_no_cancel(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(compiled: object) -> object:
        try:
            raise RuntimeError("a failure")
        finally:
            raise KeyboardInterrupt

    monkeypatch.setattr(engine_of(session), "count", count)
    with pytest.raises(KeyboardInterrupt):
        session.run(COUNT)
    assert states(session) == ["failed"]


def test_a_ctrl_c_while_the_analyst_handles_an_error_is_a_cancel(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(compiled: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_of(session), "count", count)

    class Handling:
        """Runs the statement while an error of the analyst's own is handled."""

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            session.run(COUNT)

    with pytest.raises(KeyboardInterrupt), Handling():
        raise ValueError
    assert states(session) == ["cancelled"]


def test_leaving_the_process_in_the_middle_is_a_failure(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(compiled: object) -> object:
        raise SystemExit(3)

    monkeypatch.setattr(engine_of(session), "count", count)
    with pytest.raises(SystemExit) as caught:
        session.run(COUNT)
    assert caught.value.code == 3
    assert states(session) == ["failed"]


def test_connections_at_once_share_one_allowance(folder: Path) -> None:
    sessions = [Session(load(folder / "dpsql.toml")) for _ in range(5)]
    at_once, over = threading.Barrier(5), threading.Barrier(5)
    failed: list[str] = []

    def ask(session: Session) -> None:
        def count(compiled: object) -> object:
            over.wait(60)
            raise RuntimeError

        engine_of(session).count = count  # type: ignore[assignment,method-assign]
        at_once.wait(60)
        try:
            session.run(f"{COUNT} WHERE user_id > 5")
        except OperationalError as error:
            if "could not finish" in str(error):
                failed.append(str(error))
            else:
                over.wait(60)

    threads = [threading.Thread(target=ask, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failed) == 3
    assert sessions[0].ledger.count_failures("analyst") == 3
    for session in sessions:
        session.close()


def test_many_names_have_the_policys_allowance(folder: Path) -> None:
    text = POLICY.replace("default_epsilon = 1", "default_epsilon = 1\nmax_failures_total = 4")
    (folder / "dpsql.toml").write_text(text)
    failed = 0
    for name in range(5):
        session = Session(load(folder / "dpsql.toml"), f"name {name}")
        engine_of(session).count = lambda _: 1 // 0  # type: ignore[method-assign,assignment,return-value]
        for _ in range(2):
            with pytest.raises(OperationalError) as caught:
                session.run(COUNT)
            failed += "could not finish" in str(caught.value)
        session.close()
    assert failed == 4


def test_names_that_are_not_listed_are_refused(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(POLICY + "[analysts.ann]\nepsilon = 1\n")
    connect(folder / "dpsql.toml", analyst="ann").close()
    for name in ("Ann", "bob", None):
        with pytest.raises(ProgrammingError, match="lists its analysts"):
            connect(folder / "dpsql.toml", analyst=name)
    (folder / "dpsql.toml").write_text(
        POLICY + '[analysts.ann]\nepsilon = 1\n[analysts."*"]\nepsilon = 0.5\n'
    )
    with connect(folder / "dpsql.toml", analyst="bob") as con, pytest.raises(BudgetExceeded):
        con.execute(COUNT)


def test_a_ledger_of_the_first_version_is_brought_up_to_date(folder: Path) -> None:
    """Its charges, failures and releases stay; see `data/ledger_version_1.sql`, a dump of such a file."""
    path = folder / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((Path(__file__).parent / "ledger/data/ledger_version_1.sql").read_text())
    session = Session(load(folder / "dpsql.toml"))
    assert session.ledger.budget().spent.epsilon == Fraction(7, 2)
    assert session.ledger.count_failures("analyst") == 1
    assert session.ledger.check() == []
    with open_unnamed(session, 1, 1, {"tolerance": 5}) as stream:
        assert stream.count(COUNT, 10**6).hit is False
    assert session.run(COUNT).release is not None
    assert session.ledger.budget().spent.epsilon == Fraction(11, 2)
    session.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
