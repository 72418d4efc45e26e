"""Incorrect variants of the joint exponential mechanism: scales that are too small by a factor of two."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.inputs import Pair
from dpsql.audit.shipped import outputs
from dpsql.audit.subject import Subject, repeated
from dpsql.kernel.mechanisms import Joint, NoiseSource
from dpsql.kernel.noise import Entropy

_LOW = 20
"""Number of groups in third place."""


def joint(
    counts: NDArray[np.int64], trials: int, entropy: Entropy, *, epsilon: Fraction, factor: int
) -> dict[str, Any]:
    """Choose two groups by the joint exponential mechanism for monotone counts, its scale divided."""
    plan = Joint.plan(len(counts), 2, epsilon)
    wrong = replace(plan, scale=plan.scale / factor)
    return outputs(wrong.run(repeated(counts, trials), NoiseSource(entropy)))


def _behind(epsilon: Fraction, *, factor: int, others: int) -> list[Pair]:
    """Make pairs in which a unit raises all groups but the second, which changes by `others`.

    The loss of the sequences that begin with the second group rises, and that of the first group with a low
    one falls. The low ones are so many that these sequences are the most likely.
    """
    rate = factor * float(epsilon) / 2
    found = []
    for weight, rare in ((4, 0.04), (4, 0.015)):
        lead, fall = round(math.log(1 / rare) / rate), max(1, round(math.log(_LOW / weight) / rate))
        first, low = 2 * fall + lead + 1, 1
        second = low + fall
        found.append(
            Pair(
                "all but the second above",
                (first, second, *(low,) * _LOW),
                (first + 1, second + others, *(low + 1,) * _LOW),
            )
        )
    return found


SUBJECTS = (
    Subject(
        "joint exponential mechanism, scale halved",
        "incorrect",
        "scale c/epsilon, as if only the loss of a sequence changed, and not the sum over all sequences",
        partial(joint, factor=2),
        inputs=partial(_behind, factor=2, others=0),
    ),
    Subject(
        "joint exponential mechanism, counts not monotone",
        "incorrect",
        "the scale for monotone counts, but a unit moves the loss by twice its bound",
        partial(joint, factor=1),
        inputs=partial(_behind, factor=1, others=-1),
    ),
)
"""The subjects of this module."""
