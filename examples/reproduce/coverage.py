"""Whether intervals of 95% cover 95%."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import choose_measuring, from_threshold, from_top_k
from dpsql.mechanisms import Noise
from dpsql.noise import Entropy
from reproduce.page import Claim, Section, Table
from reproduce.svg import Series, panel
from reproduce.trials import affine, measured, threshold_runs, top_k_runs, totals

__all__ = ["KS", "interval_coverage"]

KS = (2, 3, 5, 10, 15, 25)
EPSILON = Fraction(7, 10)
WAYS = ("EACH", "ANCHOR", "above a threshold, free")
NOISES: tuple[Noise, ...] = ("exponential", "laplace")


def interval_coverage(trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Count how often the interval around an estimate holds the true count."""
    rows = []
    for tied in (False, True):
        for noise in NOISES:
            for k in KS:
                shares = [_selected(way, k, noise, tied, trials, entropy) for way in WAYS[:2]]
                shares.append(float("nan") if tied else _above(k, noise, trials, entropy))
                rows += [
                    ("tied" if tied else "well apart", noise, k, way, 100 * share)
                    for way, share in zip(WAYS, shares, strict=True)
                    if not math.isnan(share)
                ]
                tick()
    panels = []
    for counts in ("well apart", "tied"):
        for noise in NOISES:
            drawn = []
            for i, way in enumerate(WAYS):
                mine = [r for r in rows if r[:2] == (counts, noise) and r[3] == way]
                if mine:
                    drawn.append(Series("", [r[2] for r in mine], [r[4] for r in mine], "both", i, i))
            panels.append(
                panel(
                    f"counts {counts}, {noise} noise", "k", "intervals that cover", drawn,
                    y_range=(90, 100), unit="%", level=95,
                )
            )  # fmt: skip
    apart = [r[4] for r in rows if r[0] == "well apart"]
    tied_rows = [r[4] for r in rows if r[0] == "tied"]
    # Intervals of one run are not independent: as if each run had one.
    slack = max(0.5, 500 * (0.95 * 0.05 / trials) ** 0.5)
    return Section(
        "Intervals cover what they promise",
        "dpsql's own; for gaps over a threshold by Free Gap, lemma 5, and its one-sided counterpart.",
        f"95% intervals of the counts that were selected, at epsilon {float(EPSILON)}. Intervals know the "
        "noise, which is public, not which counts were lucky to be selected: counts that tie are covered a "
        "little differently, as the documentation says.",
        [
            Claim(
                f"Counts that are well apart are covered as promised: {min(apart):.2f}% to {max(apart):.2f}% "
                "of the time.",
                all(abs(share - 95) <= slack for share in apart),
            ),
            Claim(
                f"Where all counts tie, {min(tied_rows):.1f}% to {max(tied_rows):.1f}% of all selected are "
                "covered.",
                all(share >= 92 for share in tied_rows),
            ),
        ],
        panels,
        [Series(way, (), (), "both", i, i) for i, way in enumerate(WAYS)],
        [Table("interval_coverage", ("counts", "noise", "k", "way", "covered %"), rows)],
    )


def _selected(way: str, k: int, noise: Noise, tied: bool, trials: int, entropy: Entropy) -> float:
    plan = choose_measuring(k, EPSILON, noise=noise, strategy="EACH" if way == "EACH" else "ANCHOR")
    scale = plan.measuring_scale or Fraction(0)
    groups = 3 * k
    counts = np.full(groups, 10**6) if tied else 10**6 * np.arange(groups, 0, -1)
    runs = top_k_runs(counts, k, plan.selection_epsilon, trials, entropy, noise)
    exact = counts[runs.index]
    values, grid = (measured if way == "EACH" else totals)(exact, scale, entropy)

    def estimate(x: NDArray[np.float64]) -> NDArray[np.float64]:
        found = from_top_k(
            x[:k],
            k,
            scale=runs.scale,
            noise=noise,
            resolution=runs.resolution,
            each=x[k:] if way == "EACH" else None,
            anchor_total=None if way == "EACH" else Fraction(float(x[k])),
            measuring_scale=scale,
            measuring_resolution=grid,
        )
        return np.concatenate([found.low, found.high])

    rest = values if way == "EACH" else values[:, None]
    ends = affine(estimate, k + rest.shape[1])(np.hstack([runs.gap, rest]))
    return float(((ends[:, :k] <= exact) & (exact <= ends[:, k:])).mean())


def _above(k: int, noise: Noise, trials: int, entropy: Entropy) -> float:
    counts = np.concatenate([np.full(k, 10**6), np.zeros(2 * k, dtype=np.int64)])
    covered = found = 0
    share = Fraction(1, 4)
    ends = from_threshold(
        [0.0], 0, noise=noise, scale=k / ((1 - share) * EPSILON), threshold_scale=1 / (share * EPSILON)
    )
    for part, runs in threshold_runs(
        counts, np.full(trials, 10**5), k, EPSILON, entropy, branches=1, share=share, noise=noise
    ):
        rows, column = np.nonzero(runs.branch >= 0)
        value = runs.gap[rows, column] + part[rows]
        inside = (value + ends.low[0] <= counts[column]) & (counts[column] <= value + ends.high[0])
        covered, found = covered + int(inside.sum()), found + len(rows)
    return covered / found
