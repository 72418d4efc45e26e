"""Test one event on fresh runs, in one stage or two: a group sequential test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.statistics import lower_bound, p_value
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class GroupSequentialTest:
    """Counts of one event in the stages of a group sequential test, and the p-values from them.

    There are at most two stages. Each p-value is twice the smallest of the stages' (Bonferroni), so the
    decision to run the second stage may depend on the first.

    Attributes
    ----------
    counts
        For each stage: the count on the first input, on the second, and the number of runs on each.
    at
        The numbers of `strata` used for thinning.
    delta
        The delta of the claim.
    """

    counts: tuple[tuple[int, int, int], ...]
    at: NDArray[np.float64]
    delta: float

    def p_value(self, epsilon: float) -> float:
        """Return the p-value of P(event on first input) <= e^epsilon P(event on second) + delta."""
        least = min(p_value(c1, c2, n, epsilon, self.at, delta=self.delta) for c1, c2, n in self.counts)
        return min(1.0, 2 * least)

    def backward(self, epsilon: float) -> float:
        """Return the p-value of the same hypothesis with the inputs exchanged."""
        least = min(p_value(c2, c1, n, epsilon, self.at, delta=self.delta) for c1, c2, n in self.counts)
        return min(1.0, 2 * least)

    def lower_bound(self, alpha: float) -> float:
        """Return the largest epsilon that is refuted at this level, and 0 if none is."""
        return max(lower_bound(c1, c2, n, alpha / 2, self.at, delta=self.delta) for c1, c2, n in self.counts)
