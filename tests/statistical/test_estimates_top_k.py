"""Estimates, intervals and p-values of noisy top-k with gap, over the mechanism as it is run.

The noise here is geometric on the grid with random ranks and floored gaps, drawn with numpy. Seeds are
fixed; with other seeds a bound of z standard errors would be crossed with probability 2 exp(-z^2/2), below
1e-9 for the 7 used here, whatever the number of runs.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpsql.estimates import (
    ErrorModel,
    GapNoise,
    LaplaceNoise,
    Measurement,
    Noise,
    Strategy,
    distinguishable_gap,
    exponential_mechanism_p_value,
    measuring_share,
    offsets,
    p_value,
    top_k_offsets,
)

RUNS = 40_000
SIGMAS = 7.0


def grid(scale: float) -> int:
    return max(0, math.ceil(math.log2(1024 / scale)))


def draw(
    rng: np.random.Generator, noise: str, scale: float, resolution: int, shape: tuple[int, int]
) -> NDArray[np.int64]:
    p = -math.expm1(-(2.0**-resolution) / scale)
    one_sided = rng.geometric(p, shape) - 1
    return one_sided - (rng.geometric(p, shape) - 1) if noise == "laplace" else one_sided


def noisy_top_k(
    rng: np.random.Generator,
    counts: NDArray[np.int64] | Sequence[int],
    k: int,
    scale: float,
    noise: str,
    *,
    resolution: int,
    runs: int = RUNS,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return indices and floored gaps of many runs at once."""
    counts = np.asarray(counts, dtype=np.int64) << resolution
    noisy = counts + draw(rng, noise, scale, resolution, (runs, counts.size))
    rank = rng.random(noisy.shape)
    order = np.argsort(-(noisy + rank), axis=1)[:, : k + 1]
    noisy, rank = np.take_along_axis(noisy, order, 1), np.take_along_axis(rank, order, 1)
    gap = noisy[:, :-1] - noisy[:, 1:] - (rank[:, :-1] < rank[:, 1:])
    return order[:, :k], gap * 2.0**-resolution


def planned(
    k: int, epsilon: int, strategy: Strategy, noise: Noise = "exponential", resolution: int | None = None
) -> ErrorModel:
    """A top-k at the share of its strategy, on the grid that suits its scale."""
    share = measuring_share(strategy, k, noise=noise)
    scale = float(k / (epsilon * (1 - share)))
    drawn = LaplaceNoise(float(k / (epsilon * share)), total=strategy == "ANCHOR")
    return ErrorModel(GapNoise(noise, scale, grid(scale) if resolution is None else resolution), k, drawn)


def estimate(
    rng: np.random.Generator,
    counts: NDArray[np.int64],
    model: ErrorModel,
    *,
    runs: int = RUNS,
    stretch: float = 1.0,
) -> NDArray[np.float64]:
    """Return errors of the estimates, float64[runs, k]; noise drawn at `stretch` times the scales."""
    gaps, k, measuring = model.gaps, model.k, model.measuring
    assert isinstance(gaps.scale, float)
    assert gaps.resolution is not None
    assert isinstance(measuring, LaplaceNoise)
    index, gap = noisy_top_k(
        rng, counts, k, stretch * gaps.scale, gaps.noise, resolution=gaps.resolution, runs=runs
    )
    true, unit, zero = np.asarray(counts)[index], np.eye(k), np.zeros(k)
    # the estimate is linear: its answers to unit inputs are its matrices, and one product does all runs
    of_gap = np.array([top_k_offsets(e, k) for e in np.eye(gap.shape[1])])
    y = gap @ of_gap + top_k_offsets(np.zeros(gap.shape[1]), k, gaps.resolution)
    drawn = stretch * float(measuring.scale)
    if measuring.total:
        from_y = np.array([model.estimate(e, Measurement(0, measuring)).value for e in unit])
        mean = (true.sum(axis=1) + rng.laplace(0, drawn, runs)) / k
        return y @ from_y + mean[:, None] - true
    from_y = np.array([model.estimate(e, Measurement(zero, measuring)).value for e in unit])
    from_each = np.array([model.estimate(zero, Measurement(e, measuring)).value for e in unit])
    return y @ from_y + (true + rng.laplace(0, drawn, true.shape)) @ from_each - true


def covered(errors: NDArray[np.float64], model: ErrorModel, confidence: float = 0.95) -> NDArray[np.float64]:
    around = offsets(model, confidence)
    return ((errors <= around.low) & (-errors <= around.high)).mean(axis=0)


@pytest.mark.parametrize("strategy", ["EACH", "ANCHOR"])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize(("k", "groups"), [(1, 3), (2, 4), (10, 12), (10, 10)])
@pytest.mark.sampled(5)
def test_intervals_cover_counts_far_apart(k: int, groups: int, strategy: Strategy, noise: Noise) -> None:
    """95 +- 0.5% of every item; false alarm below 1e-11 an item (7.2 standard errors)."""
    rng = np.random.default_rng([1, k, groups, strategy == "EACH", noise == "laplace"])
    model = planned(k, 1, strategy, noise)
    counts = np.arange(groups)[::-1] * 10_000
    errors = estimate(rng, counts, model)
    assert np.abs(covered(errors, model) - 0.95).max() <= 0.005
    spread = errors.std(axis=0)
    assert np.abs(spread / model.stddev() - 1).max() <= 0.04
    assert (np.abs(errors.mean(axis=0)) <= SIGMAS * spread / math.sqrt(RUNS)).all()
    for stretch in (0.7, 1.3):
        wrong = estimate(rng, counts, model, runs=20_000, stretch=stretch)
        assert np.abs(covered(wrong, model) - 0.95).min() > 0.01


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.99])
def test_intervals_cover_at_other_levels(confidence: float) -> None:
    """False alarm below 1e-9 an item: 7 standard errors."""
    rng = np.random.default_rng([2, int(100 * confidence)])
    model = planned(5, 1, "ANCHOR")
    errors = estimate(rng, np.arange(8)[::-1] * 10_000, model)
    near = SIGMAS * math.sqrt(confidence * (1 - confidence) / RUNS)
    assert np.abs(covered(errors, model, confidence) - confidence).max() <= near


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1), (2, 8), (5, 2), (10, 10), (20, 5)])
@pytest.mark.parametrize("strategy", ["EACH", "ANCHOR"])
@pytest.mark.sampled(5)
def test_intervals_cover_on_a_grid_of_whole_counts(k: int, epsilon: int, strategy: Strategy) -> None:
    """Geometric noise, also of scales near one count, where floors matter; 50,000 runs, 1e-9 an item."""
    rng = np.random.default_rng([3, k, epsilon])
    model = planned(k, epsilon, strategy, "geometric", 0)
    errors = estimate(rng, np.arange(k + 2)[::-1] * 10_000, model, runs=50_000)
    assert np.abs(covered(errors, model) - 0.95).max() <= 0.01
    assert np.abs(errors.std(axis=0) / model.stddev() - 1).max() <= 0.05
    near = SIGMAS * errors.std(axis=0) / math.sqrt(50_000)
    assert (np.abs(errors.mean(axis=0)) <= near).all()


@pytest.mark.parametrize(
    ("k", "each", "anchor"),
    [(2, 0.33, 0.50), (5, 0.53, 0.69), (10, 0.60, 0.76), (25, 0.64, 0.82), (50, 0.65, 0.84)],
)
@pytest.mark.sampled(3)
def test_gaps_cut_the_squared_error(k: int, each: float, anchor: float) -> None:
    """The table's reductions, rounded to percents, within 7 standard errors (false alarm below 1e-9)."""
    rng = np.random.default_rng([4, k])
    epsilon, runs = 1, 20_000
    baseline = 2 * (k / (epsilon / 2)) ** 2
    cases: tuple[tuple[Strategy, float], ...] = (("EACH", each), ("ANCHOR", anchor))
    for strategy, reduction in cases:
        model, counts = planned(k, epsilon, strategy), np.arange(k + 1)[::-1] * 10_000
        errors = estimate(rng, counts, model, runs=runs)
        squared = (errors**2).mean(axis=1) / baseline
        near = 0.005 + SIGMAS * squared.std() / math.sqrt(runs)
        assert abs(1 - squared.mean() - reduction) <= near
        for stretch in (0.7, 1.3):
            wrong = estimate(rng, counts, model, runs=2_000, stretch=stretch)
            assert abs(1 - (wrong**2).mean() / baseline - reduction) > near


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "strategy", "everyone", "first"),
    [
        ("exponential", "ANCHOR", 0.95, 0.77),
        ("exponential", "EACH", 0.95, 0.81),
        ("laplace", "ANCHOR", 0.98, 0.84),
        ("laplace", "EACH", 0.97, 0.90),
    ],
)
def test_what_is_documented_about_ties_is_so(
    noise: Noise, strategy: Strategy, everyone: float, first: float
) -> None:
    """100 equal counts, k = 10: the numbers of the module's docstring, to the percent."""
    rng = np.random.default_rng([5, len(noise), len(strategy)])
    model = planned(10, 1, strategy, noise)
    errors = estimate(rng, np.full(100, 1000), model, runs=50_000)
    found = covered(errors, model)
    assert found.mean() == pytest.approx(everyone, abs=0.0075)
    assert found[0] == pytest.approx(first, abs=0.0175)


@pytest.mark.parametrize("noise", ["exponential", "geometric"])
@pytest.mark.parametrize(
    ("counts", "k"),
    [((50, 50), 1), ((50, 50, 50, 20), 2), ((50, 49, 48, 47, 40), 4), ((60, 50, 50, 50, 50, 50), 5)],
)
def test_p_values_hold_when_an_outsider_is_as_large(counts: tuple[int, ...], k: int, noise: Noise) -> None:
    """Among the runs where the null is true, p <= level at most as often; exact binomial bound of 1e-9."""
    rng = np.random.default_rng([6, len(counts), noise == "geometric"])
    groups, scale = np.array(counts), 6.0
    resolution = 0 if noise == "geometric" else grid(scale)
    index, gap = noisy_top_k(rng, groups, k, scale, noise, resolution=resolution)
    p = p_value(gap, scale, noise)
    for i in range(k):
        inside = np.zeros((RUNS, groups.size), dtype=bool)
        np.put_along_axis(inside, index[:, : i + 1], True, axis=1)
        outsider = np.where(inside, -1, groups).max(axis=1)
        null = outsider >= groups[index[:, i]]
        runs = int(null.sum())
        assert runs > 1000
        for level in (0.01, 0.05, 0.3):
            assert (p[null, i] <= level).sum() <= stats.binom.isf(1e-9, runs, level)


def test_p_values_are_exact_for_two_equal_counts_and_wrong_scales_show() -> None:
    """Uniform under the null; at 0.7 of the scale too small, at 1.3 too large; 7 standard errors, 1e-9."""
    rng, scale = np.random.default_rng(7), 6.0
    _, gap = noisy_top_k(rng, [50, 50], 1, scale, "exponential", resolution=grid(scale))
    for level in (0.01, 0.05, 0.3):
        near = SIGMAS * math.sqrt(level * (1 - level) / RUNS)
        assert abs((p_value(gap, scale) <= level).mean() - level) <= near + 2e-4  # the floor to the grid
        assert (p_value(gap, 0.7 * scale) <= level).mean() > level + 2 * near
        assert (p_value(gap, 1.3 * scale) <= level).mean() < level - near


def test_the_p_value_would_be_wrong_under_laplace_noise() -> None:
    """Why it is refused: it would claim 5% about twice too often."""
    rng, scale = np.random.default_rng(8), 6.0
    _, gap = noisy_top_k(rng, [50, 50], 1, scale, "laplace", resolution=grid(scale))
    assert (np.exp(-gap / scale) <= 0.05).mean() > 0.10


@pytest.mark.parametrize("counts", [(50, 50), (50, 50, 50), (50, 48, 45, 10)])
def test_p_values_of_the_exponential_mechanism_hold(counts: tuple[int, ...]) -> None:
    """Index and gap by inverse transform; exact binomial bounds of 1e-9."""
    rng, scale = np.random.default_rng([9, len(counts)]), 4.0
    weight = np.exp(np.array(counts) / scale)
    index = rng.choice(len(counts), RUNS, p=weight / weight.sum())
    own = weight[index]
    others = weight.sum() - own
    # P(g >= x) = (w + W) / (w + e^x W)
    u = 1 - rng.random(RUNS)
    gap = np.maximum(0, np.log(((own + others) / u - own) / others)) * scale
    null = np.array(counts)[index] < max(counts) if len(set(counts)) > 1 else np.ones(RUNS, dtype=bool)
    runs = int(null.sum())
    assert runs > 1000
    for level in (0.01, 0.05, 0.3):
        found = (exponential_mechanism_p_value(gap[null], scale) <= level).sum()
        assert found <= stats.binom.isf(1e-9, runs, level)
        if counts == (50, 50):
            assert found >= stats.binom.ppf(1e-9, runs, level)
            wrong = (exponential_mechanism_p_value(gap, 0.7 * scale) <= level).sum()
            assert wrong > stats.binom.isf(1e-9, runs, level)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_counts_a_distinguishable_gap_apart_are_ordered_rightly(noise: Noise) -> None:
    """95% of the runs; 7 standard errors, 1e-9, plus half a count of rounding."""
    rng, scale = np.random.default_rng(10), 200.0
    apart = round(distinguishable_gap(noise, scale))
    near = SIGMAS * math.sqrt(0.95 * 0.05 / RUNS) + 0.05 * 0.5 / scale
    for stretch, right in ((1.0, True), (0.7, False), (1.3, False)):
        index, _ = noisy_top_k(rng, [apart, 0], 1, stretch * scale, noise, resolution=3)
        assert (abs(float((index[:, 0] == 0).mean()) - 0.95) <= near) == right
