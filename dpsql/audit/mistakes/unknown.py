"""Incorrect variants of Top Stable, the mechanism for sets of groups of an unknown domain."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.audit.inputs import Pair
from dpsql.audit.subject import Subject
from dpsql.mechanisms import stable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpsql.noise import Entropy

__all__ = ["SUBJECTS"]

_DELTA, _LITTLE = 0.1, 0.02
"""Delta of the claims: large where the mistake is in delta, small where the mistake is in epsilon."""


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
    """Run Top Stable with one-sided noise and one fault: `quiet`, `strict` or `unclamped`.

    Quiet: the threshold has no noise. Strict: the cutoff is one grid step too low. Unclamped: the lead of a
    group is not reduced by the sensitivity.
    """
    bits = 0 if fault == "strict" else None
    plan = stable.stable_tests(
        many, epsilon, delta, share=None, noise="one-sided", sensitivity=1, resolution=bits
    )
    if fault == "strict":
        # The least cutoff that noise exceeds with the probability allowed. Reaching it is enough to pass.
        plan = replace(plan, cutoff=plan.cutoff - 1)
    order = np.argsort(-counts, kind="stable")
    sorted_counts = np.zeros(many + 1, dtype=np.int64)
    kept = counts[order][: many + 1]
    sorted_counts[: len(kept)] = kept
    leads = sorted_counts[:-1] - sorted_counts[1:] - (0 if fault == "unclamped" else 1)
    level, drawn = plan.draw(trials, many, entropy)
    if fault == "quiet":
        level = np.zeros_like(level)
    at, _ = stable.first_test(stable.margins(np.maximum(leads, 0)[::-1], plan, level, drawn))
    found = np.where(at >= 0, many - at, 0)
    member = np.zeros((many + 1, len(counts)), dtype=np.int64)
    real = order[counts[order] > 0]
    for size in range(many + 1):
        member[size, real[:size]] = 1
    return {"members": member[found]}


def _near_cutoff(epsilon: Fraction) -> list[Pair]:
    plan = stable.stable_tests(
        3, epsilon, _LITTLE, share=None, noise="one-sided", sensitivity=1, resolution=None
    )
    cutoff = plan.cutoff // (1 << plan.bits)
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
