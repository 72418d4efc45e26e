"""Scores of improvements on a board, and the weights of hypotheses about counts.

A score is estimated from the gap of its check and a noisy number of rows.

The check of a score x on N rows compares s, the sum of edge - x over the rows (of x - edge, where high scores
are better), with the threshold. Its gap is s + Z_1 - mean_1 - (Z_0 - mean_0), with the noise Z_1 of the check
and Z_0 of the threshold, in bounds. So edge - gap / N estimates the score, without bias and with the noise of
the check. The share of the threshold that makes the variance of a check least makes that of the score least.

The number of rows is all that is measured for it. Its error is multiplied by how far the score lies from the
edge, so a small share of the budget is enough. With K improvements, the share a of answers and a score that
is better than the edge by d bounds of a row, the noise of a check has the variance (2 K / (1 - a))^2 in
bounds, and that of the rows, which is Laplace noise times d, 2 (K d / a)^2. Their sum is least where
(a / (1 - a))^3 = d^2 / 2: for d of 1/19 at a tenth.

Hypotheses are what models have, times each of some scales: the median oracle of the lecture. The expectation
of a number is their weighted median. Where it was off, and a number was answered, hypotheses that were no
better lose weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.kernel.mechanisms import CheckStreamPlan

ROWS_CONFIDENCE = Fraction(99, 100)
"""How often the interval of the number of rows covers it; what is left of 95% is of the gap."""
_CHECK_MISSED = 0.03
_THRESHOLD_MISSED = 0.01


def find_sum(plan: CheckStreamPlan, gap: float, bound: float) -> tuple[float | None, float]:
    """Return the ends of an interval of the statistic of a check that is off; None: it may be anything below.

    *Covers* with at least 96%, given that the check is off, whatever was asked before. Let y be the
    statistic, on its grid, less the noise of the threshold, in the measure of gaps. The gap is y + Z_1, with
    Z_1 >= 0, and the check is off where it is at least 0. One-sided noise has no memory: given that, and all
    other noise, gap - max(y, 0) is distributed as Z_1, up to a step of the grid. So y <= gap always, and with
    97% y >= gap - scale_1 ln(1/.03), if that is above 0; else y may be anything below. The noise of the
    threshold is at least 0, and with 99%, for all checks of its round together, at most scale_0 ln 100.
    """
    below, above = distances(plan)
    reach = (math.log(_CHECK_MISSED) * float(plan.scale) - 2.0**-plan.resolution) * bound
    return (gap - below * bound if gap + reach > 0 else None), gap + above * bound


def distances(plan: CheckStreamPlan) -> tuple[float, float]:
    """Return how far below its gap, and how far above, a statistic is that is clearly off, in bounds."""
    step, shift = 2.0**-plan.resolution, -float(plan.offset)
    check, level = -math.log(_CHECK_MISSED) * float(plan.scale), float(plan.threshold_scale)
    return check + step - shift, shift - math.log(_THRESHOLD_MISSED) * level + step


def find_mean(
    plan: CheckStreamPlan, gap: float, bound: float, rows: tuple[float, float, float]
) -> tuple[float, float | None, float] | None:
    """Return the mean of what the statistic of a check adds up, and its ends; None: of too few rows.

    `gap` is what the check is off by, and `bound` by how much one unit moves it; `rows` are their number with
    the ends of its interval.
    """
    count, fewest, most = rows
    if fewest <= 0 or count <= 0:
        return None
    low, high = find_sum(plan, gap, bound)
    worst = None if low is None else low / (most if low > 0 else fewest)
    return gap / count, worst, high / (fewest if high > 0 else most)


LOSS = 4
"""A hypothesis that is penalised has one part in so many of its weight left."""


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """The weights of hypotheses: 4^-p each, where p is how often it was penalised.

    Notes
    -----
    MedianOracle of the lecture (section 2), which discards hypotheses; here none is discarded, since one
    answer with large noise would discard those that are right for ever.

    *Private:* weights are a function of models, which are public, and of what was released before. So an
    expectation that follows from them is one that `CheckStreamPlan` allows, and costs nothing.

    *Few misses:* let W be the sum of weights. Where the guess g was off and a was answered, all hypotheses
    that are not nearer to a than g are penalised. With a >= g these are all that are at most g, with a <= g
    all that are at least g; g is the weighted median, so either have at least W/2. So W falls to at most
    W/2 + W/8 = 5/8 W. A hypothesis that was penalised M times still has 4^-M of the K at the beginning:
    4^-M <= K (5/8)^misses, and misses <= (ln K + M ln 4) / ln 1.6. This is of misses one by one: of several
    in one statement, only the first has a guess that is the median of the weights that it changes.
    """

    penalties: tuple[int, ...]

    @classmethod
    def equal(cls, hypotheses: int) -> Self:
        """Return the weights of hypotheses that were never penalised."""
        return cls((0,) * hypotheses)

    def find_median(self, values: Sequence[Fraction]) -> Fraction:
        """Return the least value of a hypothesis up to which they have at least half of the weight."""
        most = max(self.penalties)
        weights = [LOSS ** (most - each) for each in self.penalties]
        ordered = sorted(range(len(weights)), key=values.__getitem__)
        whole, below = sum(weights), 0
        for place in ordered:
            below += weights[place]
            if 2 * below >= whole:
                return values[place]
        raise ValueError("there are no hypotheses")

    def learn(
        self,
        values: Sequence[Fraction],
        guess: Fraction,
        answer: Fraction,
        tolerance: Fraction,
        answer_scale: Fraction,
    ) -> Self:
        """Return the weights after a guess was off, and its number was answered.

        Penalised are hypotheses that are not nearer to the answer than the guess was, or that are further
        from it than half of the tolerance and two scales of its noise.
        """
        off, most = abs(guess - answer), tolerance / 2 + 2 * answer_scale
        changed = (
            penalty + (abs(value - answer) >= off or abs(value - answer) > most)
            for penalty, value in zip(self.penalties, values, strict=True)
        )
        return type(self)(tuple(changed))


def most_misses(hypotheses: int, penalised: int) -> int:
    """Return how many checks may be off at most while some hypothesis is penalised no more often than that.

    >>> most_misses(22, 0), most_misses(22, 2)
    (6, 12)
    """
    misses, most = 0, hypotheses * LOSS**penalised
    while 8 ** (misses + 1) <= most * 5 ** (misses + 1):
        misses += 1
    return misses
