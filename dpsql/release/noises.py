"""What the numbers of a release are made of, beside its rows: for the errors of what is computed from them.

It is part of what was released: measured values, the laws of their noises, and what bounds leave out. A
release that was stored without has none, and what is computed from it then has no interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.estimates.noise_laws import (
    NOISE_ARRAYS,
    Law,
    Linear,
    Made,
    Measured,
    Noises,
    NumberNoise,
    Quotient,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray


def written(noises: Noises) -> tuple[dict[str, Any], pa.Table]:
    """Return noises as values that JSON has, and a table of what they have for each row."""
    return _Writer().write(noises)


def read(facts: Mapping[str, Any], table: pa.Table) -> Noises:
    """Return what `written` was given."""
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    laws = [Law(*each) for each in facts["laws"]]
    sources = [Source(laws[law], scale, grid) for law, scale, grid in facts["sources"]]
    measured = {}
    for place, (value, source, *more) in facts["measured"].items():
        values = columns[value]
        which = columns[source] if isinstance(source, str) else np.full(len(values), source)
        own = tuple(sources[at] for at in more) or tuple(sources)
        measured[place] = Measured(int(place), values, own, which.astype(np.int64))
    return tuple(_number(each, columns, measured) for each in facts["numbers"])


def _number(
    facts: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], measured: Mapping[str, Measured]
) -> NumberNoise:
    def linear(terms: list[tuple[float, int]]) -> Linear:
        return Linear(tuple((weight, measured[str(place)]) for weight, place in terms))

    made: Made | None = None
    if "terms" in facts:
        made = linear(facts["terms"])
    elif "over" in facts:
        above, below, low, high = facts["over"]
        made = Quotient(linear(above), linear(below), low, high)
    arrays = {name: columns[facts[name]] for name in NOISE_ARRAYS if name in facts}
    return NumberNoise(made, bound=facts.get("bound"), **arrays)


def _column(values: NDArray[Any]) -> pa.Array:
    """Convert whole numbers or doubles to a column.

    `pa.array` imports pandas where it is installed: many times the work of an answer.
    """
    import pyarrow as pa  # noqa: PLC0415  loaded only where a release is stored

    kind, arrow = (np.int64, pa.int64()) if values.dtype.kind == "i" else (np.float64, pa.float64())
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=kind))
    return pa.Array.from_buffers(arrow, len(values), [None, data])


class _Writer:
    """Collects the columns of a table, and gives equal draws one number."""

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {}
        self.laws: dict[int, int] = {}
        self.sources: list[list[Any]] = []
        self.measured: dict[str, list[Any]] = {}
        self.of_laws: list[list[Any]] = []

    def write(self, noises: Noises) -> tuple[dict[str, Any], pa.Table]:
        import pyarrow as pa  # noqa: PLC0415  loaded only where a release is stored

        numbers = [self._number(place, each) for place, each in enumerate(noises)]
        facts = {
            "laws": self.of_laws,
            "sources": self.sources,
            "measured": self.measured,
            "numbers": numbers,
        }
        arrays = [_column(values) for values in self.columns.values()]
        return facts, pa.Table.from_arrays(arrays, names=list(self.columns))

    def _number(self, place: int, number: NumberNoise) -> dict[str, Any]:
        found: dict[str, Any] = {} if number.bound is None else {"bound": number.bound}
        for name in NOISE_ARRAYS:
            values = getattr(number, name)
            if values is not None:
                found[name] = self._column(f"{name}_{place}", values)
        if isinstance(number.made, Linear):
            found["terms"] = self._linear(number.made)
        elif number.made is not None:
            made = number.made
            found["over"] = [self._linear(made.above), self._linear(made.below), made.low, made.high]
        return found

    def _linear(self, made: Linear) -> list[tuple[float, int]]:
        return [(weight, self._add_measured(each)) for weight, each in made.terms]

    def _add_measured(self, each: Measured) -> int:
        if str(each.place) not in self.measured:
            places = [self._source(source) for source in each.sources]
            one = len(each.sources) == 1
            source = 0 if one else self._column(f"source_{each.place}", each.source.astype(np.int32))
            self.measured[str(each.place)] = [
                self._column(f"value_{each.place}", each.value),
                source,
                *places,
            ]
        return each.place

    def _source(self, source: Source) -> int:
        law = source.law
        if id(law) not in self.laws:
            self.laws[id(law)] = len(self.of_laws)
            self.of_laws.append([law.kind, law.size, law.pads, law.shared])
        self.sources.append([self.laws[id(law)], source.scale, source.grid])
        return len(self.sources) - 1

    def _column(self, name: str, values: NDArray[Any]) -> str:
        self.columns[name] = values
        return name
