"""The messages of COPY .. TO STDOUT: text, csv and binary as PostgreSQL writes them, and Arrow."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.login.messages import message
from dpsql.release import to_arrow
from dpsql.serve.answer import AnswerColumn
from dpsql.serve.wire.command_types import CopyOptions
from dpsql.serve.wire.types.rows import RowEncoder, join_cells, join_messages

if TYPE_CHECKING:
    from dpsql.release import Release

_PART_BYTES = 1 << 20
"""About how many bytes of a table are encoded at once."""
_CHUNK = 1000
"""Rows that are encoded together."""
_PIECE = 65_536
"""Bytes of Arrow in one message."""
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}


def copy_response(columns: Sequence[AnswerColumn], options: CopyOptions) -> bytes:
    """Return the message CopyOutResponse."""
    code = int(options.format in ("binary", "arrow"))
    count = len(columns)
    return message(b"H", struct.pack(f"!bh{count}h", code, count, *[code] * count))


def copy_messages(
    columns: Sequence[AnswerColumn],
    table: pa.Table,
    options: CopyOptions,
    release: Release | None = None,
    *,
    extra_float_digits: int = 1,
) -> Iterator[bytes]:
    """Yield the messages CopyData, several at a time: one a row, except in Arrow.

    Arrow is an IPC stream of the rows; with `release`, that of `dpsql.release.to_arrow`, which also has all
    that is free beside the rows.
    """
    if options.format == "arrow":
        yield from _arrow(to_arrow(table, release) if options.release else _stream(table))
        return
    code = int(options.format == "binary")
    encoder = RowEncoder(columns, table, [code] * len(columns), extra_float_digits=extra_float_digits)
    if code:
        yield from _binary(encoder, table, struct.pack("!h", len(columns)))
        return
    if options.header:
        names = [pa.array([column.name.encode()], pa.binary()) for column in columns]
        yield join_messages(b"d", _lines(names, 1, options, forced=[False] * len(names)))
    forced = [options.force_quote is None or column.name in options.force_quote for column in columns]
    for part in _parts(table):
        yield join_messages(b"d", _lines(encoder.cells(part), part.num_rows, options, forced))


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    size = rows_of_part(table, _CHUNK)
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


def rows_of_part(table: pa.Table, most: int) -> int:
    """Return how many rows of a table are encoded at once: fewer of long ones, which take much memory."""
    return int(max(1, min(most, _PART_BYTES * table.num_rows // max(1, table.nbytes))))


def _stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _arrow(stream: bytes | pa.Buffer) -> Iterator[bytes]:
    view = memoryview(stream)
    for at in range(0, len(view), _PIECE):
        yield message(b"d", view[at : at + _PIECE])


def _binary(encoder: RowEncoder, table: pa.Table, head: bytes) -> Iterator[bytes]:
    """Yield rows in binary. The header is in the message of the first row, else of the trailer."""
    before = _HEADER
    for part in _parts(table):
        bodies = join_cells(encoder.cells(part), part.num_rows, head)
        if before:
            first = pa.array([before + bodies[0].as_py()], pa.binary())
            bodies = pa.concat_arrays([first, bodies.slice(1)])
            before = b""
        yield join_messages(b"d", bodies)
    yield join_messages(b"d", pa.array([before + _TRAILER], pa.binary()))


def _lines(cells: Sequence[pa.Array], count: int, options: CopyOptions, forced: Sequence[bool]) -> pa.Array:
    """Return each row as a line of text or csv."""
    if options.format == "csv":
        written = [
            _csv(column.cast(pa.string()), options, every=every, alone=len(cells) == 1)
            for column, every in zip(cells, forced, strict=True)
        ]
    else:
        written = [_escape(column.cast(pa.string()), options.delimiter) for column in cells]
    shown = [pc.fill_null(column, options.null) for column in written] or [pa.repeat("", count)]
    rows = pc.binary_join_element_wise(*shown, options.delimiter)
    return pc.binary_join_element_wise(rows, "\n", "").cast(pa.binary())


def _escape(texts: pa.Array, delimiter: str) -> pa.Array:
    """Write control characters, backslashes and delimiters with a backslash."""
    escapes = {delimiter: f"\\{delimiter}"} | _ESCAPES
    pattern = "[" + re.escape("".join(escapes)) + "]"
    rules = str.maketrans(escapes)
    return _change_marked(texts, pc.match_substring_regex(texts, pattern), lambda text: text.translate(rules))


def _csv(texts: pa.Array, options: CopyOptions, *, every: bool, alone: bool) -> pa.Array:
    """Put values in quotes where they could be read otherwise, or `every` value."""
    quote, escape = options.quote, options.escape
    pattern = "[" + re.escape(options.delimiter + quote + "\n\r") + "]"
    quoted = pc.or_(pc.match_substring_regex(texts, pattern), pc.equal(texts, options.null))
    if alone:
        quoted = pc.or_(quoted, pc.equal(texts, "\\."))
    if every:
        quoted = texts.is_valid()
    rules = str.maketrans({quote: escape + quote, escape: escape + escape})
    return _change_marked(texts, quoted, lambda text: quote + text.translate(rules) + quote)


def _change_marked(texts: pa.Array, mask: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Change the texts that are marked."""
    marked = pc.fill_null(mask, False)
    if not pc.any(marked).as_py():
        return texts
    return pc.replace_with_mask(
        texts, marked, pa.array([change(t) for t in texts.filter(marked).to_pylist()])
    )
