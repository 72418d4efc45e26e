"""Await work of a statement in a pool of threads, until it ends, is cancelled or has no time left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dpsql.engines import Cancelled
from dpsql.errors import InterfaceError, OperationalError, StatementFailed
from dpsql.serve.errors import TimedOut

if TYPE_CHECKING:
    from dpsql.serve.active import Active
    from dpsql.serve.admission import FairPool
    from dpsql.serve.generation import Generation

_T = TypeVar("_T")

NOTHING_CHARGED = "the statement was cancelled while it waited; nothing was charged"


async def free_work(
    pool: FairPool, analyst: str, active: Active, generation: Generation, work: Callable[[], _T]
) -> _T:
    """Await work that costs nothing; its client waits no longer once it is cancelled or its time is over.

    What waits for its turn then never begins. What has begun ends by itself, as soon as it looks at the
    statement, and keeps the turn of its analyst until then; what it finds is dropped.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    awaited = _begun(pool, analyst, active, generation, work)
    active.awaited = awaited
    timer = loop.call_later(active.running.remaining or 0.0, active.give_up)
    try:
        if active.running.cancelled:
            active.give_up()
        return await awaited
    except asyncio.CancelledError:
        if task is not None and task.cancelling():
            raise
        if active.running.cancelled:
            raise Cancelled(NOTHING_CHARGED) from None
        active.running.cancel()
        raise _timed_out(charged=False) from None
    finally:
        timer.cancel()
        active.awaited = None
        del awaited  # an error holds this frame, and must not hold itself by it
        _ended(active)


async def charged_work(
    pool: FairPool, analyst: str, active: Active, generation: Generation, work: Callable[[], _T]
) -> _T:
    """Await work that may be charged, to its end once it has begun; its time stands still before that."""
    left = active.running.remaining
    task = asyncio.current_task()
    awaited = _begun(pool, analyst, active, generation, work, left)
    try:
        return await awaited
    except asyncio.CancelledError:
        if active.running.cancelled and (task is None or not task.cancelling()):
            raise Cancelled(NOTHING_CHARGED) from None
        raise
    finally:
        del awaited  # as above
        _ended(active)


def _begun(
    pool: FairPool,
    analyst: str,
    active: Active,
    generation: Generation,
    work: Callable[[], _T],
    seconds: float | None = None,
) -> asyncio.Future[_T]:
    """Let work wait for its turn; the time until it begins is waiting time.

    With `seconds`, so much time is left to it from its begin on.
    """
    asked = time.monotonic()

    def timed() -> _T:
        active.waited += time.monotonic() - asked
        with generation.use():
            if active.running.cancelled:
                raise Cancelled(NOTHING_CHARGED)
            if seconds is not None:
                active.running.end_within(seconds)
            return _within_time(active, work)

    future = pool.submit(analyst, timed)
    active.future = future  # type: ignore[assignment]  # its result is not looked at there
    if active.running.cancelled:
        future.cancel()
    return asyncio.wrap_future(future)


def _ended(active: Active) -> None:
    """Forget the work of a statement, unless it runs on."""
    if active.future is not None and (active.future.cancel() or active.future.done()):
        active.future = None


def _within_time(active: Active, work: Callable[[], _T]) -> _T:
    """Run work; an error because of the limit of time says so."""
    try:
        active.running.check()
        return work()
    except StatementFailed:
        if not active.running.timed_out:
            raise
        charged = True
    except (Cancelled, InterfaceError):
        raise
    except OperationalError as error:
        if not active.running.timed_out or type(error) is not OperationalError:
            raise
        charged = False
    raise _timed_out(charged=charged)


def _timed_out(*, charged: bool) -> TimedOut:
    kept = "its charge is kept, and it counts as a failure" if charged else "it cost nothing"
    return TimedOut(f"the statement was stopped by statement_timeout; {kept}")
