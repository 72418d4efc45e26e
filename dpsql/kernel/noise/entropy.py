"""Sources of random bits: the operating system, and a fast generator for audits."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Entropy(Protocol):
    """A source of independent, uniformly random bits."""

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
