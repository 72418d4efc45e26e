"""The run of a plan: what the checker does not prove of its numbers goes with their counts."""

from __future__ import annotations

from dataclasses import replace

from dpsql.analysis import Plan
from dpsql.kernel.counts import Counts
from dpsql.kernel.release import Run, Spending


def run_of(plan: Plan, counts: Counts, spending: Spending) -> Run:
    """Return the run of a plan over its counts.

    That all changes of the moments of one column add up to their bound is what the plan says.
    """
    shares: dict[object, list[int]] = {}
    for place, count in enumerate(plan.counts):
        if count.share is not None:
            shares.setdefault(count.share, []).append(place)
    run = Run(counts, spending)
    totals = [(frozenset(places), plan.total(places[0])) for places in shares.values() if len(places) > 1]
    together = tuple((places, total) for places, total in totals if total is not None)
    return Run(counts, spending, replace(run.changes, together=together)) if together else run
