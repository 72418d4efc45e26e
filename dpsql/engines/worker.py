"""Run an engine's statement in another thread, so that Ctrl-C and `cancel` stop it at once.

What engines raise is defined here too: one of few constant messages. No exception of an engine gets out.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpsql.errors import OperationalError, Unknown
from dpsql.kernel.charged_work import UNCHARGED, Cancelled
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.analysis import CompiledQuery

KEPT = "the statement was cancelled; what it released is stored, and costs nothing when it is asked again"


class Untranslatable(Exception):  # noqa: N818  a refusal of the statement for this engine
    """The engine cannot run a part of the statement with DuckDB's result on every value.

    It is raised before anything is charged. `hint` says what to write instead.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnboundQuery(Exception):  # noqa: N818  a refusal of the statement
    """A query over released rows names or types something that is not there; nothing was charged."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def missing_name(self) -> tuple[Unknown, str]:
        """The kind and the name of what the query names and does not exist; empty texts if unknown."""
        for what, pattern in _MISSING.items():
            found = re.search(pattern, self.message)
            if found is not None:
                return what, found[1]
        return "", ""


_MISSING: dict[Unknown, str] = {
    "column": r'(?:Referenced column|does not have a column named) "([^"\n]{1,100})"',
    "function": r"Function with name \"?([^\"\s]{1,100})\"? does not exist",
    "table": r"Table with name \"?([^\"\s!]{1,100})\"? does not exist",
}
"""How DuckDB reports a name that does not exist, by what the name would mean."""

_TICK = 0.05
_FIRST_STOP, _LAST_STOP = 0.005, 0.2
"""Seconds between the calls that stop work: the second comes soon, for the first may have come too early."""
_PATIENCE = 20
"""Ticks for which a second Ctrl-C does not stop the cancelling: a running statement uses the database."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class ResultLimit:
    """The most rows, and bytes of Arrow data, that a result may have."""

    rows: int
    bytes: int


class RunningStatement:
    """The engine work of one statement, which `cancel` stops without stopping another statement's.

    A server also limits its time and the size of its result.
    """

    def __init__(self, limit: ResultLimit | None = None) -> None:
        self.limit = limit
        self._deadline: float | None = None
        # A signal handler may cancel in the thread that holds the lock.
        self._lock = threading.RLock()
        self._stop: Callable[[], None] | None = None
        self.cancelled = False
        """Whether a person cancelled it: what runs is stopped, and no further work begins."""
        self.failed = False
        """Whether any of its work has failed; true before an error is raised for it."""
        self.beside: tuple[CompiledQuery, ...] = ()
        """Queries of statements that come next: one query may count for them, too, where that is kept."""
        self.before_end: Callable[[], None] | None = None
        """Called when its private work has ended, before the ledger and so anybody else can know.

        What was cancelled until it returns has no answer, whether or not the work had ended by itself.
        """

    def end_within(self, seconds: float) -> None:
        """Let engine work that has not ended a given number of seconds from now fail."""
        self._deadline = time.monotonic() + seconds

    @property
    def remaining(self) -> float | None:
        """The seconds until engine work fails; None: there is no limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @contextmanager
    def untimed(self) -> Iterator[None]:
        """Let the time of the statement stand still in this block."""
        before, self._deadline = self.remaining, None
        try:
            yield
        finally:
            if before is not None:
                self.end_within(before)

    @property
    def timed_out(self) -> bool:
        """Whether the statement's time is over."""
        return self.remaining == 0

    def check(self) -> None:
        """Raise if the statement was cancelled or its time is over; for work that nothing was charged for."""
        if self.cancelled:
            raise Cancelled(UNCHARGED)
        if self.timed_out:
            raise OperationalError("the time of the statement is over; nothing was charged")

    def cancel(self) -> None:
        """Stop the statement, from any thread."""
        with self._lock:
            self.cancelled = True
            if self._stop is not None:
                self._stop()

    @contextmanager
    def stopped_by(self, stop: Callable[[], None]) -> Iterator[None]:
        """Let `cancel` call a function during the block; when the block has ended, no call is under way."""
        with self._lock:
            before, self._stop = self._stop, stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = before


class _Here(threading.local):
    statement: RunningStatement | None = None


_here = _Here()


@contextmanager
def running_statement(begun: RunningStatement | None = None) -> Iterator[RunningStatement]:
    """Yield the statement to which this thread's engine work belongs: a given one, or that which runs."""
    outer = _here.statement
    statement = _here.statement = begun or outer or RunningStatement()
    try:
        yield statement
    finally:
        _here.statement = outer


@dataclass(eq=False, slots=True)
class _Job(Generic[_Result]):
    """One piece of work: what it runs, its timeout, and how it ended."""

    _work: Callable[[], _Result]
    _interrupted: Callable[[BaseException], bool]
    _timeout: float | None
    _statement: RunningStatement
    _start: float = field(default_factory=time.monotonic)
    _gate: threading.Lock = field(default_factory=threading.Lock)
    _begun: bool = False
    _given_up: bool = False
    result: _Result | None = None
    interrupted: bool = False
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def _stop_requested(self) -> bool:
        return self._given_up or self._statement.cancelled

    def give_up(self) -> bool:
        """Ask the work to stop, and keep it from beginning; return whether it has begun."""
        with self._gate:
            self._given_up = True
            return self._begun

    def body(self) -> None:
        """Run the work; no exception leaves this method, and no error is kept."""
        try:
            with self._gate:
                self._begun = not (self._stop_requested or self.timed_out())
            if self._begun:
                self.result = self._work()
            else:
                self.interrupted = self._stop_requested
            if self.timed_out() and not self.interrupted:
                self.result, self._statement.failed = None, True
        except BaseException as error:  # noqa: BLE001  the thread's own hook would print it
            with suppress(Exception):
                # Some engines report a timeout as an interrupt, but no person asked for it.
                asked = self._stop_requested and not self.timed_out(0.99)
                self.interrupted = asked and self._interrupted(error)
            if not self.interrupted:
                self._statement.failed = True
        finally:
            self.done.set()

    def timed_out(self, part: float = 1.0) -> bool:
        """Return whether a given fraction of the timeout has passed."""
        return self._timeout is not None and time.monotonic() - self._start >= part * self._timeout

    @property
    def left(self) -> float:
        """The seconds until the timeout; infinite without one."""
        return float("inf") if self._timeout is None else self._start + self._timeout - time.monotonic()


_waiting: list[SimpleQueue[_Job[Any]]] = []
"""Threads that have ended their work: to start one takes longer than to wake it up."""
_MOST_WAITING = 4
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_waiting.clear)  # a child has none of them


def _begin(job: _Job[Any]) -> None:
    """Run a job in a thread that waits for one, or in a new one."""
    try:
        _waiting.pop().put(job)
    except IndexError:
        jobs = SimpleQueue[_Job[Any]]()
        jobs.put(job)
        threading.Thread(target=_run_jobs, args=(jobs,), daemon=True).start()


def _run_jobs(jobs: SimpleQueue[_Job[Any]]) -> None:
    while True:
        jobs.get().body()
        if len(_waiting) >= _MOST_WAITING:
            return
        _waiting.append(jobs)


def run_in_thread(
    work: Callable[[], _Result],
    stop: Callable[[], None],
    interrupted: Callable[[BaseException], bool],
    message: str,
    timeout: float | None = None,
) -> _Result | None:
    """Run work in a thread; return its result, or None if it failed. No exception of the engine gets out.

    After `timeout` seconds, after the time of the statement, or once it is cancelled, `stop` is called
    repeatedly until the work ends: a call before the engine has begun has no effect. `interrupted` says
    whether an error is the engine's report of an interrupt; then `Cancelled` is raised with `message`. Every
    other error is a failure, even if the work was cancelled; so is a result that comes after the time.
    """
    with running_statement() as statement, statement.stopped_by(stop):
        limits = [limit for limit in (timeout, statement.remaining) if limit is not None]
        job = _Job(work, interrupted, min(limits, default=None), statement)
        pause, next_stop = _FIRST_STOP, 0.0
        try:
            _begin(job)
            # Not join(): before Python 3.13 a Ctrl-C in it marks the running thread as ended.
            while not job.done.wait(max(0.0, min(_TICK, job.left if next_stop == 0 else pause))):
                now = time.monotonic()
                if now >= next_stop and (job.timed_out() or statement.cancelled):
                    stop()
                    next_stop, pause = now + pause, min(2 * pause, _LAST_STOP)
        except BaseException:
            # A thread whose start was interrupted may begin later: then it must not run, for nobody waits for
            # it, and a process that ends while the engine runs in such a thread is aborted.
            if job.give_up():
                _stop(job.done, stop)
            raise
    if job.interrupted:
        raise Cancelled(message)
    return job.result


def _stop(done: threading.Event, stop: Callable[[], None]) -> None:
    """Stop the statement again and again until its work has ended."""
    ticks = 0
    while not done.is_set():
        try:
            stop()
            done.wait(_TICK)
        except KeyboardInterrupt:
            if ticks > _PATIENCE:
                raise
        ticks += 1
