"""One least-squares estimate of all released marginals of a report: numbers, intervals, and what is missing.

Every answer is of one solution, so that totals equal the sums of their groups. Releases that have no cell in
common are solved apart: where all of them name one column, such as the week, those of different weeks.
Nothing is rounded or cut at 0. What does not follow from the released numbers is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates.reports.block_answers import AnswerParts, BlockAnswer, ErrorTerms
from dpsql.estimates.reports.column_atoms import AxisMap, Bools, ColumnAtoms, ColumnClasses, FloatArray, Ints
from dpsql.estimates.reports.marginal_blocks import BlockSystem
from dpsql.estimates.reports.marginals import Axis, Marginal, ReleasedMarginal
from dpsql.estimates.value_sets import ValueSet, unite
from dpsql.lazy_dataclass import dataclass

MOST_ATOMS = 2_000
"""A column of which releases tell apart more sets of values is left out."""
MOST_UNKNOWNS = 20_000
"""Releases that have more unknowns together are left out."""
MOST_TOGETHER = 2_000
"""So many unknowns at most depend on each other without a common form, and are solved as one matrix."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A release that is not in the estimate, and why."""

    release: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class MarginalAnswer:
    """The numbers of a wanted marginal with their intervals, in its shape."""

    values: FloatArray
    low: FloatArray
    high: FloatArray
    stddev: FloatArray
    """float64 in the marginal's shape."""
    releases: tuple[int, ...]
    """The numbers of the releases that it was computed from, in order."""


@dataclass(frozen=True, slots=True)
class Undetermined:
    """What would have to be measured before a wanted marginal follows from releases."""

    missing: Marginal

    @property
    def text(self) -> str:
        """The words for the missing marginal, such as "by channel of 2026-W31"."""
        return self.missing.describe()


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseGroup:
    """Releases that share no cell with others, and their equations."""

    columns: dict[str, ColumnClasses]
    system: BlockSystem
    touched: Ints
    """The atoms that they tell of, of the column by which groups are told apart."""
    left_out: tuple[LeftOut, ...]


class Estimate:
    """The least-squares estimate of some released marginals of one report, measure and set of rows.

    >>> from dpsql.estimates.noise_laws import Law, NoiseDraw
    >>> regions = Axis.of_groups("region", ["north", "south"])
    >>> draws = [NoiseDraw(Law("laplace"), scale) for scale in (1.0, 1.0)]
    >>> released = [
    ...     ReleasedMarginal(1, Marginal((regions,)), np.array([10.0, 20.0]), draws[0]),
    ...     ReleasedMarginal(2, Marginal(), np.array([33.0]), draws[1]),
    ... ]
    >>> estimate = Estimate.of(released, {"region": ValueSet.of_values(["north", "south"])})
    >>> estimate.answer(Marginal((regions,))).values.round(6).tolist(), estimate.answer(Marginal()).releases
    ([11.0, 21.0], (1, 2))
    """

    def __init__(self, releases: tuple[ReleasedMarginal, ...], universe: Mapping[str, ValueSet]) -> None:
        self.releases, self._universe = releases, universe
        self._classes: dict[tuple[object, ...], ColumnClasses] = {}
        """The classes of columns, which groups of releases with equal axes share."""
        kept, left = _leave_out_large(releases)
        self._by, self._atoms, parts = self._divide(kept)
        self.groups = tuple(self._make_group(members, touched) for members, touched in parts)
        """The groups of releases that share no cell."""
        self.left_out = (*left, *(each for group in self.groups for each in group.left_out))

    @classmethod
    def of(
        cls, releases: Sequence[ReleasedMarginal], universe: Mapping[str, ValueSet] | None = None
    ) -> Estimate:
        """Return the estimate of some releases.

        `universe` has, of a complete column, the values that rows may have; others may have every value.

        Raises
        ------
        ValueError
            For releases of more than one report.
        """
        if len({each.report for each in releases}) > 1:
            raise ValueError("one estimate is of the releases of one report")
        return cls(tuple(releases), universe or {})

    def _divide(
        self, releases: Sequence[ReleasedMarginal]
    ) -> tuple[str | None, ColumnAtoms | None, list[tuple[tuple[ReleasedMarginal, ...], Ints]]]:
        """Return the column that tells most groups of releases apart, its atoms, and the groups."""
        best: tuple[str, ColumnAtoms, list[tuple[tuple[ReleasedMarginal, ...], Ints]]] | None = None
        named = [set(each.marginal.columns) for each in releases]
        for column in sorted(set.intersection(*named)) if named else ():
            axes = [axis for each in releases for axis in each.marginal.axes if axis.column == column]
            universe = self._universe.get(column, ValueSet.everything())
            atoms = ColumnAtoms.of((row for axis in dict.fromkeys(axes) for row in axis.rows), universe)
            groups = _join_groups(releases, axes, atoms)
            if best is None or len(groups) > len(best[2]):
                best = column, atoms, groups
        if best is None or len(best[2]) == 1:
            return None, None, [(tuple(releases), np.zeros(1, dtype=np.intp))] if releases else []
        return best

    def _make_group(self, releases: tuple[ReleasedMarginal, ...], touched: Ints) -> ReleaseGroup:
        members = list(releases)
        left: list[LeftOut] = []
        while True:
            columns = self._find_columns(members)
            system = BlockSystem(members, columns)
            reason = _is_too_large(columns, system)
            if reason is None:
                return ReleaseGroup(columns, system, touched, tuple(left))
            largest = max(members, key=lambda each: each.marginal.size)
            left.append(LeftOut(largest.release, reason))
            members.remove(largest)

    def _find_columns(self, releases: Sequence[ReleasedMarginal]) -> dict[str, ColumnClasses]:
        axes: dict[str, list[Axis]] = {}
        for each in releases:
            for axis in each.marginal.axes:
                axes.setdefault(axis.column, []).append(axis)
        found = {}
        for column, listed in axes.items():
            within = unite(row for axis in listed for row in axis.rows) if column == self._by else None
            found[column] = self._find_classes(tuple(dict.fromkeys(listed)), within)
        return found

    def _find_classes(self, axes: tuple[Axis, ...], within: ValueSet | None) -> ColumnClasses:
        """Return the classes of the values of a column, or of some of them, that distinct axes tell apart."""
        if (axes, within) not in self._classes:
            universe = self._universe.get(axes[0].column, ValueSet.everything())
            self._classes[axes, within] = ColumnClasses.of(
                axes, universe if within is None else universe & within
            )
        return self._classes[axes, within]

    def answer(self, wanted: Marginal, level: float = 0.95) -> MarginalAnswer | Undetermined:
        """Return the numbers of a marginal with intervals at a level, or what is missing."""
        found = self._compute(wanted)
        if isinstance(found, Undetermined):
            return found
        values, variances, terms, releases = found
        half = _find_half_widths(terms, values.size, level).reshape(wanted.shape)
        return MarginalAnswer(values, values - half, values + half, np.sqrt(variances), releases)

    def variances(self, wanted: Marginal) -> FloatArray | Undetermined:
        """Return the variances of the numbers of a marginal, which do not depend on released values."""
        found = self._compute(wanted, with_errors=False)
        return found if isinstance(found, Undetermined) else found[1]

    def weigh(self, wanted: Marginal) -> Iterator[tuple[ReleasedMarginal, FloatArray]]:
        """Yield for each release the weights of its numbers in the estimate of a marginal.

        They are float64[numbers, numbers of the release].
        """
        numbers = np.arange(wanted.size).reshape(wanted.shape)
        held, _ = self._find_rows(wanted)
        for group in self.groups:
            rows = np.flatnonzero(held[:, group.touched].any(axis=1))
            if not len(rows):
                continue
            part, index = self._take_rows(wanted, rows)
            parts, _ = self._answer_group(group, part)
            order = np.arange(math.prod(each.rows for each in parts.maps))
            place = self._arrange(group, part, order.reshape([each.rows for each in parts.maps]))
            for each, weights in parts.all_weights():
                found = np.zeros((wanted.size, each.released.marginal.size))
                found[numbers[index].ravel()] = weights[place.ravel()]
                yield each.released, found

    def _compute(
        self, wanted: Marginal, *, with_errors: bool = True
    ) -> Undetermined | tuple[FloatArray, FloatArray, list[tuple[Ints, Ints, AnswerParts]], tuple[int, ...]]:
        """Return numbers, variances, the rows and kinds of errors in each group, and releases."""
        if not self.groups:
            return Undetermined(wanted)
        values, variances = np.zeros(wanted.shape), np.zeros(wanted.shape)
        numbers = np.arange(wanted.size).reshape(wanted.shape)
        terms: list[tuple[Ints, Ints, AnswerParts]] = []
        used: set[int] = set()
        held, left = self._find_rows(wanted)
        determined = np.broadcast_to(~left.reshape(_along(wanted, self._by)), wanted.shape).copy()
        for group in self.groups:
            rows = np.flatnonzero(held[:, group.touched].any(axis=1))
            if not len(rows):
                continue
            part, index = self._take_rows(wanted, rows)
            parts, one = self._answer_group(group, part)
            values[index] += one.values
            variances[index] += one.variances
            determined[index] &= one.determined
            used.update(each.released.release for each in group.system.measured)
            if with_errors:
                kinds = self._arrange(group, part, parts.error_kind())
                terms.append((numbers[index].ravel(), kinds.ravel(), parts))
        if not determined.all():
            return Undetermined(self._find_missing(wanted, determined))
        return values, variances, terms, tuple(sorted(used))

    def _take_rows(self, wanted: Marginal, rows: Ints) -> tuple[Marginal, Any]:
        """Return a marginal with some rows of the column that tells groups apart, and where they are."""
        if self._by not in wanted.columns:
            return wanted, ()
        axes = [axis.take(rows.tolist()) if axis.column == self._by else axis for axis in wanted.axes]
        return Marginal(tuple(axes)), (*[slice(None)] * wanted.columns.index(self._by), rows)

    def _find_rows(self, wanted: Marginal) -> tuple[Bools, Bools]:
        """Return the atoms of each row of the column that tells groups apart, and the rows beyond them."""
        if self._by is None or self._atoms is None:
            return np.ones((1, 1), dtype=np.bool_), np.zeros(1, dtype=np.bool_)
        axis = wanted.axis(self._by)
        rows = (ValueSet.everything(),) if axis is None else axis.rows
        held, cut = self._atoms.locate(rows)
        touched = np.zeros(self._atoms.size, dtype=np.bool_)
        for group in self.groups:
            touched[group.touched] = True
        return held, cut | held[:, ~touched].any(axis=1)

    def _answer_group(self, group: ReleaseGroup, wanted: Marginal) -> tuple[AnswerParts, BlockAnswer]:
        """Return what one group of releases says of a marginal, in its shape."""
        maps: list[AxisMap] = []
        unknown = np.zeros(wanted.shape, dtype=np.bool_)
        for column, classes in group.columns.items():
            axis = wanted.axis(column)
            if axis is None:
                maps.append(classes.map_sum())
                continue
            found, cut = classes.map_axis(axis)
            maps.append(found)
            unknown |= cut.reshape(_along(wanted, column))
        for axis in wanted.axes:
            if axis.column not in group.columns:
                all_values = self._universe.get(axis.column, ValueSet.everything())
                whole = np.array([all_values <= row for row in axis.rows])
                unknown |= ~whole.reshape(_along(wanted, axis.column))
        parts = AnswerParts(group.system, maps)
        found_answer = parts.answer()
        values, variances, determined = (
            self._arrange(group, wanted, each)
            for each in (found_answer.values, found_answer.variances, found_answer.determined)
        )
        return parts, BlockAnswer(values, variances, determined & ~unknown)

    @staticmethod
    def _arrange(group: ReleaseGroup, wanted: Marginal, tensor: NDArray[Any]) -> NDArray[Any]:
        """Return a tensor over the columns of a group in the shape of a marginal."""
        names = list(group.columns)
        kept = [i for i, name in enumerate(names) if name in wanted.columns]
        tensor = tensor.reshape([tensor.shape[i] for i in kept])
        there = [names[i] for i in kept]
        order = [there.index(name) for name in wanted.columns if name in there]
        tensor = tensor.transpose(order)
        shape = [len(axis.rows) if axis.column in there else 1 for axis in wanted.axes]
        return np.broadcast_to(tensor.reshape(shape), wanted.shape)

    def _find_missing(self, wanted: Marginal, determined: Bools) -> Marginal:
        """Return the least product of rows that holds all numbers which are not determined."""
        axes = []
        for place, axis in enumerate(wanted.axes):
            others = tuple(i for i in range(len(wanted.axes)) if i != place)
            rows = np.flatnonzero(~determined.all(axis=others))
            axes.append(axis.take(rows.tolist()))
        return Marginal(tuple(axes))


def _along(wanted: Marginal, column: str | None) -> list[int]:
    """Return the shape in which numbers of an axis are those of a marginal."""
    return [-1 if axis.column == column else 1 for axis in wanted.axes]


def _find_half_widths(
    terms: Sequence[tuple[Ints, Ints, AnswerParts]], numbers: int, level: float
) -> FloatArray:
    """Return the half-width of each number from its noises in each group of releases."""
    if not terms:
        return np.zeros(numbers)
    kinds = np.full((numbers, len(terms)), -1, dtype=np.intp)
    for place, (rows, kind, _) in enumerate(terms):
        kinds[rows, place] = kind
    distinct, number = np.unique(kinds, axis=0, return_inverse=True)
    joined: list[ErrorTerms] = []
    for place, (_, _, parts) in enumerate(terms):
        wanted, index = np.unique(distinct[:, place], return_inverse=True)
        there = wanted >= 0
        found = parts.errors(wanted[there])
        if there.all():
            joined.append(found.take(index))
        else:
            joined.append(found.take(np.maximum(index - 1, 0)).only(index > 0))
    return ErrorTerms.add(joined).half_widths(level)[number.ravel()]


def _leave_out_large(
    releases: tuple[ReleasedMarginal, ...],
) -> tuple[tuple[ReleasedMarginal, ...], tuple[LeftOut, ...]]:
    kept, left = [], []
    for each in releases:
        large = [axis.column for axis in each.marginal.axes if len(axis.rows) > MOST_ATOMS]
        if large:
            reason = f"{large[0]} has more than {MOST_ATOMS:,} groups"
            left.append(LeftOut(each.release, reason))
        else:
            kept.append(each)
    return tuple(kept), tuple(left)


def _is_too_large(columns: Mapping[str, ColumnClasses], system: BlockSystem) -> str | None:
    """Return why the releases of a system are too many or too fine to be solved together, if they are."""
    for name, classes in columns.items():
        if classes.atoms.size > MOST_ATOMS + 1:
            return f"more than {MOST_ATOMS:,} sets of values of {name} are told apart"
    if system.unknowns() > MOST_UNKNOWNS:
        return f"more than {MOST_UNKNOWNS:,} unknowns"
    if system.largest_system() > MOST_TOGETHER:
        return f"more than {MOST_TOGETHER:,} unknowns that conditions tie to each other"
    return None


def _join_groups(
    releases: Sequence[ReleasedMarginal], axes: Sequence[Axis], atoms: ColumnAtoms
) -> list[tuple[tuple[ReleasedMarginal, ...], Ints]]:
    """Return the groups of releases that share no atom of a column and no draw of noise, with their atoms."""
    found: dict[Axis, Ints] = {}
    owner = np.full(atoms.size, -1, dtype=np.intp)
    parent = list(range(len(releases)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    draws: dict[int, int] = {}
    for place, (each, axis) in enumerate(zip(releases, axes, strict=True)):
        if axis not in found:
            found[axis] = np.flatnonzero(atoms.locate(axis.rows)[0].any(axis=0))
        mine = found[axis]
        others = {int(other) for other in owner[mine] if other >= 0}
        if each.draw.law.kind != "laplace":
            others.add(draws.setdefault(id(each.draw.law), place))
        for other in others:
            parent[root(other)] = root(place)
        owner[mine] = place
    members: dict[int, list[int]] = {}
    for place in range(len(releases)):
        members.setdefault(root(place), []).append(place)
    return [
        (tuple(releases[i] for i in listed), np.unique(np.concatenate([found[axes[i]] for i in listed])))
        for listed in members.values()
    ]
