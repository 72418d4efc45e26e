"""The release of a private statement, with all that is free beside its rows, and its form in the ledger.

Part of it is what its numbers are made of: measured values, the laws of their noises, and what bounds leave
out. From these follow the errors of what is computed from released numbers. A release that was stored without
has none, and what is computed from it then has no interval.
"""

from __future__ import annotations

import json
from dataclasses import field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.estimates.noise_laws import Law, Linear, MeasuredNumber, NoiseDraw
from dpsql.estimates.number_noises import (
    NOISE_ARRAYS,
    NOISE_FIGURES,
    Dispersion,
    Made,
    Noises,
    NumberNoise,
    Quotient,
)
from dpsql.kernel.loss import Charge
from dpsql.lazy_dataclass import dataclass
from dpsql.places import Places, make_distinct
from dpsql.policy import Assumed
from dpsql.render.readable import Outside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from numpy.typing import NDArray


def read_noises(facts: Mapping[str, Any], table: pa.Table) -> Noises:
    """Return the noises that `write_noises` was given."""
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    laws = [Law(*each) for each in facts["laws"]]
    sources = [NoiseDraw(laws[law], scale, grid) for law, scale, grid in facts["sources"]]
    measured = {}
    for place, (value, source, *more) in facts["measured"].items():
        values = columns[value]
        which = columns[source] if isinstance(source, str) else np.full(len(values), source)
        own = tuple(sources[at] for at in more) or tuple(sources)
        measured[place] = MeasuredNumber(int(place), values, own, which.astype(np.int64))
    return tuple(_number(each, columns, measured) for each in facts["numbers"])


def _number(
    facts: Mapping[str, Any], columns: Mapping[str, NDArray[Any]], measured: Mapping[str, MeasuredNumber]
) -> NumberNoise:
    def linear(terms: list[tuple[float, int]]) -> Linear:
        return Linear(tuple((weight, measured[str(place)]) for weight, place in terms))

    made: Made | None = None
    if "terms" in facts:
        made = linear(facts["terms"])
    elif "over" in facts:
        above, below, low, high = facts["over"]
        made = Quotient(linear(above), linear(below), low, high)
    elif "moments" in facts:
        moments, width, sample, root = facts["moments"]
        made = Dispersion(tuple(map(linear, moments)), width, sample, root)
    of_noise: dict[str, Any] = {name: columns[facts[name]] for name in NOISE_ARRAYS if name in facts}
    of_noise |= {name: facts[name] for name in NOISE_FIGURES if name in facts}
    return NumberNoise(made, **of_noise)


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
        facts = {"laws": self.of_laws, "sources": self.sources, "measured": self.measured, "numbers": numbers}
        arrays = [_column(values) for values in self.columns.values()]
        return facts, pa.Table.from_arrays(arrays, names=list(self.columns))

    def _number(self, place: int, number: NumberNoise) -> dict[str, Any]:
        figures = {name: getattr(number, name) for name in NOISE_FIGURES}
        found: dict[str, Any] = {name: value for name, value in figures.items() if value is not None}
        for name in NOISE_ARRAYS:
            values = getattr(number, name)
            if values is not None:
                found[name] = self._column(f"{name}_{place}", values)
        if isinstance(number.made, Linear):
            found["terms"] = self._linear(number.made)
        elif isinstance(number.made, Quotient):
            made = number.made
            linear = [self._linear(each) for each in made.parts if isinstance(each, Linear)]
            if len(linear) == len(made.parts):  # estimates of reports are not stored
                found["over"] = [*linear, made.low, made.high]
        elif isinstance(number.made, Dispersion):
            spread = number.made
            found["moments"] = [[*map(self._linear, spread.parts)], spread.width, spread.sample, spread.root]
        return found

    def _linear(self, made: Linear) -> list[tuple[float, int]]:
        return [(weight, self._add_measured(each)) for weight, each in made.terms]

    def _add_measured(self, each: MeasuredNumber) -> int:
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

    def _source(self, source: NoiseDraw) -> int:
        law = source.law
        if id(law) not in self.laws:
            self.laws[id(law)] = len(self.of_laws)
            self.of_laws.append([law.kind, law.size, law.pads, law.shared])
        self.sources.append([self.laws[id(law)], source.scale, source.grid])
        return len(self.sources) - 1

    def _column(self, name: str, values: NDArray[Any]) -> str:
        self.columns[name] = values
        return name


@dataclass(frozen=True, slots=True)
class Release:
    """One differentially private answer. Reading it costs nothing more, however often."""

    rows: pa.Table
    """The columns of the select list, named and typed as asked: what `fetchall` returns."""
    table: pa.Table
    """`rows` and everything free beside them, one row a released group: `gap` when the mechanism has one, and
    for each noisy count `n` the columns `n_stddev`, `n_low`, `n_high` (DOUBLE; NULL where there is none).
    Where two counts are called `n`, those of the second one are `n_1_stddev`, ..
    """
    keys: tuple[str, ...]
    counts: tuple[str, ...]
    """Names of the key columns and of the noisy count columns of `rows`, which may be equal."""
    selection: str
    """`"top-5"`, `"argmax"`, `"above threshold 100"`, ..; EXPLAIN and SHOW RELEASES say the same."""
    mechanism: str
    """The mechanism in words: `"noisy top-k with gap"`."""
    guarantee: str
    """The privacy guarantee, in a sentence."""
    charge: Charge
    """What was spent, exact."""
    scale: float
    """Scale of the selection noise, in the unit of the number that orders the groups."""
    statement: str
    """The statement as typed."""
    confidence: Fraction = Fraction(95, 100)
    """Level of the intervals."""
    warnings: tuple[str, ...] = ()
    """Sentences for the analyst; they never depend on unreleased data."""
    number: int | None = None
    """The release's number in the ledger."""
    receipt: str = ""
    """The ledger's event that stored it: its number and 16 digits of its hash. A ledger without that event is
    older than the release, or not the one that paid for it."""
    reused: datetime | None = None
    """When the stored answer was first given, if this one cost nothing because it was asked before."""
    charged_again: str = ""
    """If the same statement was answered before: when, and why it was charged again."""
    together: pa.Table | None = None
    """Ends of intervals that hold for all numbers at once: for a statement that shows some of the numbers
    because of their noise. A column is named by the place in `table`, as text, of the end for which it is.
    None: they are not known."""
    parts: tuple[Release, ...] = ()
    """The releases of a statement that computes from several; `rows` are then those of its outer query."""
    assumed: tuple[Assumed, ...] = ()
    """What the statement left open and was answered with, such as a bound of the policy."""
    places: Places | None = None
    """Where keys, noisy counts and what is free beside them stand in `table`, by index; None of a release
    that was stored without: then their names tell it."""
    outside: Outside | None = None
    """The rows whose keys are in no group that is shown, a number of the same release; None: no number."""
    noises: Noises | None = field(default=None, repr=False, compare=False)
    """What its numbers are made of, in their order; None of a release that was stored without."""
    addable: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """What its numbers are sums over (`AddableNumbers.written`); None: they do not add up with others."""
    properties: dict[str, str] = field(default_factory=dict)
    """Further facts shown by front ends: the split, the unit, the domain's size, the count that orders."""

    @property
    def null_group(self) -> bool:
        """Whether a group of the answer has NULL as a key."""
        return any(self.table.column(place).null_count for place in places_of(self).keys)

    @property
    def has_intervals(self) -> bool:
        """Whether the release shows intervals of numbers."""
        return bool(places_of(self).numbers)

    @property
    def line(self) -> str:
        """One line on what the answer leaves out, such as `in no group shown: 1,714 ± 30 rows`; or empty."""
        from dpsql.render.readable import line  # noqa: PLC0415

        return line(self)

    def __repr__(self) -> str:
        # Imported on use, as below: modules that only name the type need not load it.
        from dpsql.render.table import release_text  # noqa: PLC0415

        return release_text(self)

    def _repr_html_(self) -> str:
        """Show the answer in a notebook: a table with bars and intervals, no script, nothing fetched."""
        from dpsql.render.html import release_html  # noqa: PLC0415

        return release_html(self)

    def to_html(self) -> str:
        """Return the answer as an HTML fragment: its rows with intervals and bars, its price and warnings."""
        return self._repr_html_()

    def to_markdown(self) -> str:
        """Return the rows as a Markdown table (GitHub's), numbers with their ±, and the price below."""
        from dpsql.render.grid import Style  # noqa: PLC0415
        from dpsql.render.table import as_markdown  # noqa: PLC0415

        return as_markdown(self.rows, self, Style())

    def to_svg(self, column: str | int | None = None) -> str:
        """Return a picture with ranges as the text of an SVG file: a line over time, bars, a shaded table, ..

        Parameters
        ----------
        column
            Name of the noisy number to draw, or the place of its column from 0; by default the one that
            orders the rows, else the first.

        Raises
        ------
        ProgrammingError
            The release has no such number, or several of that name.
        """
        from dpsql.render.drawing import release_svg  # noqa: PLC0415

        return release_svg(self, column)

    def plot(self, column: str | int | None = None) -> Any:  # noqa: ANN401  an object of another package
        """Draw the picture of `to_svg` by matplotlib, or by Altair where only that is installed.

        Parameters
        ----------
        column
            As for `to_svg`.

        Returns
        -------
        matplotlib.axes.Axes or altair.TopLevelMixin
            The chart, which a notebook shows. Axes are in a figure of their own; of small ones, the first.

        Raises
        ------
        InterfaceError
            Neither is installed: `pip install "dpsql[plot]"`.
        ProgrammingError
            The release has no such number, or several of that name.
        """
        from dpsql.render.plot_packages import plot_release  # noqa: PLC0415

        return plot_release(self, column)


def places_of(release: Release) -> Places:
    """Return where the columns of a release stand in its table."""
    from dpsql.render.readable import places  # noqa: PLC0415

    return places(release)


_FACTS = ("keys", "counts", "mechanism", "guarantee", "scale", "statement", "warnings", "properties")
"""Attributes stored as they are; `reading` is the name under which the first ledgers stored the selection."""


def facts_of(release: Release) -> dict[str, Any]:
    """Return what a release says beside its two tables, as values that JSON has."""
    return {name: getattr(release, name) for name in _FACTS} | {
        "reading": release.selection,
        "charge": [str(release.charge.epsilon), str(release.charge.delta)],
        "confidence": str(release.confidence),
        "assumed": [[each.what, each.value, each.where] for each in release.assumed],
        "places": None if release.places is None else release.places.facts(),
        "outside": None if (out := release.outside) is None else [out.what, *_numbers(out).values()],
    }


def _numbers(out: Outside) -> dict[str, float | None]:
    return {"value": out.value, "stddev": out.stddev, "low": out.low, "high": out.high}


def release_of(facts: dict[str, Any], rows: pa.Table, table: pa.Table) -> Release:
    """Make a release of its two tables and what `facts_of` has returned."""
    facts = facts | {name: tuple(facts[name]) for name in ("keys", "counts", "warnings")}
    facts["assumed"] = tuple(Assumed(*each) for each in facts.pop("assumed", ()))
    out = facts.pop("outside", None)
    facts["outside"] = None if out is None else Outside(*out)
    facts["selection"] = facts.pop("reading")
    places = facts.pop("places", None)
    facts["places"] = None if places is None else Places.of_facts(places)
    facts["charge"] = Charge(*map(Fraction, facts["charge"]))
    facts["confidence"] = Fraction(facts["confidence"])
    return Release(rows=rows, table=table, **facts)


def stream(table: pa.Table) -> bytes:
    """Write a table as a stream of Arrow's IPC format."""
    import pyarrow as pa  # noqa: PLC0415  loaded only where a release is stored

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions()  # else they are looked for in the environment every time
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def to_bytes(release: Release) -> bytes:
    """Write a release as the ledger stores it: its facts as JSON, its two tables as Arrow streams."""
    facts, more = facts_of(release), list[bytes]()
    if release.noises is not None:
        known, columns = _Writer().write(release.noises)
        facts, more = facts | {"noises": known, "addable": release.addable}, [stream(columns)]
    parts = [json.dumps(facts).encode(), stream(release.rows), stream(release.table), *more]
    parts += [] if release.together is None else [stream(release.together)]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def from_bytes(data: bytes) -> Release:
    """Read a stored release back."""
    import pyarrow as pa  # noqa: PLC0415

    parts = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        parts.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    rows, table, *more = (pa.ipc.open_stream(part).read_all() for part in parts[1:])
    facts = json.loads(parts[0])
    known, addable = facts.pop("noises", None), facts.pop("addable", None)  # an older release has none
    noises = None
    if known is not None:
        noises = read_noises(known, more.pop(0))
    found = replace(release_of(facts, rows, table), noises=noises, addable=addable)
    return replace(found, together=more[0]) if more else found


def hold_at_once(release: Release, ends: Sequence[int]) -> Release:
    """Return a release with intervals that hold for all its numbers at once; `ends` are their places.

    An end that is not known becomes NULL.
    """
    return replace(
        release,
        rows=_with_ends(release, release.rows, ends),
        table=_with_ends(release, release.table, ends),
        together=None,
    )


def _with_ends(release: Release, table: pa.Table, ends: Sequence[int]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    known = release.together if release.together is not None else pa.table({})
    for place in ends:
        if place < table.num_columns:
            field_of, name = table.schema.field(place), str(place)
            unknown = name not in known.column_names
            column = pa.nulls(table.num_rows, field_of.type) if unknown else known.column(name)
            table = table.set_column(place, field_of, column)
    return table


def write_cell(release: Release) -> pa.Table:
    """Return a release as one JSON text in a table of one row: its facts, and its rows with all details.

    Of columns with one name `n` the second one is `n_1`: an object of JSON has a name once.
    """
    import pyarrow as pa  # noqa: PLC0415

    from dpsql.render.column_values import values  # noqa: PLC0415
    from dpsql.render.data import as_json  # noqa: PLC0415
    from dpsql.render.readable import sentences  # noqa: PLC0415

    table = release.table
    names = make_distinct(table.column_names)
    listed = zip(*(values(column) for column in table.columns), strict=True)
    facts = {name: getattr(release, name) for name in ("number", "receipt", "selection", *_FACTS)} | {
        "epsilon": float(release.charge.epsilon),
        "delta": float(release.charge.delta),
        "confidence": float(release.confidence),
        "assumed": [str(each) for each in release.assumed],
        "line": sentences(release),
        "null_group": release.null_group,
        "outside": None if release.outside is None else _numbers(release.outside),
        "rows": [dict(zip(names, row, strict=True)) for row in listed],
    }
    return pa.table({"release": pa.array([as_json(facts)], pa.string())})
