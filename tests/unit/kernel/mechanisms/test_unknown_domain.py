"""Limited domain and Top Stable: what they return and what they refuse."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.kernel.loss import Charge
from dpsql.kernel.mechanisms.top_stable import StableNoise, leads
from dpsql.kernel.mechanisms.unknown_domain import largest_groups
from dpsql.noise import SeededEntropy
from tests.narrow import of_type, present

FAR = [10**7, 8 * 10**6, 6 * 10**6, 4 * 10**6, 3 * 10**6, 40, 30, 20, 10, 5]
QUIET = 10**9
"""An epsilon at which noise is 0: the scale is far below a grid step."""


def limited_domain(*arguments: Any, **options: Any) -> mechanisms.LimitedTopK:
    return mechanisms.limited_domain(*arguments, **{"entropy": SeededEntropy(0), **options})


def top_stable(*arguments: Any, **options: Any) -> mechanisms.StableSet:
    return mechanisms.top_stable(*arguments, **{"entropy": SeededEntropy(0), **options})


def test_largest() -> None:
    position, kept = largest_groups(np.array([3, 9, 0, 9, -4, 2**62]), 4)
    assert position.tolist() == [5, 1, 3, 0]
    assert kept.tolist() == [2**60, 9, 9, 3, 0]
    position, kept = largest_groups([], 2)
    assert (position.tolist(), kept.tolist()) == ([-1, -1], [0, 0, 0])
    assert largest_groups([5, -(2**63)], 1)[0].tolist() == [0]
    assert largest_groups([5, -(2**63)], 2)[0].tolist() == [0, -1]
    assert largest_groups([5, 4, 3], 2)[0].tolist() == [0, 1]
    assert largest_groups([5, 4, 3], 2)[1].tolist() == [5, 4, 3]
    for rows in (np.tile([3, 9, 0], (2, 1)), np.broadcast_to(np.array([3, 9, 0]), (2, 3))):
        position, kept = largest_groups(rows, 3)
        assert position.tolist() == [[1, 0, -1]] * 2
        assert kept.tolist() == [[9, 3, 0, 0]] * 2


class TestLimitedDomain:
    def test_finds_what_stands_out(self) -> None:
        found = limited_domain(FAR, 3, 1, "1e-6")
        assert found.index.tolist() == [0, 1, 2]
        assert np.abs(found.gap - 2 * 10**6).max() < 10**4
        assert found.charge == Charge(Fraction(1), Fraction(1, 10**6))
        assert not found.reached_threshold
        assert (found.plan.groups, found.plan.scale) == (30, Fraction(3))
        assert found.index.dtype == np.int64
        assert found.gap.dtype == np.float64

    def test_pays_for_what_it_places(self) -> None:
        found = limited_domain(FAR, 8, 1, "1e-6")
        assert found.index.tolist() == [0, 1, 2, 3, 4]
        assert found.reached_threshold
        assert found.charge == Charge(Fraction(6, 8), Fraction(1, 10**6))
        # The cutoff is the clearance: with 80 candidates no group is left out.
        step = 2.0**-found.plan.resolution
        clearance = found.plan.clearance * step
        assert found.gap[4] == pytest.approx(3 * 10**6 - clearance, abs=500)
        assert clearance == pytest.approx(1 + 8 * np.log(80 / 2e-6), abs=step)

    @pytest.mark.parametrize("counts", [[], [1, 1, 1], [0, 0], np.zeros(500, dtype=np.int64), [-5, -7]])
    def test_few_groups_are_no_error(self, counts: NDArray[np.int64] | list[int]) -> None:
        found = limited_domain(counts, 3, 1, "1e-9", entropy=SeededEntropy(0))
        assert (found.index.tolist(), found.gap.tolist(), bool(found.reached_threshold)) == ([], [], True)
        assert found.charge == Charge(Fraction(1, 3), Fraction(1, 10**9))

    def test_where_the_bar_stands(self) -> None:
        """Without noise: Strictly above the largest group left out, by the clearance."""
        for c in (1, 5):
            plan = mechanisms.LimitedDomain.plan(3, QUIET, "1e-3", candidates=4, sensitivity=c)
            assert plan.clearance == c * 2**plan.resolution + 1
            counts = [100 + c + 1, 100 + c + 1, 100 + c, 100, 100, 100]
            found = limited_domain(counts, 3, QUIET, "1e-3", candidates=4, sensitivity=c)
            assert sorted(found.index.tolist()) == [0, 1]
            assert found.reached_threshold
            assert found.charge.epsilon == QUIET
            found = limited_domain(counts, 1, QUIET, "1e-3", candidates=4, sensitivity=c)
            assert len(found.index) == 1
            assert found.gap.tolist() == [0]

    def test_threshold(self) -> None:
        counts = [900, 800, 700, 600, 5, 4, 3]
        for threshold, rows in ((750, 2), ("700.5", 2), (700, 3), (5, 4), (-3, 4), (10**30, 0)):
            found = limited_domain(
                counts, 4, QUIET, "0.01", candidates=4, threshold=threshold, entropy=SeededEntropy(1)
            )
            # A group at the threshold itself ties with the bar: ranks decide.
            assert len(found.index) in ({rows, rows - 1} if threshold == 700 else {rows})
        for seed in range(10):  # rounded up to the grid, here of whole counts: 700 is not above 700.5
            found = limited_domain(
                counts, 4, QUIET, "0.01", threshold="700.5", resolution=0, entropy=SeededEntropy(seed)
            )
            assert found.index.tolist() == [0, 1]
        above = limited_domain(counts, 4, QUIET, "0.01", candidates=4, threshold=750)
        assert above.gap[-1] == pytest.approx(50, abs=2**-20)
        assert above.reached_threshold

    def test_unsorted_and_all_counts(self) -> None:
        counts = np.random.default_rng(0).permutation(2000)
        found = limited_domain(counts, 5, 10, "1e-6", candidates=200)
        assert (np.sort(counts[found.index]) > 1900).all()

    def test_huge_counts(self) -> None:
        for resolution in (0, 20):
            found = limited_domain(
                [2**63 - 1, 2**60, 2**40, 7], 2, 1, "1e-6", candidates=3, resolution=resolution
            )
            assert set(found.index.tolist()) <= {0, 1, 2}
            assert len(found.index) == 2

    def test_grid(self) -> None:
        found = limited_domain([50, 40, 30, 3, 2], 3, 20, "1e-6", resolution=2)
        assert found.plan.resolution == 2
        assert (found.gap * 4 == np.round(found.gap * 4)).all()
        fine = limited_domain(FAR, 3, 1, "1e-6")
        assert Fraction(1, 2**fine.plan.resolution) <= fine.plan.scale / 1024


class TestTopStable:
    @pytest.mark.parametrize("noise", ["one-sided", "laplace"])
    def test_the_largest_stable_set(self, noise: StableNoise) -> None:
        found = top_stable(FAR, 8, 1, "1e-6", noise=noise)
        assert found.index.tolist() == [0, 1, 2, 3, 4]
        assert found.stable == 5
        lead = found.margin + float(found.plan.lead)
        assert lead == pytest.approx(3 * 10**6 - 40, abs=2000)
        share = Fraction(37, 100) if noise == "laplace" else Fraction(15, 100)
        tests = found.plan.tests
        assert (tests.threshold_scale, tests.scale) == (1 / share, 2 / (1 - share))
        assert found.charge == Charge(Fraction(1), Fraction(1, 10**6))
        assert found.gap.tolist() == []

    @pytest.mark.parametrize("noise", ["one-sided", "laplace"])
    @pytest.mark.parametrize("counts", [[], [1, 1, 1], [9] * 40, np.zeros(500, dtype=np.int64), [-5, -7]])
    def test_nothing_stable_costs_the_threshold(
        self, counts: NDArray[np.int64] | list[int], noise: StableNoise
    ) -> None:
        found = top_stable(counts, 3, 1, "1e-9", noise=noise, share="1/4", entropy=SeededEntropy(0))
        assert (found.index.tolist(), int(found.stable), found.gap.tolist()) == ([], 0, [])
        assert np.isnan(found.margin)
        assert found.charge == Charge(Fraction(1, 4), Fraction(1, 10**9))

    def test_distance_takes_the_sensitivity(self) -> None:
        """Without noise the bar is 1 step for a delta below 1: a lead of c + 1 passes, one of c does not."""
        for c in (1, 5):
            for lead, rows in ((c, 0), (c + 1, 2)):
                found = top_stable([50 + lead, 50 + lead, 50], 2, QUIET, "1e-3", sensitivity=c)
                assert (int(found.stable), len(found.index)) == (rows, rows)

    def test_fewer_groups_than_the_set(self) -> None:
        found = top_stable([10**6], 4, 1, "1e-6")
        assert (found.index.tolist(), int(found.stable)) == ([0], 1)
        # A set that reaches into empty places, which only the bad event gives, has its real groups.
        many = [top_stable([3, 2], 6, 1, "0.999", share="1/2", entropy=SeededEntropy(s)) for s in range(400)]
        assert max(int(found.stable) for found in many) > 2
        assert all(found.index.tolist() == list(range(min(int(found.stable), 2))) for found in many)

    def test_choosing_from_a_larger_set(self) -> None:
        counts = [10**6 - 1000 * i for i in range(20)] + [5] * 80
        found = top_stable(counts, 4, 2, "1e-6", candidates=50)
        assert (int(found.stable), found.index.tolist()) == (20, [0, 1, 2, 3])
        assert found.gap.shape == (4,)
        choice = present(found.plan.choice)
        assert choice.scale == 8
        assert choice.loss.charge == Charge(Fraction(1, 2))
        assert found.charge == Charge(Fraction(2), Fraction(1, 10**6))
        assert found.plan.tests.threshold_scale == 1 / (Fraction(3, 20) * Fraction(3, 2))
        half = top_stable(counts, 4, 2, "1e-6", candidates=50, order_share="1/2")
        assert present(half.plan.choice).loss.charge == Charge(Fraction(1))
        # At i <= k they are ordered, too; with none that is stable, nothing of it is spent.
        few = top_stable(FAR, 5, 2, "1e-6", candidates=9)
        assert (few.index.tolist(), few.gap.shape, int(few.ordered)) == ([0, 1, 2, 3, 4], (4,), 5)
        assert few.charge == Charge(Fraction(2), Fraction(1, 10**6))
        none = top_stable([5] * 80, 5, 2, "1e-6", candidates=9)
        assert none.charge == Charge(Fraction(3, 2) * Fraction(3, 20), Fraction(1, 10**6))

    @pytest.mark.parametrize("counts", [[10**6, 9 * 10**5, 8 * 10**5], [9 * 10**5, 10**6, 8 * 10**5]])
    def test_a_set_of_k_or_fewer_is_ordered_for_a_share(self, counts: list[int]) -> None:
        found = top_stable([*counts, 5, 4], 3, 1, "1e-6", order_share="1/4")
        assert found.index.tolist() == sorted(range(3), key=lambda i: -counts[i])
        assert np.abs(found.gap - 10**5).max() < 1000
        assert found.charge == Charge(Fraction(1), Fraction(1, 10**6))
        assert present(found.plan.choice).scale == 8  # of two places: the third follows
        free = top_stable([*counts, 5, 4], 3, 1, "1e-6", order_share=0)
        assert (free.index.tolist(), free.gap.tolist(), int(free.ordered)) == ([0, 1, 2], [], 0)

    def test_one_group_has_no_order_to_pay_for(self) -> None:
        found = top_stable([10**6, 5, 4], 3, 1, "1e-6", order_share="1/4")
        assert (found.index.tolist(), found.gap.tolist(), int(found.ordered)) == ([0], [], 0)
        assert found.charge.epsilon == Fraction(3, 4)
        assert top_stable([10**6, 5], 1, 1, "1e-6", order_share="1/4").plan.choice is None

    @pytest.mark.parametrize("many", range(2, 8))
    def test_the_order_is_that_of_noisy_top_k_on_the_set_alone(self, many: int) -> None:
        """Its noise is for the largest set, and a smaller one has no more places: so the charges add."""
        plan = mechanisms.TopStable.plan(4, 1, "1e-6", candidates=7, order_share="1/3", sensitivity=2)
        choice = present(plan.choice)
        least = mechanisms.NoisyTopK.plan(many, 4, "1/3", sensitivity=2)
        assert choice.scale >= least.scale
        counts = [1000 * (20 - i) for i in range(many)] + [3] * 5
        found = plan.run(counts, mechanisms.NoiseSource(SeededEntropy(1)))
        entropy = SeededEntropy(1)
        source = mechanisms.NoiseSource(entropy)
        plan.tests.margins(leads(np.array([[*counts, 0][:8]]), Fraction(2)), source)
        alone = replace(choice, groups=many).run(counts[:many], source)
        assert (found.index.tolist(), found.gap.tolist()) == (alone.index.tolist(), alone.gap.tolist())
        assert found.charge.epsilon == 1

    def test_uniform_choice(self) -> None:
        counts = [10**6 - 1000 * i for i in range(6)] + [5] * 80
        seen = np.zeros(6)
        for seed in range(300):
            found = top_stable(
                counts, 2, 2, "1e-6", candidates=20, order_share=0, entropy=SeededEntropy(seed)
            )
            assert len(found.index) == 2
            assert found.charge.epsilon == 2
            assert found.gap.tolist() == []
            assert (np.diff(found.index) > 0).all()
            seen[found.index] += 1
        # 600 choices of 6 groups: 100 +- 8.2 each; seven deviations.
        assert np.abs(seen - 100).max() < 58

    def test_a_set_is_in_order_of_positions(self) -> None:
        found = top_stable([40, 9 * 10**5, 10**6, 30, 95 * 10**4], 3, 1, "1e-6")
        assert found.index.tolist() == [1, 2, 4]

    def test_huge_counts(self) -> None:
        for resolution in (0, 20):
            found = top_stable([2**63 - 1, 2**50, 7, 6], 3, 1, "1e-6", resolution=resolution)
            assert found.index.tolist() == [0, 1]


@pytest.mark.parametrize("mechanism", [limited_domain, top_stable])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"k": 0}, "k must"),
        ({"k": True}, "k must"),
        ({"epsilon": 0}, "epsilon must"),
        ({"epsilon": float("nan")}, "number"),
        ({"delta": 0}, "delta must"),
        ({"delta": 1}, "delta must"),
        ({"delta": "-1e-6"}, "delta must"),
        ({"candidates": 1}, "candidates must be at least k"),
        ({"candidates": 2.5}, "candidates must"),
        ({"sensitivity": 0}, "sensitivity must"),
        ({"sensitivity": "1.5"}, "sensitivity must"),
        ({"resolution": 21}, "resolution must"),
        ({"epsilon": "1e-16"}, "scale"),
        ({"epsilon": "1e-15", "delta": "1e-999"}, "scale"),
        ({"counts": [0.5]}, "counts must"),
        ({"counts": [[[1]]]}, "counts must"),
    ],
)
def test_refused(mechanism: Callable[..., object], arguments: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"counts": [3, 2, 1], "k": 2, "epsilon": 1, "delta": "1e-6", **arguments}
    counts = given.pop("counts")
    with pytest.raises(ValueError, match=says):
        mechanism(counts, **given)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"share": 0}, "share must"),
        ({"share": 1}, "share must"),
        ({"noise": "exponential"}, "noise must"),
        ({"order_share": 1}, "order_share must"),
        ({"order_share": "-1/4"}, "order_share must"),
    ],
)
def test_refused_by_top_stable(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        top_stable([3, 2, 1], **{"k": 2, "epsilon": 1, "delta": "1e-6", **arguments})


def test_refused_by_limited_domain() -> None:
    with pytest.raises(ValueError, match="number"):
        limited_domain([1], 1, 1, "1e-6", threshold=float("inf"))
    with pytest.raises(ValueError, match="scale"):
        limited_domain([1], 1, 10**30, "1e-6", sensitivity=10**30)


def test_a_sensitivity_beyond_all_counts_leaves_nothing_stable() -> None:
    assert top_stable([2**40, 2**39], 2, 10**30, "1e-6", sensitivity=10**30).stable == 0


@pytest.mark.parametrize("candidates", [2, 3])
def test_trials_are_runs(candidates: int) -> None:
    """Of trials each row is padded, and has its own charge."""
    counts = np.array([[0, 9, 10**6, 9 * 10**5, 10**6], [0, 0, 0, 10**6, 0], [0, 0, 0, 0, 0]])
    found = limited_domain(counts, 2, 1, "1e-6", candidates=candidates)
    assert np.sort(found.index, axis=1).tolist()[1:] == [[-1, 3], [-1, -1]]
    assert of_type(found.units, np.ndarray).tolist() == [2, 2, 1]
    assert np.isnan(found.gap).tolist() == (found.index < 0).tolist()
    stable = top_stable(counts, 2, 1, "1e-6", candidates=candidates)
    assert stable.stable.tolist() == [candidates, 1, 0]
    assert of_type(stable.units, np.ndarray).tolist() == [candidates - 1, 1, 0]
    assert np.sort(stable.index, axis=1).tolist() == [[2, 4], [-1, 3], [-1, -1]]
    assert np.isnan(stable.margin).tolist() == [False, False, True]
    width = 2 if candidates > 2 else 0
    assert np.isnan(stable.gap).tolist() == [[False] * width, [True] * width, [True] * width]
