"""Selection by rounds: what each mechanism returns, what a run is charged, and what is refused."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql.estimates.predictions import clear_gap
from dpsql.kernel.loss import BoundedRange, PrivacyLoss, PureDP
from dpsql.kernel.mechanisms import AdaptiveSparseVector, GumbelTopK, PeeledTopK, SparseVectorByRounds
from dpsql.kernel.mechanisms.weights import Weights
from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import gumbel_top_k, noisy_max, peeled_top_k, sparse_vector_by_rounds
from dpsql.noise import SeededEntropy

FAR = np.array([10**6, 50, 4 * 10**6, 0, 3 * 10**6])
PART: dict[Callable[..., Any], type[PureDP | BoundedRange]] = {
    peeled_top_k: PureDP,
    gumbel_top_k: BoundedRange,
}
"""What is known of each round: only without a gap is its range bounded."""


@pytest.mark.parametrize("choose", PART)
class TestTopK:
    def test_the_largest_in_order(self, choose: Callable[..., Any]) -> None:
        found = choose(FAR, 3, 3)
        assert (found.index.tolist(), found.index.dtype) == ([2, 4, 0], np.dtype(np.int64))
        assert choose(-FAR, 2, 2, lowest=True).index.tolist() == [2, 4]
        mixed = choose(np.array([FAR, FAR[::-1], FAR]), 2, 2)
        assert mixed.index.tolist() == [[2, 4], [2, 0], [2, 4]]

    @pytest.mark.parametrize(
        ("options", "factor"),
        [({}, 1), ({"monotone": False}, 2), ({"sensitivity": 5, "monotone": False}, 10)],
    )
    def test_each_round_has_an_equal_part(
        self, choose: Callable[..., Any], options: dict[str, Any], factor: int
    ) -> None:
        plan = choose(FAR, 3, "0.6", **options).plan
        assert plan.scale == factor / Fraction("0.2")
        assert plan.loss == PrivacyLoss((PART[choose](Fraction("0.2"), 3),))
        assert plan.loss.charge.epsilon == Fraction("0.6")

    @pytest.mark.parametrize(("groups", "k", "rounds"), [(2, 1, 1), (2, 2, 1), (3, 3, 2), (5, 9, 4)])
    def test_the_last_group_follows_from_the_others(
        self, choose: Callable[..., Any], groups: int, k: int, rounds: int
    ) -> None:
        for shape in ((groups,), (7, groups)):
            found = choose(np.zeros(shape, dtype=int), k, rounds)
            assert found.plan.loss == found.loss == PrivacyLoss((PART[choose](Fraction(1), rounds),))
            assert found.index.shape == (*shape[:-1], min(k, groups))
            chosen = np.sort(found.index, axis=-1)
            assert (np.diff(chosen, axis=-1) > 0).all()
            assert chosen.min() >= 0
            assert chosen.max() < groups

    @pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (3, 1)])
    def test_one_group_is_public(self, choose: Callable[..., Any], shape: tuple[int, ...]) -> None:
        found = choose(np.ones(shape, dtype=int), 2, 1)
        assert found.index.tolist() == np.zeros(shape, dtype=int).tolist()
        assert (found.plan.loss, found.plan.scale) == (PrivacyLoss(), 0)
        assert clear_gap(found.plan, Fraction(95, 100)) is None

    @pytest.mark.parametrize("epsilon", ["1e-13", 1, "1e9"])
    def test_no_count_raises(self, choose: Callable[..., Any], epsilon: int | str) -> None:
        found = choose([2**63 - 1, -(2**63), 0, 2**60 - 1], 3, epsilon, resolution=0)
        assert len(set(found.index.tolist())) == 3
        if epsilon == "1e9":
            assert set(found.index[:2].tolist()) == {0, 3}
            assert found.index[2] == 2

    @pytest.mark.parametrize(
        ("arguments", "options"),
        [
            (([1, 2], 0, 1), {}),
            (([1, 2], 1, 0), {}),
            (([1, 2], 1, 1), {"sensitivity": "1/2"}),
            (([1, 2], 1, 1), {"resolution": 21}),
            (([1.5, 2], 1, 1), {}),
            (([1, 2, 3], 2, "1e-20"), {}),
        ],
    )
    def test_refusals(
        self, choose: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        with pytest.raises(ValueError):
            choose(*arguments, **options)


def test_gaps_are_those_of_noisy_max_over_what_is_left() -> None:
    """With one and the same stream of random bits, rounds are noisy maxima one after the other."""
    bits, again = SeededEntropy(1), SeededEntropy(1)
    found = peeled_top_k([5, 3, 9, 0, 4], 3, 3, entropy=bits)
    left = np.array([5, 3, 9, 0, 4])
    for index, gap in zip(found.index, found.gap, strict=True):
        one = noisy_max(left[left >= 0], 1, entropy=again)
        assert np.flatnonzero(left >= 0)[one.index[0]] == index
        assert one.gap[0] == gap
        left[index] = -1


def test_gaps_of_all_groups_and_of_one() -> None:
    assert peeled_top_k(FAR, 5, 4).gap.shape == (4,)
    assert peeled_top_k(np.zeros((3, 4), dtype=int), 2, 1).gap.shape == (3, 2)
    assert peeled_top_k([7], 3, 1).gap.shape == (0,)
    with pytest.raises(ValueError, match="noise must be"):
        PeeledTopK.plan(3, 1, 1, noise="gauss")  # type: ignore[arg-type]  # wrong on purpose


def test_what_is_told_apart() -> None:
    level = Fraction(95, 100)
    assert clear_gap(PeeledTopK.plan(9, 4, 4), level) == pytest.approx(np.log(10), abs=0.01)
    assert clear_gap(GumbelTopK.plan(9, 4, 4), level) == pytest.approx(np.log(19))
    assert clear_gap(GumbelTopK.plan(9, 4, 4), Fraction(1, 3)) == 0


def test_weights_of_ascending_distances_are_the_same() -> None:
    rng = np.random.default_rng(3)
    for rate in (Fraction(1, 50), Fraction(1, 3), Fraction(40), Fraction(1, 2**50)):
        distance = np.sort(np.concatenate([[0, 0], rng.integers(0, 2 ** rng.integers(1, 61, 300))]))
        plain, sorted_ = Weights(distance, rate), Weights(distance, rate, ascending=True)
        one, other = (each.pick(3000, SeededEntropy(4)) for each in (plain, sorted_))
        assert np.array_equal(one, other)
        copies = rng.integers(1, 9, len(distance))
        plain, sorted_ = (
            Weights(distance, rate, copies=copies, ascending=ascending) for ascending in (False, True)
        )
        one, other = (each.pick(3000, SeededEntropy(4)) for each in (plain, sorted_))
        assert np.array_equal(one, other)


class TestSparseVector:
    ROW = np.array([0, 10**6, 5, 10**6, 10**6, 0, 10**6, 0])
    COUNTS = in_public_order(ROW)

    @pytest.mark.parametrize(
        ("k", "hits", "rounds"), [(1, 1, 1), (3, 3, 3), (4, 4, 4), (5, 4, 5), (99, 4, 5)]
    )
    def test_rounds_that_did_not_run_are_not_charged(self, k: int, hits: int, rounds: int) -> None:
        most = min(k, 8)
        found = sparse_vector_by_rounds(self.COUNTS, 1000, k, most)
        assert found.index.tolist() == [1, 3, 4, 6][:hits]
        assert found.units == rounds
        assert found.loss == PrivacyLoss.of(Fraction(1), times=rounds)
        assert found.plan.loss == PrivacyLoss.of(Fraction(1), times=most)
        assert found.loss.cost(Fraction(4)) * most == found.plan.loss.cost(Fraction(4)) * rounds
        assert (found.branch == 0).all()

    def test_after_the_last_group_no_round_begins(self) -> None:
        found = sparse_vector_by_rounds(in_public_order(np.array([0, 0, 10**6])), 1000, 3, 3)
        assert (found.index.tolist(), found.units) == ([2], 1)
        one = sparse_vector_by_rounds(in_public_order(np.array([0, 0, 10**6])), 1000, 1, 1)
        assert (one.index.tolist(), one.units) == ([2], 1)

    def test_without_groups_nothing_runs(self) -> None:
        found = sparse_vector_by_rounds(in_public_order(np.zeros(0, dtype=int)), 5, 3, 1)
        assert (found.index.tolist(), found.units, found.loss) == ([], 0, PrivacyLoss())

    def test_below(self) -> None:
        found = sparse_vector_by_rounds(in_public_order(-FAR), -1000, 2, 2, below=True)
        assert found.index.tolist() == [0, 2]

    def test_trials(self) -> None:
        rows = np.stack([self.ROW, self.ROW[::-1], np.zeros(8, dtype=int)])
        found = sparse_vector_by_rounds(in_public_order(rows), 1000, 5, 5)
        assert found.index.tolist() == [[1, 3, 4, 6, -1], [1, 3, 4, 6, -1], [-1] * 5]
        assert np.asarray(found.units).tolist() == [5, 5, 1]
        assert np.isnan(found.gap[2]).all()

    def test_scales_are_those_of_one_hit(self) -> None:
        plan = SparseVectorByRounds.plan(50, 7, 5, "0.5", sensitivity=2, monotone=False)
        one = AdaptiveSparseVector.plan(50, 7, 1, "0.1", branches=1, sensitivity=2, monotone=False)
        for fact in ("threshold_scale", "scales", "cutoffs", "offsets", "share", "resolution"):
            assert getattr(plan, fact) == getattr(one, fact)
        assert plan.hits == 5

    @pytest.mark.parametrize("hit", [0, 4095, 4096, 8191, 8192, 9999])
    def test_long_scans_find_every_hit(self, hit: int) -> None:
        """Counts are scanned in blocks; hits lie at their ends, side by side, and in one that has none."""
        counts = np.zeros(10_000, dtype=int)
        places = sorted({hit, min(hit + 1, 9999), 9999})
        counts[places] = 10**6
        found = sparse_vector_by_rounds(in_public_order(counts), 10**5, 9, 9)
        assert found.index.tolist() == places
        assert found.units == len(places)

    def test_a_bare_array_is_refused(self) -> None:
        with pytest.raises(TypeError, match="depends on positions"):
            sparse_vector_by_rounds(FAR, 3, 1, 1)
        with pytest.raises(ValueError, match="k must be"):
            sparse_vector_by_rounds(self.COUNTS, 3, 0, 1)

    def test_predicted_distance_counts_all_thresholds(self) -> None:
        plan = SparseVectorByRounds.plan(100, 7, 5, 5)
        assert clear_gap(plan, Fraction(95, 100)) == pytest.approx(4 * np.log(105 / 0.05))
