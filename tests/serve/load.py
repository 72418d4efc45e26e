"""Measures the server under load: `python -m tests.serve.load [--seconds N] [part ..]`, figures beside goals.

Parts: stored, composed, counts, idle, connect, cancel, neighbour, neighbour-more. The clients run in this
process and take processor time of their own. On a machine that does something else times are upper bounds;
the processor time of the server for an answer says more there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from dpsql.serve.users import User
from dpsql.session import Session
from tests.serve import frontend as f
from tests.serve.frontend import Frontend
from tests.serve.hostile import HostileProcess
from tests.serve.swarm import (
    COMPOSED,
    LONG,
    STORED,
    Served,
    ServerError,
    Times,
    ask,
    prepare,
    serving,
    show,
    until,
)

CLIENTS = 50
IDLE = 190
"""Idle connections of one analyst; the server keeps a few of its 200 for the owner."""
COUNT_ABOVE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) AS n FROM patients "
    "WHERE birth_year > 1900 + {number}"
)
USERS = (
    User("alice", "alice", max_connections=200),
    User("bob", "bob", max_connections=200),
    User("carol", "carol"),
)


async def warm(served: Served, user: str = "alice", statements: Sequence[str] = STORED) -> None:
    """Ask the statements twice, so that their answers are stored and kept."""
    await asyncio.sleep(2.5)  # the data were just written, and are not trusted to stay before
    client = await served.connect(user)
    for sql in (*statements, *statements):
        await ask(client, sql)
    client.writer.close()


async def close(clients: Sequence[Frontend]) -> None:
    """End connections, so that the next part finds none of them."""
    for client in clients:
        await client.send(f.TERMINATE)
        await client.rest()
        client.writer.close()


async def closed_loop(
    clients: Sequence[Frontend], seconds: float, statements: Sequence[str] = STORED
) -> tuple[Times, float]:
    """Let each client ask again as soon as it is answered; return the times and the answers a second."""
    times, began = Times(), time.monotonic()

    async def one(place: int, client: Frontend) -> int:
        draw = random.Random(place)
        return await until(began + seconds, lambda: times.of(ask(client, draw.choice(statements))))

    counts = await asyncio.gather(*(one(place, each) for place, each in enumerate(clients)))
    return times, sum(counts) / (time.monotonic() - began)


async def thinking(clients: Sequence[Frontend], seconds: float) -> Times:
    """Let each client think about one second between two questions."""
    times, began = Times(), time.monotonic()

    async def one(place: int, client: Frontend) -> int:
        draw = random.Random(place)

        async def step() -> None:
            await asyncio.sleep(draw.uniform(0.5, 1.5))
            await times.of(ask(client, draw.choice(STORED)))

        return await until(began + seconds, step)

    await asyncio.gather(*(one(place, each) for place, each in enumerate(clients)))
    return times


async def loops(
    served: Served, clients: Sequence[Frontend], seconds: float, what: str, statements: Sequence[str]
) -> None:
    """Show a closed loop, and the processor time that the server took for an answer of it."""
    before = served.processor_seconds()
    times, rate = await closed_loop(clients, seconds, statements)
    each = 1000 * (served.processor_seconds() - before) / len(times.seconds)
    show(f"{what}, {CLIENTS} clients, closed loop", f"{rate:.0f}/s {times}", ">= 600/s, p95 < 100 ms")
    show(f"{what}, processor time for an answer", f"{each:.2f} ms", "-")


async def composed(served: Served, seconds: float) -> None:
    """Stored answers that are computed from releases."""
    await warm(served, statements=COMPOSED)
    clients = [await served.connect() for _ in range(CLIENTS)]
    await loops(served, clients, seconds, "composed", COMPOSED)
    await close(clients)


async def counts(served: Served, _: float) -> None:
    """New private counts, in pairs with those of a session in this process on another copy of the data."""
    client = await served.connect()
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Session(prepare(Path(folder), USERS))) as session,
    ):
        own, remote = Times(), Times()
        for number in range(60):
            sql = COUNT_ABOVE.format(number=number)
            begun = time.perf_counter()
            session.run(sql)
            own.seconds.append(time.perf_counter() - begun)
            await remote.of(ask(client, sql))
        more = [1000 * (b - a) for a, b in zip(own.seconds[10:], remote.seconds[10:], strict=True)]
        show("a new count, in this process", str(own), "-")
        show("a new count, served", str(remote), "-")
        show("more than in this process, median", f"{statistics.median(more):.1f} ms", "< 5 ms")
    await close([client])


async def stored(served: Served, seconds: float) -> None:
    """Stored answers: with time to think, in a closed loop, and beside a heavy statement."""
    await warm(served)
    clients = [await served.connect() for _ in range(CLIENTS)]
    show(f"stored, {CLIENTS} clients, think 1 s", str(await thinking(clients, seconds)), "p95 < 20 ms")
    await loops(served, clients, seconds, "stored", STORED)
    heavy = await served.connect("bob")
    running = asyncio.create_task(ask(heavy, LONG.format(epsilon="0.5")))
    await asyncio.sleep(0.5)
    times = await thinking(clients, seconds)
    late = " (the heavy one had ended)" if running.done() else ""
    show("stored, think 1 s, beside one heavy", f"{times}{late}", "p95 < 50 ms")
    await served.cancel(heavy)
    with suppress(ServerError):
        await running
    await close([*clients, heavy])


async def idle(served: Served, _: float) -> None:
    """Memory and threads of many idle connections."""
    first = [await served.connect()]
    await ask(first[0], "SELECT 1")
    memory, threads = served.status()
    rest = [await served.connect() for _ in range(IDLE - 1)]
    for client in rest:
        await ask(client, "SELECT 1")
    more, now = served.status()
    show(f"{IDLE} idle connections, memory", f"{more - memory:.0f} MB more than one", "< 150 MB")
    show(f"{IDLE} idle connections, threads", f"{now} instead of {threads}", "no more")
    await close(first + rest)


async def connect(served: Served, seconds: float) -> None:
    """Connections with TLS and SCRAM, one after the other and five at a time."""
    for count in (1, 5):
        times, stop = Times(), time.monotonic() + seconds

        async def one(times: Times = times, stop: float = stop) -> None:
            while time.monotonic() < stop:
                began = time.perf_counter()
                client = await served.connect()
                times.seconds.append(time.perf_counter() - began)
                await close([client])

        await asyncio.gather(*(one() for _ in range(count)))
        show(f"connect with TLS and SCRAM, {count} at a time", str(times), "p95 < 100 ms")


async def cancel(served: Served, _: float) -> None:
    """Cancel a running statement by its key; the next one works."""
    times = Times()
    client = await served.connect()
    for number in range(10):
        running = asyncio.create_task(ask(client, LONG.format(epsilon=f"0.5{number + 1}")))
        await asyncio.sleep(0.7)
        began = time.perf_counter()
        await served.cancel(client)
        try:
            await running
        except ServerError as error:
            if error.sqlstate != "57014":
                raise
            times.seconds.append(time.perf_counter() - began)
        assert (await ask(client, "SELECT 1 AS one")).rows == [(b"1",)]
    show("cancel by key, answered after", str(times), "< 200 ms")
    await close([client])


async def neighbour(served: Served, seconds: float, *, more: bool = False) -> None:
    """Stored answers and new counts of one analyst beside another one who does his worst."""
    await warm(served)
    clients = [await served.connect() for _ in range(20)]
    show("20 clients alone", str(await thinking(clients, seconds)), "-")
    hostile = await asyncio.to_thread(HostileProcess, served, "carol", more=more)
    times = await thinking(clients, seconds)
    show("beside 20 hostile connections of another", str(times), "-" if more else "p95 < 100 ms")
    counts = Times()
    for number in range(5):
        await counts.of(
            ask(
                clients[0],
                f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1) COUNT(*) "
                f"FROM patients WHERE birth_year > {1950 + number}",
            )
        )
    show("a new count beside them", str(counts), "at most one statement's time")
    show("what they did", await asyncio.to_thread(hostile.end), "-")
    await close(clients)


async def neighbour_more(served: Served, seconds: float) -> None:
    """The same beside one who also sends long texts, and asks for products of the catalogue's tables."""
    await neighbour(served, seconds, more=True)


PARTS = {
    "stored": stored,
    "composed": composed,
    "counts": counts,
    "idle": idle,
    "connect": connect,
    "cancel": cancel,
    "neighbour": neighbour,
    "neighbour-more": neighbour_more,
}


async def main(seconds: float, parts: Sequence[str]) -> None:
    """Measure parts, each on a server of its own."""
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            policy = prepare(Path(folder), USERS)
            with serving(policy) as served:
                await PARTS[part](served, seconds)
                memory, threads = served.status()
                show(f"-- {part}: the process", f"{memory:.0f} MB, {threads} threads", "-")
                served.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    given = parser.parse_args()
    asyncio.run(main(given.seconds, given.parts or list(PARTS)))
