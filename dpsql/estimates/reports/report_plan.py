"""Plan what a report measures: shares of its budget for marginals, from which all statements are estimated.

A plan is a function of the statements and the policy alone. A report that runs once for each part of the
data, such as a week, measures marginals within the part, and blocks of parts when they are over. A statement
over many parts sums blocks that are over and parts that are not in one. The total of a block of k parts has k
times the variance of a part, so that a number that is measured within parts tells 1/k as much of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from dpsql.estimates.reports.column_atoms import AxisMap, ColumnClasses, FloatArray
from dpsql.estimates.reports.marginal_blocks import kron, list_subsets
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.reports.plan_candidates import Candidate, Wanted, count_pieces, list_candidates
from dpsql.estimates.reports.plan_weights import MeanVariance, PlanBlock, Way, find_precision, find_shares
from dpsql.estimates.value_sets import ValueSet
from dpsql.lazy_dataclass import dataclass

Per = Literal["STATEMENT", "NUMBER"]
_FEW_CANDIDATES = 8
_ADDED = 0.0001
"""How much numbers count that a statement only adds up, beside those that it shows."""
_STEPS = 10_000
"""Shares are multiples of one part in so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a report measures of each part, and how well its statements are answered."""

    shares: tuple[tuple[Candidate, Fraction], ...]
    """The marginals that are measured, with their shares of the report's budget. They add up to 1."""
    deviations: tuple[float, ...]
    """For each statement, the root of the mean variance of its numbers, at a budget and a bound of 1."""
    even: tuple[float, ...]
    """The same where each statement is measured by itself with an equal share."""
    shown: tuple[bool, ...]
    """For each statement, whether it shows its numbers, or only sums of them."""

    @property
    def mean_variance(self) -> float:
        """The mean over statements of the mean variance of the numbers that they show."""
        return _mean_square(each for each, shown in zip(self.deviations, self.shown, strict=True) if shown)

    @property
    def mean_even(self) -> float:
        """The same where each statement is measured by itself."""
        return _mean_square(each for each, shown in zip(self.even, self.shown, strict=True) if shown)

    @property
    def added_variance(self) -> float | None:
        """The mean variance of numbers that statements only add up; None: there are none."""
        added = [each for each, shown in zip(self.deviations, self.shown, strict=True) if not shown]
        return _mean_square(added) if added else None


def _mean_square(deviations: Iterable[float]) -> float:
    found = list(deviations)
    return sum(each * each for each in found) / len(found)


def plan_report(
    statements: Sequence[Wanted],
    candidates: Sequence[Candidate] | None = None,
    universe: Mapping[str, ValueSet] | None = None,
    *,
    way: Way = "pure",
    per: Per = "STATEMENT",
    horizon: int = 52,
) -> Plan:
    """Return the plan that makes the mean over statements of the mean variance of their numbers least.

    Parameters
    ----------
    statements
        What the report answers.
    candidates
        What may be measured; None: what `list_candidates` finds.
    universe
        Of a complete column, the values that rows may have; others may have every value.
    way
        Whether shares are of epsilon, with Laplace noise, or of rho, with Gaussian noise.
    per
        "NUMBER" makes the mean variance of all numbers least, so that statements with many weigh more.
    horizon
        Over how many parts a statement over all parts since the beginning is planned.

    Raises
    ------
    ValueError
        Where the candidates do not determine every statement, or no unit is in one number at most of each.

    Examples
    --------
    >>> from dpsql.estimates.reports.marginals import Axis
    >>> month = Marginal((Axis.of_groups("month", range(12)),))
    >>> complete = {"month": ValueSet.of_range(0, 12)}
    >>> plan = plan_report([Wanted(month), Wanted(Marginal(), window=None)], universe=complete)
    >>> [(candidate.marginal.columns, float(share)) for candidate, share in plan.shares]
    [(('month',), 0.2486), ((), 0.7514)]
    """
    if not statements:
        raise ValueError("a report has at least one statement")
    measured = tuple(list_candidates(statements, (), universe) if candidates is None else candidates)
    _check(measured)
    lengths = sorted({1, *(each.parts for each in measured)})
    columns = _find_columns(measured, universe or {})
    blocks = _list_blocks(statements, measured, columns, lengths, horizon)
    law = MeanVariance(blocks)
    weights = np.array([float(each.weight) * (1.0 if each.shown else _ADDED) for each in statements])
    if per == "NUMBER":
        weights *= [each.marginal.size for each in statements]
    weights /= weights.sum()
    shares = find_shares(law, weights, way, _list_starts(statements, measured, way))
    exact = _round_shares(shares)
    there = tuple((each, share) for each, share in zip(measured, exact, strict=True) if share)
    precision = find_precision(np.array([float(share) for share in exact]), way)
    shown = tuple(each.shown for each in statements)
    alone = find_precision(np.array([1 / max(sum(shown), 1)]), way)[0]
    even = [
        math.sqrt(sum(_count_blocks(each, [1], horizon)) * count_pieces(each.marginal) / alone)
        for each in statements
    ]
    return Plan(there, tuple(np.sqrt(law.statements(precision)).tolist()), tuple(even), shown)


def _check(candidates: Sequence[Candidate]) -> None:
    for each in candidates:
        if not all(axis.is_apart() for axis in each.marginal.axes):
            raise ValueError("the numbers of a marginal that is measured have no unit in common")
    lengths = sorted({1, *(each.parts for each in candidates)})
    if any(long % short for short, long in pairwise(lengths)):
        raise ValueError("blocks of parts are made of whole shorter ones")


def _count_blocks(statement: Wanted, lengths: Sequence[int], horizon: int) -> list[float]:
    """Return how many blocks of each length a statement sums, in the mean over the horizon.

    A statement over the last parts sums parts: blocks do not begin where its parts do.

    >>> _count_blocks(Wanted(Marginal(), window=None), [1, 4], 8)
    [1.5, 0.75]
    """
    counts = np.zeros(len(lengths))
    for parts in range(1, horizon + 1):
        if statement.window is not None:
            counts[0] += min(parts, statement.window)
            continue
        left = parts
        for place in range(len(lengths) - 1, -1, -1):
            counts[place] += left // lengths[place]
            left %= lengths[place]
    return (counts / horizon).tolist()  # type: ignore[no-any-return]  # floats


def _find_columns(
    candidates: Sequence[Candidate], universe: Mapping[str, ValueSet]
) -> dict[str, ColumnClasses]:
    axes: dict[str, list[Axis]] = {}
    for candidate in candidates:
        for axis in candidate.marginal.axes:
            axes.setdefault(axis.column, []).append(axis)
    return {
        name: ColumnClasses.of(tuple(dict.fromkeys(listed)), universe.get(name, ValueSet.everything()))
        for name, listed in axes.items()
    }


def _list_blocks(
    statements: Sequence[Wanted],
    candidates: Sequence[Candidate],
    columns: Mapping[str, ColumnClasses],
    lengths: Sequence[int],
    horizon: int,
) -> list[PlanBlock]:
    """Return the blocks of all sets of columns on which a statement's numbers deviate, of each length."""
    told = [_map_axes(each.marginal, columns) for each in candidates]
    wanted = [_map_axes(each.marginal, columns) for each in statements]
    counts = [_count_blocks(each, lengths, horizon) for each in statements]
    classes = list(columns.values())
    found = []
    for inside in list_subsets(range(len(classes))):
        others = [i for i in range(len(classes)) if i not in inside]
        tells = np.array([_find_gram(classes, maps, inside, others, told=True) for maps in told])
        wants = np.array([_find_gram(classes, maps, inside, others, told=False) for maps in wanted])
        if not wants.any():
            continue
        for place, length in enumerate(lengths):
            rate = [each.parts / length if each.parts <= length else 0.0 for each in candidates]
            times = [
                count[place] / each.marginal.size for count, each in zip(counts, statements, strict=True)
            ]
            if any(times):
                block = PlanBlock(tells * np.reshape(rate, (-1, 1, 1)), wants * np.reshape(times, (-1, 1, 1)))
                found.append(block)
    return found


def _map_axes(marginal: Marginal, columns: Mapping[str, ColumnClasses]) -> list[AxisMap]:
    """Return the axis of a marginal on each column."""
    unknown = set(marginal.columns) - set(columns)
    if unknown:
        raise ValueError(f"no candidate tells the values of {sorted(unknown)[0]} apart")
    maps = []
    for name, classes in columns.items():
        axis = marginal.axis(name)
        if axis is None:
            maps.append(classes.map_sum())
            continue
        found, cut = classes.map_axis(axis)
        if cut.any():
            raise ValueError(f"no candidate tells apart what a statement asks of {name}")
        maps.append(found)
    return maps


def _find_gram(
    classes: Sequence[ColumnClasses],
    maps: Sequence[AxisMap],
    inside: Sequence[int],
    others: Sequence[int],
    *,
    told: bool,
) -> FloatArray:
    """Return A'A of a marginal on one block: for what is told of each deviation, or what is wanted of all."""
    factor = 1.0
    for place in inside:
        if told:
            factor *= maps[place].order is not None and classes[place].size < classes[place].atoms.size
        else:
            factor *= float(classes[place].inside_norms(maps[place]).sum())
    gram = kron([maps[i].gram() for i in others])
    return gram * factor


def _list_starts(statements: Sequence[Wanted], candidates: Sequence[Candidate], way: Way) -> list[FloatArray]:
    """Return the shares that the search begins with."""
    count = len(candidates)
    own = [each.marginal for each in statements]
    even = np.ones(count)
    asked = np.array([1.0 if each.marginal in own else 0.02 for each in candidates])
    fine = np.array([float(len(each.marginal.axes)) for each in candidates])
    finest = np.where(fine == fine.max(), 1.0, 0.1)
    steep = np.array([math.sqrt(each.marginal.size) for each in candidates])
    starts = [even, asked, finest, steep, 1 / steep]
    if way == "pure":
        chosen = combinations(range(count), 2 if count <= _FEW_CANDIDATES else 1)
        starts.extend(np.where(np.isin(np.arange(count), each), 1.0, 0.1 / count) for each in chosen)
    return starts


def _round_shares(shares: FloatArray) -> list[Fraction]:
    """Return shares as multiples of one part in 10,000 that add up to 1.

    >>> _round_shares(np.array([1 / 3, 0, 2 / 3]))
    [Fraction(3333, 10000), Fraction(0, 1), Fraction(6667, 10000)]
    """
    exact = shares / shares.sum() * _STEPS
    whole = np.floor(exact).astype(int)
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: _STEPS - int(whole.sum())]] += 1
    return [Fraction(int(each), _STEPS) for each in whole]
