"""Draw exact geometric and discrete Laplace noise in arrays, by inverse-CDF tables of geometric laws.

A draw uses as many random bits as it needs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.exact_bounds import exp_bounds
from dpsql.kernel.noise.entropy import (
    AMBIGUOUS,
    WORD,
    Entropy,
    InverseCDF,
    SystemEntropy,
    complete_words,
    index_prefixes,
    positive_rational,
)
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Table(InverseCDF):
    """The law P(Y >= j) = e^(-rate j), on all of {0, 1, ...} or restricted to {0, ..., size - 1}.

    No F_j but 0 and 1 is rational: it is a non-constant rational function of the transcendental e^-rate. For
    the restricted law `prefixes` has j < size (F_size = 1 is left out: U < 1 always). For the infinite law it
    has as many as cover all but e^-14; beyond the last one Y is drawn by memorylessness: that many, plus a
    fresh draw.
    """

    rate: Fraction
    size: int | None

    def digits(self, j: int, bits: int) -> int:
        """Compute floor(2^bits F_j) for the distribution function F at value j, with certified bounds."""
        return _digits(self.rate, self.size, j, bits)

    def decide(self, words: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.int64]:
        """Return one draw for each word, taken as the first 64 bits of its U."""
        drawn, last = self.compare(words, entropy), len(self.prefixes)
        if self.size is None:
            tail = np.flatnonzero(drawn == last)
            while len(tail):
                more = self.compare(entropy.words(len(tail)), entropy)
                drawn[tail] += more
                tail = tail[more == last]
        return drawn

    def decide_cells(self, cells: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.int64]:
        """Return one draw for each 16-bit prefix; one that determines no draw gets further random bits."""
        drawn = self.guide[cells].astype(np.int64)
        open_ = np.flatnonzero(drawn == AMBIGUOUS)
        if len(open_):
            drawn[open_] = self.decide(complete_words(cells[open_], entropy), entropy)
        return drawn


@lru_cache(maxsize=64)
def table(rate: Fraction, size: int | None) -> Table:
    """Return the cached table of a rate; `size` None means the infinite law."""
    entries = size - 1 if size is not None else max(1, -(-14 * rate.denominator // rate.numerator))
    # e^-14 < 2^-16: the last cell contains the last entry, so it is ambiguous and the tail is drawn exactly.
    return Table(*index_prefixes(_prefixes(rate, size, entries)), rate, size)


def _prefixes(rate: Fraction, size: int | None, entries: int) -> list[int]:
    """Compute floor(2^64 F_j) for j = 1..entries, with more digits until every truncation is certified."""
    places = 2 * WORD + 32 + (rate.denominator // rate.numerator).bit_length()
    while True:
        found = _attempt(rate, size, entries, places)
        if found is not None:
            return found
        places *= 2


def _attempt(rate: Fraction, size: int | None, entries: int, places: int) -> list[int] | None:
    one = 1 << places
    low, high = exp_bounds(rate, places)
    least, most = exp_bounds(rate * size, places) if size is not None else (0, 0)
    low_j, high_j = one, one
    found = []
    for _ in range(entries):
        # low_j < 2^places e^(-rate j) < high_j, rounded outwards.
        low_j, high_j = low_j * low >> places, (high_j * high >> places) + 1
        prefix = _truncate(low_j, high_j, (least, most) if size is not None else None, places, WORD)
        if prefix is None:
            return None
        found.append(prefix)
    return found


def _truncate(low: int, high: int, mass: tuple[int, int] | None, places: int, bits: int) -> int | None:
    """Truncate F = (1 - x)/(1 - y) to `bits` bits; None if the bounds do not suffice.

    Parameters
    ----------
    low, high
        Strict bounds of 2^places x.
    mass
        Strict bounds of 2^places y; None for y = 0.
    places, bits
        Binary places of the bounds and of the answer.
    """
    one = 1 << places
    under, over = one - high, one - low
    if mass is not None:
        narrow = one - mass[1]
        if narrow <= 0:
            return None
        under, over = (under << places) // (one - mass[0]), -((-over << places) // narrow)
    under, over = max(under, 0), min(over, one)
    cut = places - bits
    return under >> cut if under >> cut == (over - 1) >> cut else None


@lru_cache(maxsize=1024)
def _digits(rate: Fraction, size: int | None, j: int, bits: int) -> int:
    """Compute floor(2^bits F_j) for one entry with certified bounds."""
    places = 2 * bits + (rate.denominator // rate.numerator).bit_length()
    while True:
        low, high = exp_bounds(rate * j, places)
        mass = exp_bounds(rate * size, places) if size is not None else None
        found = _truncate(low, high, mass, places, bits)
        if found is not None:
            return found
        places *= 2


LARGEST = 1 << 61
"""Draws saturate here, at 2^11 times the largest scale, so with probability at most e^-2048."""

_SCALE_LIMIT = 1 << 50
_BLOCK = 1 << 15
_DIGIT = 10


@dataclass(frozen=True, eq=False, slots=True)
class _Sampler:
    """A geometric variable as a sum of independent digits.

    Y geometric has independent binary digits, for P(Y = y) is a product over them. Cut into runs of
    bits, the lowest run of w bits is geometric restricted to [0, 2^w), the next one likewise at 2^w
    times the rate, and what is left on top is geometric at its own rate. Each digit has its table.
    """

    parts: tuple[tuple[Table, int], ...]
    """(table, shift) of each digit; the infinite one first."""
    guides: tuple[NDArray[np.int32] | NDArray[np.int64], ...]
    """The tables' guides, already shifted, a large negative number where ambiguous: the sum of a draw's
    entries is negative exactly if one of its digits is undecided."""

    def fill(self, out: NDArray[np.int64], entropy: Entropy) -> None:
        """Overwrite the 1-D array `out` with draws, in blocks that stay in the cache."""
        for start in range(0, len(out), _BLOCK):
            self._block(out[start : start + _BLOCK], entropy)

    def _block(self, out: NDArray[np.int64], entropy: Entropy) -> None:
        n, digits = len(out), len(self.parts)
        cells = _cells(n * digits, entropy).reshape(digits, n)
        total = self.guides[0].take(cells[0])
        for guide, row in zip(self.guides[1:], cells[1:], strict=True):
            total += guide.take(row)
        out[:] = total
        undecided = np.flatnonzero(total < 0)
        if len(undecided):
            out[undecided] = self._exact(cells[:, undecided], entropy)

    def reach(self, need: NDArray[np.int64], entropy: Entropy) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw noise for every entry of `need`; return where it reaches `need`, and the noise there."""
        found = [
            self._block_reach(start, need[start : start + _BLOCK], entropy)
            for start in range(0, len(need), _BLOCK)
        ]
        if not found:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return np.concatenate([where for where, _ in found]), np.concatenate([drawn for _, drawn in found])

    def _block_reach(
        self, start: int, need: NDArray[np.int64], entropy: Entropy
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw the top digit of all, and the others only where it leaves the comparison open."""
        (top, shift), rest = self.parts[0], self.parts[1:]
        cells = _cells(len(need), entropy)
        high = self.guides[0].take(cells).astype(np.int64, copy=False)
        undecided = np.flatnonzero(high < 0)
        high[undecided] = np.minimum(top.decide_cells(cells[undecided], entropy), LARGEST >> shift) << shift
        where = np.flatnonzero(high > need - (1 << shift))
        drawn = high[where]
        for digit, low_shift in rest:
            drawn += digit.decide_cells(_cells(len(where), entropy), entropy) << low_shift
        np.minimum(drawn, LARGEST, out=drawn)
        kept = drawn >= need[where]
        return start + where[kept], drawn[kept]

    def _exact(self, cells: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.int64]:
        total = np.zeros(cells.shape[1], dtype=np.int64)
        for (digit, shift), row in zip(self.parts, cells, strict=True):
            drawn = digit.decide_cells(row, entropy)
            total += np.minimum(drawn, LARGEST >> shift) << shift
        return np.minimum(total, LARGEST)


def _cells(n: int, entropy: Entropy) -> NDArray[np.uint16]:
    return entropy.words(-(-n // 4)).view(np.uint16)[:n]


@lru_cache(maxsize=32)
def _sampler(rate: Fraction) -> _Sampler:
    # If digits are split off, the infinite digit has a rate in (1/32, 1/16]: a few hundred table entries.
    low_bits = max(0, (rate.denominator // (32 * rate.numerator)).bit_length())
    if low_bits and rate * (1 << (low_bits - 1)) * 32 > 1:
        low_bits -= 1
    parts = [(table(rate * (1 << low_bits), None), low_bits)]
    count = -(-low_bits // _DIGIT)
    for i in range(count):
        begin, end = low_bits * i // count, low_bits * (i + 1) // count
        parts.append((table(rate * (1 << begin), 1 << (end - begin)), begin))
    small = len(parts[0][0].prefixes) << low_bits < 1 << 28
    return _Sampler(tuple(parts), tuple(_shift(digit, shift, small=small) for digit, shift in parts))


def _shift(digit: Table, shift: int, *, small: bool) -> NDArray[np.int32] | NDArray[np.int64]:
    # At most 6 digits: even if all are undecided, their sum does not overflow.
    wide = digit.guide.copy() if small else digit.guide.astype(np.int64)
    wide <<= shift
    wide[digit.guide == AMBIGUOUS] = -(1 << (28 if small else 60))
    return wide


def _sampler_of_rate(rate: Fraction | int) -> _Sampler:
    rate = positive_rational(rate, "rate")
    if rate * _SCALE_LIMIT < 1:
        raise ValueError("the noise's scale is over 2^50 grid steps")
    return _sampler(rate)


def _shape(size: int | tuple[int, ...]) -> tuple[int, ...]:
    shape = (size,) if isinstance(size, int) else tuple(size)
    if any(extent < 0 for extent in shape):
        raise ValueError("size must not be negative")
    return shape


def geometric(
    rate: Fraction | int, size: int | tuple[int, ...], *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw exact geometric noise on {0, 1, 2, ...}: exponential noise on an integer grid.

    No floating point is involved; the law is exact, P(Y >= m) = e^(-rate m).

    Parameters
    ----------
    rate
        Positive rational: grid step over scale. At least 2^-50.
    size
        Number of draws, or a shape.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of the shape asked for; saturates at 2^61.

    Raises
    ------
    ValueError
        If the rate is not positive or below 2^-50, or the size negative.

    Notes
    -----
    Replaces Algorithm 27 of the dissertation (chapter 6), which needs a 64-bit word for a draw: the digits
    are drawn separately, each by inverse CDF from 16 random bits, with more bits only where they decide.
    """
    shape = _shape(size)
    out = np.empty(math.prod(shape), dtype=np.int64)
    _sampler_of_rate(rate).fill(out, entropy or SystemEntropy())
    return out.reshape(shape)


def laplace(
    rate: Fraction | int, size: int | tuple[int, ...], *, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw exact discrete Laplace noise: P(Z = z) proportional to e^(-rate |z|).

    The difference of two independent geometric draws. Parameters and errors as in `geometric`.
    """
    source = entropy or SystemEntropy()
    out = geometric(rate, size, entropy=source)
    out -= geometric(rate, size, entropy=source)
    return out


def geometric_reaching(
    rate: Fraction | int, need: NDArray[np.int64], *, entropy: Entropy | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw geometric noise for each entry of `need`; return where it is at least `need`, and its values.

    The law is that of `draws = geometric(rate, len(need))` with `where = flatnonzero(draws >= need)`
    and `draws[where]`. Digits that cannot decide the comparison are not drawn, which saves half of the
    random bits if few entries are near. Parameters and errors as in `geometric`.

    Returns
    -------
    where, drawn
        int64, positions in ascending order and the draws there.
    """
    return _sampler_of_rate(rate).reach(need, entropy or SystemEntropy())


def laplace_reaching(
    rate: Fraction | int, need: NDArray[np.int64], *, entropy: Entropy | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw discrete Laplace noise for each entry of `need`; otherwise as `geometric_reaching`.

    The subtracted geometric draw is never negative, so it is drawn only where the first one is at least
    `need`.
    """
    source = entropy or SystemEntropy()
    where, drawn = geometric_reaching(rate, need, entropy=source)
    drawn -= geometric(rate, len(where), entropy=source)
    kept = drawn >= need[where]
    return where[kept], drawn[kept]
