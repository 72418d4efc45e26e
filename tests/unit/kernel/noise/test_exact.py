"""Certified digits and the tables made of them."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dpsql.kernel.noise import exp_bounds, scaled_exp_bounds
from dpsql.kernel.noise.entropy import AMBIGUOUS
from dpsql.kernel.noise.geometric_noise import table

RATES = [
    Fraction(1, 1500),
    Fraction(1, 17),
    Fraction(7, 3),
    Fraction(1),
    Fraction(3, 10**12),
    Fraction(60),
    Fraction(10**30 + 1, 10**31),
]


def exp_minus(x: Fraction) -> Fraction:
    """e^-x to 300 digits, by another route than the product's."""
    with localcontext() as context:
        context.prec = 300
        return Fraction((-(Decimal(x.numerator) / Decimal(x.denominator))).exp())


@pytest.mark.parametrize("bits", [1, 16, 64, 200, 700])
@pytest.mark.parametrize("x", [*RATES, Fraction(1, 2), Fraction(1000), Fraction(10**6, 3)])
def test_bounds_hold_and_are_tight(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    assert low < exp_minus(x) * 2**bits < high
    assert low >= 0
    assert high - low <= 3


def test_bounds_of_what_is_too_small_to_see() -> None:
    low, high = exp_bounds(Fraction(10**40), 64)
    assert low == 0
    assert 0 < high <= 2


@pytest.mark.parametrize("bits", [8, 64, 200, 700])
@pytest.mark.parametrize("x", [*RATES, Fraction(1, 2), Fraction(1000), Fraction(10**6, 3)])
@pytest.mark.sampled(5)
def test_scaled_bounds_have_the_digits_asked_for(x: Fraction, bits: int) -> None:
    low, high, places = scaled_exp_bounds(x, bits)
    assert low < exp_minus(x) * 2**places < high
    assert high - low <= 3
    assert bits <= high.bit_length() <= bits + 1


def test_scaled_bounds_of_what_is_too_small_to_see() -> None:
    low, high, places = scaled_exp_bounds(Fraction(10**40), 64)
    assert 2**62 < low < high < 2**65
    assert places == pytest.approx(10**40 / np.log(2))


def cdf(rate: Fraction, size: int | None, j: int) -> Fraction:
    mass = 1 - exp_minus(rate * size) if size else Fraction(1)
    return (1 - exp_minus(rate * j)) / mass


@pytest.mark.parametrize("size", [None, 2, 64, 1000])
@pytest.mark.parametrize("rate", [rate for rate in RATES if rate > Fraction(1, 100)])
def test_entries_are_the_truncated_distribution_function(rate: Fraction, size: int | None) -> None:
    entries = table(rate, size).prefixes
    assert len(entries) == (size - 1 if size else max(1, -(-14 // rate)))
    for j in {1, 2, 3, len(entries) // 2, len(entries)} & set(range(1, len(entries) + 1)):
        # 300 digits decide every truncation but those of values within 1e-300 of 1.
        assert int(entries[j - 1]) == int(cdf(rate, size, j) * 2**64) or rate * j > 600


def test_entries_at_tiny_rates() -> None:
    rate = Fraction(3, 10**14)
    assert [int(entry) for entry in table(rate, 4).prefixes] == [
        int(cdf(rate, 4, j) * 2**64) for j in (1, 2, 3)
    ]


@pytest.mark.parametrize("size", [None, 64])
def test_the_guide_is_what_its_cells_decide(size: int | None) -> None:
    """A cell's entry counts the CDF values below it, and is ambiguous if one lies within it."""
    made = table(Fraction(1, 17), size)
    first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    last = first | np.uint64((1 << 48) - 1)
    below, upto = np.searchsorted(made.prefixes, first), np.searchsorted(made.prefixes, last, side="right")
    assert np.array_equal(made.guide, np.where(below == upto, below, AMBIGUOUS))
    assert made.guide[-1] == AMBIGUOUS or size


def test_tables_are_shared_and_frozen() -> None:
    assert table(Fraction(1, 17), None) is table(Fraction(2, 34), None)
    with pytest.raises(ValueError, match="read-only"):
        table(Fraction(1, 17), None).guide[0] = 1
