"""Exact noise against numpy's inexact noise, interleaved in one run: `python tests/benchmarks/noise.py`."""

from __future__ import annotations

import statistics
import time
from fractions import Fraction

import numpy as np

from dpsql import noise

DRAWS = 1_000_000
ROUNDS = 7


def seconds(work):
    """Time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    """Print one line a rate and sampler: ns a draw, and the median of the pairwise ratios."""
    rng = np.random.default_rng(0)
    print(f"{'sampler':28} {'exact ns':>9} {'numpy ns':>9} {'ratio':>6}")
    for rate in (
        Fraction(1),
        Fraction(1, 20),
        Fraction(1, 1100),
        Fraction(1, 2000),
        Fraction(1, 10**5),
        Fraction(1, 10**9),
    ):
        chance = -np.expm1(-float(rate))
        for name, exact, inexact in (
            ("geometric", lambda r=rate: noise.geometric(r, DRAWS), lambda p=chance: rng.geometric(p, DRAWS)),
            (
                "laplace",
                lambda r=rate: noise.laplace(r, DRAWS),
                lambda r=rate: rng.laplace(0, float(1 / r), DRAWS),
            ),
        ):
            exact(), inexact()
            pairs = [(seconds(exact), seconds(inexact)) for _ in range(ROUNDS)]
            ours, floor = (statistics.median(column) / DRAWS * 1e9 for column in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{name + ' at ' + str(rate):28} {ours:9.1f} {floor:9.1f} {ratio:6.2f}")
    words = statistics.median(seconds(lambda: noise.SystemEntropy().words(1 << 15)) for _ in range(50))
    print(f"the system's random bytes: {words / (8 << 15) * 1e9:.2f} ns each; a draw takes 2 to 10")


if __name__ == "__main__":
    main()
