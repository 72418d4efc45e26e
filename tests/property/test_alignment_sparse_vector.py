"""The sparse vector family is private: its proof, run on the mechanisms with their noise given.

For random counts, a neighbour and noise, with omega = run(D, H): run(D', phi(omega, H)) = omega; the
cost of phi is at most the charge of omega; every shifted noise stays in its support; and phi can be
undone knowing omega. Noise is on the grid, ties included; nothing is idealised.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    HybridSparseVector,
    Noise,
    NoiseSource,
    SparseVectorByRounds,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVectorPlan
from dpsql.kernel.public_order import in_public_order

CASES, FULL = 150, 400
"""Instances of every day's seed, and of each of the others."""
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 33))]


@dataclass(frozen=True)
class GivenNoise(NoiseSource):
    """In grid steps: of the threshold, and of each branch and group."""

    level: int = 0
    queries: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 0), dtype=np.int64))
    scales: tuple[Fraction, ...] = ()
    hits: list[NDArray[np.int64]] = field(default_factory=list)

    def draw(self, *_: object) -> NDArray[np.int64]:
        return np.array([[self.level]])

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = self.queries[self.scales.index(scale)]
        where = np.flatnonzero(drawn >= need)
        self.hits[:] = [where]
        return where, drawn[where]

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        """Of all groups the same ones, restricted to the hits."""
        order = np.random.default_rng(self.queries.shape[1]).permutation(self.queries.shape[1])
        return np.argsort(np.argsort(order[self.hits[0]]))


# The hits in order, their branches and gaps, the charge.
Released = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], Fraction]


def run(counts: NDArray[np.int64], noise: GivenNoise, plan: SparseVectorPlan) -> Released:
    """What a run releases: the hits in order with their branches and gaps; and the charge."""
    done = plan.run(in_public_order(counts) if plan.ordered else counts, noise)
    return done.index, done.branch, done.gap, done.charge.epsilon


def phi(
    q: NDArray[np.int64],
    p: NDArray[np.int64],
    omega: Released,
    noise: GivenNoise,
    plan: SparseVectorPlan,
    *,
    c: int,
    monotone: bool,
    within: tuple[int, int] | None = None,
    back: bool = False,
) -> GivenNoise:
    """Align noise for q to p; with `back`, undo it."""
    hits, branch = omega[:2]
    lift = 0 if monotone and (p <= q).all() else c
    if within:
        low, high = min(within[0], 0), max(within[1], 0)
        lift = high if ((p - q <= high) & (p - q >= low)).all() else -low
    sign = -1 if back else 1
    queries = noise.queries.copy()
    queries[branch, hits] += sign * (lift + (q - p)[hits] << plan.resolution)
    return GivenNoise(
        level=noise.level + sign * (lift << plan.resolution), queries=queries, scales=plan.scales
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.parametrize("mechanism", [AdaptiveSparseVector, HybridSparseVector])
@pytest.mark.sampled(5)
def test_alignment(
    mechanism: type[AdaptiveSparseVector | HybridSparseVector],
    noise: Noise,
    monotone: bool,
    c: int,
    seed: int,
) -> None:
    lengths = aligned(mechanism, noise, c, 1000 * seed + c, monotone=monotone)
    assert len(lengths) >= (8 if mechanism is AdaptiveSparseVector else 4)


@pytest.mark.parametrize("within", [(0, 4), (-1, 4), (-4, 4), (2, 4)])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("mechanism", [AdaptiveSparseVector, HybridSparseVector])
@pytest.mark.sampled(3)
def test_alignment_of_moves_within_a_range(
    mechanism: type[AdaptiveSparseVector | HybridSparseVector], noise: Noise, within: tuple[int, int]
) -> None:
    """The threshold moves by the larger end; a hit by at most the difference of the ends."""
    low, high = min(within[0], 0), max(within[1], 0)
    seen = aligned(mechanism, noise, high - low, high, monotone=True, within=within, cases=100)
    assert len(seen) >= 4


def aligned(
    mechanism: type[AdaptiveSparseVector | HybridSparseVector],
    noise: Noise,
    c: int,
    seed: int,
    *,
    monotone: bool,
    within: tuple[int, int] | None = None,
    cases: int | None = None,
) -> set[tuple[int, int]]:
    """Check the alignment of many instances; return how many hits there were, and the last one."""
    rng = np.random.default_rng(seed)
    lengths = set()
    for case in range(cases or (CASES if seed < 1000 else FULL)):
        n, branches = int(rng.integers(1, 9)), 1
        options: dict[str, Any] = {}
        if mechanism is AdaptiveSparseVector:
            branches = int(rng.integers(1, 5))
            options = {
                "limit": [None, 1, 2][int(rng.integers(0, 3))],
                "branches": branches,
                "margin": [None, "1/2"][case // 8 % 2],
            }
        if within:
            options["threshold_sensitivity"] = max(within[1], -within[0])
        plan = mechanism.plan(
            n,
            Fraction((4, "7/2", 0, 2**39)[case % 4]),
            int(rng.integers(1, 4)),
            [1, 20][case // 4 % 2],
            sensitivity=c,
            monotone=monotone,
            noise=noise,
            resolution=None if noise == "geometric" else int(rng.integers(0, 3)),
            **options,
        )
        q = rng.integers(0, 9, n) + (2**39 - 4 if case % 4 == 3 else 0)
        p = q + (rng.choice([-1, 1]) * rng.integers(0, c + 1, n) if monotone else rng.integers(-c, c + 1, n))
        if within:
            p = q + rng.choice([-1, 1]) * rng.choice([0, *within, *range(within[0], within[1] + 1)], n)
        # Noise narrower than the plan's gives outputs of all kinds.
        width = float(rng.choice([0.6, 0.1, 0.02]))
        queries, level = rng.geometric(width, (branches, n)) - 1, int(rng.geometric(width)) - 1
        if noise == "laplace":
            queries -= rng.geometric(width, (branches, n)) - 1
            level -= int(rng.geometric(width)) - 1
        drawn = GivenNoise(level=level, queries=queries, scales=plan.scales)

        omega = run(q, drawn, plan)
        moved = phi(q, p, omega, drawn, plan, c=c, monotone=monotone, within=within)
        again = run(p, moved, plan)
        assert all(np.array_equal(one, other) for one, other in zip(again[:3], omega[:3], strict=True))
        assert again[3] == omega[3]

        step = Fraction(1, 1 << plan.resolution)
        cost = abs(moved.level - level) * step / plan.threshold_scale
        for place, scale in enumerate(plan.scales):
            cost += int(np.abs(moved.queries - queries)[place].sum()) * step / scale
        assert cost <= omega[3] <= plan.loss.charge.epsilon
        if noise != "laplace":
            assert moved.level >= level
            assert (moved.queries >= queries).all()
        undone = phi(q, p, again, moved, plan, c=c, monotone=monotone, within=within, back=True)
        assert undone.level == level
        assert np.array_equal(undone.queries, queries)
        lengths.add((len(omega[0]), int(omega[0][-1]) if len(omega[0]) else -1))
    return lengths


@dataclass(frozen=True)
class RoundNoise(NoiseSource):
    """In grid steps: of the threshold of each round, and of each group in each round."""

    level: NDArray[np.int64] = field(kw_only=True)
    queries: NDArray[np.int64] = field(kw_only=True)
    rounds: list[int] = field(default_factory=list)

    def draw(self, *_: object) -> NDArray[np.int64]:
        self.rounds.append(len(self.rounds))
        return self.level[self.rounds[-1]].reshape(1, 1)

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = self.queries[self.rounds[-1]]
        drawn = drawn[len(drawn) - len(need) :]
        where = np.flatnonzero(drawn >= need)
        return where, drawn[where]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.sampled(5)
def test_alignment_of_rounds(noise: Noise, monotone: bool, c: int, seed: int) -> None:
    assert len(rounds_aligned(noise, c, 1000 * seed + c, monotone=monotone)) >= 8


@pytest.mark.parametrize("within", [(0, 4), (-1, 4), (-4, 4), (2, 4)])
def test_alignment_of_rounds_of_moves_within_a_range(within: tuple[int, int]) -> None:
    low, high = min(within[0], 0), max(within[1], 0)
    assert len(rounds_aligned("exponential", high - low, high, monotone=True, within=within)) >= 8


def rounds_aligned(
    noise: Noise, c: int, seed: int, *, monotone: bool, within: tuple[int, int] | None = None
) -> set[tuple[int, int]]:
    """Check the alignment of many instances, round by round; return how many hits and rounds there were."""
    rng, seen = np.random.default_rng(seed), set()
    for case in range(CASES if seed < 1000 else FULL):
        n, k = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        plan = SparseVectorByRounds.plan(
            n,
            Fraction((4, "7/2", 0, 2**39)[case % 4]),
            k,
            [1, 20][case // 4 % 2],
            sensitivity=c,
            threshold_sensitivity=max(within[1], -within[0]) if within else None,
            monotone=monotone,
            noise=noise,
            resolution=None if noise == "geometric" else int(rng.integers(0, 3)),
        )
        q = rng.integers(0, 9, n) + (2**39 - 4 if case % 4 == 3 else 0)
        p = q + (rng.choice([-1, 1]) * rng.integers(0, c + 1, n) if monotone else rng.integers(-c, c + 1, n))
        if within:
            p = q + rng.choice([-1, 1]) * rng.choice([0, *within, *range(within[0], within[1] + 1)], n)
        width = float(rng.choice([0.6, 0.1, 0.02]))
        level, queries = rng.geometric(width, k) - 1, rng.geometric(width, (k, n)) - 1
        if noise == "laplace":
            level -= rng.geometric(width, k) - 1
            queries -= rng.geometric(width, (k, n)) - 1

        omega = plan.run(in_public_order(q), RoundNoise(level=level, queries=queries))
        lift = 0 if monotone and (p <= q).all() else c
        if within:
            low, high = min(within[0], 0), max(within[1], 0)
            lift = high if ((p - q <= high) & (p - q >= low)).all() else -low
        rounds, hits = np.arange(plan.hits) < omega.units, np.arange(len(omega.index))
        moved, shifted = level.copy(), queries.copy()
        moved[: plan.hits][rounds] += lift << plan.resolution
        shifted[hits, omega.index] += lift + (q - p)[omega.index] << plan.resolution
        again = plan.run(in_public_order(p), RoundNoise(level=moved, queries=shifted))
        assert np.array_equal(again.index, omega.index)
        assert np.array_equal(again.gap, omega.gap)
        assert again.units == omega.units

        step = Fraction(1, 1 << plan.resolution)
        costs = [int(abs(one)) * step / plan.threshold_scale for one in moved - level]
        for turn, of_groups in enumerate(np.abs(shifted - queries).sum(axis=1)):
            costs[turn] += int(of_groups) * step / plan.scales[0]
        # No round costs more than its part, and those that did not run cost nothing.
        assert max(costs) <= plan.loss.charge.epsilon / plan.hits
        assert not any(costs[int(omega.units) :])
        assert sum(costs) <= omega.charge.epsilon <= plan.loss.charge.epsilon
        if noise != "laplace":
            assert (moved >= level).all()
            assert (shifted >= queries).all()
        # Rounds and hits are those of omega, which the shifted noise gives again: the shift can be undone.
        seen.add((len(omega.index), int(omega.units)))
    return seen


def test_a_cost_counted_for_the_wrong_branch_is_seen() -> None:
    """The cost of a base hit is over the charge of a cheap one: the test above would fail."""
    plan = AdaptiveSparseVector.plan(
        1, 0, 1, 1, branches=2, share="1/2", margin=0, noise="geometric", resolution=0
    )
    base, cheap = (
        run(np.array([5]), GivenNoise(queries=np.array([[0], [other]]), scales=plan.scales), plan)
        for other in (-100, 0)
    )
    assert (base[1].tolist(), cheap[1].tolist()) == ([0], [1])
    assert 1 / plan.threshold_scale + 1 / plan.scales[0] == base[3] > cheap[3]
