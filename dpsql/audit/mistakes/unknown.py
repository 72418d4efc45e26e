"""Incorrect variants of Top Stable, the mechanism for sets of groups of an unknown domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.inputs import Pair
from dpsql.audit.shipped import outputs
from dpsql.audit.subject import Subject, repeated
from dpsql.kernel.mechanisms import NoiseSource, TopStable
from dpsql.kernel.noise import Entropy

_DELTA, _LITTLE = 0.1, 0.02
"""Delta of the claims: large where the mistake is in delta, small where the mistake is in epsilon."""

_QUIET = Fraction(1, 1 << 40)
"""A scale of noise that is zero but for a probability below e^-1,000,000."""


def top_stable(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    many: int,
    *,
    epsilon: Fraction,
    fault: str,
    delta: float,
) -> dict[str, Any]:
    """Run Top Stable with one fault: `quiet`, `strict` or `unclamped`.

    Quiet: the threshold has no noise. Strict: the cutoff is one grid step too low. Unclamped: the lead of a
    group is not reduced by the sensitivity.
    """
    plan = TopStable.plan(many, epsilon, delta, resolution=0 if fault == "strict" else None)
    if fault == "quiet":
        plan = replace(plan, tests=replace(plan.tests, threshold_scale=_QUIET))
    elif fault == "strict":
        # The least cutoff that noise exceeds with the probability allowed. Reaching it is enough to pass.
        plan = replace(plan, tests=replace(plan.tests, cutoff=plan.tests.cutoff - 1))
    else:
        plan = replace(plan, sensitivity=Fraction(0))
    return outputs(plan.run(repeated(counts, trials), NoiseSource(entropy)))


def _near_cutoff(epsilon: Fraction) -> list[Pair]:
    tests = TopStable.plan(3, epsilon, _LITTLE).tests
    cutoff = tests.cutoff // (1 << tests.resolution)
    found = []
    for level in range(cutoff - 2, cutoff + 4):
        found += [
            Pair("one above", (level, 0), (level + 1, 0)),
            Pair("every other above", (3 * level, 2 * level, level), (3 * level + 1, 2 * level, level + 1)),
        ]
    return found


def _new_groups(_: Fraction) -> list[Pair]:
    return [Pair("a new group", (0,), (1,)), Pair("another group", (1, 0), (2, 1))]


def _faulty(
    name: str,
    fault: str,
    about: str,
    *,
    inputs: Callable[[Fraction], list[Pair]],
    many: tuple[int, ...],
    delta: float = _DELTA,
) -> Subject:
    return Subject(
        name,
        "incorrect",
        about,
        partial(top_stable, fault=fault, delta=delta),
        delta=delta,
        arguments=lambda _: {"many": many},
        inputs=inputs,
    )


SUBJECTS = (
    _faulty(
        "top stable, threshold without noise",
        "quiet",
        "the tests share a threshold that has no noise",
        inputs=_near_cutoff,
        many=(1, 2, 3),
        delta=_LITTLE,
    ),
    _faulty(
        "top stable, > for >=",
        "strict",
        "the cutoff is for noise that exceeds it, but noise that reaches it passes the test too",
        inputs=_new_groups,
        many=(1,),
    ),
    _faulty(
        "top stable, lead not reduced",
        "unclamped",
        "uses the lead over the next group as the distance to instability, which is one less",
        inputs=_new_groups,
        many=(1,),
    ),
)
"""The subjects of this module."""
