"""The weights of hypotheses about counts, and what is expected by them: the median oracle of the lecture.

Hypotheses are what models have, times each of some scales. The expectation of a number is their weighted
median. Where it was off, and a number was answered, hypotheses that were no better lose weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Self

from dpsql.lazy_dataclass import dataclass

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
