"""Every mechanism is in the registry, and what the registry lists can be audited."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsql import mechanisms as more
from dpsql.audit import CATALOGUE
from dpsql.audit.cases import AuditCase
from dpsql.audit.detector import AUDITED
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import BoundedRange, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import Mechanism, Result
from dpsql.noise import SeededEntropy


def planned(case: AuditCase, epsilon: Fraction = Fraction(7, 10)) -> Mechanism[Any]:
    arguments = {name: values[-1] for name, values in case.arguments(epsilon).items()}
    return case.plan(5, epsilon=epsilon, **arguments)


def concrete() -> Iterator[type]:
    """Return the mechanisms that the kernel's modules define, and those for research alone."""
    names = [f"{mechanisms.__name__}.{module.name}" for module in pkgutil.iter_modules(mechanisms.__path__)]
    for name in (*names, more.__name__):
        for one in vars(importlib.import_module(name)).values():
            if isinstance(one, type) and issubclass(one, Mechanism) and not inspect.isabstract(one):
                yield one


def test_every_mechanism_is_registered() -> None:
    assert set(concrete()) == {type(planned(case)) for case in AUDITED}
    assert len({case.name for case in AUDITED}) == len(AUDITED)


def test_the_catalogue_has_what_is_registered() -> None:
    shipped = {subject.name: subject for subject in CATALOGUE if subject.kind == "dpsql"}
    for case in AUDITED:
        assert shipped[case.name].adjacency == case.adjacency
        assert shipped[case.name].delta == case.delta


def released_beside_the_choice(result: Result[Any]) -> set[str]:
    """Return the names of what a result has beside what was chosen; `plan` and `units` are no noise."""
    return {field.name for field in fields(result)} - {"plan", "units", "index", "cell", "rung"}


def test_the_range_is_bounded_only_where_nothing_but_the_choice_is_released() -> None:
    """A gap, a p-value or a noisy count tells more than the range of the choice allows."""
    found = set()
    for case in AUDITED:
        plan = planned(case)
        if not any(isinstance(part, BoundedRange) for part in plan.loss.parts):
            continue
        counts = np.array([9, 7, 3, 5, 1])
        done = case.run(plan, counts)
        assert released_beside_the_choice(done) == set(), case.name
        chosen = next(getattr(done, name) for name in ("cell", "rung", "index") if hasattr(done, name))
        assert isinstance(chosen, np.ndarray)
        assert chosen.dtype == np.int64
        found.add(type(plan))
    assert found == {
        mechanisms.GumbelTopK,
        mechanisms.Joint,
        mechanisms.Ladder,
        mechanisms.Quantile,
        mechanisms.Extreme,
    }
    # Those with a gap would be noticed.
    for plan in (mechanisms.Exponential.plan(5, 1), mechanisms.PeeledTopK.plan(5, 2, 1)):
        assert not any(isinstance(part, BoundedRange) for part in plan.loss.parts)
        assert released_beside_the_choice(plan.run(np.arange(5))) == {"gap"}


@pytest.mark.parametrize("case", AUDITED, ids=lambda case: case.name)
def test_scales_and_loss_are_public(case: AuditCase) -> None:
    """They follow from the plan alone, so a run on any counts reports the same plan, and no larger loss."""
    plan = planned(case)
    assert plan == planned(case)
    assert isinstance(plan.loss, PrivacyLoss)
    assert plan.loss.charge.epsilon <= Fraction(7, 10)
    for counts in (np.zeros(5, dtype=np.int64), np.array([9, 7, 2**62, -5, 1])):
        given = np.stack([counts, counts]) if case.bounded else counts
        done = case.run(plan, given, mechanisms.NoiseSource(SeededEntropy(1)))
        assert isinstance(done, Result)
        assert done.plan is plan
        assert done.charge.fits(plan.loss.charge)
