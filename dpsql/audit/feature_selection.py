"""List the features of two samples, with combinations of numbers and residues that distinguish them.

`label_features` lists labels, `number_features` single numbers, and `row_features` what is computed from
several. The whole output of a mechanism is treated as one row of numbers: `combinations` and
`choose_residues` choose what distinguishes the two samples. The choice depends on the sample in which events
are found. The events are compared, and then tested, on other runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.features import (
    AgreementLabel,
    ColumnLabel,
    Combination,
    Corner,
    LastDigitLabel,
    LowBitsLabel,
    NumberValue,
    PartValue,
    Residue,
    RowLabel,
    SetLabel,
    SidesLabel,
    TimesLabel,
    Which,
)
from dpsql.audit.runs import Outputs
from dpsql.lazy_dataclass import dataclass

_COMBINED_LOOK = 1 << 12
"""Runs of each sample used to choose the combinations."""

_LEAST_RUNS = 64
"""Complete rows needed of each sample."""

_MOST = 12
"""Most numbers combined: those whose means differ most clearly."""

_PAIRS = 2
"""Pairs chosen by their means and variances; as many again are chosen by their equal sums."""

_GAIN, _CLEAR = 1.1, 4.0
"""A pair's sum must differ by this factor more than its terms, and by this many standard deviations."""

_CANCELLED = 1e-10
"""Share of its terms' variance below which a sum counts as free of noise."""

_SAME = 1e-6
"""Difference of means, in standard deviations of the terms, below which sums without noise are equal."""

_EQUAL_LOOK, _EQUAL = 128, 0.08
"""Runs in which equal sums are counted, and by how much more frequent they must be than equal terms."""

_ENDLESS = 1e9
"""Stands for infinitely many standard deviations, by which sums without noise differ."""

_FAINT = 0.05
"""Weight, relative to the greatest, below which the discriminant leaves a term out."""

_DIFFERS, _FEW = 2.0, 4
"""Standard deviations by which the means of a corner's numbers must differ; half for at most `_FEW`."""

_COEFFICIENTS = np.array(
    [
        *((1, 1), (1, -1), (1, 2), (1, -2), (2, 1), (2, -1), (1, 3), (1, -3), (3, 1), (3, -1)),
        *((2, 3), (2, -3), (3, 2), (3, -2)),
    ],
    dtype=np.float64,
)
"""Coefficients tried on each pair of numbers, the simplest first."""

_RESIDUE_LOOK = 256
"""Runs of each sample used to decide whether residues differ."""

_MODULI = np.array([2.0, 3.0, 10.0, *(2.0**-bits for bits in range(0, 45, 5))])
"""Moduli tried: small integers in units of a count, and grids far finer than the noise."""

_BUCKETS = 32
_LARGEST = 2.0**53
"""Doubles above this have no fractional digits."""

_UNLIKE = 70.0
"""Chi-square of bucketed residues that two samples of one law exceed with probability 1e-4 a modulus."""


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """Complete rows of both samples, with their means, covariances and pooled standard deviations."""

    columns: list[NumberValue]
    sides: tuple[NDArray[np.float64], NDArray[np.float64]]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    spread: NDArray[np.float64]

    @property
    def shift(self) -> NDArray[np.float64]:
        """Return the difference of the means."""
        return np.asarray(self.means[1] - self.means[0])

    @property
    def certainty(self) -> NDArray[np.float64]:
        """Return the difference of the samples' means, divided by its standard deviation."""
        share = float(np.sqrt(sum(1 / len(side) for side in self.sides)))
        return self.shift / (self.spread * share)


def combinations(
    columns: Sequence[NumberValue], first: Outputs, second: Outputs
) -> list[Combination | Corner]:
    """Choose the sum of all numbers, the linear discriminant, pairs with small coefficients, and corners.

    Parameters
    ----------
    columns
        The numbers of an output, of all parts.
    first, second
        The samples.
    """
    rows = _complete_rows(columns, first, second)
    if rows is None:
        return []
    several = len({value.part for value in rows.columns}) > 1
    # With a single part the sum is equivalent to its average, which is a feature already.
    weighted = [np.ones(len(rows.columns))] if several else []
    weighted += [_discriminant_weights(rows), *_pair_weights(rows)]
    sums = [_make_combination(rows, weights) for weights in weighted if np.count_nonzero(weights) > 1]
    return list(dict.fromkeys([*sums, *_make_corners(rows, several=several)]))


def _complete_rows(columns: Sequence[NumberValue], first: Outputs, second: Outputs) -> _Rows | None:
    """Return the numbers that are present in most runs and vary; None if fewer than two are left."""
    if len(columns) < 2:
        return None
    matrices = []
    for outputs in (first, second):
        part = outputs.head(_COMBINED_LOOK)
        matrices.append(np.stack([value.of(part) for value in columns], axis=1))
    there = [np.isfinite(matrix) for matrix in matrices]
    use = np.ones(len(columns), dtype=np.bool_)
    for side, matrix in zip(there, matrices, strict=True):
        some = matrix[np.argmax(side, axis=0), np.arange(len(columns))]
        use &= (side.mean(axis=0) >= 0.5) & ((matrix != some).mean(axis=0) > 1 / 64)
    while np.count_nonzero(use) > 1:
        chosen = np.flatnonzero(use)
        whole = [side[:, chosen].all(axis=1) for side in there]
        if min(np.count_nonzero(side) for side in whole) < _LEAST_RUNS:
            return None
        sides = [matrix[:, chosen][side] for side, matrix in zip(whole, matrices, strict=True)]
        rows = _make_rows([columns[j] for j in chosen.tolist()], sides[0], sides[1])
        if not (np.isfinite(rows.covariances).all() and rows.spread.min() > 0):
            return None
        if len(chosen) <= _MOST:
            return rows
        use[chosen[np.argsort(-np.abs(rows.certainty), kind="stable")[_MOST:]]] = False
    return None


def _make_rows(columns: list[NumberValue], first: NDArray[np.float64], second: NDArray[np.float64]) -> _Rows:
    means, covariances = [], []
    for side in (first, second):
        with np.errstate(invalid="ignore", over="ignore"):
            mean = side.mean(axis=0)
            centred = side - mean
            means.append(mean)
            covariances.append(centred.T @ centred / len(side))
    both = np.stack(covariances)
    spread = np.sqrt(np.einsum("sii->i", both) / 2)
    return _Rows(columns, (first, second), np.stack(means), both, spread)


def _make_combination(rows: _Rows, weights: NDArray[np.float64]) -> Combination:
    """Return the combination with these weights, rounded far below the spread of its terms."""
    named = zip(weights.tolist(), rows.columns, strict=True)
    widest = float(np.max(np.abs(weights) * rows.spread))
    quantum = float(2.0 ** (np.floor(np.log2(widest)) - 30))
    return Combination(tuple((weight, value) for weight, value in named if weight), quantum)


def _discriminant_weights(rows: _Rows) -> NDArray[np.float64]:
    """Return the weights of Fisher's linear discriminant, in which a sum without noise dominates."""
    correlation = rows.covariances.mean(axis=0) / np.outer(rows.spread, rows.spread)
    values, vectors = np.linalg.eigh(correlation)
    standard = vectors @ ((vectors.T @ (rows.shift / rows.spread)) / np.maximum(values, _CANCELLED))
    standard[np.abs(standard) < _FAINT * np.abs(standard).max()] = 0.0
    weights = standard / rows.spread
    top = float(np.abs(weights).max())
    return np.array([float(f"{weight / top:.3g}") for weight in weights]) if top else weights


@lru_cache(maxsize=32)
def _weight_grid(width: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Return all pairs of columns, and the matrix of their weighted sums with all coefficients."""
    pairs = np.array(list(itertools.combinations(range(width), 2)))
    i, j = (np.tile(pairs[:, side], len(_COEFFICIENTS)) for side in (0, 1))
    a, b = (np.repeat(_COEFFICIENTS[:, side], len(pairs)) for side in (0, 1))
    weights = np.zeros((width, len(i)))
    weights[i, np.arange(len(i))], weights[j, np.arange(len(i))] = a, b
    return i, j, weights


def _pair_weights(rows: _Rows) -> list[NDArray[np.float64]]:
    """Return the weights of pairs that distinguish better than their terms, or have frequent equal sums."""
    i, j, weights = _weight_grid(len(rows.columns))
    shift = np.abs(rows.shift @ weights)
    variances = np.stack([np.einsum("ik,ik->k", weights, side @ weights) for side in rows.covariances])
    terms = np.square(rows.spread) @ np.square(weights)
    none = variances < _CANCELLED * terms
    size = min(len(side) for side in rows.sides)
    clear = _measure_clarity(shift, np.where(none, 0.0, variances), size)
    alone = _measure_clarity(np.abs(rows.shift), np.einsum("sii->si", rows.covariances), size)
    telling = (clear > _CLEAR) & (clear > _GAIN * np.maximum(alone[i], alone[j]))
    telling &= ~none.all(axis=0) | (shift > _SAME * np.sqrt(terms))
    found = np.flatnonzero(telling)
    chosen = found[np.argsort(-clear[found], kind="stable")[:_PAIRS]].tolist()
    chosen += [place for place in _find_equal_sums(rows, i, j, weights) if place not in chosen]
    return [weights[:, place] for place in chosen]


def _measure_clarity(
    shift: NDArray[np.float64], variances: NDArray[np.float64], size: int
) -> NDArray[np.float64]:
    """Return the differences of means and variances in standard deviations, assuming Laplace-like tails."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = shift / np.sqrt(variances.mean(axis=0)) * np.sqrt(size / 2)
        variance = np.abs(np.log(variances[0] / variances[1])) * np.sqrt(size / 10)
    both = (np.nan_to_num(one, posinf=_ENDLESS) for one in (mean, variance))
    return np.asarray(np.hypot(*both))


def _find_equal_sums(
    rows: _Rows, i: NDArray[np.intp], j: NDArray[np.intp], weights: NDArray[np.float64]
) -> list[int]:
    """Return the indices of pairs whose sums are equal more often than their terms are."""
    # All sums for up to five numbers; for more numbers only the simplest sums.
    size = min(weights.shape[1], max(140, 2 * weights.shape[1] // len(_COEFFICIENTS)))
    more = np.zeros(size)
    for side in rows.sides:
        sample = (side[:_EQUAL_LOOK] - side[0]) / rows.spread.max()
        sums = np.sort(np.round(sample @ weights[:, :size], 9), axis=0)
        equal, alone = ((np.diff(one, axis=0) == 0).mean(axis=0) for one in (sums, np.sort(sample, axis=0)))
        more = np.maximum(more, equal - np.maximum(alone[i], alone[j])[:size])
    found = np.flatnonzero(more > _EQUAL)
    chosen: list[int] = found[np.argsort(-more[found], kind="stable")[:_PAIRS]].tolist()
    return chosen


def _make_corners(rows: _Rows, *, several: bool) -> list[Corner]:
    """Return the corner of all numbers that differ: each on the first input's side of its midpoint."""
    least = _DIFFERS if len(rows.columns) > _FEW else _DIFFERS / 2
    differs = np.flatnonzero(np.abs(rows.certainty) > least)
    if len(differs) < 2:
        return []
    sides = []
    for k in differs.tolist():
        unit = 2.0 ** np.rint(np.log2(rows.spread[k] / rows.spread[differs].min()))
        digits = 1 - int(np.floor(np.log10(rows.spread[k])))
        middle = round(float(rows.means[:, k].mean()), digits)
        sides.append((rows.columns[k], middle, float(np.copysign(unit, rows.shift[k]))))
    return [Corner(tuple(sides), turned) for turned in ((False, True) if several else (False,))]


def choose_residues(columns: Sequence[NumberValue], first: Outputs, second: Outputs) -> list[Residue]:
    """Choose the number and the modulus whose residues differ most; empty if no residues differ."""
    if not columns:
        return []
    counts = [_count_residues(columns, outputs.head(_RESIDUE_LOOK)) for outputs in (first, second)]
    unlike = (np.square(counts[0] - counts[1]) / np.maximum(counts[0] + counts[1], 1)).sum(axis=1)
    best = int(np.argmax(unlike))
    if unlike[best] < _UNLIKE:
        return []
    column, modulus = divmod(best, len(_MODULI))
    return [Residue(columns[column], float(_MODULI[modulus]))]


def _count_residues(columns: Sequence[NumberValue], outputs: Outputs) -> NDArray[np.int64]:
    """Return histograms of the residues, one row for each number and modulus."""
    matrix = np.stack([value.of(outputs) for value in columns])
    ratio = np.where(np.abs(matrix) < _LARGEST, matrix, 0.0)[:, None, :] / _MODULI[:, None]
    bucket = np.rint((ratio - np.floor(ratio)) * _BUCKETS).astype(np.intp) % _BUCKETS
    rows = len(columns) * len(_MODULI)
    place = bucket.reshape(rows, -1) + _BUCKETS * np.arange(rows)[:, None]
    return np.bincount(place.ravel(), minlength=rows * _BUCKETS).reshape(rows, _BUCKETS)


_WIDEST = 12
"""Most columns of a part that get a feature each; further ones enter only features of the whole part."""

_SMALL = 4
"""Parts of at most this width get a feature for the set of their labels, too."""

_FINE = -40
"""Numbers with binary digits below 2 to this exponent are in floating point, not on a grid."""

_LOOK = 1 << 12
"""Runs used to choose the features."""

_MANY = 24
"""Integers with more distinct values than this are numbers as well as labels."""

_MOST_TIMES = 4
"""Number of labels in each part whose number of occurrences is a feature."""


class LabelFeature(Protocol):
    """A function that assigns a label to each output."""

    def of(self, outputs: Outputs) -> NDArray[Any]:
        """Return the labels as an array whose first axis is the runs."""
        ...

    def words(self, values: tuple[Any, ...]) -> str:
        """Describe in words the condition that the label is one of some values."""
        ...


class NumberFeature(Protocol):
    """A function that assigns a number to each output; NaN where there is none."""

    def of(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the number of each run."""
        ...

    @property
    def name(self) -> str:
        """Name of the number in the description of an event."""
        ...


def label_features(first: Outputs, second: Outputs) -> list[LabelFeature]:
    """List the label features of two samples: single labels, rows, sets, numbers of occurrences."""
    found: list[LabelFeature] = []
    parts = _part_widths(first.labels, second.labels)
    for part, width in parts:
        if width <= _WIDEST:
            found += [ColumnLabel(part, width, j) for j in range(width)]
        if width > 1:
            found.append(RowLabel(((part, width),)))
            if width <= _SMALL:
                found.append(SetLabel(part, width))
            sides = [outputs.label(part, width)[:_LOOK] for outputs in (first, second)]
            seen, count = np.unique(np.concatenate(sides), return_counts=True)
            frequent = seen[np.argsort(-count)[:_MOST_TIMES]]
            found += [TimesLabel(part, width, label.item()) for label in frequent]
            if width > _SMALL:
                found.append(AgreementLabel(part, _likelier_row(*sides)))
    if len(parts) > 1:
        found.append(RowLabel(parts))
    heads, numeric = (first.head(_LOOK), second.head(_LOOK)), _numeric_parts(first, second)
    for part, width in numeric:
        if width > 1:
            found.append(_make_sides(((part, width),), *heads))
        # On a grid the last digits carry no information.
        floating = [
            j for j in range(min(width, 2)) if LastDigitLabel(part, width, j).of(heads[0]).min() < _FINE
        ]
        found += [LowBitsLabel(part, width, j) for j in floating]
        found += [LastDigitLabel(part, width, j) for j in floating]
    if len(numeric) > 1:
        found.append(_make_sides(numeric, *heads))
    return found


def number_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List the number features of two samples: each number, and the least, greatest, average of a part."""
    found: list[NumberFeature] = []
    for part, width in _numeric_parts(first, second):
        found += [NumberValue(part, width, j) for j in range(min(width, _WIDEST))]
        if width > 1:
            found += [PartValue(part, width, which) for which in get_args(Which)]
    return found


def row_features(first: Outputs, second: Outputs) -> list[NumberFeature]:
    """List the features computed from several numbers, or from digits, that differ in two samples."""
    columns = [
        NumberValue(part, width, j) for part, width in _numeric_parts(first, second) for j in range(width)
    ]
    return [*combinations(columns, first, second), *choose_residues(columns[:_WIDEST], first, second)]


def _numeric_parts(first: Outputs, second: Outputs) -> tuple[tuple[str, int], ...]:
    """Return the numeric parts with their widths: floats, and integers with many values."""
    found = list(_part_widths(first.values, second.values))
    for part, width in _part_widths(first.labels, second.labels):
        sides = [outputs.labels[part][:_LOOK] for outputs in (first, second) if part in outputs.labels]
        if (
            part not in dict(found)
            and all(side.dtype.kind == "i" for side in sides)
            and _has_many_values(sides)
        ):
            found.append((part, width))
    return tuple(found)


def _has_many_values(sides: list[NDArray[np.int64]]) -> bool:
    """Return whether integers have many values; for most labels their range decides."""
    if max(int(side.max()) - int(side.min()) for side in sides) < _MANY:
        return False
    return len(np.unique(np.concatenate([side.ravel() for side in sides]))) > _MANY


def _part_widths(*sides: Mapping[str, NDArray[Any]]) -> tuple[tuple[str, int], ...]:
    """Return the parts of two samples with their widths."""
    widths: dict[str, int] = {}
    for side in sides:
        for part, array in side.items():
            widths[part] = max(widths.get(part, 0), array.shape[1])
    return tuple(widths.items())


def _make_sides(parts: tuple[tuple[str, int], ...], first: Outputs, second: Outputs) -> SidesLabel:
    """Build the feature that counts numbers on the first sample's side of the midpoints of medians."""
    halves = []
    for outputs in (first, second):
        side = np.concatenate([outputs.value(part, width) for part, width in parts], axis=1)
        # NaN is sorted last.
        ordered, count = np.sort(side, axis=0), np.count_nonzero(~np.isnan(side), axis=0)
        middle = ordered[np.maximum(count - 1, 0) // 2, np.arange(side.shape[1])]
        halves.append(np.where(count > 0, middle, 0.0))
    cuts = tuple(float(cut) for cut in np.round((halves[0] + halves[1]) / 2, 1))
    return SidesLabel(parts, cuts, tuple((halves[0] > halves[1]).tolist()))


def _likelier_row(first: NDArray[Any], second: NDArray[Any]) -> tuple[Any, ...]:
    """Return for each column the label whose frequency in the first sample exceeds the second's most."""
    row = []
    for a, b in zip(first.T, second.T, strict=True):
        seen, which = np.unique(np.concatenate([a, b]), return_inverse=True)
        here, there = which[: len(a)], which[len(a) :]
        more = np.bincount(here, minlength=len(seen)) - np.bincount(there, minlength=len(seen))
        row.append(seen[np.argmax(more)].item())
    return tuple(row)
