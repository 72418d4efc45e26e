"""With `time_steps` a cancel is looked at when the reply is due: it does not tell when the work had ended."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from dpsql.engines import Cancelled
from dpsql.errors import Error
from dpsql.serve.service import Service
from tests.served import client_of, run, serving
from tests.unit.serve.test_service import COUNT, POLICY, states_of

_numbers = itertools.count()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    duckdb.sql(f"COPY (SELECT i AS user_id FROM range(500) t(i)) TO '{tmp_path}/visits.parquet'")
    (tmp_path / "pages.csv").write_text("page\na\nb\n")
    (tmp_path / "dpsql.toml").write_text(POLICY.replace("max_failures = 3", "max_failures = 30"))
    return tmp_path / "dpsql.toml"


class Clock:
    """Time that passes only when work takes it, or a reply is held; something happens at one moment of it."""

    def __init__(self, at: float, happens: Callable[[], None]) -> None:
        self.now, self._at, self._happens = 100.0, 100.0 + at, happens

    def passes(self, seconds: float) -> bool:
        """Let time pass; return whether the moment was in it."""
        begun, self.now = self.now, self.now + seconds
        if begun <= self._at < self.now:
            self._happens()
            return True
        return False


def outcome(service: Service, takes: float, cancel: float, *, fails: bool) -> Any:
    """Return all that can be seen of a statement whose work takes so long, cancelled at a moment."""
    client = client_of(service)
    clock = Clock(cancel, client.cancel)
    engine: Any = service.generation.database.engines().engine
    true, ledger = type(engine).count, service.generation.database.ledger

    def count(compiled: Any) -> Any:
        # A cancel stops work that runs, and then the reply is due at the next step.
        if cancel < takes:
            clock.passes(cancel + 0.001)
            raise Cancelled("stopped")
        clock.passes(takes)
        return true(engine, compiled) if not fails else 1 // 0

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            clock.passes(timeout or 0.0)
            return False

    def counts() -> list[int]:
        return [
            ledger.count_failures("alice"),
            ledger.count_cancelled("alice"),
            len(ledger.releases("alice")),
        ]

    before, began = counts(), clock.now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsql.serve.statement_pool.time", SimpleNamespace(monotonic=lambda: clock.now))
        patch.setattr(engine, "count", count)
        patch.setattr(service, "ended", Ended())
        try:
            number = next(_numbers)  # another question each time, so that no kept count answers it
            text = COUNT.replace("epsilon = 1", "epsilon = 0.1")
            run(client.answer(f"{text} WHERE user_id > {number}"))
            seen = "answered"
        except Error as error:
            seen = f"{error.sqlstate} {error}"
    more = [after - each for after, each in zip(counts(), before, strict=True)]
    return round(clock.now - began, 3), seen, more, states_of(service)["alice"][-1]


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_seen_depends_on_the_step_alone(policy: Path, fails: bool) -> None:
    with serving(policy, time_steps=True) as service:

        def seen(takes: float, cancel: float) -> str:
            return str(outcome(service, takes, cancel, fails=fails))

        # Cancelled at .14 s: work of .05, .13, .18 or .9 seconds is told apart by nothing.
        text = "57014 the statement was cancelled; its charge is kept"
        assert {seen(takes, 0.14) for takes in (0.05, 0.13, 0.18, 0.9)} == {
            str((0.25, text, [0, 1, 0], "cancelled"))
        }
        # Cancelled at .5 s: the reply to shorter work came before, as if nobody had cancelled.
        assert seen(0.1, 0.5) == seen(0.2, 0.5) == seen(0.1, 9)
        assert {seen(takes, 0.5) for takes in (0.3, 0.49, 0.6)} == {str((1.0, text, [0, 1, 0], "cancelled"))}
