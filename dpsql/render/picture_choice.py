"""Chooses the picture that fits a released answer: a line over time, bars, a shaded table, marks, ..

`picture_of` is a function of the released table and what the release says of itself, so choosing costs no
privacy. The page, notebooks, terminals, SVG files and `Release.plot` draw what it returns, and nothing else.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.errors import ProgrammingError
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern
from dpsql.render.column_values import value_text, values
from dpsql.render.figures import Estimate, number
from dpsql.render.grid import Style, escape_controls
from dpsql.render.pictures import MOST, MOST_LINES, Kind, Picture, Series, without_infinite
from dpsql.render.readable import estimates, line, ordering_number, places, price
from dpsql.render.table import is_numeric, release_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.render.readable import Estimates, Released

MOST_IN_GROUP, MOST_GROUPED, MOST_CELLS_WIDE = 4, 24, 12
"""Bars in a group, and in all groups; columns of a shaded table."""
_MOST_READ, _MOST_TIMES = 20_000, 2_000
"""Rows of which more than the largest are read, and places in time that a line has room for."""
_FILLED = 0.4
"""The part of a shaded table's cells that have numbers, at least."""


def picture_of(release: Released, column: str | int | None = None) -> Picture | None:
    """Choose the picture of an answer, by default of the number that orders its rows; None: nothing to draw.

    Raises `ProgrammingError` if `column` is the name or the place of no number, or of several.
    """
    place = _number_place(release, column)
    if place is None:
        return None
    own = next((n for n in places(release).numbers if n.place == place), None)
    rows = release.rows.num_rows
    if rows > _MOST_READ:
        release = _reduce(release, place)
    name = release.rows.column_names[place]
    keys = [_Key.of(release, key) for key in places(release).keys]
    found = estimates(release, own) if own is not None else _bare_estimates(release.rows.column(place))
    bounded = any(e is not None and e.unit is not None for e in found)
    level = f"{number(float(release.confidence * 100))}%" if bounded else ""
    words = (price(release.charge), release.mechanism, f"{level} intervals" if bounded else "")
    note = " · ".join(escape_controls(part) for part in words if part)
    quantile = own is None and "exponential mechanism" in release.mechanism
    dated = own is None and _is_date(release.rows.column(place))

    def made(
        kind: Kind,
        by: Sequence[str],
        labels: Sequence[str],
        series: Sequence[Series],
        **more: Any,  # noqa: ANN401
    ) -> Picture:
        texts = [escape_controls(part) for part in by]
        of = more.pop("of", escape_controls(name))
        told = (note, escape_controls(line(release)))
        every = Picture(kind, of, tuple(texts), tuple(labels), tuple(series), *told, level=level, **more)
        return without_infinite(every)

    if quantile:
        columns = [place] if column is not None else _bare_numbers(release)
        columns = [i for i in columns if _is_date(release.rows.column(i)) == dated]
        return _marks_of(release, keys, columns, dated, made)
    if not keys and rows == 1:
        return _numbers_of(release, column, place, made)
    if rows > _MOST_READ:
        found_bars = _bars_of(release, keys, name, found, place, made)
        return replace(found_bars, folded=_fold_words(len(found_bars.labels), rows, "groups"))
    if release.selection.startswith(("top-", "argmax", "above ")):
        return _bars_of(release, keys, name, found, place, made)
    over_time = _line_of(keys, found, made)
    if over_time is not None and len(over_time.labels) <= _MOST_TIMES:
        return over_time
    return _two_keys(keys, found, made) or _bars_of(release, keys, name, found, place, made)


Maker = Callable[..., Picture]
"""Makes a picture of its kind, keys, labels and series, with what the release says of itself."""


def _reduce(release: Released, place: int) -> Released:
    """Return a release with its largest rows alone, in their order."""
    import numpy as np
    import pyarrow as pa

    column = release.rows.column(place)
    if _is_date(column):
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    every = column.cast(pa.float64()).fill_null(0.0).to_numpy()
    kept = pa.array(np.sort(np.argsort(-np.abs(every), kind="stable")[:MOST]))
    whole: Any = release
    reduced: Released = replace(whole, rows=release.rows.take(kept), table=release.table.take(kept))
    return reduced


def picture_of_rows(rows: pa.Table) -> Picture:
    """Return bars of the first number of rows that read nothing private, or that a SELECT made of a release.

    Raises `ProgrammingError` if there is no number.
    """
    place = next((i for i, column in enumerate(rows.columns) if is_numeric(column)), None)
    if place is None:
        raise ProgrammingError("the last answer has no number to draw")
    names = list(map(escape_controls, rows.column_names))
    texts = [i for i, column in enumerate(rows.columns) if not is_numeric(column)][:2]
    keys = [
        ["NULL" if v is None else escape_controls(value_text(v)) for v in values(rows.column(i))]
        for i in texts
    ]
    labels = [" · ".join(parts) for parts in zip(*keys, strict=True)] if keys else [""] * rows.num_rows
    found = _bare_estimates(rows.column(place))
    kept = _largest([-1.0 if e is None else abs(e.value) for e in found], MOST)
    folded = _fold_words(len(kept), len(found), "rows") if len(kept) < len(found) else ""
    series = (Series("", tuple(found[i] for i in kept)),)
    by = tuple(names[i] for i in texts)
    shown = tuple(labels[i] for i in kept)
    return without_infinite(Picture("bars", names[place], by, shown, series, "", folded=folded))


@dataclass(frozen=True, slots=True)
class _Key:
    """A key of an answer: its values as texts, and as places in time if they are such."""

    name: str
    labels: list[str]
    null: list[bool]
    at: list[float | None] | None

    @classmethod
    def of(cls, release: Released, place: int) -> _Key:
        found, name = values(release.rows.column(place)), release.rows.column_names[place]
        at = _times_of(name, found, release.properties.get("domain", ""), len(places(release).keys))
        labels = ["NULL" if v is None else value_text(v) for v in found]
        if at is not None:
            labels = _shorten_times(found, labels)
        return cls(name, list(map(escape_controls, labels)), [v is None for v in found], at)


_ISO = lazy_pattern(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?|-?Q([1-4]))?")
_PERIOD = lazy_pattern(r"(^|_)(year|quarter|month|week|day|hour|minute)s?($|_)", re.IGNORECASE)
_PERIODS = lazy_pattern(r"the (years|quarters|months|weeks|days|hours|minutes)\b")


def _times_of(name: str, found: list[Any], domain: str, keys: int) -> list[float | None] | None:
    """Return values as places in time, if they are dates, times, or numbers of months, say."""
    there = [value for value in found if value is not None]
    if not there:
        return None
    if all(isinstance(value, datetime.date) for value in there):
        made = [None if v is None else _ordinal(v) for v in found]
    elif all(isinstance(value, str) and _ISO.fullmatch(value) for value in there):
        made = [None if v is None else _ordinal_of_text(v) for v in found]
        if None in (at for at, v in zip(made, found, strict=True) if v is not None):
            return None
    elif all(isinstance(value, int) and not isinstance(value, bool) for value in there) and (
        _PERIOD.search(name) or (keys == 1 and _PERIODS.search(domain))
    ):
        made = [None if v is None else float(v) for v in found]
    else:
        return None
    return made if len({at for at in made if at is not None}) > 2 else None


def _ordinal(value: datetime.date) -> float:
    if not isinstance(value, datetime.datetime):
        return float(value.toordinal())
    within = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return value.toordinal() + within / 86400


def _ordinal_of_text(text: str) -> float | None:
    match = _ISO.fullmatch(text)
    year, month, day, quarter = match.groups() if match else (None,) * 4
    first = int(month or (3 * int(quarter) - 2 if quarter else 1))
    try:
        return float(datetime.date(int(year or 0), first, int(day or 1)).toordinal())
    except ValueError:
        return None


def _shorten_times(found: list[Any], labels: list[str]) -> list[str]:
    """Return labels of dates without the parts that are equal for all: `2024-01` of months."""
    there = [value for value in found if value is not None]
    if not all(isinstance(value, datetime.date) for value in there):
        return labels
    moments = [value for value in there if isinstance(value, datetime.datetime)]
    if any(value.time() != datetime.time() for value in moments):
        return labels
    cells = 4 if all(v.month == v.day == 1 for v in there) else 7 if all(v.day == 1 for v in there) else 10
    return [
        label if value is None else str(value)[:cells] for value, label in zip(found, labels, strict=True)
    ]


def _threshold_of(release: Released) -> float | None:
    """Return the threshold of a selection, which is a public constant of the statement."""
    found = re.search(r"above (?:threshold )?(-?[\d,]+(?:\.\d+)?(?:e-?\d+)?)", release.selection)
    return float(found[1].replace(",", "")) if found else None


def _number_place(release: Released, column: str | int | None) -> int | None:
    """Return the place of the number that is meant, by default of the one that orders the rows."""
    names, bare = release.rows.column_names, _bare_numbers(release)
    numbers = [n.place for n in places(release).numbers]
    first = ordering_number(release)
    if column is None:
        return first.place if first is not None else next(iter(bare), None)
    every = [*numbers, *(i for i in bare if i not in numbers)]
    found = [i for i in every if column in (names[i], i)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(map(str, found))
        raise ProgrammingError(
            f"the release has several numbers called {column!r}\nHint: give the place of one: {listed}"
        )
    hint = ", ".join(names[i] for i in every)
    hint = f"\nHint: it has {hint}" if hint else ""
    raise ProgrammingError(f"the release has no noisy number {column!r} to draw{hint}")


def _bare_numbers(release: Released) -> list[int]:
    """Return the places of numbers and dates that are no keys and have no errors, such as quantiles."""
    found = places(release)
    free = {found.gap, found.p_value, *found.keys}
    free |= {place for n in found.numbers for place in (n.place, *n.details)}
    columns = enumerate(release.rows.columns)
    return [i for i, each in columns if i not in free and (is_numeric(each) or _is_date(each))]


def _is_date(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date(column.type) or pa.types.is_timestamp(column.type))


def _bare_estimates(column: pa.ChunkedArray) -> Estimates:
    def made(value: Any) -> Estimate | None:  # noqa: ANN401  a value of any type
        if value is None or isinstance(value, str):  # a date that Python does not have
            return None
        at = _ordinal(value) if isinstance(value, datetime.date) else float(value)
        return Estimate(at, None, None)

    return [made(value) for value in values(column)]


def _labels_of(keys: Sequence[_Key], rows: int, name: str) -> list[str]:
    joined = [" · ".join(parts) for parts in zip(*(key.labels for key in keys), strict=True)]
    return joined or [name] * rows


def _largest(sizes: Sequence[float], most: int) -> list[int]:
    """Return the places of the `most` largest sizes, in their order."""
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return sorted(order[:most])


def _fold_words(shown: int, every: int, what: str) -> str:
    return f"the {shown} largest of {every:,} {what}; the table has the other {every - shown:,}"


def _marks_of(
    release: Released, keys: Sequence[_Key], columns: list[int], dated: bool, made: Maker
) -> Picture:
    names = [release.rows.column_names[i] for i in columns]
    every = [_bare_estimates(release.rows.column(i)) for i in columns]
    labels = _labels_of(keys, release.rows.num_rows, "")
    sizes = [max((e.value for e in row if e is not None), default=0.0) for row in zip(*every, strict=True)]
    kept = _largest(sizes, MOST)
    folded = _fold_words(len(kept), len(sizes), "groups") if len(kept) < len(sizes) else ""
    series = [
        Series(escape_controls(name), tuple(found[i] for i in kept))
        for name, found in zip(names, every, strict=True)
    ]
    of = escape_controls(", ".join(names))
    by = [key.name for key in keys]
    return made("marks", by, [labels[i] for i in kept], series, dated=dated, folded=folded, of=of)


def _numbers_of(release: Released, column: str | int | None, place: int, made: Maker) -> Picture:
    names, numbers = release.rows.column_names, places(release).numbers
    chosen = [n for n in numbers if column is None or n.place == place]
    found = [(names[n.place], estimates(release, n)[0]) for n in chosen]
    if not found:
        bare = _bare_numbers(release) if column is None else [place]
        found = [(names[i], _bare_estimates(release.rows.column(i))[0]) for i in bare]
        found = [
            (name, e) for name, e in found if not _is_date(release.rows.column(names.index(name)))
        ] or found
    labels = [escape_controls(name) for name, _ in found[:MOST]]
    folded = _fold_words(MOST, len(found), "numbers").replace("largest", "first") if len(found) > MOST else ""
    series = [Series("", tuple(e for _, e in found[:MOST]))]
    return made("number", [], labels, series, of=", ".join(labels), folded=folded)


def _bars_of(
    release: Released, keys: Sequence[_Key], name: str, found: Estimates, place: int, made: Maker
) -> Picture:
    labels = _labels_of(keys, release.rows.num_rows, escape_controls(name))
    if "of the lowest" in release.selection:
        kept = list(range(min(MOST, len(found))))
    else:
        kept = _largest([-1.0 if e is None else abs(e.value) for e in found], MOST)
    gap = places(release).gap
    gaps: tuple[str, ...] = ()
    if gap is not None and gap < release.rows.num_columns:
        shown = release_columns(release, Style(), none="")[gap]
        cells = ["" if i in shown.nulls else cell.strip() for i, cell in enumerate(shown.cells)]
        gaps = tuple(cells[i] for i in kept) if kept == list(range(len(kept))) else ()
    first = ordering_number(release)
    threshold = _threshold_of(release) if first is not None and first.place == place else None
    folded = _fold_words(len(kept), len(found), "groups") if len(kept) < len(found) else ""
    if "of the lowest" in release.selection:
        folded = folded.replace("largest", "lowest")
    series = [Series("", tuple(found[i] for i in kept))]
    by = [key.name for key in keys]
    more = {"gaps": gaps, "threshold": threshold, "folded": folded}
    return made("bars", by, [labels[i] for i in kept], series, **more)


def _spread(
    rows: Sequence[str], columns: Sequence[str], found: Estimates
) -> dict[str, dict[str, Estimate | None]] | None:
    """Return the numbers by column and row; None if two numbers have one place."""
    made: dict[str, dict[str, Estimate | None]] = {}
    for row, column, estimate in zip(rows, columns, found, strict=True):
        cells = made.setdefault(column, {})
        if row in cells:
            return None
        cells[row] = estimate
    return made


def _line_of(keys: Sequence[_Key], found: Estimates, made: Maker) -> Picture | None:
    timed = next((key for key in keys if key.at is not None), None)
    if timed is None or timed.at is None:
        return None
    others = [key for key in keys if key is not timed]
    groups = _labels_of(others, len(found), "")
    there = [i for i, at in enumerate(timed.at) if at is not None]
    table = _spread([timed.labels[i] for i in there], [groups[i] for i in there], [found[i] for i in there])
    if table is None:
        return None
    where = dict(sorted(((timed.labels[i], timed.at[i] or 0.0) for i in there), key=lambda pair: pair[1]))
    every = [Series(name, tuple(cells.get(label) for label in where)) for name, cells in table.items()]
    kept = [every[i] for i in _largest([each.top for each in every], MOST)]
    beside = [
        f"{timed.labels[i]}: {' '.join(e.text())}" for i, e in enumerate(found) if i not in set(there) and e
    ]
    notes = [_fold_words(len(kept), len(every), "groups")] if len(kept) < len(every) else []
    notes += (
        [
            f"not on the axis of {timed.name}: {beside[0]}"
            if len(beside) == 1
            else f"{timed.name} NULL is in the table alone"
        ]
        if beside
        else []
    )
    kind: Kind = "line" if not others else "lines" if len(kept) <= MOST_LINES else "panels"
    by = [timed.name, *(key.name for key in others)]
    return made(
        kind, by, list(where), kept, at=tuple(where.values()), folded="; ".join(map(escape_controls, notes))
    )


def _two_keys(keys: Sequence[_Key], found: Estimates, made: Maker) -> Picture | None:
    if len(keys) != 2:
        return None
    rows, columns = keys
    if len(set(columns.labels)) > len(set(rows.labels)):
        rows, columns = columns, rows
    table = _spread(rows.labels, columns.labels, found)
    if table is None or len(table) < 2:
        return None
    heads = list(dict.fromkeys(rows.labels))
    if len(heads) < 2 or sum(map(len, table.values())) < _FILLED * len(heads) * len(table):
        return None
    tops = [
        max((e.value for c in table.values() if (e := c.get(head)) is not None), default=0.0)
        for head in heads
    ]
    sides = list(table)
    best = [max((e.value for e in table[side].values() if e is not None), default=0.0) for side in sides]
    grouped = len(sides) <= MOST_IN_GROUP and len(heads) * len(sides) <= MOST_GROUPED
    kept = [heads[i] for i in _largest(tops, MOST)]
    chosen = [sides[i] for i in _largest(best, MOST_CELLS_WIDE)]
    notes = [
        _fold_words(len(some), len(every), f"values of {key.name}")
        for some, every, key in ((kept, heads, rows), (chosen, sides, columns))
        if len(some) < len(every)
    ]
    series = [Series(side, tuple(table[side].get(head) for head in kept)) for side in chosen]
    folded = escape_controls("; ".join(notes))
    return made("grouped" if grouped else "cells", [rows.name, columns.name], kept, series, folded=folded)
