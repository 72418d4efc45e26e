"""Engine work under a limit of time: it begins in time, is stopped in time, and no late result is kept."""

from __future__ import annotations

import threading

import pytest

from dpsql.engines import Cancelled, RunningStatement, running_statement
from dpsql.engines.worker import run_in_thread
from dpsql.errors import OperationalError


def over() -> RunningStatement:
    """Return a statement whose time is over."""
    statement = RunningStatement()
    statement.end_within(0)
    return statement


def test_work_does_not_begin_when_the_time_is_over() -> None:
    began = threading.Event()
    with running_statement(over()) as statement:
        assert run_in_thread(began.set, lambda: None, lambda _: False, "") is None
    assert not began.is_set()
    assert statement.failed


def test_a_result_that_comes_after_the_time_is_a_failure() -> None:
    statement = RunningStatement()

    def late() -> int:
        while not ended.wait(0.001):
            pass
        return 1

    ended = threading.Event()
    statement.end_within(0.01)
    with running_statement(statement):
        threading.Timer(0.02, ended.set).start()
        assert run_in_thread(late, lambda: None, lambda _: False, "") is None
    assert statement.failed


def test_work_is_stopped_again_if_the_first_time_came_too_early() -> None:
    stops: list[int] = []
    stopped = threading.Event()

    def stop() -> None:
        if stopped.is_set():
            return  # the work has not got as far as to end
        stops.append(1)
        if len(stops) == 3:
            stopped.set()

    def work() -> int:
        assert stopped.wait(60)
        raise RuntimeError("stopped")

    statement = RunningStatement()
    statement.end_within(0.2)  # time enough to begin, on a busy machine too
    with running_statement(statement):
        # The engine's report of an interrupt that no person asked for is a failure.
        assert run_in_thread(work, stop, lambda _: True, "") is None
    assert statement.failed
    assert len(stops) == 3


def test_what_nothing_was_charged_for_is_checked_before_it_goes_on() -> None:
    RunningStatement().check()
    with pytest.raises(OperationalError, match="nothing was charged"):
        over().check()
    cancelled = RunningStatement()
    cancelled.cancel()
    with pytest.raises(Cancelled, match="nothing was charged"):
        cancelled.check()
