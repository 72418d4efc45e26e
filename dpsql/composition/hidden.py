"""Read the hidden columns of a query over released numbers: what the values of a row are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsql.composition.error_bars import HIDDEN
from dpsql.composition.smooth import NoIntervalError, forms_of, inside
from dpsql.composition.terms import Fold, Form, Known, Term
from dpsql.lazy_dataclass import dataclass

FloatArray = NDArray[np.float64]
_Lists = tuple[list[int], NDArray[np.int64], FloatArray]


@dataclass(slots=True, eq=False)
class Sum:
    """A sum of released numbers in one row."""

    value: float
    weights: dict[int, float]
    """By the names of the numbers."""

    @property
    def key(self) -> tuple[object, ...]:
        """What equal sums have in common."""
        return self.value, *self.weights.items()


@dataclass(slots=True, eq=False)
class Hidden:
    """The rows of a query with its hidden columns."""

    found: pa.Table
    _read: dict[str, _Lists] = field(default_factory=dict)

    def shown(self, place: int) -> FloatArray:
        """Return the values of a column that is shown, NaN for NULL."""
        names = [i for i, name in enumerate(self.found.column_names) if not name.startswith(HIDDEN)]
        return floats(self.found.column(names[place]))

    def numbers(self, term: Term) -> int:
        """Return how many released numbers the values of a column are made of, all rows together."""
        return sum(len(self._lists(form)[1]) for leaf in forms_of(term) for _, form in leaf.parts)

    def values(self, term: Term, row: int) -> dict[str, object]:
        """Return the values without noise that a term reads in a row."""
        return {name: self.found.column(name)[row].as_py() for name in _known_of(term)}

    def scalar(self, term: Term, row: int) -> float:
        """Return a value without noise; raise if it is NULL."""
        found = self.end(term, row)
        if found is None:
            raise NoIntervalError
        return found

    def end(self, term: Term, row: int) -> float | None:
        """Return a value without noise, which may be NULL."""
        assert isinstance(term, Known)  # noqa: S101  the caller has looked
        found = self.found.column(term.sql)[row].as_py()
        return None if found is None else float(found)

    def size(self, leaf: Form, row: int) -> int:
        """Return how many elements a list of forms has."""
        values = self.found.column(leaf.value)[row].as_py()
        return 0 if values is None else len(values)

    def leaf(self, term: Term, row: int, at: int | None = None) -> Sum:
        """Return a form, one of a list of forms, or a value without noise; raise if it is NULL."""
        if isinstance(term, Known):
            return Sum(self.scalar(term, row), {})
        assert isinstance(term, Form)  # noqa: S101  the caller has looked
        found = self.found.column(term.value)[row].as_py()
        found = found if at is None or found is None else found[at]
        if found is None:
            raise NoIntervalError
        if at is None:
            return self.form(term, row, float(found))
        listed = self.found.column(term.parts[0][1])[row].as_py()[at] or []
        weights: dict[int, float] = {}
        for each in listed:
            weights[each["p"]] = weights.get(each["p"], 0.0) + each["w"]
        return Sum(float(found), {name: weight for name, weight in weights.items() if weight})

    def form(self, term: Form, row: int, value: float) -> Sum:
        """Return a form of which the value is known."""
        weights: dict[int, float] = {}
        for factor, form in term.parts:
            by = 1.0 if factor == "1" else self.found.column(factor)[row].as_py()
            if by is None:
                raise NoIntervalError
            ends, names, own = self._lists(form)
            for at in range(ends[row], ends[row + 1]):
                name = int(names[at])
                weights[name] = weights.get(name, 0.0) + float(by) * float(own[at])
        return Sum(value, {name: weight for name, weight in weights.items() if weight})

    def _lists(self, name: str) -> _Lists:
        """Return where the lists of a hidden column begin and end, and what they hold."""
        if name not in self._read:
            column = self.found.column(name).combine_chunks()
            if pa.types.is_list(column.type.value_type):
                self._read[name] = (
                    [],
                    np.zeros(len(column.flatten().flatten()), dtype=np.int64),
                    np.zeros(0),
                )
            else:
                lengths = [0 if length is None else length for length in column.value_lengths().to_pylist()]
                flat = column.flatten()
                ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
                self._read[name] = (ends, flat.field("p").to_numpy(), flat.field("w").to_numpy())
        return self._read[name]


def floats(column: pa.ChunkedArray) -> FloatArray:
    """Return a column of numbers, NaN for NULL."""
    found: FloatArray = np.array(
        [math.nan if value is None else float(value) for value in column.to_pylist()], dtype=np.float64
    )
    return found


def leaves_of(term: Term, *, folded: bool = False) -> Iterator[tuple[Form, bool]]:
    """Yield the forms in a term, in order, and whether they are lists of forms."""
    if isinstance(term, Form):
        yield term, folded
    for each in inside(term):
        yield from leaves_of(each, folded=folded or isinstance(term, Fold))


def _known_of(term: Term) -> Iterator[str]:
    if isinstance(term, Known):
        yield term.sql
    for each in inside(term):
        yield from _known_of(each)
