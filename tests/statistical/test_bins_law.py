"""The law of the noisy numbers of bins as they are drawn, by chi-square; and that of rungs by excess scores.

Each test draws from a fixed seed. Its false-alarm rate, over seeds, is 1e-9; it must reject 0.9 and 1.1 times
the scale.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from dpsql.kernel.mechanisms import FULL, Bins, Ladder, NoiseSource, excess_scores
from dpsql.noise import SeededEntropy
from tests.unit.kernel.mechanisms.test_ladder import law

ALARM = 1e-9
DRAWS = 200_000


def accepted(probability: NDArray[np.float64], place: NDArray[np.int64]) -> bool:
    """Return whether places, those beyond the last one added to it, have this law."""
    seen = np.bincount(np.clip(place, 0, len(probability) - 1), minlength=len(probability))
    expected = probability * len(place)
    thick = expected >= 20
    rest = len(place) - seen[thick].sum(), len(place) - expected[thick].sum()
    if rest[1] > 1:
        seen, expected = np.append(seen[thick], rest[0]), np.append(expected[thick], rest[1])
    else:
        seen, expected = seen[thick], expected[thick] * (seen[thick].sum() / expected[thick].sum())
    return bool(chisquare(seen, expected).pvalue > ALARM)


@pytest.mark.parametrize("epsilon", ["0.25", "1"])
def test_each_number_has_the_noise_of_its_epsilon_and_of_no_other(epsilon: str) -> None:
    plan, counts = Bins.plan(4, epsilon), np.array([0, 7, 300, 2])
    noise = plan.run(np.tile(counts, (DRAWS // 4, 1)), NoiseSource(SeededEntropy(1))).number - counts
    z = np.arange(-200, 201)
    for factor in (0.9, 1.0, 1.1):
        r = np.exp(-float(epsilon) / factor)
        assert accepted((1 - r) / (1 + r) * r ** np.abs(z), noise.ravel() + 200) == (factor == 1.0)
    if epsilon == "0.25":
        # Independent: the correlation of two numbers is below 7 standard errors.
        assert np.abs(np.corrcoef(noise.T) - np.eye(4)).max() < 7 / np.sqrt(len(noise))


@pytest.mark.parametrize("units", [(9,) * 5 + (2,) * 9, (17, 17, 17, 33, 35, 3, 3, 3, 3)])
def test_the_law_of_a_rung_by_excess(units: tuple[int, ...]) -> None:
    scores = excess_scores(units, [1 << j for j in range(6)])
    plan = Ladder.plan(6, 1, sensitivity=FULL)
    found = plan.run(np.tile(scores, (DRAWS // 2, 1)), NoiseSource(SeededEntropy(2))).rung[:, 0]
    for factor in (0.9, 1.0, 1.1):
        scale = factor * float(plan.scale) * 2**plan.resolution
        assert accepted(law(plan.values(np.array(scores)), scale), found) == (factor == 1.0)
