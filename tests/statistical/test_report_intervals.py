"""Intervals of reports over runs: they cover as they say, predictions hold, and asking again breaks them.

Errors are drawn from fixed seeds, as the continuous laws of the noises. What an estimate weighs is taken from
dense least squares, which `test_dense_least_squares` compares it with; half-widths are those of the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.reports.marginal_estimate import Estimate, MarginalAnswer
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from dpsql.estimates.reports.plan_candidates import Wanted
from dpsql.estimates.reports.plan_weights import Way
from dpsql.estimates.reports.report_plan import plan_report
from dpsql.estimates.value_sets import ValueSet
from tests.unit.estimates.reports.listed_cells import Cells, axis_of_prefixes, predict_run, solve_dense

Numbers = NDArray[np.float64]
A, B, C = (Axis.of_groups(name, range(size)) for name, size in (("a", 4), ("b", 3), ("c", 2)))
CELLS = Cells({"a": 4, "b": 3, "c": 2}, {"a": True, "b": True, "c": True})
LOW = Axis.of_condition("a", ValueSet.of_range(0, 2), "low")
SO_FAR = axis_of_prefixes("a", range(5), ["1", "2", "3", "4"])
WANTED = [Marginal(), Marginal((A,)), Marginal((LOW,)), Marginal((SO_FAR,)), Marginal((A, B)), Marginal((C,))]


def release(number: int, axes: tuple[Axis, ...], scale: float, law: Law | None = None) -> ReleasedMarginal:
    marginal = Marginal(axes)
    return ReleasedMarginal(
        number, marginal, np.zeros(marginal.size), NoiseDraw(law or Law("laplace"), scale)
    )


def draw_errors(released: list[ReleasedMarginal], runs: int, seed: int) -> Numbers:
    """Return errors of all numbers, float64[runs, numbers]."""
    noise = np.random.default_rng(seed)
    kept: dict[int, tuple[Numbers, Numbers]] = {}
    found = []
    for each in released:
        law, count = each.draw.law, each.marginal.size
        if law.kind == "laplace":
            unit = noise.laplace(size=(runs, count))
        elif law.kind == "gaussian":
            if id(law) not in kept:
                kept[id(law)] = noise.normal(size=(runs, 1)), np.zeros((runs, 1))
            unit = noise.normal(size=(runs, count)) + np.sqrt(law.shared) * kept[id(law)][0]
        else:
            if id(law) not in kept:
                side = noise.gamma(law.size + law.pads + 1, size=(runs, 1))
                pads = noise.random((runs, law.pads)) if law.pads else np.full((runs, 1), 0.5)
                kept[id(law)] = side, (pads.min(axis=1) + pads.max(axis=1))[:, None] / 2
            side, middle = kept[id(law)]
            factor = 2 if law.kind == "cube" else 1
            unit = factor * side * (noise.random((runs, count)) - middle)
        found.append(each.draw.scale * unit)
    return np.concatenate(found, axis=1)


def planned(way: Way) -> list[ReleasedMarginal]:
    statements = [Wanted(Marginal(each)) for count in range(4) for each in combinations((A, B, C), count)]
    plan = plan_report(statements, universe=CELLS.universe, way=way)
    return list(predict_run(plan, way, CELLS.universe).releases)


def box(shared_with: Law | None = None) -> list[ReleasedMarginal]:
    law = shared_with or Law("box", 24, 3)
    return [release(0, (A, B, C), 1.0, law), release(1, (A,), 20.0)]


REPORTS: dict[str, Callable[[], list[ReleasedMarginal]]] = {
    "one noise": lambda: [release(0, (A, B, C), 3.0)],
    "two noises": lambda: [release(0, (A, B, C), 1.0), release(1, (A, B, C), 1.0)],
    "a total and its groups": lambda: [release(0, (), 1.0), release(1, (A, B, C), 4.0)],
    "planned, pure": lambda: planned("pure"),
    "planned, gaussian": lambda: planned("gaussian"),
    "a box and groups": box,
    "a cube and groups": lambda: box(Law("cube", 24)),
    "a small box": lambda: [release(0, (A,), 1.0, Law("box", 4, 1)), release(1, (A, B, C), 9.0)],
    "noise in common": lambda: [
        *(release(0, each, 1.0, law) for law in [Law("gaussian", 7, 0, 1.0)] for each in ((A,), (B,))),
        release(1, (A, B, C), 2.0),
    ],
}


def find_coverage(released: list[ReleasedMarginal], runs: int, seed: int) -> list[tuple[Marginal, Numbers]]:
    """Return for each wanted marginal how often the interval of each of its numbers covers 0."""
    errors = draw_errors(released, runs, seed)
    estimate = Estimate.of(released, CELLS.universe)
    found = []
    for wanted in WANTED:
        answer = estimate.answer(wanted)
        assert isinstance(answer, MarginalAnswer)
        _, _, _, weights = solve_dense(CELLS, released, wanted)
        half = (answer.high - answer.low).ravel() / 2
        found.append((wanted, (np.abs(errors @ weights.T) <= half).mean(axis=0)))
    return found


@pytest.mark.parametrize(
    ("runs", "margin"),
    [(10_000, 0.008), pytest.param(100_000, 0.0, marks=pytest.mark.slow)],
    ids=["few", "more"],
)
@pytest.mark.parametrize("name", REPORTS)
def test_intervals_of_fixed_reports_cover(name: str, runs: int, margin: float) -> None:
    for wanted, coverage in find_coverage(REPORTS[name](), runs, 7):
        assert 0.945 - margin < coverage.min(), wanted.describe()
        assert coverage.max() < 0.965 + margin, wanted.describe()


@pytest.mark.parametrize(
    "law", [Law("laplace"), Law("box", 24, 3), Law("box", 4, 1), Law("cube", 24), Law("gaussian", 24, 0, 0.5)]
)
def test_intervals_of_a_single_release_have_its_law(law: Law) -> None:
    released = [release(0, (A, B, C), 2.0, law)]
    answer = Estimate.of(released, CELLS.universe).answer(Marginal((A, B, C)))
    assert isinstance(answer, MarginalAnswer)
    half = (answer.high - answer.low).ravel() / 2
    errors = draw_errors(released, 40_000, 9)
    # Numbers of a draw are not independent: 5 standard errors of one.
    assert (np.abs(errors) <= half).mean() == pytest.approx(0.95, abs=0.0055)


@pytest.mark.parametrize(("groups", "covered", "error"), [(12, 0.839, 1.52), (50, 0.591, 2.13)])
def test_asking_the_largest_group_again_and_combining_breaks_intervals(
    groups: int, covered: float, error: float
) -> None:
    """One estimate of adaptively chosen questions would not cover: why it is of one report alone.

    All groups are equal. The largest released number is asked again, and both are averaged.
    """
    runs, noise = 40_000, np.random.default_rng(5)
    axis = Axis.of_groups("a", range(groups))
    one = [release(0, (axis,), 1.0), release(1, (axis.take([0]),), 1.0)]
    answer = Estimate.of(one).answer(Marginal((axis.take([0]),)))
    assert isinstance(answer, MarginalAnswer)
    half = float((answer.high - answer.low).item()) / 2
    first = noise.laplace(size=(runs, groups))
    fresh = noise.laplace(size=runs)
    fixed, largest = (first[:, 0] + fresh) / 2, (first.max(axis=1) + fresh) / 2
    assert (np.abs(fixed) <= half).mean() == pytest.approx(0.95, abs=0.004)
    assert (np.abs(largest) <= half).mean() == pytest.approx(covered, abs=0.012)
    # Worse than the fresh number alone, whose error is 1.41.
    assert np.sqrt((largest**2).mean()) == pytest.approx(error, abs=0.02)


@pytest.mark.parametrize("way", ["pure", "gaussian"])
def test_errors_of_two_thousand_runs_are_as_predicted(way: Way) -> None:
    statements = [Wanted(Marginal(each)) for count in range(4) for each in combinations((A, B, C), count)]
    plan = plan_report(statements, universe=CELLS.universe, way=way)
    released = planned(way)
    ends = np.cumsum([each.marginal.size for each in released])
    # Answers are linear in the released numbers: what each adds is found by a release of 1 in its place.
    added: list[list[Numbers]] = [[] for _ in statements]
    for place in range(ends[-1]):
        units = np.split(np.eye(1, ends[-1], place)[0], ends[:-1])
        one = [
            ReleasedMarginal(each.release, each.marginal, unit, each.draw)
            for each, unit in zip(released, units, strict=True)
        ]
        estimate = Estimate.of(one, CELLS.universe)
        for statement, rows in zip(statements, added, strict=True):
            answer = estimate.answer(statement.marginal)
            assert isinstance(answer, MarginalAnswer)
            rows.append(answer.values.ravel())
    errors = draw_errors(released, 2000, 11)
    found = [float(np.sqrt(np.square(errors @ np.array(rows)).mean())) for rows in added]
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(
        np.sqrt(np.mean(np.square(plan.deviations))), rel=0.03
    )
    assert found == pytest.approx(plan.deviations, rel=0.1)
