"""One ledger, many processes: no over-spend, no lost entry, whatever is killed, forked or run at once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.errors import BudgetExceeded, InterfaceError, OperationalError
from dpsql.kernel.ledger import limits
from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger, Reservation
from tests.commands import Commands

PRELUDE = """
import json, os, sys, threading
from fractions import Fraction
from dpsql.kernel.loss import Charge
from dpsql.errors import BudgetExceeded, InterfaceError, OperationalError
from dpsql.ledger import Ledger, Request, Settled

tenth = Charge(Fraction(1, 10))
def open_ledger(total=10**6, max_failures=10**6):
    mark = sys.argv[1] + ".mark"
    return Ledger.open(
        sys.argv[1], policy_id="p", total=Charge(Fraction(total)), max_failures=max_failures, high_water=mark
    )
def reserve(ledger, charge=tenth, analyst="ann"):
    return ledger.reserve(analyst=analyst, statement="s", selection="r", mechanism="m", charge=charge)
"""


PYTHON = [sys.executable, "-c"]


@pytest.fixture(scope="module", autouse=True)
def _forked(commands: Commands) -> Iterator[None]:
    """Fork the processes of these tests from one that has loaded dpsql."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setitem(globals(), "PYTHON", [*commands.command, "python"])
        yield


def open_ledger(path: Path, total: Fraction = Fraction(10**6), max_failures: int = 10**6) -> Ledger:
    mark = path.with_name(path.name + ".mark")
    return Ledger.open(path, policy_id="p", total=Charge(total), max_failures=max_failures, high_water=mark)


def reserve(ledger: Ledger, epsilon: Fraction = Fraction(1, 10)) -> Reservation:
    return ledger.reserve(analyst="ann", statement="s", selection="r", mechanism="m", charge=Charge(epsilon))


def start(code: str, *given: object, output: Path | None = None) -> "subprocess.Popen[str]":
    command = [*PYTHON, PRELUDE + code, *map(str, given)]
    if output is None:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with output.open("w") as stdout:
        return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


# --- exactness under concurrency ---------------------------------------------------------------------

CHARGES = """
ledger, me, wanted = open_ledger(Fraction(sys.argv[4])), int(sys.argv[2]), int(sys.argv[3])
granted = refused = 0
spent = Fraction(0)
for i in range(wanted):
    epsilon = Fraction(1, 3 + (me + i) % 11)
    try:
        held = reserve(ledger, Charge(epsilon))
    except BudgetExceeded:
        refused += 1
        continue
    realised = epsilon * Fraction(1 + i % 3, 3)
    ledger.settle(held, Charge(realised), release=b"rows of %d" % me, reuse_key=f"{me}-{i}")
    granted, spent = granted + 1, spent + realised
ledger.close()
print(json.dumps([granted, refused, str(spent)]))
"""


def at_once(path: Path, processes: int, charges: int, total: Fraction) -> tuple[int, int]:
    """Let processes charge at once, check the sums exactly; return how many were granted and refused."""
    running = [start(CHARGES, path, me, charges, total) for me in range(processes)]
    results = [json.loads(finish(process)) for process in running]
    granted, refused = sum(r[0] for r in results), sum(r[1] for r in results)
    spent = sum((Fraction(r[2]) for r in results), Fraction(0))
    assert granted + refused == processes * charges
    with open_ledger(path, total) as ledger:
        budget = ledger.budget()
        assert budget.spent.epsilon == spent
        assert budget.spent.epsilon + budget.remaining.epsilon == total
        assert len(ledger.entries()) == granted
        assert len(ledger.releases("ann")) == granted
        assert ledger.count_failures("ann") == 0
        assert ledger.check() == []
    return granted, refused


@pytest.mark.parametrize(("total", "all_granted"), [(Fraction(10**6), True), (Fraction(5), False)])
@pytest.mark.sampled(2)
def test_processes_at_once(tmp_path: Path, total: Fraction, all_granted: bool) -> None:
    _, refused = at_once(tmp_path / "ledger.sqlite", 4, 25, total)
    assert (refused == 0) == all_granted


LAST = """
import time
from dpsql.policy import BudgetPolicy

total = Charge(Fraction(10), Fraction(1, 10**6))
policy = BudgetPolicy(total.epsilon, total.delta, accounting="zcdp")
ledger = Ledger.open(sys.argv[1], policy_id="p", total=total, filter_of=policy.filter_of, max_failures=1000)
if sys.argv[2] == "first":
    requests = [Request("r", "m", tenth, place=i + 1, places=300) for i in range(300)]
    ledger.reserve_all(analyst="ann", statement="s", requests=requests)
else:
    print("ready", flush=True)
    while not os.path.exists(sys.argv[1] + ".go"):
        time.sleep(0.001)
    try:
        reserve(ledger)
        print("admitted")
    except BudgetExceeded:
        print("refused")
assert ledger.check() == []
"""


def test_of_five_processes_one_is_admitted_with_the_last_statement(tmp_path: Path) -> None:
    """The 301st statement of .1 under (10, 1e-6) is the last one that fits, by the sum of costs."""
    path = tmp_path / "ledger.sqlite"
    finish(start(LAST, path, "first"))
    processes = [start(LAST, path, "last") for _ in range(5)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    path.with_name(path.name + ".go").touch()
    assert sorted(process.communicate()[0] for process in processes) == ["admitted\n"] + 4 * ["refused\n"]
    assert [process.returncode for process in processes] == 5 * [0]


@pytest.mark.slow
@pytest.mark.parametrize("total", [Fraction(10**6), Fraction(70)])
def test_eight_processes_with_two_hundred_charges_each(tmp_path: Path, total: Fraction) -> None:
    begin = time.perf_counter()
    granted, refused = at_once(tmp_path / "ledger.sqlite", 8, 200, total)
    seconds = time.perf_counter() - begin
    print(f"\n8 x 200: {granted} granted, {refused} refused, {1600 / seconds:.0f} statements a second")


def test_threads_of_one_process(tmp_path: Path) -> None:
    total = Fraction(3)
    with open_ledger(tmp_path / "ledger.sqlite", total) as ledger:
        granted: list[int] = []

        def work() -> None:
            for _ in range(10):
                try:
                    held = reserve(ledger)
                except BudgetExceeded:
                    continue
                granted.append(ledger.settle(held, Charge(Fraction(1, 10)), release=b"x", reuse_key="k"))
                ledger.budget("ann")
                assert ledger.find("k", "ann") is not None

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(granted) == list(range(1, 31))
        assert ledger.budget().remaining == Charge()
        assert ledger.check() == []


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_many_processes_make_one_new_ledger(tmp_path: Path, rounds: int) -> None:
    """All of them start on no file at all; none may overwrite what another has charged."""
    code = "ledger = open_ledger(); reserve(ledger); ledger.close()"
    for round_ in range(rounds):
        path = tmp_path / f"{round_}.sqlite"
        for process in [start(code, path) for _ in range(4)]:
            finish(process)
        with open_ledger(path) as ledger:
            assert len(ledger.entries()) == 4
            assert ledger.check() == []
    found = {entry.name for entry in tmp_path.iterdir()} - {f"{n}.sqlite.mark.lock" for n in range(rounds)}
    assert found == {f"{n}.sqlite{mark}" for n in range(rounds) for mark in ("", ".mark")}


# --- fork --------------------------------------------------------------------------------------------

FORKS = """
ledger = open_ledger()
mine = reserve(ledger)
stop = threading.Event()
def busy():
    while not stop.is_set():
        ledger.settle(reserve(ledger), tenth)
thread = threading.Thread(target=busy)
thread.start()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        try:
            assert ledger._store._connection is None
            for _ in range(5):
                ledger.settle(reserve(ledger), tenth, release=b"child")
            os._exit(0 if ledger.check() == [] else 3)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(4)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
thread.join()
grandchild = os.fork()
if grandchild == 0:
    try:
        for end in (lambda: ledger.settle(mine, tenth), lambda: ledger.fail(mine),
                    lambda: ledger.cancel(mine)):
            try:
                end()
            except InterfaceError:
                continue
            os._exit(5)
        ledger.close()
        os._exit(0)
    except BaseException:
        os._exit(6)
codes.append(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
ledger.settle(mine, tenth)  # what the parent reserved is the parent's to settle
print(json.dumps([codes, len(ledger.releases("ann")), len(ledger.entries()), ledger.check()]))
assert ledger.count_failures("ann") == 0
ledger.close()
"""


def test_forks_share_no_connection(tmp_path: Path) -> None:
    codes, releases, entries, problems = json.loads(
        finish(start("import warnings; warnings.simplefilter('ignore')\n" + FORKS, tmp_path / "l.sqlite"))
    )
    assert codes == [0] * 9
    assert releases == entries >= 41
    assert problems == []


UNTOLD_FORK = """
import ctypes, signal
libc = ctypes.PyDLL(None)
ledger = open_ledger()
reserve(ledger)
before = ledger._store._connection
child = libc.fork()  # Python's own fork hooks do not run
if child == 0:
    code = 1
    try:
        if sys.argv[2] == "charge":
            reserve(ledger)
            code = 0 if ledger._store._connection is not before and ledger.check() == [] else 2
        ledger.close()  # must not close the parent's connection
        if sys.argv[2] == "close":
            before.execute("SELECT 1")
            code = 0
    finally:
        os._exit(code)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
reserve(ledger)
print(json.dumps([code, len(ledger.entries()), ledger.check()]))
ledger.close()
"""


@pytest.mark.parametrize(("what", "entries"), [("charge", 3), ("close", 2)])
def test_a_fork_python_was_not_told_of(tmp_path: Path, what: str, entries: int) -> None:
    assert json.loads(finish(start(UNTOLD_FORK, tmp_path / "ledger.sqlite", what))) == [0, entries, []]


# --- crashes -----------------------------------------------------------------------------------------

CRASHES = """
import pathlib
from_the_start = sys.argv[2] == "open"
folder = pathlib.Path(sys.argv[1]).parent
if not from_the_start:
    open_ledger().close()
    empty = {name: pathlib.Path(name).read_bytes() for name in (sys.argv[1], sys.argv[1] + ".mark")}

def die_at(point):
    left = [point]
    def profile(frame, event, argument):
        if event in ("c_call", "c_return"):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
    sys.setprofile(profile)

point, outcomes = 1, []
read, write = os.pipe()
while True:
    child = os.fork()
    if child == 0:
        if from_the_start:
            die_at(point)
        ledger = open_ledger()
        if not from_the_start:
            die_at(point)
        held = reserve(ledger)
        os.write(write, b"r")
        ledger.settle(held, tenth, release=b"rows", reuse_key="k")
        os.write(write, b"s")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(write, b".")
    told = os.read(read, 10).decode()
    with open_ledger() as ledger:
        entries = ledger.entries()
        settled = sum(entry.state == "settled" for entry in ledger.entries())
        lost = sum(entry.state == "reserved" for entry in ledger.entries())
        assert ledger.check() == [], (point, ledger.check())
        assert ledger.budget().spent.epsilon == Fraction(len(entries), 10), point
        assert ledger.count_failures("ann") == lost, point
        assert len(ledger.releases("ann")) == settled, point
        outcomes.append((told, settled, lost))
        for entry in entries:
            assert entry.charged.charge == tenth
    if code == 0:
        break
    for name in folder.iterdir():
        name.unlink()
    if not from_the_start:
        for name, content in empty.items():
            pathlib.Path(name).write_bytes(content)
    point += 1
print(json.dumps(outcomes))
"""


STREAM_CRASHES = (
    CRASHES.replace("point += 1", "point += int(sys.argv[3])")
    .replace(
        "import pathlib", "import pathlib\nfrom tests.support.ledger_streams import ASKED, open_stream", 1
    )
    .replace(
        """        held = reserve(ledger)
        os.write(write, b"r")
        ledger.settle(held, tenth, release=b"rows", reuse_key="k")
""",
        """        opened = open_stream(ledger)
        os.write(write, b"r")
        begun = ledger.streams.begin(opened.entry, ASKED, None)
        os.write(write, b"b")
        ledger.streams.finish(begun, 0, b"rows")
        os.write(write, b"a")
        ledger.streams.close(opened.entry)
""",
    )
    .replace(
        """        assert ledger.budget().spent.epsilon == Fraction(len(entries), 10), point
        assert ledger.count_failures("ann") == lost, point
        assert len(ledger.releases("ann")) == settled, point
""",
        """        found = ledger.streams.find("ann", "daily")
        assert (found is not None) == bool(entries) and (not told.strip(".") or entries), point
        if "b" in told and "a" not in told:
            assert (found.asked, found.used) in ((1, 1), (1, 0)), point
        if "a" in told:
            assert ledger.streams.find_answer(found, "k").payload == b"rows", point
""",
    )
    .replace(
        """            assert entry.charged.charge == tenth
""",
        """            lasts = entry.state != "settled"
            assert entry.charged.charge.epsilon == Fraction(1, 10 if lasts else 20), point
""",
    )
)
"""The same for a stream whose check uses no miss: it costs a tenth until it is closed, and then half."""

SEVERAL_CRASHES = (
    CRASHES.replace("point += 1", "point += int(sys.argv[3])")
    .replace(
        "held = reserve(ledger)",
        "held = ledger.reserve_all(analyst='ann', statement='s', requests=two)",
    )
    .replace(
        "point, outcomes = 1, []",
        """point, outcomes = 1, []
two = [Request("r", "m", tenth, place=i, places=2) for i in (1, 2)]
ended = [Settled(tenth, b"rows", "k"), Settled(tenth, b"more rows", "l")]
""",
    )
    .replace(
        """ledger.settle(held, tenth, release=b"rows", reuse_key="k")""", "ledger.settle_all(held, ended)"
    )
    .replace(
        """assert ledger.count_failures("ann") == lost""",
        """assert 2 * ledger.count_failures("ann") == lost""",
    )
)
"""The same for a statement of two releases: both are charged, and both are stored, or none."""


STRIDES = [101, pytest.param(11, marks=pytest.mark.longer), pytest.param(1, marks=pytest.mark.slow)]
"""At every how many points a process ends."""


def check_told(outcomes: Iterable[Sequence[Any]], possible: set[str], stride: int) -> None:
    """Check what had been told when processes ended: all that is possible, if few points are left out."""
    told = {outcome[0] for outcome in outcomes}
    assert told == possible if stride <= 11 else len(told) > 1 and told <= possible


@pytest.mark.parametrize("stride", STRIDES)
def test_a_crash_at_any_point_of_a_stream_pays_for_every_answer_given(tmp_path: Path, stride: int) -> None:
    outcomes = json.loads(finish(start(STREAM_CRASHES, tmp_path / "ledger.sqlite", "charge", stride)))
    check_told(outcomes, {".", "r.", "rb.", "rba.", "rbas."}, stride)


@pytest.mark.parametrize("stride", STRIDES)
def test_a_crash_at_any_point_of_two_releases_leaves_both_or_none(tmp_path: Path, stride: int) -> None:
    done = finish(start(SEVERAL_CRASHES, tmp_path / "ledger.sqlite", "charge", stride))
    outcomes = {tuple(outcome) for outcome in json.loads(done)}
    possible = {(".", 0, 0), (".", 0, 2), ("r.", 0, 2), ("r.", 2, 0), ("rs.", 2, 0)}
    assert outcomes == possible if stride == 1 else outcomes <= possible
    check_told(outcomes, {".", "r.", "rs."}, stride)


def crashes(path: Path, begin: str, stride: int = 1) -> int:
    """End the process at the n-th call into C, or return from it, for each n; return how many there are.

    With a `stride`, at so many of them less.
    """
    code = CRASHES.replace("point += 1", "point += int(sys.argv[3])")
    outcomes = [tuple(outcome) for outcome in json.loads(finish(start(code, path, begin, stride)))]
    # What had been told when the process ended, and what the ledger holds: never less than what was told.
    possible = {
        (".", 0, 0),  # before the reservation was durable
        (".", 0, 1),  # durable, but nobody was told
        ("r.", 0, 1),  # reserved
        ("r.", 1, 0),  # settled, but nothing was handed out
        ("rs.", 1, 0),  # handed out
    }
    assert set(outcomes) == possible if stride == 1 else set(outcomes) <= possible
    check_told(outcomes, {".", "r.", "rs."}, stride)
    return len(outcomes)


@pytest.mark.parametrize("stride", STRIDES)
def test_a_crash_at_any_point_of_a_charge(tmp_path: Path, stride: int) -> None:
    assert crashes(tmp_path / "ledger.sqlite", "charge", stride) > 100 // stride


@pytest.mark.slow
def test_a_crash_at_any_point_from_a_new_ledger_on(tmp_path: Path) -> None:
    print(f"\n{crashes(tmp_path / 'ledger.sqlite', 'open')} points")


KILLED = """
ledger = open_ledger()
print("open", flush=True)
i = 0
while True:
    held = reserve(ledger, Charge(Fraction(1, 3), Fraction(0)))
    if i % 7 == 6:
        ledger.fail(held)
    else:
        realised = Charge(Fraction(1, 3 + i % 5))
        number = ledger.settle(held, realised, release=b"rows %d" % i, reuse_key=f"k{i}")
        print(number, i, flush=True)
    i += 1
"""


def campaign(folder: Path, kills: int) -> tuple[int, int]:
    """Kill charging processes at random moments; return how many answers were handed out and lost."""
    rng = np.random.default_rng(20240229)
    handed_out = lost = 0
    path = folder / "0.sqlite"
    answers: dict[int, bytes] = {}
    for kill in range(kills):
        if kill % 10 == 0:  # a new ledger now and then: the making of one is killed as well
            path, answers = folder / f"{kill}.sqlite", {}
        told = [folder / f"{kill}.{number}.txt" for number in range(1 + kill % 2)]
        running = [start(KILLED, path, output=output) for output in told]
        # Half of them while Python starts and the file is opened, half while charges are written.
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0, 0.15))
        else:
            while any(output.stat().st_size == 0 for output in told):
                assert all(process.poll() is None for process in running)
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.03))
        for process in running:
            process.send_signal(signal.SIGKILL)
        for process, output in zip(running, told, strict=True):
            assert process.communicate()[1] == ""
            for line in output.read_text().splitlines(keepends=True):
                if line.endswith("\n") and line != "open\n":
                    number, i = map(int, line.split())
                    answers[number] = b"rows %d" % i
        with open_ledger(path) as ledger:
            assert ledger.check() == []
            entries = ledger.entries()
            assert ledger.budget().spent.epsilon == sum(
                (e.charged.charge.epsilon for e in entries), Fraction(0)
            )
            settled = {entry.release for entry in entries if entry.state == "settled"}
            assert set(answers) <= settled
            assert all(
                ledger.release(number, "ann").payload == payload for number, payload in answers.items()
            )
            left = sum(entry.state == "reserved" for entry in entries)
            assert ledger.count_failures("ann") == left + sum(entry.state == "failed" for entry in entries)
        if kill % 10 == 9 or kill == kills - 1:
            handed_out, lost = handed_out + len(answers), lost + left
    return handed_out, lost


def test_killed_three_times(tmp_path: Path) -> None:
    handed_out, _ = campaign(tmp_path, 3)
    assert handed_out > 0


@pytest.mark.slow
def test_killed_a_thousand_times(tmp_path: Path) -> None:
    handed_out, lost = campaign(tmp_path, 1000)
    print(
        f"\n1000 kills: {handed_out} answers handed out, all settled; {lost} reservations lost, all charged"
    )
    assert lost > 0


# --- who is alive ------------------------------------------------------------------------------------


def test_a_statement_that_takes_its_process_down_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    code = "ledger = open_ledger(); reserve(ledger); print('held', flush=True); sys.stdin.read()"
    with open_ledger(path, max_failures=2) as ledger:
        for expected in (1, 2):
            process = subprocess.Popen(
                [*PYTHON, PRELUDE + code, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            # While it runs it is no failure, and holds one slot.
            assert ledger.count_failures("ann") == expected - 1
            process.kill()
            process.communicate()
            assert ledger.count_failures("ann") == expected
        with pytest.raises(OperationalError, match="failed"):
            reserve(ledger)
        ledger.clear_failures("bob")
        assert ledger.count_failures("ann") == 2
        ledger.clear_failures("ann")
        assert ledger.count_failures("ann") == 0
        reserve(ledger)
        assert ledger.check() == []


def test_a_reservation_of_another_machine_counts_until_it_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, here = tmp_path / "ledger.sqlite", limits.current()
    with open_ledger(path, max_failures=2) as ledger:
        monkeypatch.setattr(limits, "current", lambda: "elsewhere|1|1")
        held = reserve(ledger)
        monkeypatch.setattr(limits, "current", lambda: here)
        assert ledger.count_failures("ann") == 1
        mine = reserve(ledger)
        assert ledger.count_failures("ann") == 1
        # Both are slots, whether the other one still runs or not.
        with pytest.raises(OperationalError, match="2 of your private statements and streams are running"):
            reserve(ledger)
        with pytest.raises(InterfaceError, match="process that made it"):
            ledger.settle(held, Charge(Fraction(1, 20)))
        monkeypatch.setattr(limits, "current", lambda: "elsewhere|1|1")
        ledger.settle(held, Charge(Fraction(1, 20)))
        mine_there = reserve(ledger)
        monkeypatch.setattr(limits, "current", lambda: here)
        # Cleared while it runs, it is still settled without trouble.
        assert ledger.count_failures("ann") == 1
        ledger.clear_failures()
        assert ledger.count_failures("ann") == 0
        monkeypatch.setattr(limits, "current", lambda: "elsewhere|1|1")
        ledger.settle(mine_there, Charge(Fraction(1, 20)))
        monkeypatch.setattr(limits, "current", lambda: here)
        ledger.settle(mine, Charge(Fraction(1, 20)))
        assert ledger.count_failures("ann") == 0
        assert ledger.check() == []


def test_sixteen_connections_at_once_fail_no_more_often_than_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledgers = [open_ledger(path, max_failures=3) for _ in range(16)]
    at_once, running, refused = threading.Barrier(16), threading.Barrier(16), []

    def ask(ledger: Ledger) -> None:
        at_once.wait(60)
        try:
            held = reserve(ledger)
        except OperationalError as error:
            refused.append(str(error))
            running.wait(60)
        else:
            running.wait(60)  # nobody fails before all have asked
            ledger.fail(held)

    threads = [threading.Thread(target=ask, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 13
    assert all("3 of your private statements and streams are running" in text for text in refused)
    assert ledgers[0].count_failures("ann") == 3
    with pytest.raises(OperationalError, match="3 of your private statements have failed"):
        reserve(ledgers[5])
    assert ledgers[0].check() == []
    for ledger in ledgers:
        ledger.close()


def test_processes_are_known_by_more_than_their_number() -> None:
    me = limits.current()
    assert limits.is_alive(me) is True
    place, number, started = me.rsplit("|", 2)
    assert int(number) == os.getpid()
    assert limits.is_alive(f"elsewhere|{number}|{started}") is None
    assert limits.is_alive(f"{place}|x|{started}") is None
    assert limits.is_alive("") is None
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    theirs = f"{place}|{process.pid}|"
    assert limits.is_alive(theirs) is True
    if started:  # the same number, begun at another time, is another process
        assert limits.is_alive(f"{place}|{process.pid}|1") is False
        begun = limits._start_time(str(process.pid))
        assert limits.is_alive(theirs + begun) is True
    else:
        begun = ""
    process.kill()
    deadline = time.monotonic() + 60
    while begun and limits.is_alive(theirs + begun) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not (begun and limits.is_alive(theirs + begun))  # killed, though still to be waited for
    process.communicate()
    assert limits.is_alive(theirs) is False
    assert limits.is_alive(theirs + begun) is False


def test_another_users_process_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    place, _, started = limits.current().rsplit("|", 2)

    def forbidden(process: int, signal_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(limits, "_start_time", lambda process: "")
    monkeypatch.setattr(os, "kill", forbidden)
    assert limits.is_alive(f"{place}|12345|{started}") is True


def test_a_holder_is_told_apart_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, *given: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(Path, "read_bytes", missing)
    limits._identity.cache_clear()
    me = limits.current()
    limits._identity.cache_clear()
    place, number, started = me.rsplit("|", 2)
    assert place
    assert (int(number), started) == (os.getpid(), "")
