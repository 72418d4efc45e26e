"""Model the errors of estimates as weighted sums of independent noises.

The same model gives the standard deviation predicted before spending, the interval after it, and tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.blue import Estimates, anchor_regression, blue, references
from dpsql.estimates.law import Term
from dpsql.estimates.measurement import LaplaceNoise, Measurement, MeasuringNoise, SharedNoise
from dpsql.estimates.variance import Noise, Real, check_noise, noise_variance, positive
from dpsql.lazy_dataclass import dataclass


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
        if self.floored and len(scales) > 1:
            raise ValueError("the items of a top-k selection all have the same scale")

    @property
    def floored(self) -> bool:
        """Whether gaps are floored to the grid and ties broken by random ranks."""
        return self.threshold_scale is None if self.ranked is None else self.ranked

    def over_threshold(self) -> GapNoise:
        """Return the noise of gaps whose last one is over a threshold with noise of the same law."""
        scale = self.scale[0] if isinstance(self.scale, tuple) else self.scale
        return replace(self, threshold_scale=scale, ranked=True)

    def variance(self, scale: Real) -> float:
        """Return the variance of selection noise of this scale."""
        return noise_variance(self.noise, scale, self.resolution, ranked=self.floored)

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
        """Return the standard deviation of each estimate, in counts, float64[k], flooring included."""
        zeros, nothing = np.zeros(self.k), None
        if self.measuring is not None:
            total = isinstance(self.measuring, LaplaceNoise) and self.measuring.total
            nothing = Measurement(0 if total else zeros, self.measuring)
        variance = self.estimate(zeros, nothing).variance
        if self.gaps.floored and self.gaps.resolution is not None:
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

    def terms(self, group: int) -> tuple[Term, ...]:
        """Return the weighted independent noises in the error of an item of this group, but one for all."""
        scales, counts, _ = self.groups()
        rho, own, shares, reference = self.weights(group)
        laplace = self.gaps.noise == "laplace"
        found = [Term(laplace, rho * (1 - shares[group]) * scales[group])]
        each = 0.0
        if isinstance(self.measuring, LaplaceNoise):
            measuring = float(self.measuring.scale)
            each = 0.0 if self.measuring.total else measuring
            found.append(Term(True, shares[group] * measuring if self.measuring.total else 0.0))
            found.append(Term(True, (own + rho * shares[group]) * each))
        for other, (scale, count) in enumerate(zip(scales, counts, strict=True)):
            others = count - (other == group)
            found.append(Term(laplace, -rho * shares[other] * scale, others))
            found.append(Term(True, rho * shares[other] * each, others))
        found.append(Term(laplace, -rho * reference * float(self.gaps.threshold_scale or 0)))
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
