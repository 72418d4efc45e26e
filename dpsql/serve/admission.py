"""Threads that take work of many analysts in turn, so that none of them can keep the others waiting."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field
from functools import partial
from typing import Any, Generic, TypeVar

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.errors import QueueFull, ShuttingDown

_T = TypeVar("_T")


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Job(Generic[_T]):
    """Work that waits or runs, and its future."""

    analyst: str
    work: Callable[[], _T]
    future: Future[_T] = field(default_factory=Future)

    def run(self) -> Callable[[], None]:
        """Run the work, unless it was cancelled; return what tells its end to those who wait for it."""
        future = self.future
        if not future.set_running_or_notify_cancel():
            return lambda: None
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001  it is the future's
            try:
                return partial(future.set_exception, error)
            finally:
                del self, future  # the error holds this frame, and must not hold itself by it
        return partial(future.set_result, result)


class FairPool:
    """Runs work in threads: of each analyst at most `each` at a time, and of all analysts in turn.

    At most `waiting` pieces of work wait, of an analyst at most `waiting_each` (None: any number); more are
    refused. What waits may be cancelled by its future, and then never runs.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        each: int = 1,
        waiting: int | None = None,
        waiting_each: int | None = None,
    ) -> None:
        self._each = each
        self._most = waiting
        self._most_each = waiting_each
        self._changed = threading.Condition()
        self._queues: dict[str, deque[_Job[Any]]] = {}
        """The waiting work of each analyst who has any; the analysts in the order of their turns."""
        self._running: Counter[str] = Counter()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"dpsql {name} {i}", daemon=True) for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many pieces of work wait."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        """How many pieces of work run."""
        with self._changed:
            return self._running.total()

    def submit(self, analyst: str, work: Callable[[], _T]) -> Future[_T]:
        """Let work wait for its turn; raises `QueueFull` or `ShuttingDown`."""
        job = _Job(analyst, work)
        with self._changed:
            if self._closed:
                raise ShuttingDown("the server is shutting down")
            self._admit(analyst)
            self._queues.setdefault(analyst, deque()).append(job)
            self._changed.notify()
        # A future keeps its callbacks. One that held the job, which holds the future, would be a cycle with
        # the result in it, and only the cyclic garbage collector would free that.
        waits = weakref.ref(job)
        job.future.add_done_callback(lambda future: self._withdraw(waits()) if future.cancelled() else None)
        return job.future

    def _admit(self, analyst: str) -> None:
        """Raise `QueueFull` if the queues are full, and a thread is not free for this work at once."""
        own = len(self._queues.get(analyst, ()))
        everyone = sum(map(len, self._queues.values()))
        free = len(self._threads) - self._running.total()
        before = sum(min(len(q), self._each - self._running[name]) for name, q in self._queues.items())
        if before < free and own + self._running[analyst] < self._each:
            return
        if self._most_each is not None and own >= self._most_each:
            raise QueueFull(f"{own} statements of yours are waiting already; nothing was charged")
        if self._most is not None and everyone >= self._most:
            raise QueueFull("too many statements of all analysts are waiting; nothing was charged")

    def _withdraw(self, job: _Job[Any] | None) -> None:
        """Take work back that was cancelled while it waited; None: it ran, and nothing holds it any more."""
        with self._changed:
            queue = None if job is None else self._queues.get(job.analyst)
            if job is None or queue is None or job not in queue:
                return
            queue.remove(job)
            if not queue:
                del self._queues[job.analyst]

    def _next(self) -> _Job[Any] | None:
        """Return the work whose turn it is, and move its analyst behind the others; None if none may run."""
        for analyst in self._queues:
            if self._running[analyst] < self._each:
                queue = self._queues.pop(analyst)
                job = queue.popleft()
                if queue:
                    self._queues[analyst] = queue
                self._running[analyst] += 1
                return job
        return None

    def _work(self) -> None:
        while True:
            with self._changed:
                while (job := self._next()) is None:
                    if self._closed and not self._queues:
                        return
                    self._changed.wait()
            tell = job.run()
            with self._changed:
                self._running[job.analyst] -= 1
                if not self._running[job.analyst]:
                    del self._running[job.analyst]
                self._changed.notify_all()
            tell()
            del job, tell  # its result may be large

    def close(self, within: float | None = None) -> bool:
        """Take no more work, and return whether all of it has ended within so many seconds.

        What waits still runs. None: wait for it, however long it takes. The threads that have not ended then
        do not keep the process alive.
        """
        until = None if within is None else time.monotonic() + within
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)
