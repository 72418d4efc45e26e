"""How much the free gaps help: squared error of counts against spending half on selecting, half on measuring.

    python tests/statistical/error_reduction.py FOLDER/t40i10d100k_counts.parquet [RUNS]

The file has one row an item with its exact count in column `n`. The baseline is what one would do without
gaps: noisy top-k with half of epsilon, then one Laplace count for each selected item with the other half.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq

from dpsql import mechanisms
from dpsql.estimates import choose_measuring, from_top_k

EPSILON = Fraction(7, 10)


def squared_error(counts: np.ndarray, k: int, strategy: str, runs: int) -> float:
    """Mean squared error of the k released counts over `runs` runs of the whole mechanism."""
    share = Fraction(1, 2) if strategy != "ANCHOR" else None
    plan = choose_measuring(
        k,
        EPSILON,
        measure=share,
        strategy="ANCHOR" if strategy == "ANCHOR" else "EACH",
        domain_size=len(counts),
    )
    total = 0.0
    for _ in range(runs):
        found = mechanisms.noisy_top_k(counts, k, plan.selection_epsilon)
        exact = counts[found.index]
        scale = k / plan.measuring_epsilon
        if strategy == "ANCHOR":
            measured = mechanisms.anchor(exact, scale)
            given = {"anchor_total": measured.value[0]}
        else:
            measured = mechanisms.laplace(exact, scale)
            given = {"each": measured.value}
        if strategy == "BASELINE":
            value = measured.value
        else:
            value = from_top_k(
                found.gap,
                k,
                scale=found.plan.scale,
                resolution=found.plan.resolution,
                measuring_scale=measured.plan.scale,
                measuring_resolution=measured.plan.resolution,
                **given,
            ).value
        total += float(((value - exact) ** 2).mean())
    return total / runs


def main(path: str, runs: int) -> None:
    counts = pq.read_table(path, columns=["n"])["n"].to_numpy().astype(np.int64)
    print(f"{path}: {len(counts)} groups, epsilon {EPSILON}, {runs} runs")
    print(f"{'k':>4} {'baseline':>12} {'EACH':>8} {'theory':>8} {'ANCHOR':>8}")
    for k in (2, 5, 10, 25):
        base = squared_error(counts, k, "BASELINE", runs)
        each = squared_error(counts, k, "EACH", runs) / base
        anchor = squared_error(counts, k, "ANCHOR", runs) / base
        theory = 1 - 2 * (k - 1) / (3 * k)
        print(f"{k:>4} {base:>12.1f} {each:>8.3f} {theory:>8.3f} {anchor:>8.3f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
