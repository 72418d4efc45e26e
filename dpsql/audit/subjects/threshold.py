"""The threshold mechanisms as audit subjects: sparse vector, its variants, and guess and check."""

from __future__ import annotations

from fractions import Fraction
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql import mechanisms
from dpsql import noise as exact_noise
from dpsql.audit.features.numbers import times
from dpsql.audit.outputs import CHARGE
from dpsql.audit.subject import Subject, first_hits, levels
from dpsql.mechanisms import grid, guess_and_check, sparse_vector_plan
from dpsql.mechanisms.sparse_vector import affordable, fresh, gaps_of, passed

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dpsql.mechanisms import Noise
    from dpsql.mechanisms.sparse_vector_plan import SparseVectorPlan
    from dpsql.noise import Entropy

__all__ = ["SUBJECTS", "check_guesses", "find_above", "find_largest_above"]


def _plan(
    counts: NDArray[np.int64],
    threshold: int,
    k: int,
    epsilon: Fraction,
    **options: Any,  # noqa: ANN401  handed on to the mechanism
) -> SparseVectorPlan:
    given = {
        "limit": None,
        "branches": 1,
        "share": None,
        "margin": None,
        "sensitivity": 1,
        "monotone": True,
        "noise": "exponential",
        "resolution": None,
        "below": False,
        **options,
    }
    return sparse_vector_plan.sparse_vector_plan(len(counts), threshold, k, epsilon, **given)


def find_above(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    threshold: int,
    k: int,
    *,
    epsilon: Fraction,
    below: bool = False,
    **options: Any,  # noqa: ANN401  handed on to the mechanism
) -> dict[str, Any]:
    """Run `adaptive_sparse_vector` many times, as `sparse_vector_runs` does, with charges as floats."""
    plan = _plan(counts, threshold, k, epsilon, below=below, **options)
    shape = (trials, len(counts))
    values = np.broadcast_to(grid.placed(counts, plan.bits, negated=below), shape)
    values = values - grid.draw(plan.noise, plan.threshold_scale, plan.bits, (trials, 1), entropy)
    branch_index, steps = passed(values, plan.cutoffs, fresh(plan, entropy))
    hit = affordable(branch_index, plan) & (branch_index >= 0)
    gap = np.full(shape, np.nan)
    gap[hit] = gaps_of(steps[hit], branch_index[hit], plan)
    units = reduce(np.add, np.where(hit, 1 << np.maximum(branch_index, 0), 0).T)
    found = {"branch": plan.branches - 1 - branch_index, "gap": gap} if plan.branches > 1 else {"gap": gap}
    index, parts = first_hits(hit, min(k << (plan.branches - 1), 3), **found)
    return {"index": index, **parts, CHARGE: _spent(plan, units)}


def find_largest_above(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    threshold: int,
    k: int,
    *,
    epsilon: Fraction,
    **options: Any,  # noqa: ANN401  handed on to the mechanism
) -> dict[str, Any]:
    """Run `hybrid_sparse_vector` many times, with the functions that it is made of."""
    plan = _plan(counts, threshold, k, epsilon, **options)
    shape = (trials, len(counts))
    values = np.broadcast_to(grid.placed(counts, plan.bits, negated=False), shape)
    values = values - grid.draw(plan.noise, plan.threshold_scale, plan.bits, (trials, 1), entropy)
    branch_index, steps = passed(values, plan.cutoffs, fresh(plan, entropy))
    ranks = exact_noise.ranks(len(counts), trials=trials, entropy=entropy)
    order = np.lexsort((ranks, np.where(branch_index >= 0, -steps, np.iinfo(np.int64).max)), axis=1)
    order = order[:, : plan.hits]
    hit = np.take_along_axis(branch_index, order, axis=1) >= 0
    best = np.take_along_axis(steps, order, axis=1)
    gap = np.full(hit.shape, np.nan)
    gap[hit] = gaps_of(best[hit], np.zeros(np.count_nonzero(hit), dtype=np.int64), plan)
    return {"index": np.where(hit, order, -1), "gap": gap, CHARGE: _spent(plan, times(hit))}


def _spent(plan: SparseVectorPlan, units: NDArray[np.int64]) -> NDArray[np.float64]:
    distinct, which = np.unique(units, return_inverse=True)
    charges: NDArray[np.float64] = np.array([float(plan.spent(int(spent))) for spent in distinct])[which]
    return charges


def check_guesses(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    tolerance: int,
    misses: int,
    *,
    epsilon: Fraction,
    guess: int = 1,
    noise: Noise = "exponential",
) -> dict[str, Any]:
    """Check one guess for each count many times, with the functions that `GuessAndCheck` is made of."""
    public = mechanisms.GuessAndCheck(tolerance, epsilon, misses, noise=noise, entropy=entropy)
    bits, size = public.resolution, (trials, len(counts))
    first, check = 1 / public.threshold_scale, 2 / public.scale
    finding = first + misses * check
    plan = _plan(
        np.zeros(misses, dtype=np.int64),
        tolerance,
        misses,
        finding,
        share=first / finding,
        margin=0,
        monotone=False,
        noise=noise,
        resolution=bits,
    )
    level = grid.draw(noise, public.threshold_scale, bits, (trials, 1), entropy)
    drawn = grid.draw(noise, public.scale, bits, size, entropy)
    steps = np.broadcast_to(grid.placed(counts, bits, negated=False), size)
    # `judge` is annotated for integers; its arithmetic works on arrays too.
    judged = guess_and_check.judge(steps, guess << bits, drawn, level, int(plan.cutoffs[0]))  # type: ignore[arg-type]  # see above
    over, off = (np.asarray(part) for part in judged)
    missed = over & (np.cumsum(over, axis=1) <= misses)
    answers = steps + grid.draw("laplace", public.answer_scale, bits, size, entropy)
    gap = grid.in_counts(off, bits) + float(plan.offsets[0])
    index, parts = first_hits(missed, misses, value=grid.in_counts(answers, bits), gap=gap)
    each = float(check + 1 / public.answer_scale)
    return {"miss": index, **parts, CHARGE: float(first) + each * times(missed)}


def _around(*ks: int) -> Callable[[Fraction], dict[str, list[int]]]:
    return lambda epsilon: {"threshold": levels(epsilon, -4, -2, -1, 0, 1, 2, 4), "k": list(ks)}


def _subject(
    name: str, about: str, mechanism: Callable[..., object], *, monotone: bool, ks: tuple[int, ...]
) -> Subject:
    words = "monotone" if monotone else "general"
    return Subject(
        f"{name}, {words}",
        "dpsql",
        about,
        partial(mechanism, monotone=monotone),
        "monotone" if monotone else "general",
        arguments=_around(*ks),
    )


_PLAIN = "the first groups above a threshold, with gaps (dissertation, Algorithm 17)"
_ADAPTIVE = (
    "sparse vector that spends less on clear hits, charged by branch (Free Gap, Algorithm 2, extended)"
)

SUBJECTS = (
    *(
        _subject(f"sparse vector, {noise}", _PLAIN, partial(find_above, noise=noise), monotone=m, ks=(1, 2))
        for noise in ("exponential", "laplace", "geometric")
        for m in (True, False)
    ),
    _subject(
        "sparse vector below, exponential",
        "the first groups below a threshold",
        partial(find_above, below=True),
        monotone=True,
        ks=(1, 2),
    ),
    _subject(
        "adaptive sparse vector, 2 branches, exponential",
        "sparse vector that spends half on clear hits (Free Gap, Algorithm 2)",
        partial(find_above, branches=2, margin=2),
        monotone=True,
        ks=(1, 2),
    ),
    _subject(
        "adaptive sparse vector, 2 branches, laplace",
        "sparse vector that spends half on clear hits (Free Gap, Algorithm 2)",
        partial(find_above, branches=2, margin=2, noise="laplace"),
        monotone=False,
        ks=(1, 2),
    ),
    _subject(
        "ladder, 4 branches, exponential",
        _ADAPTIVE,
        partial(find_above, branches=4),
        monotone=True,
        ks=(1, 2),
    ),
    _subject(
        "ladder, 4 branches, limit 1, exponential",
        _ADAPTIVE,
        partial(find_above, branches=4, limit=1),
        monotone=False,
        ks=(1,),
    ),
    _subject(
        "hybrid sparse vector, exponential",
        "the largest groups above a threshold, with gaps over it (dissertation, Algorithm 20)",
        find_largest_above,
        monotone=True,
        ks=(1, 2),
    ),
    _subject(
        "hybrid sparse vector, laplace",
        "the largest groups above a threshold, with gaps over it",
        partial(find_largest_above, noise="laplace"),
        monotone=False,
        ks=(1, 2),
    ),
    Subject(
        "guess and check, exponential",
        "dpsql",
        "guesses checked at no cost, a fresh count for each miss (lecture, section 2)",
        check_guesses,
        arguments=lambda epsilon: {"tolerance": levels(epsilon, -4, -1, 0, 1, 4), "misses": [1, 2]},
    ),
)
"""The subjects of this module."""
