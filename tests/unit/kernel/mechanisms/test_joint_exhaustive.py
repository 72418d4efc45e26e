"""The joint exponential mechanism on all tiny instances: its exact law, and what neighbours tell apart."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import Joint
from dpsql.kernel.mechanisms.joint import Levels, exchange_entries

INSTANCES = [
    (groups, k) for groups in (1, 2, 3, 4) for k in (1, 2, 3) if k <= groups
]  # counts from 0 to 3 in each

Sequences = dict[tuple[int, ...], float]


def loss(counts: NDArray[np.int64], sequence: tuple[int, ...]) -> NDArray[np.int64]:
    """The loss of a sequence, straight from its definition, for each row of counts."""
    largest = -np.sort(-counts, axis=-1)[..., : len(sequence)]
    worst: NDArray[np.int64] = (largest - counts[..., sequence]).max(axis=-1)
    return worst


def law(counts: NDArray[np.int64], k: int, scale: float) -> NDArray[np.float64]:
    """Probabilities of all sequences by the definition, in the order of `permutations`; one row a row."""
    sequences = permutations(range(counts.shape[-1]), k)
    weight = np.stack([np.exp(-loss(counts, each) / scale) for each in sequences], axis=-1)
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


def level_law(levels: Levels, rate: float) -> dict[int, float]:
    """P(V = v) from the sampler's blocks; all levels of the last block, where N is constant, as one."""
    mass = levels.ceiling / levels.ceiling.sum()
    assert (np.abs(levels.ceiling - levels.floor) <= 1e-9 * levels.ceiling.sum()).all()
    found: dict[int, float] = {}
    for block, (start, last) in enumerate(zip(levels.start.tolist(), levels.last.tolist(), strict=True)):
        level = np.arange(start, last + 1)
        geometric = np.exp(-rate * (level - start))
        kept = levels.choices(level).prod(axis=1) / levels.choices(levels.last[block : block + 1]).prod()
        found |= dict(zip(level.tolist(), mass[block] * geometric / geometric.sum() * kept, strict=True))
    total = sum(found.values())
    return {level: part / total for level, part in found.items()}


def shipped_law(counts: tuple[int, ...], k: int, scale: Fraction) -> Sequences:
    """The law of the sequence from the sampler's blocks and all outcomes of the exchanges."""
    levels = Levels(counts[0] - np.array(counts), k, 1 / scale)
    found: Sequences = {}
    for level, mass in level_law(levels, float(1 / scale)).items():
        choices = levels.choices(np.array([level]))[0].tolist()
        places = np.array(list(product(*(range(i, i + n) for i, n in enumerate(choices)))))
        for sequence in exchange_entries(places).tolist():
            found[tuple(sequence)] = found.get(tuple(sequence), 0.0) + mass / len(places)
    return found


@pytest.mark.parametrize("epsilon", ["0.3", "1", "5"])
@pytest.mark.parametrize(("groups", "k"), INSTANCES)
@pytest.mark.sampled(4)
def test_the_law_is_exact(groups: int, k: int, epsilon: str) -> None:
    """All counts in descending order: positions matter to the order of the result alone."""
    scale = Joint.plan(2, 1, epsilon).scale
    for ascending in combinations_with_replacement(range(4), groups):
        counts = ascending[::-1]
        shipped = shipped_law(counts, k, scale)
        expected = law(np.array([counts]), k, float(scale))[0]
        assert set(shipped) == set(permutations(range(groups), k))
        assert [shipped[each] for each in permutations(range(groups), k)] == pytest.approx(expected, rel=1e-7)


@cache
def worst(groups: int, k: int, *, monotone: bool, scale: float) -> float:
    """The largest log-ratio of a sequence's probabilities on any two neighbours."""
    counts = np.array(list(product(range(4), repeat=groups)))
    moves = np.array(list(product([0, 1] if monotone else [-1, 0, 1], repeat=groups)))
    here = np.log(law(counts, k, scale))
    return max(float(np.abs(np.log(law(counts + move, k, scale)) - here).max()) for move in moves)


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)])
@pytest.mark.sampled(4)
def test_no_sequence_tells_more_than_the_charge(epsilon: Fraction, monotone: bool) -> None:
    tight = 0.0
    for groups, k in INSTANCES[1:]:
        plan = Joint.plan(groups, k, epsilon, monotone=monotone)
        assert plan.loss.charge.epsilon == epsilon
        ratio = worst(groups, k, monotone=monotone, scale=float(plan.scale))
        assert ratio <= float(epsilon) + 1e-9
        tight = max(tight, ratio)
    assert tight > 0.6 * epsilon


def test_without_the_factor_of_two_the_claim_is_false() -> None:
    """At epsilon 1 and k = 2, on three groups already."""
    for monotone in (True, False):
        scale = float(Joint.plan(3, 2, 1, monotone=monotone).scale) / 2
        assert worst(3, 2, monotone=monotone, scale=scale) > 1.03


def test_general_counts_taken_for_monotone_break_the_claim() -> None:
    scale = float(Joint.plan(4, 3, 1).scale)
    assert max(worst(*each, monotone=False, scale=scale) for each in INSTANCES[1:]) > 1.05
