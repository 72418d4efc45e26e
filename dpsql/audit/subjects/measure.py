"""The mechanisms that measure counts, as audit subjects."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql import mechanisms
from dpsql.audit.inputs import Pair
from dpsql.audit.outputs import CHARGE
from dpsql.audit.subject import Subject, repeated
from dpsql.mechanisms import grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpsql.noise import Entropy

__all__ = ["SUBJECTS", "anchor_total", "measure_each", "release_all"]


def measure_each(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, Any]:
    """Measure each count with noise of its own."""
    every = repeated(counts, trials).reshape(-1)
    done = mechanisms.laplace(every, len(counts) / epsilon, entropy=entropy)
    return {"value": done.value.reshape(trials, -1), CHARGE: float(done.charge.epsilon / trials)}


def anchor_total(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction
) -> dict[str, Any]:
    """Measure the total of the counts many times, with scale and charge from a single run of `anchor`."""
    public = mechanisms.anchor(counts, len(counts) / epsilon, entropy=entropy)
    steps = (int(counts.sum()) << public.resolution) + grid.draw(
        "laplace", public.scale, public.resolution, trials, entropy
    )
    return {"total": grid.in_counts(steps, public.resolution), CHARGE: public.charge}


def release_all(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction, groups_per_unit: int
) -> dict[str, Any]:
    """Run `release_all` many times, for units that are each in a bounded number of groups."""
    public = mechanisms.release_all(counts, epsilon, groups_per_unit=groups_per_unit, entropy=entropy)
    every = repeated(counts, trials).reshape(-1)
    value = mechanisms.laplace(every, public.scale, resolution=public.resolution, entropy=entropy).value
    return {"value": value.reshape(trials, -1), CHARGE: public.charge}


def _two_cells(_: Fraction) -> list[Pair]:
    return [
        Pair("two above", (1, 1, 1, 1, 1), (2, 2, 1, 1, 1)),
        Pair("one above, one below", (1, 1, 1, 1, 1), (2, 0, 1, 1, 1)),
        Pair("two below", (3, 1, 2), (2, 0, 2)),
    ]


SUBJECTS = (
    Subject(
        "laplace, each count",
        "dpsql",
        "each of k counts with noise of scale k/epsilon",
        measure_each,
        "monotone",
    ),
    Subject(
        "anchor", "dpsql", "the total of k counts with noise of scale k/epsilon", anchor_total, "monotone"
    ),
    Subject(
        "release all, 1 group a unit",
        "dpsql",
        "a histogram: all counts, of which a unit changes one",
        partial(release_all, groups_per_unit=1),
        "one",
    ),
    Subject(
        "release all, 2 groups a unit",
        "dpsql",
        "all counts, of which a unit changes two",
        partial(release_all, groups_per_unit=2),
        inputs=_two_cells,
    ),
)
"""The subjects of this module."""
