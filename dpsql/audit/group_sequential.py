"""The test on fresh runs: one event, looked at once, and once more where that leaves it open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpsql.audit.statistics import lower_bound, p_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GroupSequentialTest"]


@dataclass(frozen=True, eq=False, slots=True)
class GroupSequentialTest:
    """How often an event happened, in one look or two.

    Each p-value is twice the least of the looks', for two there may be; so whether the second one is
    taken may depend on the first.

    Attributes
    ----------
    counts
        Of each look: how often on the first input, how often on the second, and the runs on each.
    at
        The numbers that do the thinning.
    delta
        What is claimed beside epsilon.
    """

    counts: tuple[tuple[int, int, int], ...]
    at: NDArray[np.float64]
    delta: float

    def p_value(self, epsilon: float) -> float:
        """Test that the event is at most e^epsilon times as likely on the first input, and delta."""
        least = min(p_value(c1, c2, n, epsilon, self.at, delta=self.delta) for c1, c2, n in self.counts)
        return min(1.0, 2 * least)

    def backward(self, epsilon: float) -> float:
        """Test the same with the inputs exchanged."""
        least = min(p_value(c2, c1, n, epsilon, self.at, delta=self.delta) for c1, c2, n in self.counts)
        return min(1.0, 2 * least)

    def lower_bound(self, alpha: float) -> float:
        """Return the largest epsilon that is refuted at this level, and 0 if none is."""
        return max(lower_bound(c1, c2, n, alpha / 2, self.at, delta=self.delta) for c1, c2, n in self.counts)
