"""The mechanisms for a top-k over keys without a declared domain, and which of them answers."""

from __future__ import annotations

from fractions import Fraction

from dpsql.analysis import Plan, max_candidates
from dpsql.errors import Fix
from dpsql.kernel.mechanisms import LimitedDomain, LimitedThenStable, TopStable
from dpsql.language import TopK

MECHANISMS = ("LIMITED_DOMAIN", "LIMITED_THEN_STABLE", "TOP_STABLE")

NOTE = "fewer rows than asked for may come: a key is shown only when no single unit can have put it there"
SET_NOTE = "rows without a gap come last, as a set in the order of their keys"

LARGEST_BAR = Fraction(1, 25)
"""The limited domain mechanism answers alone while its bar is at most this part of the units.

A delta near 1/units, the usual choice, stands for the number of units unless the policy states one.
"""

Unknown = LimitedDomain | LimitedThenStable | TopStable


def _check(plan: Plan, selection: TopK, name: str) -> None:
    """Refuse options and outputs that the mechanism does not support, and a statement without a delta."""
    source, options = plan.query.source, plan.options
    ordered = _needs_order(plan, selection)
    if name != "LIMITED_DOMAIN" and ordered is not None:
        raise source.refuse(
            f"{ordered} needs groups in order, and {name} releases a set without order",
            options.at.get("mechanism"),
            "mechanism = LIMITED_DOMAIN",
        )
    if name != "TOP_STABLE" and options.noise == "LAPLACE":
        raise source.refuse(
            "the limited domain mechanism supports exponential noise only",
            options.at.get("noise"),
            "leave noise out",
        )
    if name == "LIMITED_THEN_STABLE" and selection.k == 1:
        raise source.refuse(
            "a single group leaves no epsilon for Top Stable",
            options.at.get("mechanism"),
            "mechanism = LIMITED_DOMAIN",
        )
    _delta(plan)


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


def choice(plan: Plan, selection: TopK, epsilon: Fraction) -> tuple[str, str]:
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
    bar, delta, units = _limited(plan, selection, epsilon).bar, _delta(plan), plan.units_at_least
    part = bar * delta if units is None else bar / units
    words = f"{float(bar):.4g} x delta" if units is None else f"{float(bar):.4g} of {units:,} units"
    if part <= LARGEST_BAR:
        return "LIMITED_DOMAIN", f"bar {words} is {float(part):.2g}, at most {float(LARGEST_BAR):g}"
    return "LIMITED_THEN_STABLE", f"bar {words} is {float(part):.2g}, above {float(LARGEST_BAR):g}"


def _limited(plan: Plan, selection: TopK, epsilon: Fraction) -> LimitedDomain:
    return LimitedDomain.plan(
        selection.k,
        epsilon,
        _delta(plan),
        candidates=max_candidates(selection.k, plan.options),
        threshold=selection.threshold,
        sensitivity=plan.counts[selection.count].bound,
        resolution=_resolution(plan),
    )


def _resolution(plan: Plan) -> int | None:
    return 0 if plan.options.noise == "GEOMETRIC" else None


def plan_unknown(plan: Plan, selection: TopK, epsilon: Fraction) -> Unknown:
    """Plan the mechanism asked for, else the one that suits; refuse what it does not support."""
    name, _ = choice(plan, selection, epsilon)
    _check(plan, selection, name)
    options, bound, delta = plan.options, plan.counts[selection.count].bound, _delta(plan)
    if name == "LIMITED_DOMAIN":
        return _limited(plan, selection, epsilon)
    if name == "LIMITED_THEN_STABLE":
        return LimitedThenStable.plan(
            selection.k,
            epsilon,
            delta,
            candidates=max_candidates(selection.k, options),
            sensitivity=bound,
            resolution=_resolution(plan),
        )
    return TopStable.plan(
        selection.k,
        epsilon,
        delta,
        candidates=options.candidates or selection.k,
        sensitivity=bound,
        noise="laplace" if options.noise == "LAPLACE" else "one-sided",
        resolution=_resolution(plan),
    )


def notes(mechanism: Unknown) -> tuple[str, ...]:
    """Return what the analyst is told of the rows."""
    return (NOTE, SET_NOTE) if isinstance(mechanism, LimitedThenStable) else (NOTE,)


def outlook(mechanism: Unknown) -> dict[str, float]:
    """Return what a count must exceed to be shown, and by how much a set must be ahead of the next group."""
    match mechanism:
        case LimitedDomain():
            return {"bar": float(mechanism.bar)}
        case TopStable():
            return {"lead": float(mechanism.lead)}
    first = mechanism.further(1)
    return {"bar": float(mechanism.limited.bar)} | ({"lead": float(first.lead)} if first else {})
