"""Release every count of a public domain when each privacy unit is in a bounded number of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.mechanisms.arguments import bound, counted, positive, whole
from dpsql.mechanisms.measure import Laplace, laplace
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dpsql import noise as exact_noise
    from dpsql.privacy import Number

__all__ = ["release_all"]


def release_all(
    counts: ArrayLike,
    epsilon: Number,
    *,
    groups_per_unit: int | None = None,
    sensitivity: Number = 1,
    resolution: int | None = None,
    entropy: exact_noise.Entropy | None = None,
) -> Laplace:
    """Release every group's count with noise, or a single count: `release_all([n], epsilon)`.

    Parameters
    ----------
    counts
        One count a group of a public domain, as integers.
    epsilon
        Budget; all of it is spent, unless there is no group.
    groups_per_unit
        m, the largest number of groups in which a privacy unit is counted. None: all of them.
    sensitivity
        c, how much a unit can change each of these counts.
    resolution, entropy
        As in `laplace`.

    Raises
    ------
    ValueError
        If a public parameter is out of range.

    Notes
    -----
    Discrete Laplace noise of scale m c/epsilon on each count. *Private:* neighbouring databases differ
    in at most m counts, by at most c each; so the probability of any output by at most a factor
    (e^(c/scale))^m = e^epsilon.

    >>> release_all([7, 0, 3], 1, groups_per_unit=2).scale
    Fraction(2, 1)
    """
    array, budget, moved = counted(counts), positive(epsilon, "epsilon"), bound(sensitivity)
    touched = (
        len(array) if groups_per_unit is None else min(whole(groups_per_unit, "groups_per_unit"), len(array))
    )
    scale = max(touched, 1) * moved / budget
    released = laplace(array, scale, sensitivity=moved, resolution=resolution, entropy=entropy)
    return replace(released, charge=Charge(touched * moved / scale))
