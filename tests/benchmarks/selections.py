"""Mechanisms over numpy's inexact ones, over one another, and over OpenDP's where that is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.public_order import in_public_order
from dpsql.mechanisms import (
    adaptive_sparse_vector,
    exponential,
    hybrid_sparse_vector,
    hybrid_top_k,
    limited_domain,
    noisy_top_k,
    top_stable,
)

from .measures import Figure, Goal, alone, beside

__all__ = ["opendp", "selections"]


def power_law(groups: int) -> NDArray[np.int64]:
    """Counts in proportion to 1/i, in no order."""
    counts = (10**6 / np.arange(1, groups + 1)).astype(np.int64)
    np.random.default_rng(0).shuffle(counts)
    return counts


def selections(sizes: tuple[int, ...], rounds: int) -> Iterator[Figure]:
    """Top-k and the exponential mechanism over numpy's; the others over top-k."""
    for groups in sizes:
        counts, group = power_law(groups), f"selection, {groups:,} groups"
        yield from _over_numpy(counts, group, rounds)
        yield from _over_top_k(counts, group, rounds, judged=groups == 10**6)
    many = np.tile(np.array([10, 8, 7, 3, 1]), (500_000, 1))
    yield alone(
        "selection, trials",
        "500,000 runs of top-1 of 5",
        lambda: noisy_top_k(many, 1, 1),
        3,
        goal=Goal("ours", 1000),
    )


def _over_numpy(counts: NDArray[np.int64], group: str, rounds: int) -> Iterator[Figure]:
    rng = np.random.default_rng(0)

    def largest(k: int) -> object:
        noisy = counts + rng.geometric(1 / 1500, len(counts))
        return np.argpartition(noisy, -k - 1)[-k - 1 :]

    def weighed() -> object:
        weight = np.exp((counts - counts.max()) * 1.0)
        return np.searchsorted(np.cumsum(weight), rng.random() * weight.sum())

    for k in (1, 10, 1000):
        run = beside(partial(noisy_top_k, counts, k, 1), partial(largest, k), rounds)
        goal = Goal("ours", 100) if len(counts) == 10**6 and k == 10 else None
        yield run.figure(group, f"noisy top-k, k = {k}, over numpy's", goal=goal)
    run = beside(lambda: exponential(counts, 1), weighed, rounds)
    yield run.figure(group, "exponential mechanism, over numpy's")


def _over_top_k(counts: NDArray[np.int64], group: str, rounds: int, *, judged: bool) -> Iterator[Figure]:
    # So high a threshold that the whole stream is read.
    high, descending = 2 * 10**6, np.sort(counts)[::-1]
    works: dict[str, Callable[[], object]] = {
        f"sparse vector, {b} branches": partial(
            adaptive_sparse_vector, in_public_order(counts), high, 10, 1, branches=b
        )
        for b in (1, 2, 4)
    }
    works["sparse vector, 4 branches of Laplace"] = lambda: adaptive_sparse_vector(
        in_public_order(counts), high, 10, 1, noise="laplace"
    )
    works["hybrid top-k"] = lambda: hybrid_top_k(counts, 10**4, 10, 1)
    works["hybrid sparse vector"] = lambda: hybrid_sparse_vector(counts, 10**4, 10, 1)
    works["limited domain, of the 101 largest"] = lambda: limited_domain(descending[:101], 10, 1, 1e-9)
    works["Top Stable, of the 11 largest"] = lambda: top_stable(descending[:11], 10, 1, 1e-9)
    works["top-k, k = 1000"] = lambda: noisy_top_k(counts, 1000, 1)
    goals = {"sparse vector, 4 branches": Goal("ratio", 4), "top-k, k = 1000": Goal("ratio", 1.2)}
    for name, work in works.items():
        run = beside(work, lambda: noisy_top_k(counts, 10, 1), rounds)
        yield run.figure(group, f"{name}, over top-10", goal=goals.get(name) if judged else None)


def opendp(sizes: tuple[int, ...], rounds: int) -> Iterator[Figure]:
    """OpenDP's exact mechanisms on the same counts, over ours; nothing where it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        print("\n(OpenDP is not installed: nothing to compare with)")
        return
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    for groups in sizes:
        counts = power_law(groups)
        for k in (1, 10):
            theirs = dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=k, scale=float(k))
            run = beside(partial(theirs, counts.tolist()), partial(noisy_top_k, counts, k, 1), rounds)
            goal = Goal("ratio", 100, least=True) if k == 10 and groups >= 50_000 else None
            yield run.figure(f"OpenDP over ours, {groups:,} groups", f"noisy top-k, k = {k}", goal=goal)
