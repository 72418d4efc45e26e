"""How selections of groups above a threshold are audited."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

from dpsql.audit.cases.case import AuditCase, around, direction, levels
from dpsql.kernel.mechanisms.arguments import (
    Noise,
)
from dpsql.kernel.mechanisms.guess_and_check import GuessAndCheckPlan
from dpsql.kernel.mechanisms.hybrid_sparse_vector import HybridSparseVector
from dpsql.kernel.mechanisms.sparse_vector import AdaptiveSparseVector
from dpsql.kernel.mechanisms.sparse_vector_rounds import SparseVectorByRounds
from dpsql.mechanisms import of_any_size

_PLAIN = "the first groups above a threshold, with gaps (dissertation, Algorithm 17)"


_TWO = "sparse vector that spends half on clear hits (Free Gap, Algorithm 2)"


_MORE = "sparse vector that spends less on clear hits, charged by branch (Free Gap, Algorithm 2, extended)"


def _case(
    name: str,
    about: str,
    *,
    monotone: bool,
    ks: tuple[int, ...] = (1, 2),
    branches: int = 1,
    **options: Any,  # noqa: ANN401  handed on to the plan
) -> AuditCase:
    adjacency = direction(monotone=monotone)
    plan = partial(AdaptiveSparseVector.plan, monotone=monotone, branches=branches, **options)
    return AuditCase(f"{name}, {adjacency}", about, plan, adjacency, around(*ks))


SPARSE_VECTOR = (
    *(
        _case(f"sparse vector, {noise}", _PLAIN, monotone=monotone, noise=noise)
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    _case(
        "sparse vector below, exponential", "the first groups below a threshold", monotone=True, below=True
    ),
    _case("adaptive sparse vector, 2 branches, exponential", _TWO, monotone=True, branches=2, margin=2),
    _case(
        "adaptive sparse vector, 2 branches, laplace",
        _TWO,
        monotone=False,
        branches=2,
        margin=2,
        noise="laplace",
    ),
    _case("adaptive sparse vector, 4 branches, exponential", _MORE, monotone=True, branches=4),
    _case(
        "adaptive sparse vector, 4 branches, limit 1, exponential",
        _MORE,
        monotone=False,
        ks=(1,),
        branches=4,
        limit=1,
    ),
)
"""How it is audited."""


def _case_by_rounds(name: str, *, monotone: bool, **options: Any) -> AuditCase:  # noqa: ANN401  handed on to the plan
    adjacency = direction(monotone=monotone)
    return AuditCase(
        f"{name}, {adjacency}",
        "the first groups above a threshold, which is drawn anew after each",
        partial(SparseVectorByRounds.plan, monotone=monotone, **options),
        adjacency,
        around(1, 2),
        tight=options.get("noise") != "laplace",
    )


SPARSE_VECTOR_ROUNDS = (
    *(
        _case_by_rounds(f"sparse vector by rounds, {noise}", monotone=monotone, noise=noise)
        for noise in get_args(Noise)
        for monotone in (True, False)
    ),
    _case_by_rounds("sparse vector by rounds, below, exponential", monotone=True, below=True),
)
"""How it is audited."""


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
"""How it is audited."""


GUESS_AND_CHECK = (
    AuditCase(
        "guess and check, exponential",
        "guesses checked at no cost, a fresh count for each miss (lecture, section 2)",
        of_any_size(partial(GuessAndCheckPlan.plan, guess=1)),
        arguments=lambda epsilon: {"tolerance": levels(epsilon, -4, -1, 0, 1, 4), "misses": [1, 2]},
    ),
)
"""How it is audited."""
