"""Measure the counts of selected groups: the second phase of every method."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpsql import mechanisms
from dpsql.estimates import (
    Combined,
    choose_strategy,
    from_measurements,
    split_measuring,
)
from dpsql.privacy import PrivacyLoss

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from dpsql.analysis import Plan
    from dpsql.engines import Counts
    from dpsql.estimates import MeasuringPlan

    Combine = Callable[[mechanisms.Measured | None], Combined]
    Strategy = Callable[[Fraction], str]


def confidence_of(plan: Plan) -> Fraction:
    """Return the confidence level of the statement's intervals."""
    return plan.options.confidence or Fraction(95, 100)


def wanted(plan: Plan, ordering: int) -> list[int]:
    """Return the places of the distinct counts that any output uses, the ordering count first."""
    shown = {o.of for o in plan.outputs if o.kind in ("count", "stddev", "low", "high")}
    shown |= {place for o in plan.outputs for place in o.uses}
    distinct: dict[object, int] = {}
    for place in sorted(shown, key=lambda p: (plan.counts[p] != plan.counts[ordering], p)):
        distinct.setdefault(plan.counts[place], place)
    return list(distinct.values())


def share_of(plan: Plan) -> Fraction | None:
    """Return the requested share of epsilon for measuring; None if it is to be chosen."""
    measure = plan.options.measure
    return None if measure is None or measure == "AUTO" else Fraction(measure)


def divide(plan: Plan, places: list[int], epsilon: Fraction) -> dict[int, Fraction]:
    """Divide the measuring epsilon among counts; return the epsilon of each by place."""
    if not places or not epsilon:
        return {}
    shares = split_measuring(epsilon, [plan.counts[p].bound for p in places])
    return dict(zip(places, shares, strict=True))


def measure(
    plan: Plan,
    counts: Counts,
    index: NDArray[np.int64],
    parts: dict[int, Fraction],
    ordering: int,
    strategy: Strategy,
    combine: Combine,
) -> tuple[tuple[Combined | None, ...], PrivacyLoss]:
    """Measure the counts of the selected groups; return the estimates by count, and their privacy loss.

    `strategy` returns EACH or ANCHOR for the scale of the ordering count. `combine` joins the measurement of
    that count with its gaps; it gets no measurement if no group was selected.
    """
    size = len(index)
    loss = PrivacyLoss()
    estimates: list[Combined | None] = [None] * len(plan.counts)
    for place, epsilon in parts.items():
        count = plan.counts[place]
        if size == 0:
            estimates[place] = combine(None)
            continue
        exact = counts.n[place][index]
        orders = count == plan.counts[ordering]
        mechanism = mechanisms.Laplace.plan(size, epsilon, sensitivity=count.bound)
        if orders and strategy(mechanism.scale) == "ANCHOR":
            mechanism = mechanisms.Laplace.plan(size, epsilon, sensitivity=count.bound, total=True)
        measured = mechanism.run(exact)
        loss += measured.loss
        estimates[place] = combine(measured) if orders else plain(plan, measured)
    return tuple(estimates), loss


def measurement(measured: mechanisms.Measured | None) -> dict[str, Any]:
    """Return the arguments that pass a measurement to the estimates of `dpsql.estimates`."""
    if measured is None:
        return {}
    noise = {"measuring_scale": measured.plan.scale, "measuring_resolution": measured.plan.resolution}
    if measured.plan.total:
        return {**noise, "anchor_total": float(measured.value[0])}
    return {**noise, "each": measured.value}


def taken(estimates: Combined, rows: NDArray[np.int64]) -> Combined:
    """Return some rows of the estimates, in the given order."""
    return Combined(estimates.value[rows], estimates.stddev[rows], estimates.low[rows], estimates.high[rows])


def each_or_anchor(
    plan: Plan,
    noise: mechanisms.Noise,
    scale: Fraction,
    size: int,
    *,
    resolution: int,
    measuring_scale: Fraction,
    threshold_scale: Fraction | None = None,
) -> str:
    """Return the requested strategy, else the one with the smaller error for the groups selected."""
    asked = plan.options.measure_strategy or "AUTO"
    if asked != "AUTO":
        return asked
    return choose_strategy(
        noise,
        scale,
        size,
        measuring_scale=measuring_scale,
        threshold_scale=threshold_scale,
        resolution=resolution,
        measuring_resolution=mechanisms.usual_grid("laplace", measuring_scale),
    )


def predicted(
    plan: Plan, phases: MeasuringPlan, parts: dict[int, Fraction], ordering: int
) -> tuple[float | None, float | None]:
    """Predict standard deviation and half width of the measured count; None unless there is just one."""
    if len(parts) != 1:
        return None, None
    place, epsilon = next(iter(parts.items()))
    if plan.counts[place] == plan.counts[ordering] and plan.domain_size != 1:
        return phases.predicted_stddev, phases.half_width(confidence_of(plan))
    # Gaps are those of the ordering count; of another count each group is measured separately.
    noise = mechanisms.Laplace.plan(phases.k, epsilon, sensitivity=plan.counts[place].bound)
    return noise.stddev, noise.half_width(confidence_of(plan))


def plain(plan: Plan, each: mechanisms.Measured | None) -> Combined:
    """Estimate counts from their measurements alone; None: there is no group."""
    if each is None:
        return from_measurements([], scale=1, confidence=confidence_of(plan))
    return from_measurements(
        each.value, scale=each.plan.scale, resolution=each.plan.resolution, confidence=confidence_of(plan)
    )
