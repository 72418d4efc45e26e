"""The BLUE against dense generalised least squares built from the original noises, and against the papers."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.estimates import blue, top_k_offsets

RNG_SEED = 20240607


def gls(
    design: NDArray[np.float64], covariance: NDArray[np.float64], observed: NDArray[np.float64], wanted: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Dense generalised least squares: estimates and variances of the first `wanted` unknowns."""
    inverse = np.linalg.inv(covariance)
    spread = np.linalg.inv(design.T @ inverse @ design)
    return (spread @ design.T @ inverse @ observed)[:wanted], np.diag(spread)[:wanted]


def problem(
    k: int, groups: int, strategy: str, rng: np.random.Generator, *, even: bool = False
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    dict[str, Any],
    tuple[NDArray[np.float64], NDArray[np.float64]],
]:
    """A top-k release of `groups` counts in descending order: what was seen, and dense GLS on it."""
    n = min(k + 1, groups)
    count = np.sort(rng.uniform(0, 500, n))[::-1]
    v = np.full(n, 7.0) if even else rng.uniform(1, 40, n)
    noisy = count + rng.normal(0, 1, n) * np.sqrt(v)
    differences = np.eye(n)[:-1] - np.eye(n)[1:]
    gap = differences @ noisy
    design, covariance, observed = [differences], [differences @ np.diag(v) @ differences.T], [gap]
    measured: dict[str, Any] = {}
    if strategy == "EACH":
        a = np.full(k, 5.0) if even else rng.uniform(1, 40, k)
        each = count[:k] + rng.normal(0, 1, k) * np.sqrt(a)
        design.append(np.eye(k, n))
        covariance.append(np.diag(a))
        observed.append(each)
        measured = {"each": each, "each_variance": a}
    else:
        b = float(rng.uniform(0.5, 20))
        mean = float(count[:k].mean() + rng.normal(0, math.sqrt(b)))
        design.append((np.arange(n) < k)[None, :] / k)
        covariance.append(np.array([[b]]))
        observed.append(np.array([mean]))
        measured = {"anchor_mean": mean, "anchor_variance": b}
    sizes = [c.shape[0] for c in covariance]
    full = np.zeros((sum(sizes), sum(sizes)))
    full[: sizes[0], : sizes[0]] = covariance[0]
    full[sizes[0] :, sizes[0] :] = covariance[1]
    return gap, v, measured, gls(np.vstack(design), full, np.concatenate(observed), k)


@pytest.mark.parametrize("strategy", ["EACH", "ANCHOR"])
@pytest.mark.parametrize(("k", "groups"), [(1, 5), (2, 5), (3, 4), (7, 50), (2, 2), (3, 3), (8, 8), (1, 1)])
@pytest.mark.parametrize("even", [True, False])
def test_top_k_equals_dense_least_squares_also_when_all_groups_are_released(
    k: int, groups: int, strategy: str, even: bool
) -> None:
    rng = np.random.default_rng([RNG_SEED, k, groups, even])
    gap, v, measured, (value, variance) = problem(k, groups, strategy, rng, even=even)
    found = blue(top_k_offsets(gap, k), v[:k], math.inf, **measured)
    np.testing.assert_allclose(found.value, value, rtol=1e-9)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_two_references_equal_dense_least_squares(first: int) -> None:
    """Gaps relative to one unknown, measurements relative to another: unknowns are the counts, mu and nu."""
    for seed in range(first, first + 50):
        rng = np.random.default_rng([RNG_SEED, seed])
        k = int(rng.integers(1, 15))
        v, a = rng.uniform(0.5, 60, k), np.full(k, rng.uniform(0.5, 60))
        if seed % 3 == 0:
            a = rng.uniform(0.5, 60, k)
        v0 = [math.inf, 0.0, 0.1, 25.0, 1e3][seed % 5]
        shared = [0.0, 1e-3, 7.0, 400.0][seed % 4]
        count = rng.uniform(0, 500, k)
        mu = 100.0 if math.isinf(v0) else rng.normal(0, math.sqrt(v0))
        y = count - mu + rng.normal(0, 1, k) * np.sqrt(v)
        each = count - rng.normal(0, math.sqrt(shared)) + rng.normal(0, 1, k) * np.sqrt(a)
        unknown, one = np.eye(k), np.ones((k, 1))
        # With v0 infinite mu is one more unknown; else it is noise that all y share.
        free = int(math.isinf(v0))
        design = np.vstack([np.hstack([unknown, -one[:, :free]]), np.hstack([unknown, 0 * one[:, :free]])])
        nothing = np.zeros((k, k))
        covariance = np.block([[np.diag(v) + (0.0 if free else v0), nothing], [nothing, np.diag(a) + shared]])
        value, variance = gls(design, covariance, np.concatenate([y, each]), k)
        found = blue(y, v, v0, each=each, each_variance=a, shared_variance=shared)
        np.testing.assert_allclose(found.value, value, rtol=1e-9)
        np.testing.assert_allclose(found.variance, variance, rtol=1e-9)


def test_box_noise_of_a_top_k_has_the_printed_variance() -> None:
    k, a, v, shared = 10, 3.0, 5.0, 2.0
    found = blue(np.arange(10.0), v, math.inf, each=np.ones(10), each_variance=a, shared_variance=shared)
    np.testing.assert_allclose(found.variance, a * v / (a + v) + shared + a**2 / (k * (a + v)))


@pytest.mark.parametrize("strategy", ["EACH", "ANCHOR", "NONE"])
@pytest.mark.parametrize("k", [1, 2, 5, 12])
@pytest.mark.parametrize("v0", [0.01, 9.0, 1e4])
def test_over_a_noisy_threshold_equals_dense_least_squares(k: int, strategy: str, v0: float) -> None:
    rng = np.random.default_rng([RNG_SEED, k, int(v0)])
    threshold, v = 321.0, rng.uniform(1, 40, k)
    y = rng.uniform(0, 200, k) + threshold
    design, observed = np.eye(k), y
    covariance = np.diag(v) + v0
    measured: dict[str, Any] = {}
    if strategy == "EACH":
        a, each = rng.uniform(1, 40, k), y + rng.normal(0, 5, k)
        measured = {"each": each, "each_variance": a}
        design, observed = np.vstack([design, np.eye(k)]), np.concatenate([y, each])
        covariance = np.block([[covariance, np.zeros((k, k))], [np.zeros((k, k)), np.diag(a)]])
    elif strategy == "ANCHOR":
        measured = {"anchor_mean": float(y.mean()) + 3, "anchor_variance": 2.5}
        design, observed = np.vstack([design, np.full((1, k), 1 / k)]), np.append(y, y.mean() + 3)
        covariance = np.block([[covariance, np.zeros((k, 1))], [np.zeros((1, k)), np.array([[2.5]])]])
    value, variance = gls(design, covariance, observed, k)
    found = blue(y, v, v0, **measured)
    np.testing.assert_allclose(found.value, value, rtol=1e-8)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-8)


def test_is_theorem_3_and_corollary_1_of_the_paper() -> None:
    rng = np.random.default_rng(RNG_SEED)
    k, measuring, ratio = 6, 8.0, 1.7
    gap, each = rng.uniform(0, 30, k - 1), rng.uniform(100, 200, k)
    x = np.ones((k, k)) + ratio * k * np.eye(k)
    y = np.tile(np.arange(k - 1, 0, -1), (k, 1)) - k * np.tril(np.ones((k, k - 1)), -1)
    printed = (x @ each + y @ gap) / ((1 + ratio) * k)
    offsets = top_k_offsets(np.append(gap, 12.0), k)
    found = blue(offsets, ratio * measuring, math.inf, each=each, each_variance=measuring)
    np.testing.assert_allclose(found.value, printed)
    np.testing.assert_allclose(found.variance, measuring * (1 + ratio * k) / (k + ratio * k))


@pytest.mark.parametrize("strategy", ["EACH", "ANCHOR"])
def test_a_very_uncertain_reference_is_an_unknown_one_and_a_known_one_is_used_fully(strategy: str) -> None:
    y, v = np.array([30.0, 12.0, 5.0]), np.array([4.0, 9.0, 2.0])
    measured: dict[str, Any] = {"each": y + 100, "each_variance": 3.0} if strategy == "EACH" else {}
    measured = measured or {"anchor_mean": 120.0, "anchor_variance": 3.0}
    unknown, nearly = blue(y, v, math.inf, **measured), blue(y, v, 1e14, **measured)
    np.testing.assert_allclose(nearly.value, unknown.value, rtol=1e-9)
    np.testing.assert_allclose(nearly.variance, unknown.variance, rtol=1e-9)
    known, certain = blue(y, v, 1e-12, **measured), blue(y, v, 0.0, **measured)
    np.testing.assert_allclose(certain.value, known.value)
    np.testing.assert_allclose(certain.variance, known.variance)
    assert (certain.variance < v).all()
    assert (unknown.variance > certain.variance).all()


def test_one_group_takes_its_measurement_as_it_is() -> None:
    for measured in ({"each": [50.0], "each_variance": 8}, {"anchor_mean": 50.0, "anchor_variance": 8}):
        found = blue(top_k_offsets([3.0], 1), 4, math.inf, **measured)
        np.testing.assert_allclose([found.value[0], found.variance[0]], [50, 8])


def test_is_linear_in_k_and_keeps_its_inputs() -> None:
    k = 200_000  # a k by k matrix would need 320 GB
    y = np.linspace(1000, 0, k)
    kept = y.copy()
    found = blue(y, 4.0, math.inf, each=y + 7, each_variance=2.0)
    np.testing.assert_allclose(found.value, y + 7, atol=1e-6)
    np.testing.assert_array_equal(y, kept)
    free = blue(y, 4.0, 1.0)
    free.value[0] = -1
    assert y[0] == 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], 1.0, math.inf, {}), "gaps alone"),
        (([], 1.0, 1.0, {}), "at least one"),
        (([[1.0]], 1.0, 1.0, {}), "at least one"),
        (([math.nan], 1.0, 1.0, {}), "finite"),
        (([1.0], 0.0, 1.0, {}), "v must be positive"),
        (([1.0, 2.0], [1.0], 1.0, {}), "v must be one number or 2"),
        (([1.0], 1.0, -1.0, {}), "v0"),
        (([1.0], 1.0, math.nan, {}), "v0"),
        (([1.0], 1.0, 1.0, {"each": [1.0]}), "belong together"),
        (([1.0], 1.0, 1.0, {"each": [1.0], "each_variance": 1, "shared_variance": -1.0}), "shared_variance"),
        (
            ([1.0], 1.0, 1.0, {"each": [1.0], "each_variance": 1, "shared_variance": math.inf}),
            "shared_variance",
        ),
        (([1.0], 1.0, 1.0, {"anchor_mean": 1.0}), "belong together"),
        (([1.0], 1.0, 1.0, {"each": [1.0, 2.0], "each_variance": 1}), "one finite measurement"),
        (([1.0], 1.0, 1.0, {"each": [1.0], "each_variance": math.inf}), "positive and finite"),
        (
            ([1.0], 1.0, 1.0, {"each": [1.0], "each_variance": 1, "anchor_mean": 1.0, "anchor_variance": 1}),
            "not both",
        ),
    ],
)
def test_refuses_what_makes_no_sense(
    arguments: tuple[list[float], float | list[float], float, dict[str, Any]],
    message: str,
) -> None:
    y, v, v0, measured = arguments
    with pytest.raises(ValueError, match=message):
        blue(y, v, v0, **measured)


def test_offsets_sum_the_gaps_below_and_mend_the_floors() -> None:
    gap = [8.0, 4.0, 2.0]
    np.testing.assert_array_equal(top_k_offsets(gap, 3), [14, 6, 2])
    np.testing.assert_array_equal(top_k_offsets(gap, 4), [14, 6, 2, 0])
    np.testing.assert_array_equal(top_k_offsets(gap, 3, resolution=1), [14.75, 6.5, 2.25])
    np.testing.assert_array_equal(top_k_offsets(gap, 4, resolution=0), [15.5, 7, 2.5, 0])
    np.testing.assert_array_equal(top_k_offsets([], 1, resolution=0), [0])
    for wrong, k in ((gap, 2), (gap, 5), (gap, 0), ([gap], 1)):
        with pytest.raises(ValueError, match="k gaps"):
            top_k_offsets(wrong, k)
