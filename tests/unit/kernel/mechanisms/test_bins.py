"""Bins of sizes: their ends, whole and exact; that each unit is in one; what is clamped and refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.kernel.mechanisms import Bins, NoiseSource
from dpsql.kernel.mechanisms.ladder import thresholds
from dpsql.noise import SeededEntropy
from tests.kept_ladders import gathered

SIZES = st.lists(st.integers(0, 1 << 70), max_size=20)


@given(st.integers(1, 1 << 90))
def test_ends_are_the_largest_whole_numbers_below_two_an_octave(most: int) -> None:
    ends = thresholds(most)
    squares = [Fraction(most**2, 2**i) for i in range(2 * most.bit_length())]
    assert all(any(end**2 <= square < (end + 1) ** 2 for square in squares) for end in ends)
    assert all(any(end**2 <= square < (end + 1) ** 2 for end in (0, *ends)) for square in squares)
    assert list(ends) == sorted(set(ends))
    assert ends[0] == 1
    assert ends[-1] == most
    assert set(ends) <= set(thresholds(2 * most))


@given(SIZES, st.integers(0, 80))
def test_each_unit_is_in_one_bin(sizes: list[int], power: int) -> None:
    plan = Bins.plan(1 << power, 1)
    found = plan.counts(sizes)
    assert sum(found) == sum(size > 0 for size in sizes)
    for size in set(sizes):
        one = plan.counts([size])
        assert sorted(one) == [0] * (plan.groups - 1) + [int(size > 0)]
        if size:
            place = one.index(1)
            assert size > (0, *plan.ends)[place]
            assert place == len(plan.ends) or size <= plan.ends[place]
    top = Bins.plan(1 << 80, 1)
    assert gathered(plan, top.ends, top.counts(sizes)) == found


def test_noise_is_of_whole_numbers_and_clamped() -> None:
    plan = Bins.plan(4, "0.5")
    assert plan.loss.charge.epsilon == Fraction(1, 2)
    run = plan.run([[0, 5, 2**62, -(2**62)]] * 500, NoiseSource(SeededEntropy(1))).number
    assert run.dtype == np.int64
    assert np.abs(run - [0, 5, 2**60, -(2**60)]).max() < 100
    assert len(np.unique(run[:, 0])) > 10


@pytest.mark.parametrize("most", [0, -4, 2.0, True, np.int64(4)])
def test_a_largest_size_is_a_whole_number(most: int) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Bins.plan(most, 1)


def test_refusals() -> None:
    for epsilon in (0, "1e-20"):
        with pytest.raises(ValueError, match=r"."):
            Bins.plan(4, epsilon)
    with pytest.raises(ValueError, match="planned for 4 counts"):
        Bins.plan(4, 1).run([1, 2, 3])
