"""The common grid of several counts that one unit can change by different bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.loss import Number
from dpsql.kernel.mechanisms.arguments import bound, whole

_MOST_STEPS = 1 << exact_noise.FINEST
"""Most grid steps of a count, as for other noise: each step takes a bit of the limit of counts."""


def bounds_of(groups: int, sensitivity: Number | Sequence[Number]) -> tuple[tuple[int, ...], int]:
    """Return the bounds of counts, and how often they repeat until there is one a count.

    `sensitivity` is one bound, or one for each count; fewer are repeated, group by group.
    """
    one = isinstance(sensitivity, (int, str, float, Fraction, Decimal))
    given: Sequence[Number] = (sensitivity,) if one else sensitivity  # type: ignore[assignment]  # it is no number
    repeats, rest = divmod(groups, max(len(given), 1))
    if rest or (groups and not given):
        raise ValueError("one sensitivity a count is needed")
    whole_bounds = {each: int(bound(each)) for each in set(given)}
    return tuple(whole_bounds[each] for each in given), repeats


def common_unit(bounds: Sequence[int], scale: Fraction, resolution: int | None = None) -> int:
    """Return the grid steps in the largest change of any count: one of count a is `unit // bounds[a]` steps.

    So a change by the bound is at most that many steps for every count, and it is exactly that many where the
    unit is a multiple of the bound. `scale` is that of the noise over the largest change; the grid is so fine
    that the noise has 1024 steps, or as `resolution` says.
    """
    unit = math.lcm(*set(bounds))
    finest = _MOST_STEPS * min(bounds, default=1)
    if unit > finest:
        unit = max(bounds)
        if unit > finest:
            raise ValueError("the bounds of these counts differ too much for one noise")
        unit <<= (finest // unit).bit_length() - 1
    bits = resolution
    if bits is None:
        bits = min(exact_noise.resolution(unit * scale), (finest // unit).bit_length() - 1)
    elif not 0 <= whole(bits + 1, "resolution + 1") - 1 <= exact_noise.FINEST or unit << bits > finest:
        raise ValueError("resolution must be between 0 and 20, and less for bounds that differ much")
    return unit << bits
