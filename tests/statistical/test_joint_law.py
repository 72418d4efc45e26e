"""The law of the joint exponential mechanism and of its level, by chi-square.

Fixed seeds; each test's false-alarm rate over seeds is 1e-9, and it must reject 1.1 and 0.9 times the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from dpsql.estimates.predictions import clear_gap
from dpsql.kernel.mechanisms import Joint, NoiseSource
from dpsql.kernel.mechanisms.joint import Levels
from dpsql.mechanisms import joint
from dpsql.noise import SeededEntropy

ALARM = 1e-9
TRIALS = 150_000
FACTORS = (0.9, 1, 1.1)


def p_value(seen: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """Chi-square of cell counts against probabilities; thin cells are one cell, left out if it is empty."""
    expected = law / law.sum() * seen.sum()
    thin = expected < 20
    seen = np.append(seen[~thin], seen[thin].sum())
    expected = np.append(expected[~thin], expected[thin].sum())
    kept = expected > 0
    return float(chisquare(seen[kept], expected[kept]).pvalue)


def sequence_law(counts: Sequence[int], k: int, scale: float) -> NDArray[np.float64]:
    """e^(-loss/scale) of all sequences, by the definition, in the order of `permutations`."""
    largest = sorted(counts, reverse=True)
    losses = [
        max(most - counts[group] for most, group in zip(largest, each, strict=False))
        for each in permutations(range(len(counts)), k)
    ]
    return np.exp(-np.array(losses) / scale)


@pytest.mark.parametrize(
    ("counts", "k", "options", "scale"),
    [
        ([5, 3, 3, 1], 2, {}, 2),
        ([5, 3, 3, 1], 4, {}, 2),
        ([2, 0, 9, 0, 7], 3, {}, 2),
        ([0, 2], 1, {}, 2),
        ([0, 2], 2, {"monotone": False}, 4),
        ([30, 0, 17, 4, 3], 2, {"sensitivity": 3, "monotone": False}, 12),
        ([-5, -3, -3, -1], 2, {"lowest": True, "sensitivity": 2}, 4),
    ],
)
@pytest.mark.sampled(3)
def test_a_sequence_has_its_probability(
    counts: list[int], k: int, options: dict[str, Any], scale: float
) -> None:
    """The scale by hand, at epsilon 1."""
    found = joint(np.tile(counts, (TRIALS, 1)), k, 1, entropy=SeededEntropy(1), **options).index
    code = found @ len(counts) ** np.arange(k)
    cells = [int(np.dot(each, len(counts) ** np.arange(k))) for each in permutations(range(len(counts)), k)]
    seen = np.array([(code == cell).sum() for cell in cells])
    assert seen.sum() == TRIALS
    signed = [-count for count in counts] if options.get("lowest") else counts
    for factor in FACTORS:
        assert (p_value(seen, sequence_law(signed, k, scale * factor)) > ALARM) == (factor == 1), factor


def test_equal_counts_have_equal_chances() -> None:
    found = joint(np.full((TRIALS, 3), 4), 3, 1, entropy=SeededEntropy(2)).index
    seen = np.bincount(found @ np.array([9, 3, 1]), minlength=27)
    assert p_value(seen[seen > 0], np.ones(6)) > ALARM


@pytest.mark.parametrize(
    ("counts", "k", "epsilon"),
    [
        ((3000 / np.arange(1, 301)).astype(np.int64), 20, Fraction(1)),
        ((3000 / np.arange(1, 301)).astype(np.int64), 20, Fraction(1, 20)),
        (np.repeat([900, 500, 490, 3, 0], [2, 7, 30, 10, 400]), 25, Fraction(1, 10)),
        (np.arange(2000)[::-1] * 40, 100, Fraction(3)),
    ],
    ids=["a curve", "a curve, much noise", "plateaus", "a slope"],
)
@pytest.mark.sampled(4)
def test_a_level_has_its_probability(counts: NDArray[np.int64], k: int, epsilon: Fraction) -> None:
    """Among many groups, where a block has levels of different N: P(V = v) from e^(-v/scale) N(v) itself."""
    rate = 1 / Joint.plan(len(counts), k, epsilon).scale
    levels = Levels(counts[0] - counts, k, rate)
    drawn = levels.pick(TRIALS, SeededEntropy(3))
    level = np.arange(int(drawn.max()) + 200)
    logs = np.zeros(len(level))
    for i in range(k):
        logs += np.log((counts[None, :] >= counts[i] - level[:, None]).sum(axis=1) - i)
    seen = np.bincount(drawn, minlength=len(level))
    for factor in FACTORS:
        law = logs - float(rate) / factor * level
        assert (p_value(seen, np.exp(law - law.max())) > ALARM) == (factor == 1), factor


def test_the_predicted_distance_holds() -> None:
    """k equal counts so far above all others, also equal, are chosen together with the stated probability."""
    for groups, k in ((40, 5), (500, 3), (6, 6)):
        plan = Joint.plan(groups, k, 1)
        gap = clear_gap(plan, Fraction(95, 100))
        assert gap is not None
        ahead = min(k, groups - 1)
        counts = np.zeros((20_000, groups), dtype=np.int64)
        counts[:, :ahead] = round(gap)
        index = plan.run(counts, NoiseSource(SeededEntropy(4))).index[:, :ahead]
        # Four standard errors, and a step of half a count.
        assert (index < ahead).all(axis=1).mean() == pytest.approx(0.95, abs=0.02)
