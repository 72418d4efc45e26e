"""Release the counts of a whole table, or of every group of a public domain, with Laplace noise on each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsql import mechanisms
from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.engines import Counts
from dpsql.errors import Fix, InternalError
from dpsql.estimates import Combined, from_measurement
from dpsql.language import AllGroups, Scalar
from dpsql.privacy import Charge, PrivacyLoss

MOST_GROUPS = 64
"""The largest domain for which a refusal offers to let one unit touch all groups."""


def one_group_note(plan: Plan) -> str:
    """Say why no unit is in two groups, for EXPLAIN and the release."""
    if plan.owner.row:
        return f"each {plan.unit} is in one group"
    return f"each {plan.unit} is in one group: each key has one value for it"


@dataclass(frozen=True, slots=True)
class EveryCount:
    """Adds Laplace noise to every distinct count of every group; `noise` maps a count's place to it.

    `groups_per_unit` is the bound for which the noise was planned.
    """

    plan: Plan
    selection: AllGroups | Scalar
    groups_per_unit: int
    noise: dict[int, mechanisms.Laplace]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: AllGroups | Scalar) -> EveryCount:
        """Divide the statement's epsilon among its counts; each unit is in a bounded number of groups."""
        parts = measuring.divide(plan, measuring.wanted(plan, 0), plan.epsilon)
        grouped = isinstance(selection, AllGroups)
        m = 1 if plan.one_group else plan.options.max_groups_contributed
        if m is None:
            few = plan.groups <= MOST_GROUPS
            raise plan.query.source.refuse(
                "Laplace noise on all groups needs a bound on how many of them one unit may touch",
                plan.options.at.get("mechanism"),
                "OPTIONS (max_groups_contributed = 3), or leave mechanism out",
                Fix(str(plan.groups), option="max_groups_contributed") if few else None,
            )
        noise = {
            place: mechanisms.Laplace.plan(
                plan.groups, epsilon, groups_per_unit=m, sensitivity=plan.counts[place].bound
            )
            for place, epsilon in parts.items()
        }
        widest = max(noise.values(), key=lambda each: each.scale)
        note = f"of each unit at most {m} group{'s' * (m > 1)} counted, chosen by a hash"
        if plan.one_group:
            note = one_group_note(plan)
        quote = Quote(
            Charge(plan.epsilon),
            "Laplace on every group" if grouped else "Laplace",
            float(widest.scale),
            "all for measuring" if len(parts) == 1 else f"divided among {len(parts)} counts",
            widest.stddev,
            widest.half_width(measuring.confidence_of(plan)),
            None,
            (note,) if grouped else (),
        )
        return cls(plan, selection, m, noise, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Add noise to every count; groups are released in the public order of the counts.

        Each count has independent noise, so positions decide only which groups the LIMIT keeps, and in what
        order they are released.
        """
        most = self.plan.groups_per_unit
        if most is None or most > self.groups_per_unit:
            raise InternalError("these counts are not those of units in a bounded number of groups")
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
