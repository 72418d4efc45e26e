"""Release all counts of a public domain with one noise; a selection then only shows some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.analysis import CommonNoise, Plan, common_noise
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.unknown import by_key
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Combined
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK, TopPerPartition
from dpsql.privacy import Charge


def released(plan: Plan) -> list[int]:
    """Return the places of the distinct counts that are shown, and of that which orders or is compared."""
    ordering = getattr(plan.selection, "count", None)
    wanted = measuring.wanted(plan, ordering or 0)
    if ordering is None or plan.counts[ordering] in {plan.counts[p] for p in wanted}:
        return wanted
    return [ordering, *wanted]


@dataclass(frozen=True, slots=True)
class WholeDomain:
    """Adds one noise to all distinct counts of all groups, then orders, compares and cuts what is noisy."""

    plan: Plan
    noise: CommonNoise
    mechanism: mechanisms.Box

    @classmethod
    def of(cls, plan: Plan) -> WholeDomain:
        """Spend all of epsilon on one measurement of the counts that are shown, ordered by or compared."""
        noise = common_noise(plan.counts, released(plan), plan.groups)
        mechanism = mechanisms.Box.plan(
            len(noise.measured) * plan.groups,
            plan.epsilon,
            sensitivity=[plan.counts[p].bound for p in noise.measured],
            monotone=noise.monotone,
        )
        return cls(plan, noise, mechanism)

    @property
    def quote(self) -> Quote:
        """See `Method`; of several counts it predicts the one with the most noise."""
        plan, scalar = self.plan, isinstance(self.plan.selection, Scalar)
        shown = measuring.wanted(plan, getattr(plan.selection, "count", 0))
        words = "box noise" if self.noise.monotone else "cube noise"
        return Quote(
            Charge(plan.epsilon),
            f"{words} on {f'all {len(self.noise.measured)} counts' if scalar else 'every group'}",
            max(map(self.stddev, self.noise.measured)) / math.sqrt(2),
            "all for measuring",
            max(map(self.stddev, shown), default=None),
            max(map(self.half_width, shown), default=None),
            self.tells_apart(measuring.confidence_of(plan)),
            _notes(plan),
        )

    def stddev(self, place: int) -> float:
        """Predict the standard deviation of a count."""
        index, free = self._index(place)
        return self.mechanism.difference_stddev(index) if free else self.mechanism.stddev(index)

    def half_width(self, place: int) -> float:
        """Predict half the width of a count's interval."""
        index, free = self._index(place)
        confidence = measuring.confidence_of(self.plan)
        if measuring.simultaneous(self.plan) or self._holds_selected:
            # Where both operands are within their intervals, their difference is within twice that.
            return (2 if free else 1) * self.mechanism.half_width(index, confidence, simultaneous=True)
        if free:
            return self.mechanism.difference_half_width(index, confidence)
        return self.mechanism.half_width(index, confidence)

    @property
    def _holds_selected(self) -> bool:
        """Whether intervals are those of all groups at once: they hold for rows that noise selects."""
        return self.plan.options.intervals is None and _by_noise(self.plan)

    def tells_apart(self, confidence: Fraction) -> float | None:
        """Predict how far a group must be from the threshold, else from another group, to be placed right."""
        selection, level = self.plan.selection, 2 * confidence - 1
        if not isinstance(selection, (TopK, AboveThreshold)):
            return None
        if level <= 0:
            return 0.0
        index, free = self._index(selection.count)
        if selection.threshold is None:
            # Two differences are within that of each other where the four counts are; no less is proven.
            return (2 if free else 1) * self.mechanism.difference_half_width(index, level)
        if free:
            return self.mechanism.difference_half_width(index, level)
        return self.mechanism.half_width(index, level)

    def _index(self, place: int) -> tuple[int, bool]:
        """Return the index of a count, or of an operand if it is a difference, among those measured."""
        place = self._released(place)
        first = self.noise.differences.get(place, (place,))[0]
        return self.noise.measured.index(first), place in self.noise.differences

    def _released(self, place: int) -> int:
        """Return the place under which a count is released; equal counts are released once."""
        counts = self.plan.counts
        known = (*self.noise.measured, *self.noise.differences)
        return next(p for p in known if counts[p] == counts[place])

    def run(self, counts: Counts) -> NoisyResult:
        """Measure all counts; which are shown depends on noisy values, keys and the public order alone."""
        exact = np.stack([counts.n[place] for place in self.noise.measured], axis=1)
        # The noise of all groups has one law; in a public order, equal draws also give equal releases.
        free = counts.order is None and isinstance(self.plan.selection, TopK)  # ordered by noisy values
        order = np.arange(len(exact)) if free else counts.rows_in_order()
        measured = self.mechanism.run(exact[order].reshape(-1))
        placed = np.empty(exact.shape)
        placed[order] = measured.value.reshape(exact.shape)
        values = dict(zip(self.noise.measured, placed.T, strict=True))
        for place, (first, second) in self.noise.differences.items():
            values[place] = values[first] - values[second]
        rows = self._rows(counts, values, order)
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, value in values.items():
            width, shown = self.half_width(place), value[rows]
            spread = np.full(len(rows), self.stddev(place))
            estimates[place] = Combined(shown, spread, shown - width, shown + width)
        return NoisyResult(rows, measured.loss, tuple(estimates))

    def _rows(
        self, counts: Counts, values: dict[int, NDArray[np.float64]], order: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the positions of the groups to show, in order of release; `order` is the public order."""
        match selection := self.plan.selection:
            case Scalar():
                return np.zeros(1, dtype=np.int64)
            case AllGroups():
                return order[: selection.limit]
            case TopK():
                value = values[self._released(selection.count)]
                rows = _by_value(counts, value if selection.lowest else -value)
                if selection.threshold is not None:
                    rows = rows[value[rows] >= float(selection.threshold)]
                return rows[: selection.k]
            case AboveThreshold():
                value = values[self._released(selection.count)]
                rows = order[value[order] >= float(selection.threshold)]
                if not selection.order:
                    rows = rows[np.argsort(-value[rows], kind="stable")]
                return rows[: selection.limit]
            case TopPerPartition():
                raise InternalError("each partition has a plan of its own")


def _by_value(counts: Counts, value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the positions of all groups by their noisy values, equal ones by their keys."""
    order: NDArray[np.int64] = np.argsort(value, kind="stable")
    if (np.diff(value[order]) == 0).any():
        keys = by_key(counts, np.arange(len(value)))
        order = keys[np.argsort(value[keys], kind="stable")]
    return order


def _by_noise(plan: Plan) -> bool:
    """Whether noisy values select the rows shown."""
    selection = plan.selection
    return isinstance(selection, AboveThreshold) or (
        isinstance(selection, TopK) and (selection.k < plan.groups or selection.threshold is not None)
    )


def _notes(plan: Plan) -> tuple[str, ...]:
    """Say what is free, as all counts are released, and what intervals do not hold."""
    selection = plan.selection
    shown = selection.k if isinstance(selection, TopK) else getattr(selection, "limit", None)
    notes: tuple[str, ...] = ()
    if shown is not None and shown < plan.groups:
        notes = (
            f"this noise releases the counts of all {plan.groups:,} groups: a larger LIMIT costs no more",
        )
    wanted = measuring.wanted(plan, getattr(selection, "count", 0))
    if wanted and plan.options.intervals == "SINGLE" and _by_noise(plan):
        notes += ("an interval covers less than its level if noise put the group into the answer",)
    return notes
