"""The laws of the noise, by chi-square.

Every test draws from a fixed seed. Its false-alarm rate, over seeds, is 1e-9; the same test must
reject noise of 0.7 and 1.3 times the scale.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpsql import noise
from dpsql.noise import SeededEntropy

ALARM = 1e-9
DRAWS = 200_000
SCALES = [Fraction(7, 10), Fraction(1), Fraction(13, 10)]
RATES = [
    Fraction(3),
    Fraction(2, 3),
    Fraction(1, 20),
    Fraction(1, 1500),
    Fraction(3, 10**6),
    Fraction(1, 2**41 + 5),
]


def p_value(observed: NDArray[np.int64], probabilities: NDArray[np.float64] | Sequence[float]) -> float:
    """Chi-square of cell counts against probabilities, thin cells merged with their neighbours."""
    expected = np.asarray(probabilities) * observed.sum()
    assert math.isclose(expected.sum(), observed.sum(), rel_tol=1e-9)
    edges, held = [0], 0.0
    for i, cell in enumerate(expected):
        held += cell
        if held >= 20 and expected[i + 1 :].sum() >= 20:
            edges.append(i + 1)
            held = 0.0
    seen, wanted = np.add.reduceat(observed, edges), np.add.reduceat(expected, edges)
    return chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(edges) - 1)


def quantile_cells(rate: Fraction) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edges of about 100 cells of equal mass, and P(Y < edge)."""
    wanted = -np.log1p(-np.arange(1, 100) / 100) / float(rate)
    edges = np.unique(np.concatenate([[0], np.ceil(wanted)])).astype(np.int64)
    return edges, np.append(np.diff(-np.expm1(-float(rate) * edges)), np.exp(-float(rate) * edges[-1]))


def check_all(draw: Callable[[Fraction], NDArray[np.int64]], expected: NDArray[np.float64]) -> None:
    """Accept the law at scale 1, reject it at 0.7 and 1.3."""
    for scale in SCALES:
        accepted = p_value(draw(scale), expected) > ALARM
        assert accepted == (scale == 1), scale


@pytest.mark.parametrize("rate", RATES)
def test_geometric(rate: Fraction) -> None:
    edges, expected = quantile_cells(rate)

    def draw(scale: Fraction) -> NDArray[np.int64]:
        drawn = noise.geometric(rate / scale, DRAWS, entropy=SeededEntropy(11))
        return np.bincount(np.searchsorted(edges, drawn, side="right") - 1, minlength=len(edges))

    check_all(draw, expected)


@pytest.mark.parametrize(
    ("rate", "modulus"), [(Fraction(1, 3), 5), (Fraction(1, 40), 100), (Fraction(1, 1500), 6000)]
)
def test_truncated_geometric(rate: Fraction, modulus: int) -> None:
    weight = np.exp(-float(rate) * np.arange(modulus))

    def draw(scale: Fraction) -> NDArray[np.int64]:
        drawn = noise.truncated_geometric(rate / scale, modulus, DRAWS, entropy=SeededEntropy(12))
        return np.bincount(drawn, minlength=modulus)

    check_all(draw, weight / weight.sum())


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 12)])
def test_laplace(rate: Fraction) -> None:
    reach = int(40 / rate)
    weight = np.exp(-float(rate) * np.abs(np.arange(-reach, reach + 1)))

    def draw(scale: Fraction) -> NDArray[np.int64]:
        drawn = noise.laplace(rate / scale, DRAWS, entropy=SeededEntropy(13))
        return np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)

    check_all(draw, weight / weight.sum())


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 1500), Fraction(1, 10**7)])
@pytest.mark.parametrize("sampler", ["geometric", "laplace"])
@pytest.mark.sampled(5)
def test_what_reaches_a_bound(sampler: str, rate: Fraction) -> None:
    """Cells: not reached, or by how much; for bounds on both sides of zero and far out."""
    scale = float(1 / rate)
    r = math.exp(-1 / scale)

    def above(m: np.int64 | NDArray[np.int64]) -> NDArray[np.float64]:
        if sampler == "geometric":
            return np.where(m > 0, np.exp(-m / scale), 1.0)
        return np.where(m > 0, r ** np.abs(m) / (1 + r), 1 - r ** (np.abs(m) + 1) / (1 + r))

    for bound in (-0.5, 0.0, 0.3, 2.5):
        need = math.ceil(bound * scale)
        edges = np.unique(np.ceil(need + np.arange(30) / 8 * scale)).astype(np.int64)
        expected = np.concatenate([[1 - above(edges[0])], -np.diff(above(edges)), [above(edges[-1])]])

        def draw(factor: Fraction, need: int = need, edges: NDArray[np.int64] = edges) -> NDArray[np.int64]:
            reaching = noise.geometric_reaching if sampler == "geometric" else noise.laplace_reaching
            wanted = np.full(DRAWS, need)
            where, drawn = reaching(rate / factor, wanted, entropy=SeededEntropy(18))
            full = np.full(DRAWS, need - 1)
            full[where] = drawn
            return np.bincount(np.searchsorted(edges, full, side="right"), minlength=len(edges) + 1)

        check_all(draw, expected)


def test_laplace_wide() -> None:
    """At the width mechanisms use: quantiles of |Z|, and the sign."""
    rate = Fraction(1, 1500)
    r = math.exp(-float(rate))
    edges = np.unique(np.ceil(-np.log1p(-np.arange(100) / 100) / float(rate))).astype(np.int64)
    # P(|Z| >= m) = 2 r^m / (1 + r) for m > 0.
    above = np.where(edges == 0, 1.0, 2 * r ** edges.astype(float) / (1 + r))

    def draw(scale: Fraction) -> NDArray[np.int64]:
        drawn = noise.laplace(rate / scale, DRAWS, entropy=SeededEntropy(14))
        return np.bincount(np.searchsorted(edges, np.abs(drawn), side="right") - 1, minlength=len(edges))

    check_all(draw, np.append(-np.diff(above), above[-1]))
    drawn = noise.laplace(rate, DRAWS, entropy=SeededEntropy(14))
    sign = np.array([(drawn < 0).sum(), (drawn > 0).sum()])
    assert p_value(sign, [0.5, 0.5]) > ALARM


@pytest.mark.parametrize("shift", [1, 6, 9])
def test_digits_are_independent(shift: int) -> None:
    """The lowest bits of a draw are independent of the rest: their joint law is the product."""
    rate = Fraction(1, 50_000)
    drawn = noise.geometric(rate, DRAWS, entropy=SeededEntropy(15))
    edges, mass = quantile_cells(rate * (1 << shift))
    high = np.searchsorted(edges, drawn >> shift, side="right") - 1
    low = drawn & ((1 << shift) - 1)
    weight = np.exp(-float(rate) * np.arange(1 << shift))
    cells = np.bincount(high * (1 << shift) + low, minlength=len(edges) << shift)
    assert p_value(cells, np.outer(mass, weight / weight.sum()).ravel()) > ALARM


def test_neighbouring_draws_are_independent() -> None:
    drawn = noise.geometric(Fraction(1, 1500), 2 * DRAWS, entropy=SeededEntropy(16))
    edges, mass = quantile_cells(Fraction(1, 1500))
    cell = np.searchsorted(edges, drawn, side="right") - 1
    for first, second in ((cell[0::2], cell[1::2]), (cell[:DRAWS], cell[DRAWS:])):
        pairs = np.bincount(first * len(edges) + second, minlength=len(edges) ** 2)
        assert p_value(pairs, np.outer(mass, mass).ravel()) > ALARM


def test_the_system_draws_the_same_law() -> None:
    """The one unseeded test: false alarms once in 1e9 runs."""
    edges, expected = quantile_cells(Fraction(1, 1500))
    drawn = noise.geometric(Fraction(1, 1500), DRAWS)
    seen = np.bincount(np.searchsorted(edges, drawn, side="right") - 1, minlength=len(edges))
    assert p_value(seen, expected) > ALARM


@pytest.mark.parametrize("n", [2, 3, 4])
def test_every_order_is_equally_likely(n: int) -> None:
    key = {order: i for i, order in enumerate(permutations(range(n)))}
    even = np.full(len(key), 1 / len(key))

    def seen(drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount([key[tuple(row)] for row in drawn.tolist()], minlength=len(key))

    assert p_value(seen(noise.ranks(n, trials=50_000, entropy=SeededEntropy(17))), even) > ALARM
    # Words of 3 bits, equal ones in the order of the items: what the extension is there to prevent.
    short = SeededEntropy(17).words(50_000 * n).reshape(-1, n) >> np.uint64(61)
    assert p_value(seen(np.argsort(np.argsort(short, kind="stable"), kind="stable")), even) < ALARM
