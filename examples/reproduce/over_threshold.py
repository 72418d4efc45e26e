"""What free gaps over a threshold are worth: squared error of what a sparse vector found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import GapNoise, LaplaceNoise, Measurement, from_threshold
from dpsql.kernel.mechanisms import Noise
from dpsql.kernel.noise import Entropy
from reproduce.error_reduction import EPSILON, EPSILONS, FIXED_K, KS, NOISES, points, ranges
from reproduce.page import Claim, Figure, Section, Table
from reproduce.reduction import Measured, named, near, paired, threshold_alone, threshold_joint
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.trials import affine, measured, threshold_runs

__all__ = ["Point", "claims", "over_threshold", "printed_share", "random_thresholds"]

CLOSE = 0.05
"""So many answers within the noise of the threshold spoil theory: few, but their noise is large."""

COLUMNS = (
    "data", "noise", "k", "epsilon", "reduction %", "± (s.e.)", "theory, together %",
    "theory, each alone %", "near the threshold",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """What gaps save at one setting."""

    data: str
    noise: Noise
    k: int
    epsilon: float
    found: Measured
    alone: float
    """The papers' theory: each gap with its own measurement."""

    @property
    def row(self) -> tuple[object, ...]:
        """For the table."""
        m = self.found
        return (
            self.data, self.noise, self.k, self.epsilon, m.percent, m.error, m.theory, self.alone, m.crowding,
        )  # fmt: skip


def over_threshold(
    first: Sequence[DataSet],
    varied: Sequence[DataSet],
    trials: int,
    entropy: Entropy,
    tick: Callable[[], None],
) -> Section:
    """Free Gap, figures 1a and 2a; dissertation, figures 5-2a and 5-3a."""
    ks = [_point(one, k, EPSILON, n, trials, entropy, tick) for one in first for n in NOISES for k in KS]
    epsilons = [
        _point(one, FIXED_K, epsilon, n, trials, entropy, tick)
        for one in varied
        for n in NOISES
        for epsilon in EPSILONS
    ]
    legend = (
        Series("gaps and measurements, measured", (), (), "points", 0, 0),
        Series("theory, all together (dpsql's estimate)", (), (), "line", 0),
        Series("theory, each gap alone (the papers')", (), (), "dashed", 5),
        Series("hollow: many answers within the noise of the threshold", (), (), "points", 5, 3),
    )
    end = ks[len(KS) - 1].found.percent, ks[2 * len(KS) - 1].found.percent
    return Section(
        "Gaps over a threshold reduce the error too",
        "Free Gap, figures 1a and 2a, section 6.2; dissertation, figures 5-2a and 5-3a.",
        "Sparse vector with gap finds k items above a threshold (drawn at random between the 2k-th and the "
        f"8k-th largest count) with half of epsilon, {float(EPSILON)} unless it says otherwise; the other "
        "half measures them. Threshold plus gap is a second estimate of each. The papers combine each gap "
        "with its own measurement; dpsql combines all of them at once, for they share the threshold's noise. "
        f"{trials:,} runs a point, whiskers of two standard errors.",
        [
            Figure(
                "Reduction over k",
                claims(
                    ks,
                    "up to 66% and 50% as k grows (figures 1a, 5-2a)",
                    f"{end[0]:.0f}% and {end[1]:.0f}% at k = {KS[-1]} on {ks[0].data}",
                ),
                _panels(ks, "k"),
                legend[: 4 if any(r.found.crowded for r in ks) else 3],
            ),
            Figure(
                f"Reduction over epsilon, k = {FIXED_K}",
                claims(epsilons, "stable over epsilon on Kosarak (figures 2a, 5-3a)", _ranges(epsilons)),
                _panels(epsilons, "epsilon"),
                legend[: 4 if any(r.found.crowded for r in epsilons) else 3],
            ),
        ],
        [Table("error_reduction_over_threshold", COLUMNS, [r.row for r in (*ks, *epsilons)])],
    )


def claims(rows: Sequence[Point], paper: str, here: str) -> list[Claim]:
    """Say what a figure shows."""
    clear = [r for r in rows if not r.found.crowded]
    crowded = [r for r in rows if r.found.crowded]
    holds, words = near([r.found for r in clear])
    said = [
        Claim(
            f"The reduction is as predicted: {words}.",
            holds,
            paper,
            here,
        ),
        Claim(
            "Combining all gaps and measurements at once does not do worse than the papers' combination one "
            f"by one: on average over the solid points it saves "
            f"{np.mean([r.found.percent - r.alone for r in clear] or [0.0]):.1f} percentage points more.",
            all(r.found.percent > r.alone - r.found.allowed for r in clear)
            and float(np.mean([r.found.percent - r.alone for r in clear] or [0.0])) > 0,
        ),
    ]
    if crowded:
        worst = min(crowded, key=lambda r: r.found.off)
        harm = sum(r.found.percent < 0 for r in crowded)
        hurt = f"; at {harm} of them gaps do more harm than good" if harm else ""
        said.append(
            Claim(
                "Where many answers lie within the noise of the threshold (hollow points), those found are "
                "also those with lucky noise: none of these points is ahead of theory, and they are up to "
                f"{max(0.0, -worst.found.off):.0f} percentage points behind (on {worst.data} at "
                f"k = {worst.k}, epsilon {worst.epsilon}, {named(worst.noise)} noise){hurt}.",
                all(r.found.off <= r.found.allowed for r in crowded),
            )
        )
    return said


def random_thresholds(one: DataSet, k: int, trials: int) -> NDArray[np.int64]:
    """Pick thresholds among the 2k-th to the 8k-th largest counts, as the papers do."""
    descending = one.descending
    ranks = np.random.default_rng(k).integers(2 * k, min(8 * k, len(descending) - 1) + 1, trials)
    return descending[ranks - 1]


def printed_share(k: int) -> Fraction:
    """Return the threshold's share in the papers' experiments, 1 : k^(2/3)."""
    return Fraction(1 / (1 + k ** (2 / 3))).limit_denominator(10**6)


def _ranges(rows: Sequence[Point]) -> str:
    return ranges([(r.data, r.noise, r.epsilon, r.found) for r in rows])


def _point(
    one: DataSet,
    k: int,
    epsilon: Fraction,
    noise: Noise,
    trials: int,
    entropy: Entropy,
    tick: Callable[[], None],
) -> Point:
    half, scale, share = epsilon / 2, 2 * k / epsilon, printed_share(k)
    threshold_scale, query_scale = 1 / (share * half), k / ((1 - share) * half)
    plain, better, close = [], [], []
    for part, runs in threshold_runs(
        one.counts,
        random_thresholds(one, k, trials),
        k,
        half,
        entropy,
        branches=1,
        share=share,
        noise=noise,
    ):
        found = (runs.index >= 0).sum(axis=1)
        for hits in np.unique(found[found > 0]).tolist():
            rows = np.flatnonzero(found == hits)
            exact = one.counts[runs.index[rows, :hits]]
            values, grid = measured(exact, scale, entropy)
            gap = runs.gap[rows, :hits] + part[rows][:, None]
            estimate = affine(
                lambda x, hits=hits, grid=grid: (
                    from_threshold(  # type: ignore[misc]  # bound in the loop
                        x[:hits],
                        0,
                        GapNoise(noise, query_scale, threshold_scale=threshold_scale),
                        Measurement(x[hits:], LaplaceNoise(scale, grid)),
                    ).value
                ),
                2 * hits,
            )
            combined = estimate(np.hstack([gap, values]))
            plain.append(((values - exact) ** 2).mean(axis=1))
            better.append(((combined - exact) ** 2).mean(axis=1))
            close.append((exact - part[rows][:, None] < float(threshold_scale + query_scale)).ravel())
    tick()
    return Point(
        one.name,
        noise,
        k,
        float(epsilon),
        Measured(
            *paired(np.concatenate(plain), np.concatenate(better)),
            threshold_joint(k, noise),
            float(np.concatenate(close).mean()),
            CLOSE,
        ),
        threshold_alone(k, noise),
    )


def _panels(rows: Sequence[Point], over: str) -> list[str]:
    drawn = []
    for name, noise in dict.fromkeys((r.data, r.noise) for r in rows):
        mine = [r for r in rows if (r.data, r.noise) == (name, noise)]
        xs = [float(getattr(r, over)) for r in mine]
        lines = [
            Series("", xs, [r.alone for r in mine], "dashed", 5),
            Series("", xs, [r.found.theory for r in mine], "line", 0),
            *points(xs, [r.found for r in mine], 0, (0, 3)),
        ]
        title = f"{name}, {named(noise)} noise"
        low = 20 * math.floor(min(0.0, *(r.found.percent for r in rows if r.data == name)) / 20)
        drawn.append(panel(title, over, "reduction of squared error", lines, y_range=(low, 80), unit="%"))
    return drawn
