"""Random bits, and what is drawn of them: whole numbers, ranks, a law by its distribution function; the grid.

Bits come from the operating system; of a threshold that outlives processes, from a key; or from a fast
generator for audits. A draw uses as many as it needs.
Ranks break ties. The common grid of counts and noise is the multiples of 2^-resolution (`resolution`, `rate`,
`place`). The parameters of samplers are checked to be exact.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.lazy_dataclass import dataclass


class Entropy(Protocol):
    """A source of independent, uniformly distributed random bits."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` fresh words of 64 independent fair bits."""
        ...


class SystemEntropy:
    """The operating system's cryptographic generator, the source of all noise in released results.

    Nothing is buffered between calls: a forked process would use buffered bits a second time, and reading
    costs the same per byte from 4 kB up.
    """

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` fresh words of 64 bits."""
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)


class SimulationEntropy:
    """A fast statistical generator for audits only; no released result uses it.

    SFC64, seeded with 128 bits from the operating system; a word takes a tenth of the time. It passes the
    known statistical tests, but its output can be predicted from earlier output.
    """

    def __init__(self) -> None:
        self._generator = np.random.SFC64()

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return `n` fresh words of 64 bits; threads may share it, forked processes may not."""
        found: NDArray[np.uint64] = self._generator.random_raw(n)
        return found


class KeyedEntropy:
    """SHAKE-256 of a secret: the same bits for the same secret, in every process.

    To whoever does not know the secret, they are as good as the operating system's. No result draws two
    noises of one secret.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret, self._calls = secret, 0

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next `n` words of 64 bits of the stream that the key determines."""
        block = self._calls.to_bytes(8, "big") + self._secret
        self._calls += 1
        return np.frombuffer(hashlib.shake_256(block).digest(8 * n), dtype="<u8").astype(np.uint64)


def uniform(bound: NDArray[np.int64], size: int, *, entropy: Entropy | None = None) -> NDArray[np.int64]:
    """Draw `size` independent uniform whole numbers from 0 to below each bound, exactly.

    Random bits are masked to the length of the bound less one, and draws at or above the bound repeated.

    Parameters
    ----------
    bound
        Whole numbers from 1 to 2^62, shape (trials,).
    size
        Draws for each bound.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of shape (trials, size).
    """
    source = entropy or SystemEntropy()
    mask = bound - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    narrow = bool(len(mask)) and int(mask.max()) < 1 << 32
    total = len(bound) * size
    drawn = _bits(total, source, narrow=narrow).reshape(len(bound), size)
    drawn &= mask[:, None]
    row, place = np.nonzero(drawn >= bound[:, None])
    while len(row):
        again = _bits(len(row), source, narrow=narrow) & mask[row]
        drawn[row, place] = again
        over = again >= bound[row]
        row, place = row[over], place[over]
    return drawn


def _bits(n: int, source: Entropy, *, narrow: bool) -> NDArray[np.int64]:
    """Return `n` whole numbers of 32 random bits, or of 63."""
    if narrow:
        return source.words(-(-n // 2)).view(np.uint32)[:n].astype(np.int64)
    return (source.words(n) >> np.uint64(1)).astype(np.int64)


def positive_rational(value: Fraction | int, name: str) -> Fraction:
    """Check a positive rational parameter of a sampler; raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise ValueError(f"{name} must be an int or a Fraction")  # noqa: TRY004  one error type for callers
    if value.numerator <= 0:
        raise ValueError(f"{name} must be positive")
    return value if type(value) is Fraction else Fraction(value)


GUIDE_BITS = 16
"""Random bits a draw starts with."""

AMBIGUOUS = -1
"""Guide entry of a cell that contains a CDF value, so that 16 bits do not determine the draw."""

WORD = 64
"""Random bits that are drawn at a time."""


@dataclass(frozen=True, eq=False, slots=True)
class InverseCDF(ABC):
    """A law on {0, 1, ..} by certified digits of its distribution function F_j = P(Y < j).

    A draw is Y = #{j : F_j <= U} for U uniform on [0, 1), known by its first bits only. U is decided against
    F_j as soon as their known prefixes differ; while they are equal both are extended. F_j must be
    irrational, so that its digits can always be certified and the extension ends with probability 1. The law
    is exact: truncation never stands in for comparison.
    """

    prefixes: NDArray[np.uint64]
    """uint64, floor(2^64 F_j) for j = 1.., certified."""
    guide: NDArray[np.int32]
    """int32, one entry for each value of the first 16 bits: Y, or `AMBIGUOUS`."""

    @abstractmethod
    def digits(self, j: int, bits: int) -> int:
        """Compute floor(2^bits F_j) for the distribution function F at value j, with certified bounds."""

    def compare(self, words: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.int64]:
        """Count the entries below each U, whose first 64 bits are given.

        A count of all entries means that U is beyond the last.
        """
        last = len(self.prefixes)
        if last == 0:
            return np.zeros(len(words), dtype=np.int64)
        below = np.searchsorted(self.prefixes, words).astype(np.int64, copy=False)
        for i in np.flatnonzero(self.prefixes[np.minimum(below, last - 1)] == words):
            below[i] = self._extend(int(words[i]), entropy)
        return below

    def _extend(self, word: int, entropy: Entropy) -> int:
        """Decide a word that equals a prefix, against all entries that share it."""
        key = np.uint64(word)
        below = int(np.searchsorted(self.prefixes, key, side="left"))
        above = int(np.searchsorted(self.prefixes, key, side="right"))
        bits = WORD
        while below < above:
            bits += WORD
            word = (word << WORD) | int(entropy.words(1)[0])
            digits = [self.digits(j + 1, bits) for j in range(below, above)]
            below, above = below + sum(d < word for d in digits), above - sum(d > word for d in digits)
        return below


def complete_words(cells: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.uint64]:
    """Return words of 64 random bits that begin with given ones."""
    fresh = entropy.words(len(cells)) >> np.uint64(GUIDE_BITS)
    return (cells.astype(np.uint64) << np.uint64(WORD - GUIDE_BITS)) | fresh


def index_prefixes(found: list[int]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return ascending prefixes as an array that cannot be written to, and their guide."""
    prefixes = np.array(found, dtype=np.uint64)
    cells = (prefixes >> np.uint64(WORD - GUIDE_BITS)).astype(np.intp)
    widths = np.diff(cells, prepend=-1, append=(1 << GUIDE_BITS) - 1)  # how many have as many prefixes before
    guide = np.repeat(np.arange(len(found) + 1, dtype=np.int32), widths)
    guide[cells] = AMBIGUOUS
    prefixes.setflags(write=False)
    guide.setflags(write=False)
    return prefixes, guide


def ranks(n: int, *, trials: int | None = None, entropy: Entropy | None = None) -> NDArray[np.int64]:
    """Draw a uniformly random permutation of 0..n-1, exactly; the larger rank wins a tie.

    Every position gets a stream of random bits, extended until all are distinct, and the positions are sorted
    by them. By symmetry every order is equally likely.

    Parameters
    ----------
    n
        Number of items.
    trials
        If given, so many independent permutations, as rows.
    entropy
        For tests; the operating system's generator otherwise.

    Returns
    -------
    numpy.ndarray
        int64, of shape (n,) or (trials, n).
    """
    source = entropy or SystemEntropy()
    rows = 1 if trials is None else trials
    columns: list[NDArray[np.uint64]] = []
    tied = True
    while tied:
        columns.append(source.words(rows * n).reshape(rows, n))
        order = np.lexsort(columns[::-1], axis=-1) if len(columns) > 1 else np.argsort(columns[0], axis=-1)
        ordered = [np.take_along_axis(column, order, axis=-1) for column in columns]
        tied = bool(np.logical_and.reduce([column[:, 1:] == column[:, :-1] for column in ordered]).any())
    return order[0] if trials is None else order


FINEST = 20
"""The finest grid is 2^-20 of a count."""

STEP_LIMIT = 1 << 60
"""Counts are clamped to this many grid steps, which preserves their sensitivity and their monotonicity.

Noise saturates at 2^61 steps, so two noisy counts differ by at most 6 * 2^60 steps: int64 does not overflow.
"""

_SCALE_LIMIT = 1 << 50


def resolution(smallest: Fraction) -> int:
    """Choose the grid of a mechanism: the coarsest that is at most 1/1024 of its smallest noise scale.

    Parameters
    ----------
    smallest
        The smallest scale among the mechanism's noises, in counts. All of them share one grid.

    Returns
    -------
    int
        b, for a grid of step 2^-b counts, 0 <= b <= 20.
    """
    fraction = positive_rational(smallest, "scale")
    number, least = fraction.numerator, 1024 * fraction.denominator
    wanted = 0
    while wanted < FINEST and number << wanted < least:
        wanted += 1
    return wanted


def rate(scale: Fraction, bits: int) -> Fraction:
    """Return the geometric rate, per grid step of 2^-bits, of noise with this scale in counts.

    Raises `ValueError` if the grid is outside 0..20 or the scale over 2^50 steps: both depend on
    public parameters alone.
    """
    if not 0 <= bits <= FINEST:
        raise ValueError("resolution must be between 0 and 20")
    steps = positive_rational(scale, "scale") * (1 << bits)
    if steps > _SCALE_LIMIT:
        raise ValueError("the noise's scale is over 2^50 grid steps")
    return 1 / steps


def place(counts: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the counts in grid steps, as a new array, clamped to plus and minus 2^60 steps."""
    limit = STEP_LIMIT >> bits
    placed = np.clip(counts, -limit, limit)
    placed <<= bits
    return placed
