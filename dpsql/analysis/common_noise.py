"""Counts of whole domains: one noise for all of them, or Laplace noise and a bound on each unit's groups.

The counting query depends on that choice: it counts a unit in all of its groups, or in some of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpsql.analysis.released import ReleasedAggregate
from dpsql.estimates import split_measuring
from dpsql.estimates.box import box_variance, cube_variance, own_variance, pads
from dpsql.language import AllGroups, Options, Scalar, Selection


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


def groups_per_unit(
    selection: Selection,
    options: Options,
    counts: Sequence[ReleasedAggregate],
    groups: int | None,
    *,
    one_group: bool,
) -> int | None:
    """Return in how many groups a unit is counted so that Laplace noise suffices; None: in all of its groups.

    `one_group` says that a unit is in one group without any bound.
    That is the choice between Laplace noise and one noise for all counts: AUTO takes the smaller one by
    public figures alone, the geometric mean of the standard deviations of a group's counts.
    """
    if not isinstance(selection, (Scalar, AllGroups)) or groups is None or not counts:
        return None
    most = 1 if one_group else options.max_groups_contributed
    asked = options.mechanism or "AUTO"
    if most is None or asked != "AUTO":
        return most if asked == "LAPLACE" else None
    if options.intervals == "SIMULTANEOUS":
        return None
    distinct = {count: place for place, count in enumerate(counts)}
    shares = split_measuring(Fraction(1), [count.bound for count in distinct])
    laplace = [
        min(most, groups) * math.sqrt(2) * count.bound / share
        for count, share in zip(distinct, shares, strict=True)
    ]
    one = common_noise(counts, distinct.values(), groups)
    return most if _mean(laplace) <= _mean(one.stddevs) * (1 + 1e-9) else None


def _mean(stddevs: Iterable[float]) -> float:
    logs = [math.log(float(each)) for each in stddevs]
    return math.exp(sum(logs) / len(logs))
