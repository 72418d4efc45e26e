"""Noisy top-k, noisy max and measuring: what they return and what they refuse."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Number
from dpsql.kernel.mechanisms import Laplace, Noise
from dpsql.kernel.mechanisms.noisy_order import ascending, contenders, leaders, select
from dpsql.kernel.noise import ranks
from dpsql.mechanisms import anchor, laplace, noisy_max, noisy_top_k
from dpsql.noise import SeededEntropy

FAR = np.array([10**6, 5, 4 * 10**6, 0, 3 * 10**6, 2 * 10**6])


@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
class TestTopK:
    def test_finds_what_stands_out(self, noise: Noise) -> None:
        found = noisy_top_k(FAR, 3, 1, noise=noise)
        assert found.index.tolist() == [2, 4, 5]
        assert found.gap.shape == (3,)
        assert np.abs(found.gap - 10**6).max() < 10**4
        assert found.charge == Charge(Fraction(1))
        assert found.index.dtype == np.int64
        assert found.gap.dtype == np.float64

    def test_lowest(self, noise: Noise) -> None:
        found = noisy_top_k(FAR * 10, 2, 1, noise=noise, lowest=True)
        assert sorted(found.index.tolist()) == [1, 3]
        assert found.gap[1] == pytest.approx(10**7, rel=1e-2)
        assert noisy_max(FAR, 10, noise=noise, lowest=False).index.tolist() == [2]

    @pytest.mark.parametrize("k", [6, 7, 100])
    def test_no_more_than_there_are(self, noise: Noise, k: int) -> None:
        found = noisy_top_k(FAR, k, 100, noise=noise)
        assert found.index.tolist() == [2, 4, 5, 0, 1, 3] or found.index.tolist() == [2, 4, 5, 0, 3, 1]
        assert found.gap.shape == (5,)
        assert found.plan.scale == Fraction(5, 100)
        assert found.charge == Charge(Fraction(100))

    def test_one_group_is_public(self, noise: Noise) -> None:
        for k in (1, 5):
            found = noisy_top_k([17], k, "0.5", noise=noise)
            assert (found.index.tolist(), found.gap.tolist(), found.charge) == ([0], [], Charge())
        empty = noisy_top_k([], 3, 1, noise=noise)
        assert (empty.index.tolist(), empty.gap.tolist(), empty.charge) == ([], [], Charge())

    def test_gaps_are_on_the_grid_and_never_negative(self, noise: Noise) -> None:
        counts = np.random.default_rng(0).integers(0, 30, 500)
        for seed in range(20):
            found = noisy_top_k(counts, 50, 10, noise=noise, entropy=SeededEntropy(seed))
            assert (found.gap >= 0).all()
            steps = found.gap * 2**found.plan.resolution
            assert (steps == np.floor(steps)).all()
            assert len(set(found.index.tolist())) == 50

    def test_trials(self, noise: Noise) -> None:
        many = noisy_top_k(np.tile(FAR, (40, 1)), 2, 1, noise=noise, entropy=SeededEntropy(1))
        assert (many.index == [2, 4]).all()
        assert many.gap.shape == (40, 2)
        assert len(np.unique(many.gap)) > 8
        assert many.charge == Charge(Fraction(1))

    def test_huge_counts_and_all_directions(self, noise: Noise) -> None:
        found = noisy_top_k([2**63 - 1, -(2**63), 0, 2**60], 4, 1, noise=noise)
        assert set(found.index[:2].tolist()) == {0, 3}
        assert found.index[2:].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("k", "epsilon", "options", "scale"),
    [
        (10, 1, {}, 10),
        (10, "0.7", {}, Fraction(100, 7)),
        (10, 0.7, {"monotone": False}, Fraction(200, 7)),
        (3, 2, {"sensitivity": 4}, 6),
        (3, Fraction(2, 3), {"sensitivity": 4, "monotone": False}, 36),
        (20, 1, {}, 19),
    ],
)
def test_scale(k: int, epsilon: Number, options: dict[str, Any], scale: int | Fraction) -> None:
    found = noisy_top_k(np.arange(20), k, epsilon, **options)
    assert found.plan.scale == scale
    assert Fraction(1, 2**found.plan.resolution) <= found.plan.scale / 1024


def test_geometric_gaps_are_whole_counts() -> None:
    found = noisy_top_k(FAR, 3, "0.1", noise="geometric")
    assert found.plan.resolution == 0
    assert (found.gap == np.round(found.gap)).all()


def test_the_grid_may_be_chosen() -> None:
    assert noisy_top_k(FAR, 3, 1, resolution=3).plan.resolution == 3
    assert noisy_top_k(FAR, 3, 1, noise="geometric", resolution=0).plan.resolution == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"k": 0}, "k must"),
        ({"k": -3}, "k must"),
        ({"k": 1.5}, "k must"),
        ({"k": True}, "k must"),
        ({"epsilon": 0}, "epsilon must"),
        ({"epsilon": "-1"}, "epsilon must"),
        ({"epsilon": float("nan")}, "number"),
        ({"epsilon": float("inf")}, "number"),
        ({"sensitivity": 0}, "sensitivity must"),
        ({"sensitivity": "0.5"}, "sensitivity must"),
        ({"noise": "gaussian"}, "noise must"),
        ({"resolution": 21}, "resolution must"),
        ({"resolution": -1}, "resolution must"),
        ({"noise": "geometric", "resolution": 4}, "resolution must"),
        ({"epsilon": "1e-16"}, "scale"),
        ({"counts": [0.5, 1.5]}, "counts must"),
        ({"counts": [[[1]]]}, "counts must"),
        ({"counts": 5}, "counts must"),
        ({"counts": np.array([1, 2], dtype=np.uint64)}, "counts must"),
        ({"counts": [True, False]}, "counts must"),
    ],
)
def test_refused(arguments: dict[str, Any], says: str) -> None:
    given = {"counts": [1, 2, 3], "k": 2, "epsilon": 1, **arguments}
    with pytest.raises(ValueError, match=says):
        noisy_top_k(given.pop("counts"), **given)


def test_contenders_are_those_that_reach_the_next_to_the_last() -> None:
    rng = np.random.default_rng(5)
    for n, top in ((1, 3), (50, 3), (5000, 4), (5000, 10**6), (20_011, 50)):
        for k in (1, 2, 10, 100):
            values = rng.integers(0, top, n)
            reach = np.sort(values)[::-1][min(k, n - 1)]
            assert np.array_equal(contenders(values, k), np.flatnonzero(values >= reach))


def test_leaders_are_the_contenders_of_all() -> None:
    """Whatever is not drawn could not have been among them."""
    rng = np.random.default_rng(7)
    for n, top in ((5, 3), (32_768, 9), (100_000, 10**6), (150_001, 40)):
        for k in (1, 10, 40_000):
            values, noise = rng.integers(0, top, n), rng.geometric(0.1, n) - rng.geometric(0.3, n)
            asked = [0, 0]

            def some(
                size: int, noise: NDArray[np.int64] = noise, asked: list[int] = asked
            ) -> NDArray[np.int64]:
                asked[0] += size
                return noise[asked[0] - size : asked[0]]

            def reaching(
                need: NDArray[np.int64], noise: NDArray[np.int64] = noise, asked: list[int] = asked
            ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
                part = noise[asked[0] : asked[0] + len(need)]
                asked[0] += len(need)
                where = np.flatnonzero(part >= need)
                asked[1] += len(where)
                return where, part[where]

            index, noisy = leaders(values, k, some, reaching)
            assert np.array_equal(index, contenders(values + noise, k))
            assert np.array_equal(noisy, (values + noise)[index])
            assert asked[0] == n
            if n > 50_000 and k == 10 and top > 100:
                assert asked[1] < 1000


def test_ranking_only_contenders_is_ranking_all() -> None:
    """With the ranks of all restricted to the contenders, the same groups and gaps come out."""
    rng = np.random.default_rng(6)
    for n, top in ((3, 2), (40, 3), (3000, 20), (3000, 10**5)):
        for k in (1, 2, 7):
            values, order = rng.integers(0, top, n), ranks(n)
            near = contenders(values, k)
            index, gap = select(values, order, k)
            few, same_gap = select(values[near], order[near], k)
            assert np.array_equal(index, near[few])
            # Ranks of the contenders may skip numbers: only their order counts.
            assert np.array_equal(gap, same_gap)


@pytest.mark.parametrize("top", [2, 1 << 40, 1 << 61])
def test_places_are_sorted_by_value_then_by_rank(top: int) -> None:
    rng = np.random.default_rng(7)
    values, order = rng.integers(-top, top, (50, 6)), ranks(6, trials=50)
    assert np.array_equal(ascending(values, order), np.lexsort((order, values), axis=-1))


class TestMeasure:
    def test_each(self) -> None:
        counts = np.array([100, 200, 300])
        found = laplace(counts, 30)
        assert found.value.shape == (3,)
        assert np.abs(found.value - counts).max() < 30 * 40
        assert (found.plan.scale, found.charge) == (Fraction(30), Charge(Fraction(1, 10)))
        assert laplace(counts, 30, sensitivity=2).charge == Charge(Fraction(1, 5))
        assert Fraction(1, 2**found.plan.resolution) <= Fraction(30, 1024)
        assert laplace([], 1).charge == Charge()

    def test_anchor(self) -> None:
        found = anchor([100, 200, 301], "0.5")
        assert abs(found.value[0] - 601) < 40
        assert (found.plan.scale, found.charge, found.plan.groups) == (Fraction(1, 2), Charge(Fraction(6)), 3)
        steps = found.value[0] * 2**found.plan.resolution
        assert steps == np.floor(steps)
        assert anchor([[1, 2], [3, 4], [5, 6]], 1).value.shape == (3, 1)

    def test_anchor_does_not_overflow(self) -> None:
        counts = np.full(1 << 22, 2**63 - 1)
        assert abs(anchor(counts, "1e-3").value[0] - (1 << 62)) < 1

    def test_refused(self) -> None:
        cases: tuple[tuple[dict[str, Any], str], ...] = (
            ({"scale": 0}, "scale must"),
            ({"scale": 2**51}, "scale"),
            ({"scale": 1, "resolution": 99}, "resolution must"),
            ({"scale": 1, "sensitivity": -1}, "sensitivity must"),
        )
        for arguments, says in cases:
            for measure in (laplace, anchor):
                with pytest.raises(ValueError, match=says):
                    measure([1], **arguments)
        with pytest.raises(ValueError, match="at least one"):
            anchor([], 1)
        with pytest.raises(ValueError, match="one dimension"):
            laplace([[[1]]], 1)
        with pytest.raises(ValueError, match="planned for 2 counts"):
            Laplace.plan(2, 1).run([1])
