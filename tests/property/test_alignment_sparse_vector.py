"""The sparse vector family is private: its proof, run on the product's own pure functions.

For random counts, a neighbour and noise, with omega = run(D, H): run(D', phi(omega, H)) = omega; the
cost of phi is at most the charge of omega; every shifted noise stays in its support; and phi can be
undone knowing omega. Noise is on the grid, ties included; nothing is idealised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.mechanisms import Noise
from dpsql.mechanisms.hybrid import above
from dpsql.mechanisms.sparse_vector import affordable, passed
from dpsql.mechanisms.sparse_vector_plan import SparseVectorPlan, sparse_vector_plan

CASES = 1200
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 11))]


@dataclass
class Given:
    """Of the threshold, and of each branch and group."""

    level: int
    queries: NDArray[np.int64]


# The branch or place of each group, the gaps in steps, the charge.
Released = tuple[NDArray[np.int64], NDArray[np.int64], Fraction]


def dense(
    queries: NDArray[np.int64],
) -> Callable[[int, NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The product's `reach`, reading noise drawn beforehand."""

    def reach(place: int, need: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        where = np.flatnonzero(queries[place] >= need)
        return where, queries[place][where]

    return reach


def run(counts: NDArray[np.int64], noise: Given, plan: SparseVectorPlan) -> Released:
    """What a run releases: the branch of every answered group, the gaps of hits in steps, the charge."""
    branch_index, steps = passed((counts << plan.bits) - noise.level, plan.cutoffs, dense(noise.queries))
    answered = affordable(branch_index, plan)
    hit = answered & (branch_index >= 0)
    units = int((1 << branch_index[hit]).sum())
    return np.where(answered, branch_index, -2), np.where(hit, steps, 0), plan.spent(units)


def run_hybrid(counts: NDArray[np.int64], noise: Given, plan: SparseVectorPlan) -> Released:
    """Hybrid 20: the best `hits` noisy counts that reach the noisy threshold, ties by the same ranks."""
    ranks = np.random.default_rng(len(counts)).permutation(len(counts))
    index, steps = above((counts << plan.bits) - noise.level, plan, dense(noise.queries), ranks.__getitem__)
    branch_index, gaps = np.full(len(counts), -1), np.zeros(len(counts), dtype=np.int64)
    branch_index[index], gaps[index] = 0, steps
    # The order among released groups is released too.
    return np.concatenate([branch_index, index]), np.concatenate([gaps, 0 * index]), plan.spent(len(index))


def phi(
    q: NDArray[np.int64],
    p: NDArray[np.int64],
    omega: Released,
    noise: Given,
    plan: SparseVectorPlan,
    *,
    c: int,
    monotone: bool,
    back: bool = False,
) -> Given:
    """Align noise for q to p; with `back`, undo it."""
    branch_index = omega[0][: len(q)]
    lift = 0 if monotone and (p <= q).all() else c
    hits = np.flatnonzero(branch_index >= 0)
    sign = -1 if back else 1
    queries = noise.queries.copy()
    queries[branch_index[hits], hits] += sign * (lift + (q - p)[hits] << plan.bits)
    return Given(noise.level + sign * (lift << plan.bits), queries)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.parametrize("mechanism", [run, run_hybrid])
def test_alignment(
    mechanism: Callable[[NDArray[np.int64], Given, SparseVectorPlan], Released],
    noise: Noise,
    monotone: bool,
    c: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(1000 * seed + c)
    lengths = set()
    for case in range(CASES):
        n, branches = int(rng.integers(1, 9)), int(rng.integers(1, 5)) if mechanism is run else 1
        plan = sparse_vector_plan(
            n,
            Fraction((4, "7/2", 0, 2**39)[case % 4]),
            int(rng.integers(1, 4)),
            [1, 20][case // 4 % 2],
            limit=[None, 1, 2][int(rng.integers(0, 3))] if mechanism is run else None,
            branches=branches,
            share=None,
            margin=[None, "1/2"][case // 8 % 2],
            sensitivity=c,
            monotone=monotone,
            noise=noise,
            resolution=None if noise == "geometric" else int(rng.integers(0, 3)),
            below=False,
        )
        q = rng.integers(0, 9, n) + (2**39 - 4 if case % 4 == 3 else 0)
        p = q + (rng.choice([-1, 1]) * rng.integers(0, c + 1, n) if monotone else rng.integers(-c, c + 1, n))
        # Noise narrower than the plan's gives outputs of all kinds.
        width = float(rng.choice([0.6, 0.1, 0.02]))
        queries, level = rng.geometric(width, (branches, n)) - 1, int(rng.geometric(width)) - 1
        if noise == "laplace":
            queries -= rng.geometric(width, (branches, n)) - 1
            level -= int(rng.geometric(width)) - 1
        drawn = Given(level, queries)

        omega = mechanism(q, drawn, plan)
        aligned = phi(q, p, omega, drawn, plan, c=c, monotone=monotone)
        again = mechanism(p, aligned, plan)
        assert np.array_equal(again[0], omega[0])
        assert np.array_equal(again[1], omega[1])
        assert again[2] == omega[2]

        step = Fraction(1, 1 << plan.bits)
        cost = abs(aligned.level - level) * step / plan.threshold_scale
        for place, scale in enumerate(plan.scales):
            cost += int(np.abs(aligned.queries - queries)[place].sum()) * step / scale
        assert cost <= omega[2] <= plan.epsilon
        if noise != "laplace":
            assert aligned.level >= level
            assert (aligned.queries >= queries).all()
        undone = phi(q, p, again, aligned, plan, c=c, monotone=monotone, back=True)
        assert undone.level == level
        assert np.array_equal(undone.queries, queries)
        lengths.add((int((omega[0][:n] >= 0).sum()), int((omega[0] == -2).sum())))
    assert len(lengths) >= (8 if mechanism is run else 4)


def test_a_cost_counted_for_the_wrong_branch_is_seen() -> None:
    """The cost of a base hit is over the charge of a cheap one: the test above would fail."""
    plan = sparse_vector_plan(1, 0, 1, 1, limit=None, branches=2, share="1/2", margin=0, sensitivity=1,
                  monotone=True, noise="geometric", resolution=0, below=False)  # fmt: skip
    base = run(np.array([5]), Given(0, np.array([[-100], [0]])), plan)
    cheap = run(np.array([5]), Given(0, np.array([[0], [0]])), plan)
    assert (base[0].tolist(), cheap[0].tolist()) == ([1], [0])
    assert 1 / plan.threshold_scale + 1 / plan.scales[1] == base[2] > cheap[2]
