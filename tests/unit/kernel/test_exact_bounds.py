"""Bounds of logarithms hold and are tight, against 80-digit decimals; for e^-x see the tests of noise."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.kernel.exact_bounds import log1p_bounds, log_bounds

POSITIVE = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30).filter(lambda x: x > 0)


def log(x: Fraction) -> Fraction:
    with localcontext() as context:
        context.prec = 80
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).ln())


@given(POSITIVE, st.sampled_from([8, 64, 200]))
def test_bounds_of_a_logarithm(x: Fraction, bits: int) -> None:
    low, high = log_bounds(x, bits)
    value = log(x) * 2**bits
    assert low - Fraction(1, 10**9) <= value <= high + Fraction(1, 10**9)
    assert high - low <= 3


@pytest.mark.parametrize(
    "x", [Fraction(1), Fraction(2), Fraction(1, 2), Fraction(10**300), Fraction(1, 10**300)]
)
def test_bounds_at_the_ends(x: Fraction) -> None:
    low, high = log_bounds(x, 128)
    assert low <= log(x) * 2**128 <= high
    assert high - low <= 3
    assert log_bounds(Fraction(1), 128)[0] <= 0 <= log_bounds(Fraction(1), 128)[1]


@given(st.integers(0, 2**96), st.integers(0, 2**20))
def test_bounds_of_a_logarithm_above_one(low: int, width: int) -> None:
    high = min(low + width, 2**96)
    least, most = log1p_bounds(low, high, 96)
    slack = Fraction(1, 10**9)
    assert least - slack <= log(1 + Fraction(low, 2**96)) * 2**96
    assert log(1 + Fraction(high, 2**96)) * 2**96 <= most + slack
    assert most - least <= high - low + 3
