"""What is shown of groups that are all measured: rows chosen and ordered by noisy values, at no charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.method import NoisyResult
from dpsql.answers.unknown import by_key
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Average, Combined, Deviation, Formula, Variance
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK, TopPerPartition
from dpsql.privacy import PrivacyLoss

_RATIOS = (Average, Variance, Deviation)


def released(plan: Plan) -> list[int]:
    """Return the places of the distinct counts that are shown, and of that which orders or is compared."""
    ordering = getattr(plan.selection, "count", None)
    wanted = measuring.wanted(plan, ordering or 0)
    if ordering is None or plan.counts[ordering] in {plan.counts[p] for p in wanted}:
        return wanted
    return [ordering, *wanted]


def order_of(plan: Plan, counts: Counts) -> NDArray[np.int64]:
    """Return the positions of the groups in the order in which they are measured.

    In a public order, equal draws also give equal releases. Where noisy values order the rows, any will do:
    the noise of all groups has one law.
    """
    free = counts.order is None and isinstance(plan.selection, TopK)
    return np.arange(len(counts.n[0])) if free else counts.rows_in_order()


def shown(
    plan: Plan, counts: Counts, value: Callable[[int], NDArray[np.float64]], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the positions of the groups to show, in order of release.

    `value` returns the noisy values of a count by its place; `order` is the public order.
    """
    match selection := plan.selection:
        case Scalar():
            return np.zeros(1, dtype=np.int64)
        case AllGroups():
            return order
        case TopK():
            noisy = value(selection.count)
            rows = _by_value(counts, noisy if selection.lowest else -noisy)
            if selection.threshold is not None:
                rows = rows[noisy[rows] >= float(selection.threshold)]
            return rows[: selection.k]
        case AboveThreshold():
            noisy = value(selection.count)
            rows = order[noisy[order] >= float(selection.threshold)]
            if not selection.order:
                rows = rows[np.argsort(-noisy[rows], kind="stable")]
            return rows[: selection.limit]
        case TopPerPartition():
            raise InternalError("each partition has a plan of its own")


def _by_value(counts: Counts, value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the positions of all groups by their noisy values, equal ones by their keys."""
    order: NDArray[np.int64] = np.argsort(value, kind="stable")
    if (np.diff(value[order]) == 0).any():
        keys = by_key(counts, np.arange(len(value)))
        order = keys[np.argsort(value[keys], kind="stable")]
    return order


def with_average(
    plan: Plan, rows: NDArray[np.int64], values: Mapping[tuple[tuple[int, ...], Formula], Combined]
) -> NDArray[np.bool_]:
    """Return which rows of all groups are shown: plain SQL has no empty groups, and they have no average.

    Rows whose averages and variances are all NaN are left out, where all groups are released.
    """
    averages = [each for (_, formula), each in values.items() if isinstance(formula, _RATIOS)]
    if not isinstance(plan.selection, AllGroups) or not averages:
        return np.ones(len(rows), dtype=np.bool_)
    there: NDArray[np.bool_] = np.logical_or.reduce([~np.isnan(each.value) for each in averages])
    return there


def by_noise(plan: Plan) -> bool:
    """Whether noisy values select the rows shown."""
    selection = plan.selection
    return isinstance(selection, AboveThreshold) or (
        isinstance(selection, TopK) and (selection.k < plan.groups or selection.threshold is not None)
    )


def notes(plan: Plan) -> tuple[str, ...]:
    """Say what is free, as all counts are released, and what intervals do not hold."""
    selection = plan.selection
    most = selection.k if isinstance(selection, TopK) else getattr(selection, "limit", None)
    found: tuple[str, ...] = ()
    word = "counts" if all(count.share is None for count in plan.counts) else "numbers"
    if most is not None and most < plan.groups:
        found = (
            f"this noise releases the {word} of all {plan.groups:,} groups: a larger LIMIT costs no more",
        )
    wanted = measuring.wanted(plan, getattr(selection, "count", 0))
    if wanted and plan.options.intervals == "SINGLE" and by_noise(plan):
        found += ("an interval covers less than its level if noise put the group into the answer",)
    return found


def listed(
    plan: Plan,
    rows: NDArray[np.int64],
    loss: PrivacyLoss,
    estimates: Mapping[int, Combined],
    values: Mapping[tuple[tuple[int, ...], Formula], Combined],
) -> NoisyResult:
    """Return the result with these rows; of all groups, those that have an average, up to the LIMIT."""
    limit = plan.selection.limit if isinstance(plan.selection, AllGroups) else None
    kept = np.flatnonzero(with_average(plan, rows, values))[:limit]
    if len(kept) < len(rows):
        estimates = {place: measuring.taken(each, kept) for place, each in estimates.items()}
        values = {key: measuring.taken(each, kept) for key, each in values.items()}
    found = tuple(estimates.get(place) for place in range(len(plan.counts)))
    return NoisyResult(rows[kept], loss, found, values)
