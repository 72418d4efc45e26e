"""Predict how many hits a sparse vector by rounds has, and how many rounds it begins, among equal counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEPS = 1 << 14
"""Groups are counted one by one up to so many; of more, several are one step, with one hit at most."""
_TILT = 1e-8
"""What wraps around in the Fourier transform is made smaller by this factor."""


def hits_and_rounds(chance: NDArray[np.float64], groups: int, most: int) -> tuple[float, float]:
    """Return the expected hits and the expected rounds of at most so many, among groups with equal counts.

    In each round every group is a hit with the same probability, one of `chance`, which are equally likely
    and drawn anew for each round. A round ends with a hit. So the distances from hit to hit are independent,
    of one law, with generating function G, and the j-th hit is at place m or before with the probability that
    the coefficients of G^j add up to.

    >>> hits, rounds = hits_and_rounds(np.array([0.5]), 2, 2)
    >>> round(hits, 6), round(rounds, 6)
    (1.0, 1.5)
    """
    steps = min(groups, _STEPS)
    none = np.log1p(-np.clip(chance, 0.0, 1 - 1e-15)) * (groups / steps)
    distance = np.zeros(steps + 1)
    for one in none:
        distance[1:] -= np.expm1(one) * np.exp(one * np.arange(steps))
    distance /= len(none)
    size = 1 << (2 * steps + 1).bit_length()
    tilt = _TILT ** (np.arange(size) / size)
    law = np.fft.rfft(distance * tilt[: steps + 1], size)

    def places(hits: int) -> NDArray[np.float64]:
        """Return the expected number of the first hits at each place."""
        each = law * (1 - law**hits) / (1 - law)
        return np.asarray((np.fft.irfft(each, size) / tilt)[: steps + 1])

    last = min(most, steps)
    found, earlier = places(last), places(last - 1)
    # A round begins where a group is left to scan.
    left = steps - 1 if steps == groups else steps
    return float(found.sum()), 1 + float(earlier[: left + 1].sum())
