"""What is shown of groups that are all measured: rows chosen and ordered by noisy values, at no charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.answers import measuring
from dpsql.answers.blocks import Values, counts_only
from dpsql.answers.method import NoisyResult
from dpsql.answers.unknown import by_key
from dpsql.engines import Counts
from dpsql.errors import InternalError
from dpsql.estimates import Average, Combined, Deviation, Variance
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK, TopPerPartition
from dpsql.privacy import PrivacyLoss

COVERS_LESS = "an interval covers less than its level if noise put the group into the answer"
"""What is told where single intervals are asked for, and noise selects groups."""
_RATIOS = (Average, Variance, Deviation)
_SURE = 3
"""Standard deviations by which a noisy number of rows must be below 1 so that there is surely none."""


def released(plan: Plan) -> list[int]:
    """Return the places of the distinct counts that are shown, and of that which orders or is compared."""
    ordering = getattr(plan.selection, "count", None)
    wanted = measuring.wanted(plan, ordering or 0)
    if ordering is None or plan.equal[ordering] in {plan.equal[p] for p in wanted}:
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


def surely_empty(plan: Plan, size: int, estimates: Mapping[int, Combined]) -> NDArray[np.bool_]:
    """Return which of so many rows have no row of the data behind them, beyond doubt: plain SQL has none.

    It is asked where all groups are released with an average, whose noisy numbers of rows are known.
    """
    sure = np.ones(size, dtype=np.bool_)
    asked = [o for o in plan.outputs if isinstance(o.formula, _RATIOS)]
    for output in asked:
        step = float(plan.counts[output.uses[0]].step)
        rows = sum(estimates[place].value for place in output.uses) * step
        spread = np.sqrt(sum(estimates[place].stddev ** 2 for place in output.uses)) * step
        sure &= rows + _SURE * spread < 1
    return sure if asked and isinstance(plan.selection, AllGroups) else np.zeros(size, dtype=np.bool_)


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
    if most is not None and most < plan.groups:
        word = "counts" if counts_only(plan) else "numbers"
        found = (
            f"this noise releases the {word} of all {plan.groups:,} groups: a larger LIMIT costs no more",
        )
    single = plan.options.intervals == "SINGLE" and by_noise(plan)
    if single and measuring.wanted(plan, getattr(selection, "count", 0)):
        found += (COVERS_LESS,)
    return found


class Share(Protocol):
    """Numbers of all groups that are measured together, with a part of epsilon of their own."""

    def measure(
        self, counts: Counts, order: NDArray[np.int64]
    ) -> tuple[dict[int, NDArray[np.float64]], PrivacyLoss]:
        """Measure the numbers of all groups, in an order that is public; return them by place."""

    def estimates(
        self, values: dict[int, NDArray[np.float64]], rows: NDArray[np.int64]
    ) -> tuple[dict[int, Combined], Values]:
        """Return the estimates of some groups, by place, and of what follows from them."""


def measured_in_all(plan: Plan, parts: Sequence[Share], counts: Counts) -> NoisyResult:
    """Measure all groups; which are shown depends on noisy values, keys and the public order alone."""
    order, loss = order_of(plan, counts), PrivacyLoss()
    values: dict[int, NDArray[np.float64]] = {}
    for part in parts:
        own, spent = part.measure(counts, order)
        values |= own
        loss += spent
    rows = shown(plan, counts, lambda place: values[measuring.equal_place(plan, values, place)], order)
    made: dict[int, Combined] = {}
    found: Values = {}
    for part in parts:
        estimates, more = part.estimates(values, rows)
        made |= estimates
        found |= more
    return _listed(plan, rows, loss, made, found)


def _listed(
    plan: Plan,
    rows: NDArray[np.int64],
    loss: PrivacyLoss,
    estimates: Mapping[int, Combined],
    values: Values,
) -> NoisyResult:
    """Return the result with these rows; of all groups, those that are not surely empty, up to the LIMIT."""
    limit = plan.selection.limit if isinstance(plan.selection, AllGroups) else None
    kept = np.flatnonzero(~surely_empty(plan, len(rows), estimates))[:limit]
    if len(kept) < len(rows):
        estimates = {place: measuring.taken(each, kept) for place, each in estimates.items()}
        values = {key: measuring.taken(each, kept) for key, each in values.items()}
    found = tuple(estimates.get(place) for place in range(len(plan.counts)))
    return NoisyResult(rows[kept], loss, found, values)
