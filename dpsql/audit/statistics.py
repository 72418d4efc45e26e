"""Test claims by Fisher's exact test on thinned counts, and bound epsilon from below by its inversion."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.noise import Entropy
from dpsql.lazy_dataclass import dataclass

_STRATA = 32
_REACH = 9.0
"""Standard deviations beyond which a tail is negligible: e^-40."""

_LARGEST_EPSILON = 64.0
"""Largest lower bound reported; no feasible number of trials shows more."""


def draw_uniforms(size: int, entropy: Entropy) -> NDArray[np.float64]:
    """Draw numbers uniform on (0, 1): midpoints of 2^53 equal intervals."""
    words = entropy.words(size) >> np.uint64(11)
    return np.asarray((words.astype(np.float64) + 0.5) * 2.0**-53)


def draw_strata(entropy: Entropy, size: int = _STRATA) -> NDArray[np.float64]:
    """Draw `size` numbers, one in each part of [0, 1), by a single shift; in random order each is uniform.

    An average over them varies far less than one over independent numbers.
    """
    return np.asarray((np.arange(size) + draw_uniforms(1, entropy)[0]) / size)


def binomial_quantiles(n: int, p: float, at: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the quantiles of Binomial(n, p) at given levels; uniform levels give binomial draws.

    >>> binomial_quantiles(10, 0.5, np.array([0.01, 0.5, 0.99]))
    array([1, 5, 9])
    """
    if n == 0 or p >= 1.0:
        return np.full(at.shape, n, dtype=np.int64)
    mode = int((n + 1) * p)
    width = int(_REACH * math.sqrt(n * p * (1 - p)) + 40)
    low, high = max(0, mode - width), min(n, mode + width)
    k = np.arange(low, high, dtype=np.float64)
    log = np.concatenate([[0.0], np.cumsum(np.log((n - k) / (k + 1)) + math.log(p) - math.log1p(-p))])
    mass = np.cumsum(np.exp(log - log.max()))
    return np.asarray(low + np.searchsorted(mass, at * mass[-1]), dtype=np.int64)


def fisher_p_values(c1: NDArray[np.int64], c2: int, n: int) -> NDArray[np.float64]:
    """Test whether an event is likelier in the first of two samples: P(X >= c1), X hypergeometric.

    Parameters
    ----------
    c1
        How often it happened in the first sample; one test for each.
    c2
        How often in the second.
    n
        Size of each sample.

    Returns
    -------
    numpy.ndarray
        p-values of the hypothesis that it is no likelier in the first.

    Notes
    -----
    X has the law of c1 given c1 + c2, if both samples have one probability. The tail is summed from
    c1 upwards, each term from the one before; the first by logarithms of factorials.

    >>> fisher_p_values(np.array([3]), 1, 4).round(4)
    array([0.2429])
    """
    c1 = np.asarray(c1, dtype=np.int64)
    total = c1 + c2
    mean = total / 2.0
    spread = np.sqrt(np.maximum(total * (2.0 * n - total) / (4.0 * (2 * n - 1)), 0.25))
    result = np.ones(c1.shape)
    # Far below the mean the tail is 1 to the last digit.
    near = np.flatnonzero(c1 > mean - _REACH * spread)
    if len(near) == 0:
        return result
    x, s = c1[near].astype(np.float64), total[near].astype(np.float64)
    end = int(np.ceil(np.max(np.maximum(mean[near] + _REACH * spread[near] - x, _REACH * spread[near])))) + 40
    j = np.arange(end, dtype=np.float64)
    at = x[:, None] + j
    with np.errstate(over="ignore"):
        ratio = (n - at) * (s[:, None] - at) / ((at + 1) * (n - s[:, None] + at + 1))
        terms = np.cumprod(np.where((at < n) & (at < s[:, None]), ratio, 0.0), axis=1)
    first = np.array([_log_mass(int(a), c2, n) for a in c1[near]])
    result[near] = np.exp(np.minimum(first + np.log1p(terms.sum(axis=1)), 0.0))
    return result


def _log_mass(c1: int, c2: int, n: int) -> float:
    return _log_binomial(n, c1) + _log_binomial(n, c2) - _log_binomial(2 * n, c1 + c2)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def p_value(
    c1: int, c2: int, n: int, epsilon: float, at: NDArray[np.float64], *, delta: float = 0.0
) -> float:
    """Return the p-value of P(event on D1) <= e^epsilon P(event on D2) + delta, from n runs on each.

    Parameters
    ----------
    c1, c2
        How often the event happened on D1 and on D2.
    n
        Runs of each.
    epsilon, delta
        What is claimed.
    at
        The numbers of `draw_strata` used for thinning. With the same ones for several epsilon the p-value is
        increasing in epsilon.

    Notes
    -----
    Dissertation, Algorithm 2: Z ~ Binomial(c1, e^-epsilon) has the law of a count whose probability
    is e^-epsilon times as large (Lemma 4.1), so Fisher's test compares it with c2. An average of
    p-values, over several Z, is not a p-value, but twice the average is. With delta, c1 is at most
    such a count and a Binomial(n, delta) one beside it: what that exceeds with chance e^-25 alone is
    subtracted first, and the chance added.
    """
    beside, chance = poisson_excess(n * delta) if delta else (0, 0.0)
    thinned = binomial_quantiles(max(c1 - beside, 0), math.exp(-epsilon), at)
    if epsilon <= 0:
        return min(1.0, float(fisher_p_values(thinned[:1], c2, n)[0]) + chance)
    values, times = np.unique(thinned, return_counts=True)
    return min(1.0, 2.0 * float(fisher_p_values(values, c2, n) @ times) / len(at) + chance)


def poisson_excess(mean: float) -> tuple[int, float]:
    """Return a number that a binomial count of this mean exceeds rarely, and a bound on that probability.

    By the Chernoff bound, P(X >= q) <= e^(q - mean - q ln(q/mean)).
    """
    chance = math.exp(-25)
    q = max(1, math.ceil(mean))
    step = 1 << 40
    while step:
        if _chernoff_bound(q + step, mean) > chance:
            q += step
        step >>= 1
    return q, chance


def _chernoff_bound(q: int, mean: float) -> float:
    return math.exp(q - mean - q * math.log(q / mean)) if q > mean else 1.0


def lower_bound(
    c1: int, c2: int, n: int, alpha: float, at: NDArray[np.float64], *, delta: float = 0.0
) -> float:
    """Return the largest epsilon that the counts reject at level alpha; all smaller ones are rejected too.

    The true epsilon is at least as large with confidence 1 - alpha; 0 if nothing is rejected. Other
    parameters as in `p_value`.
    """

    def is_rejected(epsilon: float) -> bool:
        return p_value(c1, c2, n, epsilon, at, delta=delta) <= alpha

    if not is_rejected(0.0):
        return 0.0
    low, high = 0.0, 0.25
    while high < _LARGEST_EPSILON and is_rejected(high):
        low, high = high, 2 * high
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if is_rejected(middle) else (low, middle)
    return low


@dataclass(frozen=True, eq=False, slots=True)
class GroupSequentialTest:
    """Counts of one event in the stages of a group sequential test, and the p-values from them.

    There are at most two stages. Each p-value is twice the smallest of the stages' (Bonferroni), so the
    decision to run the second stage may depend on the first.
    """

    counts: tuple[tuple[int, int, int], ...]
    """For each stage: the count on the first input, on the second, and the number of runs on each."""
    at: NDArray[np.float64]
    """The numbers of `draw_strata` used for thinning."""
    delta: float
    """The delta of the claim."""

    def p_value(self, epsilon: float) -> float:
        """Return the p-value of P(event on first input) <= e^epsilon P(event on second) + delta."""
        least = min(p_value(c1, c2, n, epsilon, self.at, delta=self.delta) for c1, c2, n in self.counts)
        return min(1.0, 2 * least)

    def backward(self, epsilon: float) -> float:
        """Return the p-value of the test with the two inputs exchanged."""
        least = min(p_value(c2, c1, n, epsilon, self.at, delta=self.delta) for c1, c2, n in self.counts)
        return min(1.0, 2 * least)

    def lower_bound(self, alpha: float) -> float:
        """Return the largest epsilon that the counts refute at level alpha, and 0 if none."""
        return max(lower_bound(c1, c2, n, alpha / 2, self.at, delta=self.delta) for c1, c2, n in self.counts)
