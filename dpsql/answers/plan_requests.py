"""What a plan asks for: which of its numbers are measured and shown, and at which level intervals hold."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dpsql.analysis import OF_NUMBERS, Plan
from dpsql.estimates import Strategy

STRATEGIES: dict[str, Strategy] = {"AUTO": "BOX", "BOX": "BOX", "EACH": "EACH", "ANCHOR": "ANCHOR"}
_LEAST_MISS = Fraction(1, 10**9)
"""The least probability with which an interval misses (see `estimates.closed_form.check_confidence`)."""


def confidence_of(plan: Plan) -> Fraction:
    """Return the confidence level of the statement's intervals."""
    return plan.options.confidence or Fraction(95, 100)


def strategy_of(plan: Plan) -> Strategy:
    """Return how the statement measures counts, and refuse intervals that this does not give."""
    strategy = STRATEGIES[plan.options.measure_strategy or "AUTO"]
    if is_simultaneous(plan) and strategy != "BOX":
        raise plan.query.source.refuse(
            f"simultaneous intervals need one noise for all counts, and {strategy} has several",
            plan.options.at.get("measure_strategy"),
            "measure_strategy = BOX",
        )
    return strategy


def places_to_measure(plan: Plan, ordering: int, also: Iterable[int] = ()) -> list[int]:
    """Return the places of the distinct counts in use, and of others; the ordering count first."""
    shown = {o.of for o in plan.outputs if o.kind in OF_NUMBERS} | {*also}
    shown |= {place for o in plan.outputs for place in o.uses}
    equal = plan.equal
    distinct: dict[int, int] = {}
    for place in sorted(shown, key=lambda p: (equal[p] != equal[ordering], p)):
        distinct.setdefault(equal[place], place)
    return list(distinct.values())


def equal_place(plan: Plan, known: Iterable[int], place: int) -> int:
    """Return the place of the number that is equal to one and known; equal numbers are released once."""
    return next(p for p in known if plan.equal[p] == plan.equal[place])


def places_shown_alone(plan: Plan) -> list[int]:
    """Return the places of the distinct numbers that are shown as they are measured."""
    shown = {o.of for o in plan.outputs if o.kind in OF_NUMBERS and o.formula is None}
    distinct: dict[int, int] = {}
    for place in sorted(shown):
        distinct.setdefault(plan.equal[place], place)
    return list(distinct.values())


def quoted_place(plan: Plan) -> int | None:
    """Return the place of a number whose error is the statement's, in `Quote`.

    It is the one that orders the groups, else a count that is shown, else another number that is shown as it
    is measured; None: there is no such number.
    """
    ordering = getattr(plan.selection, "count", None)
    if ordering is not None:
        return int(ordering)
    alone = places_shown_alone(plan)
    return next((p for p in alone if plan.counts[p].argument is None), next(iter(alone), None))


def asked_share(plan: Plan) -> Fraction | None:
    """Return the requested share of epsilon for measuring; None if it is to be chosen."""
    measure = plan.options.measure
    return None if measure is None or measure == "AUTO" else Fraction(measure)


def largest_change(plan: Plan, place: int, groups: int) -> int:
    """Return the most by which one unit can change a count in so many groups together."""
    every, total = max(groups, 1) * plan.counts[place].bound, plan.total(place)
    return every if total is None else min(every, total)


def is_simultaneous(plan: Plan) -> bool:
    """Whether intervals are to cover all counts at once."""
    return plan.options.intervals == "SIMULTANEOUS"


def level_at_once(plan: Plan, groups: int = 1) -> Fraction:
    """Return the level of each interval with which all numbers of so many groups are covered at once.

    It holds for any noise: what all of them may miss together is divided among them. No level is above that
    which the laws of noise are computed for.
    """
    shown = {
        (o.uses, o.formula) if o.formula is not None else plan.equal[o.of]
        for o in plan.outputs
        if o.kind in OF_NUMBERS
    }
    miss = (1 - confidence_of(plan)) / (plan.apart * max(groups, 1) * max(len(shown), 1))
    return 1 - max(miss, _LEAST_MISS)


def box_level(plan: Plan, *, together: bool) -> Fraction:
    """Return the level of intervals of one noise; those of all its numbers hold together by themselves."""
    return 1 - (1 - confidence_of(plan)) / plan.apart if together else confidence_of(plan)
