"""The laws of the errors: closed formulas, numeric inversion and variances must tell the same story."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpsql.estimates import (
    BoxNoise,
    ErrorModel,
    GapNoise,
    LaplaceNoise,
    Measurement,
    MeasuringNoise,
    Noise,
    blue,
    count_offset,
    from_measurement,
    from_threshold,
    from_top_k,
    laplace_variance,
    lower_bound_offset,
    noise_variance,
    offsets,
    threshold_gap_offsets,
    top_k_offsets,
)
from dpsql.estimates.noise_quantiles import NoiseTerm, quantiles
from tests.support.threshold_gap import threshold_gap_cdf

SCALES = [(10.0, 4.0), (3.0, 9.0), (5.0, 5.0), (5.0, 5.0 + 1e-7)]


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("resolution", [0, 3])
def test_variances_are_those_of_the_probabilities(scale: float, resolution: int) -> None:
    gamma = 2.0**-resolution
    step = np.arange(int(60 * scale / gamma) + 60)
    r = math.exp(-gamma / scale)
    p = (1 - r) * r**step
    one_sided = gamma**2 * (p @ step**2 - (p @ step) ** 2)
    assert noise_variance("exponential", scale, resolution) == pytest.approx(one_sided)
    assert noise_variance("geometric", scale, resolution) == pytest.approx(one_sided)
    assert laplace_variance(scale, resolution) == pytest.approx(2 * one_sided)
    assert noise_variance("laplace", scale, resolution, ranked=True) == pytest.approx(
        2 * one_sided + gamma**2 / 12
    )
    # the remainder below the grid makes up for what the floor took away
    if scale >= 2:
        assert noise_variance("exponential", scale, resolution, ranked=True) == pytest.approx(
            scale**2, rel=1e-2
        )


def test_extreme_scales_neither_overflow_nor_cancel() -> None:
    assert 0 < noise_variance("exponential", Fraction(1, 10**6), 0) < 1e-100, "BLUE divides by it"
    assert noise_variance("exponential", 2.0**40, 0) == pytest.approx(2.0**80, rel=1e-12)
    for wrong in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="scale"):
            noise_variance("exponential", wrong)
    with pytest.raises(ValueError, match="noise must be one of"):
        noise_variance("gaussian", 1)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("n", [1, 2, 30, 10_000])
@pytest.mark.parametrize("tail", [0.025, 0.1, 1e-4])
def test_law_of_a_sum_of_exponentials_is_gamma(n: int, tail: float) -> None:
    low, high = quantiles((NoiseTerm(False, 2.0, n),), tail)
    gamma = stats.gamma(n, scale=2.0)
    deviation = 2.0 * math.sqrt(n)
    # the density of one exponential jumps and that of two has a kink: the hardest laws to invert
    near = {1: 3e-2, 2: 5e-3}.get(n, 1e-4) * deviation
    assert low == pytest.approx(gamma.ppf(tail) - 2.0 * n, abs=near)
    assert high == pytest.approx(gamma.isf(tail) - 2.0 * n, abs=1e-4 * deviation)
    assert quantiles((NoiseTerm(False, -2.0, n),), tail) == pytest.approx((-high, -low))


def test_law_of_many_noises_is_nearly_normal_and_of_few_is_not() -> None:
    for term in (NoiseTerm(True, 1.0, 10_000), NoiseTerm(False, 1.0, 10_000)):
        low, high = quantiles((term,), 0.025)
        assert (high - low) / 2 / math.sqrt(term.variance) == pytest.approx(1.959964, abs=2e-3)
    assert quantiles((NoiseTerm(True, 1.0),), 0.001)[1] / math.sqrt(2) > 4.0  # normal: 3.09


@pytest.mark.parametrize(("s1", "s0"), SCALES)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_the_formulas_of_a_gap_over_a_threshold_agree_with_the_inverted_law(
    noise: Noise, s1: float, s0: float, level: float
) -> None:
    laplace = noise == "laplace"
    low, high = threshold_gap_offsets(noise, s1, s0, level)
    inverted = quantiles((NoiseTerm(laplace, s1), NoiseTerm(laplace, -s0)), (1 - level) / 2)
    assert (low, -high) == pytest.approx((inverted[1], inverted[0]), abs=2e-3 * (s1 + s0))
    assert threshold_gap_cdf(low, noise, s1, s0) == pytest.approx((1 + level) / 2)
    assert threshold_gap_cdf(-high, noise, s1, s0) == pytest.approx((1 - level) / 2)
    assert threshold_gap_cdf(lower_bound_offset(noise, s1, s0, level), noise, s1, s0) == pytest.approx(level)


def test_lemma_5_as_printed_with_the_scales_of_the_general_case() -> None:
    eps0, eps = 0.3, 0.2  # query noise of scale 2/eps: put eps/2 for the paper's eps
    half = eps / 2
    for t in (0.5, 3.0, 40.0):
        printed = 1 - (eps0**2 * math.exp(-half * t) - half**2 * math.exp(-eps0 * t)) / (
            2 * (eps0**2 - half**2)
        )
        assert threshold_gap_cdf(t, "laplace", 2 / eps, 1 / eps0) == pytest.approx(printed)
        equal = 1 - (2 + eps0 * t) / 4 * math.exp(-eps0 * t)
        assert threshold_gap_cdf(t, "laplace", 1 / eps0, 1 / eps0) == pytest.approx(equal)


@pytest.mark.parametrize(("s1", "s0"), [(3.0, 1.5), (1.0, 2.0), (0.4, 0.7), (20.0, 6.0)])
def test_geometric_gaps_over_a_threshold_match_enumeration(s1: float, s0: float) -> None:
    size = int(45 * max(s1, s0)) + 10
    p1, p0 = ((1 - math.exp(-1 / s)) * np.exp(-np.arange(size) / s) for s in (s1, s0))
    law = np.convolve(p1, p0[::-1])  # of G1 - G0 = -(size-1) .. size-1
    centre = sum(sign * math.exp(-1 / s) / (1 - math.exp(-1 / s)) for sign, s in ((1, s1), (-1, s0)))
    e = np.arange(-(size - 1), size) - centre
    cdf = law.cumsum()
    np.testing.assert_allclose(threshold_gap_cdf(e, "geometric", s1, s0, resolution=0), cdf, atol=1e-9)
    np.testing.assert_allclose(threshold_gap_cdf(e + 0.5, "geometric", s1, s0, resolution=0), cdf, atol=1e-9)
    for level in (0.2, 0.5, 0.9, 0.95, 0.999):
        low, high = threshold_gap_offsets("geometric", s1, s0, level, resolution=0)
        tail = (1 - level) / 2
        assert low == pytest.approx(e[np.flatnonzero(1 - cdf <= tail)[0]])
        assert -high == pytest.approx(e[np.flatnonzero(cdf - law <= tail)[-1]])


def test_a_fine_grid_changes_nothing_that_matters() -> None:
    for noise in ("exponential", "laplace"):
        fine = threshold_gap_offsets(noise, 10, 4, resolution=10)
        assert fine == pytest.approx(threshold_gap_offsets(noise, 10, 4), abs=2e-3)


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.3])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.95, 0.9999])
def test_count_offset_is_the_smallest_that_covers(scale: float, level: float) -> None:
    step = np.arange(-2000, 2001)
    r = math.exp(-1 / scale)
    p = (1 - r) / (1 + r) * r ** np.abs(step)
    width = count_offset(scale, level, resolution=0)
    assert p[np.abs(step) <= width].sum() >= level - 1e-12
    assert width == 0 or p[np.abs(step) < width].sum() < level
    assert count_offset(scale, level) == pytest.approx(stats.laplace(scale=scale).ppf((1 + level) / 2))


EACH, ANCHOR, BOX = LaplaceNoise(7), LaplaceNoise(20, total=True), BoxNoise(30.0, 12.0)
MODELS = [
    ErrorModel(GapNoise(noise, scale, None, threshold, ranked), k, measuring)
    for noise in ("exponential", "laplace")
    for k, scale in ((2, 5), (6, 5), (6, (4.0, 8.0, 4.0, 16.0, 8.0, 8.0)))
    for measuring in (EACH, ANCHOR, BOX, BoxNoise(30.0, 0.0), None)
    for threshold, ranked in ((None, None), (3, None), (5, True))
    if not (threshold is None and measuring is None)
    if not (isinstance(scale, tuple) and (threshold is None or ranked))
]


def measurement(noise: MeasuringNoise | None, each: NDArray[np.float64]) -> Measurement | None:
    """The counts as this noise measures them, without any noise."""
    if noise is None:
        return None
    total = isinstance(noise, LaplaceNoise) and noise.total
    return Measurement(float(each.sum()) if total else each, noise)


@pytest.mark.parametrize("model", [m for m in MODELS if not isinstance(m.measuring, BoxNoise)], ids=str)
def test_the_weighted_noises_have_the_variance_of_the_blue(model: ErrorModel) -> None:
    _, _, group = model.groups()
    spread = [sum(term.variance for term in model.terms(g)) for g in group]
    np.testing.assert_allclose(np.sqrt(spread), model.stddev())


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_weights_are_those_of_the_blue(model: ErrorModel) -> None:
    """Feed the blue unit noises one by one: the error must move as the terms say."""
    _, _, group = model.groups()
    k = model.k

    def error(
        eta: NDArray[np.float64] | None = None, xi: NDArray[np.float64] | None = None, mu: float = 0.0
    ) -> NDArray[np.float64]:
        eta = np.zeros(k) if eta is None else eta
        measured = measurement(model.measuring, np.zeros(k) if xi is None else xi)
        return model.estimate(eta - mu, measured).value

    for i in range(k):
        rho, own, shares, reference = model.weights(group[i])
        share = np.array(shares)[group]
        unit = np.eye(k)
        for j in range(k):
            assert error(eta=unit[j])[i] == pytest.approx(rho * ((i == j) - share[j]), abs=1e-12)
            if isinstance(model.measuring, BoxNoise) or model.measuring == EACH:
                assert error(xi=unit[j])[i] == pytest.approx(own * (i == j) + rho * share[j], abs=1e-12)
        if model.measuring == ANCHOR:
            assert error(xi=np.ones(k))[i] == pytest.approx(k * share[0])
        assert error(mu=1.0)[i] == pytest.approx(-rho * reference, abs=1e-12)


@pytest.mark.parametrize("measuring", [EACH, ANCHOR, BOX, None])
@pytest.mark.parametrize("threshold", [None, 3])
def test_flooring_adds_its_variance(measuring: MeasuringNoise | None, threshold: int | None) -> None:
    """Dense: the weights of the gaps in each estimate, squared and summed, times gamma^2 / 12."""
    if measuring is None and threshold is None:
        threshold = 5
    k, resolution = 5, 1
    model = ErrorModel(GapNoise("geometric", 3, resolution, threshold, ranked=True), k, measuring)
    nothing, added = measurement(measuring, np.zeros(k)), np.zeros(k)
    for j in range(k):
        added += model.estimate(top_k_offsets(np.eye(k)[j], k), nothing).value ** 2 / 4 / 12
    expected = model.estimate(np.zeros(k), nothing).variance
    np.testing.assert_allclose(model.stddev() ** 2, expected + added)
    assert (added > 0).all()


@pytest.mark.parametrize("total", [False, True])
def test_ten_thousand_items_of_equal_noise_get_one_law(total: bool) -> None:
    k = 10_000
    model = ErrorModel(GapNoise("exponential", 2e4), k, LaplaceNoise(5e4, total=total))
    found = offsets(model)
    assert found.low.shape == found.high.shape == (k,)
    assert np.unique(found.low).size == np.unique(found.high).size == 1
    # one item's own exponential noise still dominates an ANCHOR: far from normal, skewed upward
    deviation = model.stddev()[0]
    assert 3.0 * deviation < found.low[0] + found.high[0] < 4.2 * deviation


def test_wider_for_more_confidence_and_skewed_only_for_one_sided_noise() -> None:
    for total in (False, True):
        measuring = LaplaceNoise(60, total=total)
        model = ErrorModel(GapNoise("exponential", 20), 10, measuring)
        widths = [offsets(model, c).low[0] for c in (0.5, 0.9, 0.999)]
        assert widths == sorted(widths)
        even = offsets(ErrorModel(GapNoise("laplace", 20), 10, measuring))
        np.testing.assert_allclose(even.low, even.high, rtol=1e-6)
    skewed = offsets(ErrorModel(GapNoise("exponential", 20), 10, LaplaceNoise(60, total=True)))
    assert (skewed.low > skewed.high).all()


def test_each_branch_has_its_own_width() -> None:
    gaps = GapNoise("exponential", (4.0, 16.0, 4.0), threshold_scale=2)
    found = offsets(ErrorModel(gaps, 3, LaplaceNoise(9)))
    assert found.low[0] == found.low[2] < found.low[1]
    one = offsets(ErrorModel(GapNoise("exponential", (4.0,), threshold_scale=2), 1, LaplaceNoise(9)))
    assert one.low[0] > found.low[0]  # the other items help to find the threshold's noise


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ErrorModel(GapNoise("exponential", 1), 2), "gaps alone"),
        (lambda: GapNoise("gumbel", 1), "noise must be"),  # type: ignore[arg-type]  # that is the test
        (lambda: ErrorModel(GapNoise("exponential", 1), 0, EACH), "k must be"),
        (lambda: GapNoise("exponential", 0), "scale must be"),
        (lambda: ErrorModel(GapNoise("exponential", 1), 2, LaplaceNoise(-3)), "the measuring scale"),
        (lambda: GapNoise("exponential", 1, threshold_scale=0), "threshold_scale"),
        (lambda: ErrorModel(GapNoise("exponential", (1, 2, 3), threshold_scale=1), 2), "one for each"),
        (lambda: GapNoise("exponential", (1, 2)), "same scale"),
        (lambda: offsets(ErrorModel(GapNoise("exponential", 1), 2, BOX)), "that of the measurement"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, math.nan, 1 - 1e-12])
def test_a_level_that_is_none_is_refused(level: float) -> None:
    for call in (
        lambda: offsets(ErrorModel(GapNoise("exponential", 1), 2, EACH), level),
        lambda: count_offset(1, level),
        lambda: lower_bound_offset("laplace", 1, 1, level),
        lambda: threshold_gap_offsets("laplace", 1, 1, level),
    ):
        with pytest.raises(ValueError, match="confidence"):
            call()


def test_combining_a_top_k_release() -> None:
    gap, noise = [40.0, 12.0, 5.0], GapNoise("exponential", Fraction(4), 8)
    y, v = top_k_offsets(gap, 3, 8), noise_variance("exponential", 4, 8, ranked=True)
    each = [150.0, 115.0, 99.0]
    by_each = from_top_k(gap, 3, noise, Measurement(each, LaplaceNoise(Fraction(8))))
    direct = blue(y, v, math.inf, each=each, each_variance=128.0)
    np.testing.assert_allclose(by_each.value, direct.value)
    np.testing.assert_allclose(by_each.stddev, np.sqrt(direct.variance), rtol=1e-4)
    anchor = LaplaceNoise(Fraction(8), total=True)
    by_anchor = from_top_k(gap, 3, noise, Measurement(370, anchor))
    assert by_anchor.value.mean() == pytest.approx(370 / 3)
    direct = blue(y, v, math.inf, anchor_mean=370 / 3, anchor_variance=128.0 / 9)
    np.testing.assert_allclose(by_anchor.value, direct.value)
    around = offsets(ErrorModel(noise, 3, anchor))
    np.testing.assert_allclose(by_anchor.value - by_anchor.low, around.low)
    np.testing.assert_allclose(by_anchor.high - by_anchor.value, around.high)


def test_combining_box_measurements_keeps_their_intervals_and_stays_inside() -> None:
    gap, noise, each = [40.0, 12.0, 5.0], GapNoise("exponential", 4), np.array([150.0, 115.0, 99.0])
    wide = from_top_k(gap, 3, noise, Measurement(each, BOX, half_width=20.0))
    y = top_k_offsets(gap, 3)
    direct = blue(y, 16.0, math.inf, each=each, each_variance=30.0, shared_variance=12.0)
    np.testing.assert_allclose(wide.value, direct.value)
    np.testing.assert_allclose(wide.stddev, np.sqrt(direct.variance))
    np.testing.assert_array_equal([wide.low, wide.high], [each - 20, each + 20])
    narrow = from_top_k(gap, 3, noise, Measurement(each, BOX, half_width=1.0))
    np.testing.assert_array_equal(narrow.value, np.clip(direct.value, each - 1, each + 1))
    assert (narrow.value != direct.value).any()
    np.testing.assert_array_equal(narrow.stddev, wide.stddev)


@pytest.mark.parametrize("noise", [LaplaceNoise(8), LaplaceNoise(8, total=True), BOX], ids=str)
def test_the_lowest_are_the_highest_of_the_negated(noise: MeasuringNoise) -> None:
    total = isinstance(noise, LaplaceNoise) and noise.total
    value = 80 if total else [7.0, 30.0, 41.0]
    measured = Measurement(value, noise, None if total else 30.0)
    turned = Measurement(-80 if total else [-7.0, -30.0, -41.0], noise, measured.half_width)
    gaps = GapNoise("exponential", 4, 8)
    low = from_top_k([20.0, 12.0, 5.0], 3, gaps, measured, lowest=True)
    high = from_top_k([20.0, 12.0, 5.0], 3, gaps, turned)
    np.testing.assert_array_equal(low.value, -high.value)
    np.testing.assert_array_equal([low.low, low.high], [-high.high, -high.low])
    assert (np.diff(low.value) > 0).all()
    assert (low.low < low.value).all()
    with pytest.raises(ValueError, match="no threshold below"):
        from_top_k([1.0], 1, gaps, threshold=3, lowest=True)


def test_combining_a_hybrid_that_reached_its_threshold_is_free() -> None:
    found = from_top_k([40.0, 12.0], 2, GapNoise("exponential", 4), threshold=100)
    np.testing.assert_allclose(found.value, [152, 112])
    np.testing.assert_allclose(found.stddev, math.sqrt(32))
    np.testing.assert_allclose(found.value - found.low, 4 * math.log(20))
    with pytest.raises(ValueError, match="every selected group has a gap"):
        from_top_k([40.0], 2, GapNoise("exponential", 4), threshold=100)
    with pytest.raises(ValueError, match="gaps alone"):
        from_top_k([40.0, 12.0], 2, GapNoise("exponential", 4))


def test_combining_hits_of_a_sparse_vector() -> None:
    gap, scales = [30.0, 8.0], (8.0, 4.0)
    noise = GapNoise("exponential", scales, threshold_scale=2)
    free = from_threshold(gap, 100, noise)
    np.testing.assert_allclose(free.value, [130, 108])
    np.testing.assert_allclose(free.stddev, np.sqrt([68, 20]))
    paid = from_threshold(gap, 100, noise, Measurement([120.0, 110.0], LaplaceNoise(3)))
    direct = blue([130, 108], [64, 16], 4, each=[120, 110], each_variance=18)
    np.testing.assert_allclose(paid.value, direct.value)
    assert (paid.stddev < free.stddev).all()
    boxed = from_threshold(gap, 100, noise, Measurement([120.0, 110.0], BOX, half_width=50.0))
    direct = blue([130, 108], [64, 16], 4, each=[120, 110], each_variance=30, shared_variance=12)
    np.testing.assert_allclose(boxed.value, direct.value)
    np.testing.assert_allclose(boxed.stddev, np.sqrt(direct.variance))
    with pytest.raises(ValueError, match="one for each"):
        from_threshold(gap, 100, GapNoise("exponential", (1.0,), threshold_scale=2))


def test_nothing_selected_is_nothing_estimated() -> None:
    empty = (
        from_top_k([], 0, GapNoise("exponential", 4)),
        from_threshold([], 5, GapNoise("exponential", (), threshold_scale=2)),
        from_measurement(Measurement([], LaplaceNoise(3), 9.0)),
    )
    for found in empty:
        assert found.value.size == found.stddev.size == found.low.size == found.high.size == 0


def test_a_total_beyond_a_double_keeps_its_digits() -> None:
    total = Measurement(3 * 2**60 + 3, LaplaceNoise(1, total=True))
    found = from_top_k([1.0, 1.0, 1.0], 3, GapNoise("exponential", 1), total)
    assert found.value[1] == float(2**60 + 1)


def test_plain_measurements() -> None:
    found = from_measurement(Measurement([120.0, 7.0], LaplaceNoise(10, 0), 5.0))
    np.testing.assert_allclose(found.stddev, math.sqrt(laplace_variance(10, 0)))
    np.testing.assert_array_equal([found.value - 5, found.value + 5], [found.low, found.high])
    boxed = from_measurement(Measurement([120.0, 7.0], BOX, 5.0))
    np.testing.assert_allclose(boxed.stddev, math.sqrt(42))
    with pytest.raises(ValueError, match="total"):
        from_measurement(Measurement(5, LaplaceNoise(10, total=True)))
