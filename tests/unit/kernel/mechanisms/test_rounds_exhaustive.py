"""Selection by rounds on tiny instances: every output's probability on neighbours, against e^charge.

The probabilities are those of the mechanisms that ship, run on all noise up to a reach and all orders of
ties; those of Gumbel top-k, whose picks have exact weights, are computed from the weights that it asks for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import BoundedRange, PureDP
from dpsql.kernel.mechanisms import (
    GumbelTopK,
    Noise,
    NoiseSource,
    PeeledTopK,
    SparseVectorByRounds,
    exponential,
)
from dpsql.kernel.public_order import in_public_order


@dataclass(frozen=True)
class InTurn(NoiseSource):
    """Noise and ranks of each round, handed out in turn; all groups' noise of a round for `draw_reaching`."""

    steps: Iterator[NDArray[np.int64]] = field(kw_only=True)
    order: Iterator[NDArray[np.int64]] = field(kw_only=True, default_factory=lambda: iter(()))

    def draw(self, *_: object) -> NDArray[np.int64]:
        return next(self.steps).copy()

    def draw_reaching(
        self, _noise: object, _scale: object, _bits: object, need: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        noise = next(self.steps)
        drawn = noise[:, noise.shape[1] - len(need) // len(noise) :].ravel()
        where = np.flatnonzero(drawn >= need)
        return where, drawn[where]

    def ranks(self, *_: object, **__: object) -> NDArray[np.int64]:
        return next(self.order)


Law = dict[tuple[float, ...], float]


def tally(columns: Sequence[NDArray[Any]], mass: NDArray[np.float64]) -> Law:
    """Sum the mass of equal outputs; columns are the whole parts of an output, one row a noise vector."""
    parts = [np.nan_to_num(column, nan=-1).astype(np.int64) + 1 for column in columns]
    widths = [int(part.max()) + 1 for part in parts]
    codes = np.ravel_multi_index(tuple(parts), tuple(widths))
    found, which = np.unique(codes, return_inverse=True)
    rows = np.stack(np.unravel_index(found, tuple(widths)), axis=1) - 1
    return dict(zip(map(tuple, rows.tolist()), np.bincount(which, weights=mass).tolist(), strict=True))


@cache
def noises(size: int, noise: Noise, r: float, reach: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All vectors of noise up to the reach, and their probabilities."""
    low = -reach + 1 if noise == "laplace" else 0
    steps = np.array(list(product(range(low, reach), repeat=size)))
    one = (1 - r) / (1 + r) if noise == "laplace" else 1 - r
    return steps, one**size * r ** np.abs(steps).sum(axis=1)


# Peeled top-k.


@cache
def peeled(counts: tuple[int, ...], k: int, noise: Noise, r: float, reach: int) -> Law:
    """The law of groups and gaps, over all noise of all rounds and all orders of ties; P(Y >= m) = r^m."""
    n = len(counts)
    sizes = [n - turn for turn in range(min(k, n - 1))]
    steps, weight = noises(sum(sizes), noise, r, reach)
    cuts = np.cumsum(sizes)[:-1]
    plan, law = PeeledTopK.plan(n, k, len(sizes), noise=noise, resolution=0), defaultdict[Any, float](float)
    orders = list(product(*(permutations(range(size)) for size in sizes)))
    for order in orders:
        ranks = (np.tile(one, (len(steps), 1)) for one in order)
        source = InTurn(steps=iter(np.split(steps, cuts, axis=1)), order=ranks)
        done = plan.run(np.tile(counts, (len(steps), 1)), source)
        for row, mass in tally([*done.index.T, *done.gap.T], weight / len(orders)).items():
            law[row] += mass
    return dict(law)


def worst(first: Law, second: Law, beyond: float) -> float:
    """Return the largest log-ratio over outputs that the cut tail cannot blur."""
    ratios = [
        (mass - beyond) / (second.get(row, 0.0) + beyond)
        for row, mass in first.items()
        if mass > 100 * beyond
    ]
    return math.log(max(ratios))


PEELED = [
    # counts, k, noise, r and reach, least part of the charge that an output reaches
    ((0, 0), 2, "exponential", 0.25, 9, 0.99),
    pytest.param((0, 0, 0), 2, "exponential", 0.25, 8, 0.85, marks=pytest.mark.slow),
    ((0, 1, 1), 2, "exponential", 0.25, 8, 0.95),
    pytest.param((1, 0, 2), 3, "exponential", 0.25, 8, 0.95, marks=pytest.mark.slow),
    ((0, 1), 2, "laplace", 0.25, 10, 0.85),
    ((0, 1, 1), 2, "laplace", 1 / 16, 4, 0.65),
]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("base", "k", "noise", "r", "reach", "tight"), PEELED)
@pytest.mark.sampled(5)
def test_peeled(
    base: tuple[int, ...], k: int, noise: Noise, r: float, reach: int, tight: float, monotone: bool
) -> None:
    """A round whose noise has P(Y >= m) = r^m loses a factor 1/r, the square of it for general counts."""
    n = len(base)
    plan = PeeledTopK.plan(n, k, min(k, n - 1), monotone=monotone, noise=noise)
    allowed = float(plan.loss.charge.epsilon * plan.scale) * -math.log(r)
    here = peeled(base, k, noise, r, reach)
    beyond = sum(n - turn for turn in range(min(k, n - 1))) * r**reach
    assert sum(here.values()) == pytest.approx(1, abs=2 * beyond)
    found = 0.0
    for move in product([0, 1] if monotone else [-1, 0, 1], repeat=n):
        there = peeled(tuple(np.add(base, move).tolist()), k, noise, r, reach)
        both = worst(here, there, beyond), worst(there, here, beyond)
        assert max(both) <= allowed
        found = max(found, *both)
    assert found > tight * allowed


def test_the_order_of_counts_has_no_influence_on_rounds() -> None:
    """Counts in another order give the same law of groups and gaps, by all noise."""
    one, other = (peeled(counts, 2, "exponential", 0.25, 8) for counts in ((0, 1, 2), (2, 0, 1)))
    came = {0: 2, 1: 0, 2: 1}
    for row, mass in other.items():
        assert one[came[int(row[0])], came[int(row[1])], *row[2:]] == pytest.approx(mass, abs=1e-12)


def renyi(first: Mapping[Any, float], second: Mapping[Any, float], alpha: float) -> float:
    """Return the Renyi divergence of two laws, on the outputs that both have."""
    total = sum(p * (p / second[row]) ** (alpha - 1) for row, p in first.items() if second.get(row, 0.0) > 0)
    return math.log(total) / (alpha - 1)


ORDERS = (Fraction(3, 2), Fraction(4), Fraction(20))


def rounded_up(e: float) -> Fraction:
    """Return an epsilon as a rational that is no smaller."""
    return Fraction(math.ceil(e * 1e9), 10**9)


def test_a_gap_loses_more_than_a_bounded_range() -> None:
    """Two groups and exponential noise: sign and gap are one Laplace draw, which costs about alpha e^2/2.

    So a part of bounded range would cost too little, and that of pure differential privacy does not.
    """
    here, there = (peeled(counts, 1, "exponential", 0.8, 60) for counts in ((0, 0), (1, 0)))
    e = rounded_up(-math.log(0.8))
    for alpha in ORDERS[:2]:
        assert renyi(here, there, float(alpha)) > 3 * BoundedRange(e).cost(alpha)
        both = (renyi(here, there, float(alpha)), renyi(there, here, float(alpha)))
        assert max(both) <= PureDP(e).cost(alpha)


# Gumbel top-k.


class Picked:
    """In the place of `Weights`: takes the scripted places, and notes how likely each was."""

    script: list[int]
    chance: Fraction
    r: Fraction

    def __init__(self, distance: NDArray[np.int64], rate: Fraction, *, ascending: bool) -> None:
        assert rate > 0
        assert ascending
        assert distance.min() == distance[0] == 0
        assert (np.diff(distance) >= 0).all()
        self.weights = [Picked.r ** int(one) for one in distance]

    def pick(self, size: int, _: object) -> NDArray[np.int64]:
        place = Picked.script.pop(0)
        Picked.chance *= self.weights[place] / sum(self.weights)
        return np.full(size, place)


def gumbel_law(plan: GumbelTopK, counts: Sequence[int], r: Fraction) -> dict[tuple[int, ...], Fraction]:
    """The law of the sequences, exact, where a count, one step of the grid, is worth a factor 1/r."""
    law: dict[tuple[int, ...], Fraction] = {}
    rounds = min(plan.k, plan.groups - 1)
    for script in product(*(range(plan.groups - turn) for turn in range(rounds))):
        Picked.script, Picked.chance, Picked.r = list(script), Fraction(1), r
        found = tuple(plan.run(np.array(counts)).index.tolist())
        assert not Picked.script
        assert found not in law
        law[found] = Picked.chance
    assert sum(law.values()) == 1
    return law


GUMBEL = [((0, 0), 1), ((0, 1), 2), ((0, 0, 0), 2), ((5, 0, 1), 3), ((2, 0, 2), 1), ((0, 1, 0, 3), 3)]
HALF = Fraction(1, 2)


def neighbours(base: tuple[int, ...], c: int, *, monotone: bool) -> Iterator[tuple[int, ...]]:
    for move in product(range(0 if monotone else -c, c + 1), repeat=len(base)):
        yield tuple(np.add(base, move).tolist())


@pytest.mark.parametrize("c", [1, 2])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.sampled(3)
def test_gumbel(monkeypatch: pytest.MonkeyPatch, monotone: bool, c: int) -> None:
    """All log-ratios of all rounds together lie in an interval of length rounds x epsilon, around 0.

    A round of epsilon 1 has a scale of c counts, 2 c if not monotone: its epsilon is that many factors 1/r.
    """
    monkeypatch.setattr(exponential, "Weights", Picked)
    widest = Fraction(0)
    for base, k in GUMBEL if c == 1 or monotone else GUMBEL[:4]:
        rounds = min(k, len(base) - 1)
        plan = GumbelTopK.plan(len(base), k, rounds, sensitivity=c, monotone=monotone, resolution=0)
        assert plan.loss.parts == (BoundedRange(Fraction(1), rounds),)
        allowed = (1 / HALF) ** int(rounds * plan.scale)
        here = gumbel_law(plan, base, HALF)
        for other in neighbours(base, c, monotone=monotone):
            there = gumbel_law(plan, other, HALF)
            ratios = [here[row] / there[row] for row in here]
            assert 1 / allowed <= min(ratios) <= max(ratios) <= allowed
            assert max(ratios) / min(ratios) <= allowed
            widest = max(widest, max(ratios) / min(ratios) / allowed)
    assert widest == 1


@pytest.mark.parametrize("monotone", [True, False])
def test_gumbel_costs_an_eighth_of_the_square(monkeypatch: pytest.MonkeyPatch, monotone: bool) -> None:
    """The Renyi divergence of all rounds is at most rounds alpha e^2/8, and comes near it.

    It is what a part of bounded range costs.
    """
    monkeypatch.setattr(exponential, "Weights", Picked)
    near = 0.0
    for r in (Fraction(1, 2), Fraction(9, 10)):
        for base, k in GUMBEL[:5]:
            rounds = min(k, len(base) - 1)
            plan = GumbelTopK.plan(len(base), k, rounds, monotone=monotone, resolution=0)
            part = BoundedRange(rounded_up(-math.log(r) * float(plan.scale)), rounds)
            here = {row: float(p) for row, p in gumbel_law(plan, base, r).items()}
            for other in neighbours(base, 1, monotone=monotone):
                there = {row: float(p) for row, p in gumbel_law(plan, other, r).items()}
                for alpha in ORDERS:
                    both = (renyi(here, there, float(alpha)), renyi(there, here, float(alpha)))
                    assert max(both) <= part.cost(alpha) * (1 + Fraction(1, 10**9))
                    near = max(near, max(both) / float(part.cost(alpha)))
    assert near > 0.95


def test_gumbel_of_general_counts_at_the_strength_of_monotone_ones_is_not_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exponential, "Weights", Picked)
    plan = GumbelTopK.plan(2, 1, 1, resolution=0)
    first, second = gumbel_law(plan, (1, 0), HALF), gumbel_law(plan, (0, 1), HALF)
    ratios = [first[row] / second[row] for row in first]
    assert max(ratios) / min(ratios) == (1 / HALF) ** (2 * int(plan.scale))


# The sparse vector by rounds.


@cache
def scanned(counts: tuple[int, ...], plan: SparseVectorByRounds, reach: int) -> tuple[Law, dict[Any, float]]:
    """The law of a run over all noise of all rounds, and the charge of each output."""
    n = len(counts)
    r = math.exp(-1 / float(plan.threshold_scale))
    assert plan.scales == (plan.threshold_scale,)  # so all noise has one law
    steps, mass = noises(plan.hits * (n + 1), plan.noise, r, reach)
    parts = [steps[:, at : at + size] for turn in range(plan.hits) for at, size in _cuts(turn, n)]
    queries = InTurn(steps=iter(parts))
    done = plan.run(in_public_order(np.tile(counts, (len(mass), 1))), queries)
    # Gaps are whole numbers plus a public one, so that their whole parts tell them apart.
    law = tally([*done.index.T, *done.gap.T, np.asarray(done.units)], mass)
    return law, {row: float(plan.realised_loss(int(row[-1])).charge.epsilon) for row in law}


def _cuts(turn: int, n: int) -> list[tuple[int, int]]:
    """Where the noise of a round's threshold begins in a vector of all noise, and that of its groups."""
    return [(turn * (n + 1), 1), (turn * (n + 1) + 1, n)]


SCANS = [
    # counts, rounds, epsilon, reach of the noise, least part of an output's charge that is reached
    ((1, 1), 1, 4, 12, 0.95),
    ((0, 1), 2, 8, 6, 0.95),
    ((1, 1), 2, 8, 6, 0.95),
    ((2, 0), 2, 8, 6, 0.45),
    ((0, 1, 1), 2, 12, 4, 0.7),
]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(("base", "k", "epsilon", "reach", "tight"), SCANS)
@pytest.mark.sampled(3)
def test_sparse_vector_by_rounds(
    base: tuple[int, ...], k: int, epsilon: int, reach: int, tight: float, monotone: bool
) -> None:
    """Each output is held to what its rounds cost, both ways."""
    n = len(base)
    # Twice the noise for hits of general counts; with a share of 1/3 that of the threshold is as large.
    plan = SparseVectorByRounds.plan(
        n,
        1,
        k,
        epsilon if monotone else Fraction(3 * epsilon, 2),
        share="1/2" if monotone else "1/3",
        monotone=monotone,
        noise="geometric",
        resolution=0,
    )
    here, charge = scanned(base, plan, reach)
    beyond = k * (n + 1) * math.exp(-reach / float(plan.threshold_scale))
    assert sum(here.values()) == pytest.approx(1, abs=2 * beyond)
    assert max(charge.values()) <= plan.loss.charge.epsilon
    found = 0.0
    for other in neighbours(base, 1, monotone=monotone):
        there, charged = scanned(other, plan, reach)
        for first, second, costs in ((here, there, charge), (there, here, charged)):
            for row, mass in first.items():
                if mass > 100 * beyond:
                    loss = math.log((mass - beyond) / (second.get(row, 0.0) + beyond))
                    assert loss <= costs[row]
                    found = max(found, loss / costs[row])
    assert found > tight


def test_a_run_without_hits_is_charged_one_round() -> None:
    plan = SparseVectorByRounds.plan(2, 1, 2, 8, share="1/2", noise="geometric", resolution=0)
    law, charge = scanned((0, 0), plan, 6)
    rounds = {row[:2]: charge[row] / 4 for row in law}
    assert rounds == {(-1, -1): 1, (0, -1): 2, (0, 1): 2, (1, -1): 1}
    # Less would not do: the loss of no hit at all, of a threshold that is not met, is not 0.
    moved = scanned((1, 1), plan, 6)[0]
    nothing = next(row for row in law if row[:2] == (-1, -1))
    assert 0 < math.log(law[nothing] / moved[nothing]) <= charge[nothing]
