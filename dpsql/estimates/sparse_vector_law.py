"""Predict a sparse vector run from public parameters alone: hits, errors, rows, charge.

A group is tried in several branches, and only noise that reaches a branch's cutoff is released. So given a
hit the noise has its law conditioned on passing: near the threshold the estimate is too high.
`SparseVectorLaw.at` computes this for groups at a given distance from the threshold, on the grid of the
noise, averaged over quantiles of the threshold's noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.noise_laws import Noise, Real, noise_variance
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]

_QUANTILES = 400
_EXACT_ROWS = 2000
"""Up to this many rows the expectation is computed from the binomial law, above it from its mean."""
_STEPS = 1 << 14
"""Groups are counted one by one up to so many; of more, several are one step, with one hit at most."""
_TILT = 1e-8
"""What wraps around in the Fourier transform is made smaller by this factor."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Predictions for groups at one distance from the threshold."""

    hit: float
    """Probability that such a group is a hit."""
    bias: float
    """How far gap + threshold lies above the count on average, given the hit; in counts."""
    stddev: float
    """Standard deviation of gap + threshold given the hit, in counts."""
    cost: float
    """Expected charge of a hit, as a share of that of a base hit."""
    rows: float
    """Expected rows if all groups lie there."""
    charge: float
    """Expected charge if all groups lie there, as a share of the mechanism's epsilon."""


@dataclass(frozen=True, slots=True, eq=False)
class SparseVectorLaw:
    """The law of a run of the sparse vector family, given its public plan.

    Branches are listed in the order they are tried, cheapest first.

    Examples
    --------
    >>> law = SparseVectorLaw("exponential", 2, (10,), (0,), (-8.0,), 0, 0, 1, 50, 1, None, 0.5)
    >>> far = law.at(1000)
    >>> round(far.hit, 3), round(far.rows, 3), round(far.charge, 3), round(far.stddev, 2)
    (1.0, 1.0, 1.0, 10.19)
    """

    noise: Noise
    threshold_scale: Real
    """Scale of the threshold's noise, in counts."""
    scales: tuple[Real, ...]
    """Scales of the noise on a count by branch."""
    cutoffs: tuple[int, ...]
    """In grid steps: a branch passes if count + noise - threshold noise is at least this."""
    offsets: tuple[float, ...]
    """What is added to that value, in counts, to get the gap."""
    threshold: Real
    resolution: int
    hits: int
    """Base hits that the budget pays for."""
    groups: int
    """Size of the public domain."""
    branches_cost: int
    """Units of charge of a base hit: 2^(branches - 1); a hit in the cheapest branch costs one unit."""
    limit: int | None
    """Most rows."""
    share: float
    """Part of epsilon that pays for the threshold's noise."""
    rounds: bool = False
    """Whether each hit ends a round: the next has a fresh threshold, and only rounds that ran are charged.

    There is one branch. How far hits err is that of the first round, which has most groups.
    """

    def stddevs(self) -> list[float]:
        """Return the standard deviation of gap + threshold by branch, without conditioning on a hit."""
        level = noise_variance(self.noise, self.threshold_scale, self.resolution)
        return [math.sqrt(level + noise_variance(self.noise, s, self.resolution)) for s in self.scales]

    def at(self, distance: float) -> Outlook:
        """Predict the run for groups whose count is `distance` above the threshold, rounded to the grid."""
        step = 2.0**-self.resolution
        level = _quantiles(self.noise, step / float(self.threshold_scale))
        place = round((float(self.threshold) + distance) / step)
        count, value = place * step, place - level
        left = np.ones_like(level)
        first, second = np.zeros_like(level), np.zeros_like(level)
        passed = []
        for branch, scale in enumerate(self.scales):
            rate = step / float(scale)
            need = self.cutoffs[branch] - value
            passing = left * _tail(self.noise, rate, need)
            mean, square = _moments(self.noise, rate, need)
            # error = step (value + noise) + offset + threshold - count
            base = step * value + self.offsets[branch] + float(self.threshold) - count
            first += passing * (base + step * mean)
            second += passing * (base**2 + 2 * base * step * mean + step**2 * square)
            left = left - passing
            passed.append(passing)
        hit = np.asarray(np.sum(passed, axis=0))
        rows, units, charge = self._run(hit, passed)
        total = float(rows.sum())
        if total < 1e-200:
            return Outlook(0.0, math.nan, math.nan, math.nan, 0.0, charge)
        # Rows at each level of the threshold, which a limit makes fewer than the hits.
        weight = rows / np.maximum(hit, 1e-300) / total
        bias = float(first @ weight)
        variance = float(second @ weight) - bias**2
        return Outlook(
            float(hit.mean()),
            bias,
            math.sqrt(max(variance, 0.0)),
            float((rows * units).mean() / rows.mean()) / self.branches_cost,
            float(rows.mean()),
            charge,
        )

    def _run(self, hit: FloatArray, passed: list[FloatArray]) -> tuple[FloatArray, FloatArray, float]:
        """Return expected rows and units of a hit by threshold noise, and the charge, for equal counts."""
        if self.rounds:
            return self._run_rounds(hit)
        there = np.maximum(hit, 1e-300)
        units = [self.branches_cost >> (len(passed) - 1 - branch) for branch in range(len(passed))]
        parts = [passing / there for passing in passed]
        mean = np.maximum(sum(u * part for u, part in zip(units, parts, strict=True)), 1)
        most = _affordable(units, parts, mean, (self.hits - 1) * self.branches_cost)
        if self.limit is not None:
            most = np.minimum(most, self.limit)
        rows = _mean_of_least(self.groups, hit, np.minimum(most, self.groups))
        spent = float((rows * mean).mean())
        charge = self.share + (1 - self.share) * spent / (self.hits * self.branches_cost)
        return rows, mean, min(1.0, charge)

    def _run_rounds(self, hit: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        hits, begun = count_hits_and_rounds(hit, self.groups, self.hits)
        first = -np.expm1(self.groups * np.log1p(-np.minimum(hit, 1 - 1e-15)))
        return first * hits / max(float(first.mean()), 1e-300), np.ones_like(hit), begun / self.hits


def _affordable(units: list[int], parts: list[FloatArray], mean: FloatArray, paid: int) -> FloatArray:
    """Return the expected number of hits until the units they cost exceed `paid`.

    Each hit but the last leaves the total at or below `paid`: so they are as many as the totals up to there
    that are reached, each with the probability that the renewal equation gives.
    """
    if paid > _EXACT_ROWS:
        return (paid + mean) / mean
    reached = [np.ones_like(mean)]
    for total in range(1, paid + 1):
        steps = [p * reached[total - u] for u, p in zip(units, parts, strict=True) if u <= total]
        reached.append(np.asarray(sum(steps, np.zeros_like(mean))))
    return np.asarray(np.sum(reached, axis=0))


def _mean_of_least(groups: int, chance: FloatArray, most: FloatArray) -> FloatArray:
    """Return E[min(hits, most)] for a binomial number of hits, by chance."""
    whole = int(np.ceil(most.max()))
    if whole > _EXACT_ROWS:
        return np.minimum(groups * chance, most)
    j = np.arange(1, whole + 1)
    choose = np.concatenate([[0.0], np.cumsum(np.log((groups - j + 1) / j))])[:whole]
    p = np.clip(chance, 1e-300, 1 - 1e-15)
    i = np.arange(whole)[:, None]
    logs = choose[:, None] + i * np.log(p) + (groups - i) * np.log1p(-p)
    more = 1 - np.cumsum(np.exp(logs), axis=0)  # P(hits > i)
    weight = np.clip(most[None, :] - i, 0, 1)
    return np.asarray((np.clip(more, 0, 1) * weight).sum(axis=0))


def _quantiles(noise: Noise, rate: float) -> FloatArray:
    """Return equally likely values of the threshold's noise, in grid steps."""
    u = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if noise != "laplace":
        return np.floor(-np.log1p(-u) / rate)
    both = 1 + math.exp(-rate)
    upper = np.ceil(-np.log(np.minimum(u, 1 - u) * both) / rate - 1)
    return np.where(u < 0.5, -np.maximum(upper, 0), np.maximum(upper, 0))


def _tail(noise: Noise, rate: float, n: FloatArray) -> FloatArray:
    """P(noise >= n), n in grid steps."""
    if noise != "laplace":
        return np.exp(-rate * np.maximum(n, 0))
    both = 1 + math.exp(-rate)
    above, below = np.exp(-rate * np.maximum(n, 0)), np.exp(-rate * np.maximum(1 - n, 1))
    return np.where(n > 0, above / both, 1 - below / both)


def _moments(noise: Noise, rate: float, need: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of the noise given that it is at least `need`, in grid steps."""
    mean = 1 / math.expm1(rate) if rate < 700 else 0.0
    spread = mean * (1 + mean)  # variance of the geometric law
    if noise != "laplace":
        start = np.maximum(need, 0)
        return start + mean, (start + mean) ** 2 + spread
    # Above 0 the law is memoryless; below, everything less what fails, which mirrors such a tail.
    start = np.maximum(need, 1)
    failed = np.maximum(1 - need, 1)
    below = np.exp(-rate * failed) / (1 + math.exp(-rate))
    rest = 1 - below
    first = np.where(need > 0, start + mean, below * (failed + mean) / rest)
    whole = 2 * spread
    second = np.where(
        need > 0, (start + mean) ** 2 + spread, (whole - below * ((failed + mean) ** 2 + spread)) / rest
    )
    return first, second


def count_hits_and_rounds(chance: NDArray[np.float64], groups: int, most: int) -> tuple[float, float]:
    """Return the expected hits and rounds, of at most `most`, among groups with equal counts.

    In each round every group is a hit with the same probability, one of `chance`, which are equally likely
    and drawn anew for each round. A round ends with a hit. So the distances from hit to hit are independent,
    of one law, with generating function G, and the j-th hit is at place m or before with the probability that
    the coefficients of G^j add up to.

    >>> hits, rounds = count_hits_and_rounds(np.array([0.5]), 2, 2)
    >>> round(hits, 6), round(rounds, 6)
    (1.0, 1.5)
    """
    steps = min(groups, _STEPS)
    none = np.log1p(-np.clip(chance, 0.0, 1 - 1e-15)) * (groups / steps)
    distance = np.zeros(steps + 1)
    for one in none:
        distance[1:] -= np.expm1(one) * np.exp(one * np.arange(steps))
    distance /= len(none)
    size = 1 << (2 * steps + 1).bit_length()
    tilt = _TILT ** (np.arange(size) / size)
    law = np.fft.rfft(distance * tilt[: steps + 1], size)

    def places(hits: int) -> NDArray[np.float64]:
        """Return the expected number of the first hits at each place."""
        each = law * (1 - law**hits) / (1 - law)
        return np.asarray((np.fft.irfft(each, size) / tilt)[: steps + 1])

    last = min(most, steps)
    found, earlier = places(last), places(last - 1)
    # A round begins where a group is left to scan.
    left = steps - 1 if steps == groups else steps
    return float(found.sum()), 1 + float(earlier[: left + 1].sum())
