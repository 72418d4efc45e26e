"""Runs an engine's statement in a thread of its own, so that Ctrl-C and `cancel` stop it at once."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

__all__ = ["Cancellation", "Ending", "Outcome", "run", "stoppable", "watch_failures"]

_TICK = 0.05
_PATIENCE = 20
"""Ticks for which a second Ctrl-C does not stop the cancelling: a running statement uses the database."""

_Result = TypeVar("_Result")


class Ending(Enum):
    """How a statement ended, by the engine's own report."""

    RUNNING = "running"
    ANSWERED = "answered"
    INTERRUPTED = "interrupted"
    """A person asked for an interrupt before the timeout, and the engine reports one or had not begun."""
    FAILED = "failed"


@dataclass(slots=True)
class Outcome(Generic[_Result]):
    """How the work ended, with its value if it was answered; its error is not kept."""

    ending: Ending = Ending.RUNNING
    value: _Result | None = None


class Cancellation:
    """Stops one statement: what the thread in its `with` block runs on engines, and nothing else."""

    def __init__(self) -> None:
        # A signal handler may ask for it in the thread that holds the lock.
        self._lock = threading.RLock()
        self._stop: Callable[[], None] | None = None
        self._outer: Cancellation | None = None
        self.requested = False

    def request(self) -> None:
        """Stop what runs, from any thread; what the statement would run next does not begin."""
        with self._lock:
            self.requested = True
            if self._stop is not None:
                self._stop()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Let `request` call a function during the block; when the block has ended, no call is under way."""
        with self._lock:
            before, self._stop = self._stop, stop
        try:
            yield
        finally:
            with self._lock:
                self._stop = before

    def __enter__(self) -> Self:
        self._outer, _here.cancellation = _here.cancellation, self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _here.cancellation = self._outer


class _Here(threading.local):
    """What concerns the engine work that a thread starts: its statement, and who watches for failures."""

    cancellation: Cancellation | None = None
    endings: list[Callable[[], Ending]] | None = None


_here = _Here()


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[Cancellation]:
    """Let the cancellation of this thread's statement call a function during the block; yield it."""
    cancellation = _here.cancellation or Cancellation()
    with cancellation.stopping(stop):
        yield cancellation


@contextmanager
def watch_failures() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether any work that this thread ran in the block has failed.

    It is true as soon as the engine has failed, before any error is raised: a Ctrl-C after that must not
    turn the failure into an interrupt.
    """
    before = _here.endings
    endings: list[Callable[[], Ending]] = []
    _here.endings = endings
    try:
        yield lambda: any(ending() is Ending.FAILED for ending in endings)
    finally:
        _here.endings = before


class _Work(Generic[_Result]):
    """One piece of work: what it runs, its timeout, and how it ended."""

    def __init__(
        self,
        work: Callable[[], _Result],
        interrupted: Callable[[BaseException], bool],
        timeout: float | None,
        cancellation: Cancellation,
    ) -> None:
        self._work = work
        self._interrupted = interrupted
        self._cancellation = cancellation
        self._timeout = timeout
        self._start = time.monotonic()
        self._given_up = False
        """Whether Ctrl-C asked the work to stop."""
        self._begun = False
        self._gate = threading.Lock()
        self.ended: Outcome[_Result] = Outcome()
        self.done = threading.Event()

    @property
    def stop_requested(self) -> bool:
        """Whether a person asked the work to stop."""
        return self._given_up or self._cancellation.requested

    def give_up(self) -> bool:
        """Ask the work to stop, and keep it from beginning; return whether it has begun."""
        with self._gate:
            self._given_up = True
            return self._begun

    def _begins(self) -> bool:
        with self._gate:
            self._begun = not self.stop_requested
            return self._begun

    def body(self) -> None:
        """Run the work; no exception leaves this method."""
        try:
            if self._begins():
                self.ended.value = self._work()
                self.ended.ending = Ending.ANSWERED
            else:
                self.ended.ending = Ending.INTERRUPTED
        except BaseException as error:  # noqa: BLE001  the thread's own hook would print it
            # Some engines report a timeout as an interrupt, but no person asked for it.
            self.ended.ending = Ending.FAILED
            with suppress(Exception):
                if self.stop_requested and not self.timed_out(0.99) and self._interrupted(error):
                    self.ended.ending = Ending.INTERRUPTED
        finally:
            self.done.set()

    def timed_out(self, part: float = 1.0) -> bool:
        """Whether this part of the timeout has passed."""
        return self._timeout is not None and time.monotonic() - self._start > part * self._timeout

    def ending(self) -> Ending:
        return self.ended.ending


def run(
    work: Callable[[], _Result],
    stop: Callable[[], None],
    interrupted: Callable[[BaseException], bool],
    timeout: float | None = None,
) -> Outcome[_Result]:
    """Run work in a thread and return its outcome; no exception of the engine leaves this function.

    After `timeout` seconds, or once the statement is cancelled, `stop` is called repeatedly until the work
    ends: a call before the engine has begun has no effect. `interrupted` says whether an error is the
    engine's report of an interrupt. Every other error is a failure, even if the work was cancelled.
    """
    with stoppable(stop) as cancellation:
        job = _Work(work, interrupted, timeout, cancellation)
        if _here.endings is not None:
            _here.endings.append(job.ending)
        worker = threading.Thread(target=job.body, daemon=True)
        ticks = 0
        try:
            worker.start()
            # Not join(): before Python 3.13 a Ctrl-C in it marks the running thread as ended.
            while not job.done.wait(_TICK):
                ticks += 1
                if ticks % 4 == 0 and (job.timed_out() or cancellation.requested):
                    stop()
        except BaseException:
            # A thread whose start was interrupted may begin later: then it must not run, for nobody waits for
            # it, and a process that ends while the engine runs in such a thread is aborted.
            if job.give_up():
                _stop(job.done, stop)
            raise
        return job.ended


def _stop(done: threading.Event, stop: Callable[[], None]) -> None:
    """Stop the work repeatedly until it has ended."""
    ticks = 0
    while not done.is_set():
        try:
            stop()
            done.wait(_TICK)
        except KeyboardInterrupt:
            if ticks > _PATIENCE:
                raise
        ticks += 1
