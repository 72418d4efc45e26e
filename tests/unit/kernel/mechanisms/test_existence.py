"""Groups that have enough units: the threshold is the least for delta, and the loss is what is claimed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import Existing, NoiseSource
from dpsql.kernel.mechanisms.unknown_domain import symmetric_cutoff
from dpsql.mechanisms import existing_groups
from dpsql.noise import SeededEntropy


@pytest.mark.parametrize("m", [1, 2, 16])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 50), Fraction(9, 10)])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "7"])
def test_the_threshold_is_the_least_that_delta_allows(epsilon: str, delta: Fraction, m: int) -> None:
    plan = Existing.plan(epsilon, delta, groups_per_unit=m)
    r = math.exp(-float(Fraction(epsilon)) / m / 2**plan.resolution)
    assert r**plan.cutoff / (1 + r) <= delta / m * (1 + 1e-9)
    assert plan.cutoff == 0 or r ** (plan.cutoff - 1) / (1 + r) > delta / m * (1 - 1e-9)
    formula = 1 + m / float(Fraction(epsilon)) * math.log(m / (2 * delta))
    if formula > 1:
        assert float(plan.threshold) == pytest.approx(formula, rel=0.01, abs=0.01)
    assert plan.loss.charge.delta == delta


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_the_tail_is_that_of_the_noise(rate: Fraction) -> None:
    r, steps = math.exp(-float(rate)), np.arange(-400, 401)
    law = r ** np.abs(steps) * (1 - r) / (1 + r)
    for m in range(1, 30):
        tail = float(law[steps >= m].sum())
        assert symmetric_cutoff(Fraction(tail) * Fraction(1001, 1000), rate) == m
        assert symmetric_cutoff(Fraction(tail) * Fraction(999, 1000), rate) == m + 1


def law(counts: tuple[int, ...], r: float, least: int) -> dict[tuple[int, ...], float]:
    """Return P of each release of tiny counts: the noisy numbers of the groups shown, 0 if not shown.

    The noisy numbers above `top` are put together, on all databases alike.
    """
    top, reach = least + 6, 120
    steps = np.arange(-reach, reach + 1)
    mass = r ** np.abs(steps) * (1 - r) / (1 + r)
    per_group: list[dict[int, float]] = []
    for n in counts:
        shown = np.where(n + steps >= least, np.minimum(n + steps, top), 0) if n else np.zeros_like(steps)
        found: dict[int, float] = {}
        for value, p in zip(shown.tolist(), mass.tolist(), strict=True):
            found[value] = found.get(value, 0.0) + p
        per_group.append(found)
    return {
        tuple(values): math.prod(d[v] for d, v in zip(per_group, values, strict=True))
        for values in itertools.product(*per_group)
    }


@pytest.mark.parametrize("m", [1, 2])
def test_no_event_of_tiny_databases_exceeds_the_loss(m: int) -> None:
    """All numbers of units of two groups up to 2, and all that one unit can do; epsilon 1, whole numbers."""
    epsilon, delta = 1.0, 0.05
    plan = Existing.plan("1", "0.05", groups_per_unit=m, resolution=0)
    r, least, spent = math.exp(-epsilon / m), plan.cutoff + 1, 0.0
    for counts in itertools.product(range(3), repeat=2):
        for change in itertools.product(range(2), repeat=2):
            if not 0 < sum(change) <= m:
                continue
            more = tuple(a + b for a, b in zip(counts, change, strict=True))
            p, q = law(counts, r, least), law(more, r, least)
            for one, other in ((p, q), (q, p)):
                beyond = sum(max(0.0, v - math.exp(epsilon) * other.get(k, 0.0)) for k, v in one.items())
                assert beyond <= delta * (1 + 1e-9) + 1e-12
                spent = max(spent, beyond)
            one_less = law(more, r, least - 1), law(counts, r, least - 1)
            if counts == (0, 0) and sum(change) == m:
                wrong = sum(
                    max(0.0, v - math.exp(epsilon) * one_less[1].get(k, 0.0)) for k, v in one_less[0].items()
                )
                assert wrong > delta / m, "a threshold one lower would be wrong"
    assert spent > 0.3 * delta


def test_groups_without_units_are_never_released() -> None:
    found = existing_groups(np.zeros(10_000, dtype=np.int64), 1, "0.9", entropy=SeededEntropy(1))
    assert not len(found.index)


def released(scale: float) -> NDArray[np.float64]:
    """Return errors of the number of units of a group far above the threshold, for noise of a scale."""
    plan = Existing.plan(Fraction(1) / Fraction(scale), "1e-3")
    counts = np.full((20_000, 1), 10**6)
    return plan.run(counts, NoiseSource(SeededEntropy(3))).value[:, 0] - 10**6


def test_noise_has_the_law_of_its_scale() -> None:
    """20,000 draws: the mean of |Z| has a standard error of 0.7%; 5% fail once in 1e11."""
    for scale in (2.0, 2.6, 1.4):
        mean = np.abs(released(scale)).mean()
        assert (abs(mean / 2.0 - 1) < 0.05) == (scale == 2.0)


def test_a_lone_group_is_shown_with_probability_delta() -> None:
    """200,000 groups of one unit: shown are Poisson(delta n), a little fewer by the grid; 6.5 deviations."""
    n, delta = 200_000, 0.02
    shown = len(existing_groups(np.ones(n, dtype=np.int64), 1, "0.02", entropy=SeededEntropy(5)).index)
    assert abs(shown - n * delta) < 6.5 * math.sqrt(n * delta)
