"""Write results for programs: CSV, JSON, JSON lines, Arrow and Parquet, numbers as they are given.

For files the numbers of a release may be rounded to the digits that their noise leaves.
"""

from __future__ import annotations

import datetime
import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

from dpsql.places import make_distinct
from dpsql.render.column_values import values
from dpsql.render.figures import show_spent, unit_of
from dpsql.render.readable import counts, line, places

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dpsql.render.readable import Released

_LARGEST_WHOLE = 2**53
"""Doubles beyond it are not all whole numbers of their own."""


def round_rows(rows: pa.Table, release: Released, *, whole: bool = False) -> pa.Table:
    """Round noisy numbers, their intervals and their gaps to the digit at which their noise ends.

    Counts are rounded to the nearest, bounds of intervals outwards, standard deviations upwards to two
    digits, p-values to three: as a terminal shows them.

    Parameters
    ----------
    rows
        `release.rows` or `release.table`. Its other columns stay as they are.
    release
        The release.
    whole
        Whether columns without decimals become BIGINT, for formats that would write 1234.0.
    """
    from pyarrow import types

    numbers = _round_columns(release)
    known = release.table
    for i, name in enumerate(rows.column_names):
        column = rows.column(i)
        found = numbers.get(i)
        if found is None or not known.column(i).equals(column):
            # A column that the statement asked for, such as DP_STDDEV(n), may have any name.
            equal = (each for at, each in numbers.items() if known.column(at).equals(column))
            found = next(equal, None)
        if found is not None and types.is_float64(column.type):
            rows = rows.set_column(i, name, _make_rounded_array(found, whole=whole))
    return rows


def _round_columns(release: Released) -> dict[int, list[float | None]]:
    """Return the rounded values of each noisy column of the release's table, by its place."""
    table, found_at = release.table, places(release)
    found: dict[int, list[float | None]] = {}
    for i, (number, estimates) in enumerate(zip(found_at.numbers, counts(release), strict=True)):
        units = [None if estimate is None else estimate.unit for estimate in estimates]
        kinds = {number.place: ROUND_HALF_EVEN, number.low: ROUND_FLOOR, number.high: ROUND_CEILING}
        for place, rounding in kinds.items():
            if place is not None:
                found[place] = _round_all_at(values(table.column(place)), units, rounding)
        if number.stddev is not None:
            spreads = values(table.column(number.stddev))
            own = [None if spread is None else unit_of(spread) for spread in spreads]
            found[number.stddev] = _round_all_at(spreads, own, ROUND_CEILING)
        if i == (found_at.ordering or 0) and found_at.gap is not None:
            unit = max((unit for unit in units if unit is not None), default=None)
            gaps = values(table.column(found_at.gap))
            found[found_at.gap] = _round_all_at(gaps, [unit] * len(gaps), ROUND_HALF_EVEN)
    if found_at.p_value is not None:
        found[found_at.p_value] = [
            value if value is None else float(f"{value:.3g}")
            for value in values(table.column(found_at.p_value))
        ]
    if found_at.gap is not None and found_at.gap not in found:
        gaps = values(table.column(found_at.gap))
        found[found_at.gap] = _round_all_at(gaps, [unit_of(release.scale)] * len(gaps), ROUND_HALF_EVEN)
    return found


def _round_all_at(
    found: Sequence[float | None], places: Sequence[int | None], rounding: str
) -> list[float | None]:
    return [
        value if value is None or place is None else _round_at(value, place, rounding)
        for value, place in zip(found, places, strict=True)
    ]


def _round_at(value: float, place: int, rounding: str) -> float:
    """Round a number to a power of ten; what is rounded to zero has no sign.

    >>> _round_at(1234.4, 1, ROUND_HALF_EVEN), _round_at(0.1267, -2, ROUND_FLOOR)
    (1230.0, 0.12)
    >>> _round_at(-0.3, 0, ROUND_HALF_EVEN)
    0.0
    """
    exact = Decimal(repr(float(value)))
    if not exact.is_finite():
        return value
    return float(exact.scaleb(-place).to_integral_value(rounding).scaleb(place)) + 0.0


def _make_rounded_array(found: list[float | None], *, whole: bool) -> pa.Array:
    import pyarrow as pa

    there = [value for value in found if value is not None]
    if whole and there and all(value.is_integer() and abs(value) < _LARGEST_WHOLE for value in there):
        return pa.array([None if value is None else int(value) for value in found], pa.int64())
    return pa.array(found, pa.float64())


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that a spreadsheet computes: as a formula, or by white space that it leaves off before
one; the last four are the wide forms, which it reads alike."""
_SLICE = 10_000
"""Rows turned into text together."""


def write_csv(rows: pa.Table, out: BinaryIO, *, spreadsheet: bool = False) -> None:
    """Write RFC 4180: a header, CRLF, NULL as an empty field (an empty text as `""`), UTF-8.

    A spreadsheet computes a cell that begins like a formula, whoever wrote its text. With `spreadsheet` such
    a text, and such a name of a column, begins with an apostrophe, by which it is shown as text; numbers
    stay.
    """
    field = _field_of_spreadsheet if spreadsheet else _write_field
    out.write((",".join(map(field, rows.column_names)) + "\r\n").encode("utf-8", "backslashreplace"))
    for row in _iterate_rows(rows):
        # A lone NULL would be an empty line, which readers skip.
        line = ",".join(map(field, row)) or '""'
        out.write((line + "\r\n").encode("utf-8", "backslashreplace"))


def _field_of_spreadsheet(value: object) -> str:
    """Return a field; a text that a spreadsheet would compute is quoted.

    >>> print(_field_of_spreadsheet("=1+1"), _field_of_spreadsheet(-1.5), _field_of_spreadsheet("a-b"))
    "'=1+1" -1.5 a-b
    """
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "\"'" + value.replace('"', '""') + '"'
    return _write_field(value)


def _write_field(value: object) -> str:
    if value is None:
        return ""
    plain = _plain_value(value)
    text = (
        plain
        if isinstance(plain, str)
        else str(plain)
        if isinstance(plain, float)
        else _write_json_value(plain)
    )
    if not text or any(char in text for char in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def write_json(rows: pa.Table, out: BinaryIO, *, end: bytes = b"\n") -> None:
    """Write one array of objects, one object a line; `end` stands behind it.

    An object has a name once: of two columns `n` the second one is `n_1`.
    """
    names = [_write_json_value(name) for name in make_distinct(rows.column_names)]
    before = "[\n"
    for row in _iterate_rows(rows):
        out.write((before + _write_object(names, row)).encode("utf-8", "backslashreplace"))
        before = ",\n"
    out.write((b"[]" if before == "[\n" else b"\n]") + end)


def write_jsonl(rows: pa.Table, out: BinaryIO, first: dict[str, int] | None = None) -> None:
    """Write one object a line; the fields `first` stand at the start of each. Names as in `write_json`."""
    fields = first or {}
    names = [_write_json_value(name) for name in make_distinct([*fields, *rows.column_names])]
    for row in _iterate_rows(rows):
        line = _write_object(names, (*fields.values(), *row))
        out.write((line + "\n").encode("utf-8", "backslashreplace"))


def _write_object(names: list[str], row: tuple[Any, ...]) -> str:
    fields = (
        f"{name}: {_write_json_value(_plain_value(value))}" for name, value in zip(names, row, strict=True)
    )
    return "{" + ", ".join(fields) + "}"


def as_json(value: object) -> str:
    """Return a value of a result, or a dict or list of such values, as JSON."""
    return _write_json_value(_plain_value(value))


def _write_json_value(value: object) -> str:
    """Write a value as JSON. Done by hand for DECIMAL, whose digits a float would lose."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if isinstance(value, dict):
        return _write_object([_write_json_value(str(key)) for key in value], tuple(value.values()))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_write_json_value(_plain_value(item)) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plain_value(value: object) -> object:
    """Return a value JSON knows, or its text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, (int, float, str, Decimal, list, dict, tuple)):
        return value
    return str(value)


def _iterate_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for start in range(0, table.num_rows, _SLICE):
        part = table.slice(start, _SLICE)
        yield from zip(*(values(column) for column in part.columns), strict=True)


def add_metadata(rows: pa.Table, release: Released | None) -> pa.Table:
    """Put what is said below an answer into the schema's metadata, as texts under names with `dpsql.`."""
    if release is None:
        return rows
    facts = {
        "statement": release.statement,
        "selection": release.selection,
        "mechanism": release.mechanism,
        "guarantee": release.guarantee,
        "epsilon": show_spent(release.charge.epsilon),
        "delta": show_spent(release.charge.delta),
        "confidence": str(float(release.confidence)),
        "noise_scale": str(release.scale),
        "unit": release.properties.get("unit", ""),
        "release": "" if release.number is None else str(release.number),
        "receipt": release.receipt,
        "assumed": "; ".join(map(str, release.assumed)),
        "line": line(release),
        "null_group": "true" if release.null_group else "",
        "outside": "" if (out := release.outside) is None else as_json([out.value, out.low, out.high]),
        "warnings": "; ".join(release.warnings),
    }
    own = {f"dpsql.{name}": text for name, text in facts.items() if text}
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), **own})


def write_binary(rows: pa.Table, out: BinaryIO, name: str, *, stream: bool = False) -> None:
    """Write one Arrow or Parquet file; with `stream`, Arrow's format for a pipe."""
    if name == "parquet":
        write_parquet(rows, out)
    else:
        write_arrow(rows, out, stream=stream)


def write_arrow(rows: pa.Table, out: BinaryIO, *, stream: bool) -> None:
    """Write Arrow IPC: the streaming format for a pipe, the file format for a file."""
    from pyarrow import ipc

    make = ipc.new_stream if stream else ipc.new_file
    with make(out, rows.schema) as writer:
        writer.write_table(rows)


def with_distinct_names(rows: pa.Table) -> pa.Table:
    """Return a table of which no two names are equal, whatever the case of their letters.

    Of two columns `n` the second one is `n_1`. Readers of Parquet often ignore case.
    """
    names = make_distinct(rows.column_names, fold=True)
    if names == rows.column_names:
        return rows
    return rows.rename_columns(names).replace_schema_metadata(rows.schema.metadata)


def write_parquet(rows: pa.Table, out: BinaryIO) -> None:
    """Write one Parquet file, with the names of `with_distinct_names`: readers ask for columns by name."""
    import io

    from pyarrow import parquet

    rows = with_distinct_names(rows)

    # Parquet is written back and forth, which a pipe does not bear.
    buffer = io.BytesIO()
    parquet.write_table(rows, buffer)
    out.write(buffer.getvalue())
