"""Streams of checks outlive sessions and processes: what is used stays used, and a threshold is one noise."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import BudgetExceeded, Error, OperationalError, ProgrammingError
from dpsql.kernel.charged_work import Cancelled
from dpsql.kernel.mechanisms import CheckStream
from dpsql.ledger import Ledger, Opening
from dpsql.ledger.key_file import KeyFile
from dpsql.policy import load
from dpsql.session import Session
from tests.commands import Commands
from tests.narrow import present
from tests.support.world import write_world
from tests.unit.test_boards import ask
from tests.unit.test_session import spent

POLICY = """
[budget]
epsilon = 1000
ledger = "ledger.sqlite"
high_water = "mark"
max_failures = 40
max_epsilon_per_query = 500
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page = { values = ["a", "b", "c", "d"], complete = true }
[tables.forecast]
source = "forecast.parquet"
public = true
"""
VISITS = "SELECT i AS user_id, ['a', 'b', 'c'][i % 3 + 1] AS page FROM range(6000) t(i)"
FORECAST = "SELECT 'a' AS page, 2000 AS n"
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
GROUPS = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
OPEN = "OPEN CHECKS daily OPTIONS (epsilon = 100, misses = 4)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_world(tmp_path, POLICY, visits=VISITS, forecast=FORECAST)
    old = time.time() - 60  # files that were written a moment ago are read again each time
    for name in ("visits.parquet", "forecast.parquet"):
        os.utime(tmp_path / name, (old, old))
    return tmp_path


@contextmanager
def session_at(folder: Path, analyst: str = "ann") -> Iterator[Session]:
    made = Session(load(folder / "dpsql.toml"), analyst)
    try:
        yield made
    finally:
        made.close()


def check(session: Session, expected: int, *, tolerance: int = 300) -> str:
    text = f"CHECK daily {COUNT} EXPECT n = {expected} TOLERANCE {tolerance}"
    return str(ask(session, text)[0]["checked"])


def stream(session: Session) -> dict[str, Any]:
    (row,) = ask(session, "SHOW STREAMS")
    return row


def thresholds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threshold's noise of each check that is made from now on."""
    found: list[int] = []
    before = CheckStream.check

    def record(stream: CheckStream, statistic: Fraction) -> Fraction | None:
        found.append(stream.threshold_steps)
        return before(stream, statistic)

    monkeypatch.setattr(CheckStream, "check", record)
    return found


# --- across sessions ----------------------------------------------------------------------------------


def test_a_stream_goes_on_in_another_session(folder: Path) -> None:
    with session_at(folder) as session:
        ask(session, OPEN)
        assert (check(session, 6000), check(session, 4000)) == ("as expected", "off")
        assert spent(session) == 100
    with session_at(folder) as session:
        assert (stream(session)["state"], stream(session)["left"]) == ("open", 3)
        assert check(session, 3000) == "off"
        ask(session, "CLOSE STREAM daily")
        row = stream(session)
        assert (row["state"], row["left"]) == ("closed", 2)
        assert 0 < spent(session) < 60
        assert session.ledger.check() == []
        with pytest.raises(ProgrammingError, match="is closed"):
            check(session, 3000)


def test_names_are_of_an_analyst(folder: Path) -> None:
    with session_at(folder) as ann, session_at(folder, "bob") as bob:
        ask(ann, OPEN)
        with pytest.raises(ProgrammingError, match="you have no stream daily"):
            check(bob, 6000)
        ask(bob, "OPEN CHECKS daily OPTIONS (epsilon = 10, misses = 1)")
        assert (stream(ann)["epsilon"], stream(bob)["epsilon"]) == ("100", "10")


def test_the_same_check_of_the_same_data_is_the_stored_answer(folder: Path) -> None:
    with session_at(folder) as session:
        ask(session, OPEN)
        text = f"CHECK daily {GROUPS} EXPECT n = 1000 TOLERANCE 300"
        first = session.run(text).table
    with session_at(folder) as session:
        again = session.run(text.replace(" EXPECT", "   EXPECT"))
        assert again.table == first
        assert any("stored answer of" in note for note in again.notices)
        assert stream(session)["left"] == 2
        fresh = text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE)", 1)
        assert session.run(fresh).table != first
        assert stream(session)["left"] == 0
        assert session.run(text).table.num_rows == 4  # stored, although nothing is left
        with pytest.raises(OperationalError, match="used up: REFILL"):
            check(session, 6000)


def test_other_data_are_checked_anew(folder: Path) -> None:
    with session_at(folder) as session:
        ask(session, OPEN)
        assert check(session, 6000) == "as expected"
        import duckdb

        duckdb.sql(f"COPY ({VISITS} WHERE i < 3000) TO '{folder}/visits.parquet'")
        assert check(session, 6000) == "off"


def test_the_threshold_is_one_noise_until_the_stream_is_refilled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = thresholds(monkeypatch)
    for expected in (6000, 5990):
        with session_at(folder) as session:
            if not found:
                ask(session, OPEN)
            check(session, expected)
    with session_at(folder) as session:
        ask(session, "REFILL STREAM daily")
        check(session, 6000)
        ask(session, "CLOSE STREAM daily")
        ask(session, OPEN)
        check(session, 6000)
    first, again, refilled, opened = found
    assert first == again
    assert len({first, refilled, opened}) == 3


# --- the key -------------------------------------------------------------------------------------------


def test_nothing_secret_is_in_the_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the key nor what would tell the threshold; and nobody else reads the key.

    Whole numbers are compared, and not digits within hashes and bytes. So small an epsilon spreads the
    threshold over some 10^5 steps: of other noise than this test's, which is the same in each run, the few
    numbers of the dump would equal it once in 10^4 times at most.
    """
    found = thresholds(monkeypatch)
    with session_at(folder) as session:
        ask(session, OPEN.replace("100", "0.0001"))
        check(session, 6000)
        session.ledger._store.checkpoint()
    key = folder / "ledger.sqlite.key"
    assert key.stat().st_mode & 0o077 == 0
    text = key.read_text()
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        dump = "\n".join(connection.iterdump())
    assert text not in dump
    assert text.upper() not in dump.upper()
    assert str(abs(found[0])) not in re.findall(r"\w+", dump)


@pytest.mark.parametrize("text", ["", "00", "\n", "g" * 64, "0" * 63, "0" * 65, "\xe9" * 64])
def test_a_file_that_has_no_key_opens_no_stream(folder: Path, text: str) -> None:
    """Anybody could draw the noise of its threshold."""
    with session_at(folder) as session:
        key = folder / "ledger.sqlite.key"
        key.write_text(text)
        key.chmod(0o600)
        with pytest.raises(OperationalError, match="has no key, which is 64 hexadecimal digits"):
            ask(session, OPEN)
        assert spent(session) == 0
        key.unlink()
        ask(session, OPEN)
        assert check(session, 4000) == "off"


def test_threads_that_make_the_key_at_once_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes a draft of its own: another one's is never taken half written, nor removed."""
    link, first = os.link, [True]

    def be_overtaken(draft: Path, path: Path) -> None:
        if first:
            first.clear()
            other = threading.Thread(target=KeyFile(tmp_path / "l").make, args=("b" * 64,))
            other.start()
            other.join()
        link(draft, path)

    monkeypatch.setattr(os, "link", be_overtaken)
    KeyFile(tmp_path / "l").make("a" * 64)
    assert KeyFile(tmp_path / "l").read() == "b" * 64
    assert [path.name for path in tmp_path.iterdir()] == ["l.key"]


@pytest.mark.parametrize("lost", ["missing", "other", "empty", "readable"])
def test_without_its_key_nothing_more_is_checked(folder: Path, lost: str) -> None:
    key = folder / "ledger.sqlite.key"
    with session_at(folder) as session:
        ask(session, OPEN)
        check(session, 4000)
        before = key.read_text()
        if lost == "missing":
            key.unlink()
        elif lost == "readable":
            key.chmod(0o640)
        else:
            key.write_text("" if lost == "empty" else before[::-1])
        with pytest.raises(OperationalError, match=r"nothing more is checked[\s\S]*CLOSE STREAM daily"):
            check(session, 6000)
        assert check(session, 4000) == "off"  # as stored
        assert (stream(session)["state"], stream(session)["left"]) == ("open", 3)
        assert session.ledger.count_failures("ann") == 0
        key.write_text(before)
        key.chmod(0o600)
        assert check(session, 6000) == "as expected"
        key.unlink()
        ask(session, "CLOSE STREAM daily")
        assert 0 < spent(session) < 50


def test_no_other_key_is_made_while_a_stream_rests_on_one(folder: Path) -> None:
    with session_at(folder) as ann, session_at(folder, "bob") as bob:
        ask(ann, OPEN)
        (folder / "ledger.sqlite.key").unlink()
        with pytest.raises(OperationalError, match="other streams or parts rest"):
            ask(bob, OPEN)
        assert spent(bob) == 100
        ask(ann, "REFILL STREAM daily")  # the only stream that rests on it
        assert check(ann, 6000) == "as expected"


# --- restored ledgers ---------------------------------------------------------------------------------


def test_a_restored_ledger_ends_streams_at_what_was_reserved(folder: Path) -> None:
    with session_at(folder) as session:
        ask(session, OPEN)
    shutil.copy(folder / "ledger.sqlite", folder / "older")
    with session_at(folder) as session:
        assert check(session, 4000) == "off"
    for log in folder.glob("ledger.sqlite-*"):
        log.unlink()
    shutil.move(folder / "older", folder / "ledger.sqlite")
    with pytest.raises(OperationalError, match="older than the mark"):
        Session(load(folder / "dpsql.toml"), "ann")
    Ledger.of(load(folder / "dpsql.toml"), Opening.ACCEPT).close()
    with session_at(folder) as session:
        assert (stream(session)["state"], stream(session)["charged"]) == ("ended", "100")
        assert spent(session) >= 100
        with pytest.raises(ProgrammingError, match="is ended"):
            check(session, 6000)
        assert session.ledger.check() == []
        ask(session, OPEN)
        assert check(session, 6000) == "as expected"


# --- caps -----------------------------------------------------------------------------------------------


def test_a_refused_stream_writes_nothing(folder: Path) -> None:
    with session_at(folder) as session:
        before = session.ledger.head()
        for text in (OPEN.replace("100", "501"), OPEN.replace("100", "1001")):
            with pytest.raises(BudgetExceeded):
                ask(session, text)
        assert ask(session, "SHOW STREAMS") == []
        assert session.ledger.entries() == []
        ask(session, OPEN.replace("100", "400"))
        with pytest.raises(BudgetExceeded):
            ask(session, OPEN.replace("daily", "other").replace("100", "700"))
        assert [each["stream"] for each in ask(session, "SHOW STREAMS")] == ["daily"]
        assert before != session.ledger.head()


def test_a_check_runs_without_any_budget_left(folder: Path) -> None:
    text = POLICY.replace("epsilon = 1000", "epsilon = 100").replace("= 500", "= 100")
    (folder / "dpsql.toml").write_text(text)
    with session_at(folder) as session:
        ask(session, OPEN)
        assert session.budget().remaining.epsilon == 0
        assert check(session, 4000) == "off"


def test_a_refill_that_is_refused_leaves_the_stream_open(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(
        POLICY.replace("epsilon = 1000", "epsilon = 110").replace("= 500", "= 100")
    )
    with session_at(folder) as session:
        ask(session, OPEN)
        check(session, 4000)
        with pytest.raises(BudgetExceeded):
            ask(session, "REFILL STREAM daily")
        assert (stream(session)["state"], stream(session)["left"]) == ("open", 3)
        assert check(session, 6000) == "as expected"


def test_an_open_stream_holds_no_slot(folder: Path) -> None:
    (folder / "dpsql.toml").write_text(POLICY.replace("max_failures = 40", "max_failures = 1"))
    with session_at(folder) as session:
        for name in "abc":
            ask(session, OPEN.replace("daily", name))
        ask(session, OPEN)
        assert check(session, 6000) == "as expected"


def test_a_cancelled_check_uses_the_misses_that_it_could_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: object, **__: object) -> None:
        raise Cancelled("the statement was cancelled; nothing was charged")

    with session_at(folder) as session:
        ask(session, OPEN)
        monkeypatch.setattr("dpsql.composition.asked_checks.AskedCheck.ask", cancelled)
        with pytest.raises(Cancelled, match="its charge is kept"):
            check(session, 6000)
        monkeypatch.undo()
        assert (session.ledger.count_cancelled("ann"), stream(session)["left"]) == (1, 3)
        assert check(session, 6000) == "as expected"


# --- several at once ----------------------------------------------------------------------------------


CHECKED = """
import sys
from pathlib import Path
from dpsql.errors import OperationalError
from tests.unit.test_lasting_streams import check, session_at

print("ready", flush=True)
sys.stdin.readline()
try:
    with session_at(Path(sys.argv[1])) as session:
        print(check(session, int(sys.argv[2])))
except OperationalError as error:
    print(str(error).split(":")[0])
"""


def test_processes_on_the_last_miss(folder: Path, commands: Commands) -> None:
    with session_at(folder) as session:
        ask(session, OPEN.replace("misses = 4", "misses = 1"))
    workers = [
        subprocess.Popen(
            [*commands.command, "python", CHECKED, str(folder), str(1000 + i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    for each in workers:
        assert present(each.stdout).readline() == "ready\n"
    for each in workers:
        present(each.stdin).write("go\n")
        present(each.stdin).flush()
    results = sorted(each.communicate(timeout=120)[0].strip() for each in workers)
    assert results.count("off") == 1
    assert all("used up" in each for each in results if each != "off")
    with session_at(folder) as session:
        assert (stream(session)["left"], session.ledger.check()) == (0, [])


def test_threads_take_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second check begins when the first one has ended; it may be cancelled while it waits."""
    entered, go = threading.Event(), threading.Event()
    before = CheckStream.check

    def wait(stream: CheckStream, statistic: Fraction) -> Fraction | None:
        entered.set()
        go.wait(30)
        return before(stream, statistic)

    monkeypatch.setattr(CheckStream, "check", wait)
    results: list[str] = []

    def run(expected: int, session: Session) -> None:
        try:
            results.append(check(session, expected))
        except Error as error:
            results.append(type(error).__name__)

    with session_at(folder) as one, session_at(folder) as two, session_at(folder) as three:
        ask(one, OPEN)
        first = threading.Thread(target=run, args=(4000, one))
        first.start()
        assert entered.wait(30)
        second = threading.Thread(target=run, args=(4001, two))
        third = threading.Thread(target=run, args=(4002, three))
        second.start()
        third.start()
        while third.is_alive():
            three.cancel()
            third.join(0.05)
        assert results == ["Cancelled"]
        with session_at(folder) as reader:
            assert stream(reader)["left"] == 3  # that of the first is used while it runs
        go.set()
        first.join()
        second.join()
        assert sorted(results) == ["Cancelled", "off", "off"]
        assert stream(one)["left"] == 2


# --- processes that are killed ------------------------------------------------------------------------


def _killed(folder: str, expected: int, point: int) -> None:
    """Run one check, and die at a call of the ledger's or the engine's: before it, or after it."""
    import sys

    left = [point]

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return") and getattr(argument, "__name__", "") in ("execute", "fsync"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with session_at(Path(folder)) as session:
        sys.setprofile(profile)
        found = ask(session, f"CHECK daily {COUNT} EXPECT n = {expected} TOLERANCE 300")
        sys.setprofile(None)
        (Path(folder) / "calls").write_text(str(point - left[0]))
        (Path(folder) / "shown").write_text(json.dumps([expected, found]))


@pytest.mark.parametrize(
    "rounds",
    [4, pytest.param(16, marks=pytest.mark.longer), pytest.param(1000, marks=pytest.mark.slow)],
    ids=["few", "more", "a thousand"],
)
def test_killed_at_any_point(folder: Path, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was shown is stored, the misses used never fall, and the threshold stays the same."""
    (folder / "dpsql.toml").write_text(POLICY.replace("max_failures = 40", "max_failures = 5000"))
    seed = random.randrange(1 << 30)
    chosen, left, levels = random.Random(seed), 10_000, thresholds(monkeypatch)
    context = multiprocessing.get_context("fork")
    with session_at(folder) as session:
        ask(session, "OPEN CHECKS daily OPTIONS (epsilon = 100, misses = 9000)")
        check(session, 6000)
    whole = context.Process(target=_killed, args=(str(folder), 2999, 10**9))
    whole.start()
    whole.join()
    calls = int((folder / "calls").read_text())  # of a check that is not killed
    with session_at(folder) as session:
        left = stream(session)["left"]
    seen = 0
    for number in range(rounds):
        shown = folder / "shown"
        shown.unlink(missing_ok=True)
        wanted = 3000 + number
        worker = context.Process(target=_killed, args=(str(folder), wanted, chosen.randrange(1, calls + 10)))
        worker.start()
        worker.join()
        with session_at(folder) as session:
            row = stream(session)
            assert row["left"] <= left, seed
            left = row["left"]
            if shown.exists():
                seen += 1
                expected, rows = json.loads(shown.read_text())
                text = f"CHECK daily {COUNT} EXPECT n = {expected} TOLERANCE 300"
                assert ask(session, text) == rows, seed
                assert stream(session)["left"] == left, seed
            if number % 8 == 0:
                check(session, 20_000 + number)
                left = stream(session)["left"]
                assert session.ledger.check() == [], seed
    assert len({*levels}) == 1, seed
    assert seen or rounds < 100, seed


def test_a_stream_is_closed_after_a_killed_check(folder: Path) -> None:
    """The check counts as failed, and the misses that it could use are charged."""
    with session_at(folder) as session:
        ask(session, OPEN)
    worker = multiprocessing.get_context("fork").Process(target=_die_in_a_check, args=(str(folder),))
    worker.start()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    with session_at(folder) as session:
        assert stream(session)["left"] == 3
        ask(session, "CLOSE STREAM daily")
        row = stream(session)
        assert (row["state"], row["left"]) == ("closed", 3)
        assert session.ledger.count_failures("ann") == 1
        assert session.ledger.check() == []


def _die_in_a_check(folder: str) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with session_at(Path(folder)) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsql.composition.asked_checks.AskedCheck.ask", die)
        check(session, 6000)


# --- what the ledger verifies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE asked SET used = 0 WHERE step = 2",
        "UPDATE asked SET payload = x'00' WHERE step = 2",
        "DELETE FROM asked WHERE step = 2",
        "UPDATE stream SET misses = 9",
        "UPDATE stream SET each = '1/1000'",
        "DELETE FROM stream",
        "UPDATE asked SET state = 'failed', payload = NULL WHERE step = 2",
    ],
)
def test_a_changed_stream_is_found(folder: Path, change: str) -> None:
    with session_at(folder) as session:
        ask(session, OPEN)
        check(session, 6000)
        check(session, 4000)
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(change)
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(change)
        connection.commit()
    ledger = Ledger.of(load(folder / "dpsql.toml"), Opening.INSPECT)
    assert ledger.check() != []
    ledger.close()


# --- what was accepted or answered last ------------------------------------------------------------


class TestLast:
    TEXT = f"CHECK daily {COUNT} EXPECT n = LAST TOLERANCE 300"

    def test_the_first_time_it_is_answered_and_uses_a_miss(self, folder: Path) -> None:
        with session_at(folder) as session:
            ask(session, OPEN)
            (row,) = ask(session, self.TEXT)
            assert (row["checked"], row["expected"], row["gap"]) == ("answered", None, None)
            assert abs(row["n"] - 6000) < 50
            assert row["low"] < row["n"] < row["high"]
            assert stream(session)["left"] == 3
            (again,) = ask(session, self.TEXT)
            assert (again["checked"], again["expected"]) == ("as expected", row["n"])
            assert stream(session)["left"] == 3

    def test_what_was_expected_before_is_accepted(self, folder: Path) -> None:
        """Of the same SELECT, in any session."""
        with session_at(folder) as session:
            ask(session, OPEN)
            check(session, 6005)
        with session_at(folder) as session:
            (row,) = ask(session, self.TEXT.replace("TOLERANCE 300", "WITHIN 5%"))
            assert (row["checked"], row["expected"]) == ("as expected", 6005)
            assert stream(session)["left"] == 4

    def test_parameters_are_of_a_series_by_name(self, folder: Path) -> None:
        own = f"CHECK daily {COUNT} WHERE page = ? EXPECT n = LAST TOLERANCE 300"
        named = own.replace("LAST", "LAST PER 'a page'")
        with session_at(folder) as session:
            ask(session, OPEN)
            found = [ask(session, named, [page])[0]["checked"] for page in "abd"]
            assert found == ["answered", "as expected", "off"]
            assert ask(session, own, ["a"])[0]["checked"] == "answered"

    def test_groups(self, folder: Path) -> None:
        """Those that have a last value come first, and others until as many are answered as may be."""
        text = f"CHECK daily {GROUPS} EXPECT n = LAST TOLERANCE 300"
        with session_at(folder) as session:
            ask(session, OPEN.replace("misses = 4", "misses = 5"))
            rows = ask(session, text)
            assert [(row["page"], row["checked"]) for row in rows] == [
                *(("a", "answered"), ("b", "answered"), ("c", "not checked"), ("d", "not checked"))
            ]
            rows = ask(session, text)
            checked = ["as expected"] * 2 + ["answered"] * 2
            assert [row["checked"] for row in rows] == checked
            assert [row["checked"] for row in ask(session, text)] == ["as expected"] * 4
            assert stream(session)["left"] == 1

    def test_other_keys_under_one_name_are_refused_before_anything_is_asked(self, folder: Path) -> None:
        with session_at(folder) as session:
            ask(session, OPEN)
            ask(session, f"CHECK daily {COUNT} EXPECT n = LAST PER 'x' TOLERANCE 300")
            with pytest.raises(ProgrammingError, match="has other keys"):
                ask(session, f"CHECK daily {GROUPS} EXPECT n = LAST PER 'x' TOLERANCE 300")
            assert stream(session)["left"] == 3

    def test_without_answers_there_is_no_last(self, folder: Path) -> None:
        with session_at(folder) as session:
            ask(session, OPEN.replace("misses", "answers = 0, misses"))
            with pytest.raises(ProgrammingError, match="there is no LAST"):
                ask(session, self.TEXT)
            assert stream(session)["left"] == 4

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "CHECK daily SELECT AVG(user_id) AS n FROM visits EXPECT n = LAST",
                "LAST is of counts and sums",
            ),
            (f"CHECK daily {COUNT} EXPECT n = LAST PER day TOLERANCE 3", "PER takes a name in quotes"),
            (f"CHECK daily {COUNT} EXPECT n = LAST", "has no tolerance"),
        ],
    )
    def test_refused(self, folder: Path, text: str, message: str) -> None:
        with session_at(folder) as session:
            ask(session, OPEN)
            with pytest.raises(Error, match=message):
                ask(session, text)
            assert stream(session)["left"] == 4
