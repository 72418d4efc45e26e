"""A stream of checks: public expectations of exact numbers, of which only those that are off are charged."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel import noise as exact_noise
from dpsql.kernel.changes import Taken
from dpsql.kernel.loss import Charge, Number, PrivacyLoss, exact
from dpsql.kernel.mechanisms.mechanism import (
    SYSTEM,
    Mechanism,
    Noise,
    NoiseSource,
    Result,
    grid_of,
    in_counts,
    in_order,
    kind,
    pad_rows,
    positive,
    to_steps,
    whole,
)
from dpsql.kernel.mechanisms.sparse_vector_plan import mean_noise
from dpsql.kernel.public_order import OrderedCounts
from dpsql.lazy_dataclass import dataclass

ANSWERS = Fraction(1, 3)
"""The usual share of a miss's budget for its answer: then check and answer have noise of the same size."""

Direction = Literal["BOTH", "UP", "DOWN"]
"""Which way the statistics of a stream move when a unit is added: any way, or all of them one way."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """How far numbers of a group are from what is expected: the largest of some terms.

    A term is a number's place, a public factor of it, and a public amount that is added.
    """

    terms: tuple[tuple[int, Fraction, Fraction], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Off(Result["CheckStreamPlan"]):
    """The checks of a run that were off: their places, and how far beyond the threshold, in bounds."""

    index: NDArray[np.int64]
    gap: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CheckStreamPlan(Mechanism[Off]):
    """The public facts of a stream of checks, which `CheckStream` runs interactively.

    A check has a statistic s: how far a number is from what is expected of it, less a tolerance. One unit
    moves it by at most its bound c, and it is given as x = s/c. So all checks have one threshold, whatever
    their bounds and tolerances are, and the noise in the measure of a check is c times that of the stream.

    Notes
    -----
    A sparse vector with gap over the statistics, in the order in which they are asked.

    *Grid:* the statistic of a check is s' = floor(2^b x). If x moves by at most 1, 2^b x moves by at most the
    whole number 2^b, and rounding down commutes with whole shifts and is monotone: s' moves by at most 2^b.

    *Private*, if expectations, tolerances and bounds are functions of public facts and of earlier output.
    Fix an output: which checks are off, their gaps and their answers. Expectations are then equal on the
    neighbour D', so s' moves by d in [-2^b, 2^b]. Let the threshold's noise move by 2^b, and that of each
    check that is off by 2^b - d, from 0 to 2 * 2^b. What is as expected stays so: its statistic rises by at
    most as much as the threshold. What is off stays off with its gap. All of it moves upwards, so one-sided
    noise stays where it has mass, and the output says which noise moves by how much: the map is injective.
    It costs 1/threshold_scale and, a miss, 2/scale. Answers are mechanisms of their own. A check that is as
    expected is free, however many there are. Data may change between checks: D and D' are then two histories
    that differ in the rows of one unit.

    *In one direction:* if a unit moves all statistics the same way, by d in [0, 2^b], D' being the larger,
    the threshold's moves by 2^b and a miss's by 2^b - d; from D' to D, by nothing and by d. So a miss costs
    1/scale.
    """

    ordered = True

    misses: int
    noise: Noise
    direction: Direction
    """As given to `plan`."""
    threshold_epsilon: Fraction
    """Charge of the threshold's noise."""
    check_epsilon: Fraction
    answer_epsilon: Fraction
    """Charge of the check of a miss, and of the release that answers it."""
    threshold_scale: Fraction
    scale: Fraction
    """Noise scales in bounds: of the threshold, which is drawn once and shared by all checks and gaps; and of
    a check."""
    resolution: int
    """b, for a grid of 2^-b bounds."""
    cutoff: int
    """A check is off if its statistic + noise - threshold noise, in grid steps, is at least this."""
    offset: Fraction
    """What is added to such a value, in bounds, to get the gap."""

    @classmethod
    def plan(
        cls,
        epsilon: Number,
        misses: int,
        *,
        answers: Number = ANSWERS,
        direction: Direction = "BOTH",
        threshold: Fraction | None = None,
        noise: Noise = "exponential",
        resolution: int | None = None,
    ) -> Self:
        """Plan a stream of checks: its noise scales, loss, slack and margin.

        Parameters
        ----------
        epsilon
            Budget for all checks, with every miss used and answered.
        misses
            How many checks may be off.
        answers
            The share of a miss's budget for the release that answers it; 0: none does.
        direction
            "UP" or "DOWN" if a unit that is added moves all statistics that way, which halves the noise.
        threshold
            The share of the budget for the threshold; None: that which makes the variance of a check least.
        noise
            "exponential" or "geometric": one-sided, so that what is as expected is within one distance for
            all checks together (`slack`).
        resolution
            As in `Mechanism`.
        """
        budget, noise, misses = positive(epsilon, "epsilon"), kind(noise), whole(misses, "misses")
        share = exact(answers)
        if not 0 <= share < 1:
            raise ValueError("answers must be at least 0 and less than 1")
        if noise == "laplace" or direction not in ("BOTH", "UP", "DOWN"):
            raise ValueError("the noise of checks is one-sided, and their direction BOTH, UP or DOWN")
        moves = 2 if direction == "BOTH" else 1
        part = best_threshold_share(misses, moves, share) if threshold is None else threshold
        if not 0 < part < 1:
            raise ValueError("the threshold's share must lie between 0 and 1")
        level = part * budget
        each = (budget - level) / misses
        answering = share * each
        threshold_scale, scale = 1 / level, moves / (each - answering)
        bits = grid_of(noise, resolution, threshold_scale, scale)
        offset = mean_noise(noise, threshold_scale, bits) - mean_noise(noise, scale, bits)
        return cls(
            misses,
            noise,
            direction,
            level,
            each - answering,
            answering,
            threshold_scale,
            scale,
            bits,
            math.ceil(-offset * (1 << bits)),
            offset,
            loss=PrivacyLoss.of(budget),
        )

    def covers(self, taken: Taken) -> bool:
        """Return whether `loss` holds for statistics that one unit moves so far, in bounds.

        They move by at most 1; in a stream of one direction, that way alone.
        """
        one_way = {"BOTH": True, "UP": taken.low >= 0, "DOWN": taken.high <= 0}[self.direction]
        moves = 2 if self.direction == "BOTH" else 1
        paid = self.threshold_epsilon + self.misses * (self.check_epsilon + self.answer_epsilon)
        return (
            one_way
            and taken.most <= 1
            and self.threshold_epsilon * self.threshold_scale >= 1
            and moves <= self.check_epsilon * self.scale
            and self.answer_epsilon >= 0
            and paid <= (self.loss.epsilon or 0)
        )

    def realised_loss(self, units: int) -> PrivacyLoss:
        """Return the loss of a run with a given number of misses, each of them answered."""
        return PrivacyLoss.of(self.threshold_epsilon + units * (self.check_epsilon + self.answer_epsilon))

    def run(self, counts: OrderedCounts, source: NoiseSource = SYSTEM) -> Off:
        """Check statistics in a public order, given in whole bounds, until the misses are used up."""
        array = in_order(counts)
        rows = to_steps(np.atleast_2d(array), self.resolution, negated=False)
        checks = _Checks(self, source, len(rows))
        steps = np.stack([checks.compare(rows[:, j]) for j in range(rows.shape[1])], axis=1)
        trial, place = np.nonzero(steps >= self.cutoff)
        gap = in_counts(steps[trial, place], self.resolution) + float(self.offset)
        if array.ndim == 1:
            return Off(self, place, gap, units=int(checks.used[0]))
        return Off(self, *pad_rows(trial, (len(rows), self.misses), place, gap), units=checks.used)

    def slack(self, missed: float = 0.05) -> float:
        """Return how far beyond its tolerance the number of any check that is as expected may be, in bounds.

        It holds for all checks of the stream together, however many, except with a chance of `missed`: a
        check's own noise is never below 0, so s' < threshold noise - offset, and that noise is one for all.
        One step of the grid is added, since statistics are rounded down to it.
        """
        step = 2.0**-self.resolution
        high = -math.log(missed) * float(self.threshold_scale)
        return high + step - float(self.offset)

    def margin(self, checks: int, missed: float = 0.05) -> float:
        """Return how far within its tolerance numbers are that are all as expected, in bounds.

        So many checks of such numbers, or fewer, are all as expected, except with a chance of `missed`: with
        exponential noise of scales a of the threshold and b of n checks, the chance that one of the checks
        exceeds the threshold by m is at most n e^(-m/b) b / (a + b).
        """
        own, level = float(self.scale), float(self.threshold_scale)
        return own * math.log(max(checks, 1) * own / (missed * (level + own))) + float(self.offset)


class _Checks:
    """The state of one stream, or of several independent ones: the threshold's noise and the misses used."""

    def __init__(
        self, plan: CheckStreamPlan, source: NoiseSource, trials: int, threshold: NoiseSource | None = None
    ) -> None:
        self._plan, self._source = plan, source
        self.level = self._draw(plan.threshold_scale, trials, threshold or source)
        self.used = np.zeros(trials, dtype=np.int64)

    def compare(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return statistics with noise, less the threshold's, in grid steps.

        Where the misses are used up, it is a number below the cutoff that tells nothing.
        """
        plan, open_ = self._plan, self.used < self._plan.misses
        found = steps + (self._draw(plan.scale, len(steps), self._source) - self.level)
        found = np.where(open_, found, plan.cutoff - 1)
        self.used += found >= plan.cutoff
        return found

    def _draw(self, scale: Fraction, size: int, source: NoiseSource) -> NDArray[np.int64]:
        return source.draw(self._plan.noise, scale, self._plan.resolution, size)


class _Plan(Protocol):
    @property
    def misses(self) -> int: ...

    def realised_loss(self, units: int) -> PrivacyLoss: ...


class _Used(Protocol):
    used: NDArray[np.int64]


class ChargedByMiss:
    """What checks have cost until now, and how many may still be off: a base."""

    plan: _Plan
    _checks: _Used
    _asked = False

    @property
    def used(self) -> int:
        """How many misses, or tests that are paid for, the checks have used."""
        return int(self._checks.used[0])

    @property
    def exhausted(self) -> bool:
        """Whether all misses are used up, so that `check` raises an error."""
        return self.misses_left == 0

    @property
    def misses_left(self) -> int:
        """How many further misses the budget pays for."""
        return self.plan.misses - self.used

    @property
    def charge(self) -> Charge:
        """The charge until now: that of the threshold after the first check, and that of each miss."""
        return self.plan.realised_loss(self.used).charge if self._asked else Charge()


class CheckStream(ChargedByMiss):
    """Checks statistics one after the other; only those that are off use one of the misses.

    Parameters
    ----------
    plan
        States the proof, and what the stream costs.
    source
        Of noise; for tests.
    threshold
        Of the threshold's noise; None: `source`. One that outlives a process is drawn the same each time.
    used
        How many misses were used before.
    """

    plan: CheckStreamPlan
    _checks: _Checks

    def __init__(
        self,
        plan: CheckStreamPlan,
        source: NoiseSource = SYSTEM,
        *,
        threshold: NoiseSource | None = None,
        used: int = 0,
    ) -> None:
        self.plan = plan
        self._checks = _Checks(plan, source, 1, threshold)
        self._checks.used += used
        self._asked = used > 0
        self._alone = threading.Lock()

    @property
    def threshold_steps(self) -> int:
        """The noise of the threshold, in grid steps: private, and shown to nobody."""
        return int(self._checks.level[0])

    def use(self) -> Fraction:
        """Use a miss for an answer without a check, which is charged as if it were off; return 0."""
        with self._alone:
            if self.exhausted:
                raise RuntimeError(f"all {self.plan.misses} misses are used up: nothing more is answered")
            self._asked = True
            self._checks.used += 1
        return Fraction(0)

    def check(self, statistic: Fraction) -> Fraction | None:
        """Return by how much a statistic is off, with noise; None if it is as expected.

        It is exact and private, in bounds. Clamped to plus and minus 2^60 grid steps.

        Raises
        ------
        RuntimeError
            If the misses are used up.
        """
        limit = exact_noise.STEP_LIMIT
        steps = max(-limit, min(math.floor(statistic * (1 << self.plan.resolution)), limit))
        # The lock prevents two threads from using the same last miss.
        with self._alone:
            if self.exhausted:
                raise RuntimeError(f"all {self.plan.misses} misses are used up: nothing more is checked")
            self._asked = True
            found = int(self._checks.compare(np.array([steps]))[0])
        if found < self.plan.cutoff:
            return None
        return Fraction(found, 1 << self.plan.resolution) + self.plan.offset


def best_threshold_share(misses: int, moves: int, answers: Fraction) -> Fraction:
    """Return the share of the budget for the threshold that makes the variance of a check least.

    With `moves` m, the bounds by which a check's noise may have to move, and k = misses / (1 - answers), it
    is 1/(1 + (m k)^(2/3)): the minimum of 1/t^2 + (m k)^2 / (1 - t)^2.
    """
    return Fraction(1 / (1 + math.cbrt((moves * misses / (1 - float(answers))) ** 2))).limit_denominator(
        10**9
    )
