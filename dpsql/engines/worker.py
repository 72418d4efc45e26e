"""Runs an engine's statement in a thread of its own, so that Ctrl-C and `cancel` stop it at once."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Ending", "Outcome", "run", "watch_failures"]

_TICK = 0.05
_PATIENCE = 20
"""Ticks for which a second Ctrl-C does not stop the cancelling: a running statement uses the database."""

_Result = TypeVar("_Result")


class Ending(Enum):
    """How a statement ended, by the engine's own report."""

    RUNNING = "running"
    ANSWERED = "answered"
    INTERRUPTED = "interrupted"
    """The engine reports an interrupt, and a person had asked for one before the timeout."""
    FAILED = "failed"


@dataclass(slots=True)
class Outcome(Generic[_Result]):
    """How the work ended, with its value if it was answered; its error is not kept."""

    ending: Ending = Ending.RUNNING
    value: _Result | None = None


class _Observers(threading.local):
    endings: list[Callable[[], Ending]] | None = None


_observers = _Observers()


@contextmanager
def watch_failures() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether any work that this thread ran in the block has failed.

    It is true as soon as the engine has failed, before any error is raised: a Ctrl-C after that must not
    turn the failure into an interrupt.
    """
    before = _observers.endings
    endings: list[Callable[[], Ending]] = []
    _observers.endings = endings
    try:
        yield lambda: any(ending() is Ending.FAILED for ending in endings)
    finally:
        _observers.endings = before


class _Work(Generic[_Result]):
    """One piece of work: what it runs, its timeout, and how it ended."""

    def __init__(
        self,
        work: Callable[[], _Result],
        interrupted: Callable[[BaseException], bool],
        timeout: float | None,
        cancelled: Callable[[], bool],
    ) -> None:
        self._work = work
        self._interrupted = interrupted
        self._cancelled = cancelled
        self._timeout = timeout
        self._start = time.monotonic()
        self.stop_requested = False
        """Whether Ctrl-C asked the work to stop."""
        self._begun = False
        self._gate = threading.Lock()
        self.ended: Outcome[_Result] = Outcome()
        self.done = threading.Event()

    def give_up(self) -> bool:
        """Ask the work to stop, and keep it from beginning; return whether it has begun."""
        with self._gate:
            self.stop_requested = True
            return self._begun

    def _begins(self) -> bool:
        with self._gate:
            self._begun = not self.stop_requested
            return self._begun

    def body(self) -> None:
        """Run the work; no exception leaves this method."""
        if not self._begins():
            return
        try:
            self.ended.value = self._work()
            self.ended.ending = Ending.ANSWERED
        except BaseException as error:  # noqa: BLE001  the thread's own hook would print it
            # Some engines report a timeout as an interrupt, but no person asked for it.
            self.ended.ending = Ending.FAILED
            with suppress(Exception):
                stop_requested = (self.stop_requested or self._cancelled()) and not self.timed_out(0.99)
                if stop_requested and self._interrupted(error):
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
    cancel: Callable[[], None],
    interrupted: Callable[[BaseException], bool],
    timeout: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Outcome[_Result]:
    """Run work in a thread and return its outcome; no exception of the engine leaves this function.

    After `timeout` seconds, or once `cancelled` returns True, `cancel` is called repeatedly until the work
    ends: a call before the engine has begun has no effect. `interrupted` says whether an error is the
    engine's report of an interrupt. Every other error is a failure, even if the work was cancelled.
    """
    job = _Work(work, interrupted, timeout, cancelled)
    if _observers.endings is not None:
        _observers.endings.append(job.ending)
    worker = threading.Thread(target=job.body, daemon=True)
    ticks = 0
    try:
        worker.start()
        # Not join(): before Python 3.13 a Ctrl-C in it marks the running thread as ended.
        while not job.done.wait(_TICK):
            ticks += 1
            if ticks % 4 == 0 and (job.timed_out() or cancelled()):
                cancel()
    except BaseException:
        # A thread whose start was interrupted may begin later: then it must not run, for nobody waits for it,
        # and a process that ends while the engine runs in such a thread is aborted.
        if job.give_up():
            _stop(job.done, cancel)
        raise
    return job.ended


def _stop(done: threading.Event, cancel: Callable[[], None]) -> None:
    """Cancel repeatedly until the work has ended."""
    ticks = 0
    while not done.is_set():
        try:
            cancel()
            done.wait(_TICK)
        except KeyboardInterrupt:
            if ticks > _PATIENCE:
                raise
        ticks += 1
