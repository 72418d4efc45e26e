"""Draw from a discrete law by its distribution function, with as many random bits as a draw needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.noise.entropy import Entropy

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

    Attributes
    ----------
    prefixes
        uint64, floor(2^64 F_j) for j = 1.., certified.
    guide
        int32, one entry for each value of the first 16 bits: Y, or `AMBIGUOUS`.
    """

    prefixes: NDArray[np.uint64]
    guide: NDArray[np.int32]

    @abstractmethod
    def digits(self, j: int, bits: int) -> int:
        """Compute floor(2^bits F_j) with certified bounds."""

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


def completed(cells: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.uint64]:
    """Return words of 64 random bits that begin with given ones."""
    fresh = entropy.words(len(cells)) >> np.uint64(GUIDE_BITS)
    return (cells.astype(np.uint64) << np.uint64(WORD - GUIDE_BITS)) | fresh


def guided(found: list[int]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return prefixes as an array that cannot be written to, and their guide."""
    prefixes = np.array(found, dtype=np.uint64)
    held = np.bincount((prefixes >> np.uint64(WORD - GUIDE_BITS)).astype(np.intp), minlength=1 << GUIDE_BITS)
    guide = (np.cumsum(held) - held).astype(np.int32)
    guide[held > 0] = AMBIGUOUS
    prefixes.setflags(write=False)
    guide.setflags(write=False)
    return prefixes, guide
