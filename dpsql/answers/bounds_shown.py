"""What is shown of the bound of a number: the bound in force, and an estimate of what it left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpsql.analysis import rows_of
from dpsql.estimates import Average, Deviation, Variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.analysis import Output, Plan

_OF_ROWS = (Average, Variance, Deviation)
"""Numbers that have no part left out, but are moved by what is left out."""


def left_out_of(
    plan: Plan,
    output: Output,
    noisy: NDArray[np.float64],
    shown: NDArray[np.float64],
    excess: Mapping[int, float],
) -> NDArray[np.float64] | None:
    """Return an estimate of what the bound left out of a number; None where that is not known.

    `noisy` are the values as they were measured, `shown` those with what was given back; `excess` has what
    was measured beside them. In groups it is as large a part of it as they are of all.
    """
    if isinstance(output.formula, _OF_ROWS):
        return None
    place = output.uses[0] if output.formula is not None else output.of
    if place in excess:
        parts = np.maximum(noisy, 0)
        whole = float(parts.sum())
        worth = float(max(getattr(output.formula, "high", 1), 0))
        return parts * (excess[place] * worth / whole) if whole > 0 else None
    left = plan.left_out[output.uses[0] if output.formula is not None else output.of]
    if left is None or not left.kept.current or left.signed:
        return None
    if plan.key_types:  # it was given back to the groups by their shares
        moved = shown - noisy
        return moved if moved.any() else None
    worth = float(max(getattr(output.formula, "high", left.highest), 0))
    return np.full(len(shown), left.kept.ladder.cut(left.bound) * worth)


def bound_of(plan: Plan, output: Output) -> float | None:
    """Return the bound on what a unit counts with, in the unit of the measure; None if there is none."""
    place = output.uses[0] if output.formula is not None else output.of
    left = plan.left_out[place]
    if left is not None:
        return left.bound * float(left.kept.ladder.step)
    count = plan.counts[place]
    rows = rows_of(count)
    if rows is not None:
        return float(rows)
    return None if count.total is None else float(count.total * count.step)
