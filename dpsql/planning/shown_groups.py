"""What is shown of groups that are all measured: rows chosen and ordered by noisy values, at no charge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.analysis import Plan, list_tellers
from dpsql.errors import InternalError
from dpsql.estimates import Combined, with_noun
from dpsql.kernel.release import Rows, Run
from dpsql.language import AboveThreshold, AllGroups, Scalar, TopK, TopPerPartition
from dpsql.planning import plan_requests
from dpsql.planning.method import NoisyResult
from dpsql.planning.noise_shares import Values, divide_among, is_counts_only
from dpsql.planning.result_table import order_by_terms

COVERS_LESS = "an interval covers less than its level if noise put the group into the answer"
"""What is told where single intervals are asked for, and noise selects groups."""
MANY_GROUPS = 10_000
"""Above so many groups of declared keys, an answer of all of them is warned of."""
CLEAR = "a group is shown if the interval of a count, which holds for all groups at once, is above 0"
"""What is told where most candidates have no rows."""
EMPTY = "declared groups without rows count as 0 here; SQL has such groups only by an outer join"
"""What is told of the smallest groups where one of them may have no rows."""
WIDE = "the declared keys have"
"""The beginning of that warning."""


def places_to_release(plan: Plan) -> list[int]:
    """Return the places of the distinct counts that are shown, and of that which orders or is compared."""
    ordering = getattr(plan.selection, "count", None)
    wanted = plan_requests.places_to_measure(plan, ordering or 0)
    if ordering is None or plan.equal[ordering] in {plan.equal[p] for p in wanted}:
        return wanted
    return [ordering, *wanted]


def divide_released(plan: Plan) -> list[tuple[list[int], Fraction]]:
    """Return the places of the numbers that are released, in lists as `divide_among` makes them."""
    return divide_among(plan, places_to_release(plan), plan.epsilon, plan.domain_size or 1)


def choose_shown(
    plan: Plan, run: Run, value: Callable[[int], NDArray[np.float64]], every: Rows
) -> NDArray[np.int64]:
    """Return the places of the groups to show among all groups, in order of release.

    `value` returns the noisy values of a count by its place, in the public order of the groups.
    """
    match selection := plan.selection:
        case Scalar():
            return np.zeros(1, dtype=np.int64)
        case AllGroups():
            return np.arange(len(every))
        case TopK():
            noisy = value(selection.count)
            rows = _by_value(run, every, noisy if selection.lowest else -noisy)
            if selection.threshold is not None:
                rows = rows[noisy[rows] >= float(selection.threshold)]
            return rows[: selection.k]
        case AboveThreshold():
            noisy = value(selection.count)
            rows = np.flatnonzero(noisy >= float(selection.threshold))
            if not selection.order:
                rows = rows[np.argsort(-noisy[rows], kind="stable")]
            return rows[: selection.limit]
        case TopPerPartition():
            raise InternalError("each partition has a plan of its own")


def _by_value(run: Run, every: Rows, value: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of all groups by their noisy values, equal ones by their keys."""
    order: NDArray[np.int64] = np.argsort(value, kind="stable")
    if (np.diff(value[order]) == 0).any():
        keys = order_by_terms(run.keys(every), ())
        order = keys[np.argsort(value[keys], kind="stable")]
    return order


def keep_clear(plan: Plan, found: NoisyResult) -> NoisyResult:
    """Return a result with the groups that are there for sure, where the plan shows these alone.

    They are those of which an interval of a count, which holds for all groups at once, is above 0.
    """
    if not plan.clear:
        return found
    told = [each for place in list_tellers(plan.counts) if (each := found.counts[place]) is not None]
    ends = [each.low if each.together is None else each.together[0] for each in told]
    there = np.flatnonzero(np.any([np.nan_to_num(low, nan=0.0) > 0 for low in ends], axis=0))

    def take(one: NoisyResult) -> NoisyResult:
        counts = tuple(None if each is None else each.take(there) for each in one.counts)
        values = {of: each.take(there) for of, each in one.values.items()}
        alone = None if one.alone is None else take(one.alone)
        return replace(one, rows=one.rows.take(there), counts=counts, values=values, alone=alone)

    return take(found)


def describe_empty(plan: Plan, found: NoisyResult) -> tuple[str, ...]:
    """Return what is said where one of the smallest groups has no number that is surely not 0."""
    if not getattr(plan.selection, "lowest", False):
        return ()
    shown, told = len(found.rows), [each for each in found.counts if each is not None]
    if not told:
        return (EMPTY,) if shown else ()
    there = np.any([(np.nan_to_num(each.low) > 0) | (np.nan_to_num(each.high) < 0) for each in told], axis=0)
    empty = shown - int(there.sum())
    return (f"{empty:,} of the {shown:,} smallest groups may have no rows: {EMPTY}",) if empty else ()


def selects_by_noise(plan: Plan) -> bool:
    """Whether noisy values select the rows shown."""
    selection = plan.selection
    if not isinstance(selection, TopK):
        return isinstance(selection, AboveThreshold) or plan.clear
    size = plan.domain_size  # None: which groups there are is not known
    return size is None or selection.k < size or selection.threshold is not None


def warn_if_wide(plan: Plan) -> tuple[str, ...]:
    """Warn of more groups than anybody reads: where most are empty, an answer is mostly noise."""
    selection, size = plan.selection, plan.domain_size
    if plan.clear:
        return (CLEAR,)
    if not isinstance(selection, AllGroups) or size is None or size <= MANY_GROUPS:
        return ()
    if selection.limit is not None and selection.limit <= MANY_GROUPS:
        return ()
    return (
        f"{WIDE} {size:,} groups, and those with fewer rows than the noise cannot be told from empty ones: "
        "WHERE with a list of the keys, coarser keys, or ORDER BY .. DESC LIMIT shows less",
    )


def notes(plan: Plan) -> tuple[str, ...]:
    """Return notes for a release of all groups: on a free larger LIMIT, and on its intervals."""
    selection = plan.selection
    most = selection.k if isinstance(selection, TopK) else getattr(selection, "limit", None)
    found: tuple[str, ...] = ()
    if most is not None and most < plan.groups:
        word = "counts" if is_counts_only(plan) else "numbers"
        found = (
            f"this noise releases the {word} of all {with_noun(plan.groups, 'group')}: "
            "a larger LIMIT costs no more",
        )
    found += warn_if_wide(plan)
    single = plan.options.intervals == "SINGLE" and selects_by_noise(plan)
    if single and plan_requests.places_to_measure(plan, getattr(selection, "count", 0)):
        found += (COVERS_LESS,)
    return found


class MeasuredShare(Protocol):
    """Numbers of all groups that are measured together, with a part of epsilon of their own."""

    def measure(self, run: Run, every: Rows) -> dict[int, NDArray[np.float64]]:
        """Measure the numbers of all groups, in an order that is public; return them by place."""

    def estimates(
        self, values: dict[int, NDArray[np.float64]], rows: NDArray[np.int64]
    ) -> tuple[dict[int, Combined], Values]:
        """Return the estimates of the groups in `rows`: numbers by place, and values computed from them."""


def measure_all_groups(plan: Plan, parts: Sequence[MeasuredShare], run: Run) -> NoisyResult:
    """Measure all groups; which are shown depends on noisy values, keys and the public order alone.

    In a public order, equal draws also give equal releases.
    """
    every = run.every()
    values: dict[int, NDArray[np.float64]] = {}
    for part in parts:
        values |= part.measure(run, every)
    rows = choose_shown(
        plan, run, lambda place: values[plan_requests.equal_place(plan, values, place)], every
    )
    limit = plan.selection.limit if isinstance(plan.selection, AllGroups) else None
    groups = len(rows) - plan.outside

    def made(some: NDArray[np.int64]) -> NoisyResult:
        return _estimate_shown(plan, parts, values, some, every.take(some))

    sums = {place: float(each.sum()) for place, each in values.items()}
    found = replace(made(rows[:groups][:limit]), sums=sums)
    return replace(found, outside=made(rows[groups:])) if plan.outside else found


def _estimate_shown(
    plan: Plan,
    parts: Sequence[MeasuredShare],
    values: dict[int, NDArray[np.float64]],
    rows: NDArray[np.int64],
    shown_: Rows,
) -> NoisyResult:
    """Return the result with some of the rows."""
    made: dict[int, Combined] = {}
    found: Values = {}
    for part in parts:
        estimates, more = part.estimates(values, rows)
        made |= estimates
        found |= more
    listed = tuple(made.get(place) for place in range(len(plan.counts)))
    return NoisyResult(shown_, listed, found)
