"""Run an engine's statement in a thread of its own, so that Ctrl-C and `cancel` stop it at once."""

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
"""Ticks for which a second Ctrl-C does not cut the cancelling short: what still runs holds the database."""

_Made = TypeVar("_Made")


class Ending(Enum):
    """How the engine ended what it ran, by its own report."""

    RUNNING = "running"
    ANSWERED = "answered"
    INTERRUPTED = "interrupted"
    """The engine says that it was interrupted, and a person had asked for it before the timeout."""
    FAILED = "failed"


@dataclass(slots=True)
class Outcome(Generic[_Made]):
    """What came of the work; its value is there if it was answered, and its error is kept by nobody."""

    ending: Ending = Ending.RUNNING
    value: _Made | None = None


class _Observers(threading.local):
    endings: list[Callable[[], Ending]] | None = None


_observers = _Observers()


@contextmanager
def watch_failures() -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether anything that this thread ran in the block has failed.

    It tells so as soon as the engine has failed, before any error is raised: a Ctrl-C after that
    must not turn the failure into something else.
    """
    before = _observers.endings
    endings: list[Callable[[], Ending]] = []
    _observers.endings = endings
    try:
        yield lambda: any(ending() is Ending.FAILED for ending in endings)
    finally:
        _observers.endings = before


class _Work(Generic[_Made]):
    """One piece of work, the thread it runs in, and how it ends."""

    def __init__(
        self,
        work: Callable[[], _Made],
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
        self.ended: Outcome[_Made] = Outcome()
        self.done = threading.Event()

    def body(self) -> None:
        """Run the work; no error leaves it, whatever it is."""
        try:
            self.ended.value = self._work()
            self.ended.ending = Ending.ANSWERED
        except BaseException as error:  # noqa: BLE001  the thread's own hook would print it
            # A timeout is no wish of a person's: some engines report it as an interrupt too.
            self.ended.ending = Ending.FAILED
            with suppress(Exception):
                stop_requested = (self.stop_requested or self._cancelled()) and not self.timed_out(0.99)
                if stop_requested and self._interrupted(error):
                    self.ended.ending = Ending.INTERRUPTED
        finally:
            self.done.set()

    def timed_out(self, part: float = 1.0) -> bool:
        """Whether this part of the time allowed has passed."""
        return self._timeout is not None and time.monotonic() - self._start > part * self._timeout

    def ending(self) -> Ending:
        return self.ended.ending


def run(
    work: Callable[[], _Made],
    cancel: Callable[[], None],
    interrupted: Callable[[BaseException], bool],
    timeout: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Outcome[_Made]:
    """Return what came of the work; no engine error may be seen, whatever it is.

    After `timeout` seconds, or once `cancelled` says so, the work is cancelled, again and again until it
    ends: what comes before the engine has begun is lost. `interrupted` tells whether an error is the
    engine's report of an interrupt; every other error is a failure, also when somebody cancelled.
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
        # A thread whose start was cut short may still have to begin.
        if worker.ident is not None:
            job.stop_requested = True
            _stop(job.done, cancel)
        raise
    return job.ended


def _stop(done: threading.Event, cancel: Callable[[], None]) -> None:
    """Cancel again and again until the work has ended."""
    ticks = 0
    while not done.is_set():
        try:
            cancel()
            done.wait(_TICK)
        except KeyboardInterrupt:
            if ticks > _PATIENCE:
                raise
        ticks += 1
