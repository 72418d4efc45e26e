"""The release of a kept ladder, M and then bins up to it: the loss on all small neighbours, against epsilon.

All multisets of at most 4 units with sizes to 8 are enumerated, each with every unit that may be added; and
with larger sizes, of which some exceed a rung by less than an eighth. The log-ratio of the numbers in the
bins is exact: whole multiples of their epsilon. That of M is the closed form of noisy max in floating point,
which is off by less than `MARGIN`. That what is drawn has these laws is in ``statistical/test_bins_law.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.mechanisms import FULL, Bins, Ladder
from dpsql.kernel.mechanisms.ladder import excess_score, excess_scores
from tests.daily import daily
from tests.unit.audit.test_mutants import module
from tests.unit.kernel.mechanisms.test_ladder import law

Units = tuple[int, ...]

SMALL = ((1, 2, 4, 8), tuple(range(9)))
"""Rungs, and the sizes of units."""
LARGE = ((16, 32, 64, 128), (0, 16, 17, 33, 35, 36, 65, 71, 72))
EPSILON = Fraction(4)
"""Of the whole release: so that few units decide between rungs."""
MARGIN = 1e-9


class Release:
    """A release of M and of bins; a mutant replaces one of its parts."""

    def __init__(
        self,
        score: Callable[[int, int], int] = excess_score,
        scale: float = 1.0,
        counts: Callable[[Bins, Units], Sequence[int]] = Bins.counts,
        ends: Callable[[int, Units], int] = lambda most, _: most,
        epsilon: Fraction = EPSILON,
        more: int = 1,
        data: tuple[Units, Units] = SMALL,
    ) -> None:
        self.rungs, self.sizes = data
        self.score, self.scale, self.of_bins, self.ends = score, scale, counts, ends
        self.noise = more * epsilon / 2
        self.plan = Ladder.plan(len(self.rungs), epsilon / 2, sensitivity=FULL)
        self.choice = cache(self._choice)
        self.counts = cache(self._counts)

    def _choice(self, units: Units) -> tuple[float, ...]:
        """Return the logarithms of the probabilities of the rungs; without noise, 0 and minus infinity."""
        scores = np.array([sum(self.score(unit, rung) for unit in units) for rung in self.rungs])
        values = self.plan.values(scores)
        if not self.scale:
            return tuple(0.0 if j == values.argmax() else -math.inf for j in range(len(values)))
        scale = self.scale * float(self.plan.scale) * 2**self.plan.resolution
        return tuple(np.log(law(values, scale)).tolist())

    def _counts(self, units: Units, rung: int) -> tuple[int, ...]:
        """Return the exact numbers of units in the bins, given the rung that was chosen."""
        bins = Bins.plan(self.ends(2 * rung, units), self.noise)
        return tuple(self.of_bins(bins, units))

    def loss(self, units: Units, more: Units) -> float:
        """Return the largest log-ratio of an output: a rung, and then a number in each bin."""
        worst = 0.0
        for rung, one, two in zip(self.rungs, self.choice(units), self.choice(more), strict=True):
            if one == two == -math.inf:
                continue
            first, second = self.counts(units, rung), self.counts(more, rung)
            if len(first) != len(second):
                return math.inf
            # |z - a| - |z - b| is largest at z = b, least at z = a: reached in all bins at once.
            moved = self.noise * sum(abs(a - b) for a, b in zip(first, second, strict=True))
            worst = max(worst, abs(one - two) + float(moved))
        return worst

    def worst(self) -> float:
        """Return the largest loss of all small neighbours."""
        return max(
            self.loss(units, tuple(sorted((*units, added))))
            for size in range(5)
            for units in itertools.combinations_with_replacement(self.sizes, size)
            for added in self.sizes
        )


@pytest.mark.parametrize("data", [SMALL, LARGE])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), EPSILON])
@pytest.mark.sampled(4)
def test_no_unit_moves_an_output_by_more_than_epsilon(epsilon: Fraction, data: tuple[Units, Units]) -> None:
    found = Release(epsilon=epsilon, data=data).worst()
    assert 0.95 * float(epsilon) < found <= float(epsilon) + MARGIN
    plans = (Ladder.plan(4, epsilon / 2, sensitivity=FULL), Bins.plan(16, epsilon / 2))
    assert sum((plan.loss for plan in plans), PrivacyLoss()).charge.epsilon == epsilon


def overlapping(bins: Bins, units: Units) -> list[int]:
    """Count a unit also in the bin beyond its own."""
    beyond = [sum(size > end for size in units) for end in (0, 0, *bins.ends)]
    return [a - b for a, b in zip(beyond, (*beyond[2:], 0), strict=False)]


def also_beyond(bins: Bins, units: Units) -> list[int]:
    """Count a unit in each bin up to its own: suffixes instead of bins."""
    return [sum(size > end for size in units) for end in (0, *bins.ends)]


MUTANTS: dict[str, Callable[[], Release]] = {
    "a unit in two bins": lambda: Release(counts=overlapping),
    "a unit in all bins up to its own": lambda: Release(counts=also_beyond),
    "M without noise": lambda: Release(scale=0),
    "M with half of the noise": lambda: Release(scale=0.5),
    "bins from the largest unit": lambda: Release(ends=lambda _, units: max((*units, 1))),
    "all of epsilon for the bins": lambda: Release(more=2),
    "a score without its largest value": lambda: Release(
        score=lambda size, rung: 8 * FULL * max(size - rung, 0) // rung
    ),
    "a score of twice a unit": lambda: Release(
        score=module("ladder", **{"return 8 * FULL": "return 16 * FULL"}).excess_score,
        data=LARGE,
    ),
}


@pytest.mark.parametrize("name", daily(MUTANTS, 1))
def test_a_mutant_loses_more(name: str) -> None:
    assert MUTANTS[name]().worst() > 1.01 * float(EPSILON)


def test_bins_from_exact_data_are_found_out_by_their_ends_alone() -> None:
    """A bin's end that a unit moves is an output that the other data never has."""
    assert MUTANTS["bins from the largest unit"]().worst() == math.inf
    assert MUTANTS["M without noise"]().worst() == math.inf


@pytest.mark.parametrize("rung", [1, 2, 4, 8, 64, 1 << 40, 1 << 83])
def test_a_unit_moves_every_score_the_same_way_by_at_most_one_unit(rung: int) -> None:
    sizes = sorted({*range(20), *(rung + rung * part // 80 + each for part in range(90) for each in (0, 1))})
    scores = [excess_score(size, rung) for size in sizes]
    exact = [min(Fraction(8 * max(size - rung, 0), rung), Fraction(1)) for size in sizes]
    assert scores == [math.floor(FULL * each) for each in exact]
    assert scores == sorted(scores)
    assert scores[0] == 0
    assert scores[-1] == FULL
    assert excess_scores(sizes, [rung, 0]) == [sum(scores), FULL * (len(sizes) - 1)]
