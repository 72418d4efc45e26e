"""Counts of whole domains: one noise for all of them, or Laplace noise and a bound on each unit's groups.

The counting query depends on that choice: it counts a unit in all of its groups, or in some of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field
from fractions import Fraction

from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.estimates import split_measuring
from dpsql.estimates.box import box_variance, cube_variance, own_variance
from dpsql.kernel.mechanisms.box import pads
from dpsql.language import AboveThreshold, AllGroups, Options, Selection
from dpsql.lazy_dataclass import dataclass

_SEEN = 0.25
"""The least standard deviation of noise that matters, in counts."""


@dataclass(frozen=True, slots=True)
class CommonNoise:
    """The counts that one noise measures, and the differences of two of them, which are free."""

    measured: tuple[int, ...]
    """Places among the counts of the plan."""
    monotone: bool
    """Whether a unit moves all measured counts in one direction: box noise, else cube noise."""
    stddevs: tuple[float, ...]
    """Of each count that is asked for, at epsilon 1."""
    differences: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The place of a difference -> the places of the measured counts that it is of."""


def common_noise(counts: Sequence[ReleasedAggregate], wanted: Iterable[int], groups: int) -> CommonNoise:
    """Return how one noise gives these counts of so many groups: of two ways, the one with less noise.

    Cube noise measures differences of counts as they are. If their operands are counts of the plan, too, box
    noise measures those, and the difference of two noisy counts is free. An operand that the plan does not
    have is not counted.
    """
    places = tuple(wanted)
    size = len(places) * groups
    bounds = [counts[p].bound for p in places]
    if all(counts[p].monotone for p in places):
        return CommonNoise(places, True, _stddevs(bounds, box_variance(size, pads(size))))
    cube = CommonNoise(places, False, _stddevs(bounds, cube_variance(size)))
    operands = {p: _operands(counts, p) for p in places if not counts[p].monotone}
    if not all(operands.values()):
        return cube
    differences = {p: (pair[0], pair[1]) for p, pair in operands.items()}
    of = {counts[p]: p for p in places if p not in differences}
    for pair in differences.values():
        for p in pair:
            of.setdefault(counts[p], p)
    differences = {p: (of[counts[a]], of[counts[b]]) for p, (a, b) in differences.items()}
    size = len(of) * groups
    own, apart = box_variance(size, pads(size)), 2 * own_variance(size + pads(size))
    free = [counts[p].bound * math.sqrt(apart if p in differences else own) for p in places]
    box = CommonNoise(tuple(of.values()), True, tuple(free), differences)
    return min(box, cube, key=lambda way: max(way.stddevs))


def _stddevs(bounds: Iterable[int], variance: float) -> tuple[float, ...]:
    return tuple(c * math.sqrt(variance) for c in bounds)


def _operands(counts: Sequence[ReleasedAggregate], place: int) -> tuple[int, ...]:
    """Return the places of both counts of a difference; none unless the plan has both, with one bound."""
    found = [
        i
        for part in counts[place].parts
        for i in [next((i for i, c in enumerate(counts) if c.parts == (part,)), None)]
        if i is not None
    ]
    same = len({counts[i].bound for i in found}) == 1
    return tuple(found) if len(found) == len(counts[place].parts) == 2 and same else ()


def shows_all(selection: Selection) -> bool:
    """Return whether a selection shows all groups, or all that reach a threshold."""
    above = isinstance(selection, AboveThreshold) and selection.limit is None
    return above or isinstance(selection, AllGroups)


def groups_kept(
    selection: Selection,
    options: Options,
    counts: Sequence[ReleasedAggregate],
    groups: int | None,
    most: int | None,
) -> int | None:
    """Return in how many groups a unit is counted so that Laplace noise suffices; None: in all of its groups.

    `most` is the bound on them that the statement or the policy gives. AUTO takes it where that gives less
    noise, by public figures alone.
    """
    if not shows_all(selection) or groups is None or not counts or most is None or most >= groups:
        return None
    if all(count.total is not None for count in counts):
        return None
    if options.base_hits is not None or options.threshold_share is not None:
        return None
    asked = options.mechanism or "AUTO"
    if asked != "AUTO" or options.intervals == "SIMULTANEOUS":
        return most if asked == "LAPLACE" else None
    distinct = {count: place for place, count in enumerate(counts)}
    totals = [min(t for t in (most * c.bound, c.total) if t is not None) for c in distinct]
    return most if laplace_is_less(counts, list(distinct.values()), totals, groups) else None


def noise_matters(counts: Sequence[ReleasedAggregate], options: Options, groups: int | None) -> bool:
    """Return whether Laplace noise for units in so many groups is seen in a count; a bound on them cuts rows.

    Below a quarter of a count a smaller bound on the groups would make answers worse, never better. Half of
    epsilon may go elsewhere.
    """
    if groups is None or options.epsilon is None or options.mechanism not in (None, "AUTO"):
        return True
    totals = [groups * c.bound if c.total is None else min(groups * c.bound, c.total) for c in counts]
    # The noise of a sum is compared with what one unit may add to it.
    parts = [Fraction(t, c.bound if c.share is not None else 1) for t, c in zip(totals, counts, strict=True)]
    return math.sqrt(2) * float(sum(parts)) > float(options.epsilon) / 2 * _SEEN


def laplace_is_less(
    counts: Sequence[ReleasedAggregate], places: Sequence[int], totals: Sequence[int], groups: int
) -> bool:
    """Return whether Laplace noise on each count has no more noise than one noise for all of them.

    `totals` are the most by which one unit changes each count in all groups together. Compared are the
    geometric means of the standard deviations of a group's counts.
    """
    shares = split_measuring(Fraction(1), totals)
    laplace = [math.sqrt(2) * total / share for total, share in zip(totals, shares, strict=True)]
    one = common_noise(counts, places, groups)
    return _mean(laplace) <= _mean(one.stddevs) * (1 + 1e-9)


def _mean(stddevs: Iterable[float]) -> float:
    logs = [math.log(float(each)) for each in stddevs]
    return math.exp(sum(logs) / len(logs))
