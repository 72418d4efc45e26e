"""Whether the price of a charge stays what it was: `python tests/benchmarks/ledger.py [ENTRIES]`.

Reserves and settles 100,000 statements in one ledger and prints how many went through a second, and how the
last 1,000 compare with the first 1,000 (each charge is two durable transactions; 1.0 means no growth).
"""

from __future__ import annotations

import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from dpsql.charge import Charge
from dpsql.ledger import Ledger

BLOCK = 1000


def block(ledger: Ledger, first: int) -> float:
    """Charge one block of statements; return the seconds it took."""
    begin = time.perf_counter()
    for number in range(first, first + BLOCK):
        reservation = ledger.reserve(
            analyst=f"analyst {number % 7}",
            statement="SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page TOP 10",
            reading="top-k",
            mechanism="noisy top-k with gap",
            charge=Charge(Fraction(1, 2 + number % 9), Fraction(1, 10**9)),
        )
        realised = Charge(Fraction(1, 20), Fraction(1, 10**9))
        ledger.settle(reservation, realised, release=b"r" * 1000, reuse_key=f"{number:064x}")
        assert ledger.find(f"{number:064x}", f"analyst {number % 7}") is not None
    return time.perf_counter() - begin


def main(entries: int) -> float:
    """Run the benchmark, print what it found, and return the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        with Ledger.open(
            path, policy_id="benchmark", total=Charge(Fraction(10**9), Fraction(1, 2))
        ) as ledger:
            seconds = [block(ledger, first) for first in range(0, entries, BLOCK)]
            begin = time.perf_counter()
            problems = ledger.check()
            checked = time.perf_counter() - begin
        size = path.stat().st_size
    ratio = seconds[-1] / seconds[0]
    print(f"{len(seconds) * BLOCK} charges, {len(seconds) * BLOCK / sum(seconds):.0f} a second")
    print(f"first {BLOCK}: {seconds[0]:.3f} s, last {BLOCK}: {seconds[-1]:.3f} s, ratio {ratio:.2f}")
    print(f"check: {problems or 'all is well'}, {checked:.1f} s; file {size / 1e6:.0f} MB")
    return ratio


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
