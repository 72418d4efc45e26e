"""The sparse vector family against noisy top-k, interleaved in one run."""

from __future__ import annotations

import statistics
import time

import numpy as np

from dpsql.mechanisms import adaptive_sparse_vector, hybrid_sparse_vector, hybrid_top_k, noisy_top_k

ROUNDS = 7


def seconds(work):
    """Time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    """Print one line a mechanism: milliseconds on 1e6 groups, and the median ratio to noisy top-k."""
    counts = (10**6 / np.arange(1, 10**6 + 1)).astype(np.int64)
    np.random.default_rng(0).shuffle(counts)
    # So high a threshold that the whole stream is read.
    high = 2 * 10**6
    works = {
        f"ladder, {b} branches": lambda b=b: adaptive_sparse_vector(counts, high, 10, 1, branches=b)
        for b in (1, 2, 4)
    }
    works["ladder of laplace, 4"] = lambda: adaptive_sparse_vector(counts, high, 10, 1, noise="laplace")
    works["ladder, all far above"] = lambda: adaptive_sparse_vector(counts, -high, 10**5, 1)
    works["hybrid top-k"] = lambda: hybrid_top_k(counts, 10**4, 10, 1)
    works["hybrid sparse vector"] = lambda: hybrid_sparse_vector(counts, 10**4, 10, 1)
    for name, work in works.items():
        noisy_top_k(counts, 10, 1), work()
        pairs = [(seconds(work), seconds(lambda: noisy_top_k(counts, 10, 1))) for _ in range(ROUNDS)]
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:24} {statistics.median(a for a, _ in pairs) * 1e3:8.2f} ms {ratio:6.2f} x noisy top-k")


if __name__ == "__main__":
    main()
