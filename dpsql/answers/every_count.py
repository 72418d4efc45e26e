"""Release the counts of a whole table, or of every group of a public domain, with Laplace noise on each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Combined, from_measurement, split_measuring
from dpsql.language import AllGroups, Scalar
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

    `totals` has by how much a unit may change each count in all groups together, for which it was planned.
    """

    plan: Plan
    selection: AllGroups | Scalar
    totals: dict[int, int]
    noise: dict[int, mechanisms.Laplace]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: AllGroups | Scalar) -> EveryCount:
        """Divide the statement's epsilon among its counts, of which a unit changes all groups by so much."""
        places, grouped = measuring.wanted(plan, 0), isinstance(selection, AllGroups)
        totals = {place: _total(plan, place) for place in places}
        shares = split_measuring(plan.epsilon, [*totals.values()])
        noise = {
            place: mechanisms.Laplace.plan(plan.groups, epsilon, groups_per_unit=1, sensitivity=total)
            for (place, total), epsilon in zip(totals.items(), shares, strict=True)
        }
        widest = max(noise.values(), key=lambda each: each.scale)
        kept = plan.groups_kept
        note = f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash"
        if plan.one_group:
            note = one_group_note(plan)
        quote = Quote(
            Charge(plan.epsilon),
            "Laplace on every group" if grouped else "Laplace",
            float(widest.scale),
            "all for measuring" if len(totals) == 1 else f"divided among {len(totals)} counts",
            widest.stddev,
            widest.half_width(measuring.confidence_of(plan)),
            None,
            (note,) if kept is not None or (grouped and plan.one_group) else (),
        )
        return cls(plan, selection, totals, noise, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Add noise to every count; groups are released in the public order of the counts.

        Each count has independent noise, so positions decide only which groups the LIMIT keeps, and in what
        order they are released.
        """
        for place, planned in self.totals.items():
            total = self.plan.total(place)
            if total is None or total > planned:
                raise InternalError("a unit can change these counts by more than the noise is for")
        rows = counts.rows_in_order()
        limit = self.selection.limit if isinstance(self.selection, AllGroups) else None
        kept = np.arange(len(rows))[:limit]
        loss = PrivacyLoss()
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, noise in self.noise.items():
            measured = noise.run(counts.n[place][rows])
            loss += measured.loss
            alone = from_measurement(measuring.laplace_measurement(self.plan, measured))
            estimates[place] = measuring.taken(alone, kept)
        return NoisyResult(rows[kept], loss, tuple(estimates))


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
