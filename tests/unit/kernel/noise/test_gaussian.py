"""Gaussian noise: its table, refusals, words that fall on an entry, the decisions of rejection."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel import noise
from dpsql.kernel.noise import LARGEST_VARIANCE
from dpsql.kernel.noise.entropy import AMBIGUOUS
from dpsql.kernel.noise.shared_noise import _decay, _uniform, gaussian_table, sampler
from dpsql.noise import SeededEntropy

ONES = (1 << 64) - 1
LAWS = [
    (Fraction(1, 2), 9),
    (Fraction(1, 100), 57),
    (Fraction(1, 8192), 725),
    (Fraction(1, 100), 8),
    (Fraction(3), 1),
]


class Script:
    """Hands out the given words first, then a seeded stream."""

    def __init__(self, *words: int) -> None:
        self.script = list(words)
        self.rest = SeededEntropy(0)

    def words(self, n: int) -> NDArray[np.uint64]:
        head, self.script = self.script[:n], self.script[n:]
        return np.concatenate([np.array(head, dtype=np.uint64), self.rest.words(n - len(head))])


def distribution(unit: Fraction, size: int) -> list[Fraction]:
    """F_1, .., F_size to 80 digits."""
    with localcontext() as context:
        context.prec = 100
        q = Decimal(unit.numerator) / Decimal(unit.denominator)
        weights = [(-q * h * h).exp() for h in range(size + 1)]
        total = sum(weights[:-1]) + weights[-1] / (1 - (-2 * q * size).exp())
        return [Fraction(sum(weights[:j], Decimal(0)) / total) for j in range(1, size + 1)]


@pytest.mark.parametrize(("unit", "size"), LAWS)
def test_entries_are_the_truncated_distribution_function(unit: Fraction, size: int) -> None:
    table, exact = gaussian_table(unit, size), distribution(unit, size)
    assert table.prefixes.tolist() == [int(each * 2**64) for each in exact]
    for j in {1, size // 2 or 1, size}:
        assert table.digits(j, 200) == int(exact[j - 1] * 2**200)


@pytest.mark.parametrize(("unit", "size"), LAWS)
def test_the_guide_is_what_its_cells_decide(unit: Fraction, size: int) -> None:
    table = gaussian_table(unit, size)
    first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    last = first | np.uint64((1 << 48) - 1)
    below, upto = np.searchsorted(table.prefixes, first), np.searchsorted(table.prefixes, last, side="right")
    assert np.array_equal(table.guide, np.where(below == upto, below, AMBIGUOUS))


def test_a_word_on_an_entry_is_decided_by_the_next() -> None:
    table = gaussian_table(Fraction(1, 100), 57)
    for j in (1, 30, 57):
        words = [table.digits(j, 192) >> shift & ONES for shift in (128, 64, 0)]
        on = np.array(words[:1], dtype=np.uint64)
        for step, drawn in ((1, j), (-1, j - 1)):
            assert table.compare(on, Script(words[1] + step))[0] == drawn
            assert table.compare(on, Script(words[1], words[2] + step))[0] == drawn


@pytest.mark.parametrize("variance", [1, 50, 5000, 1448**2, 2**40, 2**50, LARGEST_VARIANCE])
def test_numbers_beyond_a_bound_keep_every_pair(variance: int) -> None:
    """A bound of 2^bits g that is too low would keep too much; g is below 1, as the series needs it."""
    made = sampler(variance)
    most = (1 << made.width) - 1
    assert most * 64 <= math.isqrt(variance)
    assert made.table.unit == Fraction(4**made.width, made.double)
    assert made.table.size**2 * 4**made.width >= 64 * variance
    for h in range(0, made.table.size, 7):
        g = Fraction((2 * (h << made.width) + most) * most, made.double)
        assert g < 1
        assert g * 2**made.bits <= made.doubtful[h]
        assert made.doubtful[h] < g * 2**made.bits + 1
    assert made.doubtful[made.table.size] == 1 << made.bits
    # No number of the decision passes 62 bits.
    assert made.double << made.bits <= 1 << 62


def test_zero_has_one_sign() -> None:
    """A word of zeros is 0; with the sign's bit it is rejected, and the next one taken."""
    assert noise.gaussian(50, 1, entropy=Script(0)).tolist() == [0]
    cell = int(np.flatnonzero(sampler(50).table.guide == 3)[0])
    assert noise.gaussian(50, 1, entropy=Script(1 << 32, cell)).tolist() == [3]
    assert noise.gaussian(50, 1, entropy=Script(1 << 32, cell | 1 << 32)).tolist() == [-3]


def test_the_low_bits_are_those_of_the_word() -> None:
    made = sampler(1448**2)
    cell = int(np.flatnonzero(made.table.guide == 40)[0])
    for low in range(1 << made.width):
        word = cell | 0xFFFF << 16 | low << 33 | ONES << 33 + made.width & ONES
        assert noise.gaussian(1448**2, 1, entropy=Script(word)).tolist() == [(40 << made.width) + low]
        assert noise.gaussian(1448**2, 1, entropy=Script(word | 1 << 32)).tolist() == [
            -(40 << made.width) - low
        ]


def test_shapes() -> None:
    for size, shape in ((0, (0,)), (3, (3,)), ((2, 5), (2, 5)), ((0, 4), (0, 4)), (100_001, (100_001,))):
        drawn = noise.gaussian(5000, size)
        assert drawn.shape == shape
        assert drawn.dtype == np.int64


@pytest.mark.parametrize("variance", [0, -1, LARGEST_VARIANCE + 1, 1.0, "1", True, Fraction(1)])
def test_variances_refused(variance: object) -> None:
    with pytest.raises(ValueError, match="variance"):
        noise.gaussian(variance, 3)  # type: ignore[arg-type]  # that is the test


def test_sizes_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        noise.gaussian(1, -1)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 3)])
def test_decay(x: Fraction) -> None:
    """Alarms once in 1e9."""
    source = SeededEntropy(3)
    n = 20_000
    seen = sum(_decay(x, source) for _ in range(n))
    p = math.exp(-x)
    assert abs(seen - n * p) <= 6.2 * math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("bound", [1, 3, 2**64, 3 * 2**100])
def test_uniform_numbers_of_any_length(bound: int) -> None:
    source = SeededEntropy(4)
    drawn = [_uniform(bound, source) for _ in range(3000)]
    assert all(0 <= each < bound for each in drawn)
    assert abs(sum(drawn) / bound - 3000 * (bound - 1) / bound / 2) <= 6.2 * math.sqrt(3000 / 12)
