"""Kills the server at random points under load: `python -m tests.serve.kill [--rounds N] [--seed N]`.

Eight clients ask new private counts. After each kill -9, every answer that a client received must have a
settled row in the ledger, what is spent must be the sum of the entries, and the ledger must be whole.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dpsql.ledger import Ledger
from dpsql.policy import load
from dpsql.serve.users import User
from tests.serve.swarm import COUNT, Served, ServerError, ask, prepare, serving

USERS = tuple(User(name, name) for name in ("alice", "bob", "carol", "dave"))


@dataclass
class Round:
    """What was seen of one kill."""

    answers: int
    unsettled: int
    reserved: int
    exact: bool
    sound: bool

    @property
    def right(self) -> bool:
        return not self.unsettled and self.exact and self.sound


class Asked:
    """The texts of the statements whose answers were received; each text is asked once."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.received: set[tuple[str, str]] = set()
        self._number = 0

    def text(self) -> str:
        """Return a statement that nobody asked before."""
        self._number += 1
        where = f" WHERE birth_year > {1931 + self._number % 90}"
        return COUNT.format(epsilon=f"0.01{self._number:06d}1") + where

    async def client(self, served: Served, user: str) -> None:
        """Ask until the server is gone."""
        try:
            connection = await served.connect(user)
        except (ConnectionError, EOFError):  # killed while this client logged in
            return
        try:
            while True:
                text = self.text()
                try:
                    if (await ask(connection, text)).rows:
                        self.received.add((user, text))
                except ServerError as error:
                    if error.sqlstate != "53300":  # the queue is full
                        raise
        except (ConnectionError, EOFError):
            connection.writer.close()


def entries(policy: Path) -> list[tuple[str, str, str, Fraction]]:
    """Return analyst, text, state and epsilon of the ledger's entries: what is reserved stays charged."""
    with Ledger.of(load(policy)) as ledger:
        return [(e.analyst, e.statement, e.state, e.charged.charge.epsilon) for e in ledger.entries()]


def judged(policy: Path, served: Served, asked: Asked) -> Round:
    """Compare what was received with the ledger."""
    found = entries(policy)
    settled = {(analyst, text) for analyst, text, state, _ in found if state == "settled"}
    total = sum((epsilon for *_, epsilon in found), Fraction())
    budget = json.loads(served.dpsql("budget", "--json"))
    spent, remaining, whole = (
        Fraction(budget[name]["exact"]["epsilon"]) for name in ("spent", "remaining", "total")
    )
    reserved = sum(state == "reserved" for _, _, state, _ in found)
    exact = spent == total and spent + remaining == whole
    sound = served.succeeds("budget", "check")
    return Round(len(asked.received), len(asked.received - settled), reserved, exact, sound)


async def rounds(folder: Path, count: int, seed: int) -> list[Round]:
    """Start the server and kill it, so many times, on one ledger."""
    policy = prepare(folder, USERS)
    asked, found = Asked(seed), []
    for _ in range(count):
        with serving(policy) as served:
            clients = [
                asyncio.create_task(asked.client(served, user.name)) for user in USERS for _ in range(2)
            ]
            await asyncio.sleep(asked.draw.uniform(0.3, 3))
            served.process.kill()
            served.process.wait()
            await asyncio.gather(*clients)
            found.append(await asyncio.to_thread(judged, policy, served, asked))
            if len(found) % 20 == 0:
                right = sum(each.right for each in found)
                sys.stdout.write(f"{len(found)} rounds, {right} right, {found[-1].answers} answers\n")
                sys.stdout.flush()
    return found


def main(count: int, seed: int) -> int:
    """Print what was seen, and return 1 if anything was wrong."""
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(rounds(Path(folder), count, seed))
    last = found[-1]
    wrong = [number for number, each in enumerate(found) if not each.right]
    sys.stdout.write(
        f"{count} rounds of kill -9: {last.answers} answers, {last.unsettled} unsettled (goal 0), "
        f"{last.reserved} left reserved; rounds with a wrong sum or ledger: {wrong} (goal none)\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    raise SystemExit(main(given.rounds, given.seed))
