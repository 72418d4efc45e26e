"""Measure what decoding takes: memory, and how long the event loop stands still, for each multiplied message.

`python -m tests.serve.decoding` serves the shipped clinic in this process, with the settings of the server's
process, and sends each message of `tests.serve.multiplied` to it, on one connection; then a second process
keeps what it may on many connections at once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, TypeVar

from dpsql.serve import server
from dpsql.serve.shared import FairPool
from dpsql.serve.wire.startup import Pace
from tests.serve import frontend as f
from tests.serve import multiplied
from tests.serve.answers import AnsweringClient
from tests.serve.bench import Bench, Real, run
from tests.served import clinic, serving

_T = TypeVar("_T")
CONNECTIONS = 20
"""Connections of each of two analysts."""
_SHOWN = 5
_LOST = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)


def memory() -> float:
    """Return the MiB that the process has in memory."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def waited() -> float:
    """Return the seconds that this thread was ready to run and had no processor; 0 where nothing says it."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


@dataclass
class Seen:
    """What one message did."""

    what: str
    grown: float
    """MiB, at the most."""
    stalled: float
    """Milliseconds in which the event loop did nothing else, at the most."""
    held: float
    """Milliseconds of the processor that all threads took in one turn of the event loop, at the most.

    Where nothing blocks, that is what `stalled` is on an idle machine: one thread runs Python at a time.
    """
    worked: float
    """Milliseconds of the processor that the event loop's thread took for one turn, at the most."""


class Watch:
    """Looks at the memory in a thread, and at the event loop in a task of it."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._most = self._gap = self._held = self._work = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(0.005):
            self._most = max(self._most, memory())

    async def beat(self) -> None:
        """Note the longest time between two turns of the event loop, less what other processes took of it."""
        while True:
            last, others = time.perf_counter(), waited()
            held, worked = time.process_time(), time.thread_time()
            await asyncio.sleep(0)
            gap = time.perf_counter() - last - (waited() - others)
            self._gap = max(self._gap, gap)
            self._held = max(self._held, min(gap, time.process_time() - held))
            self._work = max(self._work, time.thread_time() - worked)

    @contextmanager
    def over(self, what: str) -> Iterator[None]:
        """Measure what happens in this block."""
        before = self._most = memory()
        self._gap = self._held = self._work = 0.0
        yield
        grown = max(self._most, memory()) - before
        self.seen.append(Seen(what, grown, 1000 * self._gap, 1000 * self._held, 1000 * self._work))

    def show(self, title: str) -> None:
        """Print the largest figures, and forget them."""
        print(f"{title}: {len(self.seen)} messages")
        for figure, unit in (("grown", "MiB"), ("stalled", "ms"), ("held", "ms"), ("worked", "ms")):
            for one in sorted(self.seen, key=lambda each: -getattr(each, figure))[:_SHOWN]:
                print(f"  {figure} {getattr(one, figure):8.1f} {unit}  {one.what}")
        self.seen.clear()


class Pooled(AnsweringClient):
    """Answers with DuckDB, and decodes long messages in a pool as the server does."""

    pool: FairPool

    async def beside(self, size: int, work: Callable[[], _T]) -> _T:
        if size <= 500:
            return work()
        return await asyncio.wrap_future(self.pool.submit(self.login.analyst, work))


class Unhurried(Real):
    """Connections to the service of the shipped clinic, which may send as fast as they like."""

    def start(self) -> None:
        super().start()
        self.context.pace = Pace(1 << 40, 1 << 50)


class Answering(Bench):
    """Connections to a service that takes parameters of every type."""

    def start(self) -> None:
        super().start()
        self.context.pace = Pace(1 << 40, 1 << 50)
        made = self.service.client
        pool = FairPool("decoding", 2)

        def client(*given: Any) -> Any:
            found: Any = made(*given)
            found.__class__, found.pool = Pooled, pool
            return found

        self.service.client = client  # type: ignore[method-assign, assignment]  # with the pool


async def asked(client: f.Frontend, *data: bytes) -> bool:
    """Send messages and wait for their end; return whether the connection is still there."""
    try:
        async with asyncio.timeout(120):
            await client.ask(*data)
    except _LOST:
        return False
    return True


def short(data: bytes) -> str:
    return f"{len(data):8} bytes {data[:40]!r}"


async def each_message(bench: Bench, watch: Watch) -> None:
    alice = await bench.log_in()
    for message in multiplied.messages():
        end = [] if message[:1] in b"QF" else [f.SYNC]
        with watch.over(short(message)):
            there = await asked(alice, message, *end)
        if not there or not await asked(alice, f.query("ROLLBACK")):
            alice = await bench.log_in()
        await asked(alice, f.query("DEALLOCATE ALL"))


async def each_start(bench: Bench, watch: Watch) -> None:
    for message in (*multiplied.starts(), *multiplied.proofs()):
        client = await bench.connect()
        with watch.over(short(message)), suppress(*_LOST):
            if message[:1] == b"p":
                await client.send(f.startup({"user": "alice"}))
            await client.send(message)
            async with asyncio.timeout(0.2):
                await client.rest()
        client.writer.close()


def binds(oid: int, code: int, data: bytes, name: str) -> tuple[bytes, ...]:
    bound = f.bind([data], statement=name, portal=name, codes=[code])
    return f.parse("SELECT $1 AS v", name, [oid]), bound, f.SYNC


async def each_value(bench: Bench, watch: Watch) -> None:
    alice = await bench.log_in()
    await asked(alice, f.query("BEGIN"))
    for oid, code, data in multiplied.values():
        with watch.over(f"oid {oid} format {code} {short(data)}"):
            there = await asked(alice, *binds(oid, code, data, ""))
        alice = alice if there else await bench.log_in()
        await asked(alice, f.query("ROLLBACK"))
        await asked(alice, f.query("BEGIN"))


async def all_at_once(bench: Bench, watch: Watch) -> None:
    """Let many connections keep as many values as they may."""
    clients = [await bench.log_in(name) for name in ("alice", "bob") for _ in range(CONNECTIONS)]
    ends = [client.writer.get_extra_info("socket").dup() for client in clients]
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(2)
    process = spawn.Process(target=keep_values, args=(ends, together), daemon=True)
    process.start()
    for client, end in zip(clients, ends, strict=True):
        client.writer.transport.abort()
        end.close()
    await asyncio.to_thread(together.wait)
    with watch.over(f"{len(clients)} connections"):
        await asyncio.to_thread(together.wait)
        print(f"  counted {bench.context.accounts.all.used / (1 << 20):8.1f} MiB")
    await asyncio.to_thread(process.join)
    await bench.connections.wait_closed()


def keep_values(ends: list[socket.socket], together: Barrier) -> None:
    """Keep values on connections that are logged in; in another process, whose work is not the server's."""
    number = struct.pack("!iHhHHH", 10, 1, 200, 0, 0, 1)
    values = struct.pack("!iiiii", 1, 0, 1700, 5_000, 1) + number * 5_000

    async def keeps(client: f.Frontend) -> None:
        await asked(client, f.query("BEGIN"))
        for place in range(10):
            await asked(client, f.query("SAVEPOINT a"))
            await asked(client, *binds(1231, 1, values if place < 5 else values[:-5_000], str(place)))
            await asked(client, f.query("ROLLBACK TO a"))  # where it was refused

    async def all_keep() -> None:
        clients = [f.Frontend(*await asyncio.open_connection(sock=end)) for end in ends]
        together.wait()
        await asyncio.gather(*map(keeps, clients))
        together.wait()

    asyncio.run(all_keep())


def measure(bench: Bench, work: Callable[[Bench, Watch], Any], title: str) -> list[Seen]:
    """Do work twice; print and return what was seen the second time."""
    watch = Watch()

    async def whole(given: Bench) -> None:
        beats = asyncio.create_task(watch.beat())
        await work(given, watch)
        beats.cancel()

    async def twice(given: Bench) -> None:
        await whole(given)
        watch.seen.clear()  # what is loaded and made once is no growth
        server.shorten_collections()
        await whole(given)

    run(twice, bench, seconds=3_600)
    seen = list(watch.seen)
    watch.show(title)
    return seen


def main() -> None:
    sys.setswitchinterval(server.SWITCH)
    measure(Answering(), each_start, "before the login")
    measure(Answering(), each_value, "values of parameters")
    if "--values" in sys.argv:
        return
    measure(Answering(most=CONNECTIONS), all_at_once, "values kept by all")
    with tempfile.TemporaryDirectory() as folder, serving(clinic(Path(folder))) as service:
        bench = Unhurried()
        bench.real = service
        measure(bench, each_message, "messages")


if __name__ == "__main__":
    main()
