"""Draw exact noise in arrays that several counts may share: discrete Gaussian, uniform in a box or a cube.

The upper digits of Gaussian noise are drawn by an inverse-CDF table. The box or cube has a random size.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.exact_bounds import exp_bounds
from dpsql.kernel.noise.entropy import (
    GUIDE_BITS,
    WORD,
    Entropy,
    InverseCDF,
    SystemEntropy,
    complete_words,
    index_prefixes,
    positive_rational,
    uniform,
)
from dpsql.kernel.noise.geometric_noise import LARGEST, geometric
from dpsql.lazy_dataclass import dataclass

_LARGEST_SUM = 1 << 56
_LARGEST_SCALE = 1 << 50
"""That of the distances between arrivals, which are geometric."""


def box(
    rate: Fraction | int, dimension: int, trials: int, *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw noise with P(y) proportional to e^(-rate max(y)) on vectors of whole numbers from 0 on.

    A side N is drawn by `box_side`, then independent uniform whole numbers below N. The law follows from
    P(y) = sum over n > max(y) of C e^(-rate n) n^dimension n^(-dimension).

    Parameters
    ----------
    rate
        Positive rational.
    dimension
        Length of the vectors.
    trials
        Number of independent vectors.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of shape (trials, dimension).

    Raises
    ------
    ValueError
        As `box_side`.
    """
    source = entropy or SystemEntropy()
    return uniform(box_side(rate, dimension, trials, entropy=source), dimension, entropy=source)


def cube(
    rate: Fraction | int, dimension: int, trials: int, *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw noise with P(z) proportional to e^(-rate max|z|) on vectors of whole numbers.

    An odd side 2 M + 1 has a weight of e^(-rate M) (2 M + 1)^dimension; given it, the coordinates are
    independent and uniform on {-M, .., M}. Parameters, result and errors as in `box`.
    """
    source = entropy or SystemEntropy()
    half = positive_rational(rate, "rate") / 2
    side = np.zeros(trials, dtype=np.int64)
    open_ = np.arange(trials)
    while len(open_):
        side[open_] = box_side(half, dimension, len(open_), entropy=source)
        open_ = open_[side[open_] % 2 == 0]
    return uniform(side, dimension, entropy=source) - side[:, None] // 2


def box_side(
    rate: Fraction | int, dimension: int, trials: int, *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw N from 1 on with P(N = n) proportional to e^(-rate n) n^dimension, exactly.

    Parameters as in `box`. The result is int64, of shape (trials,).

    Raises
    ------
    ValueError
        If the dimension is not positive, or the sums below could come near 2^62: both depend on public
        parameters alone.

    Notes
    -----
    Let K be the dimension. In a Poisson process, "exactly K arrivals in [0, n) and at least one in
    [n, n + 1)" has probability (rate n)^K e^(-rate n) / K! (1 - e^(-rate)), which is the law wanted. Arrivals
    are drawn on a lattice of L cells a unit of time, L the least power of two with K rate / L at most 1/8.
    Distances between arrivals are geometric, and p and p' are the cells of arrivals K and K + 1. A draw is
    rejected if p and p' are in one unit of time. A weakly increasing sequence of K cells below n L, kept with
    probability 1 / product(s!) over the sizes s of its runs of equal cells, counts (n L)^K / K! in total. Its
    weight is (1 - e^(-rate/L))^K e^(-rate p/L), and that of p' in the unit n given p < n L is
    e^(-rate (n L - p)/L) (1 - e^(-rate)). The product does not depend on the sequence. So the law is exact
    on the lattice, whatever L is.
    """
    rate = positive_rational(rate, "rate")
    cells = check_box(rate, dimension)
    source = entropy or SystemEntropy()
    side = np.zeros(trials, dtype=np.int64)
    open_ = np.arange(trials)
    while len(open_):
        distances = geometric(rate / cells, (len(open_), dimension + 1), entropy=source)
        last = distances[:, :-1].sum(axis=1)
        side[open_] = (last + distances[:, -1]) // cells
        kept = (side[open_] != last // cells) & _ties_kept(distances[:, 1:-1] == 0, source)
        open_ = open_[~kept]
    return side


def check_box(rate: Fraction, dimension: int) -> int:
    """Return the lattice cells a unit of time for `box_side`, or raise its errors.

    At rates far above the dimension nearly every draw would be rejected.
    """
    if dimension < 1:
        raise ValueError("the dimension must be positive")
    cells = 1
    while dimension * rate * 8 > cells:
        cells *= 2
    if dimension * cells / rate > _LARGEST_SUM or cells / rate > _LARGEST_SCALE or rate > dimension + 8:
        raise ValueError("the noise's scale is too large for so many counts, or too small to be drawn")
    return cells


def check_cube(rate: Fraction, dimension: int) -> None:
    """Raise the errors of `cube`, which draws a side at half of the rate."""
    check_box(rate / 2, dimension)


def _ties_kept(equal: NDArray[np.bool_], source: Entropy) -> NDArray[np.bool_]:
    """Keep each row with probability 1 / product(s!) over its runs of s - 1 equal distances."""
    kept = np.ones(len(equal), dtype=bool)
    row, place = np.nonzero(equal)
    if len(row):
        begins = np.ones(len(row), dtype=bool)
        begins[1:] = (row[1:] != row[:-1]) | (place[1:] != place[:-1] + 1)
        index = np.arange(len(row))
        # The t-th equal distance of a run keeps the row with probability 1 / (t + 1).
        nth = index - np.maximum.accumulate(np.where(begins, index, 0)) + 1
        kept[row[uniform(nth + 1, 1, entropy=source)[:, 0] != 0]] = False
    return kept


@dataclass(frozen=True, eq=False, slots=True)
class GaussianTable(InverseCDF):
    """The law on {0, .., size} with weights e^(-unit h^2) for h < size, and one weight for all beyond.

    The last weight is that of a geometric envelope, e^(-unit size^2)/(1 - e^-rate) with rate = 2 unit size:
    (size + i)^2 is at least size^2 + 2 size i. All F_j are irrational, as non-constant rational functions of
    the transcendental e^-unit.
    """

    unit: Fraction
    size: int

    @property
    def rate(self) -> Fraction:
        """The rate of the geometric law that the sampler draws from and rejects by."""
        return 2 * self.unit * self.size

    def digits(self, j: int, bits: int) -> int:
        """Compute floor(2^bits F_j) for the distribution function F at value j, with certified bounds."""
        return _certified(self.unit, self.size, bits)[j - 1]


@lru_cache(maxsize=32)
def gaussian_table(unit: Fraction, size: int) -> GaussianTable:
    """Return the cached table of digits of a discrete Gaussian law."""
    return GaussianTable(*index_prefixes(list(_certified(unit, size, WORD))), unit, size)


@lru_cache(maxsize=8)
def _certified(unit: Fraction, size: int, bits: int) -> tuple[int, ...]:
    """Compute floor(2^bits F_j) for j = 1..size, with more digits until every truncation is certified."""
    # The last weight and the errors of the products before it together take some more bits.
    places = 2 * bits + (2 * size).bit_length() + 2 * int(unit * size * size)
    while True:
        sums, total = _sums(unit, size, places)
        low = tuple((least << bits) // total[1] for least, _ in sums)
        high = tuple(-(-(most << bits) // total[0]) - 1 for _, most in sums)
        if low == high:
            return low
        places *= 2


def _sums(unit: Fraction, size: int, places: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Bound 2^places times the sums of the first 1..size weights, and that of all weights, strictly."""
    one = 1 << places
    ratio, square = exp_bounds(unit, places), exp_bounds(2 * unit, places)
    weight, so_far, sums = (one, one), (0, 0), []
    for _ in range(size):
        # e^(-unit h^2), then times e^(-unit (2h + 1)), which is e^(-2 unit) times the one before.
        so_far = (so_far[0] + weight[0], so_far[1] + weight[1] + 1)
        sums.append(so_far)
        weight = _product(weight, ratio, places)
        ratio = _product(ratio, square, places)
    envelope = exp_bounds(2 * unit * size, places)
    tail = ((weight[0] << places) // (one - envelope[0]), -(-(weight[1] << places) // (one - envelope[1])))
    return sums, (so_far[0] + tail[0], so_far[1] + tail[1])


def _product(one: tuple[int, int], other: tuple[int, int], places: int) -> tuple[int, int]:
    return one[0] * other[0] >> places, (one[1] * other[1] >> places) + 1


LARGEST_VARIANCE = 1 << 61
"""In squared grid steps, so that twice the variance is a bound of uniform draws."""

_REACH = 8
_BLOCK = 1 << 15
_SIGN, _LOW = np.uint64(32), np.uint64(33)


def gaussian(
    variance: int, size: int | tuple[int, ...], *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw exact discrete Gaussian noise: P(x) proportional to e^(-x^2/(2 variance)) on whole numbers.

    No floating point is involved. The variance of the draws is `variance` up to a relative error of 3e-7.

    Parameters
    ----------
    variance
        Whole number from 1 to 2^61.
    size
        Number of draws, or a shape.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of the shape asked for.

    Raises
    ------
    ValueError
        If the variance is out of range, or the size negative.

    Notes
    -----
    |x| is 2^w h + l, with 2^w at most 1/64 of the standard deviation. h is drawn by inverse CDF with the
    weights e^(-(2^w h)^2/(2 variance)), l from 0 to below 2^w by its bits, and the pair is kept with
    probability e^-g, g = (2^(w+1) h l + l^2)/(2 variance). Beyond 8 standard deviations h is drawn from a
    geometric envelope. 0 with a negative sign is rejected. What is rejected starts again, sign and all. e^-g
    is decided by the alternating series of Canonne, Kamath and Steinke (2020), Algorithm 1.
    """
    shape = (size,) if isinstance(size, int) else tuple(size)
    if any(extent < 0 for extent in shape):
        raise ValueError("size must not be negative")
    out = np.empty(math.prod(shape), dtype=np.int64)
    sampler(check_variance(variance)).fill(out, entropy or SystemEntropy())
    return out.reshape(shape)


def check_variance(variance: int) -> int:
    """Return the variance of a Gaussian, in squared grid steps; `ValueError` if it is out of range."""
    if isinstance(variance, bool) or not isinstance(variance, int):
        raise ValueError("variance must be an int")  # noqa: TRY004  one error type for callers
    if not 1 <= variance <= LARGEST_VARIANCE:
        raise ValueError("the noise's variance must be from 1 to 2^61 squared grid steps")
    return variance


@dataclass(frozen=True, eq=False, slots=True)
class Sampler:
    """The facts of discrete Gaussian noise of one variance."""

    table: GaussianTable
    """The law of h."""
    width: int
    """w, the bits of l."""
    double: int
    """Twice the variance."""
    bits: int
    """Bits of the uniform number that are compared with `doubtful` first."""
    doubtful: NDArray[np.int64]
    """For each h, a bound of 2^bits g: a number that is not below it keeps the pair."""

    def fill(self, out: NDArray[np.int64], entropy: Entropy) -> None:
        """Overwrite the 1-D array `out` with draws, in blocks that stay in the cache."""
        for start in range(0, len(out), _BLOCK):
            part = out[start : start + _BLOCK]
            part[:], kept = self._try(len(part), entropy)
            open_ = np.flatnonzero(~kept)
            while len(open_):
                drawn, kept = self._try(len(open_), entropy)
                part[open_[kept]] = drawn[kept]
                open_ = open_[~kept]

    def _try(self, n: int, entropy: Entropy) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return proposals, and which are accepted; each takes one word: 16 bits, 16 bits, a sign and l."""
        words = entropy.words(n)
        cells = words.astype(np.uint16)
        high = self.table.guide.take(cells).astype(np.int64)
        open_ = np.flatnonzero(high < 0)
        high[open_] = self.table.compare(complete_words(cells[open_], entropy), entropy)
        low = (words >> _LOW).astype(np.int64) & ((1 << self.width) - 1)
        first = (words >> np.uint64(GUIDE_BITS)).astype(np.uint16) >> np.uint16(GUIDE_BITS - self.bits)
        sizes = (high << self.width) + low
        kept = np.ones(n, dtype=np.bool_)
        doubt = np.flatnonzero(first < self.doubtful.take(high))
        far = high[doubt] == self.table.size
        for i in doubt[far].tolist():
            found = self._tail(int(low[i]), entropy)
            kept[i], sizes[i] = found is not None, found or 0
        doubt = doubt[~far]
        if len(doubt):
            kept[doubt] = self._kept(high[doubt], low[doubt], first[doubt].astype(np.int64), entropy)
        negative = (words >> _SIGN).astype(np.int64) & 1
        kept &= (sizes | (1 - negative)) != 0
        return (sizes ^ -negative) + negative, kept

    def _kept(
        self, high: NDArray[np.int64], low: NDArray[np.int64], first: NDArray[np.int64], entropy: Entropy
    ) -> NDArray[np.bool_]:
        """Keep each pair with probability e^-g, given the first bits of a uniform number."""
        grams = ((high << (self.width + 1)) + low) * low
        # U = (first + V)/2^bits < g, V uniform on [0, 1): decided by a whole number below `double`.
        alive = self._below((grams << self.bits) - self.double * first, entropy)
        kept, open_, n = ~alive, np.flatnonzero(alive), 2
        while len(open_):
            again = self._below(grams[open_], entropy)
            again &= uniform(np.full(len(open_), n), 1, entropy=entropy)[:, 0] == 0
            kept[open_[~again]] = n % 2 == 1
            open_, n = open_[again], n + 1
        return kept

    def _below(self, parts: NDArray[np.int64], entropy: Entropy) -> NDArray[np.bool_]:
        """Return events of probability parts/double, cut off to [0, 1]."""
        return uniform(np.full(len(parts), self.double), 1, entropy=entropy)[:, 0] < parts

    def _tail(self, low: int, entropy: Entropy) -> int | None:
        """Return a try beyond the table, in whole numbers of any length; None if it is rejected."""
        beyond = int(geometric(self.table.rate, 1, entropy=entropy)[0])
        if not _decay(self.table.unit * beyond * beyond, entropy):
            return None
        high = self.table.size + beyond
        if not _decay(Fraction(((high << (self.width + 1)) + low) * low, self.double), entropy):
            return None
        return min((high << self.width) + low, LARGEST)


@lru_cache(maxsize=32)
def sampler(variance: int, size: int | None = None, width: int | None = None) -> Sampler:
    """Return the cached sampler of a variance.

    Its table has 8 standard deviations and the largest width with 2^w at most 1/64 of one, or what is given:
    the law is the same as long as g is below 1 in the table.
    """
    double = 2 * variance
    if width is None:
        width = max(0, (math.isqrt(variance) // 64).bit_length() - 1)
    entries = size or (math.isqrt(_REACH * _REACH * variance) >> width) + 1
    bits = max(0, min(GUIDE_BITS, 62 - double.bit_length()))
    most = (1 << width) - 1
    doubtful = [
        min(-(-((((h << (width + 1)) + most) * most) << bits) // double), 1 << bits) for h in range(entries)
    ]
    table = gaussian_table(Fraction(1 << (2 * width), double), entries)
    return Sampler(table, width, double, bits, np.array([*doubtful, 1 << bits], dtype=np.int64))


def _decay(x: Fraction, entropy: Entropy) -> bool:
    """Return an event of probability e^-x, in whole numbers of any length."""
    whole, part = divmod(x, 1)
    for _ in range(whole):
        if not _small_decay(Fraction(1), entropy):
            return False
    return _small_decay(part, entropy)


def _small_decay(x: Fraction, entropy: Entropy) -> bool:
    n = 1
    while _uniform(x.denominator * n, entropy) < x.numerator:
        n += 1
    return n % 2 == 1


def _uniform(bound: int, entropy: Entropy) -> int:
    """Draw a uniform whole number from 0 to below a bound of any length."""
    bits = (bound - 1).bit_length()
    while True:
        drawn = 0
        for word in entropy.words(-(-bits // 64)).tolist():
            drawn = (drawn << 64) | word
        drawn &= (1 << bits) - 1
        if drawn < bound:
            return drawn
