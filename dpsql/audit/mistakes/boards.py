"""Boards and holdouts with a known verdict: one as it is built, and incorrect variants.

Counts stand for sums of errors on rows of a public number: lower ones are better. One unit moves each by 1.
A score follows from the gap by which it is better than the best, less the step.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.cases import levels
from dpsql.audit.detector import Kind, Subject
from dpsql.audit.runs import CHARGE, Pair
from dpsql.kernel.mechanisms import CheckStreamPlan, NoiseSource
from dpsql.kernel.mechanisms.mechanism import in_counts
from dpsql.kernel.noise import Entropy

_NONE = -(10.0**6)
"""What stands for a score that is not answered."""


def board(
    counts: NDArray[np.int64],
    trials: int,
    entropy: Entropy,
    start: int,
    improvements: int,
    *,
    epsilon: Fraction,
    fault: str,
) -> dict[str, Any]:
    """Compare each score with the best until then, less a step of 1; answer those that are better.

    Correctly, the best becomes what the gap tells of the score. With the fault `exact best` it becomes the
    exact score of an improvement, with `exact ladder` the lowest exact score of all. `no noise` compares
    scores themselves, as the Ladder and Thresholdout are printed. `half bound` has noise for half of what a
    unit moves.
    """
    plan = CheckStreamPlan.plan(epsilon, improvements, answers=0)
    source, bits = NoiseSource(entropy), plan.resolution
    loud = fault != "no noise"
    level = source.draw(plan.noise, plan.threshold_scale, bits, trials) if loud else 0
    used, best = np.zeros(trials, dtype=np.int64), np.full(trials, start << bits)
    shape, moves = (trials, len(counts)), 2 if fault == "half bound" else 1
    said = np.full(shape, -1)
    values, gaps, edges = np.full(shape, _NONE), np.full(shape, _NONE), np.full(shape, _NONE)
    for j, count in enumerate(counts):
        exact = int(count) << bits
        noise = source.draw(plan.noise, plan.scale, bits, trials) if loud else 0
        found = moves * (best - (1 << bits) - exact) + noise - level
        is_open = used < improvements
        edges[is_open, j] = in_counts(best - (1 << bits), bits)[is_open]
        off = is_open & (found >= (plan.cutoff if loud else 0))
        answer = best - (1 << bits) - found - math.floor(plan.offset * (1 << bits))
        said[:, j] = np.where(is_open, off, -1)
        values[off, j] = in_counts(answer, bits)[off]
        gaps[off, j] = in_counts(found, bits)[off] if loud else 0
        kept = answer if fault not in ("exact best", "exact ladder") else np.full(trials, exact)
        better = (off | (fault == "exact ladder")) & (kept < best)
        best, used = np.where(better, kept, best), used + off
    charged = np.array([float(plan.realised_loss(n).charge.epsilon) for n in range(improvements + 1)])
    return {"better": said, "gap": gaps, "score": values, "expected": edges, CHARGE: charged[used]}


def _pairs(_: Fraction) -> list[Pair]:
    """Make pairs in which one unit moves all scores, or the first one down and the others up."""
    found = []
    for n in (4, 8):
        opposite = Pair("the first falls, the others rise", (3,) * n, (2, *(4,) * (n - 1)))
        found += [Pair("all fall", (3,) * n, (2,) * n), opposite]
    return found


def _subject(name: str, fault: str, about: str, kind: Kind = "incorrect") -> Subject:
    def arguments(epsilon: Fraction) -> dict[str, list[int]]:
        return {"start": levels(epsilon, 0, 4, 40, base=4), "improvements": [1, 2]}

    return Subject(
        f"board, {name}", kind, about, partial(board, fault=fault), arguments=arguments, inputs=_pairs
    )


BOARD_SUBJECTS = (
    _subject(
        "best of its gaps",
        "",
        "each score is compared with the best gap until then, and improvements alone are charged",
        "reference",
    ),
    _subject("best from exact scores", "exact best", "the best becomes the exact score of an improvement"),
    _subject(
        "best of all exact scores",
        "exact ladder",
        "the best is the lowest exact score until then, whether or not it was answered",
    ),
    _subject(
        "compares exactly",
        "no noise",
        "compares scores without noise, as the Ladder and Thresholdout are printed",
    ),
    _subject(
        "bound of the values alone",
        "half bound",
        "noise for the range of the values, where the edge lies outside of it and a unit moves twice as much",
    ),
)
