"""Plans of reports: gains over even shares, exact shares, dense least squares, calendar blocks, refusals."""

from __future__ import annotations

import datetime as clock
import time
from fractions import Fraction
from itertools import combinations
from random import Random
from typing import get_args

import numpy as np
import pytest

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.reports.marginal_estimate import Estimate, Undetermined
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from dpsql.estimates.reports.plan_candidates import Candidate, Wanted, list_candidates
from dpsql.estimates.reports.plan_weights import LEAST_SHARE, Way
from dpsql.estimates.reports.report_plan import Per, Plan, plan_report
from dpsql.estimates.value_sets import ValueSet, unite
from dpsql.reports.measurement_plan import BLOCKS, choose_plan
from tests.unit.estimates.reports.listed_cells import (
    Cells,
    axis_of_prefixes,
    axis_of_ranges,
    draw_axis,
    draw_cells,
    predict_run,
    solve_dense,
)

WAYS: tuple[Way, ...] = get_args(Way)
SIZES = {"five": (12, 6, 4, 3, 2), "three": (3, 12, 10), "rollup": (2, 12, 31)}


def list_groupings(sizes: tuple[int, ...], most: int) -> list[Marginal]:
    axes = [Axis.of_groups(name, range(size)) for name, size in zip("abcde", sizes, strict=False)]
    return [Marginal(each) for count in range(most + 1) for each in combinations(axes, count)]


def pick(sizes: tuple[int, ...], names: list[str]) -> list[Marginal]:
    axes = {name: Axis.of_groups(name, range(size)) for name, size in zip("abcde", sizes, strict=False)}
    return [Marginal(tuple(axes[name] for name in each)) for each in names]


FILES = {
    "CUBE of 5": (SIZES["five"], list_groupings(SIZES["five"], 5)),
    "CUBE of 3": (SIZES["three"], list_groupings(SIZES["three"], 3)),
    "ROLLUP": (SIZES["rollup"], pick(SIZES["rollup"], ["", "a", "ab", "abc"])),
    "six statements": (SIZES["three"], pick(SIZES["three"], ["", "a", "b", "c", "ab", "bc"])),
    "pairs of 5": (SIZES["five"], list_groupings(SIZES["five"], 2)),
}


def complete(sizes: tuple[int, ...]) -> dict[str, ValueSet]:
    return {name: ValueSet.of_range(0, size) for name, size in zip("abcde", sizes, strict=False)}


def find_gain(plan: Plan, weights: list[int] | None = None) -> float:
    """Return by how much the root of the mean variance falls against even shares without an estimate."""
    even, planned = (
        float(np.average(np.square(each), weights=weights)) for each in (plan.even, plan.deviations)
    )
    return float(np.sqrt(even / planned))


@pytest.mark.parametrize(
    ("name", "way", "per", "least"),
    [
        ("CUBE of 5", "pure", "STATEMENT", 3.6),
        ("CUBE of 3", "pure", "STATEMENT", 1.55),
        ("ROLLUP", "pure", "STATEMENT", 1.285),
        ("six statements", "pure", "STATEMENT", 1.36),
        ("pairs of 5", "pure", "STATEMENT", 1.83),
        ("CUBE of 5", "gaussian", "STATEMENT", 1.815),
        ("CUBE of 3", "gaussian", "STATEMENT", 1.265),
        ("ROLLUP", "gaussian", "STATEMENT", 1.135),
        ("six statements", "gaussian", "STATEMENT", 1.185),
        ("pairs of 5", "gaussian", "STATEMENT", 1.465),
        ("CUBE of 5", "pure", "NUMBER", 10.0),
        ("ROLLUP", "pure", "NUMBER", 2.4),
        ("CUBE of 5", "gaussian", "NUMBER", 2.7),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_plans_gain_over_even_shares(name: str, way: Way, per: Per, least: float) -> None:
    sizes, marginals = FILES[name]
    plan = plan_report([Wanted(each) for each in marginals], universe=complete(sizes), way=way, per=per)
    gain = find_gain(plan, [each.size for each in marginals] if per == "NUMBER" else None)
    assert least <= gain < least * 1.05
    assert sum(share for _, share in plan.shares) == 1
    assert all(share >= Fraction(LEAST_SHARE) * Fraction(9, 10) for _, share in plan.shares)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.sampled(2, rest="longer")
def test_a_plan_is_not_behind_even_shares_with_least_squares(name: str, way: Way) -> None:
    sizes, marginals = FILES[name]
    universe = complete(sizes)
    plan = plan_report([Wanted(each) for each in marginals], universe=universe, way=way)
    even = Plan(tuple((Candidate(each), Fraction(1, len(marginals))) for each in marginals), (), (), ())
    means = []
    for each in (plan, even):
        estimate = predict_run(each, way, universe)
        found = [estimate.variances(marginal) for marginal in marginals]
        means.append(
            [float(np.mean(variances)) for variances in found if not isinstance(variances, Undetermined)]
        )
    assert np.sqrt(means[0]) == pytest.approx(plan.deviations, rel=1e-12)
    assert np.mean(means[0]) <= np.mean(means[1])


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 200), marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_deviations_are_those_of_dense_least_squares(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        cells = draw_cells(random)
        statements = [Wanted(draw_wanted(random, cells)) for _ in range(random.randint(1, 4))]
        way: Way = random.choice(WAYS)
        plan = plan_report(statements, universe=cells.universe, way=way)
        released = list(predict_run(plan, way).releases)
        for statement, deviation in zip(statements, plan.deviations, strict=True):
            _, variances, determined, _ = solve_dense(cells, released, statement.marginal)
            assert determined.all()
            assert deviation == pytest.approx(np.sqrt(variances.mean()), rel=1e-11)


def draw_wanted(random: Random, cells: Cells) -> Marginal:
    axes = [draw_axis(random, name, size) for name, size in cells.sizes.items() if random.random() < 0.6]
    return Marginal(tuple(axes))


def test_a_condition_is_measured_by_itself_or_by_the_groups_of_its_column() -> None:
    regions, sexes = Axis.of_groups("region", "abcd"), Axis.of_groups("sex", "fm")
    south = Axis.of_condition("region", ValueSet.of_values("cd"), "south")
    statements = [Wanted(Marginal((south, sexes))), Wanted(Marginal((regions,)))]
    found = {(each.marginal.columns, each.marginal.shape) for each in list_candidates(statements)}
    assert found == {
        (("region", "sex"), (1, 2)),
        (("region",), (1,)),
        (("region", "sex"), (4, 2)),
        (("region",), (4,)),
        (("sex",), (2,)),
        ((), ()),
    }


def test_conditions_that_exclude_each_other_are_measured_at_once() -> None:
    channels = Axis.of_groups("channel", range(6))
    parts = [Axis.of_condition("region", ValueSet.of_values(each), each) for each in "abc"]
    plan = plan_report([Wanted(Marginal((part, channels))) for part in parts])
    ((candidate, share),) = plan.shares
    assert candidate.marginal.shape == (6, 3)
    assert candidate.marginal.axes[1].labels == ("a", "b", "c")
    assert share == 1
    assert plan.deviations == pytest.approx([np.sqrt(2)] * 3)
    assert find_gain(plan) == pytest.approx(3)


def test_conditions_that_overlap_are_divided() -> None:
    low = Axis.of_condition("age", ValueSet.of_range(0, 30), "under 30")
    middle = Axis.of_condition("age", ValueSet.of_range(20, 40), "20 to 39")
    plan = plan_report([Wanted(Marginal((low,))), Wanted(Marginal((middle,)))])
    found = {candidate.marginal.axes[0].labels for candidate, _ in plan.shares}
    assert found == {("under 30 and 20 to 39", "under 30", "20 to 39")}


def test_the_same_statements_have_the_same_plan() -> None:
    sizes, marginals = FILES["CUBE of 3"]
    statements = [Wanted(each) for each in marginals]
    one, other = (plan_report(statements, universe=complete(sizes)) for _ in range(2))
    assert one.shares == other.shares
    assert one.deviations == other.deviations


DAYS = [clock.date(2025, 1, 1) + clock.timedelta(days=i) for i in range(366)]
TOTALS = Marginal((axis_of_prefixes("day", DAYS, [str(day) for day in DAYS[:-1]]),))


@pytest.mark.longer
@pytest.mark.parametrize(("way", "alone", "least"), [("pure", 2.0, 2.05), ("gaussian", 0.5, 3.7)])
def test_running_totals_of_a_year_gain_by_calendar_blocks(way: Way, alone: float, least: float) -> None:
    days = float(np.sqrt(alone * np.mean(np.arange(1, 366))))
    plan = plan_report([Wanted(TOTALS)], way=way)
    assert days / plan.deviations[0] >= least
    assert {candidate.marginal.shape for candidate, _ in plan.shares} <= {(365,), (53,), (12,), (4,)}
    estimate = predict_run(plan, way)
    variances = estimate.variances(TOTALS)
    assert not isinstance(variances, Undetermined)
    assert np.sqrt(variances.mean()) == pytest.approx(plan.deviations[0], rel=1e-9)
    one = estimate.variances(Marginal((Axis.of_groups("day", DAYS[3:4]),)))
    assert not isinstance(one, Undetermined)
    # The price of a single day, whose error is more than that of one that is measured alone.
    assert 1.5 < np.sqrt(one.item() / alone) < 2.1


def test_days_and_blocks_of_thirty_halve_the_error_of_running_totals() -> None:
    blocks = axis_of_ranges("day", [*DAYS[::30], DAYS[-1]], [str(i) for i in range(13)])
    days = axis_of_ranges("day", DAYS, [str(day) for day in DAYS[:-1]])
    plan = plan_report([Wanted(TOTALS)], [Candidate(Marginal((axis,))) for axis in (days, blocks)])
    assert np.sqrt(2 * 183) / plan.deviations[0] == pytest.approx(2.07, abs=0.005)


def test_sets_that_overlap_are_measured_as_what_they_consist_of() -> None:
    mixed = Axis("a", (ValueSet.of_values([1, 5]), ValueSet.of_values([5, 7])), ("x", "y"))
    plan = plan_report([Wanted(Marginal((mixed,)))])
    ((candidate, share),) = plan.shares
    assert share == 1
    assert candidate.marginal.axes[0].rows == tuple(ValueSet.of_values([i]) for i in (1, 5, 7))
    assert plan.deviations == pytest.approx(plan.even) == (pytest.approx(2.0),)


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        (DAYS[:-1], {365, 53, 12, 4}),
        ([*DAYS[:-1], None], {366, 53, 12, 4}),
        ([f"{i:03}" for i in range(64)], {64, 16, 8, 4}),
    ],
)
def test_running_totals_of_listed_values_have_blocks_of_neighbours(
    values: list[object], sizes: set[int]
) -> None:
    so_far = [ValueSet.of_values(values[: i + 1]) for i in range(len(values))]
    axis = Axis("day", tuple(so_far), tuple(map(str, values)))
    found = [each.marginal.axes for each in list_candidates([Wanted(Marginal((axis,)))])]
    assert {len(own[0].rows) for own in found if own} == sizes
    assert all(own[0].is_apart() for own in found if own)
    assert all(unite(own[0].rows) == so_far[-1] for own in found if own)


@pytest.mark.longer
def test_numbers_that_are_only_added_up_count_for_little() -> None:
    days = Marginal((axis_of_ranges("day", DAYS, [str(day) for day in DAYS[:-1]]),))
    both, shown = (
        plan_report([Wanted(TOTALS), Wanted(days, shown=shows)], way="gaussian") for shows in (True, False)
    )
    assert shown.deviations[0] < both.deviations[0] < 1.1 * both.even[0]
    assert shown.deviations[1] > both.deviations[1]
    assert shown.added_variance == pytest.approx(shown.deviations[1] ** 2)
    assert shown.mean_variance == pytest.approx(shown.deviations[0] ** 2)
    assert both.added_variance is None
    assert shown.even[0] == pytest.approx(np.sqrt(0.5 * np.mean(np.arange(1, 366))))


COUNTRIES, CHANNELS = Axis.of_groups("country", range(12)), Axis.of_groups("channel", range(6))
DASHBOARD = [
    Wanted(Marginal()),
    Wanted(Marginal((COUNTRIES,))),
    Wanted(Marginal((CHANNELS,))),
    Wanted(Marginal((COUNTRIES,)), None),
    Wanted(Marginal(), None),
    Wanted(Marginal((CHANNELS,)), 4),
]
BOTH = {"country": ValueSet.of_range(0, 12), "channel": ValueSet.of_range(0, 6)}


def test_a_weekly_dashboard_measures_two_of_its_six_statements() -> None:
    numbers = np.array([each.marginal.size for each in DASHBOARD])
    plan = plan_report(DASHBOARD, universe=BOTH, per="NUMBER")
    shares = {candidate.marginal.columns: float(share) for candidate, share in plan.shares}
    assert shares == {("country",): pytest.approx(0.7, abs=0.01), ("channel",): pytest.approx(0.3, abs=0.01)}
    variances = np.square(plan.deviations)
    assert np.sqrt(np.average(variances, weights=numbers)) == pytest.approx(8.7, abs=0.05)
    last = variances * [1, 1, 1, 52 / 26.5, 52 / 26.5, 4 / np.mean([min(t, 4) for t in range(1, 53)])]
    assert np.sqrt(np.average(last, weights=numbers)) == pytest.approx(11.5, abs=0.05)


def find_errors_of_a_year(plan: Plan) -> tuple[float, float]:
    """Return the root of the mean variance of all numbers of 52 weeks, and of those of the last one."""
    released, means = list[ReleasedMarginal](), []
    for number in range(1, 53):
        for candidate, share in plan.shares:
            if number % candidate.parts == 0:
                some = ValueSet.of_range(number - candidate.parts + 1, number + 1)
                weeks = Axis.of_condition("week", some, f"W{number}")
                marginal, noise = (
                    Marginal((weeks, *candidate.marginal.axes)),
                    NoiseDraw(Law("laplace"), float(1 / share)),
                )
                released.append(ReleasedMarginal(number, marginal, np.zeros(candidate.marginal.size), noise))
        estimate = Estimate.of(released, BOTH)
        variances: list[float] = []
        for wanted in DASHBOARD:
            first = 1 if wanted.window is None else max(1, number - wanted.window + 1)
            weeks = Axis.of_condition("week", ValueSet.of_range(first, number + 1), "so far")
            found = estimate.variances(Marginal((weeks, *wanted.marginal.axes)))
            assert not isinstance(found, Undetermined)
            variances += found.ravel().tolist()
        means.append(np.mean(variances))
    return float(np.sqrt(np.mean(means))), float(np.sqrt(means[-1]))


@pytest.mark.slow
def test_a_year_of_weekly_dashboards() -> None:
    three = [Candidate(each.marginal) for each in DASHBOARD[:3]]
    even = Plan(tuple((each, Fraction(1, 3)) for each in three), (), (), ())
    assert find_errors_of_a_year(even) == pytest.approx((12.9, 17.6), abs=0.05)
    planned = plan_report(DASHBOARD, universe=BOTH, per="NUMBER")
    assert find_errors_of_a_year(planned) == pytest.approx((8.7, 11.5), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("per", "length"), [("STATEMENT", 13), ("NUMBER", 12)])
def test_a_year_of_the_blocks_that_reports_choose(per: Per, length: int) -> None:
    sizes = [each.marginal.size if per == "NUMBER" else 1 for each in DASHBOARD]
    plans = [
        plan_report(DASHBOARD, list_candidates(DASHBOARD, blocks), BOTH, per=per)
        for blocks in ((), *BLOCKS["week"])
    ]
    plan = choose_plan(plans, sizes, [each.marginal.size for each in DASHBOARD])
    assert max(candidate.parts for candidate, _ in plan.shares) == length
    every, last = find_errors_of_a_year(plan)
    assert every <= 9.5
    assert last <= 12.5


@pytest.mark.parametrize("way", WAYS)
def test_blocks_of_parts_lower_the_error_of_totals_since_the_beginning(way: Way) -> None:
    means = []
    for blocks in ((), (4,), (4, 12)):
        plan = plan_report(DASHBOARD, list_candidates(DASHBOARD, blocks), BOTH, way=way)
        means.append(np.mean(np.square(plan.deviations)))
    assert means[1] < 0.85 * means[0]
    assert means[2] < means[0]


def test_predictions_with_blocks_of_parts_are_those_of_the_estimate() -> None:
    statements = [
        Wanted(Marginal((CHANNELS,))),
        Wanted(Marginal((CHANNELS,)), None),
        Wanted(Marginal(), None),
    ]
    plan = plan_report(statements, list_candidates(statements, (4,)), BOTH, way="gaussian", horizon=8)
    assert {candidate.parts for candidate, _ in plan.shares} == {1, 4}
    means = np.zeros(2)
    for weeks in range(1, 9):
        released = []
        for candidate, share in plan.shares:
            for first in range(0, weeks - candidate.parts + 1, candidate.parts):
                inside = ValueSet.of_range(first, first + candidate.parts)
                axes = (Axis.of_condition("week", inside, "block"), *candidate.marginal.axes)
                draw = NoiseDraw(Law("gaussian"), float(1 / (2 * share)) ** 0.5)
                zeros = np.zeros(candidate.marginal.size)
                released.append(ReleasedMarginal(0, Marginal(axes), zeros, draw))
        every = Axis.of_condition("week", ValueSet.of_range(0, weeks), "all")
        estimate = Estimate.of(released, BOTH)
        for place, axes in enumerate(((every, CHANNELS), (every,))):
            variances = estimate.variances(Marginal(axes))
            assert not isinstance(variances, Undetermined)
            means[place] += variances.mean() / 8
    assert np.sqrt(means) == pytest.approx(plan.deviations[1:], rel=1e-9)


def test_what_cannot_be_planned_is_refused() -> None:
    axis = Axis.of_groups("a", range(4))
    total, groups = Wanted(Marginal()), Wanted(Marginal((axis,)))
    with pytest.raises(ValueError, match="at least one statement"):
        plan_report([])
    with pytest.raises(ValueError, match="do not determine"):
        plan_report([total], [Candidate(Marginal((axis,)))])
    with pytest.raises(ValueError, match="tells the values of a apart"):
        plan_report([groups], [Candidate(Marginal())])
    halves = Candidate(Marginal((axis_of_ranges("a", [0, 2, 4], ["low", "high"]),)))
    with pytest.raises(ValueError, match="tells apart what a statement asks of a"):
        plan_report([groups], [halves])
    with pytest.raises(ValueError, match="no unit in common"):
        plan_report([total], [Candidate(Marginal((axis_of_prefixes("a", range(4), "abc"),)))])
    with pytest.raises(ValueError, match="whole shorter ones"):
        plan_report([total], [Candidate(Marginal(), parts) for parts in (1, 4, 6)])
    with pytest.raises(ValueError, match="at least one part"):
        Wanted(Marginal(), 0)


def test_many_groupings_leave_those_of_the_statements() -> None:
    axes = tuple(Axis.of_groups(name, range(3)) for name in "abcdefghi")
    statements = [Wanted(Marginal(axes)), Wanted(Marginal(axes[:1]))]
    assert len(list_candidates(statements)) == 2


@pytest.mark.slow
def test_thirty_two_candidates_are_planned_faster_than_a_dense_system_is_solved() -> None:
    sizes, marginals = FILES["CUBE of 5"]
    statements, universe = [Wanted(each) for each in marginals], complete(sizes)
    dense = np.random.default_rng(1).normal(size=(3167, 1428))
    ratios = []
    for _ in range(3):
        started = time.process_time()
        np.linalg.inv(dense.T @ dense)
        base = time.process_time() - started
        started = time.process_time()
        plan_report(statements, universe=universe)
        ratios.append((time.process_time() - started) / base)
    assert min(ratios) < 0.5, ratios
