"""Estimates and intervals of counts above a noisy threshold: sparse vector and hybrids.

Seeds are fixed; with other seeds a bound of z standard errors would be crossed with probability
2 exp(-z^2/2), below 1e-9 for the 7 used here.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import (
    ErrorModel,
    GapNoise,
    LaplaceNoise,
    Measurement,
    Noise,
    lower_bound_offset,
    offsets,
    sparse_vector_error,
    threshold_gap_offsets,
)
from tests.support.threshold_gap import threshold_gap_cdf

RUNS = 40_000
SIGMAS = 7.0


def draw(
    rng: np.random.Generator, noise: str, scale: float, shape: int | tuple[int, ...]
) -> NDArray[np.float64]:
    """Centred noise; geometric on whole counts."""
    if noise == "laplace":
        return rng.laplace(0, scale, shape)
    if noise == "geometric":
        r = math.exp(-1 / scale)
        return np.asarray(rng.geometric(1 - r, shape) - 1 - r / (1 - r), dtype=np.float64)
    return rng.exponential(scale, shape) - scale


def errors_of(rng: np.random.Generator, model: ErrorModel, stretch: float = 1.0) -> NDArray[np.float64]:
    """Errors of the estimates over many runs for hits far above the threshold: float64[RUNS, k]."""
    k, unit, zero, gaps, measuring = model.k, np.eye(model.k), np.zeros(model.k), model.gaps, model.measuring
    assert gaps.threshold_scale is not None
    scales = gaps.scale if isinstance(gaps.scale, tuple) else (gaps.scale,) * k
    eta = np.stack([draw(rng, gaps.noise, stretch * float(s), RUNS) for s in scales], axis=1)
    y = eta - draw(rng, gaps.noise, stretch * float(gaps.threshold_scale), RUNS)[:, None]
    if measuring is None:
        return y
    assert isinstance(measuring, LaplaceNoise)
    drawn = stretch * float(measuring.scale)
    if measuring.total:
        from_y = np.array([model.estimate(e, Measurement(0, measuring)).value for e in unit])
        from_total = model.estimate(zero, Measurement(1, measuring)).value
        return y @ from_y + rng.laplace(0, drawn, RUNS)[:, None] * from_total
    from_y = np.array([model.estimate(e, Measurement(zero, measuring)).value for e in unit])
    from_each = np.array([model.estimate(zero, Measurement(e, measuring)).value for e in unit])
    return y @ from_y + rng.laplace(0, drawn, (RUNS, k)) @ from_each


@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
@pytest.mark.parametrize("measuring", [None, LaplaceNoise(12.0), LaplaceNoise(25.0, total=True)], ids=str)
@pytest.mark.parametrize(("scale", "k"), [(9.0, 1), (9.0, 6), ((8.0, 16.0, 8.0, 32.0), 4)])
@pytest.mark.sampled(4)
def test_intervals_cover_hits_far_above(
    noise: Noise, measuring: LaplaceNoise | None, scale: float | tuple[float, ...], k: int
) -> None:
    """95 +- 0.5% of every item; false alarm below 1e-11 an item (7.2 standard errors)."""
    resolution = 0 if noise == "geometric" else None
    model = ErrorModel(GapNoise(noise, scale, resolution, 5.0), k, measuring)
    rng = np.random.default_rng([1, k, len(noise), len(str(measuring))])
    errors, around = errors_of(rng, model), offsets(model)
    found = ((errors <= around.low + 1e-9) & (-errors <= around.high + 1e-9)).mean(axis=0)
    if noise == "geometric" and measuring is None:  # whole counts: the smallest intervals that cover
        assert (found >= 0.945).all()
        assert (found <= 0.965).all()
    else:
        assert np.abs(found - 0.95).max() <= 0.005
    assert np.abs(errors.std(axis=0) / model.stddev() - 1).max() <= 0.04
    assert (np.abs(errors.mean(axis=0)) <= SIGMAS * model.stddev() / math.sqrt(RUNS)).all()
    for stretch in (0.7, 1.3):
        wrong = errors_of(rng, model, stretch)
        missed = ((wrong <= around.low) & (-wrong <= around.high)).mean(axis=0) - 0.95
        assert np.abs(missed).min() > 0.01
        assert (missed > 0).all() == (stretch < 1)


@pytest.mark.parametrize(("s1", "s0"), [(10.0, 4.0), (3.0, 9.0), (5.0, 5.0)])
@pytest.mark.parametrize("noise", ["exponential", "laplace", "geometric"])
def test_the_law_of_a_gap_over_a_threshold(noise: Noise, s1: float, s0: float) -> None:
    """The largest distance of distribution functions, by the Dvoretzky-Kiefer-Wolfowitz bound, 1e-9."""
    rng = np.random.default_rng([2, int(s1), int(s0), len(noise)])
    near = math.sqrt(math.log(2 / 1e-9) / (2 * RUNS))
    resolution = 0 if noise == "geometric" else None
    for stretch in (1.0, 0.7, 1.3):
        error = np.sort(draw(rng, noise, stretch * s1, RUNS) - draw(rng, noise, stretch * s0, RUNS))
        at = error[:: RUNS // 2000]
        below = np.searchsorted(error, at + 1e-6, side="right") / RUNS
        law = threshold_gap_cdf(at + 1e-6, noise, s1, s0, resolution=resolution)
        assert (float(np.abs(below - law).max()) <= near) == (stretch == 1.0)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_lower_bound_holds_at_its_level(noise: Noise, confidence: float) -> None:
    """7 standard errors, 1e-9. The formula for Laplace noise under exponential noise covers too little."""
    rng, s1, s0 = np.random.default_rng([3, int(100 * confidence)]), 4.0, 9.0
    error = draw(rng, noise, s1, RUNS) - draw(rng, noise, s0, RUNS)
    near = SIGMAS * math.sqrt(confidence * (1 - confidence) / RUNS)
    bound = lower_bound_offset(noise, s1, s0, confidence)
    assert abs((error <= bound).mean() - confidence) <= near
    assert (error <= 0.7 * bound).mean() < confidence - near
    assert (error <= 1.3 * bound).mean() > confidence + near / 2


def test_a_count_at_the_threshold_is_covered_as_documented() -> None:
    """94% among the runs where it passed."""
    rng = np.random.default_rng(4)
    error = draw(rng, "exponential", 10.0, RUNS) - draw(rng, "exponential", 4.0, RUNS)
    low, _ = threshold_gap_offsets("exponential", 10, 4)
    passed = error[error >= 0]
    assert (passed <= low).mean() == pytest.approx(0.94, abs=0.0075)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_sparse_vector_answers_rightly_beyond_its_error(noise: str) -> None:
    """At most 5% of the runs have any group on the wrong side by more; half as far would fail (1e-9)."""
    rng, s0, s1, n, branches, runs = np.random.default_rng(5), 4.0, 10.0, 50, 2, 20_000
    far = sparse_vector_error(s0, s1, n, branches=branches)
    threshold = draw(rng, noise, s0, (runs, 1))
    off = np.abs(draw(rng, noise, s1, (runs, n * branches)) - threshold).max(axis=1)
    near = SIGMAS * math.sqrt(0.05 * 0.95 / runs)
    assert (off > far).mean() <= 0.05 + near
    assert (off > far / 2).mean() > 0.05 + near
