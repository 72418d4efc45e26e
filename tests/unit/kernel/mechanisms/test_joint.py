"""The joint exponential mechanism: what it returns and refuses, and how a block's mass is decided."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Number
from dpsql.kernel.mechanisms.joint import Levels, exchange_entries
from dpsql.kernel.noise import LARGEST
from dpsql.mechanisms import joint
from dpsql.noise import SeededEntropy
from tests.given_noise import Scripted

FAR = np.array([10**6, 5, 4 * 10**6, 0, 3 * 10**6])


class TestWhatItReturns:
    def test_finds_what_stands_out(self) -> None:
        found = joint(FAR, 3, 1)
        assert (found.index.tolist(), found.index.dtype) == ([2, 4, 0], np.dtype(np.int64))
        assert (found.plan.scale, found.charge) == (Fraction(2), Charge(Fraction(1)))

    def test_lowest(self) -> None:
        assert joint(FAR * [1, 10**5, 1, 1, 1], 2, 1, lowest=True).index.tolist() == [3, 1]

    @pytest.mark.parametrize("k", [5, 6, 100])
    def test_no_more_than_there_are(self, k: int) -> None:
        assert joint(FAR * [1, 10**5, 1, 1, 1], k, 1).index.tolist() == [2, 4, 0, 1, 3]

    def test_one_group_is_public(self) -> None:
        for counts, index in (([17], [0]), ([], [])):
            found = joint(counts, 3, 1)
            assert (found.index.tolist(), found.charge) == (index, Charge())
        many = joint(np.zeros((3, 1), dtype=int), 2, 1)
        assert (many.index.tolist(), many.charge) == ([[0]] * 3, Charge())

    def test_trials(self) -> None:
        rows = np.concatenate([np.tile(FAR, (20, 1)), np.tile(FAR[::-1], (20, 1))])[::-1]
        many = joint(rows, 2, 1, entropy=SeededEntropy(1))
        assert many.index.tolist() == [[2, 0]] * 20 + [[2, 4]] * 20
        assert joint(np.zeros((0, 4), dtype=int), 2, 1).index.shape == (0, 2)

    def test_groups_of_a_sequence_are_different(self) -> None:
        counts = np.random.default_rng(0).integers(0, 30, 500)
        found = joint(np.tile(counts, (50, 1)), 60, "0.1", entropy=SeededEntropy(2)).index
        assert all(len(set(row)) == 60 for row in found.tolist())

    @pytest.mark.parametrize(
        ("epsilon", "options", "scale"),
        [
            ("0.7", {}, Fraction(20, 7)),
            (0.7, {"monotone": False}, Fraction(40, 7)),
            (2, {"sensitivity": 4}, 4),
        ],
    )
    def test_scale(self, epsilon: Number, options: dict[str, Any], scale: int | Fraction) -> None:
        assert joint([1, 2, 3], 2, epsilon, **options).plan.scale == scale

    @pytest.mark.parametrize("epsilon", ["1e-14", "1e-3", 50, "1e9", "1e400"])
    def test_any_count_any_epsilon(self, epsilon: int | str) -> None:
        found = joint([2**63 - 1, -(2**63), 0, 2**60 - 1], 3, epsilon)
        assert len(set(found.index.tolist())) == 3
        if Fraction(epsilon) >= 1000:
            assert found.index.tolist() == [0, 3, 2]

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            (([1.5, 2], 1, 1), {}),
            (([1, 2], 0, 1), {}),
            (([1, 2], 1, 0), {}),
            (([1, 2], 1, 1), {"sensitivity": 0}),
            (([1, 2], 1, "1e-20"), {}),
        ],
    )
    def test_refusals(self, arguments: tuple[list[float], int, Number], options: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            joint(*arguments, **options)


def test_an_open_place_is_decided_by_more_bits() -> None:
    """The first digits of a block's mass as r, then its very digits, and at last one more or one less."""
    levels = Levels(np.array([0, 1, 1, 40, 60]), 2, Fraction(1, 3))
    assert len(levels.start) > 5
    for block in range(len(levels.start)):
        low, _, places = levels._bounds(block, 400)
        digits = low >> places - levels._scale - 128
        rest, first, second = digits >> 128, (digits >> 64) & (2**64 - 1), digits & (2**64 - 1)
        assert levels.floor[block] <= rest < levels.ceiling[block]
        for words, taken in [
            ([first - 1], True),
            ([first + 1], False),
            ([first, second - 2], True),
            ([first, second + 2], False),
        ]:
            entropy = Scripted(*words)
            assert levels._extend(block, rest, entropy) == taken
            assert entropy.left == []


def test_a_block_far_below_the_others_is_still_picked_by_more_bits() -> None:
    """Its mass is below one place: it is 0 for certain only after the digits of the mass."""
    levels = Levels(np.array([0, 200]), 1, Fraction(1))
    assert (levels.floor[-1], levels.ceiling[-1]) == (0, 1)
    low, _, places = levels._bounds(len(levels.start) - 1, 400)
    digits = [int(low >> places - levels._scale - 64 * (i + 1)) % 2**64 for i in range(5)]
    above = next(i for i, digit in enumerate(digits) if digit)
    for change, taken in ((-1, True), (1, False)):
        words = [*digits[:above], digits[above] + change]
        assert levels._extend(len(levels.start) - 1, 0, Scripted(*words)) == taken


def test_levels_of_equal_counts_saturate() -> None:
    """A rate of 2^-50 a count: draws beyond 2^61 are cut off, where all sequences are allowed anyway."""

    class Zeros:
        def words(self, n: int) -> NDArray[np.uint64]:
            return np.zeros(n, dtype=np.uint64)

    levels = Levels(np.zeros(3, dtype=np.int64), 2, Fraction(1, 1 << 50))
    assert levels.pick(1, Zeros()).tolist() == [0]
    assert levels.choices(np.array([LARGEST])).tolist() == [[3, 2]]


def test_exchanges_reach_every_order_once() -> None:
    places = np.array([[i, j, 2] for i in range(3) for j in (1, 2)])
    assert sorted(exchange_entries(places).tolist()) == [
        [0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]
    ]  # fmt: skip
