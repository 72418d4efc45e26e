"""COPY name FROM STDIN: an upload of the connection, as psql and drivers send one.

What comes is counted before it is decoded: bytes, rows and cells have limits.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as arrow_csv

from dpsql.login import message
from dpsql.serve.wire.command_words import CopyIn, CopyOptions, Words
from dpsql.serve.wire.messages import MAX_MESSAGE, ProtocolViolation, WireError, check_length
from dpsql.types import column_type
from dpsql.uploads import MOST_BYTES, MOST_COLUMNS, MOST_ROWS

if TYPE_CHECKING:
    from dpsql.serve.limits import MemoryAccount
    from dpsql.serve.wire.channel import Channel

_EXAMPLE = "COPY p17 (row_id BIGINT, prediction BOOLEAN) FROM STDIN WITH (FORMAT csv, HEADER)"
_MOST_CELLS = MOST_BYTES // 8
"""As many numbers have the most bytes of a session's uploads."""
_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}


def read_copy_in(words: Words, read_options: Callable[[Words], CopyOptions]) -> CopyIn:
    """Read what follows COPY where a name stands in the place of a query."""
    refused = words.refuse("COPY takes a query, not a table", "COPY (SELECT ...) TO STDOUT")
    name = words.name("the name of an upload, or a query in parentheses")
    columns, key = _read_columns(words) if words.word() == "(" else ((), None)
    if not words.take("FROM"):
        raise refused
    if not words.take("STDIN"):
        raise words.refuse("COPY .. FROM reads what the client sends", _EXAMPLE)
    options = read_options(words)
    if options.format not in ("csv", "text") or options.force_quote != ():
        raise words.refuse("rows come as csv or text", _EXAMPLE)
    if not (columns or options.header):
        raise words.refuse("the columns of the rows are not named", _EXAMPLE)
    return CopyIn(name, columns, key, options)


def _read_columns(words: Words) -> tuple[tuple[tuple[str, pa.DataType | None], ...], str | None]:
    """Read `(row_id BIGINT PRIMARY KEY, prediction)`: columns with or without types, and the key."""
    words.expect("(")
    found: list[tuple[str, pa.DataType | None]] = []
    key = None
    while True:
        name, kind = words.name("the name of a column"), None
        if words.word() not in (",", ")") and words.word().split()[:1] != ["PRIMARY"]:
            kind = _read_type(words)
        if words.word().split() == ["PRIMARY", "KEY"]:  # one token
            words.take(words.word())
            key = name
        found.append((name, kind))
        if not words.take(","):
            break
    words.expect(")")
    return tuple(found), key


def _read_type(words: Words) -> pa.DataType:
    text = words.name("a type")
    if words.word() == "(":
        text += f"({words.inside()[0]})"
    try:
        kind = column_type(text)
    except ValueError:
        kind = None
    if kind is not None and kind.name == "DECIMAL":
        return pa.decimal128(kind.precision, kind.scale)
    if kind is None or kind.name not in _ARROW:
        raise words.back().refuse(f"an upload has no column of type {text[:40]}", ", ".join(_ARROW))
    return _ARROW[kind.name]


async def receive_copy(
    channel: Channel, command: CopyIn, wait: Callable[[int], Awaitable[None]], account: MemoryAccount
) -> bytes:
    """Ask a client for rows and return what it sends; raise if it is too much, or if the client gives up.

    `wait` slows down who sends much. What is returned is counted in the account.
    """
    columns = len(command.columns)
    channel.write(message(b"G", struct.pack("!bh", 0, columns), struct.pack(f"!{columns}h", *[0] * columns)))
    await channel.drain()
    found = bytearray()
    try:
        while (part := await _receive_part(channel, wait)) is not None:
            account.take(len(part))
            found += part
    except BaseException:
        account.give(len(found))
        raise
    return bytes(found)


async def _receive_part(channel: Channel, wait: Callable[[int], Awaitable[None]]) -> bytes | None:
    """Return the next part of the rows; None at their end."""
    while True:
        tag = await channel.read(1)
        body: bytes = await channel.read(check_length(await channel.read(4), MAX_MESSAGE))
        await wait(len(body))
        if tag == b"d":
            return body
        if tag == b"c":
            return None
        if tag == b"f":
            raise WireError("the client ended its copy: nothing was kept", "57014")
        if tag not in b"HS":
            raise ProtocolViolation("a message that is not part of a copy")


def decode_rows(command: CopyIn, data: bytes) -> pa.Table:
    """Return the rows that were sent; raise `WireError` if they are too many or cannot be read."""
    options = command.options
    separators = data.count(options.delimiter.encode())
    lines = data.count(b"\n") + 1
    if lines > MOST_ROWS + 2 or separators + lines > _MOST_CELLS:
        raise WireError(f"an upload has at most {MOST_ROWS:,} rows and {_MOST_CELLS:,} values", "54000")
    first = data.split(b"\n", 1)[0].count(options.delimiter.encode()) + 1
    if first > MOST_COLUMNS:
        raise WireError(f"an upload has at most {MOST_COLUMNS} columns", "54000")
    plain = options.format == "text"
    names = None if options.header and not command.columns else [name for name, _ in command.columns]
    if plain and data.endswith(b"\\.\n"):
        data = data[:-3]
    if plain and b"\\" in data.replace(options.null.encode(), b""):
        raise WireError("texts with a backslash are sent as csv", "0A000", _EXAMPLE)
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            arrow_csv.ReadOptions(
                use_threads=False,
                block_size=max(len(data), 1),
                column_names=names,
                skip_rows=1 if options.header and names else 0,
            ),
            arrow_csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=False if plain else options.quote,
                double_quote=not plain and options.escape == options.quote,
                escape_char=False if plain or options.escape == options.quote else options.escape,
                newlines_in_values=not plain,
            ),
            arrow_csv.ConvertOptions(
                column_types={name: kind for name, kind in command.columns if kind is not None},
                null_values=[options.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["true", "t", "TRUE", "True"],
                false_values=["false", "f", "FALSE", "False"],
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        raise WireError(
            "the rows cannot be read as they were announced: columns, types or quotes differ",
            "22P04",
            _EXAMPLE,
        ) from None
