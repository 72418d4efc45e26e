"""An analyst who does his worst with all his connections: joins, large messages, portals, half-open logins.

`python -m tests.serve.hostile POLICY PORT USER [--more]` goes on until its standard input ends,
and prints what it got. It is a process of its own, so that it does not slow the clients beside it.
With `--more` there are also long texts, which keep Python busy, and products of the catalogue's tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.serve import frontend as f
from tests.serve.frontend import Frontend
from tests.serve.swarm import LONG, Served, ServerError, ask, trusting

CONNECTIONS = 20
HALF_OPEN = 30
PORTALS = 10_000
MIB = 1 << 20


class Hostile:
    """Tasks that each keep one connection busy until `end`; `done` counts what they got."""

    def __init__(self, served: Served, user: str, seed: int = 1, *, more: bool = False) -> None:
        self._served = served
        self._more = more
        self._user = user
        self._numbers = itertools.count(seed)
        self._tasks: list[asyncio.Task[None]] = []
        self.done: Counter[str] = Counter()

    async def begin(self) -> None:
        """Open the connections and begin."""
        kinds = [self._joins, self._large, self._portals]
        kinds += [self._nested, self._catalogue] if self._more else []
        for number in range(CONNECTIONS):
            client = await self._served.connect(self._user)
            self._tasks.append(asyncio.create_task(self._again(kinds[number % len(kinds)], client)))
        self._tasks += [asyncio.create_task(self._half_open()) for _ in range(HALF_OPEN)]

    async def end(self) -> None:
        """Stop everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=10)

    async def _again(self, kind: object, client: Frontend) -> None:
        while True:
            name = kind.__name__  # type: ignore[attr-defined]
            try:
                await kind(client)  # type: ignore[operator]
                self.done[name] += 1
            except ServerError as error:
                self.done[f"{name} {error.sqlstate}"] += 1
            except (ConnectionError, asyncio.IncompleteReadError):
                self.done[f"{name} cut off"] += 1
                client = await self._connected()
            await asyncio.sleep(0.001)

    async def _connected(self) -> Frontend:
        """Open a connection; try again while there are too many logins."""
        while True:
            with contextlib.suppress(
                ConnectionError, asyncio.IncompleteReadError, f.RefusedError, AssertionError
            ):
                return await self._served.connect(self._user)
            await asyncio.sleep(0.1)

    async def _joins(self, client: Frontend) -> None:
        """Ask for long joins, each at another price, and cancel each after a while."""
        epsilon = f"0.2{next(self._numbers):04d}1"
        running = asyncio.create_task(ask(client, LONG.format(epsilon=epsilon)))
        await asyncio.wait({running}, timeout=3)
        if not running.done():
            with contextlib.suppress(ConnectionError):  # as many half-open logins as there may be
                await self._served.cancel(client)
        await running

    async def _large(self, client: Frontend) -> None:
        """Send messages of just under a MiB, statements and parameters."""
        await ask(client, "SELECT '" + "x" * (MIB - 100) + "'")

    async def _portals(self, client: Frontend) -> None:
        """Open many portals in a transaction, with values."""
        await ask(client, "BEGIN")
        try:
            prepared = f.parse("SELECT $1 AS v", "p", [25])
            binds = b"".join(f.bind([b"v" * 1000], statement="p", portal=f"c{i}") for i in range(PORTALS))
            messages = await client.ask(prepared, binds, f.SYNC)
            self.done["portals bound"] += sum(tag == b"2" for tag, _ in messages)
        finally:
            await ask(client, "ROLLBACK")
            await ask(client, "DEALLOCATE ALL")

    async def _nested(self, client: Frontend) -> None:
        """Send statements that take long to parse."""
        depth = next(self._numbers) % 400 + 100
        kinds = ("(" * depth + "1" + ")" * depth, "+".join(["1"] * 9_000), "NOT " * 9_000 + "TRUE")
        await ask(client, f"SELECT COUNT(*) FROM visits WHERE cost > {kinds[depth % 3]}")

    async def _catalogue(self, client: Frontend) -> None:
        """Ask the catalogue for products of its tables."""
        await ask(client, "SELECT COUNT(*) FROM pg_class a, pg_class b, pg_attribute c, pg_attribute d")

    async def _half_open(self) -> None:
        """Open connections that say nothing, or half of something, and wait until they are cut off."""
        while True:
            with contextlib.suppress(ConnectionError):
                client = await self._served.raw()
                await client.send(f.startup({"user": self._user})[: next(self._numbers) % 20])
                await client.rest()
                client.writer.close()
                self.done["half-open cut off"] += 1
            await asyncio.sleep(0.1)


class HostileProcess:
    """A process that does it."""

    def __init__(self, served: Served, user: str, *, more: bool = False) -> None:
        """Start it and wait until its connections are open."""
        options = ["--more"] if more else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(served.policy), str(served.port), user, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> str:
        """Stop it and return what it counted."""
        return self._process.communicate(timeout=60)[0].strip()


async def _main(policy: Path, port: int, user: str, *, more: bool) -> None:
    served = Served(policy, None, port, policy, trusting(policy))  # type: ignore[arg-type]
    hostile = Hostile(served, user, more=more)
    await hostile.begin()
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await hostile.end()
    print(json.dumps(hostile.done), flush=True)
    os._exit(0)  # tasks that wait for a server which is gone are not waited for


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], more="--more" in sys.argv[4:]))
