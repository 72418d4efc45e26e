"""Keeps the server busy and watches its memory: `python -m tests.serve.soak --minutes N`.

Clients come, ask, sometimes leave in the middle, send broken messages and cancel; the policy is read again
every few minutes. Each line has minute, memory, threads, connections and what was done. The goal: after the
first hour (or third of a shorter run) memory stays within 5%.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from dpsql.serve.users import User
from tests.serve import frontend as f
from tests.serve.swarm import COUNT, LONG, STORED, Served, ServerError, ask, prepare, serving

CLIENTS = 12
USERS = tuple(User(name, name) for name in ("alice", "bob", "carol"))
PUBLIC = (
    "SELECT COUNT(*) FROM diagnoses",
    "SELECT * FROM diagnoses",
    "SELECT relname FROM pg_class",
    "SHOW PRIVACY BUDGET",
    "SELECT nonsense FROM patients",
    "BEGIN; DECLARE c CURSOR FOR SELECT * FROM diagnoses; FETCH 10 FROM c; COMMIT",
    "COPY (SELECT * FROM diagnoses) TO STDOUT (FORMAT csv)",
)


class Churn:
    """Clients that come and go until a time of the monotonic clock."""

    def __init__(self, served: Served, stop: float, seed: int) -> None:
        self._served = served
        self._stop = stop
        self._seed = seed
        self._number = 0
        self.done: Counter[str] = Counter()

    async def client(self, place: int) -> None:
        """Log in and do things, again and again."""
        draw = random.Random(self._seed * 1000 + place)
        user = USERS[place % len(USERS)].name
        while time.monotonic() < self._stop:
            connection = await self._served.connect(user)
            try:
                for _ in range(draw.randrange(1, 30)):
                    await self._step(draw, connection)
                await connection.send(f.TERMINATE)
            except (ConnectionError, EOFError):
                self.done["cut off"] += 1
            finally:
                connection.writer.transport.abort()

    async def _step(self, draw: random.Random, connection: f.Frontend) -> None:
        self._number += 1
        kind = draw.choices(
            ("stored", "public", "new", "prepared", "cancelled", "broken", "lost"), (40, 25, 5, 15, 1, 1, 1)
        )[0]
        try:
            match kind:
                case "stored":
                    await ask(connection, draw.choice(STORED))
                case "public":
                    await ask(connection, draw.choice(PUBLIC))
                case "new":
                    await ask(connection, COUNT.format(epsilon=f"0.01{self._number:07d}1"))
                case "prepared":
                    await connection.ask(
                        f.parse("SELECT $1 AS v", f"s{self._number}", [25]),
                        f.bind([b"v" * draw.randrange(10_000)], statement=f"s{self._number}"),
                        f.execute(),
                        f.SYNC,
                    )
                case "cancelled":
                    running = asyncio.create_task(
                        ask(connection, LONG.format(epsilon=f"0.02{self._number:07d}1"))
                    )
                    await asyncio.sleep(draw.uniform(0, 1))
                    await self._served.cancel(connection)
                    await running
                case "broken":
                    await connection.send(f.message(b"?", draw.randbytes(20)))
                    await connection.rest()
                    raise ConnectionError
                case "lost":
                    await connection.send(f.query(draw.choice(STORED)))
                    raise ConnectionError
            self.done[kind] += 1
        except ServerError as error:
            self.done[f"{kind} {error.sqlstate}"] += 1


async def soak(served: Served, seconds: float, every: float, seed: int) -> list[float]:
    """Let clients churn and print a line now and then; return the memory at those times, in MB."""
    began = time.monotonic()
    churn = Churn(served, began + seconds, seed)
    clients = [asyncio.create_task(churn.client(place)) for place in range(CLIENTS)]
    memory: list[float] = []
    while time.monotonic() < began + seconds:
        done, _ = await asyncio.wait(clients, timeout=every, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        size, threads = served.status()
        memory.append(size)
        minute = (time.monotonic() - began) / 60
        sys.stdout.write(f"{minute:7.1f} min {size:7.0f} MB {threads:4} threads  {dict(churn.done)}\n")
        sys.stdout.flush()
        if len(memory) % 5 == 0:
            served.process.send_signal(signal.SIGHUP)
    await asyncio.gather(*clients)
    return memory


def main(minutes: float, seed: int) -> int:
    """Run, print the growth, and return 1 if the server noted a bug of its own."""
    with tempfile.TemporaryDirectory() as folder, serving(prepare(Path(folder), USERS)) as served:
        memory = asyncio.run(soak(served, minutes * 60, max(5.0, min(60.0, minutes * 60 / 30)), seed))
        bugs = [line for line in served.events() if line["event"] == "bug"]
        status = served.stop()
    warm = memory[len(memory) // 3 :] if minutes < 180 else memory[60:]
    growth = 100 * (max(warm[-3:]) / max(warm[:3]) - 1)
    sys.stdout.write(
        f"memory {growth:+.1f}% after warming up (goal within 5%), ended with {status}, {bugs=}\n"
    )
    return 1 if bugs or status else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    raise SystemExit(main(given.minutes, given.seed))
