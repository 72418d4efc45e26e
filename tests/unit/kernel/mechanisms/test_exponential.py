"""The exponential mechanism: what it returns, that its picks are exact, and its privacy on tiny instances."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.kernel.loss import Charge, Number
from dpsql.kernel.mechanisms.exponential import anchor_of, gap_steps
from dpsql.kernel.mechanisms.weights import Weights
from dpsql.kernel.noise import LARGEST, Entropy, exp_bounds
from dpsql.mechanisms import exponential
from dpsql.noise import SeededEntropy
from tests.given_noise import Scripted

FAR = np.array([10**6, 50, 4 * 10**6, 0, 3 * 10**6])


class TestWhatItReturns:
    def test_finds_what_stands_out(self) -> None:
        found = exponential(FAR, 1)
        assert (found.index.tolist(), found.index.dtype) == ([2], np.dtype(np.int64))
        assert found.gap.dtype == np.float64
        assert abs(found.gap[0] - 10**6) < 100
        assert (found.plan.scale, found.charge) == (Fraction(1), Charge(Fraction(1)))

    def test_lowest(self) -> None:
        found = exponential(FAR - 10**7, 1, lowest=True)
        assert found.index.tolist() == [3]
        assert found.gap[0] < 100

    @pytest.mark.parametrize(
        ("epsilon", "options", "scale"),
        [
            ("0.7", {}, Fraction(10, 7)),
            (0.7, {"monotone": False}, Fraction(20, 7)),
            (2, {"sensitivity": 4}, 2),
            (Fraction(2, 3), {"sensitivity": 4, "monotone": False}, 12),
        ],
    )
    def test_scale(self, epsilon: Number, options: dict[str, Any], scale: int | Fraction) -> None:
        found = exponential([1, 2, 3], epsilon, **options)
        assert found.plan.scale == scale
        # Exactly e^(epsilon q/c) or e^(epsilon q/(2c)): the charge is not a rounding of it.
        assert found.charge.epsilon == Fraction(str(epsilon))

    def test_one_group_is_public(self) -> None:
        for counts, index in (([17], [0]), ([], [])):
            found = exponential(counts, 1)
            assert (found.index.tolist(), found.gap.tolist(), found.charge) == (index, [], Charge())
        many = exponential(np.zeros((3, 1), dtype=int), 1)
        assert (many.index.shape, many.gap.shape, many.charge) == ((3, 1), (3, 0), Charge())

    def test_trials(self) -> None:
        rows = np.concatenate([np.tile(FAR, (20, 1)), np.tile(FAR[::-1], (20, 1))])[::-1]
        many = exponential(rows, 1, entropy=SeededEntropy(1))
        assert many.index[:, 0].tolist() == [2] * 40
        assert many.gap.shape == (40, 1)
        assert len(np.unique(many.gap)) > 30
        mixed = exponential([[0, 10**6], [10**6, 0], [0, 10**6]], 1)
        assert mixed.index[:, 0].tolist() == [1, 0, 1]

    def test_gaps_are_on_the_grid_and_never_negative(self) -> None:
        for counts in ([5, 5, 5], [9, 5, 0], [0] * 50):
            for bits in (None, 0, 3):
                found = exponential(np.tile(counts, (2000, 1)), 1, resolution=bits, entropy=SeededEntropy(2))
                steps = found.gap * 2**found.plan.resolution
                assert (steps >= 0).all()
                assert (steps == np.floor(steps)).all()

    @pytest.mark.parametrize("epsilon", ["1e-14", "1e-3", 50, "1e9", "1e400"])
    def test_any_count_any_epsilon(self, epsilon: int | str) -> None:
        found = exponential([2**63 - 1, -(2**63), 0, 2**60 - 1], epsilon, resolution=0)
        assert 0 <= found.index[0] < 4
        assert 0 <= found.gap[0] < 2.0**61
        if Fraction(epsilon) >= 50:
            assert (found.index.tolist(), found.gap.tolist()) in (([0], [1.0]), ([0], [0.0]), ([3], [0.0]))

    @pytest.mark.parametrize("epsilon", [50, "1e9", "1e400"])
    @pytest.mark.parametrize("lead", [1, 5, 2**40 + 1, 2**60 - 1])
    def test_a_clear_winner_has_its_lead(self, lead: int, epsilon: int | str) -> None:
        """The lead has more digits than a float, and the scale is far below a count."""
        found = exponential([lead, 0, 0], epsilon, resolution=0)
        assert found.index.tolist() == [0]
        assert found.gap[0] in (lead - 1, lead)

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            (([1.5, 2], 1), {}),
            (([1, 2], 0), {}),
            (([1, 2], 1), {"sensitivity": 0}),
            (([1, 2], 1), {"resolution": 21}),
            (([1, 2], "1e-20"), {}),
        ],
    )
    def test_refusals(self, arguments: tuple[list[float], int | str], options: dict[str, Any]) -> None:
        with pytest.raises(ValueError):
            exponential(*arguments, **options)


def place_of(weights: Weights, group: int) -> int:
    """The first integer of a group's cell."""
    order = int(np.flatnonzero(weights._order == group)[0])
    layer = int(np.searchsorted(weights._first, order, side="right")) - 1
    return int(weights._start[layer] + (order - weights._first[layer]) * weights._ceiling[layer])


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 3), Fraction(5, 2)])
def test_each_weight_gets_its_places_and_no_more(rate: Fraction) -> None:
    """All outcomes of a first try, counted: floor(w) accepted, and one left open if there is one."""
    distance = np.array([3, 0, 1, 40, 0, 7, 1, 900, 2**60])
    weights = Weights(distance, rate, bits=14)

    class Open:
        asked = 0

        def words(self, n: int) -> NDArray[np.uint64]:
            self.asked += 1
            return np.full(n, 2**64 - 1, dtype=np.uint64)

    entropy = Open()
    group, taken = weights._read(np.arange(weights._total), entropy)
    for i, d in enumerate(distance):
        floor = exp_bounds(rate * int(d), 14)[0] if d else 1 << 14
        # 2^64 - 1 as the next bits is above any weight's: what is open is refused.
        assert taken[group == i].sum() == floor
        ceiling = (group == i).sum()
        assert floor < ceiling or d == 0
        # A layer spans e^(1/4), and the cut-off a place or two.
        assert ceiling <= np.exp(0.25) * (floor + 1) + 2
    assert entropy.asked == (distance > 0).sum()


@pytest.mark.parametrize("groups", [4, 100_000])
def test_an_open_place_is_decided_by_more_bits(groups: int) -> None:
    """v = floor(w) exactly, then the very digits of w, and at last one more or one less."""
    rate = Fraction(1, 30)
    distance = np.full(groups, 51)
    distance[2] = 0
    weights = Weights(distance, rate)
    bits, shift = weights._bits, 64 - weights._total.bit_length()
    digits = exp_bounds(rate * 51, bits + 128)[0]
    floor, first, second = digits >> 128, (digits >> 64) & (2**64 - 1), digits & (2**64 - 1)
    place = place_of(weights, 3)
    fallback = 0  # the first place of all is that of group 2, never refused
    for spot, more, picked in [
        (floor - 1, [], 3),
        (floor, [first - 1], 3),
        (floor, [first, second - 1], 3),
        (floor, [first, second + 1, fallback], 2),
        (floor, [first + 1, fallback], 2),
        (floor + 1, [fallback], 2),
    ]:
        entropy = Scripted((place + spot) << shift, *more)
        assert weights.pick(1, entropy).tolist() == [picked]
        assert entropy.left == []


def test_places_beyond_all_cells_are_drawn_again() -> None:
    weights = Weights(np.array([0, 2, 1]), Fraction(1), bits=10)
    shift = 64 - weights._total.bit_length()
    entropy = Scripted(2**64 - 1, weights._total << shift, 0)
    assert weights.pick(1, entropy).tolist() == [0]
    assert entropy.left == []


def test_the_mechanism_takes_an_open_place_through() -> None:
    """The whole mechanism, its first word landing on an open place."""
    weights = Weights(np.array([0, 1024 * 2]), Fraction(1, 1024))
    shift = 64 - weights._total.bit_length()
    digits = exp_bounds(Fraction(2), weights._bits + 64)[0]
    spot = (place_of(weights, 1) + (digits >> 64)) << shift

    class Then:
        """The script first, and after it a stream."""

        def __init__(self, *words: int) -> None:
            self.script, self.stream = list(words), SeededEntropy(5)

        def words(self, n: int) -> NDArray[np.uint64]:
            if self.script:
                taken, self.script = self.script[:n], self.script[n:]
                return np.array(taken, dtype=np.uint64)
            return self.stream.words(n)

    below = digits % 2**64 - 1
    assert exponential([2, 0], 1, resolution=10, entropy=Then(spot, below)).index.tolist() == [1]
    assert exponential([2, 0], 1, resolution=10, entropy=Then(spot, below + 2, 0)).index.tolist() == [0]


def test_saturation_is_a_cut_of_the_result() -> None:
    """Noise and anchor at their largest: the gap stays within int64, cut off at 2^61."""

    class Fixed:
        def __init__(self, *picks: int) -> None:
            self.picks = list(picks)

        def pick(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
            return np.full(size, self.picks.pop(0))

    rate = Fraction(1, 2**50)
    steps = gap_steps(cast("Weights", Fixed(0, 1)), 0, LARGEST - 1, 4, rate, SeededEntropy(3))
    assert (steps == LARGEST).all()


class TestAnchor:
    def test_near_the_location(self) -> None:
        distance = np.array([0, 70, 90, 5000])
        theta = 70 / 10 - np.log(1 + np.exp(-2))
        assert anchor_of(distance, 0, Fraction(1, 10)) == pytest.approx(10 * theta, abs=1)

    def test_none_where_the_others_weigh_as_much(self) -> None:
        assert anchor_of(np.array([0, 0, 9]), 0, Fraction(5)) == 0
        assert anchor_of(np.array([0, 3, 9]), 1, Fraction(5)) == 0
        assert anchor_of(np.array([0] + [3] * 1000), 0, Fraction(1)) == 0

    def test_extremes(self) -> None:
        assert anchor_of(np.array([0, 2**61]), 0, Fraction(10**400)) == 2**61
        assert anchor_of(np.array([0, 2**61]), 0, Fraction(1, 2**50)) <= 2**61


# Privacy, on every neighbour of tiny instances, in rationals: r stands for e^-(rate of a grid step),
# so weights are powers of it, and e^charge is r^-(charge x scale in steps), as the product states both.

R = Fraction(1, 2)
CELLS = 8


def law(steps: Sequence[int], r: Fraction = R) -> dict[tuple[int, int], Fraction]:
    """P(index, floored gap in steps), the last gap standing for itself and all above."""
    weight = [r ** (max(steps) - q) for q in steps]
    total = sum(weight)
    out = {}
    for s, own in enumerate(weight):
        tail = [own * r**j / (own * r**j + total - own) for j in range(CELLS)]
        assert tail[0] == own / total
        for j in range(CELLS):
            out[s, j] = tail[j] - (tail[j + 1] if j + 1 < CELLS else 0)
    assert sum(out.values()) == 1
    return out


@pytest.mark.parametrize("bits", [0, 1])
@pytest.mark.parametrize("c", [1, 2])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.sampled(3)
def test_no_output_tells_more_than_the_charge(monotone: bool, c: int, bits: int) -> None:
    tight = Fraction(0)
    for base in [(0, 0), (0, 1), (5, 0), (0, 0, 0), (0, 1, 1), (1, 0, 2), (4, 0, 0)]:
        said = exponential(base, 1, sensitivity=c, monotone=monotone, resolution=bits)
        assert said.charge.epsilon <= 1
        allowed = (1 / R) ** int(said.charge.epsilon * said.plan.scale * 2**bits)
        here = law([q << bits for q in base])
        span = range(c + 1) if monotone else range(-c, c + 1)
        for move in product(span, repeat=len(base)):
            there = law([q + d << bits for q, d in zip(base, move, strict=True)])
            ratio = max(max(here[o] / there[o], there[o] / here[o]) for o in here)
            assert ratio <= allowed
            tight = max(tight, ratio / allowed)
    assert tight > Fraction(3, 5)


def test_general_counts_at_the_strength_of_monotone_ones_are_not_private() -> None:
    said = exponential([0, 0], 1)
    first, second = law((1, 0)), law((0, 1))
    ratio = max(first[o] / second[o] for o in first)
    assert ratio > (1 / R) ** int(said.plan.scale * said.charge.epsilon)
