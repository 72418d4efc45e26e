"""The best linear unbiased estimates (BLUE) of selected counts from gaps and measurements, and their errors.

One model for every mechanism: of each selected count q_i the gaps show y_i = q_i - mu + eta_i, where the
eta_i are independent with variance v_i and mu is *shared* by all items, with mean 0 and variance v_0
(infinite when nothing is known of it).

* Noisy top-k: y_i is the sum of the gaps from item i to the last released one and mu is the noisy count of
  the item below, so v_0 is infinite. With all groups released (no last gap) mu is the noisy count of the
  last item itself: y_last = 0 holds identically, and since only differences of noisy counts were seen and
  mu may be any number, shifting it says the same. The same formulas hold.
* Sparse vector, and hybrids that reached their threshold T: y_i = (distance above the noisy threshold) + T
  and mu is the noise of the threshold.

Measurements of the counts may share noise too: alpha_i = q_i + xi_i - nu, where the xi_i are independent with
variance a_i and nu, uncorrelated with them, has mean 0 and variance v_nu. So are box noise and Gaussian noise
of which a part is shared; v_nu is 0 for cube noise and for independent noise.

Contains Theorem 3 and section 6.2 of Ding, Wang, Zhang, Kifer, "Free Gap Information from the
Differentially Private Sparse Vector and Noisy Max Mechanisms", PVLDB 13(3), 2019, as special cases. Given
mu and nu, alpha_i + nu and y_i + mu are combined by their precisions; mu - nu is estimated from all of them.

The same model gives the standard deviation predicted before spending, the interval after it, and tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.noise_laws import (
    LaplaceNoise,
    Measurement,
    MeasuringNoise,
    Noise,
    Real,
    SharedNoise,
    check_noise,
    noise_variance,
    positive,
)
from dpsql.estimates.noise_quantiles import NoiseTerm
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Unbiased estimates of the selected counts, with their variances."""

    value: FloatArray
    """float64[k], in counts."""
    variance: FloatArray
    """float64[k], in squared counts: exact for the given variances."""


def blue(
    y: ArrayLike,
    v: ArrayLike,
    v0: float,
    *,
    each: ArrayLike | None = None,
    each_variance: ArrayLike | None = None,
    shared_variance: float = 0.0,
    anchor_mean: float | None = None,
    anchor_variance: float | None = None,
) -> Estimates:
    """Combine gaps and measurements of k counts into the best linear unbiased estimate of each, in O(k).

    Parameters
    ----------
    y
        float64[k]: the counts relative to the shared reference; see the module, and `top_k_offsets`.
    v
        float64[k] or one number: variance of each y_i for a given reference.
    v0
        Variance of the reference; `math.inf` if it is unknown (top-k).
    each, each_variance
        float64[k] measurements of the counts, and the variance of each (k numbers or one) given the noise
        that they share.
    shared_variance
        Variance of the noise that the measurements share.
    anchor_mean, anchor_variance
        One measurement of the *mean* of the k counts, and its variance.

    Raises
    ------
    ValueError
        For wrong shapes or variances, for both kinds of measurements at once, and if there is neither
        a measurement nor a finite v0: gaps alone do not determine the counts.

    Examples
    --------
    >>> import math
    >>> blue([30, 10, 0], 4, math.inf, anchor_mean=100, anchor_variance=1).value
    array([116.66666667,  96.66666667,  86.66666667])
    """
    offsets = np.asarray(y, dtype=np.float64)
    if offsets.ndim != 1 or not offsets.size or not np.isfinite(offsets).all():
        raise ValueError("y must be a list of at least one finite number")
    k = offsets.size
    spread = _variances(v, k, "v")
    if not v0 >= 0:
        raise ValueError("v0 must be a variance: zero, positive or infinite")
    if not 0 <= shared_variance < math.inf:
        raise ValueError("shared_variance must be a finite variance")
    if (each is None) != (each_variance is None) or (anchor_mean is None) != (anchor_variance is None):
        raise ValueError("a measurement and its variance belong together")
    if each is not None and anchor_mean is not None:
        raise ValueError("counts are measured EACH or by an ANCHOR, not both")
    if each is not None and each_variance is not None:
        measured = np.asarray(each, dtype=np.float64)
        if measured.shape != (k,) or not np.isfinite(measured).all():
            raise ValueError("each must hold one finite measurement for each y")
        own = _variances(each_variance, k, "each_variance")
        return _with_each(offsets, spread, v0, measured, own, shared_variance)
    if anchor_mean is not None and anchor_variance is not None:
        variance = float(_variances(anchor_variance, 1, "anchor_variance")[0])
        return _with_anchor(offsets, spread, v0, float(anchor_mean), variance)
    if math.isinf(v0):
        raise ValueError("gaps alone do not determine counts: measure EACH or an ANCHOR, or give a finite v0")
    return Estimates(offsets.copy(), spread + v0)


def _with_each(
    y: FloatArray, v: FloatArray, v0: float, each: FloatArray, a: FloatArray, shared: float
) -> Estimates:
    weight = 1 / (a + v)
    # alpha_i - y_i = mu - nu + (noise of variance a_i + v_i), uncorrelated with the error of the combination
    # of alpha_i + nu and y_i + mu for known mu and nu: so the variances add.
    mu_part, nu_part, precision = references(v0, shared)
    precision += weight.sum()
    omega = 0.0 if math.isinf(precision) else float(weight @ (each - y)) / precision
    value = ((each - nu_part * omega) * v + (y + mu_part * omega) * a) * weight
    moved = (mu_part * a - nu_part * v) * weight
    return Estimates(value, a * v * weight + mu_part * shared + moved**2 / precision)


def references(v0: float, shared: float) -> tuple[float, float, float]:
    """Return the parts v0/t of mu and v_nu/t of -nu in mu - nu, and 1/t, with t = v0 + v_nu its variance."""
    if shared == 0:
        return 1.0, 0.0, _inverse(v0)
    return 1 / (1 + shared * _inverse(v0)), shared / (v0 + shared), 1 / (v0 + shared)


def _with_anchor(y: FloatArray, v: FloatArray, v0: float, mean: float, b: float) -> Estimates:
    k = y.size
    total = float(v.sum()) / k**2 + b
    regression = anchor_regression(v, v0, total, k)
    value = y + regression * (mean - float(y.mean()))
    # v0 + v_i - regression (v0 + v_i / k), written so that a large v0 does not cancel.
    rest = 0.0 if v0 == 0 else 1 / (1 + total * _inverse(v0))
    return Estimates(value, v * (1 - regression / k) + (total - v / k) * rest)


def anchor_regression(v: FloatArray, v0: float, total: float, k: int) -> FloatArray:
    """Return the regression of mu - eta_i on m - mean(y), whose variance is v0 + total: float64[k]."""
    if math.isinf(v0):
        return np.ones_like(v)
    return (v0 + v / k) / (v0 + total)


def _inverse(v0: float) -> float:
    return math.inf if v0 == 0 else 1 / v0


def _variances(value: ArrayLike, size: int, name: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 1 or (array.ndim == 1 and array.shape != (size,)):
        raise ValueError(f"{name} must be one number or {size}")
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"{name} must be positive and finite")
    return np.broadcast_to(array, (size,)).copy()


def top_k_offsets(gap: ArrayLike, k: int, resolution: int | None = None) -> FloatArray:
    """Convert the gaps of a noisy top-k to the `y` of `blue`: each count relative to the last released.

    A gap is floored to the grid, so it is half a grid step too small on average, and a sum of j gaps j half
    steps: that is added here.

    Parameters
    ----------
    gap
        float64[k] in counts, or k - 1 gaps when all groups were released and the last has none below it.
    k
        How many groups were selected.
    resolution
        Gaps are multiples of 2^-resolution; None: they were not floored.

    Returns
    -------
    float64[k]

    Examples
    --------
    >>> top_k_offsets([5, 3, 1], 3), top_k_offsets([5, 3], 3, resolution=0)
    (array([9., 4., 1.]), array([9. , 3.5, 0. ]))
    """
    gaps = np.asarray(gap, dtype=np.float64)
    if k < 1 or gaps.ndim != 1 or gaps.size not in (k - 1, k):
        raise ValueError("there must be k gaps, or k - 1 when all groups were selected")
    if resolution is not None:
        gaps = gaps + 2.0**-resolution / 2
    y = np.zeros(k)
    y[: gaps.size] = gaps[::-1].cumsum()[::-1]
    return y


@dataclass(frozen=True, slots=True)
class GapNoise:
    """The noises in the gaps of a selection.

    Raises
    ------
    ValueError
        For values out of range.
    """

    noise: Noise
    """Kind of the noise."""
    scale: Real | tuple[Real, ...]
    """Scale of each count's noise, in counts: one, or one for each item (of the branch it passed)."""
    resolution: int | None = None
    """The noise is a multiple of 2^-resolution; None: so fine that it does not matter."""
    threshold_scale: Real | None = None
    """Scale of the threshold's noise when the gaps are over a threshold; None: gaps to the next (top-k)."""
    ranked: bool | None = None
    """Whether gaps are floored and ties broken by random ranks; by default without a threshold. The hybrid
    top-k that reached its threshold is ranked too."""

    def __post_init__(self) -> None:
        check_noise(self.noise)
        if self.threshold_scale is not None:
            positive(self.threshold_scale, "threshold_scale")
        scales = set(self.scale) if isinstance(self.scale, Iterable) else {self.scale}
        for one in scales:
            positive(one, "scale")
        if self.is_floored and len(scales) > 1:
            raise ValueError("the items of a top-k selection all have the same scale")

    @property
    def is_floored(self) -> bool:
        """Whether gaps are floored to the grid and ties broken by random ranks."""
        return self.threshold_scale is None if self.ranked is None else self.ranked

    def over_threshold(self) -> GapNoise:
        """Return the noise of gaps whose last one is over a threshold with noise of the same law."""
        scale = self.scale[0] if isinstance(self.scale, tuple) else self.scale
        return replace(self, threshold_scale=scale, ranked=True)

    def variance(self, scale: Real) -> float:
        """Return the variance of selection noise of this scale."""
        return noise_variance(self.noise, scale, self.resolution, ranked=self.is_floored)

    def reference_variance(self) -> float:
        """Return the variance of the shared reference, the `v0` of `blue`."""
        return math.inf if self.threshold_scale is None else self.variance(self.threshold_scale)


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """The noises in the estimates of k selected counts, of a past or a planned release. Reads no data.

    Raises
    ------
    ValueError
        For a k that does not fit, and for gaps alone without a threshold, which do not determine the counts.

    Examples
    --------
    >>> anchor = LaplaceNoise(60, total=True)
    >>> ErrorModel(GapNoise("exponential", 20), 10, anchor).stddev().round(2)[:2]
    array([20.78, 20.78])
    """

    gaps: GapNoise
    k: int
    """How many counts are estimated."""
    measuring: MeasuringNoise | None = None
    """Noise of the measurements; None: the counts are not measured."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError("k must be positive")
        if isinstance(self.gaps.scale, Iterable) and len(self.gaps.scale) != self.k:
            raise ValueError("give one scale for all items or one for each of the k")
        if isinstance(self.measuring, LaplaceNoise):
            positive(self.measuring.scale, "the measuring scale")
        if self.measuring is None and self.gaps.threshold_scale is None:
            raise ValueError("gaps alone do not determine counts: measure them, or name the threshold")

    def groups(self) -> tuple[list[float], list[int], NDArray[np.intp]]:
        """Return the distinct scales, the number of items with each, and the index of each item's scale."""
        scale = self.gaps.scale
        if not isinstance(scale, Iterable):
            return [float(scale)], [self.k], np.zeros(self.k, dtype=np.intp)
        items = np.array([float(one) for one in scale])
        distinct, group, counts = np.unique(items, return_inverse=True, return_counts=True)
        return distinct.tolist(), counts.tolist(), group

    def estimate(self, y: NDArray[np.float64], measured: Measurement | None = None) -> Estimates:
        """Return the estimates by `blue` of a release with these noises, flooring left out."""
        scales, _, group = self.groups()
        v = np.array([self.gaps.variance(scale) for scale in scales])[group]
        v0 = self.gaps.reference_variance()
        match self.measuring, measured:
            case SharedNoise() as one, Measurement():
                return blue(
                    y, v, v0, each=measured.counts(), each_variance=one.own, shared_variance=one.shared
                )
            case LaplaceNoise(total=False) as each, Measurement():
                return blue(y, v, v0, each=measured.counts(), each_variance=each.variance)
            case LaplaceNoise() as total, Measurement():
                mean = measured.mean(self.k)
                return blue(y, v, v0, anchor_mean=mean, anchor_variance=total.variance / self.k**2)
        return blue(y, v, v0)

    def stddev(self) -> NDArray[np.float64]:
        """Return the standard deviation of each estimate, whatever is measured, as `deviation` does."""
        zeros, nothing = np.zeros(self.k), None
        if self.measuring is not None:
            total = isinstance(self.measuring, LaplaceNoise) and self.measuring.total
            nothing = Measurement(0 if total else zeros, self.measuring)
        return self.deviation(self.estimate(zeros, nothing))

    def deviation(self, found: Estimates) -> NDArray[np.float64]:
        """Return the standard deviation of each estimate, in counts, float64[k], flooring included."""
        variance = found.variance
        if self.gaps.is_floored and self.gaps.resolution is not None:
            variance = variance + self._floor_variance(2.0**-self.gaps.resolution)
        return np.sqrt(variance)

    def weights(self, group: int) -> tuple[float, float, list[float], float]:
        """Return rho, own, shares, reference: how noises enter the error of an item of this group.

        error = rho eta_i + own xi_i + rho (sum over j of shares_j (xi_j - eta_j) - reference mu), with the
        selection noises eta, the measuring noises xi (for ANCHOR: xi_j is the total's noise over k, the same
        for all j; for one noise for all counts: without its shared part) and the noise mu of the reference.
        `shares` has one entry a group.
        """
        scales, counts, _ = self.groups()
        v = [self.gaps.variance(s) for s in scales]
        v0 = self.gaps.reference_variance()
        if self.measuring is None:
            return 1.0, 0.0, [0.0] * len(v), 1.0
        if isinstance(self.measuring, LaplaceNoise) and self.measuring.total:
            mean_variance = self.measuring.variance / self.k**2
            total = sum(n * w for n, w in zip(counts, v, strict=True)) / self.k**2 + mean_variance
            regression = float(anchor_regression(np.array([v[group]]), v0, total, self.k)[0])
            return 1.0, 0.0, [regression / self.k] * len(v), 1 - regression
        if isinstance(self.measuring, SharedNoise):
            a, shared = self.measuring.own, self.measuring.shared
        else:
            a, shared = self.measuring.variance, 0.0
        mu_part, nu_part, known = references(v0, shared)
        precision = known + sum(n / (a + w) for n, w in zip(counts, v, strict=True))
        mine = v[group]
        # an error of mu - nu moves the item by rho times this
        moved = mu_part - nu_part * mine / a
        rest = (known + (precision - known) * (1 - moved)) / precision
        return a / (a + mine), mine / (a + mine), [moved / (a + w) / precision for w in v], rest

    def terms(self, group: int) -> tuple[NoiseTerm, ...]:
        """Return the weighted independent noises in the error of an item of this group, but one for all."""
        scales, counts, _ = self.groups()
        rho, own, shares, reference = self.weights(group)
        laplace = self.gaps.noise == "laplace"
        found = [NoiseTerm(laplace, rho * (1 - shares[group]) * scales[group])]
        each = 0.0
        if isinstance(self.measuring, LaplaceNoise):
            measuring = float(self.measuring.scale)
            each = 0.0 if self.measuring.total else measuring
            found.append(NoiseTerm(True, shares[group] * measuring if self.measuring.total else 0.0))
            found.append(NoiseTerm(True, (own + rho * shares[group]) * each))
        for other, (scale, count) in enumerate(zip(scales, counts, strict=True)):
            others = count - (other == group)
            found.append(NoiseTerm(laplace, -rho * shares[other] * scale, others))
            found.append(NoiseTerm(True, rho * shares[other] * each, others))
        found.append(NoiseTerm(laplace, -rho * reference * float(self.gaps.threshold_scale or 0)))
        return tuple(term for term in found if term.scale and term.count)

    def _floor_variance(self, gamma: float) -> NDArray[np.float64]:
        """Return the variance that flooring adds to each estimate: float64[k].

        A floored gap is the continuous gap minus a remainder uniform on one grid step; the remainders are
        independent of each other and uncorrelated with the noises, so the variances add. The gap below item
        j enters the estimate of item i with weight rho ([j >= i] - j share).
        """
        rho, _, (share,), _ = self.weights(0)
        j = np.arange(1, self.k + 1)
        before = np.concatenate(([0.0], np.cumsum((j * share) ** 2)))[:-1]
        after = np.cumsum(((1 - j * share) ** 2)[::-1])[::-1]
        return np.asarray((rho * gamma) ** 2 / 12 * (before + after))


@lru_cache(maxsize=1024)
def largest_stddev(model: ErrorModel) -> float:
    """Return the largest standard deviation of the estimates of k selected counts."""
    return float(model.stddev().max())
