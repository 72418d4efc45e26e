"""What the numbers of an answer are made of, and what bounds leave out of them, for what is computed of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsql.analysis import rows_of
from dpsql.answers.table import combined
from dpsql.estimates import Average, Deviation, Variance
from dpsql.estimates.noise_laws import Noises, NumberNoise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.analysis import Output, Plan
    from dpsql.answers.method import NoisyResult
    from dpsql.estimates import Combined

_OF_ROWS = (Average, Variance, Deviation)


def noises_of(plan: Plan, noisy: NoisyResult, shown: NoisyResult) -> Noises:
    """Return them for the numbers of a release.

    `noisy` has the intervals of the noise alone, `shown` also what bounds leave out.
    """
    return tuple(
        _noise(plan, output, combined(plan, noisy, output), combined(plan, shown, output))
        for output in plan.outputs
        if output.kind == "count"
    )


def _noise(plan: Plan, output: Output, noisy: Combined, shown: Combined) -> NumberNoise:
    return NumberNoise(
        noisy.made,
        _wider(noisy.low - shown.low),
        _wider(shown.high - noisy.high),
        _left_out(plan, output, noisy, shown),
        bound_of(plan, output),
    )


def _wider(by: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return by how much an end is farther; None if it is not anywhere."""
    by = np.maximum(np.nan_to_num(by), 0.0)
    return by if by.any() else None


def _left_out(plan: Plan, output: Output, noisy: Combined, shown: Combined) -> NDArray[np.float64] | None:
    """Return an estimate of what the bound left out of a number; None where that is not known."""
    if isinstance(output.formula, _OF_ROWS):
        return None
    place = output.uses[0] if output.formula is not None else output.of
    left = plan.left_out[place]
    if left is None or not left.kept.current or left.signed:
        return None
    if plan.key_types:  # it was given back to the groups by their shares
        moved = shown.value - noisy.value
        return moved if moved.any() else None
    worth = float(max(getattr(output.formula, "high", left.highest), 0))
    return np.full(len(shown.value), left.kept.ladder.cut(left.bound) * worth)


def bound_of(plan: Plan, output: Output) -> float | None:
    """Return the bound on each unit that a number was counted with, in its unit; None if there is none."""
    place = output.uses[0] if output.formula is not None else output.of
    count = plan.counts[place]
    left = plan.left_out[place]
    if left is not None:
        return left.bound * float(left.kept.ladder.step)
    rows = rows_of(count)
    if rows is not None:
        return float(rows)
    return None
