"""Limited Domain as published, to compare with: not part of dpsql, and not for use.

Durfee and Rogers, "Practical differentially private top-k selection with pay-what-you-get composition"
(NeurIPS 2019), as Carvalho et al. (UAI 2020) describe and use it: groups are picked one at a time, in
proportion to e^(epsilon' count), among the k-bar largest and a bar at h + 1 + ln(k-bar/delta')/epsilon',
h the count of the largest group left out; the bar ends it. k-bar is chosen between k and 5k by one more
such pick, for the lowest bar, so k + 1 picks share epsilon. Where that text leaves details open: delta is
halved between the bar and the composition, and the composition is the best of Durfee and Rogers' three,
for k picks k e, k e (e^e-1)/(e^e+1) + e sqrt(2k ln(1/d)), k e^2/2 + e sqrt(k/2 ln(1/d)).

Picking without replacement is sorting by count + Gumbel noise. In floating point: a comparison, not a
mechanism to rely on.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["limited_domain_as_published", "pick_epsilon"]


def pick_epsilon(epsilon: float, delta: float, picks: int) -> float:
    """Return the largest epsilon of one pick so that so many picks keep (epsilon, delta).

    >>> round(pick_epsilon(1.0, 1e-6, 1), 6), round(pick_epsilon(1.0, 1e-6, 51), 4)
    (1.0, 0.0499)
    """
    low, high = epsilon / picks, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _composed(middle, delta, picks) <= epsilon else (low, middle)
    return low


def _composed(each: float, delta: float, picks: int) -> float:
    drift, log = picks * each, math.log(1 / delta)
    return min(
        drift,
        drift * math.tanh(each / 2) + each * math.sqrt(2 * picks * log),
        drift * each / 2 + each * math.sqrt(picks / 2 * log),
    )


def limited_domain_as_published(
    descending: NDArray[np.int64], k: int, epsilon: float, delta: float, trials: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Run it so many times; return which of the 5k largest groups were released, bool (trials, 5k)."""
    each = pick_epsilon(epsilon, delta / 2, k + 1)
    most = 5 * k
    counts = np.zeros(most + 1)
    there = min(most + 1, len(descending))
    counts[:there] = descending[:there]
    options = np.arange(k, most + 1)
    bars = counts[options] + 1 + np.log(options / (delta / 2)) / each
    chosen = np.argmax(-bars + rng.gumbel(scale=1 / each, size=(trials, len(options))), axis=1)
    bar = bars[chosen] + rng.gumbel(scale=1 / each, size=trials)
    noisy = counts[:most] + rng.gumbel(scale=1 / each, size=(trials, most))
    noisy[np.arange(most) >= options[chosen][:, None]] = -np.inf
    kth = np.partition(noisy, -k, axis=1)[:, -k]
    released: NDArray[np.bool_] = noisy > np.maximum(bar, np.nextafter(kth, -np.inf))[:, None]
    return released
