"""Release the counts of a whole table, or of every group of a public domain, with Laplace noise on each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.answers.shown import by_noise, notes, order_of, released, shown
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import (
    Combined,
    LaplaceNoise,
    Measurement,
    distinguishable_gap,
    from_measurement,
    split_measuring,
)
from dpsql.language import Scalar
from dpsql.privacy import Charge, PrivacyLoss

MOST_GROUPS = 64
"""The largest domain in which one unit may touch all groups if nothing bounds how many it touches."""


def one_group_note(plan: Plan) -> str:
    """Say why no unit is in two groups, for EXPLAIN and the release."""
    if plan.owner.row:
        return f"each {plan.unit} is in one group"
    return f"each {plan.unit} is in one group: each key has one value for it"


@dataclass(frozen=True, slots=True)
class EveryCount:
    """Adds Laplace noise to every distinct count of every group; `noise` maps a count's place to it.

    A selection then only shows some of them. `totals` has by how much a unit may change each count in all
    groups together, for which the noise was planned.
    """

    plan: Plan
    totals: dict[int, int]
    noise: dict[int, mechanisms.Laplace]

    @classmethod
    def of(cls, plan: Plan) -> EveryCount:
        """Divide the statement's epsilon among its counts, of which a unit changes all groups by so much."""
        totals = {place: _total(plan, place) for place in released(plan)}
        shares = split_measuring(plan.epsilon, [*totals.values()])
        noise = {
            place: mechanisms.Laplace.plan(plan.groups, epsilon, groups_per_unit=1, sensitivity=total)
            for (place, total), epsilon in zip(totals.items(), shares, strict=True)
        }
        return cls(plan, totals, noise)

    @property
    def quote(self) -> Quote:
        """See `Method`; of several counts it predicts the one with the most noise."""
        plan, kept, grouped = self.plan, self.plan.groups_kept, not isinstance(self.plan.selection, Scalar)
        text = f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash"
        if plan.one_group:
            text = one_group_note(plan)
        said = (text,) if kept is not None or (grouped and plan.one_group) else ()
        wanted = [self.noise[self._released(p)] for p in measuring.wanted(plan, self._ordering or 0)]
        return Quote(
            Charge(plan.epsilon),
            "Laplace on every group" if grouped else "Laplace",
            max(float(each.scale) for each in self.noise.values()),
            "all for measuring" if len(self.noise) == 1 else f"divided among {len(self.noise)} counts",
            max((each.stddev for each in wanted), default=None),
            max((each.half_width(self._level) for each in wanted), default=None),
            self.tells_apart(measuring.confidence_of(plan)),
            said + notes(plan),
        )

    @property
    def _ordering(self) -> int | None:
        """The place of the count that orders the groups or is compared, if there is one."""
        return getattr(self.plan.selection, "count", None)

    @property
    def _level(self) -> Fraction:
        """The level of each interval; those of rows that noise selects hold for all groups at once."""
        level, plan = measuring.confidence_of(self.plan), self.plan
        if plan.options.intervals is None and by_noise(plan):
            return 1 - (1 - level) / plan.groups
        return level

    def _released(self, place: int) -> int:
        """Return the place under which a count is released; equal counts are released once."""
        counts = self.plan.counts
        return next(p for p in self.noise if counts[p] == counts[place])

    def tells_apart(self, confidence: Fraction) -> float | None:
        """Predict how far a group must be from the threshold, else from another group, to be placed right."""
        if self._ordering is None:
            return None
        noise = self.noise[self._released(self._ordering)]
        if getattr(self.plan.selection, "threshold", None) is None:
            return distinguishable_gap("laplace", noise.scale, confidence, resolution=noise.resolution)
        level = 2 * confidence - 1
        return noise.half_width(level) if level > 0 else 0.0

    def run(self, counts: Counts) -> NoisyResult:
        """Add noise to every count; which groups are shown depends on noisy values and public orders alone.

        Each count has independent noise, so positions decide only which groups the LIMIT keeps, and in what
        order they are released.
        """
        for place, planned in self.totals.items():
            total = self.plan.total(place)
            if total is None or total > planned:
                raise InternalError("a unit can change these counts by more than the noise is for")
        order, loss = order_of(self.plan, counts), PrivacyLoss()
        values: dict[int, NDArray[np.float64]] = {}
        for place, noise in self.noise.items():
            measured = noise.run(counts.n[place][order])
            loss += measured.loss
            placed = np.empty(len(order))
            placed[order] = measured.value
            values[place] = placed
        rows = shown(self.plan, counts, lambda place: values[self._released(place)], order)
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, noise in self.noise.items():
            law = LaplaceNoise(noise.scale, noise.resolution)
            each = Measurement(values[place][rows], law, noise.half_width(self._level))
            estimates[place] = from_measurement(each)
        return NoisyResult(rows, loss, tuple(estimates))


def _total(plan: Plan, place: int) -> int:
    """Return the most by which a unit changes a count in all groups; refuse one of too many groups."""
    total, many = plan.total(place), plan.groups > MOST_GROUPS
    bounded = plan.counts[place].total is not None or plan.groups_per_unit is not None
    if total is None or (many and not bounded and plan.options.max_groups_contributed is None):
        raise plan.query.source.refuse(
            "Laplace noise on all groups needs a bound on how many of them one unit may touch",
            plan.options.at.get("mechanism"),
            "OPTIONS (max_groups_contributed = 3), or leave mechanism out",
        )
    return total
