"""A reusable holdout of 200 models at epsilon 1: what is overfit is found, what is not is free.

The statistic of a check is that of the product: how far the sum of scores is from its expectation, less the
tolerance, in what one unit can change it by.
"""

from fractions import Fraction

import numpy as np

from dpsql.kernel.mechanisms import CheckStream, CheckStreamPlan, NoiseSource
from dpsql.noise import SeededEntropy

ROWS, MODELS, OVERFIT = 20_000, 200, 5
TOLERANCE = Fraction(3, 100)
ROUNDS = 60


def test_five_models_are_overfit_and_found() -> None:
    rng, source = np.random.default_rng(1), NoiseSource(SeededEntropy(1))
    plan = CheckStreamPlan.plan(1, 8)
    found = false = 0
    charged = Fraction(0)
    for _ in range(ROUNDS):
        true = rng.uniform(0.6, 0.9, MODELS)
        right = rng.binomial(ROWS, true)
        claimed = true + rng.normal(0, 0.003, MODELS)  # as on as many training rows
        places = rng.choice(MODELS, OVERFIT, replace=False)
        claimed[places] += 0.06
        stream = CheckStream(plan, source)
        for place, (hits, share) in enumerate(zip(right.tolist(), claimed.tolist(), strict=True)):
            expected = Fraction(f"{share:.6f}")
            off = abs(hits - expected * ROWS) - TOLERANCE * ROWS
            bound = max(1 - expected, expected) + TOLERANCE
            if stream.check(off / bound) is not None:
                found += place in places
                false += place not in places
        charged += stream.charge.epsilon
    assert found / ROUNDS > 4.95
    assert false / ROUNDS < 0.05
    assert Fraction(6, 10) < charged / ROUNDS < Fraction(7, 10)
