"""What an estimate answers, refuses and leaves out, on reports by week, country and channel."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.reports import marginal_estimate
from dpsql.estimates.reports.marginal_estimate import Estimate, MarginalAnswer, Undetermined
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from dpsql.estimates.value_sets import ValueSet

COUNTRIES = Axis.of_groups("country", [f"c{i:02}" for i in range(12)])
CHANNELS = Axis.of_groups("channel", ["mail", "shop", "web"])
COMPLETE = {"country": ValueSet.of_values(COUNTRIES.labels), "channel": ValueSet.of_values(CHANNELS.labels)}


def week(first: int, last: int | None = None) -> Axis:
    values = ValueSet.of_range(first, first + 1 if last is None else last + 1)
    return Axis.of_condition("week", values, f"W{first}" if last is None else f"W{first} to W{last}")


def release(number: int, *axes: Axis, scale: float = 1.0, law: Law | None = None) -> ReleasedMarginal:
    marginal = Marginal(axes)
    values = np.random.default_rng(number).poisson(100, marginal.size).astype(np.float64)
    return ReleasedMarginal(number, marginal, values, NoiseDraw(law or Law("laplace"), scale))


def answer(estimate: Estimate, *axes: Axis) -> MarginalAnswer:
    found = estimate.answer(Marginal(axes))
    assert isinstance(found, MarginalAnswer)
    return found


def test_a_single_release_is_answered_by_itself() -> None:
    one = release(3, week(1), COUNTRIES, scale=2.0)
    found = answer(Estimate.of([one], COMPLETE), week(1), COUNTRIES)
    assert np.allclose(found.values, one.tensor())
    assert np.allclose(found.stddev, 2 * np.sqrt(2))
    assert np.allclose(found.high - found.values, -2 * np.log(0.05), rtol=1e-6)
    assert found.releases == (3,)


def test_weeks_are_solved_apart_and_added_up() -> None:
    released = [release(i, week(i), COUNTRIES) for i in range(1, 9)]
    estimate = Estimate.of(released, COMPLETE)
    found = answer(estimate, week(2, 5), COUNTRIES)
    assert np.allclose(found.values[0], sum(each.tensor()[0] for each in released[1:5]))
    assert found.releases == (2, 3, 4, 5)
    by_week = Axis.of_groups("week", range(1, 9))
    assert np.allclose(answer(estimate, by_week).values, [each.values.sum() for each in released])


def test_every_marginal_of_a_week_lowers_the_error_of_its_total() -> None:
    total = Marginal((week(1),))
    released = [release(1, week(1)), release(2, week(1), COUNTRIES), release(3, week(1), CHANNELS)]
    errors = [
        float(np.asarray(Estimate.of(released[:count], COMPLETE).variances(total)).item())
        for count in (1, 2, 3)
    ]
    # 1/2 + 1/24 + 1/6 of the precisions
    assert errors == pytest.approx([2, 1 / (1 / 2 + 1 / 24), 1 / (1 / 2 + 1 / 24 + 1 / 6)], rel=1e-9)


def test_without_a_complete_column_a_total_gains_nothing_from_its_groups() -> None:
    released = [release(1, week(1)), release(2, week(1), COUNTRIES)]
    assert np.asarray(Estimate.of(released).variances(Marginal((week(1),)))).item() == pytest.approx(2)
    only = Estimate.of(released[1:])
    assert isinstance(only.answer(Marginal((week(1),))), Undetermined)


def test_what_was_not_measured_is_named() -> None:
    released = [*(release(i, week(i), COUNTRIES) for i in (1, 2, 3)), release(9, week(2), CHANNELS)]
    estimate = Estimate.of(released, COMPLETE)
    by_week = Axis.of_groups("week", [1, 2, 3, 4])
    for wanted, text in (
        ((week(1), CHANNELS), "by channel of W1"),
        ((by_week, COUNTRIES), "by country of 4"),
        ((by_week, CHANNELS), "by week, channel"),
        ((week(3, 5),), "the total of W3 to W5"),
        ((COUNTRIES,), "by country"),
        ((week(2), CHANNELS, COUNTRIES), "by channel, country of W2"),
        ((week(1), Axis.of_groups("sex", ["f"])), "the total of W1, f"),
    ):
        found = estimate.answer(Marginal(wanted))
        assert isinstance(found, Undetermined), wanted
        assert found.text == text
    complete = {**COMPLETE, "week": ValueSet.of_range(1, 4)}
    assert answer(Estimate.of(released, complete), COUNTRIES).releases == (1, 2, 3, 9)


def test_an_empty_estimate_determines_nothing() -> None:
    assert isinstance(Estimate.of([]).answer(Marginal()), Undetermined)


def test_two_reports_are_never_in_one_estimate() -> None:
    one, other = release(1, week(1)), release(2, week(1))
    mixed = ReleasedMarginal(2, other.marginal, other.values, other.draw, report="other")
    with pytest.raises(ValueError, match="one report"):
        Estimate.of([one, mixed])


def test_marginals_of_one_draw_share_its_noise() -> None:
    law = Law("gaussian", 2, 0, 3.0)
    total = [release(1, week(1), law=law), release(1, week(2), law=law)]
    estimate = Estimate.of(total, COMPLETE)
    both = answer(estimate, week(1, 2)).stddev.item() ** 2
    assert both == pytest.approx(2 * 1 + 4 * 3)
    apart = Estimate.of([release(1, week(1), law=law), release(1, week(2), law=Law("gaussian", 2, 0, 3.0))])
    assert answer(apart, week(1, 2)).stddev.item() ** 2 == pytest.approx(2 * (1 + 3))


def test_a_domain_of_a_million_values_costs_as_much_as_one_of_a_hundred() -> None:
    young = Axis.of_condition("age", ValueSet.of_range(None, 30), "young")
    sizes = []
    for domain in (100, 1_000_000):
        universe = {**COMPLETE, "age": ValueSet.of_range(0, domain)}
        estimate = Estimate.of([release(1, young, COUNTRIES), release(2, COUNTRIES)], universe)
        answer(estimate, young, COUNTRIES)
        (group,) = estimate.groups
        sizes.append((group.system.unknowns(), group.system.largest_system()))
    assert sizes[0] == sizes[1] == (24, 2)


def test_releases_beyond_the_limits_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Axis.of_groups("user", range(marginal_estimate.MOST_ATOMS + 1))
    estimate = Estimate.of([release(1, COUNTRIES), release(2, large)], COMPLETE)
    (left,) = estimate.left_out
    assert (left.release, left.reason) == (2, "user has more than 2,000 groups")
    assert answer(estimate, COUNTRIES).releases == (1,)
    monkeypatch.setattr(marginal_estimate, "MOST_UNKNOWNS", 30)
    estimate = Estimate.of([release(1, COUNTRIES), release(2, COUNTRIES, CHANNELS)], COMPLETE)
    (left,) = estimate.left_out
    assert (left.release, left.reason) == (2, "more than 30 unknowns")
    assert answer(estimate, COUNTRIES).releases == (1,)
    monkeypatch.setattr(marginal_estimate, "MOST_TOGETHER", 10)
    some = Axis.of_groups("country", COUNTRIES.labels[:11])
    estimate = Estimate.of([release(1, COUNTRIES), release(2, some)], COMPLETE)
    (left,) = estimate.left_out
    assert left.reason == "more than 10 unknowns that conditions tie to each other"
    monkeypatch.setattr(marginal_estimate, "MOST_UNKNOWNS", 5)
    estimate = Estimate.of([release(1, COUNTRIES), release(2, week(1), COUNTRIES)], COMPLETE)
    assert [each.release for each in estimate.left_out] == [1, 2]
    assert isinstance(estimate.answer(Marginal((COUNTRIES,))), Undetermined)
    assert isinstance(estimate.answer(Marginal()), Undetermined)


def test_what_weeks_say_of_each_other_does_not_depend_on_when_they_came() -> None:
    complete = {**COMPLETE, "week": ValueSet.of_range(1, 3)}
    first = Estimate.of([release(1, week(1))], complete)
    assert isinstance(first.answer(Marginal()), Undetermined)
    assert answer(Estimate.of([release(2, week(2)), release(1, week(1))], complete)).releases == (1, 2)


def list_weeks(count: int) -> list[ReleasedMarginal]:
    released = []
    for number in range(count):
        axes = ((), (COUNTRIES,), (CHANNELS,), (COUNTRIES,), (CHANNELS,))
        released += [release(5 * number + i, week(number), *each) for i, each in enumerate(axes)]
        if number % 10 == 9:
            released.append(release(600 + number, week(number - 9, number)))
    return released


def answer_weeks(released: list[ReleasedMarginal], count: int) -> None:
    estimate = Estimate.of(released, COMPLETE)
    every, each = week(0, count - 1), Axis.of_groups("week", range(count))
    for axes in ((every, COUNTRIES), (every, CHANNELS), (every,), (each, COUNTRIES)):
        answer(estimate, *axes)


@pytest.mark.slow
def test_five_hundred_releases_are_solved_faster_than_one_dense_system() -> None:
    released = list_weeks(100)
    assert len(released) > 500
    dense = np.random.default_rng(1).normal(size=(3167, 1428))
    ratios = []
    for _ in range(3):
        started = time.process_time()
        np.linalg.inv(dense.T @ dense)
        base = time.process_time() - started
        started = time.process_time()
        answer_weeks(released, 100)
        ratios.append((time.process_time() - started) / base)
    assert min(ratios) < 2, ratios


def test_answers_of_many_weeks_take_little_memory() -> None:
    released = list_weeks(20)
    tracemalloc.start()
    answer_weeks(released, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6, peak


def test_numbers_are_their_weights_times_what_was_released() -> None:
    noise = np.random.default_rng(3)
    rows, columns = (Axis.of_groups(name, range(size)) for name, size in (("a", 4), ("b", 3)))
    low = Axis.of_condition("a", ValueSet.of_range(0, 2), "low")
    released = [
        ReleasedMarginal(number, Marginal(axes), noise.normal(size=Marginal(axes).size), draw)
        for number, (axes, draw) in enumerate(
            [
                ((rows, columns), NoiseDraw(Law("laplace"), 2.0)),
                ((rows,), NoiseDraw(Law("gaussian"), 1.0)),
                ((), NoiseDraw(Law("laplace"), 0.5)),
            ]
        )
    ]
    universe = {"a": ValueSet.of_range(0, 4), "b": ValueSet.of_range(0, 3)}
    estimate = Estimate.of(released, universe)
    for wanted in (Marginal((columns, rows)), Marginal((low, columns)), Marginal((rows,)), Marginal()):
        answer = estimate.answer(wanted)
        assert isinstance(answer, MarginalAnswer)
        values, variances = np.zeros(wanted.size), np.zeros(wanted.size)
        for each, weights in estimate.weigh(wanted):
            values += weights @ each.tensor().ravel()
            own = 2 if each.draw.law.kind == "laplace" else 1
            variances += own * each.draw.scale**2 * np.square(weights).sum(axis=1)
        assert values == pytest.approx(answer.values.ravel())
        assert np.sqrt(variances) == pytest.approx(answer.stddev.ravel())
