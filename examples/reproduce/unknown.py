"""Selection where nobody knows the groups: Top Stable as printed and one-sided, and limited domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.candidates import largest
from dpsql.mechanisms.limited_domain import limited_domain_plan
from dpsql.mechanisms.limited_domain import runs as limited_runs
from dpsql.mechanisms.stable import StableNoise, stable_tests
from dpsql.mechanisms.top_stable import runs as stable_runs
from dpsql.noise import Entropy
from reproduce.page import Claim, Section, Table
from reproduce.peer import limited_domain_as_published
from reproduce.sets import DataSet
from reproduce.svg import Series, panel

__all__ = ["CURVE", "EPSILONS", "KS", "unknown_domain"]

EPSILONS = (Fraction(4, 10), Fraction(8, 10), Fraction(1))
KS = (3, 10, 50)
CURVE = (1, 2, 3, 5, 8, 12, 18, 26, 38, 55, 75, 100)
NAMES = ("TS as printed", "LD as published", "TS one-sided", "limited domain", "AUTO")
AUTO_K = 32

Shares = dict[str, tuple[float, float]]


def unknown_domain(
    sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]
) -> Section:
    """Top Stable, tables 2 and 3 and figure 1."""
    rng = np.random.default_rng(2020)
    cells = {}
    for one in sets:
        for epsilon in EPSILONS:
            for k in KS:
                cells[one.name, epsilon, k] = _shares(one, k, epsilon, trials, entropy, rng)
                tick()
    curves = {}
    for one in sets:
        for k in CURVE:
            curves[one.name, k] = _shares(one, k, EPSILONS[1], max(trials // 2, 1), entropy, rng)
            tick()
    tables = [_table(cells, which) for which in (0, 1)]
    curve_rows = [(n, k, *(s[name][1] for name in NAMES)) for (n, k), s in curves.items()]
    tables.append(Table("unknown_domain_over_k", ("data", "k", *(f"S, {n}" for n in NAMES)), curve_rows))
    panels = [
        panel(
            f"{one.name}, epsilon {float(EPSILONS[1])}",
            "k",
            "S, relative sum of counts",
            [
                Series("", CURVE, [curves[one.name, k][name][1] for k in CURVE], "both", i, i)
                for i, name in enumerate(NAMES[:4])
            ],
            y_range=(0, 1.05),
        )
        for one in sets
    ]
    return Section(
        "Unknown domains: Top Stable and limited domain",
        "Top Stable, tables 2 and 3 and figure 1. One-sided noise, the limited domain with gaps, and AUTO "
        "are dpsql's own.",
        "delta is 1 over the number of units. P is the share of the true top-k that came back, S the sum of "
        "the counts that came back over the sum of the true top-k's. Top Stable (TS) as printed has Laplace "
        "noise and the threshold of its lemma 3.1; Limited Domain (LD) as published is written from its "
        "description there, in floating point, to compare with; limited domain is dpsql's, with 10 k "
        f"candidates; AUTO takes it up to k = {AUTO_K} and one-sided Top Stable above.",
        _claims(cells, sets),
        panels,
        [Series(name, (), (), "both", i, i) for i, name in enumerate(NAMES[:4])],
        tables,
    )


def _shares(
    one: DataSet, k: int, epsilon: Fraction, trials: int, entropy: Entropy, rng: np.random.Generator
) -> Shares:
    printed = _stable(one, k, epsilon, "laplace", trials, entropy, printed=True)
    one_sided = _stable(one, k, epsilon, "one-sided", trials, entropy)
    limited = _limited(one, k, epsilon, trials, entropy)
    released = limited_domain_as_published(one.descending, k, float(epsilon), float(one.delta), trials, rng)
    rows, place = np.nonzero(released)
    published = _scores(one, k, place[np.isin(rows, np.arange(trials))], trials)
    auto = limited if k <= AUTO_K else one_sided
    return dict(zip(NAMES, (printed, published, one_sided, limited, auto), strict=True))


def _scores(one: DataSet, k: int, place: NDArray[np.int64], trials: int) -> tuple[float, float]:
    """P and S of what all trials together released, by place among the counts in descending order."""
    descending = one.descending
    counts = descending[np.minimum(place, len(descending) - 1)]
    truly = (counts >= descending[k - 1]).sum()
    return float(truly / trials / k), float(counts.sum() / trials / descending[:k].sum())


def _stable(
    one: DataSet,
    k: int,
    epsilon: Fraction,
    noise: StableNoise,
    trials: int,
    entropy: Entropy,
    *,
    printed: bool = False,
) -> tuple[float, float]:
    plan = stable_tests(k, epsilon, one.delta, share=None, noise=noise, sensitivity=1, resolution=None)
    if printed:
        bar = lemma(float(one.delta) / k, float(plan.threshold_epsilon), float(plan.epsilon))
        plan = replace(plan, bar=math.ceil(bar * 2**plan.bits))
    position, kept = largest(one.descending, k)
    size, _ = stable_runs(kept, Fraction(1), plan, trials, entropy)
    sizes = np.minimum(size, len(position))
    sums = np.concatenate([[0], np.cumsum(kept[:-1])])
    return float(sizes.mean() / k), float(sums[sizes].mean() / sums[-1])


def lemma(chance: float, threshold_epsilon: float, epsilon: float) -> float:
    """Return Algorithm 3's threshold, ln(1/x)/(epsilon/2), for the largest x that Lemma 3.1 allows.

    >>> round(lemma(1e-6, 0.37, 0.63), 2)
    45.79
    """
    ratio = 2 * threshold_epsilon / epsilon

    def tail(x: float) -> float:
        return float((2 * x**ratio + x - ratio * (x**ratio + 2 * x)) / (4 * (1 - ratio)))

    low, high = 1e-300, 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tail(middle) <= chance else (low, middle)
    return math.log(1 / low) / (epsilon / 2)


def _limited(one: DataSet, k: int, epsilon: Fraction, trials: int, entropy: Entropy) -> tuple[float, float]:
    plan = limited_domain_plan(k, epsilon, one.delta)
    position, kept = largest(one.descending, plan.candidates)
    index, _, released = limited_runs(kept, len(position), plan, trials, entropy)
    return _scores(one, k, index[np.arange(k) < released[:, None]], trials)


def _table(cells: dict[tuple[str, Fraction, int], Shares], which: int) -> Table:
    letter = "PS"[which]
    rows = [
        (one, float(epsilon), k, *(round(shares[name][which], 3) for name in NAMES))
        for (one, epsilon, k), shares in cells.items()
    ]
    columns = ("data", "epsilon", "k", *(f"{letter}, {name}" for name in NAMES))
    return Table(f"unknown_domain_{letter}", columns, rows, shown=True)


def _claims(cells: dict[tuple[str, Fraction, int], Shares], sets: Sequence[DataSet]) -> list[Claim]:
    gains = [s["TS one-sided"][0] - s["TS as printed"][0] for s in cells.values()]
    behind = [
        max(s["TS one-sided"][0], s["limited domain"][0]) - s["AUTO"][0]
        for (_, _, k), s in cells.items()
        if k <= 10
    ]
    small, large = (
        [s["AUTO"][0] - s["LD as published"][0] for (_, _, k), s in cells.items() if (k == KS[-1]) == big]
        for big in (False, True)
    )
    claims = [
        Claim(
            f"One-sided noise makes Top Stable better: on average over {len(gains)} cells P is higher by "
            f"{np.mean(gains):.3f}, and nowhere lower by more than {max(0.0, -min(gains)):.3f}.",
            bool(np.mean(gains) >= 0.03 and min(gains) >= -0.02),
        ),
        Claim(
            f"AUTO is never more than {max(0.0, *behind):.3f} behind the better of the two for k = 3 and 10.",
            max(behind) <= 0.1,
        ),
        Claim(
            f"For k = 3 and 10 AUTO, whose gaps come free, returns as much as Limited Domain as published, "
            f"which has none: P differs by {np.mean(small):+.3f} on average, {min(small):+.3f} to "
            f"{max(small):+.3f}.",
            bool(np.mean(small) >= -0.03),
        ),
        Claim(
            f"For k = {KS[-1]} Limited Domain as published, whose noise grows with the square root of k, is "
            f"ahead of AUTO where counts are large: P differs by {np.mean(large):+.3f} on average, "
            f"{min(large):+.3f} to {max(large):+.3f}.",
            bool(np.mean(large) < 0),
        ),
    ]
    for name, k, epsilon, least in (
        ("gowalla10core", 10, EPSILONS[0], 0.95),
        ("brightkite_sepgcn", 10, EPSILONS[1], 0.6),
    ):
        if any(one.name == name for one in sets):
            share = cells[name, epsilon, k]["limited domain"][0]
            claims.append(
                Claim(
                    f"Limited domain on {name}, k = {k}, epsilon {float(epsilon)}: {share:.3f} of the true "
                    f"top-k (at least {least}).",
                    share >= least,
                )
            )
    return claims
