"""Releasing every group: scale, charge, and privacy on a tiny instance."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dpsql.kernel.loss import Charge
from dpsql.mechanisms import release_all
from dpsql.noise import SeededEntropy


@pytest.mark.parametrize(
    ("groups", "epsilon", "options", "scale"),
    [
        (10, "0.7", {"groups_per_unit": 3}, Fraction(30, 7)),
        (10, 2, {"groups_per_unit": 3, "sensitivity": 4}, 6),
        (10, 2, {}, 5),
        (2, 1, {"groups_per_unit": 3}, 2),
        (1, "0.1", {"sensitivity": 5}, 50),
        (1, "0.1", {"groups_per_unit": 9}, 10),
    ],
)
def test_scale_and_charge(
    groups: int, epsilon: int | str, options: dict[str, Any], scale: int | Fraction
) -> None:
    found = release_all(np.arange(groups), epsilon, **options)
    assert (found.plan.scale, found.charge) == (scale, Charge(Fraction(str(epsilon))))
    assert found.value.shape == (groups,)


def test_no_group_costs_nothing() -> None:
    found = release_all([], 1, groups_per_unit=3)
    assert (found.value.tolist(), found.charge) == ([], Charge())


@pytest.mark.parametrize(
    ("epsilon", "options"),
    [(0, {}), (1, {"groups_per_unit": 0}), (1, {"groups_per_unit": True}), (1, {"sensitivity": "1/2"})],
)
def test_refusals(epsilon: int, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        release_all([1, 2], epsilon, **options)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_no_output_tells_more_than_the_charge(m: int) -> None:
    """Three counts, of which a unit changes at most m by up to c; r^|z| is the law of each noise."""
    r, c = Fraction(1, 2), 2
    said = release_all([0, 0, 0], 1, groups_per_unit=m, sensitivity=c)
    allowed = (1 / r) ** int(said.charge.epsilon * said.plan.scale)
    worst = Fraction(0)
    for move in product(range(-c, c + 1), repeat=3):
        if sum(d != 0 for d in move) <= m:
            for out in product(range(-3, 4), repeat=3):
                away = sum(abs(o - d) - abs(o) for o, d in zip(out, move, strict=True))
                worst = max(worst, r**-away)
    assert worst == allowed


def test_law() -> None:
    """|noise| over its scale is exponential; false alarm 1e-9, and 0.7 and 1.3 of the scale are rejected."""
    found = release_all(np.full(30_000, 9), 30, groups_per_unit=300, entropy=SeededEntropy(1))
    noise = found.value - 9
    for factor in (0.7, 1, 1.3):
        cell = np.floor(32 * np.exp(-np.abs(noise) / (10 * factor))).clip(0, 31).astype(int)
        seen, mean = np.bincount(2 * cell + (noise > 0), minlength=64), len(noise) / 64
        assert (chi2.sf(((seen - mean) ** 2 / mean).sum(), 63) > 1e-9) == (factor == 1)
