"""A server of the wire protocol on a port of this machine, in a thread of its own, for real clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Self, TypeVar

from dpsql.serve import state
from dpsql.serve.wire import WireProtocol
from tests.serve.bench import PASSWORD, Bench

_T = TypeVar("_T")


class Listening:
    """Listens from `__enter__` to `__exit__`; `alice`, `ali` and `bob` may log in with `PASSWORD`."""

    user, password, database = "alice", PASSWORD, "shop"

    def __init__(self, folder: Path) -> None:
        self.certificate, key = state.make_self_signed(folder)
        self.bench = Bench(tls=state.load_tls(self.certificate, key))
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server of a test")

    def __enter__(self) -> Self:
        self._thread.start()
        self._listener = self.call(self._listen())
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *error: object) -> None:
        self.call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def call(self, work: Coroutine[object, object, _T]) -> _T:
        """Run something in the server's thread and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def forget(self) -> None:
        """Drop what was noted of connections that have ended."""
        self._loop.call_soon_threadsafe(self.bench.forget)

    async def _listen(self) -> asyncio.Server:
        self.bench.start()
        factory = WireProtocol(self.bench.context).factory()
        return await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._listener.close()
        self.bench.connections.shutdown()
        self.bench.connections.cancel()
        async with asyncio.timeout(20):
            await self.bench.connections.wait_closed()
