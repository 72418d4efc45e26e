"""Charges of statements that read released numbers: over a cap, failed at a release, killed at a step."""

from __future__ import annotations

import subprocess
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.errors import BudgetExceeded, OperationalError
from dpsql.kernel.loss import Charge
from dpsql.policy import load
from dpsql.session import Session
from tests.commands import Commands
from tests.narrow import engine_of
from tests.support.world import open_world, world_fixture, write_world
from tests.unit.composition.test_released_values import ABOVE

POLICY = """
[budget]
epsilon = 50
default_epsilon = 0.5
max_failures = 3
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.bounds]
ms = { from = 0, to = 100 }
"""
VISITS = "SELECT i % 300 AS user_id, i * 37 % 101 AS ms FROM range(2000) t(i)"
LISTED = (
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms >= (SELECT AVG(ms) FROM visits WHERE ms > "
    "(SELECT AVG(ms) FROM visits))"
)
"""Three releases, each of which reads the one before."""


def states(session: Session) -> list[str]:
    return [entry.state for entry in session.ledger.entries()][::-1]


session = world_fixture(POLICY, scope="function", visits=VISITS)


@pytest.mark.parametrize("cap", ["[budget]\nepsilon = 50", "[tables.visits]"])
def test_a_price_over_a_cap_runs_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: str
) -> None:
    """The first release alone would be within it."""
    less = "[budget]\nepsilon = 0.9" if "50" in cap else f'[analysts."*"]\nepsilon = 0.9\n{cap}'
    with open_world(tmp_path, POLICY.replace(cap, less, 1), visits=VISITS) as session:
        counted: list[object] = []
        monkeypatch.setattr(engine_of(session), "count", counted.append)
        session.run("SET dp_epsilon = 1")
        with pytest.raises(BudgetExceeded) as caught:
            session.run(ABOVE)
        assert caught.value.requested == (Fraction(1), Fraction(0))
        assert not counted
        assert states(session) == []


@pytest.mark.parametrize("broken", [1, 2, 3])
@pytest.mark.sampled(3, rest="longer")
def test_where_one_release_fails_all_stay_charged(
    session: Session, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    """Whether the second fails may follow from the number of the first: no other failure is cheaper."""
    true, counted = engine_of(session).count, 0

    def count(compiled: object) -> object:
        nonlocal counted
        counted += 1
        if counted == broken:
            raise ValueError("4711 rows")
        return true(compiled)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_of(session), "count", count)
    with pytest.raises(OperationalError) as caught:
        session.run(LISTED)
    assert "4711" not in str(caught.value)
    assert counted == broken
    assert states(session) == ["failed"] * 3
    assert session.budget().spent == Charge(Fraction(1, 2))
    assert session.ledger.releases(session.analyst) == []
    assert session.ledger.check() == []


KILLED = """
import os, sys
from pathlib import Path
from dpsql.policy import load
from dpsql.session import Session
from tests.unit.composition.test_values_charged import LISTED

for step in (int(step) if step.isdigit() else step for step in sys.argv[2:]):
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        continue
    session = Session(load(Path(sys.argv[1])), str(step))
    engine, counted = session.database.engines().engine, 0
    true = engine.count

    def count(compiled):
        global counted
        counted += 1
        return os._exit(9) if counted == step else true(compiled)

    if isinstance(step, int):
        engine.count = count
    else:
        session.ledger.settle_all = lambda *_: os._exit(9)
    session.run(LISTED)
"""


@pytest.mark.parametrize("steps", ["settle_all", pytest.param("1 2 3", marks=pytest.mark.longer)])
def test_a_statement_that_is_killed_at_a_step_stays_charged_in_full(
    tmp_path: Path, commands: Commands, steps: str
) -> None:
    names = steps.split()
    path = write_world(tmp_path, POLICY, visits=VISITS)
    command = [*commands.command, "python", KILLED, str(path), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with closing(Session(load(path), "owner")) as session:
        assert states(session) == ["reserved"] * 3 * len(names)
        assert session.budget().spent == Charge(Fraction(len(names), 2))
        assert [session.ledger.count_failures(name) for name in names] == [1] * len(names)
        assert session.ledger.check() == []
