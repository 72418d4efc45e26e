"""Draw exact discrete Gaussian noise in arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.noise.entropy import Entropy, SystemEntropy, uniform
from dpsql.kernel.noise.gaussian_table import GaussianTable, gaussian_table
from dpsql.kernel.noise.geometric import LARGEST, geometric
from dpsql.kernel.noise.inverse import GUIDE_BITS, completed

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
    """The facts of discrete Gaussian noise of one variance.

    Attributes
    ----------
    table
        The law of h.
    width
        w, the bits of l.
    double
        Twice the variance.
    bits
        Bits of the uniform number that are compared with `doubtful` first.
    doubtful
        For each h, a bound of 2^bits g: a number that is not below it keeps the pair.
    """

    table: GaussianTable
    width: int
    double: int
    bits: int
    doubtful: NDArray[np.int64]

    def fill(self, out: NDArray[np.int64], entropy: Entropy) -> None:
        """Overwrite the 1-D array `out` with draws, in blocks that stay in the cache."""
        for start in range(0, len(out), _BLOCK):
            part = out[start : start + _BLOCK]
            part[:], kept = self._tried(len(part), entropy)
            open_ = np.flatnonzero(~kept)
            while len(open_):
                drawn, kept = self._tried(len(open_), entropy)
                part[open_[kept]] = drawn[kept]
                open_ = open_[~kept]

    def _tried(self, n: int, entropy: Entropy) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return tries, and which of them are kept; each takes one word: 16 bits, 16 bits, a sign and l."""
        words = entropy.words(n)
        cells = words.astype(np.uint16)
        high = self.table.guide.take(cells).astype(np.int64)
        open_ = np.flatnonzero(high < 0)
        high[open_] = self.table.compare(completed(cells[open_], entropy), entropy)
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
