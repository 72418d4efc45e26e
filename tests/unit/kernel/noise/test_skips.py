"""Skips: certified digits of each probability, words that fall exactly on one, and where they lead."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dpsql.kernel import noise
from dpsql.kernel.noise import Band, _gaps, _prefix, _prefixes, successes
from dpsql.noise import SeededEntropy
from tests.given_noise import Scripted

BANDS = [
    Band(Fraction(1, 1024), 20_000, None, False),
    Band(Fraction(1, 3), 2, 7, False),
    Band(Fraction(1, 1024), 1, 1500, True),
    Band(Fraction(2, 3), 40, None, True),
    Band(Fraction(1, 2**50), 2**54, 2**54 + 2**50, False),
]
DIGITS = 43


def failure(band: Band) -> Decimal:
    """1 - P(low <= noise | noise < high), by the sums of both laws."""
    q = (-Decimal(band.rate.numerator) / Decimal(band.rate.denominator)).exp()

    def reach(m: int | None) -> Decimal:
        if m is None:
            return Decimal(0)
        power = (-Decimal(m) * band.rate.numerator / band.rate.denominator).exp()
        return power / (1 + q) if band.two_sided else power

    return 1 - (reach(band.low) - reach(band.high)) / (1 - reach(band.high))


@pytest.mark.parametrize("band", BANDS)
def test_the_digits_of_every_probability_are_certified(band: Band) -> None:
    with localcontext() as context:
        context.prec = 150
        f, expected = failure(band), []
        for digit in range(DIGITS + 1):
            power = f ** (1 << digit)
            share = 1 - power if digit == DIGITS else 1 / (1 + power)
            # Every share is below 1, also where 150 digits are too few to show it.
            expected.append([min(int(share * (1 << bits)), (1 << bits) - 1) for bits in (64, 192)])
        for place, bits in enumerate((64, 192)):
            assert _prefixes(band, range(DIGITS + 1), DIGITS, bits) == [each[place] for each in expected]


@pytest.mark.parametrize("band", BANDS)
def test_digits_make_a_geometric_gap(band: Band) -> None:
    """P(G = g) = f^g (1 - f), from the probabilities that its digits are 0."""
    with localcontext() as context:
        context.prec = 60
        f = failure(band)
        zero = [Decimal(p) / (1 << 192) for p in _prefixes(band, range(6), 5, 192)]
        for gap in range(32):
            made = zero[5]
            for digit in range(5):
                made *= 1 - zero[digit] if gap >> digit & 1 else zero[digit]
            assert abs(made - f**gap * (1 - f)) < Decimal("1e-50")


def test_a_word_on_an_entry_is_decided_by_the_next() -> None:
    band, trials = BANDS[1], 3
    gaps = _gaps(band, trials.bit_length())
    exact = [_prefix(band, digit, 2, 128) for digit in range(3)]
    first, second = exact[1] >> 64, exact[1] & (1 << 64) - 1
    for more, bit in ((second - 1, 0), (second + 1, 2)):
        # Digit 0 is 0 by the least word, digit 1 is undecided after 64 bits, and the gap is below 4.
        assert gaps.draw(1, Scripted(0, first, more, 0)).tolist() == [bit]


def test_places_follow_from_gaps() -> None:
    band = BANDS[1]
    prefixes = [int(p) for p in _gaps(band, 3).prefixes]
    high = (1 << 64) - 1

    class Words:
        """Gaps 0, 2, then one beyond all trials."""

        def words(self, n: int) -> np.ndarray:
            digit = len(self.seen)
            self.seen.append(n)
            found = np.full(n, high if digit == 3 else 0, dtype=np.uint64)
            found[:2] = [0, high if digit == 1 else 0]
            return found

        def __init__(self) -> None:
            self.seen: list[int] = []

    assert len(prefixes) == 4
    assert successes(band, 7, Words()).tolist() == [0, 3]


def test_certain_and_impossible_bands() -> None:
    """A band that nearly all reach, and one that none of 10^12 do."""
    near = Band(Fraction(1, 10**6), 1, None, False)
    where, drawn = noise.reaching(near, 1000, entropy=SeededEntropy(1))
    assert where.tolist() == list(range(1000))
    assert drawn.min() >= 1
    far = Band(Fraction(1), 200, None, False)
    where, drawn = noise.reaching(far, 10**12, entropy=SeededEntropy(1))
    assert (len(where), len(drawn)) == (0, 0)


@pytest.mark.parametrize("two_sided", [False, True])
def test_noise_stays_within_its_band(two_sided: bool) -> None:
    band = Band(Fraction(1, 50), 300, 420, two_sided)
    where, drawn = noise.reaching(band, 10**6, entropy=SeededEntropy(2))
    assert (np.diff(where) > 0).all()
    assert 0 <= where[0] <= where[-1] < 10**6
    assert (drawn.min(), drawn.max()) == (300, 419)
    below = noise.below(band.rate, 5, 10_000, two_sided=two_sided, entropy=SeededEntropy(3))
    assert below.max() == 4
    assert (below.min() < 0) == two_sided
