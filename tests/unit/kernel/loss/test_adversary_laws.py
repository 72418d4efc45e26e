"""The filter's promise against the best adversary that has real mechanisms, with their enumerated laws.

Each mechanism runs on two groups, on all noise up to a reach. Log-ratios are rounded up to a lattice, which
only helps the adversary, and held to the realised epsilon, which other tests prove to bound them.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpsql.kernel.loss import Charge, Filter, PrivacyLoss, PureDP, settle
from dpsql.kernel.mechanisms import AdaptiveSparseVector
from dpsql.kernel.public_order import in_public_order
from tests.adversary import Action, worst
from tests.unit.kernel.mechanisms.test_sparse_vector_exhaustive import TAIL, given, outputs

STEP = Fraction(1, 16)
"""Of the lattice of log-ratios."""


def action(
    reserved: PrivacyLoss,
    first: Mapping[Any, float],
    second: Mapping[Any, float],
    charged: Callable[[Any], PrivacyLoss],
) -> Action:
    """Return a mechanism with the law `first` on the data, and `second` on the neighbour's."""
    merged: dict[tuple[int, PrivacyLoss], float] = {}
    for row, mass in first.items():
        loss = charged(row)
        most = float(loss.epsilon or 0) if loss.parts else 0.0
        ratio = min(max(math.log((mass + TAIL) / (second.get(row, 0.0) + TAIL)), -most), most)
        key = (math.ceil(ratio / float(STEP) - 1e-9), loss)
        merged[key] = merged.get(key, 0.0) + mass
    total = sum(merged.values())
    return Action(reserved, tuple((mass / total, step, loss) for (step, loss), mass in merged.items()))


@cache
def sparse_vector(counts: tuple[int, int], more: tuple[int, int]) -> Action:
    """Return a sparse vector, which refunds what a miss or a clear hit does not need."""
    options: dict[str, Any] = {"share": "1/2", "margin": 1, "resolution": 0}
    plan = AdaptiveSparseVector.plan(
        2, 1, 1, "0.5", branches=1, noise="exponential", monotone=True, **options
    )
    laws = []
    for each in (counts, more):
        source, mass = given(plan, 2)
        laws.append(outputs(plan, plan.run(in_public_order(np.tile(each, (len(mass), 1))), source), mass)[0])
    return action(
        plan.loss, laws[0], laws[1], lambda row: settle(plan.loss, plan.realised_loss(int(row[-1])))
    )


@cache
def noisy_max(counts: tuple[int, int], more: tuple[int, int]) -> Action:
    """Return the noisy maximum of two monotone counts with its gap, of epsilon 1/4, on whole numbers."""
    epsilon = Fraction(1, 4)
    r = math.exp(-float(epsilon))
    reach = math.ceil(math.log(TAIL / 3) / math.log(r))
    noise = (1 - r) * r ** np.arange(reach + 1)
    laws: list[dict[tuple[int, int], float]] = []
    for each in (counts, more):
        found: dict[tuple[int, int], float] = {}
        gaps = (each[0] + np.arange(reach + 1))[:, None] - (each[1] + np.arange(reach + 1))[None, :]
        for gap, mass in zip(gaps.ravel().tolist(), np.outer(noise, noise).ravel().tolist(), strict=True):
            for place in (0, 1) if gap == 0 else (int(gap < 0),):
                share = mass / 2 if gap == 0 else mass
                found[(place, abs(gap))] = found.get((place, abs(gap)), 0.0) + share
        laws.append(found)
    loss = PrivacyLoss.of(epsilon)
    return action(loss, laws[0], laws[1], lambda _: loss)


PAIRS = [
    ((1, 1), (2, 2)),
    ((2, 2), (1, 1)),
    ((0, 0), (1, 0)),
    ((1, 0), (0, 0)),
    ((1, 1), (1, 2)),
    ((1, 2), (1, 1)),
]


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.1"), ("3/2", "0.2")])
@pytest.mark.parametrize("mechanisms", [(sparse_vector,), (noisy_max,), (sparse_vector, noisy_max)])
@pytest.mark.longer
def test_no_adversary_with_real_mechanisms_breaks_the_promise(
    mechanisms: tuple[Callable[[tuple[int, int], tuple[int, int]], Action], ...], epsilon: str, delta: str
) -> None:
    scope = Filter.of(Charge(Fraction(epsilon), Fraction(delta)), "zcdp", Fraction(delta))
    menu = [mechanism(*pair) for mechanism in mechanisms for pair in PAIRS]
    found = worst(scope, menu, 9, STEP, Fraction(epsilon))
    assert found <= float(Fraction(delta))
    # The adversary is strong enough to tell: an eighth of the epsilon would be broken.
    assert worst(scope, menu, 9, STEP, Fraction(epsilon) / 8) > float(Fraction(delta))


def test_what_is_refunded_is_told_by_the_outcome() -> None:
    made = sparse_vector(*PAIRS[0])
    assert len({loss for _, _, loss in made.outcomes}) > 1
    assert all(isinstance(part, PureDP) for part in made.reserved.parts)
