"""What a statement shows of its releases: their numbers, or sums of them that SQL over them adds up.

Running totals are sums of the groups so far. A plan that makes the errors of these sums least measures blocks
of groups, too. Which groups a shown number adds up is found as its interval is: the query over the releases
runs over rows that are known without any private row, with numbers that are all alike. It decides the weights
of measurements alone, so that what is not understood is taken as if all numbers were shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from dpsql.composition.derived import numbers_of
from dpsql.composition.derived_columns import MOST
from dpsql.composition.hidden_columns import Hidden
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate, PreparedPublic
from dpsql.composition.released_terms import LinearTerm, NoIntervalError
from dpsql.errors import OperationalError
from dpsql.estimates import Combined
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.value_sets import unite
from dpsql.planning import NoisyResult, build_rows
from dpsql.reports.axes import LinearRelease, Numbers

_ALIKE = 1000.0
"""What all numbers are when the groups of sums are found: far from 0, so that groups exist."""
_MOST_ROWS = 1_500
"""Of more groups together it is not found what is added up."""

Shown = tuple[Marginal, ...] | None
"""The sets of numbers of a release that a statement shows; None: the release's own."""
_Boxes = dict[tuple[int, int], set[tuple[tuple[int, ...], ...]]]
"""For each number of each release, the sums that are shown: of each axis, the places of its sets."""


def find_shown(
    prepared: PreparedPrivate | PreparedComposed | PreparedPublic, linear: Sequence[LinearRelease | str]
) -> tuple[Shown, ...]:
    """Return for each release of a statement what the statement shows of it."""
    own: tuple[Shown, ...] = (None,) * len(linear)
    estimated = [each for each in linear if isinstance(each, LinearRelease)]
    if not isinstance(prepared, PreparedComposed) or prepared.chosen or len(estimated) < len(linear):
        return own
    if any(each.formulas for each in estimated) or sum(each.size for each in estimated) > _MOST_ROWS:
        return own
    terms = [each.term for each in prepared.derived]
    others = {*range(len(prepared.columns))} - {
        *prepared.keys,
        *(each.place for each in numbers_of(prepared)),
    }
    if not terms or others or not all(isinstance(each, LinearTerm) for each in terms):
        return own
    boxes = _find_boxes(prepared, estimated, terms)
    if boxes is None:
        return own
    bars = {(bar.release, bar.number) for bar in prepared.bars}
    return tuple(
        _list_shown(each, [number for at, number in bars if at == place], boxes, place)
        for place, each in enumerate(estimated)
    )


def _find_boxes(
    prepared: PreparedComposed, linear: Sequence[LinearRelease], terms: Sequence[LinearTerm]
) -> _Boxes | None:
    """Return what each shown sum adds up; None if a number is no sum of a product of sets of groups."""
    alike = [_fill(each) for each in linear]
    types = {relation.name: relation.columns for relation in prepared.relations}
    rows = {relation.name: alike[relation.release] for relation in prepared.relations}
    try:
        found = prepared.engines.schema_database.over(types, rows, prepared.traced)
    except OperationalError:
        return None
    hidden, boxes = Hidden(found), _Boxes()
    for term in terms:
        if hidden.numbers(term) > MOST:
            return None
        for row in range(found.num_rows):
            try:
                weights = hidden.form(term, row, 0.0).weights
            except (NoIntervalError, LookupError):
                return None
            names = np.array([*weights], dtype=np.int64)
            places, columns = np.divmod(names, len(prepared.numbers))
            if len({*columns.tolist()}) != 1 or len({*weights.values()}) != 1:
                return None
            release, number = prepared.numbers[int(columns[0])]
            box = _box_of(_number(linear[release], number), places)
            if box is None:
                return None
            boxes.setdefault((release, number), set()).add(box)
    return boxes


def _fill(linear: LinearRelease) -> pa.Table:
    """Return the rows of a release with numbers that are all alike."""
    same = np.full(linear.size, _ALIKE)
    each = Combined(same, same, same, same)
    counts = (each,) * len(linear.plan.counts)
    answer = NoisyResult(linear.rows, counts, {})  # type: ignore[arg-type]  # rows that no step has made
    return build_rows(linear.plan, answer, linear.rows)


def _number(linear: LinearRelease, number: int) -> Numbers:
    """Return what a number of a release is, by its place among those that the release shows."""
    shown = [output for output in linear.plan.outputs if output.kind == "count"]
    return linear.numbers[shown[number].of]


def _box_of(number: Numbers, rows: np.ndarray) -> tuple[tuple[int, ...], ...] | None:
    """Return of each axis the places of the sets that rows have, if the rows are all of their product."""
    places = number.places[rows]
    places = places[places >= 0]
    shape = number.wanted.shape
    if not len(places) or not shape:
        return () if len(places) == 1 else None
    sets = tuple(tuple(np.unique(each).tolist()) for each in np.unravel_index(places, shape))
    return sets if np.prod([len(each) for each in sets], dtype=np.int64) == len(places) else None


def _list_shown(linear: LinearRelease, own: Sequence[int], boxes: _Boxes, release: int) -> Shown:
    """Return the sets of numbers that a statement shows of a release: some as they are, and sums."""
    found = [_number(linear, number).wanted for number in own]
    for (at, number), sums in boxes.items():
        if at == release:
            found += _write_sums(_number(linear, number).wanted, sums)
    return tuple(dict.fromkeys(found)) or None


def _write_sums(wanted: Marginal, sums: set[tuple[tuple[int, ...], ...]]) -> Iterator[Marginal]:
    """Yield marginals that have sums of numbers of another one: one, if all sums are a product of sets."""
    each_axis = [sorted({box[i] for box in sums}) for i in range(len(wanted.axes))]
    if np.prod([len(sets) for sets in each_axis], dtype=np.int64) == len(sums):
        yield Marginal(tuple(map(_unite_sets, wanted.axes, each_axis)))
        return
    for box in sorted(sums):
        yield Marginal(tuple(_unite_sets(axis, [sets]) for axis, sets in zip(wanted.axes, box, strict=True)))


def _unite_sets(axis: Axis, sets: Sequence[tuple[int, ...]]) -> Axis:
    """Return the axis whose sets are unions of sets of another one."""
    if [*sets] == [(i,) for i in range(len(axis.rows))]:
        return axis
    names = (
        axis.labels[each[0]] if len(each) == 1 else f"{axis.labels[each[0]]} to {axis.labels[each[-1]]}"
        for each in sets
    )
    return Axis(axis.column, tuple(unite(axis.rows[i] for i in each) for each in sets), tuple(names))
