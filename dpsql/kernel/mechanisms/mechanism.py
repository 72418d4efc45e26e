"""The base classes of mechanisms, which are planned from public facts, and of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Charge, Part, PrivacyLoss, PureDP, settle
from dpsql.kernel.mechanisms.grid import SYSTEM, NoiseSource

R = TypeVar("R")
M = TypeVar("M", bound="Mechanism[Any]")


@dataclass(frozen=True, slots=True)
class Mechanism(ABC, Generic[R]):
    """A mechanism with fixed public facts: its scales, its grid and its privacy loss.

    Each mechanism is a class. Its class method `plan` checks the public facts, computes the scales and
    returns an instance. It raises `ValueError` if a fact is out of range; `run` never raises because of a
    count or a draw. Parameters of `plan` that mean the same in all mechanisms:

    groups
        Number of counts; on a public domain one for each of its groups.
    epsilon
        Budget of a run.
    sensitivity
        How much one privacy unit can change a count.
    monotone
        Whether a unit moves all counts in the same direction, as for counts of units or rows. Differences of
        counts are not monotone and need twice the noise. Counts that one unit more moves by `low` to `high`,
        low <= 0 <= high, as sums do, are selected as monotone ones of sensitivity high - low: selections
        depend on differences of noisy counts, which stay as they are if all counts moved by -low as well, and
        then every move is from 0 to high - low.
    noise
        "exponential" (the most precise), "laplace", or "geometric" (whole counts).
    resolution
        b for a grid of 2^-b counts; chosen from the scales if left out.

    Attributes
    ----------
    loss
        The largest privacy loss of a run.
    scale
        Scale of the noise on each count, in counts; 0 if there is nothing to choose.
    resolution
        b: noise and what is released are multiples of 2^-b counts.
    """

    ordered: ClassVar[bool] = False
    """Whether the proof rests on positions: `run` then takes `OrderedCounts`."""
    sparse: ClassVar[bool] = False
    """Whether `run` takes the counts of a domain of which only groups with rows are listed."""
    undeclared: ClassVar[bool] = False
    """Whether the groups may be those that have rows, which are private."""
    losses: ClassVar[tuple[type[Part], ...]] = (PureDP,)
    """The kinds of loss that its proof shows."""

    loss: PrivacyLoss = field(kw_only=True)

    @abstractmethod
    def run(self, counts: Any, source: NoiseSource = SYSTEM) -> R:  # noqa: ANN401  see `ordered`
        """Run on counts of shape (groups,), or independently on each row of (trials, groups).

        A pure function of the counts and of what `source` returns.
        """

    @property
    def reads(self) -> int:
        """How many groups it reads where those with the largest counts are enough; 0: it reads all."""
        return 0

    def covers(self, taken: Taken) -> bool:
        """Whether `loss` holds for counts that one unit changes so far.

        It follows from the scales of the noise, its cutoffs and the loss, not from what was said when it was
        planned: a cutoff is no less than that of the delta of the loss, of this noise and these changes.
        A mechanism that does not say it takes no counts of a statement.
        """
        del taken
        return False

    def admits(self, taken: Taken) -> bool:
        """Whether it may run on such counts: it is one of the kernel's, with a loss of a kind that is proved.

        Whoever plans it may have made it without `plan`, or changed it: `covers` has the rest.
        """
        own = type(self).__module__.startswith(f"{__package__}.")
        return own and all(isinstance(part, self.losses) for part in self.loss.parts) and self.covers(taken)

    def realised(self, units: int) -> PrivacyLoss:
        """Return what a run that spent so many units realised; the same for all unless a mechanism says so.

        It is an amount of `loss`, as `settle` takes it, and not by itself the loss of a mechanism.
        """
        del units
        return self.loss


class _Selects(Protocol):
    @property
    def groups(self) -> int: ...

    @property
    def scale(self) -> Fraction: ...

    @property
    def loss(self) -> PrivacyLoss: ...


def pays_for(selection: _Selects, moved: int, rounds: int = 1) -> bool:
    """Return whether each of so many rounds of a selection hides that differences of counts move so far.

    With fewer than two groups there is nothing to select.
    """
    part = next(iter(selection.loss.parts), None)
    if part is None or part.epsilon is None:
        return selection.groups < 2
    return rounds <= part.times and moved <= part.epsilon * selection.scale


@dataclass(frozen=True, eq=False, slots=True)
class Result(Generic[M]):
    """What a run of the mechanism `plan` released: all other fields but `units`.

    Of a single run, arrays hold what was selected, and nothing more. Of trials, they have one row a trial,
    padded with -1 and NaN. `units` is what the run spent, as `Mechanism.realised` takes it; int64 (trials,)
    if that differs between trials.
    """

    plan: M
    units: int | NDArray[np.int64] = field(default=0, kw_only=True)

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of this run, as it is charged."""
        return settle(self.plan.loss, self.plan.realised(int(self.units)))

    @property
    def charge(self) -> Charge:
        """What was spent, by basic composition."""
        return self.loss.charge
