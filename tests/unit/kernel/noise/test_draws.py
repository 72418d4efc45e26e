"""Draws: shapes, refusals, and words that fall exactly on a table's entry."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import noise
from dpsql.kernel.loss import Number
from dpsql.kernel.noise import LARGEST
from dpsql.kernel.noise.geometric_noise import _digits, table
from dpsql.noise import SeededEntropy


class Script:
    """Hands out the given words first, then a seeded stream."""

    def __init__(self, words: Sequence[int], seed: int = 0) -> None:
        self.script = list(words)
        self.rest = SeededEntropy(seed)

    def words(self, n: int) -> NDArray[np.uint64]:
        head, self.script = self.script[:n], self.script[n:]
        return np.concatenate([np.array(head, dtype=np.uint64), self.rest.words(n - len(head))])


def digits(rate: Fraction, size: int | None, j: int, bits: int = 256) -> list[int]:
    """The first `bits` bits of F_j, cut into words."""
    value = _digits(rate, size, j, bits)
    return [value >> shift & (1 << 64) - 1 for shift in range(bits - 64, -1, -64)]


RATE = Fraction(1, 17)


@pytest.mark.parametrize("size", [None, 50])
@pytest.mark.parametrize("j", [1, 2, 20, 49])
def test_a_word_on_an_entry_is_decided_by_the_next(j: int, size: int | None) -> None:
    made = table(RATE, size)
    first, second, third, fourth = digits(RATE, size, j)
    on = np.array([first], dtype=np.uint64)

    def decided(*more: int) -> int:
        return int(made.decide(on, Script(more))[0])

    assert decided(second + 1) == j  # U just above F_j: j values of F are at most U
    assert decided(second - 1) == j - 1
    assert decided(second, third + 1) == j
    assert decided(second, third - 1) == j - 1
    assert decided(second, third, fourth + 1) == j
    assert decided(second, third, fourth - 1) == j - 1


def test_a_word_next_to_an_entry_needs_no_more() -> None:
    made = table(RATE, 50)
    entry = int(made.prefixes[9])
    for word, drawn in ((entry - 1, 9), (entry + 1, 10)):
        source = Script([])
        assert made.decide(np.array([word], dtype=np.uint64), source)[0] == drawn


def test_entries_that_share_a_prefix_are_told_apart() -> None:
    """At rate 60 every entry of the restricted law is 0.111... for 86 bits and more."""
    rate, size = Fraction(60), 5
    made = table(rate, size)
    ones = np.uint64((1 << 64) - 1)
    assert set(made.prefixes.tolist()) == {int(ones)}
    for j in range(1, size):
        words = digits(rate, size, j, 448)
        for step, drawn in ((1, j), (-1, j - 1)):
            following = [*words[1:-1], words[-1] + step]
            assert made.decide(np.array([ones]), Script(following))[0] == drawn


def test_the_first_sixteen_bits_are_extended_by_fresh_ones() -> None:
    """A cell that holds F_j: the rest of F_j's own digits decide, bit by bit."""
    made = table(RATE, 50)
    entry = int(made.prefixes[9])
    cell = np.array([entry >> 48], dtype=np.uint16)
    rest = entry & (1 << 48) - 1
    following = digits(RATE, 50, 10)[1]
    assert made.decide_cells(cell, Script([rest + 1 << 16]))[0] == 10
    assert made.decide_cells(cell, Script([rest - 1 << 16]))[0] == 9
    assert made.decide_cells(cell, Script([rest << 16, following + 1]))[0] == 10
    assert made.decide_cells(cell, Script([rest << 16, following - 1]))[0] == 9


def test_the_tail_is_drawn_afresh() -> None:
    made = table(RATE, None)
    last = len(made.prefixes)
    ones = (1 << 64) - 1
    middle = int(made.prefixes[4]) + 1
    assert made.decide(np.array([ones], dtype=np.uint64), Script([middle]))[0] == last + 5
    assert made.decide(np.array([ones], dtype=np.uint64), Script([ones, ones, middle]))[0] == 3 * last + 5


def test_bulk_draws_through_every_slow_path() -> None:
    """All-ones words: ambiguous cells in every digit, and the tail, in a call among ordinary ones."""
    drawn = noise.geometric(Fraction(1, 10**9), 5, entropy=Script([(1 << 64) - 1] * 5, seed=3))
    assert (drawn > 10 * 10**9).all()


def test_draws_saturate() -> None:
    drawn = noise.geometric(Fraction(1, 2**50), 4, entropy=Script([(1 << 64) - 1] * 2000))
    assert drawn.tolist() == [LARGEST] * 4


class TestReaching:
    """Draws of which only those that reach a bound are completed."""

    @pytest.mark.parametrize("rate", [Fraction(2), Fraction(1, 1500), Fraction(1, 10**9)])
    @pytest.mark.parametrize("reaching", [noise.geometric_reaching, noise.laplace_reaching])
    def test_what_it_returns_reaches(
        self,
        reaching: Callable[[Fraction, NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]],
        rate: Fraction,
    ) -> None:
        rng = np.random.default_rng(0)
        need = (rng.normal(0, 3, 70_000) / float(rate)).astype(np.int64)
        where, drawn = reaching(rate, need)
        assert where.dtype == drawn.dtype == np.int64
        assert (np.diff(where) > 0).all()
        assert (drawn >= need[where]).all()
        if reaching is noise.geometric_reaching:
            assert (drawn >= 0).all()
            assert np.isin(np.flatnonzero(need <= 0), where).all()

    def test_out_of_reach_and_always_reached(self) -> None:
        need = np.array([2**62, -(2**62), 2**62, 0])
        where, drawn = noise.geometric_reaching(Fraction(1, 1500), need)
        assert where.tolist() == [1, 3]
        assert (drawn >= 0).all()
        assert noise.laplace_reaching(Fraction(1, 1500), need[:3])[0].tolist() == [1]
        assert noise.geometric_reaching(1, np.zeros(0, dtype=np.int64))[0].shape == (0,)

    def test_an_undecided_top_digit_and_the_tail(self) -> None:
        """All-ones words put the top digit beyond its table; the draw still completes."""
        source = Script([(1 << 64) - 1] * 3, seed=1)
        where, drawn = noise.geometric_reaching(Fraction(1, 1500), np.array([1500 * 13]), entropy=source)
        assert where.tolist() == [0]
        assert drawn[0] >= 1500 * 13


@pytest.mark.parametrize("draw", [noise.geometric, noise.laplace])
def test_shapes(draw: Callable[..., NDArray[np.int64]]) -> None:
    for size, shape in ((0, (0,)), (3, (3,)), ((2, 5), (2, 5)), ((0, 4), (0, 4)), (100_001, (100_001,))):
        drawn = draw(Fraction(1, 1500), size)
        assert drawn.shape == shape
        assert drawn.dtype == np.int64


def test_one_draw_and_many_are_the_same_code() -> None:
    one = np.concatenate([noise.geometric(RATE, 1, entropy=SeededEntropy(seed)) for seed in range(200)])
    assert one.min() >= 0
    assert 5 < one.mean() < 40


@pytest.mark.parametrize("rate", [0, -1, Fraction(1, 2**50 + 1), 0.5, "1", True])
def test_rates_refused(rate: Number | bool) -> None:
    with pytest.raises(ValueError, match=r"rate|scale"):
        noise.geometric(rate, 3)  # type: ignore[arg-type]  # that is the test


def test_sizes_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        noise.geometric(1, -1)
    with pytest.raises(ValueError, match="bound"):
        noise.truncated_geometric(1, 0, 1)


def test_extreme_rates_are_drawn() -> None:
    assert noise.geometric(Fraction(10**30), 1000).max() == 0
    assert noise.geometric(Fraction(1, 2**50), 1000).max() > 2**45


def test_truncated_draws_stay_inside() -> None:
    assert set(noise.truncated_geometric(Fraction(1, 2), 3, 1000).tolist()) == {0, 1, 2}
    assert noise.truncated_geometric(Fraction(1, 2), 1, 10).tolist() == [0] * 10


class TestRanks:
    def test_permutations(self) -> None:
        assert sorted(noise.ranks(100).tolist()) == list(range(100))
        many = noise.ranks(6, trials=50)
        assert many.shape == (50, 6)
        assert (np.sort(many, axis=1) == np.arange(6)).all()
        assert noise.ranks(0).shape == (0,)
        assert noise.ranks(1, trials=3).tolist() == [[0]] * 3

    def test_equal_words_are_extended_until_they_differ(self) -> None:
        same = [5, 5, 5, 1]
        assert noise.ranks(4, entropy=Script([*same, 9, 9, 2, 7, 4, 3, 0, 0])).tolist() == [3, 2, 1, 0]

    def test_extended_in_one_trial_among_many(self) -> None:
        script = [1, 2, 8, 8, 0, 0, 4, 3]
        assert noise.ranks(2, trials=2, entropy=Script(script)).tolist() == [[0, 1], [1, 0]]


class TestGrid:
    @pytest.mark.parametrize(
        ("scale", "bits"),
        [(2000, 0), (1024, 0), (Fraction(2047, 2), 1), (512, 1), (10, 7), (1, 10), (Fraction(1, 10**6), 20)],
    )
    def test_resolution(self, scale: int | Fraction, bits: int) -> None:
        assert noise.resolution(Fraction(scale)) == bits

    def test_resolution_is_the_coarsest_that_does(self) -> None:
        for scale in (Fraction(1, 3), Fraction(7), Fraction(99, 10), Fraction(1000)):
            bits = noise.resolution(scale)
            assert Fraction(1, 2**bits) <= scale / 1024 < Fraction(2, 2**bits)

    def test_rate(self) -> None:
        assert noise.rate(Fraction(10), 7) == Fraction(1, 1280)

    @pytest.mark.parametrize(("scale", "bits"), [(1, -1), (1, 21), (2**50 + 1, 0), (2**31, 20), (0, 0)])
    def test_refused_from_public_parameters(self, scale: int, bits: int) -> None:
        with pytest.raises(ValueError, match=r"resolution|scale"):
            noise.rate(Fraction(scale), bits)

    def test_counts_are_cut_off_not_refused(self) -> None:
        counts = np.array([2**63 - 1, -(2**63), 2**40 + 1, 5])
        assert noise.place(counts, 20).tolist() == [2**60, -(2**60), 2**60, 5 << 20]
        assert noise.place(counts, 3).tolist() == [2**60, -(2**60), (2**40 + 1) * 8, 40]
        assert noise.place(counts, 0).tolist() == [2**60, -(2**60), 2**40 + 1, 5]
        assert counts[3] == 5
