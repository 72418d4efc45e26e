"""What the numbers of an answer are made of, and what bounds leave out: for what is computed of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsql.answers.bounds_shown import bound_of, left_out_of
from dpsql.answers.table import combined
from dpsql.estimates.noise_laws import Noises, NumberNoise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dpsql.analysis import Output, Plan
    from dpsql.answers.method import NoisyResult
    from dpsql.estimates import Combined


def noises_of(plan: Plan, noisy: NoisyResult, shown: NoisyResult) -> Noises:
    """Return them for the numbers of a release.

    `noisy` has the intervals of the noise alone, `shown` also what bounds leave out.
    """
    return tuple(
        _noise(plan, output, combined(plan, noisy, output), combined(plan, shown, output), shown.excess)
        for output in plan.outputs
        if output.kind == "count"
    )


def _noise(
    plan: Plan, output: Output, noisy: Combined, shown: Combined, excess: Mapping[int, float]
) -> NumberNoise:
    return NumberNoise(
        noisy.made,
        _wider(noisy.low - shown.low),
        _wider(shown.high - noisy.high),
        left_out_of(plan, output, noisy.value, shown.value, excess),
        bound_of(plan, output),
    )


def _wider(by: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return by how much an end is farther; None if it is not anywhere."""
    by = np.maximum(np.nan_to_num(by), 0.0)
    return by if by.any() else None
