"""`Turn`: the statements of a session, one at a time; one that its program gives up is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from dpsql.serve.client import Client

_T = TypeVar("_T")


class Turn:
    """Asks the statements of one client after each other."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()

    async def take(self, work: Coroutine[object, object, _T]) -> _T:
        """Wait for the session's other statements and do this work; see it end when the call is cancelled."""
        try:
            await self._lock.acquire()
        except asyncio.CancelledError:
            work.close()
            raise
        task = asyncio.ensure_future(work)
        # The next statement waits for the end of this one, also where nobody awaits it any more.
        task.add_done_callback(lambda _: self._lock.release())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._client.cancel()
            task.add_done_callback(_seen)
            raise


def _seen(task: asyncio.Task[object]) -> None:
    """Look at the end of a statement that nobody is told."""
    with suppress(BaseException):
        task.result()
