"""Top-k that stops at a threshold: as good as top-k, and cheaper where few groups are above."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.noise import Entropy
from reproduce.error_reduction import EPSILON
from reproduce.page import Claim, Section, Table
from reproduce.sets import DataSet
from reproduce.svg import Series, panel
from reproduce.thresholds import KS
from reproduce.trials import threshold_runs, top_k_runs

__all__ = ["hybrids"]

NAMES = ("hybrid top-k", "hybrid sparse vector", "noisy top-k", "sparse vector")
RANK = 12


@dataclass(frozen=True, slots=True)
class Point:
    """What is left of epsilon, in per cent, and the mean count of what is returned, by mechanism."""

    data: str
    k: int
    left: tuple[float, ...]
    mean: tuple[float, ...]


def hybrids(sets: Sequence[DataSet], trials: int, entropy: Entropy, tick: Callable[[], None]) -> Section:
    """Dissertation, figures 5-7 and 5-8."""
    rows = [_point(one, k, trials, entropy, tick) for one in sets for k in KS]
    panels = []
    for one in sets:
        mine = [r for r in rows if r.data == one.name]
        for what, label, unit, level in (
            ("left", "left of epsilon", "%", None),
            ("mean", "mean count of what is returned", "", float(one.descending[RANK - 1])),
        ):
            drawn = [
                Series("", KS, [float(getattr(r, what)[i]) for r in mine], "both", i, i)
                for i in range(len(NAMES))
            ]
            title = {"left": "budget left", "mean": "mean answer"}[what]
            panels.append(panel(f"{one.name}: {title}", "k", label, drawn, unit=unit, level=level))
    after = [r for r in rows if r.k > RANK]
    before = [r for r in rows if r.k <= RANK]
    last = [r for r in rows if r.k == KS[-1]]
    four = [r for r in rows if r.k == 4]
    return Section(
        "Hybrids: the quality of top-k, the thrift of sparse vector",
        "Dissertation, algorithms 19 and 20, figures 5-7 and 5-8.",
        f"The threshold is the {RANK}-th largest count (the dotted line), so for k over {RANK} there is "
        f"nothing more to find; epsilon {float(EPSILON)}, exponential noise. Hybrid top-k pays 1/k of "
        "epsilon for the threshold and for each answer; the sparse vectors pay a fixed share for the "
        "threshold, and less for each answer.",
        [
            Claim(
                f"For k over {RANK} the hybrids leave budget where noisy top-k spends it all; hybrid top-k "
                "leaves most when k is far too large: at k = 24 "
                + ", ".join(f"{r.left[0]:.0f}%, the other one {r.left[1]:.0f}%, on {r.data}" for r in last)
                + ".",
                all(min(r.left[0], r.left[1]) > 5 for r in after)
                and all(r.left[0] > r.left[1] - 0.5 for r in last),
            ),
            Claim(
                "For small k they return items as large as noisy top-k does, and larger than sparse "
                "vector's: a mean count at k = 4 of "
                + ", ".join(
                    f"{r.mean[0]:,.0f} against {r.mean[2]:,.0f} and {r.mean[3]:,.0f} on {r.data}"
                    for r in four
                )
                + ".",
                all(min(r.mean[0], r.mean[1]) > 0.97 * r.mean[2] for r in before)
                and all(min(r.mean[0], r.mean[1]) > r.mean[3] for r in four),
            ),
            Claim(
                "For large k they return only what is above the threshold: a mean count at k = 24 of "
                + ", ".join(f"{r.mean[0]:,.0f} against top-k's {r.mean[2]:,.0f} on {r.data}" for r in last)
                + ".",
                all(min(r.mean[0], r.mean[1]) > r.mean[2] for r in last),
            ),
        ],
        panels,
        [Series(name, (), (), "both", i, i) for i, name in enumerate(NAMES)],
        [
            Table(
                "hybrids",
                (
                    "data",
                    "k",
                    *(f"{name}, budget left %" for name in NAMES),
                    *(f"{name}, mean answer" for name in NAMES),
                ),
                [(r.data, r.k, *r.left, *r.mean) for r in rows],
            )
        ],
    )


def _point(one: DataSet, k: int, trials: int, entropy: Entropy, tick: Callable[[], None]) -> Point:
    threshold = int(one.descending[RANK - 1])
    left, mean = [], []
    for hybrid in (mechanisms.hybrid_top_k, mechanisms.hybrid_sparse_vector):
        found = [hybrid(one.counts, threshold, k, EPSILON, entropy=entropy) for _ in range(trials)]
        left.append(float(np.mean([1 - float(r.charge.epsilon / EPSILON) for r in found])))
        mean.append(_mean(one, np.concatenate([r.index for r in found])))
    left.append(0.0)
    mean.append(_mean(one, top_k_runs(one.counts, k, EPSILON, trials, entropy).index.ravel()))
    spent, index = [], []
    for _, runs in threshold_runs(one.counts, np.full(trials, threshold), k, EPSILON, entropy, branches=1):
        spent += [float(epsilon / EPSILON) for epsilon in runs.epsilon]
        index.append(np.nonzero(runs.branch >= 0)[1])
    left.append(1 - float(np.mean(spent)))
    mean.append(_mean(one, np.concatenate(index)))
    tick()
    return Point(one.name, k, tuple(100 * value for value in left), tuple(mean))


def _mean(one: DataSet, index: NDArray[np.int64]) -> float:
    return float(one.counts[index].mean()) if len(index) else float("nan")
