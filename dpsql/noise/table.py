"""Inverse-CDF tables of geometric laws; a draw uses as many random bits as it needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.certified import exp_bounds
from dpsql.noise.entropy import Entropy

GUIDE_BITS = 16
"""Random bits a draw starts with."""

AMBIGUOUS = -1
"""Guide entry of a cell that contains a CDF value, so that 16 bits do not determine the draw."""

_WORD = 64


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """The law P(Y >= j) = e^(-rate j), on all of {0, 1, ...} or restricted to {0, ..., size - 1}.

    A draw is Y = #{j : F_j <= U} for U uniform on [0, 1), known by its first bits only, and
    F_j = P(Y < j). U is decided against F_j as soon as their known prefixes differ; while they are
    equal both are extended. No F_j but 0 and 1 is rational (a non-constant rational function of the
    transcendental e^-rate), so its digits can always be certified and the extension ends with
    probability 1. The law is exact: truncation never stands in for comparison.

    Attributes
    ----------
    prefixes
        uint64, floor(2^64 F_j) for j = 1.., certified. For the restricted law j < size (F_size = 1
        is left out: U < 1 always). For the infinite law as many as cover all but e^-14; beyond the
        last one Y is drawn by memorylessness: that many, plus a fresh draw.
    guide
        int32, one entry for each value of the first 16 bits: Y, or `AMBIGUOUS`.
    """

    rate: Fraction
    size: int | None
    prefixes: NDArray[np.uint64]
    guide: NDArray[np.int32]

    def decide(self, words: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.int64]:
        """Return one draw for each word, taken as the first 64 bits of its U."""
        drawn, last = self._compare(words, entropy), len(self.prefixes)
        if self.size is None:
            tail = np.flatnonzero(drawn == last)
            while len(tail):
                more = self._compare(entropy.words(len(tail)), entropy)
                drawn[tail] += more
                tail = tail[more == last]
        return drawn

    def decide_cells(self, cells: NDArray[np.uint16], entropy: Entropy) -> NDArray[np.int64]:
        """Return one draw for each 16-bit prefix; one that determines no draw gets further random bits."""
        drawn = self.guide[cells].astype(np.int64)
        open_ = np.flatnonzero(drawn == AMBIGUOUS)
        if len(open_):
            fresh = entropy.words(len(open_)) >> np.uint64(GUIDE_BITS)
            high = cells[open_].astype(np.uint64) << np.uint64(_WORD - GUIDE_BITS)
            drawn[open_] = self.decide(high | fresh, entropy)
        return drawn

    def _compare(self, words: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.int64]:
        """Count the entries below each U; a count of all entries means that U is beyond the last."""
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
        bits = _WORD
        while below < above:
            bits += _WORD
            word = (word << _WORD) | int(entropy.words(1)[0])
            digits = [_digits(self.rate, self.size, j + 1, bits) for j in range(below, above)]
            below, above = below + sum(d < word for d in digits), above - sum(d > word for d in digits)
        return below


@lru_cache(maxsize=64)
def table(rate: Fraction, size: int | None) -> Table:
    """Return the cached table of a rate; `size` None means the infinite law."""
    entries = size - 1 if size is not None else max(1, -(-14 * rate.denominator // rate.numerator))
    prefixes = np.array(_prefixes(rate, size, entries), dtype=np.uint64)
    held = np.bincount((prefixes >> np.uint64(_WORD - GUIDE_BITS)).astype(np.intp), minlength=1 << GUIDE_BITS)
    guide = (np.cumsum(held) - held).astype(np.int32)
    guide[held > 0] = AMBIGUOUS
    # e^-14 < 2^-16: the last cell contains the last entry, so it is ambiguous and the tail is drawn exactly.
    prefixes.setflags(write=False)
    guide.setflags(write=False)
    return Table(rate, size, prefixes, guide)


def _prefixes(rate: Fraction, size: int | None, entries: int) -> list[int]:
    """Compute floor(2^64 F_j) for j = 1..entries, with more digits until every truncation is certified."""
    places = 2 * _WORD + 32 + (rate.denominator // rate.numerator).bit_length()
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
        prefix = _truncated(low_j, high_j, (least, most) if size is not None else None, places, _WORD)
        if prefix is None:
            return None
        found.append(prefix)
    return found


def _truncated(low: int, high: int, mass: tuple[int, int] | None, places: int, bits: int) -> int | None:
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
        found = _truncated(low, high, mass, places, bits)
        if found is not None:
            return found
        places *= 2
