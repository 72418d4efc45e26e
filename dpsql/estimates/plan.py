"""Divide epsilon between selecting and measuring, and predict the error, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpsql.estimates.closed_form import check_confidence, lower_bound_offset
from dpsql.estimates.error_model import ErrorModel, Strategy
from dpsql.estimates.intervals import offsets
from dpsql.estimates.variance import Noise, Real, check_noise, positive


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """The division of epsilon of a statement that selects k groups and releases their counts."""

    strategy: Strategy
    k: int
    """How many groups are selected: the k asked for, or the whole domain if that is smaller."""
    noise: Noise
    selection_epsilon: Fraction
    measuring_epsilon: Fraction
    """The two add up to the statement's epsilon exactly."""
    selection_scale: Fraction
    """Scale of the selection noise, in counts."""
    measuring_scale: Fraction | None
    """Scale of the Laplace noise drawn on each count (EACH) or on the total (ANCHOR); None: no measuring."""
    gaps: bool = True
    """Whether the selection has free gaps to improve the counts with."""
    resolution: int | None = None
    """The selection noise will be a multiple of 2^-resolution; None: so fine that it does not matter."""
    measuring_resolution: int | None = None
    """The grid of the measuring noise."""

    @property
    def predicted_stddev(self) -> float:
        """Standard deviation of each estimated count when all k are selected; infinite without measuring."""
        return math.inf if self.measuring_scale is None else float(self._model().stddev().max())

    def half_width(self, confidence: Real = 0.95) -> float:
        """Return half the expected length of the interval of each count; infinite without measuring."""
        if self.measuring_scale is None:
            return math.inf
        around = offsets(self._model(), confidence)
        return float((around.low + around.high).max()) / 2

    def _model(self) -> ErrorModel:
        """Return the error model of a plan that measures."""
        return ErrorModel(
            self.noise,
            self.selection_scale,
            self.k if self.gaps else 1,  # without gaps every count stands alone, like k = 1
            self.strategy if self.gaps else "EACH",
            self.measuring_scale,
            resolution=self.resolution,
            measuring_resolution=self.measuring_resolution,
        )


def anchor_share(
    k: int, *, monotone: bool = True, noise: Noise = "exponential", domain_size: int | None = None
) -> Fraction:
    """Return the share of epsilon for an ANCHOR that minimises the variance of the counts, to three digits.

    The variance is s kappa^2 k (k-1) / eps_s^2 + 2 / eps_m^2 in squared bounds (s = 1 one-sided noise, 2
    Laplace; kappa = 1 monotone, 2 general), smallest at eps_m/eps_s = (2 / (s kappa^2 k (k-1)))^(1/3).
    With k = 1 the gap carries no information, and selecting and measuring get one half each. When all groups
    of the domain are selected there is one gap less and less noise: (k-1)^3/k then replaces k (k-1).

    >>> anchor_share(1), anchor_share(2), anchor_share(10)
    (Fraction(1, 2), Fraction(1, 2), Fraction(219, 1000))
    """
    check_noise(noise)
    selected, gaps = _selected(k, domain_size)
    if selected == 1:
        return Fraction(1, 2)
    spread = (2 if noise == "laplace" else 1) * (1 if monotone else 4) * gaps**2 * (selected - 1) / selected
    ratio = (2 / spread) ** (1 / 3)
    return _rounded(ratio / (1 + ratio))


def choose_measuring(
    k: int,
    epsilon: Fraction,
    *,
    sensitivity: int | Fraction = 1,
    monotone: bool = True,
    noise: Noise = "exponential",
    measure: Fraction | None = None,
    strategy: Literal["AUTO", "EACH", "ANCHOR"] = "AUTO",
    gaps: bool = True,
    domain_size: int | None = None,
    grid: Callable[[Noise, Fraction], int] | None = None,
) -> MeasuringPlan:
    """Divide epsilon between a top-k selection and the measuring of the k counts.

    AUTO uses an ANCHOR at its best share; at a given share it uses the strategy that is better there. EACH
    without a given share gets one half: minimising its variance alone would leave too little for selecting.

    Parameters
    ----------
    k
        How many groups are selected.
    epsilon
        Of both phases together.
    sensitivity
        Per-unit bound of the count.
    monotone
        Whether all counts move the same way (counts of units or rows; not differences of counts).
    noise
        Kind of the selection noise.
    measure
        Share of epsilon for measuring, 0 <= measure < 1; None lets this function choose.
    strategy
        "AUTO", "EACH" (one noisy count a group) or "ANCHOR" (one noisy total of all of them).
    gaps
        False for selections whose gaps do not help (exponential mechanism, unordered sets): EACH then.
    domain_size
        Size of the public domain; with k or fewer groups all are selected. None: more than k, or unknown.
    grid
        Gives the resolution on which noise of a kind and scale will be drawn, so that what is predicted is
        the error of the discrete noise. None: as if noise were continuous.

    Raises
    ------
    ValueError
        For values out of range; for ANCHOR without gaps.

    Examples
    --------
    >>> plan = choose_measuring(10, Fraction(1, 2))
    >>> plan.strategy, plan.selection_epsilon, plan.measuring_epsilon, round(plan.predicted_stddev, 1)
    ('ANCHOR', Fraction(781, 2000), Fraction(219, 2000), 27.5)
    """
    check_noise(noise)
    selected, charged = _selected(k, domain_size)
    if epsilon <= 0 or sensitivity <= 0:
        raise ValueError("epsilon and sensitivity must be positive")
    if measure is not None and not 0 <= measure < 1:
        raise ValueError("the measuring share must be at least 0 and below 1")
    if strategy not in ("AUTO", "EACH", "ANCHOR"):
        raise ValueError(f"strategy must be AUTO, EACH or ANCHOR, not {strategy!r}")
    if strategy == "ANCHOR" and not gaps:
        raise ValueError("an ANCHOR needs the gaps of an ordered selection")
    share = measure
    if share is None and gaps and strategy != "EACH":
        share = anchor_share(k, monotone=monotone, noise=noise, domain_size=domain_size)
    measuring = epsilon * (Fraction(1, 2) if share is None else share)
    scale = (1 if monotone else 2) * charged * Fraction(sensitivity) / (epsilon - measuring)
    drawn = selected * Fraction(sensitivity) / measuring if measuring else None
    resolution = None if grid is None else grid(noise, scale)
    measured = None if grid is None or drawn is None else grid("laplace", drawn)
    chosen: Strategy = strategy if strategy != "AUTO" else "EACH"
    if drawn is None:
        chosen = "NONE"
    elif strategy == "AUTO" and gaps:
        chosen = choose_strategy(
            noise,
            scale,
            selected,
            measuring_scale=drawn,
            resolution=resolution,
            measuring_resolution=measured,
        )
    return MeasuringPlan(
        chosen, selected, noise, epsilon - measuring, measuring, scale, drawn, gaps, resolution, measured
    )


def choose_strategy(
    noise: Noise,
    scale: Real,
    k: int,
    *,
    measuring_scale: Real,
    threshold_scale: Real | None = None,
    resolution: int | None = None,
    measuring_resolution: int | None = None,
) -> Literal["EACH", "ANCHOR"]:
    """Return whether measuring EACH count or their total (ANCHOR) predicts the smaller error.

    Equal errors return ANCHOR. The resolutions are those of the grids that the noises are drawn on.

    >>> choose_strategy("exponential", 10, 5, measuring_scale=10)
    'ANCHOR'
    >>> choose_strategy("exponential", 20, 10, measuring_scale=20)
    'EACH'
    """
    deviation = {
        strategy: ErrorModel(
            noise,
            scale,
            k,
            strategy,
            measuring_scale=measuring_scale,
            threshold_scale=threshold_scale,
            resolution=resolution,
            measuring_resolution=measuring_resolution,
        ).stddev()[0]
        for strategy in ("EACH", "ANCHOR")
    }
    return "EACH" if deviation["EACH"] < deviation["ANCHOR"] * (1 - 1e-9) else "ANCHOR"


def split_measuring(epsilon: Fraction, bounds: Sequence[int | Fraction]) -> tuple[Fraction, ...]:
    """Divide the measuring epsilon among several counts of the same groups; the parts add up exactly.

    Parts proportional to c^(2/3), c a count's per-unit bound, minimise the sum of the variances. A count
    measured EACH on k groups with its part e has noise of scale k c / e.

    >>> split_measuring(Fraction(1, 2), [1, 8])
    (Fraction(1, 10), Fraction(2, 5))
    """
    if epsilon < 0 or not bounds or min(bounds) <= 0:
        raise ValueError("give at least one positive bound and no negative epsilon")
    weights = [_rounded(positive(bound, "bound") ** (2 / 3)) for bound in bounds]
    return tuple(epsilon * weight / sum(weights) for weight in weights)


def distinguishable_gap(
    noise: Noise, scale: Real, confidence: Real = 0.95, *, resolution: int | None = None
) -> float:
    """Return how far apart two counts must be for the selection to order them correctly, at this level.

    With a resolution the noise is discrete; a tie on its grid counts as a wrong order.

    >>> round(distinguishable_gap("exponential", 10), 2), round(distinguishable_gap("laplace", 10), 2)
    (23.03, 32.72)
    """
    # the difference of two centred noises of one scale, one-sided
    apart = lower_bound_offset(noise, scale, scale, confidence, resolution=resolution)
    return max(0.0, apart + (0.0 if resolution is None else 2.0**-resolution))


def sparse_vector_error(
    threshold_scale: Real, query_scale: Real, groups: int, *, branches: int = 1, confidence: Real = 0.95
) -> float:
    """Return how far from the threshold all groups must be for a sparse vector to answer all correctly.

    (s0 + s1) ln((n B + 1) / beta): with probability 1 - beta none of the n B + 1 noises exceeds its scale
    times that logarithm. It holds for Laplace noise and, conservatively, for centred one-sided noise. (The
    form is that of Theorem 2 of Smith's lecture on the sparse vector technique, which uses other scales.)

    Parameters
    ----------
    threshold_scale, query_scale
        Scales in use, in counts; with several branches the largest query scale.
    groups
        Size n of the public domain.
    branches
        Number B of branches, each with fresh noise.
    confidence
        1 - beta.

    Examples
    --------
    >>> round(sparse_vector_error(4, 10, 1000), 1)
    138.7
    """
    if groups < 1 or branches < 1:
        raise ValueError("groups and branches must be positive")
    beta = 1 - check_confidence(confidence)
    scales = positive(threshold_scale, "threshold_scale") + positive(query_scale, "query_scale")
    return scales * math.log((groups * branches + 1) / beta)


def _selected(k: int, domain_size: int | None) -> tuple[int, int]:
    """Return the number of groups selected, and of gaps that the selection pays for (at least one)."""
    if k < 1 or (domain_size is not None and domain_size < 1):
        raise ValueError("k and the size of the domain must be positive")
    if domain_size is None or domain_size > k:
        return k, k
    return domain_size, max(1, domain_size - 1)


def _rounded(value: float) -> Fraction:
    """Round to three significant digits, for display; the optimum is flat, so nothing is lost."""
    return Fraction(f"{value:.3g}")
