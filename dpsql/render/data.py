"""Writes results for programs: CSV, JSON, JSON lines, Arrow and Parquet, numbers as they are given."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, BinaryIO

from dpsql.places import distinct
from dpsql.render.figures import show_spent
from dpsql.render.lines import line
from dpsql.render.values import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from dpsql.render.readable import Released


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
    field = _field_of_spreadsheet if spreadsheet else _field
    out.write((",".join(map(field, rows.column_names)) + "\r\n").encode("utf-8", "backslashreplace"))
    for row in _rows(rows):
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
    return _field(value)


def _field(value: object) -> str:
    if value is None:
        return ""
    plain = _plain(value)
    text = plain if isinstance(plain, str) else str(plain) if isinstance(plain, float) else _json(plain)
    if not text or any(char in text for char in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def write_json(rows: pa.Table, out: BinaryIO, *, end: bytes = b"\n") -> None:
    """Write one array of objects, one object a line; `end` stands behind it.

    An object has a name once: of two columns `n` the second one is `n_1`.
    """
    names = [_json(name) for name in distinct(rows.column_names)]
    before = "[\n"
    for row in _rows(rows):
        out.write((before + _object(names, row)).encode("utf-8", "backslashreplace"))
        before = ",\n"
    out.write((b"[]" if before == "[\n" else b"\n]") + end)


def write_jsonl(rows: pa.Table, out: BinaryIO, first: dict[str, int] | None = None) -> None:
    """Write one object a line; the fields `first` stand at the start of each. Names as in `write_json`."""
    fields = first or {}
    names = [_json(name) for name in distinct([*fields, *rows.column_names])]
    for row in _rows(rows):
        line = _object(names, (*fields.values(), *row))
        out.write((line + "\n").encode("utf-8", "backslashreplace"))


def _object(names: list[str], row: tuple[Any, ...]) -> str:
    fields = (f"{name}: {_json(_plain(value))}" for name, value in zip(names, row, strict=True))
    return "{" + ", ".join(fields) + "}"


def as_json(value: object) -> str:
    """Return a value of a result, or a dict or list of such values, as JSON."""
    return _json(_plain(value))


def _json(value: object) -> str:
    """Write a value as JSON. Done by hand for DECIMAL, whose digits a float would lose."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if isinstance(value, dict):
        return _object([_json(str(key)) for key in value], tuple(value.values()))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_json(_plain(item)) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> object:
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


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
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
    names = distinct(rows.column_names, fold=True)
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
