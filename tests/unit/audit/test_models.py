"""The audit's models of a stream lose weight as those of the product do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.audit.mistakes.streams import _find_medians, _penalise
from dpsql.estimates import ModelWeights


def test_the_audit_learns_as_the_product_does() -> None:
    rng = np.random.default_rng(3)
    values = np.arange(6) * 2
    penalties = rng.integers(0, 4, (300, 6))
    guess, answer = _find_medians(penalties, values), rng.integers(-4, 16, 300) / 4
    after = penalties + _penalise(values, guess, answer, 2, 0.75)
    listed = [Fraction(int(value)) for value in values]
    for i in range(len(penalties)):
        weights = ModelWeights(tuple(penalties[i].tolist()))
        assert weights.find_median(listed) == guess[i]
        learnt = weights.learn(
            listed, Fraction(int(guess[i])), Fraction(answer[i]), Fraction(2), Fraction(3, 4)
        )
        assert learnt.penalties == tuple(after[i].tolist())
