"""Release groups of keys without a declared domain: the largest ones, or all that have enough units.

For a top-k there are several mechanisms, of which one is chosen by the bar that a group must exceed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan, count_candidates
from dpsql.errors import Fix, InternalError
from dpsql.estimates import Combined, LaplaceNoise, from_reached
from dpsql.estimates.predictions import half_width, stddev
from dpsql.kernel import mechanisms
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.mechanisms import LimitedDomain, LimitedThenStable, TopStable
from dpsql.kernel.mechanisms.top_stable import ORDER_SHARE
from dpsql.kernel.release import Run
from dpsql.language import AllGroups, TopK
from dpsql.lazy_dataclass import dataclass
from dpsql.planning import plan_requests
from dpsql.planning.method import SHOWN, KeepsQuote, NoisyResult, Quote
from dpsql.planning.noise_shares import LaplaceBlock, Values, divide_into_blocks, errors_of_blocks
from dpsql.planning.plan_requests import refuse_option
from dpsql.planning.result_table import order_by_terms

NOTE = "fewer rows than asked for may come: a key is shown only when no single unit can have put it there"
SET_NOTE = "rows without a gap come last, as a set in the order of their keys"

LARGEST_BAR = Fraction(1, 25)
"""The limited domain mechanism answers alone while its bar is at most this part of the units.

A delta near 1/units, the usual choice, stands for the number of units unless the policy states one.
"""

Unknown = LimitedDomain | LimitedThenStable | TopStable


def _check(plan: Plan, selection: TopK, name: str) -> None:
    """Refuse options and outputs that the mechanism does not support, and a statement without a delta."""
    options = plan.options
    ordered = _needs_order(plan, selection)
    orders = name == "TOP_STABLE" and selection.threshold is None
    if name != "LIMITED_DOMAIN" and ordered is not None and not (orders and _order_share(plan, selection)):
        raise refuse_option(
            plan,
            "mechanism",
            f"{ordered} needs groups in order, and {name} releases a set without order",
            "OPTIONS (.., order_share = 0.25)" if orders else "mechanism = LIMITED_DOMAIN",
        )
    if name != "TOP_STABLE" and options.noise == "LAPLACE":
        raise refuse_option(
            plan, "noise", "the limited domain mechanism supports exponential noise only", "leave noise out"
        )
    if name == "LIMITED_THEN_STABLE" and selection.k == 1:
        raise refuse_option(
            plan, "mechanism", "a single group leaves no epsilon for Top Stable", "mechanism = LIMITED_DOMAIN"
        )
    _delta(plan)


def _order_share(plan: Plan, selection: TopK) -> Fraction:
    """Return the share of the selection's epsilon with which Top Stable orders its set."""
    usual = ORDER_SHARE if (plan.options.candidates or 0) > selection.k else Fraction(0)
    return usual if plan.options.order_share is None else plan.options.order_share


def _needs_order(plan: Plan, selection: TopK) -> str | None:
    """Return what the statement asks for that needs all groups in order; None if nothing does."""
    if selection.threshold is not None:
        return "a threshold"
    if plan.options.measure_strategy == "ANCHOR":
        return "an ANCHOR"
    return next((o.name for o in plan.outputs if o.kind in ("gap", "p_value", "rank")), None)


def _delta(plan: Plan) -> Fraction:
    delta = plan.options.delta
    if delta is None:
        keys = [output.name[:60] for output in plan.outputs if output.kind == "key"]
        declared = "all declared" if len(keys) > 1 else "declared"
        raise plan.query.source.refuse(
            f"the values of {' and '.join(keys) or 'the keys'} are not {declared}, so a delta is needed",
            plan.query.tree.args.get("group"),
            "OPTIONS (delta = 1e-6), or the owner declares the keys in [tables.NAME.domain]",
            Fix("1e-6", option="delta", guess="1e-6"),
        )
    return delta


def choose_unknown(plan: Plan, selection: TopK, epsilon: Fraction) -> tuple[str, str]:
    """Return the mechanism asked for, else that chosen by limited domain's bar at `epsilon`, and why."""
    options = plan.options
    if options.mechanism not in (None, "AUTO"):
        return options.mechanism, "asked for by name"
    if _needs_order(plan, selection) is not None:
        return "LIMITED_DOMAIN", "the order of all groups is needed"
    if options.noise == "LAPLACE":
        return "TOP_STABLE", "Laplace noise"
    if selection.k == 1:
        return "LIMITED_DOMAIN", "a single group"
    bar, delta, units = _plan_limited_domain(plan, selection, epsilon).bar, _delta(plan), plan.units_at_least
    part = bar * delta if units is None else bar / units
    words = f"{float(bar):.4g} x delta" if units is None else f"{float(bar):.4g} of {units:,} units"
    if part <= LARGEST_BAR:
        return "LIMITED_DOMAIN", f"bar {words} is {float(part):.2g}, at most {float(LARGEST_BAR):g}"
    return "LIMITED_THEN_STABLE", f"bar {words} is {float(part):.2g}, above {float(LARGEST_BAR):g}"


def _plan_limited_domain(plan: Plan, selection: TopK, epsilon: Fraction) -> LimitedDomain:
    return LimitedDomain.plan(
        selection.k,
        epsilon,
        _delta(plan),
        candidates=count_candidates(selection.k, plan.options),
        threshold=selection.threshold,
        sensitivity=plan.counts[selection.count].bound,
        resolution=_resolution(plan),
    )


def _resolution(plan: Plan) -> int | None:
    return 0 if plan.options.noise == "GEOMETRIC" else None


def plan_unknown(plan: Plan, selection: TopK, epsilon: Fraction) -> Unknown:
    """Plan the mechanism asked for, else the one that suits; refuse what it does not support."""
    name, _ = choose_unknown(plan, selection, epsilon)
    _check(plan, selection, name)
    options, bound, delta = plan.options, plan.counts[selection.count].bound, _delta(plan)
    if name == "LIMITED_DOMAIN":
        return _plan_limited_domain(plan, selection, epsilon)
    if name == "LIMITED_THEN_STABLE":
        return LimitedThenStable.plan(
            selection.k,
            epsilon,
            delta,
            candidates=count_candidates(selection.k, options),
            sensitivity=bound,
            resolution=_resolution(plan),
        )
    return TopStable.plan(
        selection.k,
        epsilon,
        delta,
        candidates=options.candidates or selection.k,
        sensitivity=bound,
        order_share=_order_share(plan, selection),
        noise="laplace" if options.noise == "LAPLACE" else "one-sided",
        resolution=_resolution(plan),
    )


def notes(mechanism: Unknown) -> tuple[str, ...]:
    """Return the analyst's notes on the groups shown of keys without a declared domain."""
    if isinstance(mechanism, TopStable) and mechanism.choice is not None:
        return NOTE, f"epsilon {float(mechanism.choice.loss.charge.epsilon):g} of it orders the rows"
    return (NOTE, SET_NOTE) if isinstance(mechanism, LimitedThenStable) else (NOTE,)


def outlook(mechanism: Unknown) -> dict[str, float]:
    """Return the bar that a count must exceed, and the lead that a set of groups must have."""
    match mechanism:
        case LimitedDomain():
            return {"bar": float(mechanism.bar)}
        case TopStable():
            return {"lead": float(mechanism.lead)}
    first = mechanism.further(1)
    return {"bar": float(mechanism.limited.bar)} | ({"lead": float(first.lead)} if first else {})


@dataclass(frozen=True, slots=True)
class GroupsByUnits(KeepsQuote):
    """Shows groups whose noisy number of units reaches a threshold; measures their other counts.

    The number of units of a group is released with the noise that decided on the group. It costs nothing
    more. Other numbers have the rest of epsilon, divided among `blocks`. Their noise is of whole numbers,
    which err less than fractions where noise is small.
    """

    plan: Plan
    selection: AllGroups | TopK
    units: int
    """The place of the numbers of units."""
    existing: mechanisms.Existing
    blocks: tuple[LaplaceBlock, ...]
    measuring: Fraction
    """The epsilon of the other numbers."""

    @classmethod
    def of(cls, plan: Plan, selection: AllGroups | TopK) -> GroupsByUnits:
        """Divide the statement's epsilon: all for the number of units, or half if other counts are shown."""
        units, delta = plan.existence, plan.options.delta
        m = None if units is None else plan.l1_over_groups(units)
        if units is None or m is None or delta is None:
            raise InternalError("groups of undeclared keys need a delta and a bound on each unit's groups")
        asked = plan_requests.places_to_measure(plan, units, _list_compared(selection))
        others = [p for p in asked if plan.equal[p] != plan.equal[units]]
        bounded = [place for place in others if plan.counts[place].noise_group is None]
        totals = [_total(plan, place) * plan.counts[place].step for place in bounded]
        share, measure = Fraction(0), plan_requests.asked_share(plan)
        if others and measure == 0:
            raise ValueError("measure = 0 leaves no epsilon for the counts beside the number of units")
        if others:
            few = bool(totals) and len(totals) == len(others) and len(others) == len(asked)
            share = measure or (_share(m, delta, max(totals)) if few else Fraction(1, 2))
        first, second = (plan.epsilon_division.epsilon_of(each) for each in (1 - share, share))
        made = divide_into_blocks(plan, others, second, lambda place: _total(plan, place)) if others else []
        made = [replace(block, resolution=0, planned={}) for block in made]
        existing = mechanisms.Existing.plan(first, delta, groups_per_unit=m)
        return cls(plan, selection, units, existing, tuple(made), second)

    def compute_quote(self) -> Quote:
        """Return the price and the predicted error."""
        plan, existing, confidence = self.plan, self.existing, plan_requests.confidence_of(self.plan)
        shown = list(self._predict(confidence))
        selecting = existing.loss.charge.epsilon
        split = "all for the numbers of units"
        if self.blocks:
            split = f"{float(selecting):g} for existence, {float(self.measuring):g} for measuring"
        threshold, kept, selected = (
            float(existing.threshold),
            plan.groups_kept,
            isinstance(plan.selection, TopK),
        )
        notes: tuple[str, ...] = (shown_note(existing),)
        if kept is not None:
            notes += (f"of each unit at most {kept} group{'s' * (kept != 1)} counted, chosen by a hash",)
        return Quote(
            Charge(plan.price, existing.loss.charge.delta),
            "noisy numbers of units above a threshold",
            float(existing.scale),
            split,
            max((stddev for stddev, _ in shown), default=None),
            None if selected or plan.wide else max((width for _, width in shown), default=None),
            None,
            notes,
            outlook={"least_units": threshold},
            errors=errors_of_blocks(plan, self.blocks, confidence),
            divided=None if plan.epsilon_division.order is None else self._loss,
        )

    @property
    def _loss(self) -> PrivacyLoss:
        """The largest loss of a run: a unit is in a given number of groups, all of which may be shown."""
        numbers = (block.noise(self.existing.groups_per_unit).loss for block in self.blocks)
        return sum(numbers, self.existing.loss)

    @property
    def _shows_units(self) -> bool:
        """Whether the number of units is shown, or compared."""
        equal, compared = self.plan.equal, _list_compared(self.selection)
        measured = plan_requests.places_to_measure(self.plan, self.units, compared)
        return any(equal[place] == equal[self.units] for place in measured)

    def _law(self) -> mechanisms.Laplace:
        """Return the law of the noise of the number of units."""
        existing = self.existing
        return mechanisms.Laplace.plan(
            1,
            existing.loss.charge.epsilon,
            sensitivity=existing.groups_per_unit,
            resolution=existing.resolution,
        )

    def _predict(self, confidence: Fraction) -> Iterator[tuple[float, float]]:
        """Yield the standard deviation and half width of each number that is shown as it is measured."""
        if self._shows_units:
            yield stddev(self._law()), half_width(self._law(), confidence)
        for place in plan_requests.places_shown_alone(self.plan):
            for block in self.blocks:
                if place in block.places:
                    step, noise = float(self.plan.counts[place].step), block.noise(1)
                    yield stddev(noise) * step, half_width(noise, confidence) * step

    def run(self, run: Run) -> NoisyResult:
        """Show the groups that reach the threshold, sorted by key, and measure their other counts.

        Of a top-k these are the candidates: the largest by their noisy counts are shown.
        """
        selected, confidence = (
            run.existence(self.existing, self.units),
            plan_requests.confidence_of(self.plan),
        )
        rows, values = selected.rows, selected.found.value
        if isinstance(self.selection, AllGroups):
            order = order_by_terms(run.keys(rows), self.selection.order)[: self.selection.limit]
            rows, values = rows.take(order), values[order]
        # How many are shown is released, and says nothing of the noise of one that is: see `reached`.
        all_level = plan_requests.level_at_once(self.plan, len(rows))
        if isinstance(self.selection, TopK):  # The noise also selects among these.
            confidence = max(all_level, confidence)
        made: dict[int, Combined] = {}
        more: Values = {}
        if self._shows_units:
            law, threshold = self._law(), self.existing.threshold
            noise = LaplaceNoise(law.scale, law.resolution)
            alone, wider = (
                from_reached(values, threshold, noise, level) for level in (confidence, all_level)
            )
            made[self.units] = alone.at_once(wider)
        for block in self.blocks:
            own, others = block.estimates(block.run(run, rows), confidence, all_level)
            made, more = made | own, more | others
        known = self.plan.counts
        estimates = [next((e for place, e in made.items() if known[place] == count), None) for count in known]
        if isinstance(self.selection, TopK):
            kept = _largest(self.selection, estimates[self.selection.count])
            rows, estimates = rows.take(kept), [e and e.take(kept) for e in estimates]
            more = {key: estimate.take(kept) for key, estimate in more.items()}
        return NoisyResult(rows, tuple(estimates), more)


def shown_note(existing: mechanisms.Existing) -> str:
    """Say which groups of undeclared keys are shown."""
    return (
        f"{SHOWN} is at least {float(existing.threshold):.4g}; near that, groups with high noise are shown, "
        "and their intervals reach down to 1"
    )


def _list_compared(selection: AllGroups | TopK) -> list[int]:
    """Return the places of the numbers by which groups are compared: one of a top-k, none of all groups."""
    return [selection.count] if isinstance(selection, TopK) else []


def _total(plan: Plan, place: int) -> int:
    total = plan.l1_over_groups(place)
    if total is None:
        raise InternalError("a count of groups of undeclared keys has no bound")
    return total


def _share(m: int, delta: Fraction, total: Fraction | int) -> Fraction:
    """Return the part of epsilon for measuring counts of which a unit changes all groups by `total` together.

    Deciding has at most half. It has less where the noise of a count, three half-widths of it, would exceed
    the number of units that is needed: groups near that number could not be told from empty ones anyway.
    """
    ratio = m * math.log(m / (2 * float(delta))) / (3 * max(float(total), 1))
    return 1 - max(Fraction(1, 64), min(Fraction(1, 2), Fraction(round(64 * ratio / (1 + ratio)), 64)))


def _largest(selection: TopK, estimate: Combined | None) -> NDArray[np.int64]:
    """Return the places of the k largest noisy counts, largest first; of equal ones, the first key."""
    if estimate is None:
        raise InternalError("the count that orders the groups was not measured")
    order = np.argsort(-estimate.value, kind="stable")
    if selection.threshold is not None:
        order = order[estimate.value[order] >= float(selection.threshold)]
    return order[: selection.k]
