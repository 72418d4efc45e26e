"""Top-k that stops at a threshold: as good as top-k, and cheaper where few groups are above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.kernel.noise import Entropy
from reproduce.error_reduction import EPSILON
from reproduce.over_threshold import printed_share
from reproduce.page import Claim, Figure, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.thresholds import KS
from reproduce.trials import charges, threshold_runs, top_k_runs

__all__ = ["NAMES", "RANK", "Point", "claims_left", "claims_mean", "hybrids"]

NAMES = ("hybrid top-k", "hybrid sparse vector", "noisy top-k", "sparse vector")
RANK = 12
LOOKS = (("both", 0, 0, 0.9), ("both", 1, 5, 1.0), ("both", 2, 3, 1.9), ("both", 3, 4, 1.5))
"""Kind, colour, shape, size: the marks of two that coincide can both be seen."""

DRAWN = (2, 3, 0, 1)


@dataclass(frozen=True, slots=True)
class Point:
    """What is left of epsilon, in per cent, and the mean count of what is returned, by mechanism."""

    data: str
    k: int
    left: tuple[float, ...]
    mean: tuple[float, ...]
    level: int
    """The threshold."""


def hybrids(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Dissertation, figures 5-7 and 5-8."""
    rows = [_point(one, k, trials, entropy, tick) for one in sets for k in KS]
    legend = [Series(name, (), (), *look) for name, look in zip(NAMES, LOOKS, strict=True)]
    names = [f"{name}, budget left %" for name in NAMES] + [f"{name}, mean answer" for name in NAMES]
    return Section(
        "Hybrids: the quality of top-k, the thrift of sparse vector",
        "Dissertation, algorithms 19 and 20, figures 5-7 and 5-8.",
        f"The threshold is the {RANK}-th largest count, so for k over {RANK} there is nothing more to find; "
        f"epsilon {float(EPSILON)}, exponential noise, {trials:,} runs a point. Hybrid top-k pays 1/k of "
        "epsilon for the threshold and for each answer; the sparse vectors pay a fixed share for the "
        "threshold, here 1 : k^(2/3) as in the papers, and less for each answer.",
        [
            Figure("Budget left", claims_left(rows), _panels(rows, "left"), legend),
            Figure(
                "Mean count of what is returned (dotted: the threshold)",
                claims_mean(rows),
                _panels(rows, "mean"),
                legend,
            ),
        ],
        [Table("hybrids", ("data", "k", *names), [(r.data, r.k, *r.left, *r.mean) for r in rows])],
    )


def claims_left(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of the budget left shows."""
    after = [r for r in rows if r.k > RANK]
    last = [r for r in rows if r.k == KS[-1]]
    behind = sorted({r.k for r in after if r.left[0] < r.left[1]})
    ahead = sorted({r.k for r in after if r.k > max(behind, default=0)})
    crossing = next((k for k in range(RANK + 1, 1000) if printed_share(k) * (k - RANK) > 1), 0)
    where = f"only from k = {ahead[0]} on" if ahead else "nowhere"
    return [
        Claim(
            f"For k over {RANK} the hybrids leave budget where noisy top-k spends it all: at k = {KS[-1]} "
            + ", ".join(f"{r.left[0]:.0f}% and {r.left[1]:.0f}% on {r.data}" for r in last)
            + ".",
            all(min(r.left[0], r.left[1]) > 5 and r.left[2] == 0 for r in after),
            "hybrids and sparse vector spend less for k > 12, noisy top-k all (figure 5-7)",
            f"{min(r.left[0] for r in last):.0f}% or more is left at k = {KS[-1]}",
        ),
        Claim(
            f"Hybrid top-k leaves more than hybrid sparse vector for every k over {RANK}: "
            + ("so it is." if not behind else f"{where}. ")
            + (
                f"With t answers the latter leaves (1-theta)(k-t)/k of epsilon and the former (k-t-1)/k, so "
                f"hybrid top-k is ahead once theta (k-t) > 1; with t = {RANK} that is k = {crossing}."
                if behind
                else ""
            ),
            not behind,
            "hybrid top-k saves more than hybrid sparse vector (section 5.8.3)",
            "for every k > 12" if not behind else where,
        ),
        Claim(
            "The plain sparse vector leaves as much as its hybrid: the two differ by at most "
            f"{max(abs(r.left[1] - r.left[3]) for r in rows):.1f} percentage points.",
            all(abs(r.left[1] - r.left[3]) < 3 for r in rows),
            "sparse vector is similar to its hybrid in what it spends (section 5.8.3)",
            f"within {max(abs(r.left[1] - r.left[3]) for r in rows):.1f} points",
        ),
    ]


def claims_mean(rows: Sequence[Point]) -> list[Claim]:
    """Say what the figure of the mean answers shows."""
    before = [r for r in rows if r.k <= RANK]
    last = [r for r in rows if r.k == KS[-1]]
    four = [r for r in rows if r.k == 4]
    larger = [100 * (min(r.mean[0], r.mean[1]) / r.mean[3] - 1) for r in four]
    filtered = [100 * (min(r.mean[0], r.mean[1], r.mean[3]) / r.mean[2] - 1) for r in last]
    return [
        Claim(
            f"For k up to {RANK} the hybrids return items as large as noisy top-k does, and for small k "
            "larger ones than sparse vector, which takes the first it meets: a mean count at k = 4 of "
            + ", ".join(
                f"{r.mean[0]:,.0f} against {r.mean[2]:,.0f} and {r.mean[3]:,.0f} on {r.data}" for r in four
            )
            + ".",
            all(min(r.mean[0], r.mean[1]) > 0.97 * r.mean[2] for r in before) and min(larger) > 2,
            "much better answers than sparse vector for k <= 12 (figure 5-8)",
            f"larger by {min(larger):.0f}% or more at k = 4",
        ),
        Claim(
            "For large k they return only what is above the threshold, like sparse vector and unlike top-k: "
            f"at k = {KS[-1]} "
            + ", ".join(f"{r.mean[0]:,.0f} against top-k's {r.mean[2]:,.0f} on {r.data}" for r in last)
            + ".",
            min(filtered) > 2,
            "higher average quality than top-k for k > 12 (figure 5-8)",
            f"larger by {min(filtered):.0f}% or more at k = {KS[-1]}",
        ),
    ]


def _panels(rows: Sequence[Point], what: str) -> list[str]:
    found = []
    for data in dict.fromkeys(r.data for r in rows):
        mine = [r for r in rows if r.data == data]
        drawn = [Series("", KS, [float(getattr(r, what)[i]) for r in mine], *LOOKS[i]) for i in DRAWN]
        if what == "left":
            found.append(panel(data, "k", "left of epsilon", drawn, y_range=(-2, 60), unit="%"))
        else:
            found.append(panel(data, "k", "mean count", drawn, level=mine[0].level))
    return found


def _point(one: DataSet, k: int, trials: int, entropy: Entropy, tick: Callable[[], None]) -> Point:
    threshold, share = int(one.descending[RANK - 1]), printed_share(k)
    first = [
        mechanisms.hybrid_top_k(one.counts, threshold, k, EPSILON, entropy=entropy) for _ in range(trials)
    ]
    second = [
        mechanisms.hybrid_sparse_vector(one.counts, threshold, k, EPSILON, share=share, entropy=entropy)
        for _ in range(trials)
    ]
    left, mean = [], []
    for spent_by, index in (
        ([r.charge for r in first], [r.index for r in first]),
        ([r.charge for r in second], [r.index for r in second]),
    ):
        left.append(float(np.mean([1 - float(charge.epsilon / EPSILON) for charge in spent_by])))
        mean.append(_mean(one, np.concatenate(index)))
    plain = top_k_runs(one.counts, k, EPSILON, trials, entropy)
    left.append(1 - float(plain.epsilon / EPSILON))
    mean.append(_mean(one, plain.index.ravel()))
    spent, columns = [], []
    for _, runs in threshold_runs(
        one.counts, np.full(trials, threshold), k, EPSILON, entropy, branches=1, share=share
    ):
        spent += [float(epsilon / EPSILON) for epsilon in charges(runs)]
        columns.append(runs.index[runs.index >= 0])
    left.append(1 - float(np.mean(spent)))
    mean.append(_mean(one, np.concatenate(columns)))
    tick()
    return Point(one.name, k, tuple(100 * value for value in left), tuple(mean), threshold)


def _mean(one: DataSet, index: NDArray[np.int64]) -> float:
    return float(one.counts[index].mean()) if len(index) else float("nan")
