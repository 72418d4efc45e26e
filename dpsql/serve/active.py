"""A statement that a client asks now: how it is cancelled, and until when its reply is held."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpsql.engines import ResultLimit, RunningStatement

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dpsql.serve.statement_run import StatementRun

_STEPS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""With `time_steps`, the seconds after its start at which the reply of a private statement may come."""


class Active:
    """A statement that is asked now, which can be cancelled wherever it is. Made on the event loop."""

    def __init__(self, limit: ResultLimit, seconds: float) -> None:
        """Begin its time: so many seconds."""
        self.running = RunningStatement(limit)
        self.running.end_within(seconds)
        self.future: Future[object] | None = None
        self.awaited: asyncio.Future[Any] | None = None
        """What the client waits for and may give up: work that costs nothing."""
        self.asking: StatementRun | None = None
        """The steps that are done for it, once they have begun."""
        self.asked = time.monotonic()
        self.waited = 0.0
        self._loop = asyncio.get_running_loop()

    def cancel(self) -> None:
        """Stop it, from any thread; what waits never begins, and what costs nothing is not waited for."""
        self.running.cancel()
        future = self.future
        if future is not None:
            future.cancel()  # it has an effect while it waits alone
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.give_up)

    def give_up(self) -> None:
        """Wait no longer for what may be given up; in the thread of the event loop."""
        if self.awaited is not None:
            self.awaited.cancel()


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
