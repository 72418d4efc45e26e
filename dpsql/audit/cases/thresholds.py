"""How selections above a threshold or of an unknown domain are audited, and queries that no unit changes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import LARGE, SMALL, AuditCase, any_k, around, at_least_k, queries, selection, stairs
from dpsql.kernel.mechanisms.check_stream import CheckStreamPlan
from dpsql.kernel.mechanisms.limited_domain import LimitedDomain, LimitedThenStable
from dpsql.kernel.mechanisms.mechanism import Noise
from dpsql.kernel.mechanisms.sparse_vector import (
    AdaptiveSparseVector,
    HybridSparseVector,
    SparseVectorByRounds,
)
from dpsql.kernel.mechanisms.top_stable import TopStable
from dpsql.kernel.mechanisms.unknown_domain import Existing
from dpsql.mechanisms import FirstStable, StableAnswers, StableQueries, StableQuery, of_any_size

_PLAIN = "the first groups above a threshold, with gaps (dissertation, Algorithm 17)"


_TWO = "sparse vector that spends half on clear hits (Free Gap, Algorithm 2)"


_MORE = "sparse vector that spends less on clear hits, charged by branch (Free Gap, Algorithm 2, extended)"


def _case(
    name: str,
    about: str,
    *,
    monotone: bool = True,
    ks: tuple[int, ...] = (1, 2),
    branches: int = 1,
    **options: Any,  # noqa: ANN401  handed on to the plan
) -> AuditCase:
    plan = AdaptiveSparseVector.plan
    return selection(name, about, plan, around(*ks), monotone=monotone, branches=branches, **options)


SPARSE_VECTOR = (
    *(
        _case(f"sparse vector, {noise}", _PLAIN, monotone=monotone, noise=noise)
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    _case("sparse vector below, exponential", "the first groups below a threshold", below=True),
    _case("adaptive sparse vector, 2 branches, exponential", _TWO, branches=2, margin=2),
    _case(
        "adaptive sparse vector, 2 branches, laplace",
        _TWO,
        monotone=False,
        branches=2,
        margin=2,
        noise="laplace",
    ),
    _case("adaptive sparse vector, 4 branches, exponential", _MORE, branches=4),
    _case(
        "adaptive sparse vector, 4 branches, limit 1, exponential",
        _MORE,
        monotone=False,
        ks=(1,),
        branches=4,
        limit=1,
    ),
)


_ROUNDS = "the first groups above a threshold, which is drawn anew after each"
SPARSE_VECTOR_ROUNDS = (
    *(
        selection(
            f"sparse vector by rounds, {noise}",
            _ROUNDS,
            SparseVectorByRounds.plan,
            around(1, 2),
            monotone=monotone,
            tight=noise != "laplace",
            noise=noise,
        )
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    selection(
        "sparse vector by rounds, below, exponential",
        _ROUNDS,
        SparseVectorByRounds.plan,
        around(1, 2),
        below=True,
    ),
)


HYBRID_SPARSE_VECTOR = (
    AuditCase(
        "hybrid sparse vector, exponential, monotone",
        "the largest groups above a threshold, with gaps over it (dissertation, Algorithm 20)",
        HybridSparseVector.plan,
        "monotone",
        around(1, 2),
    ),
    AuditCase(
        "hybrid sparse vector, laplace, general",
        "the largest groups above a threshold, with gaps over it",
        partial(HybridSparseVector.plan, monotone=False, noise="laplace"),
        arguments=around(1, 2),
    ),
)


CHECK_STREAM = (
    AuditCase(
        "stream of checks",
        "statistics of public expectations, of which only those that are off are charged",
        of_any_size(partial(CheckStreamPlan.plan, answers=0)),
        arguments=lambda _: {"misses": [1, 2]},
    ),
    AuditCase(
        "stream of checks, one direction",
        "the same where a unit moves all statistics up",
        of_any_size(partial(CheckStreamPlan.plan, answers=0, direction="UP")),
        "monotone",
        arguments=lambda _: {"misses": [1, 2]},
    ),
)


def _clearance(epsilon: Fraction, delta: float) -> float:
    return float(LimitedDomain.plan(1, epsilon, delta, candidates=3).bar)


LIMITED_DOMAIN = tuple(
    AuditCase(
        f"limited domain, delta {delta:g}",
        "the k largest groups of an unknown domain that come before a cutoff",
        partial(at_least_k(LimitedDomain.plan), delta=delta),
        arguments=lambda _: {"k": [1, 2], "candidates": [1, 3, 5]},
        inputs=stairs(partial(_clearance, delta=delta)),
        delta=delta,
    )
    for delta in (SMALL, LARGE)
)


def _cutoff(epsilon: Fraction, delta: float) -> float:
    return float(TopStable.plan(3, epsilon, delta).lead)


TOP_STABLE = tuple(
    AuditCase(
        f"top stable, {noise}, delta {delta:g}",
        "a set of largest groups that is well apart (Carvalho et al., Algorithm 3)",
        partial(at_least_k(TopStable.plan), noise=noise, delta=delta),
        arguments=lambda _: {"k": [1, 2], "candidates": [1, 2, 3]},
        inputs=stairs(partial(_cutoff, delta=delta)),
        delta=delta,
        # A large delta covers most of the privacy loss. With two Laplace noises the loss reaches epsilon
        # only where both are in their tails.
        tight=noise == "one-sided" and delta == SMALL,
    )
    for noise, delta in (("one-sided", SMALL), ("one-sided", LARGE), ("laplace", SMALL))
)


def _inputs(delta: float, m: int) -> Any:  # noqa: ANN401  the type of `AuditCase.inputs`
    def inputs(epsilon: Fraction) -> Sequence[tuple[str, Any, Any]]:
        height = round(float(Existing.plan(epsilon, delta, groups_per_unit=m).threshold))
        more = (1,) * m
        found = [("new groups", (0,) * m, more), ("a new group beside another", (0, height), (1, height))]
        for level in (height // 2, height, 2 * height):
            found += [
                ("all above", (level,) * m, (level + 1,) * m),
                ("all below", (level + 1,) * m, (level,) * m),
            ]
        return found

    return inputs


EXISTENCE = tuple(
    AuditCase(
        f"existing groups, {m} a unit, delta {delta:g}",
        "the groups of an unknown domain whose noisy number of units reaches a threshold",
        partial(of_any_size(Existing.plan), delta=delta, groups_per_unit=m),
        inputs=_inputs(delta, m),
        delta=delta,
    )
    for m, delta in ((1, SMALL), (1, LARGE), (2, LARGE))
)


def _bar(epsilon: Fraction, delta: float) -> float:
    return float(LimitedThenStable.plan(2, epsilon, delta, candidates=3).limited.bar)


def _lead(epsilon: Fraction, delta: float) -> float:
    further = LimitedThenStable.plan(2, epsilon, delta).further(1)
    assert further is not None  # noqa: S101  half of epsilon is left
    return float(further.lead)


def _order_inputs(epsilon: Fraction, delta: float) -> list[tuple[str, Any, Any]]:
    return [pair for height in (_bar, _lead) for pair in stairs(partial(height, delta=delta))(epsilon)]


LIMITED_THEN_STABLE = tuple(
    AuditCase(
        f"limited domain, then top stable, delta {delta:g}",
        "the groups before a cutoff in order, then a set of further ones that is well apart",
        partial(at_least_k(LimitedThenStable.plan), delta=delta),
        arguments=lambda _: {"k": [2, 3], "candidates": [1, 4]},
        inputs=partial(_order_inputs, delta=delta),
        delta=delta,
    )
    for delta in (SMALL, LARGE)
)


def _distance_cutoff(epsilon: Fraction, delta: float) -> float:
    return float(FirstStable.plan(3, epsilon, delta).tests.threshold)


def _answer(result: StableQuery | StableQueries, answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the exact answers released after a run: those of the queries that passed."""
    return np.where(result.index >= 0, answers[result.index], -1)


STABLE = (
    *(
        AuditCase(
            f"first stable, one-sided, delta {delta:g}",
            "the first query that no unit could change (Carvalho et al., Algorithm 4)",
            partial(FirstStable.plan, delta=delta),
            inputs=queries(partial(_distance_cutoff, delta=delta)),
            delta=delta,
            tight=delta == SMALL,
            answer=_answer,
        )
        for delta in (SMALL, LARGE)
    ),
    AuditCase(
        f"stable answers, delta {SMALL:g}",
        "exact answers of stable queries, unstable ones charged (Carvalho et al., Algorithm 5, recharged)",
        partial(StableAnswers.plan, delta=SMALL),
        arguments=any_k(1, 2),
        inputs=queries(partial(_distance_cutoff, delta=SMALL)),
        delta=SMALL,
        tight=False,
        answer=_answer,
    ),
)

THRESHOLD_CASES = (
    *SPARSE_VECTOR,
    *SPARSE_VECTOR_ROUNDS,
    *HYBRID_SPARSE_VECTOR,
    *CHECK_STREAM,
    *LIMITED_DOMAIN,
    *TOP_STABLE,
    *EXISTENCE,
    *LIMITED_THEN_STABLE,
    *STABLE,
)
"""The cases of this module, in the order of the audit's catalogue."""
