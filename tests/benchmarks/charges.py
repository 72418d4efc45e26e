"""The ledger: two durable transactions a statement, and whether their price stays what it was."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from dpsql.kernel.loss import Charge
from dpsql.ledger import Ledger

from .measures import Figure, Goal, Pairs, judged

__all__ = ["charges"]

BLOCK = 1000


def charges(entries: int) -> Iterator[Figure]:
    """Charge so many statements; compare the last thousand with the first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        total = Charge(Fraction(10**9), Fraction(1, 2))
        with Ledger.open(path, policy_id="benchmark", total=total) as ledger:
            seconds = [_block(ledger, first) for first in range(0, entries, BLOCK)]
            begin = time.perf_counter()
            problems = ledger.check()
            checked = time.perf_counter() - begin
        size = path.stat().st_size / 1e6
    if problems:
        raise RuntimeError(f"the ledger is broken: {problems}")
    group = f"ledger, {entries:,} statements"
    first, last = seconds[0], seconds[-1]
    yield Pairs([last], [first]).figure(
        group, "a charge: the last thousand over the first", scale=1e3 / BLOCK, goal=Goal("ratio", 1.5)
    )
    yield judged(Figure(group, "checking all of it", "s", checked), None)
    yield judged(Figure(group, "size of the file", "MB", size), None)


def _block(ledger: Ledger, first: int) -> tuple[float, float]:
    begin, busy = time.perf_counter(), time.process_time()
    for number in range(first, first + BLOCK):
        reservation = ledger.reserve(
            analyst=f"analyst {number % 7}",
            statement="SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 10",
            selection="top-k",
            mechanism="noisy top-k with gap",
            charge=Charge(Fraction(1, 2 + number % 9), Fraction(1, 10**9)),
        )
        realised = Charge(Fraction(1, 20), Fraction(1, 10**9))
        ledger.settle(reservation, realised, release=b"r" * 1000, reuse_key=f"{number:064x}")
        if ledger.find(f"{number:064x}", f"analyst {number % 7}") is None:
            raise RuntimeError("what was settled is not found")
    return time.perf_counter() - begin, time.process_time() - busy
