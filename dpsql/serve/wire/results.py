"""Statements in what a client sends, what each gives (`WireResult`), and how it is sent: rows, COPY, notices.

COPY .. TO STDOUT writes text, csv and binary as PostgreSQL does, and Arrow.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dpsql.language import split_script_with_places
from dpsql.lazy_pattern import lazy_pattern
from dpsql.lazy_property import lazy_property
from dpsql.login import message
from dpsql.release import tell_opening, to_arrow
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.limits import check_words
from dpsql.serve.wire import messages
from dpsql.serve.wire.command_words import Command, Copy, CopyIn, CopyOptions, Declare
from dpsql.serve.wire.commands import may_be_command, read_command
from dpsql.serve.wire.messages import WireError
from dpsql.serve.wire.types.encoding import (
    RowEncoder,
    format_codes,
    join_cells,
    join_messages,
    row_description,
)

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.serve.answers import Encoded, Notice
    from dpsql.serve.settings import Settings
    from dpsql.serve.wire.channel import Channel

_SEVERAL = lazy_pattern(r"--|/\*|\{#|;")
"""What a text may have that is more than one statement, or none."""
_QUOTE = lazy_pattern(r"['\"$]")


class LocatedError(Exception):
    """Carries the error of a statement, whose positions count in `text`, at `offset` of what was sent."""

    def __init__(self, error: Exception, text: str, offset: int) -> None:
        super().__init__()
        self.error = error
        self.text = text
        self.offset = offset


@dataclass(frozen=True)
class SentStatement:
    """One statement; `offset` is the index of its first character in what the client sent."""

    text: str
    offset: int = 0

    @lazy_property
    def command(self) -> Command | None:
        """The command of the session that the text asks for; None for a statement to answer."""
        return read_command(self.text) if self.may_be_command else None

    @lazy_property
    def may_be_command(self) -> bool:
        """Whether the first word is of a command, which is read at once; other texts have no tokens yet."""
        return may_be_command(self.text)

    def question(self, found: Command | None) -> SentStatement | None:
        """Return the text to answer: the statement, or the query in DECLARE or COPY; None for a command."""
        match found:
            case None:
                return self
            case Declare() | Copy():
                return SentStatement(found.query, self.offset + found.at)
        return None


@dataclass(frozen=True, slots=True)
class Description:
    """The parameters of a statement and the columns of its rows; without columns it gives no rows."""

    parameters: tuple[int, ...] = ()
    """The OIDs of the parameters."""
    types: tuple[pa.DataType, ...] = ()
    """The types of the parameters."""
    columns: tuple[AnswerColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class WireResult:
    """What a statement gave; `table` is None if it gives no rows."""

    tag: str
    """The text of CommandComplete, without the number of rows for `SELECT` and `COPY`."""
    columns: tuple[AnswerColumn, ...] = ()
    table: pa.Table | None = None
    notices: tuple[Notice, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    """SQLSTATE and text of the protocol's own warnings."""
    changes: tuple[tuple[str, str], ...] = ()
    """The reported settings that changed, with their values."""
    copy: CopyOptions | None = None
    """How the rows are copied out; None if they are sent as rows."""
    upload: CopyIn | None = None
    """The rows that the client has to send now."""
    release: Release | None = None
    encoded: Encoded | None = None
    """Where the rows are kept as they were sent."""
    binary: bool = False
    """Whether the rows are those of a binary cursor, sent binary if the client chose no format."""

    @property
    def held_bytes(self) -> int:
        """The bytes that the rows take."""
        if self.encoded is not None:
            return self.encoded.held
        return 0 if self.table is None else self.table.nbytes

    def complete(self, rows: int) -> str:
        """Return the text of CommandComplete behind that many rows."""
        return f"{self.tag} {rows}" if self.tag in ("SELECT", "COPY") else self.tag


def check_length(text: str, longest: int) -> None:
    """Raise if what a client sent is too long."""
    if len(text) > longest:
        raise WireError(f"the statement is longer than {longest:,} characters", "54000")
    check_words(text)


def split_plain(text: str) -> list[SentStatement] | None:
    """Return the statement, or none, of a text without comments and semicolons but at its end; else None.

    With quotes it may have no semicolon at all: the quote could be open.
    """
    found = _SEVERAL.search(text)
    if found is not None and (found[0] != ";" or text[found.end() :].strip() or _QUOTE.search(text)):
        return None
    whole = text.strip().removesuffix(";").rstrip()
    return [SentStatement(whole, len(text) - len(text.lstrip()))] if whole else []


def split_statements(text: str) -> list[SentStatement]:
    """Split a text of any number of statements by its tokens, which takes time for a long one."""
    return [SentStatement(part, start) for start, part in split_script_with_places(text)]


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
    """Return the protocol's message CopyOutResponse, which stands before rows in COPY format."""
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
        yield from _arrow_messages(to_arrow(table, release) if options.release else _write_stream(table))
        return
    code = int(options.format == "binary")
    encoder = RowEncoder(columns, table, [code] * len(columns), extra_float_digits=extra_float_digits)
    if code:
        yield from _binary_messages(encoder, table, struct.pack("!h", len(columns)))
        return
    if options.header:
        names = [pa.array([column.name.encode()], pa.binary()) for column in columns]
        yield join_messages(b"d", _text_lines(names, 1, options, forced=[False] * len(names)))
    forced = [options.force_quote is None or column.name in options.force_quote for column in columns]
    for part in _split_table(table):
        yield join_messages(b"d", _text_lines(encoder.cells(part), part.num_rows, options, forced))


def _split_table(table: pa.Table) -> Iterator[pa.Table]:
    size = rows_of_part(table, _CHUNK)
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


def rows_of_part(table: pa.Table, most: int) -> int:
    """Return how many rows of a table are encoded at once: fewer of long ones, which take much memory."""
    return int(max(1, min(most, _PART_BYTES * table.num_rows // max(1, table.nbytes))))


def _write_stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _arrow_messages(stream: bytes | pa.Buffer) -> Iterator[bytes]:
    view = memoryview(stream)
    for at in range(0, len(view), _PIECE):
        yield message(b"d", view[at : at + _PIECE])


def _binary_messages(encoder: RowEncoder, table: pa.Table, head: bytes) -> Iterator[bytes]:
    """Yield rows in binary. The header is in the message of the first row, else of the trailer."""
    before = _HEADER
    for part in _split_table(table):
        bodies = join_cells(encoder.cells(part), part.num_rows, head)
        if before:
            first = pa.array([before + bodies[0].as_py()], pa.binary())
            bodies = pa.concat_arrays([first, bodies.slice(1)])
            before = b""
        yield join_messages(b"d", bodies)
    yield join_messages(b"d", pa.array([before + _TRAILER], pa.binary()))


def _text_lines(
    cells: Sequence[pa.Array], count: int, options: CopyOptions, forced: Sequence[bool]
) -> pa.Array:
    """Return each row as a line of text or csv."""
    if options.format == "csv":
        written = [
            _quote_csv(column.cast(pa.string()), options, every=every, alone=len(cells) == 1)
            for column, every in zip(cells, forced, strict=True)
        ]
    else:
        written = [_escape_texts(column.cast(pa.string()), options.delimiter) for column in cells]
    shown = [pc.fill_null(column, options.null) for column in written] or [pa.repeat("", count)]
    rows = pc.binary_join_element_wise(*shown, options.delimiter)
    return pc.binary_join_element_wise(rows, "\n", "").cast(pa.binary())


def _escape_texts(texts: pa.Array, delimiter: str) -> pa.Array:
    """Write control characters, backslashes and delimiters with a backslash."""
    escapes = {delimiter: f"\\{delimiter}"} | _ESCAPES
    pattern = "[" + re.escape("".join(escapes)) + "]"
    rules = str.maketrans(escapes)
    return _change_marked(texts, pc.match_substring_regex(texts, pattern), lambda text: text.translate(rules))


def _quote_csv(texts: pa.Array, options: CopyOptions, *, every: bool, alone: bool) -> pa.Array:
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


_PART = 1_000
"""Rows that are encoded at once, or fewer long ones; between the parts other connections go on."""
Check = Callable[[], None]
"""Raises if the client wants no more of a result; called between its parts."""
_LEVELS = ("notice", "warning", "error")
_CODES = {"NOTICE": "00000", "WARNING": "01000"}


class ResultRows:
    """The rows of one result in the formats that the client chose, sent in one or several parts."""

    def __init__(self, result: WireResult, codes: Sequence[int], settings: Settings) -> None:
        assert result.table is not None  # noqa: S101  who has rows
        if result.binary and not codes:
            codes = (1,)
        self._codes = format_codes(codes, len(result.columns))
        self._columns = result.columns
        self._table = result.table
        self._encoded = result.encoded
        self._digits = settings.extra_float_digits
        self._release = result.release
        self._sent = 0
        self._total: int = result.table.num_rows
        self._whole = None if self._encoded is None else self._encoded.get(self._form)
        if self._whole is None:
            with tell_opening(self._release):
                self._encoder  # noqa: B018  what cannot be encoded is refused before its columns are sent

    @property
    def _form(self) -> tuple[object, ...]:
        return "rows", self._codes, self._digits

    @lazy_property
    def _encoder(self) -> RowEncoder:
        return RowEncoder(self._columns, self._table, self._codes, extra_float_digits=self._digits)

    @property
    def left(self) -> int:
        """How many rows were not sent."""
        return self._total - self._sent

    def describe(self) -> bytes:
        """Return the message that describes the rows."""
        form = "columns", self._codes
        return _once(self._encoded, form, lambda: row_description(self._columns, self._codes))

    async def send(self, channel: Channel, check: Check, limit: int = 0) -> int:
        """Send up to `limit` rows, or all if it is 0; return how many were sent."""
        end = self._total if limit <= 0 else min(self._total, self._sent + limit)
        begin = self._sent
        if self._whole is not None and end - begin == self._total:
            channel.write(self._whole)
            self._sent = end
        part = rows_of_part(self._table, _PART) if self._sent < end else 0
        while self._sent < end:
            stop = min(self._sent + part, end)
            if self._sent > begin:
                await channel.drain()
                check()
            channel.write(self._rows(self._sent, stop))
            self._sent = stop
        return end - begin

    def _rows(self, start: int, stop: int) -> bytes:
        """Return the messages of these rows."""
        with tell_opening(self._release):
            if stop - start < self._total:
                return self._encoder.rows(start, stop)
            return _once(self._encoded, self._form, lambda: self._encoder.rows(start, stop))


def _once(encoded: Encoded | None, form: tuple[object, ...], encode: Callable[[], bytes]) -> bytes:
    """Return messages in a form, which are kept if the answer is one that is given again."""
    if encoded is None:
        return encode()
    found = encoded.get(form)
    if found is None:
        found = encode()
        encoded.put(form, found)
    return found


async def send_result(channel: Channel, result: WireResult, settings: Settings, check: Check) -> None:
    """Send a whole result as a simple query gets it."""
    send_remarks(channel, result, settings)
    if result.copy is not None:
        await send_copy(channel, result, settings, check)
        return
    count = 0
    if result.table is not None:
        rows = ResultRows(result, (), settings)
        channel.write(rows.describe())
        count = await rows.send(channel, check)
    channel.write(messages.complete(result.complete(count)))


def _write_notices(notices: Iterable[Notice], least: int) -> Iterator[bytes]:
    for notice in notices:
        if _LEVELS.index(notice.severity.lower()) >= least:
            yield messages.notice_response(notice.severity, _CODES[notice.severity], notice.text, notice.hint)


async def send_copy(channel: Channel, result: WireResult, settings: Settings, check: Check) -> None:
    """Send a result as COPY does."""
    assert result.copy is not None  # noqa: S101  who copies
    assert result.table is not None  # noqa: S101  a copied statement has rows
    channel.write(copy_response(result.columns, result.copy))
    parts = copy_messages(
        result.columns,
        result.table,
        result.copy,
        result.release,
        extra_float_digits=settings.extra_float_digits,
    )
    while True:
        with tell_opening(result.release):
            part = next(parts, None)
        if part is None:
            break
        channel.write(part)
        await channel.drain()
        check()
    channel.write(messages.COPY_DONE)
    channel.write(messages.complete(result.complete(result.table.num_rows)))


def send_remarks(channel: Channel, result: WireResult, settings: Settings) -> None:
    """Send the notices of a result that the client wants to see, and the settings that it changed."""
    wanted = settings.client_min_messages
    least = _LEVELS.index(wanted) if wanted in _LEVELS else 0
    if result.notices:
        form = "notices", result.notices, least
        channel.write(_once(result.encoded, form, lambda: b"".join(_write_notices(result.notices, least))))
    for sqlstate, text in result.warnings:
        if least <= _LEVELS.index("warning"):
            channel.write(messages.notice_response("WARNING", sqlstate, text))
    for name, value in result.changes:
        channel.write(messages.parameter_status(name, value))
