"""Totals that are measured with the bound of a kept ladder, many times, against the best constant bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import KeptLadder, count_offset
from dpsql.kernel.mechanisms import FULL, Bins, Ladder, Laplace, NoiseSource
from tests.kept_ladders import gathered, interval_of

RUNGS = 41

Sizes = NDArray[np.int64]


def scores(sizes: Sizes) -> list[int]:
    """Return the excess scores of the rungs 2^0 to 2^40, as `excess_scores` does for few units."""
    found = []
    for j in range(RUNGS):
        rung = 1 << j
        beyond = np.clip(sizes - rung, 0, -(-rung // 8))
        found.append(int(np.minimum(8 * FULL * beyond // rung, FULL).sum()))
    return found


def released(
    sizes: Sizes, epsilon: Fraction, runs: int, source: NoiseSource, *, step: Fraction = Fraction(1)
) -> Iterator[KeptLadder]:
    """Release kept ladders of this epsilon, as a half for M and a half for the bins."""
    ladder = Ladder.plan(RUNGS, epsilon / 2, sensitivity=FULL)
    rungs = ladder.run(np.tile(np.array(scores(sizes)), (runs, 1)), source).rung[:, 0]
    top = Bins.plan(1 << RUNGS, 1)
    exact = np.bincount(np.searchsorted(np.array(top.ends), sizes[sizes > 0]), minlength=top.groups).tolist()
    for rung in np.unique(rungs).tolist():
        bins = Bins.plan(2 << rung, epsilon / 2)
        counts = gathered(bins, top.ends, exact)
        for found in bins.run(np.tile(counts, (int((rungs == rung).sum()), 1)), source).number.tolist():
            made = datetime(2026, 1, 1, tzinfo=UTC)
            yield KeptLadder(1, "t", "rows", step, "v", made, epsilon, 2 << rung, tuple(found))


def best_error(sizes: Sizes, epsilon: float, variance: float = 2.0) -> float:
    """Return the least error, root of its mean square, over all constant bounds; what is cut is known."""
    ordered = np.sort(sizes)
    beyond = np.append(np.cumsum(ordered[::-1])[::-1], 0)
    bounds = np.unique(np.ceil(2 ** (np.arange(RUNGS * 32) / 32)))
    first = np.searchsorted(ordered, bounds, side="right")
    cut = beyond[first] - bounds * (len(ordered) - first)
    return float(np.sqrt(variance * (bounds / epsilon) ** 2 + cut**2).min())


@dataclass(frozen=True)
class Outcome:
    """What many runs had: errors over the best one, and how often the exact total was covered."""

    ratio: float
    covered: float
    by_noise: float
    width: float
    total: float
    spread: float


def simulated(sizes: Sizes, kept: Fraction, epsilon: Fraction, runs: int, source: NoiseSource) -> Outcome:
    """Measure the total of all sizes with a kept ladder of its own in each run."""
    exact = int(sizes.sum())
    ordered = np.sort(sizes)
    below = np.append(0, np.cumsum(ordered))
    errors, covered, noise, widths, totals = [], 0, 0, [], []
    for ladder in released(sizes, kept, runs, source):
        bound = ladder.choose_bound(epsilon)
        first = int(np.searchsorted(ordered, bound, side="right"))
        clipped = int(below[first]) + bound * (len(ordered) - first)
        plan = Laplace.plan(1, epsilon, sensitivity=bound)
        value = float(plan.run(np.array([clipped]), source).value[0])
        half = count_offset(plan.scale, 0.95, resolution=plan.resolution)
        low, high = interval_of(ladder, value, half, bound)
        errors.append(value - exact)
        covered += low <= exact <= high
        noise += value - half <= exact <= value + half
        widths.append(high - low)
        totals.append(ladder.total / exact)
    best = best_error(sizes, float(epsilon))
    return Outcome(
        math.sqrt(float(np.mean(np.square(errors)))) / best,
        covered / runs,
        noise / runs,
        float(np.mean(widths)) / (3.92 * best),
        float(np.mean(totals)),
        float(np.std(totals)),
    )


@dataclass(frozen=True)
class Parts:
    """What each unit has in each group: positions of units and groups, and how much."""

    unit: NDArray[np.int64]
    group: NDArray[np.int64]
    number: NDArray[np.int64]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group.max()) + 1

    @property
    def sizes(self) -> Sizes:
        """The total of each unit over all groups."""
        return np.bincount(self.unit, self.number).astype(np.int64)

    def clipped(self, bound: float) -> NDArray[np.float64]:
        """Return the totals of the groups; the parts of a unit beyond the bound are weighted down to it."""
        sizes = self.sizes
        weight = np.minimum(1, bound / np.maximum(sizes, 1))[self.unit]
        return np.bincount(self.group, weight * self.number, minlength=self.groups).astype(np.float64)


@dataclass(frozen=True)
class GroupOutcome:
    """As `Outcome`, over all groups; and how far their sum is off, with shares given back and without."""

    ratio: float
    covered: float
    by_noise: float
    added: float
    unshifted: float


def simulated_groups(
    parts: Parts, kept: Fraction, epsilon: Fraction, runs: int, source: NoiseSource
) -> GroupOutcome:
    """Measure the totals of all groups with a kept ladder of its own in each run."""
    exact, sizes = parts.clipped(math.inf), parts.sizes
    clipped = cache(parts.clipped)
    errors, covered, noise, added, before = [], [], [], [], []
    for ladder in released(sizes, kept, runs, source):
        bound = ladder.choose_bound(epsilon, groups=parts.groups)
        plan = Laplace.plan(parts.groups, epsilon, groups_per_unit=1, sensitivity=bound)
        drawn = plan.run(np.zeros(parts.groups, dtype=np.int64), source).value
        value = clipped(bound) + drawn
        half = count_offset(plan.scale, 0.95, resolution=plan.resolution)
        shared = ladder.divide_by_shares(value, half, bound)
        errors.append(np.square(shared.value - exact).mean())
        covered.append(((shared.low <= exact) & (exact <= shared.high)).mean())
        noise.append((np.abs(value - exact) <= half).mean())
        added.append(abs(shared.value.sum() / exact.sum() - 1))
        before.append(abs(value.sum() / exact.sum() - 1))
    best = min(
        math.sqrt(2 * (bound / float(epsilon)) ** 2 + float(np.square(clipped(bound) - exact).mean()))
        for bound in np.unique(np.ceil(2 ** (np.arange(1, 8 * math.log2(sizes.max()) + 2) / 8))).tolist()
    )
    return GroupOutcome(
        math.sqrt(float(np.mean(errors))) / best,
        float(np.mean(covered)),
        float(np.mean(noise)),
        float(np.mean(added)),
        float(np.mean(before)),
    )
