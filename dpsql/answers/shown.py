"""What is shown of groups that are all measured: rows chosen and ordered by noisy values, at no charge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from dpsql.estimates import Combined, with_noun
from dpsql.kernel.loss import PrivacyLoss
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK, TopPerPartition

COVERS_LESS = "an interval covers less than its level if noise put the group into the answer"
"""What is told where single intervals are asked for, and noise selects groups."""
MANY_GROUPS = 10_000
"""Above so many groups of declared keys, an answer of all of them is warned of."""
WIDE = "the declared keys have"
"""The beginning of that warning."""


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


def by_noise(plan: Plan) -> bool:
    """Whether noisy values select the rows shown."""
    selection = plan.selection
    return isinstance(selection, AboveThreshold) or (
        isinstance(selection, TopK) and (selection.k < plan.groups or selection.threshold is not None)
    )


def wide(plan: Plan) -> tuple[str, ...]:
    """Warn of more groups than anybody reads: where most are empty, an answer is mostly noise."""
    selection, size = plan.selection, plan.domain_size
    if not isinstance(selection, AllGroups) or size is None or size <= MANY_GROUPS:
        return ()
    if selection.limit is not None and selection.limit <= MANY_GROUPS:
        return ()
    return (
        f"{WIDE} {size:,} groups, and those with fewer rows than the noise cannot be told from empty ones: "
        "WHERE with a list of the keys, coarser keys, or ORDER BY .. DESC LIMIT shows less",
    )


def notes(plan: Plan) -> tuple[str, ...]:
    """Say what is free, as all counts are released, and what intervals do not hold."""
    selection = plan.selection
    most = selection.k if isinstance(selection, TopK) else getattr(selection, "limit", None)
    found: tuple[str, ...] = ()
    if most is not None and most < plan.groups:
        word = "counts" if counts_only(plan) else "numbers"
        found = (
            f"this noise releases the {word} of all {with_noun(plan.groups, 'group')}: "
            "a larger LIMIT costs no more",
        )
    found += wide(plan)
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
    limit = plan.selection.limit if isinstance(plan.selection, AllGroups) else None
    groups = len(rows) - plan.outside
    made = _estimated(plan, parts, values, rows[:groups][:limit], loss)
    if not plan.outside:
        return made
    return replace(made, outside=_estimated(plan, parts, values, rows[groups:], loss))


def _estimated(
    plan: Plan,
    parts: Sequence[Share],
    values: dict[int, NDArray[np.float64]],
    rows: NDArray[np.int64],
    loss: PrivacyLoss,
) -> NoisyResult:
    """Return the result with some of the rows."""
    made: dict[int, Combined] = {}
    found: Values = {}
    for part in parts:
        estimates, more = part.estimates(values, rows)
        made |= estimates
        found |= more
    listed = tuple(made.get(place) for place in range(len(plan.counts)))
    return NoisyResult(rows, loss, listed, found)
