"""A kept ladder: what follows from its numbers, by hand and by brute force; how it is written and read."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.estimates import KeptLadder
from dpsql.estimates.box_law import box_variance
from dpsql.kernel.mechanisms import Bins
from dpsql.kernel.mechanisms.ladder import thresholds
from dpsql.kernel.mechanisms.measure import pads
from tests.kept_ladders import interval_of

MADE = datetime(2026, 11, 12, 9, 30, tzinfo=UTC)


def kept(
    bins: tuple[int, ...], most: int = 16, epsilon: Fraction = Fraction(1, 2), step: Fraction = Fraction(1)
) -> KeptLadder:
    return KeptLadder(3, "visits", "rows", step, "a1b2", MADE, epsilon, most, bins)


def of_units(sizes: list[int], most: int) -> KeptLadder:
    """Return the ladder of these units without noise."""
    return kept(tuple(Bins.plan(most, 1).counts(sizes)), most)


def middles(most: int) -> list[float]:
    ends = thresholds(most)
    return [math.sqrt((low + 1) * high) for low, high in zip((0, *ends), ends, strict=False)] + [
        math.sqrt(2) * most
    ]


ONE_EACH = kept((1,) * 8)
"""One unit in each bin: 1, 2, 3 and 4, 5, 6 to 8, 9 to 11, 12 to 16, and above."""


def test_middles_are_of_the_whole_numbers_of_a_bin() -> None:
    known = [1, 2, math.sqrt(12), 5, math.sqrt(48), math.sqrt(99), math.sqrt(192), math.sqrt(512)]
    assert middles(16) == pytest.approx(known)
    assert ONE_EACH.total == pytest.approx(sum(known), abs=1e-5)
    assert ONE_EACH.cut(5) == pytest.approx(sum(each - 5 for each in known[4:]), abs=1e-5)
    assert ONE_EACH.cut(16) == pytest.approx(16 * (math.sqrt(2) - 1), abs=1e-5)
    assert ONE_EACH.cut(40) == 0


def test_one_size_a_bin_is_exact_where_bins_hold_one_whole_number() -> None:
    sizes = [1, 1, 2, 2, 2, 5, 5]
    ladder = of_units(sizes, 8)
    assert ladder.bins[-1] == 0
    for bound in range(9):
        assert ladder.cut(bound) == pytest.approx(sum(max(size - bound, 0) for size in sizes), abs=1e-5)


def test_numbers_above_a_threshold_are_made_to_decrease() -> None:
    # Above each end: 3, 4, 1, -1; the largest from above 4, 4, 1, -1; the least from below 3, 3, 1, -1.
    ladder = kept((-1, 3, 2, -1), 4)
    above = [3.5, 3.5, 1, 0]
    assert thresholds(4) == (1, 2, 4)
    sizes = middles(4)
    held = [a - b for a, b in zip(above, (*above[1:], 0), strict=True)]
    assert ladder.total == pytest.approx(sum(a * b for a, b in zip(held, sizes, strict=True)), abs=1e-5)
    assert ladder.cut(2) == pytest.approx(held[2] * (sizes[2] - 2), abs=1e-5)
    assert kept((-5, -2, -9, -1), 4).total == 0


@given(st.integers(0, 40).flatmap(lambda p: st.tuples(st.just(p), st.lists(st.integers(-99, 99)))))
def test_what_is_cut_is_convex_and_decreases_to_0(case: tuple[int, list[int]]) -> None:
    power, numbers = case
    size = len(thresholds(1 << power)) + 1
    ladder = kept(tuple((numbers * size + [0] * size)[:size]), 1 << power)
    bounds = sorted({0, *thresholds(1 << power), *range(30), 2 << power})
    cuts = [ladder.cut(bound) for bound in bounds]
    slopes = np.diff(cuts) / np.diff(bounds)
    assert cuts[0] == ladder.total
    assert cuts[-1] == 0
    assert min(cuts) >= 0
    assert (slopes <= 0).all()
    assert (np.diff(slopes) >= -1e-6 * max(1.0, cuts[0])).all()


NUMBERS = tuple(Bins.plan(1 << 10, 1).counts([3] * 900 + [20] * 300 + [300] * 40 + [900] * 3))


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 4), Fraction(2), Fraction(10**6)])
@pytest.mark.parametrize(("groups", "counts"), [(1, 1), (4, 1), (25, 1), (400, 3), (1, 5)])
@pytest.mark.parametrize("given_back", [True, False])
def test_the_bound_has_the_least_error(epsilon: Fraction, groups: int, counts: int, given_back: bool) -> None:
    """Of groups, each has the part d^(-3/4) of what is cut, or half of it if it gets its share back."""
    ladder = kept(NUMBERS, 1 << 10)

    def error(bound: int) -> float:
        lost = ladder.cut(bound) / (groups**0.75 * (2 if groups > 1 and given_back else 1))
        return 2 * box_variance(counts, pads(counts)) * (bound / float(epsilon)) ** 2 + lost**2

    found = ladder.choose_bound(epsilon, groups=groups, counts=counts, given_back=given_back)
    assert found in thresholds(1 << 10)
    assert error(found) == pytest.approx(min(error(bound) for bound in thresholds(1 << 10)))


def test_bounds_follow_epsilon_groups_and_counts() -> None:
    ladder = kept(NUMBERS, 1 << 10)
    by_epsilon = [ladder.choose_bound(Fraction(e)) for e in ("0.001", "0.1", "1", "100")]
    assert by_epsilon == sorted(by_epsilon)
    assert by_epsilon[0] < by_epsilon[-1] == 1 << 10
    many = replace(ladder, bins=tuple(1000 * each for each in NUMBERS))
    assert many.choose_bound(Fraction(1, 4)) == 1 << 10
    whole = ladder.choose_bound(Fraction(1, 4))
    assert ladder.choose_bound(Fraction(1, 4), groups=20) < whole
    kept_back = ladder.choose_bound(Fraction(1, 4), groups=20, given_back=False)
    assert ladder.choose_bound(Fraction(1, 4), groups=20) < kept_back
    assert ladder.choose_bound(Fraction(1, 4), counts=50) < whole
    in_cents = replace(ladder, step=Fraction(1, 100))
    assert in_cents.choose_bound(Fraction(1, 4)) == whole
    assert in_cents.cut(20) == pytest.approx(ladder.cut(20) / 100)
    assert in_cents.sd(20) == pytest.approx(ladder.sd(20) / 100)


def test_units_of_one_size_are_not_cut_at_the_middle_of_their_bin() -> None:
    """All units at the end of a bin: they cost much beyond its middle, and the interval knows it."""
    ladder = of_units([1000] * 5000, 1 << 10)
    assert ladder.choose_bound(Fraction(1, 4)) == 1 << 10
    low, high = interval_of(ladder, 5000 * 900.0, 1.0, 900)
    assert low < 5000 * 1000 < high


def test_the_deviation_is_that_of_the_noise_of_the_bins() -> None:
    beyond = [max(middle - 4, 0) for middle in middles(16)]
    assert ONE_EACH.sd(4) == pytest.approx(math.sqrt(2) * 4 * math.hypot(*beyond), rel=0.01)
    small = replace(ONE_EACH, epsilon=Fraction(1, 1000))
    assert small.sd(4) == pytest.approx(math.sqrt(2) * 2000 * math.hypot(*beyond), rel=1e-5)
    assert ONE_EACH.sd(40) == 0
    assert replace(ONE_EACH, epsilon=Fraction(10**6)).sd(4) < 1e-6


@pytest.mark.parametrize("confidence", [0.5, 0.95, Fraction(99, 100)])
def test_an_interval_covers_what_is_cut(confidence: float | Fraction) -> None:
    z = NormalDist().inv_cdf((1 + float(confidence)) / 2)
    low, high = interval_of(ONE_EACH, 100.0, 7.0, 5, confidence=confidence)
    beyond = [max(end - 5, 0) for end in (*thresholds(16), 32)]
    most, deviation = sum(beyond), math.sqrt(2) * 4 * math.hypot(*beyond)
    assert ONE_EACH.cut(5, largest=True) == most
    assert ONE_EACH.sd(5, largest=True) == pytest.approx(deviation, rel=0.01)
    deviation = ONE_EACH.sd(5, largest=True)
    assert ONE_EACH.most_cut(5, confidence=confidence) == pytest.approx(most + z * deviation)
    assert low == 93
    assert high == pytest.approx(100 + most + math.sqrt(49 + (z * deviation) ** 2))
    assert interval_of(ONE_EACH, 100.0, 7.0, 40) == (93, 107)
    shared = ONE_EACH.divide_by_shares([30, 10, -2], [7.0, 7, 5], 5, confidence=confidence)
    cut, twice = ONE_EACH.cut(5), 2 * (most + z * deviation)
    assert shared.value == pytest.approx([30 + 0.75 * cut, 10 + 0.25 * cut, -2])
    assert shared.low == pytest.approx([23, 3, -7])
    whole = min(40, ONE_EACH.total - cut)
    shares = [min(each / whole, 1) for each in (37, 17, 3)]
    assert shared.high == pytest.approx(
        [37 + shares[0] * twice, 17 + shares[1] * twice, 3 + shares[2] * twice]
    )
    assert shared.grows == pytest.approx(1 + cut / 40)


def test_intervals_of_groups_have_the_cut_of_all_that_a_group_may_have() -> None:
    """A group that noise shows as empty may have something, and its share of what is cut."""
    empty = ONE_EACH.divide_by_shares([40.0, -6.0], [8.0, 8.0], 5)
    assert empty.value[1] == -6
    assert empty.high[1] > 2 + 2 * ONE_EACH.cut(5) * 2 / 40
    assert empty.low[1] == -14


def test_selected_groups_have_half_of_their_share_of_what_the_ladder_leaves_of_its_total() -> None:
    cut = ONE_EACH.cut(5)
    left = ONE_EACH.total - cut
    measured = [left / 4, left / 8, 2 * left]
    shared = ONE_EACH.divide_by_shares(measured, 1.0, 5, selected=True)
    assert shared.value - np.array(measured) == pytest.approx([cut / 8, cut / 16, cut / 2])


def test_all_groups_as_selected_ones_get_back_half_of_what_is_cut() -> None:
    cut = ONE_EACH.cut(5)
    left = ONE_EACH.total - cut
    shared = ONE_EACH.divide_by_shares([left * 0.7, left * 0.3], 1.0, 5, selected=True)
    assert shared.value.sum() == pytest.approx(ONE_EACH.total - cut / 2)


def test_where_no_group_has_anything_each_has_an_even_share() -> None:
    shared = ONE_EACH.divide_by_shares([-1.0, -2.0], 1.0, 5)
    assert shared.value == pytest.approx([-1 + ONE_EACH.cut(5) / 2, -2 + ONE_EACH.cut(5) / 2])
    nothing = kept((0,) * 8).divide_by_shares([3.0], 1.0, 5, selected=True)
    assert nothing.value.tolist() == [3]
    assert nothing.high[0] > 4
    assert ONE_EACH.divide_by_shares([], 1.0, 5).value.shape == (0,)


def test_the_largest_ladder() -> None:
    most = 1 << 84
    ladder = kept((5,) * (len(thresholds(most)) + 1), most)
    assert 1 <= ladder.choose_bound(Fraction(1, 4)) <= most
    assert math.isfinite(ladder.sd(1))
    assert ladder.total > 5 * most


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=8, max_size=8),
    st.fractions(min_value=Fraction(1, 10**9), max_value=100),
    st.text(),
)
def test_it_reads_what_it_writes(bins: list[int], epsilon: Fraction, table: str) -> None:
    ladder = replace(kept(tuple(bins), epsilon=epsilon, step=epsilon), table=table)
    text = ladder.to_json()
    assert KeptLadder.from_json(text) == ladder
    assert KeptLadder.from_json(text).to_json() == text


def test_one_value_has_one_text() -> None:
    text = kept((1,) * 4, 4).to_json()
    assert text == (
        '{"bins":[1,1,1,1],"epsilon":"1/2","made":"2026-11-12T09:30:00+00:00","measure":"rows","most":4,'
        '"number":3,"step":"1","table":"visits","version":"a1b2"}'
    )
    elsewhere = MADE.astimezone(timezone(timedelta(hours=2)))
    assert KeptLadder.from_json(replace(ONE_EACH, made=elsewhere).to_json()).made == MADE


@pytest.mark.parametrize(
    "change",
    [
        {"bins": [1, 1, 1]},
        {"bins": [1, 1, 1, "1"]},
        {"bins": [1, 1, 1, 1.0]},
        {"bins": [1, 1, 1, True]},
        {"epsilon": "0"},
        {"epsilon": "2/4"},
        {"epsilon": "1/0"},
        {"epsilon": 0.5},
        {"most": 4.0},
        {"most": 0},
        {"made": "2026-11-12T09:30:00"},
        {"made": 5},
        {"number": None},
        {"table": 5},
        {"more": 1},
    ],
)
def test_anything_else_is_refused(change: dict[str, object]) -> None:
    right = json.loads(kept((1,) * 4, 4).to_json())
    with pytest.raises(ValueError, match=r"."):
        KeptLadder.from_json(json.dumps(right | change, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"bins":[]}', "5"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        KeptLadder.from_json(text)


@pytest.mark.parametrize("given_", [{"epsilon": Fraction(0)}, {"epsilon": Fraction(1), "counts": 0}])
def test_arguments_are_checked(given_: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        ONE_EACH.choose_bound(**given_)  # type: ignore[arg-type]  # whatever is given


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 4), Fraction(4)])
@pytest.mark.parametrize("groups", [1, 12])
def test_the_bound_of_averages_weighs_the_noise_against_what_intervals_assume(
    epsilon: Fraction, groups: int
) -> None:
    def error(bound: int) -> float:
        noise = 1.2 * bound * groups / float(epsilon)
        return noise**2 + (ONE_EACH.cut(bound) / 20) ** 2

    best = min(thresholds(ONE_EACH.most), key=error)
    assert ONE_EACH.choose_average_bound(epsilon, groups=groups) == best
    assert ONE_EACH.choose_average_bound(epsilon / 8, groups=groups) <= best


def test_an_epsilon_of_averages_is_positive() -> None:
    with pytest.raises(ValueError, match="epsilon must be positive"):
        ONE_EACH.choose_average_bound(Fraction(0))


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("error", [Fraction(1, 10), Fraction(3), Fraction(40)])
def test_a_bound_for_an_error_is_the_least_that_cuts_half_of_it(error: Fraction, groups: int) -> None:
    allowed = float(error) / 2 * (2 * groups**0.75 if groups > 1 else 1)
    ends = thresholds(ONE_EACH.most)
    least = next((end for end in ends if ONE_EACH.cut(end) <= allowed), ends[-1])
    assert ONE_EACH.bound_within(error, groups=groups) == least
    coarse = replace(ONE_EACH, step=Fraction(1, 100))
    assert coarse.bound_within(error / 100, groups=groups) == least


def test_an_error_for_a_bound_is_positive() -> None:
    with pytest.raises(ValueError, match="error must be positive"):
        ONE_EACH.bound_within(Fraction(0))
