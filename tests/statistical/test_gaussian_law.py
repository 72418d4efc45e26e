"""The law of Gaussian noise, by chi-square, moments and tails.

Every test draws from a fixed seed. Its false-alarm rate, over seeds, is 1e-9; the same test must reject the
law with a standard deviation of 0.97 times and of 1/0.97 times.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erfc
from scipy.stats import chi2

from dpsql.kernel import noise
from dpsql.kernel.noise.shared_noise import sampler
from dpsql.noise import SeededEntropy

ALARM = 1e-9
SIGMAS = 6.2
DRAWS = 200_000
OFF = [0.97, 1 / 0.97]


def p_value(seen: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """Chi-square of cell counts against probabilities, thin cells merged with their neighbours."""
    expected = law * seen.sum()
    edges, held = [0], 0.0
    for i, cell in enumerate(expected):
        held += cell
        if held >= 20 and expected[i + 1 :].sum() >= 20:
            edges.append(i + 1)
            held = 0.0
    found, wanted = np.add.reduceat(seen, edges), np.add.reduceat(expected, edges)
    return float(chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(edges) - 1))


def weights(x: NDArray[np.int64], variance: float) -> NDArray[np.float64]:
    weight = np.exp(-(x.astype(np.float64) ** 2) / (2 * variance))
    return np.asarray(weight / weight.sum())


def check(drawn: NDArray[np.int64], variance: int) -> None:
    """Compare numbers from -10 to 10 standard deviations with the law, each a cell."""
    reach = 10 * math.isqrt(variance) + 10
    x = np.arange(-reach, reach + 1)
    seen = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=len(x))
    assert p_value(seen, weights(x, variance)) > ALARM
    for factor in OFF:
        assert p_value(seen, weights(x, variance * factor**2)) < ALARM


@pytest.mark.parametrize("variance", [1, 2, 7, 50])
@pytest.mark.sampled(4)
def test_small(variance: int) -> None:
    check(noise.gaussian(variance, DRAWS, entropy=SeededEntropy(1)), variance)


@pytest.mark.parametrize("variance", [5000, 1448**2, 10**9 + 7, 2**40, 2**50 - 1, 2**61])
@pytest.mark.sampled(4)
def test_wide(variance: int) -> None:
    """About 100 cells on each side. The law is so smooth that the integral is the sum to 1e-9."""
    deviation = math.sqrt(variance)
    drawn = noise.gaussian(variance, DRAWS, entropy=SeededEntropy(2))
    edges = np.linspace(-4, 4, 201)
    # A number at the upper half of a cell's step belongs to the next.
    places = np.ceil(edges * deviation).astype(np.int64)
    seen = np.bincount(np.searchsorted(places, drawn, side="right"), minlength=202)
    for factor in (1.0, *OFF):
        below = erfc(-(places - 0.5) / (deviation * factor) / math.sqrt(2)) / 2
        accepted = p_value(seen, np.diff(below, prepend=0, append=1)) > ALARM
        assert accepted == (factor == 1)


def test_the_low_bits_and_the_rest() -> None:
    """Jointly: the lowest bits, which are drawn by themselves and kept by rejection, and the upper part."""
    variance, width = 1448**2, sampler(1448**2).width
    assert width == 4
    reach = 9 * 1448 >> width << width
    drawn = np.abs(noise.gaussian(variance, 2 * DRAWS, entropy=SeededEntropy(3)))
    drawn = drawn[drawn < reach]
    x = np.arange(reach)
    law = weights(x, variance) * np.where(x == 0, 1, 2)
    law /= law.sum()
    cell = np.minimum(x >> width + 4, 30) << width | x & (1 << width) - 1
    seen = np.bincount(cell[drawn], minlength=31 << width)
    expected = np.bincount(cell, law, minlength=31 << width).astype(np.float64)
    assert p_value(seen, expected) > ALARM


def test_low_bits_without_rejection_are_seen() -> None:
    """With wide low digits e^-g is often far from 1: the comparison sees whether it is decided right."""
    drawn = np.empty(DRAWS // 8, dtype=np.int64)
    sampler(50, 4, 2).fill(drawn, SeededEntropy(4))
    x = np.arange(-80, 81)
    seen = np.bincount(drawn + 80, minlength=161)
    assert p_value(seen, weights(x, 50)) > ALARM
    steps = weights(np.abs(x) >> 2 << 2, 50)
    assert p_value(seen, steps) < ALARM


@pytest.mark.parametrize(
    ("size", "width"),
    [(8, 0), (4, 2), (2, 2), (1, 3)],
)
@pytest.mark.slow  # the tail of the tables that ship is in `test_moments_and_tails`
def test_the_tail(size: int, width: int) -> None:
    """A table that ends early, at one standard deviation: most numbers are drawn beyond it.

    With wide low digits e^-g is decided for g above 1 there.
    """
    drawn = np.empty(150_000, dtype=np.int64)
    sampler(50, size, width).fill(drawn, SeededEntropy(5))
    check(drawn, 50)


def test_signs() -> None:
    drawn = noise.gaussian(1448**2, DRAWS, entropy=SeededEntropy(6))
    plus, minus = int((drawn > 0).sum()), int((drawn < 0).sum())
    assert abs(plus - minus) <= SIGMAS * math.sqrt(plus + minus)


def test_neighbouring_draws_are_independent() -> None:
    drawn = noise.gaussian(1448**2, DRAWS, entropy=SeededEntropy(7)) / 1448
    for one, other in ((drawn[0::2], drawn[1::2]), (drawn[: DRAWS // 2], drawn[DRAWS // 2 :])):
        for power in (1, 2):
            first, second = one**power - (power == 2), other**power - (power == 2)
            assert abs((first * second).mean()) <= SIGMAS * first.std() * second.std() / math.sqrt(len(one))


@pytest.mark.parametrize(
    ("variance", "draws"),
    [
        (5000, 1_000_000),
        (1448**2, 1_000_000),
        pytest.param(5000, 60_000_000, marks=pytest.mark.slow),
        pytest.param(1448**2, 60_000_000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.sampled(2)
def test_moments_and_tails(variance: int, draws: int) -> None:
    """Moments up to the sixth, and the numbers beyond 3, 4, 5 and 6 standard deviations."""
    moments = np.zeros(12)
    beyond = np.zeros(4, dtype=np.int64)
    source = SeededEntropy(8)
    for _ in range(draws // 1_000_000):
        z = noise.gaussian(variance, 1_000_000, entropy=source) / math.sqrt(variance)
        moments += [float((z**k).sum()) for k in range(1, 13)]
        beyond += [int((np.abs(z) > level).sum()) for level in (3, 4, 5, 6)]
    moments /= draws
    exact = [0.0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395]
    for k in range(1, 7):
        error = math.sqrt((exact[2 * k - 1] - exact[k - 1] ** 2) / draws)
        assert abs(moments[k - 1] - exact[k - 1]) <= SIGMAS * error, k
    # Another standard deviation moves the second moment by more than that.
    assert abs(OFF[0] ** 2 - 1) > 2 * SIGMAS * math.sqrt(2 / draws)
    for level, seen in zip((3, 4, 5, 6), beyond.tolist(), strict=True):
        wanted = draws * erfc(level / math.sqrt(2))
        assert abs(seen - wanted) <= SIGMAS * math.sqrt(wanted) + SIGMAS**2 / 3 + 0.02 * wanted, level


def test_the_system_draws_the_same_law() -> None:
    """The one unseeded test: false alarms once in 1e9 runs."""
    check(noise.gaussian(50, DRAWS), 50)
