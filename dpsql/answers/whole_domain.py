"""Release all counts of a public domain with one noise; a selection then only shows some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql import mechanisms
from dpsql.analysis import CommonNoise, Plan, common_noise
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.shown import by_noise, notes, order_of, released, shown
from dpsql.engines import Counts
from dpsql.estimates import Combined
from dpsql.language import AboveThreshold, Scalar, TopK
from dpsql.privacy import Charge


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
        wanted = measuring.wanted(plan, getattr(plan.selection, "count", 0))
        words = "box noise" if self.noise.monotone else "cube noise"
        return Quote(
            Charge(plan.epsilon),
            f"{words} on {f'all {len(self.noise.measured)} counts' if scalar else 'every group'}",
            max(map(self.stddev, self.noise.measured)) / math.sqrt(2),
            "all for measuring",
            max(map(self.stddev, wanted), default=None),
            max(map(self.half_width, wanted), default=None),
            self.tells_apart(measuring.confidence_of(plan)),
            notes(plan),
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
        return self.plan.options.intervals is None and by_noise(self.plan)

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
        order = order_of(self.plan, counts)
        measured = self.mechanism.run(exact[order].reshape(-1))
        placed = np.empty(exact.shape)
        placed[order] = measured.value.reshape(exact.shape)
        values = dict(zip(self.noise.measured, placed.T, strict=True))
        for place, (first, second) in self.noise.differences.items():
            values[place] = values[first] - values[second]
        rows = shown(self.plan, counts, lambda place: values[self._released(place)], order)
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, value in values.items():
            width, kept = self.half_width(place), value[rows]
            spread = np.full(len(rows), self.stddev(place))
            estimates[place] = Combined(kept, spread, kept - width, kept + width)
        return NoisyResult(rows, measured.loss, tuple(estimates))
