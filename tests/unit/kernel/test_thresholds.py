"""A threshold follows from the delta that is charged and what is certified, whoever made the mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.errors import InternalError
from dpsql.kernel import mechanisms as m
from dpsql.kernel.changes import NumberChange, Taken, UnitChanges
from dpsql.kernel.loss import BoundedRange, Gaussian, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import SYSTEM, Mechanism
from dpsql.kernel.noise import SystemEntropy
from dpsql.kernel.release import Run
from dpsql.mechanisms import FirstStable, StableAnswers
from tests.support.exact import ample, made_up

ONE, MANY = Fraction(1), 1 << 40
DELTA, LESS = Fraction(1, 10**6), Fraction(9, 10**7)
UNITS = Taken((NumberChange(0, 1, 2),), MANY)
UP = Taken((NumberChange(0, 3),), MANY)

EXISTING = m.Existing.plan(1, DELTA, groups_per_unit=2)
LIMITED = m.LimitedDomain.plan(2, 1, DELTA, sensitivity=3)
STABLE = m.TopStable.plan(2, 1, DELTA, sensitivity=3)
CHOOSING = m.TopStable.plan(2, 1, DELTA, candidates=4, sensitivity=3)
BOTH = m.LimitedThenStable.plan(2, 1, DELTA, sensitivity=3)
FIRST = FirstStable.plan(5, 1, DELTA, sensitivity=3)
ANSWERS = StableAnswers.plan(5, 2, 1, DELTA, sensitivity=3)


def of(loss: PrivacyLoss, delta: Fraction) -> PrivacyLoss:
    return PrivacyLoss(loss.parts, delta)


def lowered(tests: m.StabilityTests) -> m.StabilityTests:
    return replace(tests, cutoff=tests.cutoff - 1)


CASES: list[tuple[Mechanism[Any], Taken, Sequence[Mechanism[Any]]]] = [
    (
        EXISTING,
        UNITS,
        [
            replace(EXISTING, cutoff=EXISTING.cutoff - 1),
            replace(EXISTING, loss=of(EXISTING.loss, LESS)),
            replace(EXISTING, loss=of(EXISTING.loss, Fraction(0))),
            # Noise of twice the scale reaches a threshold more often.
            replace(EXISTING, scale=2 * EXISTING.scale),
        ],
    ),
    (
        LIMITED,
        UP,
        [
            replace(LIMITED, clearance=LIMITED.clearance - 1),
            replace(LIMITED, loss=of(LIMITED.loss, LESS)),
            replace(LIMITED, loss=of(LIMITED.loss, Fraction(0))),
            replace(LIMITED, groups=LIMITED.groups + 1),
            replace(LIMITED, noise="laplace"),
            replace(LIMITED, scale=2 * LIMITED.scale),
        ],
    ),
    (
        STABLE,
        UP,
        [
            replace(STABLE, tests=lowered(STABLE.tests)),
            replace(STABLE, loss=of(STABLE.loss, LESS)),
            replace(STABLE, candidates=3),
            replace(STABLE, sensitivity=Fraction(2)),
            # The tests' own delta is that of the threshold, and it is the one that is charged.
            replace(STABLE, tests=replace(STABLE.tests, delta=2 * DELTA)),
            replace(STABLE, tests=replace(STABLE.tests, noise="laplace")),
            replace(STABLE, loss=PrivacyLoss.of(ONE / 2, DELTA)),
        ],
    ),
    (
        CHOOSING,
        UP,
        [
            replace(CHOOSING, tests=lowered(CHOOSING.tests)),
            replace(CHOOSING, loss=CHOOSING.tests.loss(1)),
            replace(CHOOSING, choice=m.NoisyTopK.plan(2, 2, ONE / 4, sensitivity=3)),
            replace(CHOOSING, choice=m.NoisyTopK.plan(4, 3, ONE / 4, sensitivity=3)),
        ],
    ),
    (
        BOTH,
        UP,
        [
            replace(BOTH, limited=replace(BOTH.limited, clearance=BOTH.limited.clearance - 1)),
            replace(BOTH, loss=of(BOTH.loss, DELTA / 2)),
            replace(BOTH, loss=PrivacyLoss.of(ONE / 2, DELTA)),
            replace(BOTH, sensitivity=Fraction(2)),
            replace(BOTH, k=3),
        ],
    ),
    (
        FIRST,
        UP,
        [
            replace(FIRST, tests=lowered(FIRST.tests)),
            replace(FIRST, queries=6),
            replace(FIRST, loss=PrivacyLoss.of(ONE / 2, DELTA)),
            replace(FIRST, loss=of(FIRST.loss, LESS)),
        ],
    ),
    (
        ANSWERS,
        UP,
        [
            replace(ANSWERS, tests=lowered(ANSWERS.tests)),
            replace(ANSWERS, queries=6),
            replace(ANSWERS, failures=3),
            replace(ANSWERS, tests=replace(ANSWERS.tests, noise="one-sided", cutoff=10**6)),
        ],
    ),
]


@pytest.mark.parametrize(("plan", "taken", "wrong"), CASES, ids=[type(each[0]).__name__ for each in CASES])
def test_a_threshold_below_that_of_the_charged_delta_is_refused(
    plan: Mechanism[Any], taken: Taken, wrong: Sequence[Mechanism[Any]]
) -> None:
    assert plan.covers(taken)
    assert [each.covers(taken) for each in wrong] == [False] * len(wrong)


@pytest.mark.parametrize("delta", [Fraction(1, 3), Fraction(1, 10**9)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), ONE, Fraction(20)])
@pytest.mark.parametrize("resolution", [None, 0, 3])
def test_the_threshold_of_a_plan_is_the_least_that_is_taken(
    epsilon: Fraction, delta: Fraction, resolution: int | None
) -> None:
    existing = m.Existing.plan(epsilon, delta, groups_per_unit=2, resolution=resolution)
    limited = m.LimitedDomain.plan(2, epsilon, delta, sensitivity=3, resolution=resolution)
    first = FirstStable.plan(5, epsilon, delta, sensitivity=3, resolution=resolution)
    assert [existing.admits(UNITS), limited.admits(UP), first.covers(UP)] == [True] * 3
    assert not existing.cutoff or not replace(existing, cutoff=existing.cutoff - 1).admits(UNITS)
    assert not replace(limited, clearance=limited.clearance - 1).admits(UP)
    assert not first.tests.cutoff or not replace(first, tests=lowered(first.tests)).covers(UP)


def test_nothing_is_drawn_below_the_threshold_of_the_charged_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    def words(_: object, n: int) -> Any:
        raise AssertionError(f"{n} words were drawn")

    keys = pa.table({"k0": ["a", "b"]})
    known = UnitChanges((NumberChange(0, 1, 2),), public=False, declared=False, decides=0)
    run = Run(made_up(keys, [np.array([1, 50])], known), ample())
    limited = m.LimitedDomain.plan(2, 1, DELTA)
    monkeypatch.setattr(SystemEntropy, "words", words)
    with pytest.raises(InternalError, match="less than one unit"):
        run.existence(replace(EXISTING, cutoff=0), 0)
    with pytest.raises(InternalError, match="less than one unit"):
        run.select(replace(limited, clearance=0), 0)
    with pytest.raises(AssertionError, match="drawn"):
        run.existence(EXISTING, 0)


@dataclass(frozen=True, slots=True)
class Open(m.Laplace):
    """A mechanism of somebody else, which releases what it is given."""

    def run(self, counts: Any, source: m.NoiseSource = SYSTEM) -> Any:
        return counts


def test_the_kernel_runs_its_own_mechanisms_alone() -> None:
    taken = Taken((NumberChange(0, 1),), 1)
    assert m.Laplace.plan(1, 1).admits(taken)
    assert Open.plan(1, 1).covers(taken)
    assert not Open.plan(1, 1).admits(taken)


@pytest.mark.parametrize(
    "loss", [PrivacyLoss((BoundedRange(ONE),)), PrivacyLoss((Gaussian(ONE / 2),))], ids=["range", "gauss"]
)
def test_a_loss_of_another_kind_than_that_of_the_proof_is_refused(loss: PrivacyLoss) -> None:
    taken = Taken((NumberChange(0, 1),), 9)
    for plan in (
        m.NoisyTopK.plan(9, 2, 1),
        m.Exponential.plan(9, 1),
        m.PeeledTopK.plan(9, 1, 1),
        m.Laplace.plan(9, 1),
        m.Box.plan(9, 1),
        m.Ladder.plan(9, 1),
        m.AdaptiveSparseVector.plan(9, 4, 2, 1),
    ):
        assert plan.admits(taken)
        assert not replace(plan, loss=loss).admits(taken)
    ranged = m.Ladder.plan(9, 1, ranged=True)
    assert ranged.loss == PrivacyLoss((BoundedRange(ONE),))
    assert ranged.admits(taken)
    assert not replace(ranged, ranged=False).admits(taken)
