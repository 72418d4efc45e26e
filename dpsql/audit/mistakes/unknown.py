"""Test subjects for unknown domains: Top Stable with a part left out."""

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
"""Delta of the claims: where it is the mistake, and where it must not hide one in epsilon."""


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
    """Run Top Stable with one-sided noise and a fault: "quiet" threshold, "strict" bar, "unclamped" leads."""
    bits = 0 if fault == "strict" else None
    plan = stable.stable_tests(
        many, epsilon, delta, share=None, noise="one-sided", sensitivity=1, resolution=bits
    )
    if fault == "strict":
        # The least bar that noise is *above* with the chance allowed: one step less than it has to be.
        plan = replace(plan, bar=plan.bar - 1)
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


def _near_bar(epsilon: Fraction) -> list[Pair]:
    plan = stable.stable_tests(
        3, epsilon, _LITTLE, share=None, noise="one-sided", sensitivity=1, resolution=None
    )
    bar = plan.bar // (1 << plan.bits)
    found = []
    for level in range(bar - 2, bar + 4):
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
        inputs=_near_bar,
        many=(1, 2, 3),
        delta=_LITTLE,
    ),
    _faulty(
        "top stable, > for >=",
        "strict",
        "a bar that noise is above with the chance allowed, but reaching it is enough",
        inputs=_new_groups,
        many=(1,),
    ),
    _faulty(
        "top stable, lead not reduced",
        "unclamped",
        "takes the lead over the next group for the distance to instability, which is one less",
        inputs=_new_groups,
        many=(1,),
    ),
)
"""All of them."""
