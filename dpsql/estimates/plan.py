"""Divide epsilon between selecting and measuring, and predict what a selection tells apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from dpsql.estimates.closed_form import check_confidence, lower_bound_offset
from dpsql.estimates.variance import Noise, Real, check_noise, positive

Strategy = Literal["BOX", "EACH", "ANCHOR"]
"""How selected counts are measured: with one box noise, each by itself, or by one noisy total."""

_FEW = 10


def measuring_share(
    strategy: Strategy,
    k: int,
    *,
    monotone: bool = True,
    noise: Noise = "exponential",
    domain_size: int | None = None,
) -> Fraction:
    """Return the share of epsilon for measuring the k selected counts; the rest selects them.

    The variance of the counts alone would leave too little for selecting them, and a wrong group is an error
    too. So BOX gets one half for k up to 10 and one third above: measured on six shapes of counts, the error
    against the true i-th largest count is smaller so. EACH gets one half.

    An ANCHOR gets the share that minimises the variance, to three digits. The variance is
    s kappa^2 k (k-1) / eps_s^2 + 2 / eps_m^2 in squared bounds (s = 1 one-sided noise, 2 Laplace; kappa = 1
    monotone, 2 general), smallest at eps_m/eps_s = (2 / (s kappa^2 k (k-1)))^(1/3). When all groups of the
    domain are selected, there is one gap less and less noise: (k-1)^3/k then replaces k (k-1).

    >>> measuring_share("BOX", 10), measuring_share("BOX", 11), measuring_share("ANCHOR", 10)
    (Fraction(1, 2), Fraction(1, 3), Fraction(219, 1000))
    """
    check_noise(noise)
    if k < 1 or (domain_size is not None and domain_size < 1):
        raise ValueError("k and the size of the domain must be positive")
    gaps = k
    if domain_size is not None and domain_size <= k:
        k, gaps = domain_size, domain_size - 1
    if strategy == "BOX":
        return Fraction(1, 2 if k <= _FEW else 3)
    if strategy == "EACH" or k == 1:
        return Fraction(1, 2)
    spread = (2 if noise == "laplace" else 1) * (1 if monotone else 4) * gaps**2 * (k - 1) / k
    ratio = (2 / spread) ** (1 / 3)
    return _round(ratio / (1 + ratio))


def split_measuring(epsilon: Fraction, bounds: Sequence[int | Fraction]) -> tuple[Fraction, ...]:
    """Divide the measuring epsilon among several counts of the same groups; the parts add up exactly.

    Parts proportional to c^(2/3), c a count's per-unit bound, minimise the sum of the variances. A count
    measured EACH on k groups with its part e has noise of scale k c / e.

    >>> split_measuring(Fraction(1, 2), [1, 8])
    (Fraction(1, 10), Fraction(2, 5))
    """
    if epsilon < 0 or not bounds or min(bounds) <= 0:
        raise ValueError("give at least one positive bound and no negative epsilon")
    weights = [_round(positive(bound, "bound") ** (2 / 3)) for bound in bounds]
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


def logistic_gap(scale: Real, confidence: Real = 0.95) -> float:
    """Return how far apart two counts must be for Gumbel noise to order them correctly, at this level.

    The difference of two Gumbel noises of one scale is logistic. It is exact on any grid.

    >>> round(logistic_gap(10), 2)
    29.44
    """
    level = float(check_confidence(confidence))
    return max(0.0, positive(scale, "scale") * math.log(level / (1 - level)))


def sparse_vector_error(
    threshold_scale: Real,
    query_scale: Real,
    groups: int,
    *,
    branches: int = 1,
    rounds: int = 1,
    confidence: Real = 0.95,
) -> float:
    """Return how far from the threshold all groups must be for a sparse vector to answer all correctly.

    (s0 + s1) ln((n B + R) / beta): with probability 1 - beta none of the n B + R noises exceeds its scale
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
    rounds
        Number R of rounds, each with a fresh threshold.
    confidence
        1 - beta.

    Examples
    --------
    >>> round(sparse_vector_error(4, 10, 1000), 1)
    138.7
    """
    if groups < 1 or branches < 1 or rounds < 1:
        raise ValueError("groups, branches and rounds must be positive")
    beta = 1 - check_confidence(confidence)
    scales = positive(threshold_scale, "threshold_scale") + positive(query_scale, "query_scale")
    return scales * math.log((groups * branches + rounds) / beta)


def _round(value: float) -> Fraction:
    """Round to three significant digits, for display; the optimum is flat, so nothing is lost."""
    return Fraction(f"{value:.3g}")
