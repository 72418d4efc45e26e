"""Release the counts of every group of a public domain; each unit is in a bounded number of groups."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql import mechanisms
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult, Quote
from dpsql.privacy import Charge

if TYPE_CHECKING:
    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.estimates import Combined
    from dpsql.language import AllGroups

__all__ = ["LaplaceGroups"]


@dataclass(frozen=True, slots=True)
class LaplaceGroups:
    """Adds Laplace noise to every count of every group; `scales` maps a count's place to its scale."""

    plan: Plan
    selection: AllGroups
    scales: dict[int, Fraction]
    quote: Quote

    @classmethod
    def of(cls, plan: Plan, selection: AllGroups) -> LaplaceGroups:
        """Divide the statement's epsilon among its counts."""
        source, options = plan.query.source, plan.options
        places = measuring.wanted(plan, 0)
        if not places:
            raise source.refuse("every group of the domain would be shown: select a count", plan.query.tree)
        groups = 1 if plan.owner.row else options.max_groups_contributed or 1
        parts = measuring.divide(plan, places, plan.epsilon)
        scales = {p: groups * Fraction(plan.counts[p].bound) / epsilon for p, epsilon in parts.items()}
        widest = max(scales.values())
        quote = Quote(
            Charge(plan.epsilon),
            "Laplace on every group",
            float(widest),
            "all for measuring" if len(parts) == 1 else f"divided among {len(parts)} counts",
            measuring.stddev(widest),
            measuring.half_width(plan, widest),
            None,
            (f"of each unit at most {groups} group{'s' * (groups > 1)} counted, chosen by a hash",),
        )
        return cls(plan, selection, scales, quote)

    def run(self, counts: Counts) -> NoisyResult:
        """Add noise to every count; the groups are released in the public order of the counts.

        Each count has independent noise, so positions decide only which groups the LIMIT keeps, and in what
        order they are released.
        """
        estimates: list[Combined | None] = [None] * len(self.plan.counts)
        for place, scale in self.scales.items():
            bound = self.plan.counts[place].bound
            estimates[place] = measuring.plain(
                self.plan, mechanisms.laplace(counts.n[place], scale, sensitivity=bound)
            )
        rows = counts.rows_in_order()[: self.selection.limit]
        kept = tuple(None if e is None else measuring.taken(e, rows) for e in estimates)
        return NoisyResult(rows, Charge(self.plan.epsilon), kept)
