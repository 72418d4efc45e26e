"""The error of weighted sums and ratios of measured numbers, against closed forms and the mechanisms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpsql.estimates.noise_laws import Law, NoiseDraw
from dpsql.estimates.noise_quantiles import laplace_half_width
from dpsql.estimates.noise_terms import (
    CutSides,
    RatioIntervals,
    TermWeights,
    errors,
    half_width,
    join_terms,
    stddev,
)
from dpsql.estimates.predictions import in_counts
from dpsql.kernel.mechanisms import Box

LAPLACE = NoiseDraw(Law("laplace"), 2.0)


def box_source(counts: int) -> NoiseDraw:
    plan = Box.plan(counts, 1)
    return NoiseDraw(Law("box", counts, plan.pads), in_counts(plan, 0, 1), plan.step(0))


def test_laplace_sums_have_the_exact_law() -> None:
    term = TermWeights((LAPLACE,) * 3, np.array([[1.0, -1.0, 0.5]]))
    assert half_width(term, 0.95) == pytest.approx(2 * laplace_half_width((1.0, 1.0, 0.5), 0.95), rel=1e-6)
    assert stddev(term) == pytest.approx(2 * math.sqrt(2 * 2.25))


def test_many_different_weights_are_merged_with_little_error() -> None:
    sizes = np.linspace(0.5, 1.5, 200)
    term = TermWeights((LAPLACE,) * 200, sizes[None])
    assert half_width(term, 0.95) == pytest.approx(1.96 * stddev(term), rel=0.01)


def test_gaussian_sums_have_what_they_share() -> None:
    source = NoiseDraw(Law("gaussian", 4, shared=0.5), 3.0)
    assert stddev(TermWeights((source, source), np.array([[1.0, 1.0]]))) == pytest.approx(
        3 * math.sqrt(2 + 2)
    )
    apart = TermWeights((source, source), np.array([[1.0, -1.0]]))
    assert stddev(apart) == pytest.approx(3 * math.sqrt(2)), "what both share cancels"
    assert half_width(apart, 0.95) == pytest.approx(1.96 * 3 * math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize(
    "weights",
    [(1.0,), (1.0, -1.0), (1.0,) * 12, (3.0, 1.0, 1.0, -2.0)],
    ids=["one", "difference", "sum", "mixed"],
)
def test_sums_of_box_noise_are_as_the_mechanism_draws_them(weights: tuple[float, ...]) -> None:
    source, plan = box_source(12), Box.plan(12, 1)
    drawn = plan.run(np.zeros((4_000, 12), dtype=np.int64)).value[:, : len(weights)] @ np.array(weights)
    term = TermWeights((source,) * len(weights), np.array([weights]))
    assert drawn.std() == pytest.approx(stddev(term), rel=0.08)
    # 4,000 draws: within six standard errors.
    assert np.mean(np.abs(drawn) <= half_width(term, 0.95)) == pytest.approx(0.95, abs=0.021)
    assert errors(term, 20_000).std() == pytest.approx(stddev(term), rel=0.05)


def test_a_running_sum_under_box_noise_is_not_a_sum_of_independent_ones() -> None:
    source = box_source(12)
    alone = stddev(TermWeights((source,), np.array([[1.0]])))
    together = stddev(TermWeights((source,) * 12, np.ones((1, 12))))
    assert together > 1.8 * math.sqrt(12) * alone


def test_terms_are_over_all_numbers_that_any_is_made_of() -> None:
    one, other = (0, 0, 0), (0, 0, 1)
    found = join_terms([{one: (LAPLACE, 1.0)}, {one: (LAPLACE, 2.0), other: (LAPLACE, 3.0)}])
    assert found.weights.tolist() == [[1.0, 0.0], [2.0, 3.0]]


def test_a_ratio_covers_the_share_that_it_should() -> None:
    source, plan = box_source(12), Box.plan(12, 1)
    truth = np.full(12, 150.0)
    weights = TermWeights((source,) * 12, np.stack([np.eye(12)[0], np.ones(12)]))
    held = 0
    for drawn in plan.run(np.tile(truth.astype(np.int64), (400, 1))).value:
        ends = RatioIntervals(0.95).find(float(drawn[0]), float(drawn.sum()), weights, None)
        assert ends is not None
        held += ends[0] <= 1 / 12 <= ends[1]
    assert held / 400 == pytest.approx(0.95, abs=0.055)


def test_a_ratio_has_no_end_where_its_divisor_may_be_0() -> None:
    weights = TermWeights((LAPLACE, LAPLACE), np.eye(2))
    assert RatioIntervals(0.95).find(100.0, 3.0, weights, None) is None
    found = RatioIntervals(0.95).find(100.0, 50.0, weights, None)
    assert found is not None
    assert found[0] < 2 < found[1]


def test_a_limit_on_numbers_together_moves_those_first_that_count_most() -> None:
    """As the best of all corners that the limit leaves, in 200 random cases."""
    made = np.random.default_rng(3)
    for _ in range(200):
        weights = made.integers(-3, 4, (1, 3)).astype(float)
        below, above = made.integers(0, 5, (2, 3)).astype(float)
        limit = float(made.integers(0, 9))
        sides = CutSides(weights, below, above, [(np.array([0, 2]), limit)])
        shifts = itertools.product(
            *(range(-int(low), int(high) + 1) for low, high in zip(below, above, strict=True))
        )
        sums = [float(weights[0] @ shift) for shift in shifts if abs(shift[0]) + abs(shift[2]) <= limit]
        assert sides.of(1.0) == (-min(sums), max(sums))


def test_what_bounds_left_out_widens_a_ratio_on_its_side() -> None:
    weights = TermWeights((LAPLACE, LAPLACE), np.eye(2))
    alone = RatioIntervals(0.95).find(100.0, 50.0, weights, None)
    above = CutSides(np.eye(2), np.zeros(2), np.array([20.0, 0.0]))
    wider = RatioIntervals(0.95).find(100.0, 50.0, weights, above)
    assert alone is not None
    assert wider is not None
    assert wider[0] == pytest.approx(alone[0], abs=1e-6)
    assert wider[1] > alone[1] + 0.3
