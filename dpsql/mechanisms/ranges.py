"""How selections of counts that one unit moves within a range are audited, as sums of bounded values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

from dpsql.mechanisms.audit_inputs import moved
from dpsql.mechanisms.audited import Arguments, AuditCase, any_k
from dpsql.mechanisms.exponential import Exponential
from dpsql.mechanisms.hybrid_top_k import HybridTopK
from dpsql.mechanisms.mechanism import Mechanism
from dpsql.mechanisms.sparse_vector import AdaptiveSparseVector
from dpsql.mechanisms.top_k import NoisyTopK


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
            inputs=moved(low, high),
            tight=False,
        )
        for name, (plan, arguments) in plans.items()
    ]


AUDITED = tuple(case for ends in ((-1, 4), (-4, 4)) for case in _cases(*ends))
"""The cases."""
