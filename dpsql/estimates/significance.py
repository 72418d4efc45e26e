"""p-values of gaps: the significance of a selected group being at least as large as the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsql.estimates.variance import Noise, Real, check_noise, positive


def p_value(gap: ArrayLike, scale: Real, noise: Noise = "exponential") -> NDArray[np.float64]:
    """Return the p-value of the hypothesis that some group outside the first i is at least as large.

    exp(-gap / scale): by the memoryless tail of one-sided noise. Conditioned on everything else, item i's
    noisy count exceeds that group's by an exponential amount at most, and the gap is no larger. Valid for
    the i-th gap of a noisy top-k, and for noisy max as the first. A floored gap gives a larger p-value, so no
    correction is needed. A gap over a *threshold* has no such p-value.

    Parameters
    ----------
    gap
        Gaps in counts as released, any shape.
    scale
        Scale of the selection noise actually used, in counts.
    noise
        "exponential" or "geometric".

    Raises
    ------
    ValueError
        For Laplace noise, whose differences are not memoryless, and for a negative gap.

    Examples
    --------
    >>> p_value([0, 20.0], 10)
    array([1.        , 0.13533528])
    """
    check_noise(noise)
    if noise == "laplace":
        raise ValueError("the p-value of a gap needs one-sided noise: it is not valid under Laplace noise")
    return np.exp(-_gaps(gap) / positive(scale, "scale"))


def exponential_mechanism_p_value(gap: ArrayLike, scale: Real) -> NDArray[np.float64]:
    """Return the p-value of the hypothesis that the exponential mechanism did not select a largest group.

    2 / (1 + exp(gap / scale)): Theorem 5.14 of Ding's dissertation on free gap information, with the gap in
    counts, of any shape.

    `scale` is in counts per unit of log-odds: bound / epsilon for monotone counts, else 2 bound / epsilon.

    >>> exponential_mechanism_p_value(0, 10), exponential_mechanism_p_value(36.6, 10).round(3)
    (array(1.), np.float64(0.05))
    """
    # written with the vanishing exponential, so that a large gap gives 0 and no overflow
    small = np.exp(-_gaps(gap) / positive(scale, "scale"))
    return np.asarray(2 * small / (1 + small))


def _gaps(gap: ArrayLike) -> NDArray[np.float64]:
    gaps = np.asarray(gap, dtype=np.float64)
    if not (gaps >= 0).all():
        raise ValueError("a gap between groups is never negative")
    return gaps
