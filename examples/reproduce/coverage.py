"""Whether intervals of 95% cover 95%."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import GapNoise, LaplaceNoise, Measurement, from_threshold, from_top_k
from dpsql.kernel.mechanisms import Noise
from dpsql.kernel.noise import Entropy
from reproduce.page import Claim, Figure, Section, Table
from reproduce.reduction import named
from reproduce.svg import Series, panel
from reproduce.trials import Halves, affine, measured, threshold_runs, top_k_runs, totals

__all__ = ["KS", "Hits", "Point", "claims_apart", "claims_hits", "claims_tied", "interval_coverage"]

KS = (2, 3, 5, 10, 15, 25)
EPSILON = Fraction(7, 10)
WAYS = ("EACH", "ANCHOR", "above a threshold, free")
NOISES: tuple[Noise, ...] = ("exponential", "laplace")
THRESHOLD = 500
SITUATIONS = {
    "20 far above, 30 at 0": [2000] * 20 + [0] * 30,
    "all 20 above": [520] * 50,
    "all at the threshold": [500] * 50,
    "all 30 below": [470] * 50,
    "one at it, the others 0": [0] * 24 + [500] + [0] * 25,
    "from 60 below to 60 above": [440 + 120 * i // 49 for i in range(50)],
}
KINDS = {"sparse vector": 1, "adaptive sparse vector": 4}
"""Their branches."""


@dataclass(frozen=True, slots=True)
class Point:
    """How many intervals cover the true count, in per cent."""

    counts: str
    noise: Noise
    k: int
    way: str
    covered: float
    error: float
    """Standard error in percentage points, as if each run had one interval only."""


@dataclass(frozen=True, slots=True)
class Hits:
    """How many intervals of the groups that a sparse vector found cover the true count, in per cent."""

    mechanism: str
    counts: str
    covered: float
    open: float
    """Intervals without a lower end, in per cent."""
    error: float
    """Standard error in percentage points, as if each run had one interval only."""


def interval_coverage(trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Count how often the interval around an estimate holds the true count."""
    rows: list[Point] = []
    error = 100 * math.sqrt(0.95 * 0.05 / trials)
    for tied in (False, True):
        for noise in NOISES:
            for k in KS:
                shares = [_selected(way, k, noise, tied, trials, entropy) for way in WAYS[:2]]
                if not tied:
                    shares.append(_above(k, noise, trials, entropy))
                kind = "tied" if tied else "well apart"
                rows += [
                    Point(kind, noise, k, way, 100 * share, error)
                    for way, share in zip(WAYS, shares, strict=False)
                ]
                tick()
    hits = [_hits(*kind, name, trials, entropy) for kind in KINDS.items() for name in SITUATIONS]
    legend = [Series(way, (), (), "both", i, i) for i, way in enumerate(WAYS)]
    apart, ties = ([r for r in rows if r.counts == kind] for kind in ("well apart", "tied"))
    return Section(
        "Intervals cover what they promise",
        "dpsql's own; for gaps over a threshold by Free Gap, lemma 5, and its one-sided counterpart.",
        f"95% intervals of the counts that were selected, at epsilon {float(EPSILON)}; {trials:,} runs a "
        "point, each with k intervals. Intervals know the noise, which is public, not which counts were "
        "lucky to be selected.",
        [
            Figure("Counts that are well apart", claims_apart(apart), _panels(apart), legend),
            Figure("All counts tied, the worst case", claims_tied(ties), _panels(ties), legend[:2]),
            Figure("Groups found above a threshold (table below)", claims_hits(hits)),
        ],
        [
            Table(
                "interval_coverage",
                ("counts", "noise", "k", "way", "covered %", "± (s.e.)"),
                [astuple(r) for r in rows],
            ),
            Table(
                "interval_coverage_of_hits",
                ("mechanism", "counts", "covered %", "no lower end %", "± (s.e.)"),
                [astuple(r) for r in hits],
                shown=True,
                title="95% intervals of groups found above the threshold of 500 among 50, at epsilon 1",
            ),
        ],
    )


def claims_hits(rows: Sequence[Hits]) -> list[Claim]:
    """Say what the table of groups found above a threshold shows."""
    found = [r.covered for r in rows]
    at = [r for r in rows if r.counts == "all at the threshold"]
    return [
        Claim(
            f"Given that a group was found, {min(found):.1f}% to {max(found):.1f}% are covered, also where "
            "all lie at the threshold or below it. There most intervals have no lower end "
            f"({min(r.open for r in at):.0f}% to {max(r.open for r in at):.0f}% at the threshold).",
            all(r.covered >= 95 - max(0.5, 5 * r.error) for r in rows),
        )
    ]


def claims_apart(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of counts that are well apart shows."""
    found = [r.covered for r in rows]
    return [
        Claim(
            f"As promised: {min(found):.2f}% to {max(found):.2f}% of the intervals cover the count, whatever "
            "was measured, however many were selected. Free ones above a threshold must also hold near it: "
            "they cover a little more.",
            all(abs(r.covered - 95) <= max(0.5, 5 * r.error) for r in rows if r.way != WAYS[2])
            and all(-max(0.5, 5 * r.error) <= r.covered - 95 <= 3 for r in rows),
        )
    ]


def claims_tied(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of ties shows."""
    ranges = []
    for noise in NOISES:
        mine = [r.covered for r in rows if r.noise == noise]
        ranges.append(f"{min(mine):.1f}% to {max(mine):.1f}% with {named(noise)} noise")
    return [
        Claim(
            f"Where luck alone decides what is selected, {' and '.join(ranges)} are covered, never "
            f"more than {max(0.0, 95 - min(r.covered for r in rows)):.1f} points less than promised.",
            all(r.covered >= 95 - max(0.5, 5 * r.error) for r in rows),
        )
    ]


def _panels(rows: Sequence[Point]) -> list[str]:
    panels = []
    for noise in NOISES:
        drawn = []
        for i, way in enumerate(WAYS):
            mine = [r for r in rows if (r.noise, r.way) == (noise, way)]
            if mine:
                xs = [r.k for r in mine]
                drawn.append(Series("", xs, [r.covered for r in mine], "both", i, i))
        panels.append(
            panel(
                f"{named(noise)} noise", "k", "intervals that cover (from 90%)", drawn,
                y_range=(90, 100), unit="%", level=95,
            )
        )  # fmt: skip
    return panels


def _selected(way: str, k: int, noise: Noise, tied: bool, trials: int, entropy: Entropy) -> float:
    each = way == "EACH"
    plan = Halves.of("EACH" if each else "ANCHOR", k, EPSILON, noise)
    groups = 3 * k
    counts = np.full(groups, 10**6) if tied else 10**6 * np.arange(groups, 0, -1)
    runs = top_k_runs(counts, k, plan.selecting, trials, entropy, noise)
    exact = counts[runs.index]
    values, grid = (measured if each else totals)(exact, plan.scale, entropy)
    law = LaplaceNoise(plan.scale, grid, total=not each)

    def estimate(x: NDArray[np.float64]) -> NDArray[np.float64]:
        found = from_top_k(x[:k], k, runs.noise, Measurement(x[k:] if each else float(x[k]), law))
        return np.concatenate([found.low, found.high])

    rest = values if each else values[:, None]
    ends = affine(estimate, k + rest.shape[1])(np.hstack([runs.gap, rest]))
    return float(((ends[:, :k] <= exact) & (exact <= ends[:, k:])).mean())


def _above(k: int, noise: Noise, trials: int, entropy: Entropy) -> float:
    counts = np.concatenate([np.full(k, 10**6), np.zeros(2 * k, dtype=np.int64)])
    covered = found = 0
    share = Fraction(1, 4)
    far = 10.0**6  # an interval near the threshold has no lower end
    ends = from_threshold(
        [far], -far, GapNoise(noise, k / ((1 - share) * EPSILON), threshold_scale=1 / (share * EPSILON))
    )
    for part, runs in threshold_runs(
        counts, np.full(trials, 10**5), k, EPSILON, entropy, branches=1, share=share, noise=noise
    ):
        rows, slot = np.nonzero(runs.index >= 0)
        value, column = runs.gap[rows, slot] + part[rows], runs.index[rows, slot]
        inside = (value + ends.low[0] <= counts[column]) & (counts[column] <= value + ends.high[0])
        covered, found = covered + int(inside.sum()), found + len(rows)
    return covered / found


def _hits(mechanism: str, branches: int, name: str, trials: int, entropy: Entropy) -> Hits:
    counts = np.array(SITUATIONS[name])
    inside = no_end = found = 0
    for part, runs in threshold_runs(
        counts, np.full(trials, THRESHOLD), 5, Fraction(1), entropy, branches=branches
    ):
        hit, plan = runs.index >= 0, runs.plan
        scales = tuple(plan.scales[j] for j in runs.branch[hit].tolist())
        ends = from_threshold(
            runs.gap[hit],
            int(part[0]),
            GapNoise(plan.noise, scales, plan.resolution, plan.threshold_scale),
            least=plan.least_gaps(runs)[hit],
            plain=branches == 1,
        )
        exact = counts[runs.index[hit]]
        # An interval without a lower end has NaN there.
        inside += int((~(exact < ends.low) & (exact <= ends.high)).sum())
        no_end, found = no_end + int(np.isnan(ends.low).sum()), found + len(exact)
    error = 100 * math.sqrt(0.95 * 0.05 / trials)
    return Hits(mechanism, name, 100 * inside / max(found, 1), 100 * no_end / max(found, 1), error)
