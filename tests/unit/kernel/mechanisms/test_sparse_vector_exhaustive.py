"""The sparse vector family and the hybrids on tiny instances: every output against e^charge.

The probabilities are those of the mechanisms themselves, summed over all noise up to a reach.
Each output is held to its own realised charge, in both directions. What lies beyond the reach bounds
the error.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms import (
    AdaptiveSparseVector,
    HybridSparseVector,
    HybridTopK,
    Noise,
    NoiseSource,
    SparseVector,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import SparseVectorPlan
from dpsql.kernel.public_order import in_public_order
from tests.given_noise import GivenNoise as GivenSteps
from tests.narrow import present

TAIL = 1e-5


@cache
def plan_for(
    groups: int, k: int, epsilon: int, branches: int, noise: Noise, monotone: bool, **options: int | str
) -> AdaptiveSparseVector:
    """A plan on whole counts, with a margin of one deviation."""
    given: dict[str, Any] = {"share": "1/2", "margin": 1, **options}
    return AdaptiveSparseVector.plan(
        groups, 1, k, epsilon, branches=branches, noise=noise, monotone=monotone, resolution=0, **given
    )


@dataclass(frozen=True)
class GivenNoise(NoiseSource):
    """All noise at once, a row a trial: of the threshold and, by scale, of the counts; and an order."""

    level: NDArray[np.int64] = field(kw_only=True)
    queries: dict[Fraction, NDArray[np.int64]] = field(kw_only=True)
    order: NDArray[np.int64] | None = None
    hits: list[NDArray[np.int64]] = field(default_factory=list)

    def draw(self, *_: object) -> NDArray[np.int64]:
        return self.level

    def draw_reaching(
        self, noise: Noise, scale: Fraction, bits: int, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        drawn = self.queries[scale].ravel()
        where = np.flatnonzero(drawn >= need)
        self.hits[:] = [where]
        return where, drawn[where]

    def ranks(self, n: int, *, trials: int | None = None) -> NDArray[np.int64]:
        """The given orders, restricted to the hits."""
        found = present(self.order).ravel()[self.hits[0]]
        assert len(found) == n
        return np.argsort(np.argsort(found, kind="stable"))


@cache
def all_noise(scales: tuple[Number, ...], noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All noise vectors for these scales, as rows, and their probabilities."""
    axes, weights = [], []
    for scale in scales:
        r = np.exp(-1 / float(scale))
        reach = int(np.ceil(np.log(TAIL / 3) / np.log(r)))
        steps = np.arange(-reach if noise == "laplace" else 0, reach + 1)
        axes.append(steps)
        weights.append(r ** np.abs(steps) * ((1 - r) / (1 + r) if noise == "laplace" else 1 - r))
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    mass = np.prod(np.stack([axis.ravel() for axis in np.meshgrid(*weights, indexing="ij")]), axis=0)
    return grid, mass


Output = TypeVar("Output", bound=tuple[object, ...])
Law = tuple[dict[tuple[float, ...], float], dict[tuple[float, ...], float]]
"""The mass of each output, and its charge."""


def tally(columns: Sequence[NDArray[Any]], mass: NDArray[np.float64]) -> dict[tuple[float, ...], float]:
    """Sum the mass of equal outputs; columns are the parts of an output, one row a noise vector."""
    rows, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return dict(
        zip(map(tuple, rows.tolist()), np.bincount(inverse.ravel(), weights=mass).tolist(), strict=True)
    )


def given(
    plan: SparseVectorPlan, n: int, order: Sequence[int] | None = None
) -> tuple[GivenNoise, NDArray[np.float64]]:
    """All noise of a plan on n counts, and its probabilities."""
    scales = (plan.threshold_scale, *np.repeat(np.array(plan.scales, dtype=object), n))
    grid, mass = all_noise(scales, plan.noise)
    rows = grid[1:].reshape(len(plan.scales), n, -1).transpose(0, 2, 1)  # (branches, noise vectors, groups)
    queries = dict(zip(plan.scales, rows, strict=True))
    orders = None if order is None else np.tile(order, (len(mass), 1))
    return GivenNoise(level=grid[0][:, None], queries=queries, order=orders), mass


def outputs(plan: SparseVectorPlan, done: SparseVector, mass: NDArray[np.float64]) -> Law:
    """{(positions, branches, gaps, units): mass}, and the charge of each."""
    found = tally(
        [*done.index.T, *done.branch.T, *np.nan_to_num(done.gap, nan=-1).T, np.asarray(done.units)], mass
    )
    return found, {row: float(plan.realised_loss(int(row[-1])).charge.epsilon) for row in found}


def sparse_outputs(counts: Sequence[int], plan: AdaptiveSparseVector) -> Law:
    source, mass = given(plan, len(counts))
    return outputs(plan, plan.run(in_public_order(np.tile(counts, (len(mass), 1))), source), mass)


def worst_excess(
    first: Mapping[Output, float], second: Mapping[Output, float], charge: Mapping[Output, float]
) -> float:
    """Largest log-ratio beyond the charge, over outputs that the cut tail cannot blur."""
    return max(
        np.log((mass - TAIL) / (second.get(row, 0.0) + TAIL)) - charge[row]
        for row, mass in first.items()
        if mass > 50 * TAIL
    )


def tightness(
    first: Mapping[Output, float], second: Mapping[Output, float], charge: Mapping[Output, float]
) -> float:
    """Largest ratio of log-ratio to charge."""
    return max(
        np.log(mass / second[row]) / charge[row]
        for row, mass in first.items()
        if mass > 50 * TAIL and row in second
    )


SHAPES = [
    # noise, groups, k, branches, epsilon
    ("geometric", 2, 1, 2, 9),
    ("geometric", 2, 2, 2, 12),
    ("geometric", 3, 2, 1, 8),
    ("laplace", 2, 1, 1, 8),
    ("laplace", 1, 1, 2, 9),
]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("noise", "n", "k", "branches", "epsilon"), SHAPES)
@pytest.mark.sampled(5)
def test_sparse_vector(noise: Noise, n: int, k: int, branches: int, epsilon: int, monotone: bool) -> None:
    plan = plan_for(n, k, epsilon * (1 if monotone else 2), branches, noise, monotone)
    tight = 0.0
    for base in product([0, 2] if n == 2 else [1], repeat=n):
        here, charge = sparse_outputs(base, plan)
        assert sum(here.values()) == pytest.approx(1, abs=10 * TAIL)
        assert max(charge.values()) <= plan.loss.charge.epsilon
        for move in product([0, 1] if monotone else [-1, 0, 1], repeat=n):
            there, charged = sparse_outputs(tuple(np.add(base, move).tolist()), plan)
            charge.update(charged)
            # A tail of 1e-5 on masses of 5e-4 and more: logarithms are good to 0.04.
            assert worst_excess(here, there, charge) <= 1e-9
            assert worst_excess(there, here, charge) <= 1e-9
            tight = max(tight, tightness(here, there, charge), tightness(there, here, charge))
    assert (0.9 if noise == "geometric" else 0.7) < tight < 1.05


def test_the_limit_is_part_of_it() -> None:
    plan = plan_for(2, 2, 12, 2, "geometric", True, limit=1)
    here, charge = sparse_outputs((1, 1), plan)
    assert all(len(row) == 4 for row in here)
    for move in product([0, 1], repeat=2):
        there, charged = sparse_outputs(tuple(np.add((1, 1), move).tolist()), plan)
        charge.update(charged)
        assert max(worst_excess(here, there, charge), worst_excess(there, here, charge)) <= 1e-9


class TestWhatIsNotPrivate:
    """Known wrong variants, seen by the same enumeration."""

    def excess(
        self,
        plan: AdaptiveSparseVector,
        first: tuple[int, ...],
        second: tuple[int, ...],
        change: float | None = None,
    ) -> float:
        found = []
        for counts in (first, second):
            outputs, charge = sparse_outputs(counts, plan)
            found.append((outputs, charge))
        charge = {row: spent * (change or 1) for pair in found for row, spent in pair[1].items()}
        (a, _), (b, _) = found
        return max(worst_excess(a, b, charge), worst_excess(b, a, charge))

    def test_general_counts_taken_for_monotone(self) -> None:
        assert self.excess(plan_for(3, 2, 8, 1, "geometric", True), (2, 2, 1), (1, 1, 2)) > 0.5

    def test_half_the_charge(self) -> None:
        assert self.excess(plan_for(2, 1, 9, 2, "geometric", True), (0, 0), (1, 1), change=0.5) > 0.5

    def test_a_threshold_without_noise(self) -> None:
        """Then groups below cost, and nobody paid for them."""
        plan = plan_for(3, 2, 8, 1, "geometric", True, share="1/8")
        bare = replace(plan, threshold_scale=Fraction(1, 60))
        assert self.excess(bare, (2, 2, 2), (1, 1, 1)) > 0.5
        assert self.excess(plan, (2, 2, 2), (1, 1, 1)) <= 1e-9


def hybrid_19(plan: HybridTopK, counts: Sequence[int]) -> Law:
    """{(groups, gaps, whether the threshold is reached, its gap): mass} of the first hybrid, and charges."""
    n = len(counts)
    grid, mass = all_noise((plan.scale,) * (n + 1), plan.noise)
    rows = np.tile(counts, (len(mass), 1))
    found: dict[tuple[float, ...], float] = defaultdict(float)
    charge: dict[tuple[float, ...], float] = {}
    for order in permutations(range(n + 1)):
        done = plan.run(rows, GivenSteps(steps=grid.T, order=np.tile(order, (len(mass), 1))))
        columns = [*done.index.T, *np.nan_to_num(done.gap, nan=-1).T, np.nan_to_num(done.rest, nan=-1)]
        columns += [done.reached_threshold, np.asarray(done.units)]
        for row, weight in tally(columns, mass / np.prod(np.arange(1, n + 2))).items():
            found[row] += weight
            charge[row] = float(plan.realised_loss(int(row[-1])).charge.epsilon)
    return found, charge


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    ("noise", "k"), [("exponential", 1), ("exponential", 2), ("exponential", 5), ("laplace", 1)]
)
@pytest.mark.sampled(5)
def test_hybrid_top_k(noise: Noise, k: int, monotone: bool) -> None:
    epsilon = 4 if monotone else 8
    plan, tight = HybridTopK.plan(2, 1, k, epsilon, monotone=monotone, noise=noise, resolution=0), 0.0
    for base in ((0, 0), (1, 1), (2, 0)):
        here, charge = hybrid_19(plan, base)
        for move in product([0, 1] if monotone else [-1, 0, 1], repeat=2):
            there, charged = hybrid_19(plan, tuple(np.add(base, move).tolist()))
            allowed = {**charge, **charged}
            assert worst_excess(here, there, allowed) <= 1e-9
            assert worst_excess(there, here, allowed) <= 1e-9
            tight = max(tight, tightness(here, there, allowed), tightness(there, here, allowed))
    # General counts: the threshold itself never moves against the rest.
    assert (0.97 if noise == "exponential" and monotone else 0.7) < tight < 1.05


def hybrid_20(counts: Sequence[int], plan: HybridSparseVector) -> Law:
    """{(groups in order, gaps, units): mass} of the second hybrid over noise and ranks, and its charge."""
    found: dict[tuple[float, ...], float] = defaultdict(float)
    charge: dict[tuple[float, ...], float] = {}
    for order in permutations(range(len(counts))):
        source, mass = given(plan, len(counts), order=order)
        done = plan.run(np.tile(counts, (len(mass), 1)), source)
        law, spent = outputs(plan, done, mass / np.prod(np.arange(1, len(counts) + 1)))
        charge |= spent
        for row, weight in law.items():
            found[row] += weight
    return found, charge


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("k", [1, 2])
def test_hybrid_sparse_vector(k: int, monotone: bool) -> None:
    epsilon, tight = 8 if monotone else 16, 0.0
    plan = HybridSparseVector.plan(
        2, 1, k, epsilon, share="1/2", noise="geometric", monotone=monotone, resolution=0
    )
    here, charge = hybrid_20((1, 1), plan)
    assert sum(here.values()) == pytest.approx(1, abs=10 * TAIL)
    for move in product([0, 1] if monotone else [-1, 0, 1], repeat=2):
        there, charged = hybrid_20(tuple(np.add((1, 1), move).tolist()), plan)
        charge.update(charged)
        assert worst_excess(here, there, charge) <= 1e-9
        assert worst_excess(there, here, charge) <= 1e-9
        tight = max(tight, tightness(here, there, charge), tightness(there, here, charge))
    assert 0.9 < tight < 1.05


def test_the_hybrid_has_one_law_for_all_orders_of_the_counts_and_the_scan_has_not() -> None:
    """Two orders of one table, with ties of counts and of coarse noise; laws of groups, not of positions."""
    counts, k = np.array([3, 1, 3]), 2
    options: dict[str, Any] = {"share": "1/2", "noise": "geometric", "resolution": 0}
    hybrid = HybridSparseVector.plan(3, 2, k, 24, **options)
    scan = AdaptiveSparseVector.plan(3, 2, k, 24, branches=1, **options)

    def of_groups(
        law: dict[tuple[float, ...], float], came: NDArray[np.int64]
    ) -> dict[tuple[float, ...], float]:
        places = [*came.tolist(), -1]
        return {(*(places[int(i)] for i in row[:k]), *row[k:]): mass for row, mass in law.items()}

    orders = [np.array(order) for order in ((0, 1, 2), (1, 2, 0))]
    one, other = (of_groups(hybrid_20(counts[came].tolist(), hybrid)[0], came) for came in orders)
    assert all(abs(one.get(row, 0.0) - other.get(row, 0.0)) <= 10 * TAIL for row in {**one, **other})
    assert sum(mass for row, mass in one.items() if row[:k] == (2, 0)) == pytest.approx(0.5, abs=0.05)
    one, other = (of_groups(sparse_outputs(counts[came].tolist(), scan)[0], came) for came in orders)
    assert max(abs(one.get(row, 0.0) - other.get(row, 0.0)) for row in {**one, **other}) > 0.1
