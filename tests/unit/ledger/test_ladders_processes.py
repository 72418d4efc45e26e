"""Kept ladders in many processes: charged once each, within every cap, whatever is killed or run at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger
from tests.commands import Commands
from tests.unit.ledger.test_processes import finish

PRELUDE = """
import json, os, pathlib, signal, sys, time
from fractions import Fraction
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.errors import BudgetExceeded
from dpsql.ledger import GroupCap, LadderRequest, Ledger

tenth = Fraction(1, 10)
def open_ledger():
    return Ledger.open(
        sys.argv[1], policy_id="p", total=Charge(Fraction(100)), max_failures=10**6,
        analysts={"ann": Charge(Fraction(2)), "*": Charge(Fraction(3))},
        groups={"team": GroupCap(("ann", "bob"), Charge(Fraction(5, 2)))},
        high_water=sys.argv[1] + ".mark",
    )
def asked(measure="rows"):
    return LadderRequest("visits", measure, "v1", "dpsql bounds visits", PrivacyLoss.of(tenth / 2, times=2))
def reserve_one(ledger, request):
    return ledger.reserve_ladders([request])[0]
def reserve(ledger, analyst):
    return ledger.reserve(analyst=analyst, statement="s", selection="r", mechanism="m", charge=Charge(tenth))
"""


PYTHON = [sys.executable, "-c"]


@pytest.fixture(scope="module", autouse=True)
def _forked(commands: Commands) -> Iterator[None]:
    """Fork the processes of these tests from one that has loaded dpsql."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setitem(globals(), "PYTHON", [*commands.command, "python"])
        yield


def open_ledger(path: Path) -> Ledger:
    found: dict[str, object] = {}
    exec(PRELUDE.replace("sys.argv[1]", repr(str(path))), found)
    opened = found["open_ledger"]()  # type: ignore[operator]
    assert isinstance(opened, Ledger)
    return opened


def start(code: str, *given: object) -> subprocess.Popen[str]:
    command = [*PYTHON, PRELUDE + code, *map(str, given)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


RACE = """
ledger, kind = open_ledger(), sys.argv[2]
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.001)
granted = 0
for i in range(30):
    try:
        if kind == "ladders":
            held = reserve_one(ledger, asked(f"measure {i}"))
            granted += 1
            ledger.settle_ladder(held, b"bins")
        else:
            ledger.settle(reserve(ledger, kind), Charge(tenth), release=b"rows")
            granted += 1
    except BudgetExceeded:
        pass
print(granted)
assert ledger.check() == []
"""


def test_ladders_and_statements_at_once_pass_no_cap(tmp_path: Path) -> None:
    """Two processes that keep ladders and two analysts: what is granted fills caps, and none is passed."""
    path = tmp_path / "ledger.sqlite"
    kinds = ["ladders", "ladders", "ann", "bob"]
    running = [start(RACE, path, kind) for kind in kinds]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    path.with_name(path.name + ".go").touch()
    first, second, ann, bob = (int(finish(process)) for process in running)
    ladders = Fraction(first + second, 10)
    with open_ledger(path) as ledger:
        assert ledger.budget().spent.epsilon == ladders + Fraction(ann + bob, 10)
        assert ledger.budget("ann").spent.epsilon == ladders + Fraction(ann, 10) <= 2
        assert ledger.budget("bob").spent.epsilon == ladders + Fraction(bob, 10) <= 3
        assert ledger.budget("new").spent.epsilon == ladders
        assert ladders + Fraction(ann + bob, 10) <= Fraction(5, 2), "the group has each ladder once"
        assert [each.number for each in ledger.ladders()] == [*range(1, first + second + 1)]
        assert min(2 - ladders - Fraction(ann, 10), Fraction(5, 2) - ladders - Fraction(ann + bob, 10)) == 0
        assert ledger.check() == []


LAST = """
ledger = open_ledger()
print("ready", flush=True)
while not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.001)
try:
    reserve_one(ledger, asked())
    print("admitted")
except BudgetExceeded:
    print("refused")
"""


def test_of_two_processes_one_gets_the_last_ladder_of_an_analysts_cap(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    finish(start("ledger = open_ledger(); ledger.reserve_ladders([asked()] * 19)", path))
    processes = [start(LAST, path) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    path.with_name(path.name + ".go").touch()
    assert sorted(finish(process) for process in processes) == ["admitted\n", "refused\n"]
    with open_ledger(path) as ledger:
        assert ledger.budget("ann").remaining == Charge()
        assert ledger.check() == []


def test_killed_between_charge_and_result_a_ladder_stays_charged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    process = start("held = reserve_one(open_ledger(), asked()); print('held', flush=True); input()", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open_ledger(path) as ledger:
        tenth = Fraction(1, 10)
        assert [ledger.budget(who).spent.epsilon for who in (None, "ann", "bob", "new")] == [tenth] * 4
        assert (ledger.ladders(), [each.state for each in ledger.ladder_charges()]) == ([], ["reserved"])
        assert ledger.count_failures("ann") == 0
        assert ledger.check() == []


CRASHES = """
def die_at(point):
    left = [point]
    def profile(frame, event, argument):
        if event in ("c_call", "c_return"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.setprofile(profile)

open_ledger().close()
folder = pathlib.Path(sys.argv[1]).parent
empty = {name: name.read_bytes() for name in folder.iterdir()}
point, outcomes = 1, []
read, write = os.pipe()
while True:
    child = os.fork()
    if child == 0:
        ledger = open_ledger()
        die_at(point)
        held = reserve_one(ledger, asked())
        os.write(write, b"r")
        ledger.settle_ladder(held, b"bins")
        os.write(write, b"s")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(write, b".")
    told = os.read(read, 10).decode()
    with open_ledger() as ledger:
        charged, kept = ledger.ladder_charges(), ledger.ladders()
        assert ledger.check() == [], (point, ledger.check())
        for who in (None, "ann", "new"):
            assert ledger.budget(who).spent.epsilon == tenth * len(charged), point
        assert [each.payload for each in kept] in ([], [b"bins"]), point
        outcomes.append((told, len(charged), len(kept)))
    if code == 0:
        break
    assert code == -signal.SIGKILL, (point, code)
    for name in folder.iterdir():
        name.unlink()
    for name, content in empty.items():
        name.write_bytes(content)
    point += int(sys.argv[2])
print(json.dumps(outcomes))
"""


@pytest.mark.parametrize(
    "stride", [101, pytest.param(41, marks=pytest.mark.longer), pytest.param(1, marks=pytest.mark.slow)]
)
def test_a_crash_at_any_point_loses_no_charge_of_a_ladder(tmp_path: Path, stride: int) -> None:
    outcomes = {
        tuple(outcome) for outcome in json.loads(finish(start(CRASHES, tmp_path / "ledger.sqlite", stride)))
    }
    possible = {
        (".", 0, 0),  # before the charge was durable
        (".", 1, 0),  # durable, but nobody was told
        ("r.", 1, 0),  # reserved
        ("r.", 1, 1),  # kept, but not shown to anybody
        ("rs.", 1, 1),  # shown
    }
    assert outcomes == possible if stride == 1 else outcomes <= possible
    told, whole = {told for told, _, _ in outcomes}, {".", "r.", "rs."}
    assert told == whole if stride < 101 else len(told) > 1 and told <= whole
