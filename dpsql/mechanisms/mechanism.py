"""The form of every mechanism: a plan made of public facts, which then runs on counts and noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

import numpy as np

from dpsql.mechanisms.grid import SYSTEM, NoiseSource
from dpsql.order import OrderedCounts
from dpsql.privacy import Charge, PrivacyLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Mechanism", "Result", "in_one_call", "of_any_size"]

P = ParamSpec("P")
R = TypeVar("R")
M = TypeVar("M", bound="Mechanism[Any]")


@dataclass(frozen=True, slots=True)
class Mechanism(ABC, Generic[R]):
    """A mechanism whose public facts are fixed: its scales, its grid and its privacy loss.

    A class is one mechanism. Its class method `plan` checks the public facts (number of groups, budget,
    sensitivity, direction, ..), computes the scales and returns an instance; it raises `ValueError` if a fact
    is out of range. `run` raises nothing because of a count or a draw.

    Attributes
    ----------
    loss
        The largest privacy loss of a run.
    """

    ordered: ClassVar[bool] = False
    """Whether the proof rests on positions: `run` then takes `OrderedCounts`."""

    loss: PrivacyLoss = field(kw_only=True)

    @abstractmethod
    def run(self, counts: Any, source: NoiseSource = SYSTEM) -> R:  # noqa: ANN401  see `ordered`
        """Run on counts of shape (groups,), or independently on each row of (trials, groups).

        A pure function of the counts and of what `source` returns.
        """

    def realised(self, units: int) -> PrivacyLoss:
        """Return the loss of a run that spent so many units; the same for all unless a mechanism says so."""
        del units
        return self.loss


@dataclass(frozen=True, eq=False, slots=True)
class Result(Generic[M]):
    """What a run released: each field but `plan` and `units` is released.

    Of a single run, arrays hold what was selected, and nothing more. Of trials, they have one row a trial,
    padded with -1 and NaN.

    Attributes
    ----------
    plan
        The mechanism that ran, with its scales: public.
    units
        What the run spent, as `Mechanism.realised` takes it; int64 (trials,) if that differs between trials.
    """

    plan: M
    units: int | NDArray[np.int64] = field(default=0, kw_only=True)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of this run."""
        return self.plan.realised(int(self.units))

    @property
    def charge(self) -> Charge:
        """What was spent, by basic composition."""
        return self.loss.charge


def of_any_size(plan: Callable[P, Mechanism[R]]) -> Callable[Concatenate[int, P], Mechanism[R]]:
    """Return a plan that takes the number of counts and ignores it: it may be private."""

    def function(groups: int, /, *args: P.args, **kwargs: P.kwargs) -> Mechanism[R]:
        del groups
        return plan(*args, **kwargs)

    function.__doc__ = plan.__doc__
    return function


def in_one_call(plan: Callable[Concatenate[int, P], Mechanism[R]]) -> Callable[Concatenate[Any, P], R]:
    """Return the function that plans for the number of counts it is given, and runs on them.

    For tests, it also takes `entropy`, the source of random bits.
    """

    def function(counts: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401  as `run`
        entropy: Any = kwargs.pop("entropy", None)
        shape = np.shape(counts.values if isinstance(counts, OrderedCounts) else counts)
        return plan(shape[-1] if shape else 0, *args, **kwargs).run(counts, NoiseSource(entropy))

    function.__doc__ = plan.__doc__
    return function
