"""Selections over counts that are known from above choose and charge what they do over all counts.

Both get the same noise and ranks. Small counts and noise make many ties; bounds are equal to the counts, 1
more, a little more, or huge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    HybridSparseVector,
    HybridTopK,
    NoiseSource,
    NoisyTopK,
    PeeledTopK,
    SparseVectorByRounds,
    noisy_order,
)
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.mechanisms.sparse_vector_plan import Hits, SparseVectorPlan
from dpsql.kernel.public_order import BoundedCounts, OrderedCounts
from tests.daily import daily

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Drawn(NoiseSource):
    """Noise of few values, so that sums tie often; the same for all runs that draw equally many."""

    seed: int = 0
    most: int = 4
    calls: list[int] = field(default_factory=list)

    def _next(self) -> np.random.Generator:
        self.calls.append(0)
        return np.random.default_rng((self.seed, len(self.calls)))

    def draw(self, noise: str, scale: Fraction, bits: int, size: Any) -> Integers:
        low = -self.most if noise == "laplace" else 0
        return self._next().integers(low, self.most + 1, size) << max(bits - 1, 0)

    def draw_reaching(
        self, noise: Any, scale: Fraction, bits: int, need: Integers
    ) -> tuple[Integers, Integers]:
        drawn = self.draw(noise, scale, bits, need.shape)
        where = np.flatnonzero(drawn >= need)
        return where, drawn[where]

    def ranks(self, n: int, *, trials: int | None = None) -> Integers:
        shape = (n,) if trials is None else (trials, n)
        return self._next().permuted(np.broadcast_to(np.arange(n), shape), axis=-1)


@dataclass
class Asked:
    """Counts known from above, and the positions that were asked for."""

    counts: Integers
    upper: Integers
    likely: Integers
    positions: set[int] = field(default_factory=set)

    def exact(self, positions: Integers) -> Integers:
        self.positions |= set(positions.tolist())
        return self.counts[positions]

    @property
    def bounded(self) -> BoundedCounts:
        return BoundedCounts(self.upper, self.exact, self.likely)


@cache
def plans(groups: int, k: int, which: int) -> Mechanism[Any]:
    """Return the plan of a kind, of some noise."""
    noise: Any = ("geometric", "exponential", "laplace")[which % 3]
    threshold, more = (2, 5, 9)[which // 3 % 3], {"noise": noise}
    make: list[Callable[[], Mechanism[Any]]] = [
        lambda: NoisyTopK.plan(groups, k, 1, **more),
        lambda: NoisyTopK.plan(groups, k, 1, lowest=which % 2 == 0, **more),
        lambda: PeeledTopK.plan(groups, k, 1, **more),
        lambda: PeeledTopK.plan(groups, k, 1, lowest=which % 2 == 0, **more),
        lambda: HybridTopK.plan(groups, threshold, k, 1, below=which % 5 == 0, **more),
        lambda: AdaptiveSparseVector.plan(
            groups, threshold, k, 1, branches=which % 4 + 1, margin=1, below=which % 7 == 0, **more
        ),
        lambda: AdaptiveSparseVector.plan(groups, threshold, k, 1, limit=1 + which % 3, branches=2, **more),
        lambda: HybridSparseVector.plan(groups, threshold, k, 1, below=which % 5 == 0, **more),
    ]
    return make[which % len(make)]()


def case_of(seed: int) -> tuple[Mechanism[Any], Asked]:
    """Make counts, bounds on them and a plan."""
    rng = np.random.default_rng(seed)
    groups = int(rng.integers(1, 14))
    counts = rng.integers(0, int(rng.choice([2, 4, 12])), groups)
    kind = rng.integers(0, 4, groups if rng.random() < 0.5 else 1)
    above = np.choose(kind, [0 * counts, 1 + 0 * counts, rng.integers(0, 6, groups), counts + 10**12])
    which = int(rng.integers(0, 3 * 8 * 35))
    return plans(groups, int(rng.integers(1, 6)), which), Asked(
        counts, counts + above, rng.choice([counts, counts + above, rng.permutation(counts)])
    )


def released(found: Any) -> list[Any]:
    """Return all that a run releases, and its charge; of trials, what they spent."""
    shown = [getattr(found, each.name) for each in fields(found) if each.name != "plan"]
    charge = [found.charge] if np.ndim(found.units) == 0 else []
    return [*(np.asarray(each).tolist() for each in shown), *charge]


def run(plan: Mechanism[Any], counts: Any, source: NoiseSource) -> list[Any]:
    return list(map(repr, released(plan.run(OrderedCounts(counts) if plan.ordered else counts, source))))


def differs(seed: int) -> bool:
    """Whether a case is not the same over bounds as over all counts."""
    plan, asked = case_of(seed)
    most = 1 + seed % 5
    whole = run(plan, asked.counts, Drawn(seed=seed, most=most))
    return run(plan, asked.bounded, Drawn(seed=seed, most=most)) != whole


@pytest.mark.parametrize("block", daily(range(40), 1))
def test_same_function_of_counts_and_noise(block: int) -> None:
    assert [seed for seed in range(2500 * block, 2500 * (block + 1)) if differs(seed)] == []


def test_few_are_asked_for() -> None:
    rng = np.random.default_rng(5)
    counts = (10**5 / np.arange(1, 40_001)).astype(np.int64)
    upper = counts + rng.integers(0, 3, len(counts))
    every: dict[Mechanism[Any], int] = {
        NoisyTopK.plan(len(counts), 10, 1): 30,
        PeeledTopK.plan(len(counts), 10, 1): 40,
        HybridTopK.plan(len(counts), 5000, 10, 1): 30,
        AdaptiveSparseVector.plan(len(counts), 5000, 10, 1, limit=10): 25,
        HybridSparseVector.plan(len(counts), 20_000, 10, 1): 25,
    }
    for plan, most in every.items():
        asked = Asked(counts, upper, counts - 1)
        run(plan, asked.bounded, NoiseSource())
        assert plan.bounded
        assert 0 < len(asked.positions) <= most


def test_those_that_need_all_counts_say_so() -> None:
    assert not NoisyTopK.plan(9, 2, 1, lowest=True).bounded
    assert not NoisyTopK.plan(1, 2, 1).bounded
    assert not PeeledTopK.plan(9, 2, 1, lowest=True).bounded
    assert not HybridTopK.plan(9, 3, 2, 1, below=True).bounded
    assert not AdaptiveSparseVector.plan(9, 3, 2, 1, below=True).bounded
    assert not SparseVectorByRounds.plan(9, 3, 2, 1).bounded


def test_trials_are_runs() -> None:
    """Of many trials at once, each has the law of a run: over bounds that are huge, all are counted."""
    counts = np.array([[4, 3, 0, 2], [0, 1, 0, 9]])
    for plan in (NoisyTopK.plan(4, 2, 1), HybridTopK.plan(4, 2, 2, 1)):
        many = np.repeat(counts, 4, axis=0)
        asked = Asked(many.ravel(), many + np.array([0, 1, 2, 3]), many)
        whole, found = (
            run(plan, each, Drawn(seed=3)) for each in (many, BoundedCounts(asked.upper, asked.exact, many))
        )
        assert found == whole


# -- wrong ones are caught


def level_of_bounds(counts: BoundedCounts, k: int, noise: Integers) -> Integers:
    """Do as `count_candidates`, with the level of the bounds in the place of that of the counts."""
    above = counts.upper + noise
    first = np.argsort(-above, kind="stable")[: 3 * (k + 1) // 2]
    level = np.sort(above[first])[-k - 1] if len(first) > k else noisy_order.BELOW_ALL
    return only_at(counts, noise, np.union1d(first, np.flatnonzero(above >= level)))


def cut_at_k(counts: BoundedCounts, k: int, noise: Integers) -> Integers:
    """Count the k + 1 groups with the largest bounds, and no more."""
    return only_at(counts, noise, np.argsort(-(counts.upper + noise), kind="stable")[: k + 1])


def only_at(counts: BoundedCounts, noise: Integers, index: Integers) -> Integers:
    sums = np.full(len(noise), noisy_order.BELOW_ALL)
    sums[index] = counts.exact(index) + noise[index]
    return sums


def passing_by_bounds(
    plan: SparseVectorPlan, counts: BoundedCounts, level: int, first: int, source: NoiseSource
) -> Any:
    """Let groups pass whose bounds do."""
    yield plan.passing(counts.upper[None, :], np.array([[level]]), source)
    yield Hits.none()


@pytest.mark.parametrize("wrong", [level_of_bounds, cut_at_k])
def test_wrong_candidates_are_caught(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_order, "count_candidates", wrong)
    assert sum(map(differs, range(500))) > 10


def test_wrong_hits_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparseVectorPlan, "bounded_hits", passing_by_bounds)
    assert sum(map(differs, range(500))) > 10
