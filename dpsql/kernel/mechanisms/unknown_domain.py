"""Groups of an unknown domain: those with enough units are released, with their noisy numbers of units."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Number, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    NoiseSource,
    Result,
    as_counts,
    between,
    grid_of,
    in_counts,
    pad_rows,
    positive,
    whole,
)
from dpsql.kernel.noise import LARGEST, STEP_LIMIT, exp_bounds
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

if TYPE_CHECKING:
    Bounds = Callable[[int], tuple[int, int, int, int]]


# Every tail below is a rational function, not a constant, of e^-g for some rational g, and e^-g is
# transcendental: a tail never equals the rational chance, so enough digits always decide.

_PLACES = 128


@lru_cache(maxsize=256)
def exponential_cutoff(chance: Fraction, rate: Fraction) -> int:
    """Return the least m with P(X >= Z + m) <= chance, X and Z exponential of this rate per step.

    X and Z are continuous. The probability is e^(-rate m)/2.

    Raises
    ------
    ValueError
        If the answer is over 2^61, which depends on the public arguments alone. The other cutoffs raise
        it too.

    >>> exponential_cutoff(Fraction(1, 100), Fraction(1, 10))  # 10 ln 50 = 39.1
    40
    """

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        low, high = _power(rate * m, places)
        return low, high, 2 << places, 2 << places

    return _least(chance, bounds)


@lru_cache(maxsize=256)
def symmetric_cutoff(chance: Fraction, rate: Fraction) -> int:
    """Return the least m >= 0 with P(Z >= m) <= chance, Z discrete Laplace of this rate per step.

    The probability is r^m/(1 + r), r = e^-rate.

    >>> symmetric_cutoff(Fraction(1, 10**6), Fraction(1))  # ln 731,059 = 13.5
    14
    """

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        low, high = _power(rate * m, places)
        r, r_up = _power(rate, places)
        return low, high, one + r, one + r_up

    return _least(chance, bounds)


@lru_cache(maxsize=256)
def one_sided_cutoff(chance: Fraction, threshold_rate: Fraction, rate: Fraction) -> int:
    """Return the least m with P(Y - Y0 >= m) <= chance, Y and Y0 geometric, Y0 of `threshold_rate`.

    The chance is r^m (1 - r0)/(1 - r0 r) with r = e^-rate, r0 = e^-threshold_rate.
    """

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        low, high = _power(rate * m, places)
        low_0, high_0 = _power(threshold_rate, places)
        low_both, high_both = _power(threshold_rate + rate, places)
        return low * (one - high_0), high * (one - low_0), one * (one - high_both), one * (one - low_both)

    return _least(chance, bounds)


@lru_cache(maxsize=256)
def laplace_cutoff(chance: Fraction, threshold_rate: Fraction, rate: Fraction) -> int:
    """Return the least m with P(Z - Z0 >= m) <= chance, Z and Z0 discrete Laplace, Z0 of `threshold_rate`.

    With a > b for e^-rate and e^-threshold_rate in either order, the chance is
    ((1-b)^2 a^(m+1)/(1+a) - (1-a)^2 b^(m+1)/(1+b)) / ((a-b)(1-ab)), by partial fractions of the
    generating function; the limit for a = b is a^m (m(1-a^2) + 1 + a + 2a^2)/(1+a)^3. On a fine grid
    these are the continuous tails of Free Gap, Lemma 3 (appendix A.3 of the journal version).
    """
    slow, fast = sorted((threshold_rate, rate))

    def equal(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        low, high = _power(rate * m, places)
        a, a_up = _power(rate, places)
        least = m * (one * one - a_up * a_up) + one * one + a * one + 2 * a * a
        most = m * (one * one - a * a) + one * one + a_up * one + 2 * a_up * a_up
        return low * least, high * most, (one + a) ** 3, (one + a_up) ** 3

    def bounds(m: int, places: int) -> tuple[int, int, int, int]:
        one = 1 << places
        (a, a_up), (b, b_up) = _power(slow, places), _power(fast, places)
        am, am_up = _power(slow * (m + 1), places)
        bm, bm_up = _power(fast * (m + 1), places)
        ab, ab_up = _power(slow + fast, places)
        return (
            (one - b_up) ** 2 * am * (one + b) - (one - a) ** 2 * bm_up * (one + a_up),
            (one - b) ** 2 * am_up * (one + b_up) - (one - a_up) ** 2 * bm * (one + a),
            (a - b_up) * (one - ab_up) * (one + a) * (one + b),
            (a_up - b) * (one - ab) * (one + a_up) * (one + b_up),
        )

    return _least(chance, equal if slow == fast else bounds)


def _power(exponent: Fraction, places: int) -> tuple[int, int]:
    """Return integer bounds of 2^places e^-exponent, between 0 and 2^places."""
    one = 1 << places
    if exponent == 0:
        return one, one
    low, high = exp_bounds(exponent, places)
    return low, min(high, one)


def _least(chance: Fraction, bounds: Callable[[int, int], tuple[int, int, int, int]]) -> int:
    """Find the least m >= 0 whose tail, which decreases in m, is at most `chance`."""

    def met(m: int) -> bool:
        places = _PLACES
        while True:
            low, high, under, over = bounds(m, places)
            # low/over < tail < high/under, as soon as `under` is positive.
            if under > 0 and high * chance.denominator <= chance.numerator * under:
                return True
            if under > 0 and low * chance.denominator > chance.numerator * over:
                return False
            places *= 2

    if met(0):
        return 0
    under, over = 0, 1
    while not met(over):
        under, over = over, 2 * over
        if over > LARGEST:
            raise ValueError("the noise's scale is too large for so small a delta")
    while over - under > 1:
        middle = (under + over) // 2
        if met(middle):
            over = middle
        else:
            under = middle
    return over


def largest_groups(counts: ArrayLike, candidates: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the largest groups, with their counts and the next smaller count.

    The number of groups, and whether they are sorted, is private: it never causes an error. Missing groups
    have count 0. A group of count 0 or less is treated as missing.

    Of equal counts at the cut the first ones are taken. The proofs of the mechanisms hold for any choice: a
    group that is taken on one of two neighbours only has at most the count of the largest group left out,
    plus c. In dpsql's own counts ties are ordered by key, so physical row order has no influence.

    Parameters
    ----------
    counts
        The counts of the groups, in any order; of one run, or of trials (trials, groups).
    candidates
        How many groups to take. Public.

    Returns
    -------
    position, count
        int64, of each run. `candidates` positions in its counts, -1 for missing groups; and `candidates + 1`
        counts in descending order, clamped to 2^60. The last one is the count of the largest group left out.

    >>> largest_groups([7, 0, 9], 3)
    (array([ 2,  0, -1]), array([9, 7, 0, 0]))
    """
    array = as_counts(counts, trials=True)
    if array.ndim == 2 and array.strides[0] == 0:  # the same counts in each trial are sorted once
        one, its = largest_groups(array[0], candidates)
        return np.broadcast_to(one, (len(array), len(one))), np.broadcast_to(its, (len(array), len(its)))
    order = np.argsort(-np.maximum(array, 0), axis=-1, kind="stable")[..., : candidates + 1]
    kept = np.zeros((*array.shape[:-1], candidates + 1), dtype=np.int64)
    kept[..., : order.shape[-1]] = np.clip(np.take_along_axis(array, order, axis=-1), 0, STEP_LIMIT)
    position = np.full((*array.shape[:-1], candidates), -1, dtype=np.int64)
    position[..., : order.shape[-1]] = order[..., :candidates]
    return np.where(kept[..., :candidates] > 0, position, -1), kept


@dataclass(frozen=True, eq=False, slots=True)
class ExistingGroups(Result["Existing"]):
    """The groups that reached the threshold."""

    index: NDArray[np.int64]
    """int64, their positions in the counts, ascending. Positions of an unknown domain are private: what may
    be released is the set of the groups."""
    value: NDArray[np.float64]
    """float64, their noisy numbers of units."""


@dataclass(frozen=True, slots=True)
class Existing(Mechanism[ExistingGroups]):
    """Noisy numbers of units of all groups that have any, of which those that reach a threshold are released.

    Notes
    -----
    Korolova et al. (2009). Discrete Laplace noise of scale m/epsilon; the threshold is 1 + cutoff, with the
    least cutoff whose exact tail P(Z >= cutoff) is at most delta/m (`tails`): about
    (m/epsilon) ln(m/(2 delta)).

    *Private:* let D' have one unit more. It is in at most m groups. Those that it is alone in have no unit on
    D, where they are never released, and one on D': each is released with probability at most delta/m, any of
    them with at most delta. In the other groups numbers change by 1 in at most m, so that any release of
    these has a probability that changes by a factor of at most e^(m/scale) = e^epsilon. With p <= delta for
    that event, a set of releases has probability P on D and at least (1 - p) P/e^epsilon on D', so P is at
    most e^epsilon P' + delta; and P' is at most e^epsilon P + delta. Noise of each group is independent of
    where it stands among them.
    """

    undeclared = True

    groups_per_unit: int
    """m, in how many groups one unit is at most."""
    scale: Fraction
    resolution: int
    cutoff: int
    """The threshold is this many grid steps above one unit."""

    @classmethod
    def plan(
        cls, epsilon: Number, delta: Number, *, groups_per_unit: int = 1, resolution: int | None = None
    ) -> Self:
        """Plan a release of all groups with enough units. Delta is spent in full.

        >>> float(round(Existing.plan(1, "1e-6").threshold, 1))
        14.1
        """
        budget, m = positive(epsilon, "epsilon"), whole(groups_per_unit, "groups_per_unit")
        chance, scale = between(delta, "delta"), m / budget
        bits = grid_of("laplace", resolution, scale)
        cutoff = _cutoff(chance, m, scale, bits)
        return cls(m, scale, bits, cutoff, loss=PrivacyLoss.of(budget, chance))

    @property
    def threshold(self) -> Fraction:
        """The least noisy number of units of a group that is released."""
        return 1 + Fraction(self.cutoff, 1 << self.resolution)

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds if one unit changes the counts by no more than `taken` says.

        The numbers are those of units, each of which is in at most m groups.

        The least cutoff grows with the scale and with m, and falls with delta: it is computed for these.
        """
        m = self.groups_per_unit
        units = taken.low == 0 and taken.high <= 1 and taken.total <= m
        if not (units and self.loss.delta and m <= (self.loss.epsilon or 0) * self.scale):
            return False
        return self.cutoff >= _cutoff(self.loss.delta, m, self.scale, self.resolution)

    def run(self, counts: ArrayLike, source: NoiseSource = SYSTEM) -> ExistingGroups:
        """Add noise to the clamped numbers of units; groups without units are never released."""
        array = as_counts(counts, np.shape(counts)[-1], trials=True)
        rows = np.atleast_2d(array)
        steps = exact_noise.place(rows, self.resolution)
        steps += source.draw("laplace", self.scale, self.resolution, rows.shape)
        least = self.cutoff + (1 << self.resolution)
        trial, place = np.nonzero((rows > 0) & (steps >= least))
        value = in_counts(steps[trial, place], self.resolution)
        if array.ndim == 1:
            return ExistingGroups(self, place, value)
        index, values = pad_rows(trial, rows.shape, place, value)
        return ExistingGroups(self, index, values)


def _cutoff(delta: Fraction, groups_per_unit: int, scale: Fraction, resolution: int) -> int:
    """Return the least cutoff for a delta; the proof has its chance."""
    return symmetric_cutoff(delta / groups_per_unit, exact_noise.rate(scale, resolution))
