"""Counts and noise at their limits: no sum and no difference of them passes the end of int64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates.predictions import half_width, stddev
from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    Box,
    HybridTopK,
    Laplace,
    LimitedDomain,
    NoiseSource,
    NoisyTopK,
    Refinement,
)
from dpsql.kernel.mechanisms.mechanism import Noise
from dpsql.kernel.mechanisms.sparse_vector_plan import Hits
from dpsql.kernel.noise import LARGEST, STEP_LIMIT, place
from dpsql.mechanisms import FirstStable

LAST = np.iinfo(np.int64).max
COUNTS = (LAST, -LAST - 1, 0, STEP_LIMIT, -STEP_LIMIT, STEP_LIMIT - 1)
SCALE = 2**20
"""So large that the grid has whole counts."""


@dataclass(frozen=True)
class Extreme(NoiseSource):
    """Returns noise at its limits and 0, in turn, in draws of any shape; `seed` says which comes first."""

    seed: int = field(kw_only=True)

    def draw(
        self, noise: Noise, scale: Fraction, bits: int, size: int | tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Return 0 and the largest draw, and with Laplace noise its negative, at random."""
        least = -1 if noise == "laplace" else 0
        rng = np.random.default_rng((self.seed, int(scale), bits))
        return np.asarray(rng.integers(least, 2, size) * LARGEST)

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return those draws that are large enough."""
        drawn = self.draw(noise, scale, bits, len(need))
        where = np.flatnonzero([int(d) >= int(n) for d, n in zip(drawn, need, strict=True)])
        return where, drawn[where]


def inputs() -> Iterator[tuple[list[int], Extreme]]:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        yield [COUNTS[i] for i in rng.integers(0, len(COUNTS), 5)], Extreme(seed=seed)


def clamped(count: int) -> int:
    return max(-STEP_LIMIT, min(int(count), STEP_LIMIT))


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("trials", [False, True])
def test_gaps_between_noisy_counts(noise: Noise, *, trials: bool) -> None:
    plan = NoisyTopK.plan(5, 4, 1, sensitivity=SCALE, noise=noise)
    assert plan.resolution == 0
    for counts, source in inputs():
        given = np.array([counts]) if trials else np.array(counts)
        found = plan.run(given, source)
        drawn = source.draw(noise, plan.scale, 0, given.shape).ravel()
        noisy = sorted((clamped(c) + int(z) for c, z in zip(counts, drawn, strict=True)), reverse=True)
        exact = [more - less for more, less in itertools.pairwise(noisy)]
        np.testing.assert_allclose(found.gap.ravel(), [float(gap) for gap in exact], atol=1)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("threshold", [10**30, -(10**30), STEP_LIMIT, 0])
@pytest.mark.sampled(3, rest="longer")
def test_thresholds_beyond_all_counts(noise: Noise, threshold: int, *, below: bool) -> None:
    hybrid = HybridTopK.plan(5, threshold, 5, 1, sensitivity=SCALE, noise=noise, below=below)
    scan = AdaptiveSparseVector.plan(
        5, threshold, 5, 1, sensitivity=SCALE, noise=noise, below=below, branches=2, margin=0
    )
    for counts, source in inputs():
        found = hybrid.run(np.array(counts), source)
        assert (found.gap >= 0).all()
        assert not found.rest < 0
        level = scan.threshold_noise(1, source)
        hits = scan.passing(np.array([counts]), level, source)
        values = [(-1 if below else 1) * clamped(count) - int(level[0, 0]) for count in counts]
        for at, (steps, value) in enumerate(zip(hits_of(hits, 5), values, strict=True)):
            drawn = [int(source.draw(noise, scale, 0, 5)[at]) for scale in scan.scales]
            passed = [value + z for z, cut in zip(drawn, scan.cutoffs, strict=True) if value + z >= cut]
            assert steps == (passed[-1] if passed else None)


def hits_of(hits: Hits, groups: int) -> list[int | None]:
    """Return the noisy value of each group, in grid steps, or None where it is no hit."""
    steps: list[int | None] = [None] * groups
    for at, value in zip(hits.place.tolist(), hits.steps.tolist(), strict=True):
        steps[at] = value
    return steps


def test_cutoffs_of_unknown_domains_and_of_stability() -> None:
    limited = LimitedDomain.plan(4, 1, "1e-9", candidates=4, threshold=10**30, sensitivity=SCALE)
    stable = FirstStable.plan(5, 1, "1e-9", noise="laplace", sensitivity=SCALE).tests
    for counts, source in inputs():
        assert (limited.run(np.array(counts), source).gap >= 0).all()
        margins = stable.margins(np.array([counts]), source)[0].tolist()
        level, drawn = (
            source.draw("laplace", scale, 0, size).ravel().tolist()
            for scale, size in ((stable.threshold_scale, (1, 1)), (stable.scale, (1, 5)))
        )
        exact = [
            max(clamped(c), 0) - stable.cutoff - level[0] + z for c, z in zip(counts, drawn, strict=True)
        ]
        assert margins == exact


@pytest.mark.parametrize("resolution", [0, 3, 20])
def test_measured_counts_and_totals(resolution: int) -> None:
    each = Laplace.plan(5, 1, sensitivity=SCALE, resolution=resolution)
    total = Laplace.plan(5, 1, sensitivity=SCALE, resolution=resolution, total=True)
    again = Refinement.plan(5, ["0.5", 1], sensitivity=SCALE, resolution=resolution)
    for counts, source in inputs():
        steps = [int(x) for x in place(np.array(counts), resolution)]
        drawn = source.draw("laplace", each.scale, resolution, 5).tolist()
        wanted = [float(Fraction(x + z, 1 << resolution)) for x, z in zip(steps, drawn, strict=True)]
        np.testing.assert_array_equal(each.run(np.array(counts), source).value, wanted)
        one = source.draw("laplace", total.scale, resolution, (1,)).tolist()
        exact = float(Fraction(sum(steps) + one[0], 1 << resolution))
        assert total.run(np.array(counts), source).value.tolist() == [exact]
        first, second = np.split(again.run(np.array(counts), source).value, 2)
        reach = 2.0 * LARGEST / (1 << resolution)
        released = np.array([x + z for x, z in zip(steps, drawn, strict=True)])
        later = again.again(np.array(counts), released, source).value
        for values in (first, second, later):
            assert (np.abs(values - np.array(steps) * 0.5**resolution) <= reach).all()


@pytest.mark.parametrize("bounds", [(1,), (2**32,), (2**32, 2**32), (3, 7), (1, 2**20)])
@pytest.mark.parametrize("monotone", [True, False])
def test_one_noise_for_counts_at_their_limits(bounds: tuple[int, ...], *, monotone: bool) -> None:
    """Bounds of 2^32 steps are accepted, and no count overflows."""
    plan = Box.plan(len(bounds), 1, sensitivity=bounds, monotone=monotone)
    steps = [plan.unit // bound for bound in bounds]
    for count in (LAST, -LAST - 1, STEP_LIMIT, 0):
        value = plan.run(np.full(len(bounds), count)).value
        for got, step, bound in zip(value, steps, bounds, strict=True):
            limit = STEP_LIMIT // step
            assert abs(got - max(-limit, min(count, limit))) < 100 * bound


def test_a_bound_far_above_the_limit_of_before_is_planned_as_any_other() -> None:
    small, large = Box.plan(3, 1), Box.plan(3, 1, sensitivity=2**32)
    assert stddev(large, 0) == pytest.approx(2**32 * stddev(small, 0), rel=1e-3)
    assert half_width(large, Fraction(95, 100), 0) == pytest.approx(
        2**32 * half_width(small, Fraction(95, 100), 0), rel=1e-3
    )
    found = large.run(np.array([2**55, 2**59, -(2**59)]))
    np.testing.assert_allclose(found.value, [2.0**55, 2.0**59, -(2.0**59)], atol=2.0**39)
