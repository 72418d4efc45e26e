"""Exact noise: the only package that draws randomness. Here noise is drawn only where it reaches a level.

Of `trials` independent variables, those whose noise is at least `low` are successes of probability p, each by
itself. The failures before the next success are geometric with failure probability f = 1 - p, so that drawing
these gaps finds all successes in time proportional to their number. A gap G has independent binary digits,
since P(G = g) is a product over them: digit i is 0 with probability 1 / (1 + f^(2^i)), and G is below 2^h
with probability 1 - f^(2^h). Random bits are compared with certified bounds of that probability, and extended
until they decide. None is rational, so that this ends: p is a rational function of the transcendental
e^-rate, and not constant. The law is exact, and no float takes part.

`geometric` is exponential noise on a grid, `laplace` its two-sided version. `geometric_reaching` and
`laplace_reaching` draw only as many bits as a comparison needs. `reaching` finds those of many draws that are
at least a level, and `below` draws others. `ranks` breaks ties.
`box` and `cube` draw one noise for several counts, `gaussian` that of concentrated privacy.
`resolution`, `rate` and `place` put a mechanism's counts and noise on one grid. Bits come from an `Entropy`:
the operating system's, except in audits and tests. No result depends on floating-point arithmetic:
``geometric_noise`` compares integers. ``shared_noise`` has the laws that counts share, ``entropy`` the bits.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.exact_bounds import exp_bounds, scaled_exp_bounds
from dpsql.kernel.noise.entropy import (
    FINEST,
    STEP_LIMIT,
    WORD,
    Entropy,
    KeyedEntropy,
    SimulationEntropy,
    SystemEntropy,
    place,
    ranks,
    rate,
    resolution,
    uniform,
)
from dpsql.kernel.noise.geometric_noise import (
    LARGEST,
    geometric,
    geometric_reaching,
    laplace,
    laplace_reaching,
)
from dpsql.kernel.noise.shared_noise import (
    LARGEST_VARIANCE,
    box,
    box_side,
    check_box,
    check_cube,
    check_variance,
    cube,
    gaussian,
)
from dpsql.lazy_dataclass import dataclass

__all__ = [
    "FINEST",
    "LARGEST",
    "LARGEST_VARIANCE",
    "STEP_LIMIT",
    "Band",
    "Entropy",
    "KeyedEntropy",
    "SimulationEntropy",
    "SystemEntropy",
    "below",
    "box",
    "box_side",
    "check_box",
    "check_cube",
    "check_variance",
    "cube",
    "exp_bounds",
    "gaussian",
    "geometric",
    "geometric_reaching",
    "laplace",
    "laplace_reaching",
    "place",
    "ranks",
    "rate",
    "reaching",
    "resolution",
    "scaled_exp_bounds",
    "uniform",
]

_GAPS = 1 << 14
"""Gaps that are drawn at once."""


@dataclass(frozen=True, slots=True)
class Band:
    """The event that noise known to be below `high` (None: nothing is known) is at least `low`.

    The noise is geometric at this rate; if `two_sided` it is discrete Laplace, and `low` at least 1.
    """

    rate: Fraction
    low: int
    high: int | None
    two_sided: bool

    def failure(self, places: int) -> tuple[int, int]:
        """Bound 2^places times the probability of the complement.

        With q = e^-rate, P(noise >= m) is q^m for geometric noise and q^m / (1 + q) for Laplace, m >= 1.
        """
        one = 1 << places
        reach = exp_bounds(self.rate * self.low, places)
        above = exp_bounds(self.rate * self.high, places) if self.high is not None else (0, 0)
        both = exp_bounds(self.rate, places) if self.two_sided else (0, 0)
        # 1 - (reach - above) / (1 + both - above), with each bound rounded outwards.
        most = -((-(reach[1] - above[0]) << places) // max(one + both[0] - above[1], 1))
        least = (max(reach[0] - above[1], 0) << places) // (one + both[1] - above[0])
        return max(one - most, 0), min(one - least, one)


@dataclass(frozen=True, eq=False, slots=True)
class Gaps:
    """The law of the number of failures before the next success of a band, up to 2^h - 1."""

    band: Band
    prefixes: NDArray[np.uint64]
    """uint64, floor(2^64 F) of the probability F that digit 0, .., h - 1 is 0, and that G is below 2^h."""

    def draw(self, n: int, entropy: Entropy) -> NDArray[np.int64]:
        """Draw a given number of gaps; one of 2^h or more is drawn as at least 2^h."""
        found = np.zeros(n, dtype=np.int64)
        for digit, prefix in enumerate(self.prefixes):
            words = entropy.words(n)
            there = words > prefix
            for i in np.flatnonzero(words == prefix):
                there[i] = self._decide(digit, int(words[i]), entropy)
            found |= there.astype(np.int64) << digit
        return found

    def _decide(self, digit: int, word: int, entropy: Entropy) -> bool:
        """Extend random bits that equal the prefix until they are on one side of F."""
        bits, found = WORD, word
        while found == word:
            bits += WORD
            word = (word << WORD) | int(entropy.words(1)[0])
            found = _prefix(self.band, digit, len(self.prefixes) - 1, bits)
        return word > found


@lru_cache(maxsize=256)
def _gaps(band: Band, digits: int) -> Gaps:
    prefixes = _prefixes(band, range(digits + 1), digits, WORD)
    return Gaps(band, np.array(prefixes, dtype=np.uint64))


def _prefix(band: Band, digit: int, digits: int, bits: int) -> int:
    return _prefixes(band, (digit,), digits, bits)[0]


def _prefixes(band: Band, wanted: range | tuple[int, ...], digits: int, bits: int) -> list[int]:
    """Compute floor(2^bits F) for some digits, the last one for G < 2^digits, with certified bounds."""
    places = 2 * bits + digits
    while True:
        found = _attempt(band, digits, bits, places)
        if all(found[i] is not None for i in wanted):
            return [each for i in wanted if (each := found[i]) is not None]
        places *= 2


def _attempt(band: Band, digits: int, bits: int, places: int) -> list[int | None]:
    one, found = 1 << places, []
    low, high = band.failure(places)
    for digit in range(digits + 1):
        if digit == digits:
            under, over = one - high, one - low
        else:
            under, over = (one << places) // (one + high), -((-one << places) // (one + low))
        # F lies strictly between 0 and 1, and is no multiple of 2^-bits.
        under, over, cut = max(under, 0), min(over, one), places - bits
        found.append(under >> cut if over > under and under >> cut == (over - 1) >> cut else None)
        low, high = low * low >> places, min((high * high >> places) + 1, one)
    return found


def successes(band: Band, trials: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return the places of the successes among a given number of independent trials, ascending."""
    gaps, found, at = _gaps(band, trials.bit_length()), [], 0
    low, _ = band.failure(WORD)
    # So many are expected; the rest is drawn in further rounds.
    expected = trials * ((1 << WORD) - low) >> WORD
    size = min(expected + expected // 8 + 8, _GAPS)
    while at < trials:
        places = at + np.cumsum(gaps.draw(size, entropy) + 1) - 1
        found.append(places[places < trials])
        at = int(places[-1]) + 1
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def reaching(
    band: Band, trials: int, *, entropy: Entropy | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the noise of `trials` independent variables where it lies in a band.

    The law is that of `trials` draws below `high`, with the places where these are at least `low`, ascending,
    and the draws there; the time is that of the draws returned.

    Returns
    -------
    where, drawn
        int64, places from 0 to below `trials`, and noise, which saturates at 2^61.

    Notes
    -----
    Above a level of at least 0 (Laplace: 1) both laws are geometric beyond it, by memorylessness.
    """
    source = entropy or SystemEntropy()
    where = successes(band, trials, source)
    drawn = geometric(band.rate, len(where), entropy=source)
    if band.high is not None:
        drawn %= band.high - band.low
    drawn += band.low
    return where, np.minimum(drawn, LARGEST)


def below(
    rate: Fraction, high: int, size: int, *, two_sided: bool, entropy: Entropy | None = None
) -> NDArray[np.int64]:
    """Draw noise, geometric or discrete Laplace, that is below `high`, which is at least 1."""
    source = entropy or SystemEntropy()
    if not two_sided:
        return geometric(rate, size, entropy=source) % high
    drawn = laplace(rate, size, entropy=source)
    over = np.flatnonzero(drawn >= high)
    while len(over):
        drawn[over] = laplace(rate, len(over), entropy=source)
        over = over[drawn[over] >= high]
    return drawn
