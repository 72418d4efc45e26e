"""What the numbers of an answer are made of, and what bounds leave out: for what is computed of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpsql.answers import measuring
from dpsql.answers.bounds_shown import bound_of, left_out_of
from dpsql.answers.table import combined
from dpsql.estimates.closed_form import check_confidence
from dpsql.estimates.linear_terms import first_row, half_width
from dpsql.estimates.noise_laws import Linear, Noises, NumberNoise, Quotient

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
    pairs = (
        (output, combined(plan, noisy, output), combined(plan, shown, output))
        for output in plan.outputs
        if output.kind == "count"
    )
    # Excesses are measured with the numbers, whose intervals have what is cut from the start.
    return tuple(
        _noise(plan, output, _alone(plan, output, found) if noisy.left_out else found, last, noisy.excess)
        for output, found, last in pairs
    )


def _alone(plan: Plan, output: Output, found: Combined) -> Combined:
    """Return a number with the interval of its noise alone, if its law is known."""
    made, level = found.made, measuring.confidence_of(plan)
    if isinstance(made, Linear) and len(found.value):
        half = half_width(first_row(made), check_confidence(level))
        return replace(found, value=made.value, low=made.value - half, high=made.value + half)
    if isinstance(made, Quotient) and output.formula is not None and len(found.value):
        # A row adds 1 to the sum of the moments.
        moments = [weight * each.value for weight, each in made.below.terms]
        weight, first = made.below.terms[0]
        alone = output.formula.estimate(moments, weight * first.sources[0].scale, level)
        return replace(found, low=alone.low, high=alone.high)
    return found


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
