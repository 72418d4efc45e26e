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
from dpsql.estimates import GapNoise, LaplaceNoise, Measurement, Strategy, from_top_k, measuring_share
from dpsql.estimates.predictions import half_width, shared_noise

EPSILON = Fraction(7, 10)
HALF = Fraction(1, 2)


def squared_errors(
    counts: np.ndarray, k: int, strategy: Strategy, share: Fraction, runs: int
) -> tuple[float, float, float]:
    """Mean squared error of the k released counts, of the measurements alone, and the share of right groups.

    Over `runs` runs of the whole mechanism.
    """
    total = alone = right = 0.0
    least = np.sort(counts)[-k]
    for _ in range(runs):
        found = mechanisms.noisy_top_k(counts, k, EPSILON * (1 - share))
        exact = counts[found.index]
        if strategy == "BOX":
            boxed = mechanisms.box(exact, EPSILON * share)
            width = half_width(boxed.plan, Fraction(95, 100), 0)
            measured = Measurement(boxed.value, shared_noise(boxed.plan, 0), width)
        else:
            drawn = (mechanisms.anchor if strategy == "ANCHOR" else mechanisms.laplace)(
                exact, k / (EPSILON * share)
            )
            law = LaplaceNoise(drawn.plan.scale, drawn.plan.resolution, drawn.plan.total)
            measured = Measurement(float(drawn.value[0]) if law.total else drawn.value, law)
        noise = GapNoise("exponential", found.plan.scale, found.plan.resolution)
        value = from_top_k(found.gap, k, noise, measured).value
        total += float(((value - exact) ** 2).mean())
        if strategy != "ANCHOR":
            alone += float(((measured.counts() - exact) ** 2).mean())
        right += float((exact >= least).mean())
    return total / runs, alone / runs, right / runs


def main(path: str, runs: int) -> None:
    counts = pq.read_table(path, columns=["n"])["n"].to_numpy().astype(np.int64)
    print(f"{path}: {len(counts)} groups, epsilon {EPSILON}, {runs} runs")
    names = ("EACH", "theory", "ANCHOR", "BOX 1/2", "BOX", "recall")
    print(f"{'k':>4} {'baseline':>12} " + " ".join(f"{name:>8}" for name in names))
    for k in (2, 5, 10, 25):
        each, base, _ = squared_errors(counts, k, "EACH", HALF, runs)
        anchor, _, _ = squared_errors(counts, k, "ANCHOR", measuring_share("ANCHOR", k), runs)
        half, _, _ = squared_errors(counts, k, "BOX", HALF, runs)
        box, _, recall = squared_errors(counts, k, "BOX", measuring_share("BOX", k), runs)
        theory = 1 - 2 * (k - 1) / (3 * k)
        print(
            f"{k:>4} {base:>12.1f} {each / base:>8.3f} {theory:>8.3f} {anchor / base:>8.3f} "
            f"{half / base:>8.3f} {box / base:>8.3f} {recall:>8.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
