"""Inverse-CDF tables of geometric laws; a draw uses as many random bits as it needs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.exact_bounds import exp_bounds
from dpsql.kernel.noise.entropy import Entropy
from dpsql.kernel.noise.inverse import AMBIGUOUS, WORD, InverseCDF, completed, guided


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
        """Compute floor(2^bits F_j) with certified bounds."""
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
            drawn[open_] = self.decide(completed(cells[open_], entropy), entropy)
        return drawn


@lru_cache(maxsize=64)
def table(rate: Fraction, size: int | None) -> Table:
    """Return the cached table of a rate; `size` None means the infinite law."""
    entries = size - 1 if size is not None else max(1, -(-14 * rate.denominator // rate.numerator))
    # e^-14 < 2^-16: the last cell contains the last entry, so it is ambiguous and the tail is drawn exactly.
    return Table(*guided(_prefixes(rate, size, entries)), rate, size)


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
        prefix = _truncated(low_j, high_j, (least, most) if size is not None else None, places, WORD)
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
