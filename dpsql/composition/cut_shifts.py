"""How far to shift numbers that bounds have cut, so that a function of them is least and largest.

Each number may be more or less than what was measured, by all that its bound may have left out. A function
that rises or falls in each number is least and largest at corners of that box. One that turns, as the
distance of two numbers at 0, is so inside of it, too: a grid finds the place, and finer grids around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.composition.released_terms import NoIntervalError

FloatArray = NDArray[np.float64]
Shift = tuple[float, ...]
_STEPS = {1: 257, 2: 33, 3: 13}
"""Into how many steps each number's range is divided, by how many numbers are cut."""
MOST_CUT = max(_STEPS)
"""The most numbers that bounds have cut of which a function has an interval."""
_TIMES = 6


def list_shifts(
    f: Callable[[list[FloatArray]], FloatArray],
    centres: Sequence[float],
    sides: Sequence[tuple[float, float]],
) -> list[Shift]:
    """Return the shifts at which a function of numbers near `centres` is least and largest, corners first."""
    cut = [place for place, side in enumerate(sides) if any(side)]
    ends = [(-below, above) if any((below, above)) else (0.0,) for below, above in sides]
    shifts = list(product(*ends)) if cut else []
    for sign in (1.0, -1.0) if cut else ():
        found = _find_least(f, sign, centres, sides, cut)
        if found is not None:
            shifts.append(found)
    return list(dict.fromkeys(shifts))


def _find_least(
    f: Callable[[list[FloatArray]], FloatArray],
    sign: float,
    centres: Sequence[float],
    sides: Sequence[tuple[float, float]],
    cut: Sequence[int],
) -> Shift | None:
    """Return the shift within the sides at which `sign` times a function is least; None: it has no value."""
    steps, best, least = _STEPS[len(cut)], None, np.inf
    low = [-sides[place][0] for place in cut]
    high = [sides[place][1] for place in cut]
    for _ in range(_TIMES):
        axes = [np.linspace(a, b, steps) for a, b in zip(low, high, strict=True)]
        grids = dict(zip(cut, (g.ravel() for g in np.meshgrid(*axes, indexing="ij")), strict=True))
        size = steps ** len(cut)
        leaves = [centre + grids.get(place, np.zeros(size)) for place, centre in enumerate(centres)]
        try:
            values = sign * np.asarray(f(leaves), dtype=np.float64)
        except NoIntervalError:  # so near to each other rounded values are one
            break
        values = np.where(np.isfinite(values), values, np.inf)
        at = int(np.argmin(values))
        if values[at] < least:
            least = float(values[at])
            best = tuple(float(grids[i][at]) if i in grids else 0.0 for i in range(len(centres)))
        if best is None:
            break
        spans = [(b - a) / (steps - 1) for a, b in zip(low, high, strict=True)]
        low = [max(-sides[p][0], best[p] - span) for p, span in zip(cut, spans, strict=True)]
        high = [min(sides[p][1], best[p] + span) for p, span in zip(cut, spans, strict=True)]
    return best
