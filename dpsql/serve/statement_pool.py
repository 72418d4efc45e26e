"""A statement that a client asks: how it is awaited in a pool of threads, cancelled, timed out and held.

With `time_steps` the reply of a private statement comes at one of few times after its start.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dpsql.engines import Cancelled, ResultLimit, RunningStatement
from dpsql.errors import InterfaceError, OperationalError, StatementFailed
from dpsql.serve.limits import TimedOut

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dpsql.serve.shared import FairPool, Generation
    from dpsql.serve.statement_run import StatementRun

_T = TypeVar("_T")

NOTHING_CHARGED = "the statement was cancelled while it waited; nothing was charged"
_STEPS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""With `time_steps`, the seconds after its start at which the reply of a private statement may come."""


class ActiveStatement:
    """A statement that is asked now, which can be cancelled wherever it is. Made on the event loop."""

    def __init__(self, analyst: str, limit: ResultLimit, seconds: float) -> None:
        """Begin its time: a given number of seconds."""
        self.analyst = analyst
        self.running = RunningStatement(limit)
        self.running.end_within(seconds)
        self.future: Future[object] | None = None
        """Its work in a pool, which may go on when nobody awaits it any more."""
        self.run: StatementRun | None = None
        """Its steps, once they have begun."""
        self.asked = time.monotonic()
        self.waited = 0.0
        self._awaited: asyncio.Future[Any] | None = None
        """What the client waits for and may give up: work that costs nothing."""
        self._loop = asyncio.get_running_loop()

    def cancel(self) -> None:
        """Stop the statement, from any thread; work that waits never begins."""
        self.running.cancel()
        future = self.future
        if future is not None:
            future.cancel()  # it has an effect while it waits alone
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._give_up)

    def _give_up(self) -> None:
        """Wait no longer for what may be given up; in the thread of the event loop."""
        if self._awaited is not None:
            self._awaited.cancel()

    async def await_free_work(self, pool: FairPool, generation: Generation, work: Callable[[], _T]) -> _T:
        """Await work that costs nothing; nobody waits longer once it is cancelled or its time is over.

        What waits for its turn then never begins. What has begun ends by itself, as soon as it looks at the
        statement, and keeps the turn of its analyst until then; what it finds is dropped.
        """
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        self._awaited = awaited = self._begin(pool, generation, work)
        timer = loop.call_later(self.running.remaining or 0.0, self._give_up)
        try:
            if self.running.cancelled:
                self._give_up()
            return await awaited
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                raise
            if self.running.cancelled:
                raise Cancelled(NOTHING_CHARGED) from None
            self.running.cancel()
            raise _timeout_error(charged=False) from None
        finally:
            timer.cancel()
            self._awaited = None
            del awaited  # an error holds this frame, and must not hold itself by it
            self._forget_ended()

    async def await_charged_work(self, pool: FairPool, generation: Generation, work: Callable[[], _T]) -> _T:
        """Await work that may be charged, to its end once it has begun; its time stands still before that."""
        task = asyncio.current_task()
        awaited = self._begin(pool, generation, work, self.running.remaining)
        try:
            return await awaited
        except asyncio.CancelledError:
            if self.running.cancelled and (task is None or not task.cancelling()):
                raise Cancelled(NOTHING_CHARGED) from None
            raise
        finally:
            del awaited  # as above
            self._forget_ended()

    def _begin(
        self, pool: FairPool, generation: Generation, work: Callable[[], _T], seconds: float | None = None
    ) -> asyncio.Future[_T]:
        """Let work wait for its turn; the time until it begins is waiting time.

        With `seconds`, so much time is left to it from its begin on.
        """
        asked = time.monotonic()

        def run_in_time() -> _T:
            self.waited += time.monotonic() - asked
            with generation.use():
                if self.running.cancelled:
                    raise Cancelled(NOTHING_CHARGED)
                if seconds is not None:
                    self.running.end_within(seconds)
                return _within_time(self.running, work)

        future = pool.submit(self.analyst, run_in_time)
        self.future = future  # type: ignore[assignment]  # its result is not looked at there
        if self.running.cancelled:
            future.cancel()
        return asyncio.wrap_future(future)

    def _forget_ended(self) -> None:
        """Forget the work of the statement, unless it runs on."""
        if self.future is not None and (self.future.cancel() or self.future.done()):
            self.future = None


class Retired(Exception):  # noqa: N818  it never leaves `Client`
    """The policy was read again before the statement began to run."""


def step_after(passed: float, timeout: float) -> float:
    """Return the seconds after its start at which the reply of a private statement may come.

    >>> [step_after(passed, 300) for passed in (0.1, 0.25, 0.3, 90, 299, 301)]
    [0.25, 0.25, 1.0, 256.0, 300, 301]
    >>> step_after(17, 20)
    20
    """
    return min((step for step in (*_STEPS, timeout) if step >= passed), default=passed)


class Hold:
    """Waits once until the reply of a private statement may come, or the server ends.

    It waits before the ledger says that the statement has ended: another connection of the analyst could read
    there when that was.
    """

    def __init__(self, timeout: float, ended: threading.Event) -> None:
        """Let the statement begin now; it may run for `timeout` seconds."""
        self._begun, self._timeout, self._ended = time.monotonic(), timeout, ended
        self._done = False

    def __call__(self) -> None:
        """Wait, unless it was done before."""
        if self._done:
            return
        self._done = True
        passed = time.monotonic() - self._begun
        self._ended.wait(step_after(passed, self._timeout) - passed)


def _within_time(running: RunningStatement, work: Callable[[], _T]) -> _T:
    """Run work; an error because of the limit of time says so."""
    try:
        running.check()
        return work()
    except StatementFailed:
        if not running.timed_out:
            raise
        charged = True
    except (Cancelled, InterfaceError):
        raise
    except OperationalError as error:
        if not running.timed_out or type(error) is not OperationalError:
            raise
        charged = False
    raise _timeout_error(charged=charged)


def _timeout_error(*, charged: bool) -> TimedOut:
    kept = "its charge is kept, and it counts as a failure" if charged else "it cost nothing"
    return TimedOut(f"the statement was stopped by statement_timeout; {kept}")
