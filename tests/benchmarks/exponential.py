"""The exponential mechanism with gap against numpy's inexact one; run it with python."""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np

from dpsql.mechanisms import exponential

ROUNDS = 7


def seconds(work):
    """Time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    """Print one line a size and shape of counts: milliseconds, and the median of the pairwise ratios."""
    rng = np.random.default_rng(0)
    print(f"{'groups':>10} {'counts':>10} {'exact ms':>9} {'numpy ms':>9} {'ratio':>6}")
    for n in (50, 10_000, 1_000_000, 10_000_000):
        shapes = {
            "power law": (10**6 / np.arange(1, n + 1)).astype(np.int64),
            "flat": rng.integers(0, 3, n),
            "spread": np.arange(n),
        }
        for name, counts in shapes.items():
            rng.shuffle(counts)

            def inexact(counts=counts):
                weight = np.exp((counts - counts.max()) * 1.0)
                return np.searchsorted(np.cumsum(weight), rng.random() * weight.sum())

            def exact(counts=counts):
                return exponential(counts, 1)

            exact(), inexact()
            pairs = [(seconds(exact), seconds(inexact)) for _ in range(ROUNDS if n < 10**7 else 3)]
            ours, floor = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{n:10} {name:>10} {ours:9.3f} {floor:9.3f} {ratio:6.2f}")
    many = np.tile(np.array([10, 8, 7, 3, 1]), (500_000, 1))
    print(f"500,000 trials of 5 groups: {seconds(lambda: exponential(many, 1)):.2f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
