"""Send results to a client: rows in parts, copies, notices, settings that have changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpsql.release import told
from dpsql.serve.wire import messages
from dpsql.serve.wire.copy import copy_messages, copy_response, rows_of_part
from dpsql.serve.wire.types.rows import RowEncoder, format_codes, row_description

if TYPE_CHECKING:
    from dpsql.serve.settings import Settings
    from dpsql.serve.wire.channel import Channel
    from dpsql.serve.wire.statement import Result

_PART = 1_000
"""Rows that are encoded at once, or fewer long ones; between the parts other connections go on."""
Check = Callable[[], None]
"""Raises if the client wants no more of a result; called between its parts."""
_LEVELS = ("notice", "warning", "error")
_CODES = {"NOTICE": "00000", "WARNING": "01000"}


class Rows:
    """The rows of one result in the formats that the client chose, sent in one or several parts."""

    def __init__(self, result: Result, codes: Sequence[int], settings: Settings) -> None:
        assert result.table is not None  # noqa: S101  who has rows
        if result.binary and not codes:
            codes = (1,)
        self._codes = format_codes(codes, len(result.columns))
        self._columns = result.columns
        self._encoded = result.encoded
        self._digits = settings.extra_float_digits
        self._release = result.release
        with told(self._release):
            self._encoder = RowEncoder(
                result.columns, result.table, self._codes, extra_float_digits=settings.extra_float_digits
            )
        self._sent = 0
        self._total: int = result.table.num_rows
        self._part = rows_of_part(result.table, _PART)

    @property
    def left(self) -> int:
        """How many rows were not sent."""
        return self._total - self._sent

    def describe(self) -> bytes:
        """Return the message that describes the rows."""
        return self._once(("columns", self._codes), lambda: row_description(self._columns, self._codes))

    async def send(self, channel: Channel, check: Check, limit: int = 0) -> int:
        """Send up to `limit` rows, or all if it is 0; return how many were sent."""
        end = self._total if limit <= 0 else min(self._total, self._sent + limit)
        begin = self._sent
        while self._sent < end:
            stop = min(self._sent + self._part, end)
            if self._sent > begin:
                await channel.drain()
                check()
            channel.write(self._rows(self._sent, stop))
            self._sent = stop
        return end - begin

    def _rows(self, start: int, stop: int) -> bytes:
        """Return the messages of these rows."""
        with told(self._release):
            if stop - start < self._total:
                return self._encoder.rows(start, stop)
            return self._once(("rows", self._codes, self._digits), lambda: self._encoder.rows(start, stop))

    def _once(self, form: tuple[object, ...], encode: Callable[[], bytes]) -> bytes:
        """Return messages in a form, which are kept if the answer is one that is given again."""
        if self._encoded is None:
            return encode()
        found = self._encoded.get(form)
        if found is None:
            found = encode()
            self._encoded.put(form, found)
        return found


async def send_result(channel: Channel, result: Result, settings: Settings, check: Check) -> None:
    """Send a whole result as a simple query gets it."""
    send_remarks(channel, result, settings)
    if result.copy is not None:
        await send_copy(channel, result, settings, check)
        return
    count = 0
    if result.table is not None:
        rows = Rows(result, (), settings)
        channel.write(rows.describe())
        count = await rows.send(channel, check)
    channel.write(messages.complete(result.complete(count)))


async def send_copy(channel: Channel, result: Result, settings: Settings, check: Check) -> None:
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
        with told(result.release):
            part = next(parts, None)
        if part is None:
            break
        channel.write(part)
        await channel.drain()
        check()
    channel.write(messages.COPY_DONE)
    channel.write(messages.complete(result.complete(result.table.num_rows)))


def send_remarks(channel: Channel, result: Result, settings: Settings) -> None:
    """Send the notices of a result that the client wants to see, and the settings that it changed."""
    wanted = settings.client_min_messages
    least = _LEVELS.index(wanted) if wanted in _LEVELS else 0
    for notice in result.notices:
        if _LEVELS.index(notice.severity.lower()) >= least:
            channel.write(
                messages.notice_response(notice.severity, _CODES[notice.severity], notice.text, notice.hint)
            )
    for sqlstate, text in result.warnings:
        if least <= _LEVELS.index("warning"):
            channel.write(messages.notice_response("WARNING", sqlstate, text))
    for name, value in result.changes:
        channel.write(messages.parameter_status(name, value))
