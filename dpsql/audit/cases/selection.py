"""How selections of the largest groups are audited."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, get_args

from dpsql.audit.cases import Arguments, AuditCase, any_k, direction, levels, moves, new_groups
from dpsql.kernel.mechanisms.exponential import Exponential, GumbelTopK
from dpsql.kernel.mechanisms.joint import Joint
from dpsql.kernel.mechanisms.mechanism import Mechanism, Noise
from dpsql.kernel.mechanisms.sparse_vector import AdaptiveSparseVector
from dpsql.kernel.mechanisms.top_k import HybridTopK, NoisyTopK, PeeledTopK

TOP_K = (
    *(
        AuditCase(
            f"noisy top-k, {noise}, {direction(monotone=monotone)}",
            "the k largest groups in order, with gaps (Free Gap, Algorithm 1)",
            partial(NoisyTopK.plan, monotone=monotone, noise=noise),
            direction(monotone=monotone),
            any_k(2, 3),
        )
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    AuditCase(
        "noisy lowest-k, exponential, monotone",
        "the k smallest groups",
        partial(NoisyTopK.plan, lowest=True),
        "monotone",
        any_k(1, 2),
    ),
    *(
        AuditCase(
            f"noisy top-k over a sparse domain, {noise}, monotone",
            "the k largest groups, of which the empty ones are drawn by skips",
            partial(NoisyTopK.plan, noise=noise),
            "monotone",
            any_k(1, 2),
            new_groups,
            sparse=True,
        )
        for noise in get_args(Noise)
    ),
    AuditCase(
        "noisy max, exponential, monotone",
        "the largest group, with its gap: permute-and-flip",
        partial(NoisyTopK.plan, k=1),
        "monotone",
    ),
    AuditCase(
        "noisy max, laplace, general",
        "the largest group, with its gap",
        partial(NoisyTopK.plan, k=1, monotone=False, noise="laplace"),
    ),
)


PEELED = (
    *(
        AuditCase(
            f"peeled top-k, {noise}, {direction(monotone=monotone)}",
            "the k largest groups by k rounds of noisy max with gap",
            partial(PeeledTopK.plan, monotone=monotone, noise=noise),
            direction(monotone=monotone),
            any_k(2, 3),
        )
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    AuditCase(
        "peeled lowest-k, exponential, monotone",
        "the k smallest groups by k rounds of noisy max with gap",
        partial(PeeledTopK.plan, lowest=True),
        "monotone",
        any_k(2),
    ),
)


GUMBEL = (
    *(
        AuditCase(
            f"gumbel top-k, {direction(monotone=monotone)}",
            "the k largest groups by k rounds of the exponential mechanism, without gaps",
            partial(GumbelTopK.plan, monotone=monotone),
            direction(monotone=monotone),
            any_k(2, 3),
            tight=False,
        )
        for monotone in (True, False)
    ),
    AuditCase(
        "gumbel lowest-k, monotone",
        "the k smallest groups by k rounds of the exponential mechanism",
        partial(GumbelTopK.plan, lowest=True),
        "monotone",
        any_k(2),
        tight=False,
    ),
)


EXPONENTIAL = (
    AuditCase(
        "exponential mechanism, monotone",
        "one group in proportion to e^(epsilon count), with gap (dissertation, Algorithm 21)",
        Exponential.plan,
        "monotone",
    ),
    AuditCase(
        "exponential mechanism, general",
        "one group in proportion to e^(epsilon count / 2), with gap",
        partial(Exponential.plan, monotone=False),
    ),
)


JOINT = (
    *(
        AuditCase(
            f"joint exponential mechanism, {direction(monotone=monotone)}",
            "a sequence of k groups in proportion to e^(-loss/scale) (Gillenwater et al.)",
            partial(Joint.plan, monotone=monotone),
            direction(monotone=monotone),
            any_k(1, 2, 3),
            tight=False,
        )
        for monotone in (True, False)
    ),
    AuditCase(
        "joint exponential mechanism, lowest",
        "the k smallest groups as one sequence",
        partial(Joint.plan, lowest=True),
        "monotone",
        any_k(1, 2),
        tight=False,
    ),
)


def _around(epsilon: Fraction) -> dict[str, list[int]]:
    return {"k": [1, 2, 3], "threshold": levels(epsilon, -2, -1, 0, 1, 2, 4)}


HYBRID_TOP_K = (
    AuditCase(
        "hybrid top-k, exponential, monotone",
        "top-k as far as above a threshold, charged by what is found (dissertation, Algorithm 19)",
        HybridTopK.plan,
        "monotone",
        _around,
    ),
    AuditCase(
        "hybrid top-k over a sparse domain, exponential, monotone",
        "top-k as far as above a threshold, of which the empty groups are drawn by skips",
        HybridTopK.plan,
        "monotone",
        _around,
        new_groups,
        sparse=True,
    ),
    AuditCase(
        "hybrid top-k, laplace, general",
        "top-k as far as above a threshold, charged by what is found",
        partial(HybridTopK.plan, monotone=False, noise="laplace"),
        arguments=_around,
    ),
)


def _thresholds(_: Fraction) -> dict[str, list[int]]:
    return {"k": [1, 2], "threshold": [6, 10, 14]}


def _cases(low: int, high: int) -> list[AuditCase]:
    """Return the cases of counts that move by `low` to `high`, low <= 0 <= high."""
    width, largest = high - low, max(high, -low)
    plans: dict[str, tuple[Callable[..., Mechanism[Any]], Arguments]] = {
        "noisy top-k": (NoisyTopK.plan, any_k(1, 2)),
        "exponential mechanism": (Exponential.plan, lambda _: {}),
        "hybrid top-k": (HybridTopK.plan, _thresholds),
        "sparse vector": (
            partial(AdaptiveSparseVector.plan, branches=1, threshold_sensitivity=largest),
            _thresholds,
        ),
    }
    return [
        AuditCase(
            f"{name}, moves from {low} to {high}",
            "a selection by sums; its noise is for the difference of the ends",
            partial(plan, sensitivity=width),
            arguments=arguments,
            inputs=moves(low, high),
            tight=False,
        )
        for name, (plan, arguments) in plans.items()
    ]


RANGES = tuple(case for ends in ((-1, 4), (-4, 4)) for case in _cases(*ends))

SELECTION_CASES = (*TOP_K, *PEELED, *GUMBEL, *EXPONENTIAL, *JOINT, *HYBRID_TOP_K, *RANGES)
"""The cases of this module, in the order of the audit's catalogue."""
