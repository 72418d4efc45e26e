"""Release all numbers of a whole table, or of every group of a public domain: with one noise, or one of each.

A selection then only shows some of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import CommonNoise, Output, Plan, choose_common_noise
from dpsql.estimates import Combined, distinguishable_gap, error_words
from dpsql.estimates.noise_laws import Linear
from dpsql.estimates.predictions import difference_half_width, difference_stddev, half_width, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.release import Rows, Run
from dpsql.language import AboveThreshold, Scalar, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.method import KeepsQuote, NoisyResult, Quote
from dpsql.planning.noise_shares import (
    LaplaceBlock,
    Values,
    divide_into_blocks,
    errors_of_blocks,
    gaussian_noise,
    is_counts_only,
    law_of,
    law_of_difference,
    source_of,
)
from dpsql.planning.plan_requests import refuse_option
from dpsql.planning.shown_groups import measure_all_groups, notes, places_to_release, selects_by_noise


def needs_laplace(plan: Plan, places: Sequence[int]) -> bool:
    """Return whether numbers need Laplace noise, as moments or a sum bounded over all groups do."""
    sums = [place for place in places if plan.counts[place].noise_group is not None]
    return len(sums) > 1 or any(plan.counts[place].l1_over_groups is not None for place in sums)


@dataclass(frozen=True, slots=True)
class WholeDomain(KeepsQuote):
    """Adds one noise to all distinct counts of all groups, then orders, compares and cuts what is noisy."""

    plan: Plan
    noise: CommonNoise
    mechanism: mechanisms.Box | mechanisms.Gaussian

    @classmethod
    def of(cls, plan: Plan) -> WholeDomain:
        """Spend all of epsilon on one measurement of the counts that are shown, ordered by or compared."""
        places = places_to_release(plan)
        if needs_laplace(plan, places):
            raise ValueError("sums that are bounded in all groups together have Laplace noise")
        noise = choose_common_noise(plan.counts, places, plan.groups)
        mechanism = mechanisms.Box.plan(
            len(noise.measured) * plan.groups,
            plan.epsilon,
            sensitivity=[plan.counts[p].bound for p in noise.measured],
            monotone=noise.monotone,
        )
        return cls(plan, noise, mechanism)

    @property
    def name(self) -> str:
        """The name of the mechanism in words, as in `Quote`."""
        words = "box noise" if self.noise.monotone else "cube noise"
        if isinstance(self.mechanism, mechanisms.Gaussian):
            words = "Gaussian noise"
        if not isinstance(self.plan.selection, Scalar):
            return f"{words} on every group"
        number = len(self.noise.measured)
        return f"{words} on {f'all {number} counts' if number > 1 else 'one count'}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the analyst, as in `Quote`."""
        return notes(self.plan)

    def compute_quote(self) -> Quote:
        """Return the price, and the predicted error: of several counts, of the one with most noise."""
        plan, found = self.plan, list(self.predict())
        return Quote(
            Charge(plan.price),
            self.name,
            max(self.stddev(p) * float(plan.counts[p].step) for p in self.noise.measured) / math.sqrt(2),
            "all for measuring",
            max((stddev for stddev, _ in found), default=None),
            max((width for _, width in found), default=None),
            self.tells_apart(plan_requests.confidence_of(plan)),
            self.notes,
            errors=self.errors,
            divided=None if plan.epsilon_division.order is None else self.mechanism.loss,
        )

    def predict(self) -> Iterator[tuple[float, float]]:
        """Yield the standard deviation and half width of each number that is shown, in its unit."""
        for place in plan_requests.places_shown_alone(self.plan):
            step = float(self.plan.counts[place].step)
            yield self.stddev(place) * step, self.half_width(place, together=self.plan.wide) * step

    @property
    def errors(self) -> dict[Output, str]:
        """The predicted errors of sums in words, as in `Quote`."""
        if is_counts_only(self.plan):
            return {}
        predicted = dict(zip(plan_requests.places_shown_alone(self.plan), self.predict(), strict=True))
        shown = [o for o in self.plan.outputs if o.kind == "count" and o.of in predicted]
        return {output: error_words(*predicted[output.of]) for output in shown}

    def stddev(self, place: int) -> float:
        """Predict the standard deviation of a count."""
        index, free = self._index(place)
        return difference_stddev(self.mechanism, index) if free else stddev(self.mechanism, index)

    def half_width(self, place: int, *, together: bool = False) -> float:
        """Predict half the width of a count's interval, or (`together`) of one that holds for all at once."""
        index, free = self._index(place)
        together |= plan_requests.is_simultaneous(self.plan)
        confidence = plan_requests.box_level(self.plan, together=together)
        if together or self._holds_selected:
            # Where both operands are within their intervals, their difference is within twice that.
            return (2 if free else 1) * half_width(self.mechanism, confidence, index, simultaneous=True)
        if free:
            return difference_half_width(self.mechanism, confidence, index)
        return half_width(self.mechanism, confidence, index)

    @property
    def _holds_selected(self) -> bool:
        """Whether each interval holds for all groups at once, so also for groups that noise selects."""
        return self.plan.options.intervals is None and selects_by_noise(self.plan)

    def tells_apart(self, confidence: Fraction) -> float | None:
        """Predict how far a group must be from the threshold, else from another group, to be placed right."""
        selection, level = self.plan.selection, 2 * confidence - 1
        if not isinstance(selection, (TopK, AboveThreshold)):
            return None
        if level <= 0:
            return 0.0
        (index, free), step = self._index(selection.count), float(self.plan.counts[selection.count].step)
        if selection.threshold is None:
            # Two differences are within that of each other where the four counts are; no less is proven.
            return (2 if free else 1) * difference_half_width(self.mechanism, level, index) * step
        if free:
            return difference_half_width(self.mechanism, level, index) * step
        return half_width(self.mechanism, level, index) * step

    def _index(self, place: int) -> tuple[int, bool]:
        """Return the index of a count, or of an operand if it is a difference, among those measured."""
        known = (*self.noise.measured, *self.noise.differences)
        place = plan_requests.equal_place(self.plan, known, place)
        first = self.noise.differences.get(place, (place,))[0]
        return self.noise.measured.index(first), place in self.noise.differences

    def measure(self, run: Run, every: Rows) -> dict[int, NDArray[np.float64]]:
        """Measure the counts of all groups, in an order that is public; return them by place."""
        noise: Mechanism[Any] = self.mechanism
        measured = run.measure(noise, self.noise.measured, every, by_group=True)
        placed = measured.value.reshape(len(every), -1)
        values = dict(zip(self.noise.measured, placed.T, strict=True))
        for place, (first, second) in self.noise.differences.items():
            values[place] = values[first] - values[second]
        return values

    def estimates(
        self, values: dict[int, NDArray[np.float64]], rows: NDArray[np.int64]
    ) -> tuple[dict[int, Combined], Values]:
        """Return the estimates of some groups, by place; no number follows from several of these."""
        made, law = {}, law_of(self.mechanism)
        sources = {p: source_of(self.mechanism, law, i) for i, p in enumerate(self.noise.measured)}
        for place in (*self.noise.measured, *self.noise.differences):
            if place in sources:
                made_of = Linear.alone(place, values[place][rows], sources[place])
            else:
                made_of = law_of_difference(self.noise.differences[place], values, sources, rows)
            width, kept = self.half_width(place), values[place][rows]
            wide = max(self.half_width(place, together=True), width)
            made[place] = Combined(
                kept,
                np.full(len(rows), self.stddev(place)),
                kept - width,
                kept + width,
                (kept - wide, kept + wide),
                made_of,
            )
        return made, {}

    def run(self, run: Run) -> NoisyResult:
        """Measure all counts; which are shown depends on noisy values, keys and the public order alone."""
        return measure_all_groups(self.plan, (self,), run)


@dataclass(frozen=True, slots=True)
class GaussianDomain(WholeDomain):
    """Adds Gaussian noise to all distinct counts of all groups, then works on what is noisy."""

    @classmethod
    def of(cls, plan: Plan) -> GaussianDomain:
        """Spend all of the cost on one measurement of the counts that are shown, ordered by or compared.

        A sum with a bound in all groups together is measured alone: its squares have a bound, too.
        """
        places = places_to_release(plan)
        if needs_laplace(plan, places) and len(places) > 1:
            raise ValueError("sums that are bounded in all groups together have Laplace noise")
        noise = choose_common_noise(plan.counts, places, plan.groups)
        mechanism = gaussian_noise(
            plan, noise.measured, plan.groups, plan.epsilon, by_group=True, monotone=noise.monotone
        )
        return cls(plan, noise, mechanism)


MOST_GROUPS = 64
"""The largest domain in which one unit may touch all groups if nothing bounds how many it touches."""


def one_group_note(plan: Plan) -> str:
    """Return the note that each unit is in one group only, with the reason."""
    if plan.owner.row:
        return f"each {plan.unit} is in one group"
    return f"each {plan.unit} is in one group: each key has one value for it"


@dataclass(frozen=True, slots=True)
class EveryCount(KeepsQuote):
    """Adds Laplace noise to every distinct number of every group, by blocks that share a part of epsilon.

    A selection then only shows some of the groups.
    """

    plan: Plan
    blocks: tuple[LaplaceBlock, ...]

    @classmethod
    def of(cls, plan: Plan) -> EveryCount:
        """Divide the statement's epsilon among its distinct numbers, and plan Laplace noise for each."""
        made = divide_into_blocks(
            plan, places_to_release(plan), plan.epsilon, lambda place: _total(plan, place)
        )
        for block in made:
            block.noise(plan.groups)
        return cls(plan, tuple(made))

    @property
    def name(self) -> str:
        """The name of the mechanism in words, as in `Quote`."""
        return "Laplace" if isinstance(self.plan.selection, Scalar) else "Laplace on every group"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the analyst, as in `Quote`."""
        plan, kept, grouped = self.plan, self.plan.groups_kept, not isinstance(self.plan.selection, Scalar)
        if plan.one_group:
            return (one_group_note(plan), *notes(plan)) if kept is not None or grouped else notes(plan)
        if kept is None:
            return notes(plan)
        text = f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash"
        return (text, *notes(plan))

    @property
    def errors(self) -> dict[Output, str]:
        """The predicted error of each number in words, as in `Quote`."""
        return errors_of_blocks(self.plan, self.blocks, self._predicted_level)

    def compute_quote(self) -> Quote:
        """Return the price, and the predicted error: of several counts, of the one with most noise."""
        plan, found = self.plan, list(self.predict())
        numbers = sum(len(block.places) for block in self.blocks)
        return Quote(
            Charge(plan.price),
            self.name,
            max(float(block.noise(1).scale * plan.counts[block.places[0]].step) for block in self.blocks),
            "all for measuring" if len(self.blocks) == 1 else f"divided among {numbers} counts",
            max((stddev for stddev, _ in found), default=None),
            max((width for _, width in found), default=None),
            self.tells_apart(plan_requests.confidence_of(plan)),
            self.notes,
            errors=self.errors,
            divided=None if plan.epsilon_division.order is None else self._loss,
        )

    def stddev(self, place: int) -> float:
        """Predict the standard deviation of a number, in its steps."""
        return stddev(self._block(place).noise(1))

    @property
    def _loss(self) -> PrivacyLoss:
        return sum((block.noise(self.plan.groups).loss for block in self.blocks), PrivacyLoss()).joined

    def predict(self) -> Iterator[tuple[float, float]]:
        """Yield the standard deviation and half width of each number that is shown as it is measured."""
        for place in plan_requests.places_shown_alone(self.plan):
            step, noise = float(self.plan.counts[place].step), self._block(place).noise(1)
            yield stddev(noise) * step, half_width(noise, self._predicted_level) * step

    @property
    def _ordering(self) -> int | None:
        """The place of the count that orders the groups or is compared, if there is one."""
        return getattr(self.plan.selection, "count", None)

    @property
    def _level(self) -> Fraction:
        """The level of each interval; for rows that noise selects all intervals hold at once."""
        level, plan = plan_requests.confidence_of(self.plan), self.plan
        if plan.options.intervals is None and selects_by_noise(plan):
            return 1 - (1 - level) / plan.groups
        return level

    @property
    def _all_level(self) -> Fraction:
        """The level of each interval at which the intervals of all numbers hold at once."""
        return max(plan_requests.level_at_once(self.plan, self.plan.groups), self._level)

    @property
    def _predicted_level(self) -> Fraction:
        return self._all_level if self.plan.wide else self._level

    def _block(self, place: int) -> LaplaceBlock:
        found = plan_requests.equal_place(self.plan, chain(*(block.places for block in self.blocks)), place)
        return next(block for block in self.blocks if found in block.places)

    def tells_apart(self, confidence: Fraction) -> float | None:
        """Predict how far a group must be from the threshold, else from another group, to be placed right."""
        if self._ordering is None:
            return None
        noise, step = self._block(self._ordering).noise(1), float(self.plan.counts[self._ordering].step)
        if getattr(self.plan.selection, "threshold", None) is None:
            gap = distinguishable_gap("laplace", noise.scale, confidence, resolution=noise.resolution)
            return gap * step
        level = 2 * confidence - 1
        return half_width(noise, level) * step if level > 0 else 0.0

    def measure(self, run: Run, every: Rows) -> dict[int, NDArray[np.float64]]:
        """Add noise to the numbers of all groups, in an order that is public; return them by place."""
        parts = [(block.noise(len(every)), block.places) for block in self.blocks]
        values: dict[int, NDArray[np.float64]] = {}
        for block, measured in zip(self.blocks, run.measure_apart(parts, every), strict=True):
            values |= block.by_place(measured.value)
        return values

    def estimates(
        self, values: dict[int, NDArray[np.float64]], rows: NDArray[np.int64]
    ) -> tuple[dict[int, Combined], Values]:
        """Return the estimates of the groups in `rows`: numbers by place, and values computed from them."""
        made: dict[int, Combined] = {}
        found: Values = {}
        for block in self.blocks:
            own, more = block.estimates(
                {place: values[place][rows] for place in block.places}, self._level, self._all_level
            )
            made |= own
            found |= more
        return made, found

    def run(self, run: Run) -> NoisyResult:
        """Add noise to every number; which groups are shown depends on noisy values and public orders alone.

        Each number has independent noise, so positions decide only which groups the LIMIT keeps, and in what
        order they are released.
        """
        return measure_all_groups(self.plan, (self,), run)


def takes_all(plan: Plan, place: int) -> bool:
    """Return whether Laplace noise suits a number of all groups: all, or the groups of a unit, are few.

    By cost it suits any number of groups: its variance grows with their number, not with its square.
    """
    given = plan.groups_per_unit is not None or plan.options.max_groups_contributed is not None
    few = plan.groups <= MOST_GROUPS or plan.epsilon_division.order is not None
    return few or plan.counts[place].l1_over_groups is not None or given


def _total(plan: Plan, place: int) -> int:
    """Return the most by which a unit changes a count in all groups; refuse one of too many groups."""
    total = plan.l1_over_groups(place)
    if total is None or not takes_all(plan, place):
        raise refuse_option(
            plan,
            "mechanism",
            "Laplace noise on all groups needs a bound on how many of them one unit may touch",
            "OPTIONS (max_groups_contributed = 3), or leave mechanism out",
        )
    return total
