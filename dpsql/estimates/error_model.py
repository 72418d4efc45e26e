"""Model the errors of estimates as weighted sums of independent noises.

The same model gives the standard deviation predicted before spending, the interval after it, and tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.blue import Estimates, anchor_regression, blue
from dpsql.estimates.law import Term
from dpsql.estimates.variance import Noise, Real, check_noise, laplace_variance, noise_variance, positive

Strategy = Literal["NONE", "EACH", "ANCHOR"]
"""How the selected counts are measured: not at all, each by itself, or by one noisy total."""


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """The noises in the estimates of k selected counts, of a past or a planned release. Reads no data.

    Raises
    ------
    ValueError
        For values out of range, and for gaps alone without a threshold, which do not determine the counts.

    Examples
    --------
    >>> ErrorModel("exponential", 20, 10, strategy="ANCHOR", measuring_scale=60).stddev().round(2)[:2]
    array([20.78, 20.78])
    """

    noise: Noise
    """Kind of the selection noise; the measuring noise is always Laplace."""
    scale: Real | tuple[Real, ...]
    """Scale of the selection noise, in counts: one, or one for each item (of the branch it passed)."""
    k: int
    """How many counts are estimated."""
    strategy: Strategy
    measuring_scale: Real | None = None
    """Scale of the Laplace noise as drawn: on each count (EACH), or on their *total* (ANCHOR)."""
    threshold_scale: Real | None = None
    """Scale of the threshold's noise when the gaps are over a threshold; None: gaps to the next (top-k)."""
    resolution: int | None = None
    """The selection noise is a multiple of 2^-resolution; None: so fine that it does not matter."""
    ranked: bool | None = None
    """Whether gaps are floored and ties broken by random ranks; by default without a threshold. The hybrid
    top-k that reached its threshold is ranked too."""
    measuring_resolution: int | None = None
    """Grid of the measuring noise."""

    def __post_init__(self) -> None:
        check_noise(self.noise)
        if self.strategy not in get_args(Strategy):
            raise ValueError(
                f"strategy must be one of {', '.join(get_args(Strategy))}, not {self.strategy!r}"
            )
        if (self.strategy == "NONE") != (self.measuring_scale is None):
            raise ValueError("a measuring scale belongs to the strategies EACH and ANCHOR, and only to them")
        if self.k < 1:
            raise ValueError("k must be positive")
        for name in ("measuring_scale", "threshold_scale"):
            if (value := getattr(self, name)) is not None:
                positive(value, name)
        for one in self.scale if isinstance(self.scale, Iterable) else (self.scale,):
            positive(one, "scale")
        if isinstance(self.scale, Iterable) and len(self.scale) != self.k:
            raise ValueError("give one scale for all items or one for each of the k")
        if self.floored and len(self.groups()[0]) > 1:
            raise ValueError("the items of a top-k selection all have the same scale")
        if self.strategy == "NONE" and self.threshold_scale is None:
            raise ValueError(
                "gaps alone do not determine counts: measure EACH or an ANCHOR, or name the threshold"
            )

    @property
    def floored(self) -> bool:
        """Whether gaps are floored to the grid and ties broken by random ranks."""
        return self.threshold_scale is None if self.ranked is None else self.ranked

    def groups(self) -> tuple[list[float], list[int], NDArray[np.intp]]:
        """Return the distinct scales, the number of items with each, and the index of each item's scale."""
        if not isinstance(self.scale, Iterable):
            return [float(self.scale)], [self.k], np.zeros(self.k, dtype=np.intp)
        items = np.array([float(one) for one in self.scale])
        distinct, group, counts = np.unique(items, return_inverse=True, return_counts=True)
        return distinct.tolist(), counts.tolist(), group

    def selection_variance(self, scale: Real) -> float:
        """Return the variance of selection noise of this scale."""
        return noise_variance(self.noise, scale, self.resolution, ranked=self.floored)

    def reference_variance(self) -> float:
        """Return the variance of the shared reference, the `v0` of `blue`."""
        return math.inf if self.threshold_scale is None else self.selection_variance(self.threshold_scale)

    def measuring_variance(self) -> float:
        """Return the variance of one measurement: of a count (EACH) or of the mean (ANCHOR)."""
        if self.measuring_scale is None:
            return math.inf
        drawn = laplace_variance(self.measuring_scale, self.measuring_resolution)
        return drawn if self.strategy == "EACH" else drawn / self.k**2

    def estimate(
        self, y: NDArray[np.float64], *, each: ArrayLike | None = None, anchor_mean: float | None = None
    ) -> Estimates:
        """Return the estimates by `blue` of a release with these noises, flooring left out."""
        scales, _, group = self.groups()
        v = np.array([self.selection_variance(scale) for scale in scales])[group]
        v0, a = self.reference_variance(), self.measuring_variance()
        if self.strategy == "EACH":
            return blue(y, v, v0, each=each, each_variance=a)
        if self.strategy == "ANCHOR":
            return blue(y, v, v0, anchor_mean=anchor_mean, anchor_variance=a)
        return blue(y, v, v0)

    def stddev(self) -> NDArray[np.float64]:
        """Return the standard deviation of each estimate, in counts, float64[k], flooring included."""
        zeros = np.zeros(self.k)
        variance = self.estimate(zeros, each=zeros, anchor_mean=0.0).variance
        if self.floored and self.resolution is not None:
            variance = variance + self._floor_variance(2.0**-self.resolution)
        return np.sqrt(variance)

    def weights(self, group: int) -> tuple[float, float, list[float], float]:
        """Return rho, own, shares, reference: how noises enter the error of an item of this group.

        error = rho eta_i + own xi_i + rho (sum over j of shares_j (xi_j - eta_j) - reference mu), with the
        selection noises eta, the measuring noises xi (for ANCHOR: xi_j is the total's noise over k, the
        same for all j) and the noise mu of the reference. `shares` has one entry a group.
        """
        scales, counts, _ = self.groups()
        v = [self.selection_variance(s) for s in scales]
        v0, a = self.reference_variance(), self.measuring_variance()
        known = 0.0 if math.isinf(v0) else 1 / v0
        if self.strategy == "EACH":
            precision = known + sum(n / (a + w) for n, w in zip(counts, v, strict=True))
            mine = v[group]
            return a / (a + mine), mine / (a + mine), [1 / (a + w) / precision for w in v], known / precision
        if self.strategy == "ANCHOR":
            total = sum(n * w for n, w in zip(counts, v, strict=True)) / self.k**2 + a
            regression = float(anchor_regression(np.array([v[group]]), v0, total, self.k)[0])
            return 1.0, 0.0, [regression / self.k] * len(v), 1 - regression
        return 1.0, 0.0, [0.0] * len(v), 1.0

    def terms(self, group: int) -> tuple[Term, ...]:
        """Return the weighted independent noises in the error of an item of this group."""
        scales, counts, _ = self.groups()
        rho, own, shares, reference = self.weights(group)
        measuring = float(self.measuring_scale or 0)
        laplace = self.noise == "laplace"
        found = [Term(laplace, rho * (1 - shares[group]) * scales[group])]
        if self.strategy == "EACH":
            found.append(Term(True, (own + rho * shares[group]) * measuring))
        elif self.strategy == "ANCHOR":
            found.append(Term(True, shares[group] * measuring))
        for other, (scale, count) in enumerate(zip(scales, counts, strict=True)):
            others = count - (other == group)
            found.append(Term(laplace, -rho * shares[other] * scale, others))
            if self.strategy == "EACH":
                found.append(Term(True, rho * shares[other] * measuring, others))
        found.append(Term(laplace, -rho * reference * float(self.threshold_scale or 0)))
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
