"""The extended query: prepared statements and portals of one connection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dpsql.serve.limits import MOST_COLUMNS, MOST_PARAMETERS, DecodingBudget, size_of
from dpsql.serve.wire import messages
from dpsql.serve.wire.messages import ProtocolViolation, WireError
from dpsql.serve.wire.portals import Portal, Prepared
from dpsql.serve.wire.results import (
    Description,
    ResultRows,
    SentStatement,
    WireResult,
    send_copy,
    send_remarks,
)
from dpsql.serve.wire.types import parameter_type
from dpsql.serve.wire.types.encoding import format_codes, row_description
from dpsql.serve.wire.types.parameters import decode_parameter

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.serve.answers import AnswerColumn
    from dpsql.serve.wire.channel import Channel
    from dpsql.serve.wire.messages import Body
    from dpsql.serve.wire.session import WireSession


class Extended:
    """Prepared statements and portals by name; the empty name is replaced each time."""

    def __init__(self, channel: Channel, session: WireSession, longest: int) -> None:
        self._channel = channel
        self._session = session
        self._longest = longest
        self._statements = session.prepared
        self._portals = session.portals

    # -- statements

    async def parse(self, body: Body) -> None:
        """Prepare a statement under the name that a Parse message has."""
        name, text = body.name(), body.text()
        oids = body.array("I")
        body.end()
        self._statements.check(name, text)
        self._statements.keep(name, await self._prepare(text, oids))
        self._channel.write(messages.PARSE_COMPLETE)

    async def _prepare(self, text: str, oids: Sequence[int]) -> Prepared:
        parts = await self._session.statements(text, self._longest)
        if len(parts) > 1:
            raise WireError("a prepared statement is one statement", "42601", "send them one by one")
        if not parts:
            return Prepared(text, None, Description(), datetime.now(UTC))
        types, form = [parameter_type(oid) for oid in oids], self._session.form
        description = await self._session.describe(parts[0], types, oids)
        return Prepared(text, parts[0], description, datetime.now(UTC), form)

    # -- portals

    async def bind(self, body: Body) -> None:
        """Make a portal: a prepared statement with the values of its parameters."""
        name, statement, codes, values, columns = _read_bind(body)
        prepared = self._statements.find(statement)
        oids = prepared.description.parameters
        if len(values) != len(oids):
            raise WireError(f"{len(values)} parameters were sent, the statement has {len(oids)}", "08P01")
        if prepared.statement is not None:
            self._session.transactions.check(prepared.statement.command)
        size = sum(len(value or b"") for value in values)
        self._portals.check(name, size)
        formats = format_codes(codes, len(oids))
        if prepared.description.columns:
            format_codes(columns, len(prepared.description.columns))  # raises for a wrong number
        with DecodingBudget("bind", self._session.account) as budget:
            budget.take(size_of(name) + 2 * len(columns), 0)

            def decode() -> tuple[object, ...]:
                return tuple(
                    decode_parameter(value, oid, code, budget)
                    for value, oid, code in zip(values, oids, formats, strict=True)
                )

            parameters = await self._session.client.beside(size, decode)
            kept = budget.size
        self._portals.keep(name, Portal(prepared, parameters, kept, columns))
        self._channel.write(messages.BIND_COMPLETE)

    async def execute(self, body: Body) -> None:
        """Run a portal, or go on with it, and send rows."""
        name, limit = body.name(), body.int32()
        body.end()
        portal = self._portals.find(name)
        prepared = portal.prepared
        if prepared.statement is None:
            self._channel.write(messages.EMPTY_QUERY)
            return
        self._session.transactions.check(prepared.statement.command)
        if portal.result is None:
            portal.result = await self._run(portal, prepared.statement)
            if portal.result.copy is not None:
                with self._session.count_while_sending() as check:
                    await send_copy(self._channel, portal.result, self._session.settings, check)
                portal.result = _without_rows(portal.result)
                return
            if portal.result.table is not None:
                portal.rows = ResultRows(portal.result, portal.codes, self._session.settings)
        sent = 0
        if portal.rows is not None:
            with self._session.count_while_sending() as check:
                sent = await portal.rows.send(self._channel, check, limit)
            if portal.rows.left:
                self._portals.check_held(name)
                self._channel.write(messages.PORTAL_SUSPENDED)
                return
        self._channel.write(messages.complete(portal.result.complete(sent)))
        portal.rows, portal.result = None, _without_rows(portal.result)

    async def _run(self, portal: Portal, statement: SentStatement) -> WireResult:
        await self._check_columns(portal.prepared, statement)
        result = await self._session.run(statement, portal.parameters, portal.prepared.description.types)
        if result.upload is not None:
            raise WireError("COPY .. FROM STDIN is sent as a simple query", "0A000")
        send_remarks(self._channel, result, self._session.settings)
        announced = portal.prepared.description.columns
        if result.copy is None and _shape_of(announced) != _shape_of(result.columns):
            raise _columns_error("; what was released is stored, and costs nothing when it is asked again")
        return result

    async def _check_columns(self, prepared: Prepared, statement: SentStatement) -> None:
        """Raise, before anything is charged, if a setting or the policy changes the columns of the answer."""
        known, form = prepared.description, self._session.form
        if statement.command is not None or form == prepared.form:
            return
        found = await self._session.describe(statement, known.types, known.parameters)
        if _shape_of(found.columns) != _shape_of(known.columns):
            raise _columns_error("; nothing was charged")
        prepared.form = form

    # -- both

    def describe(self, body: Body) -> None:
        """Send the parameters and columns of a prepared statement, or the columns of a portal or cursor."""
        kind, name = body.take(1), body.name()
        body.end()
        codes: tuple[int, ...] = ()
        if kind == b"S":
            found = self._statements.find(name)
            self._channel.write(messages.parameter_description(found.description.parameters))
        elif kind == b"P":
            if name not in self._portals and name in self._session.cursors:
                self._describe_cursor(name)
                return
            portal = self._portals.find(name)
            found, codes = portal.prepared, portal.codes
        else:
            raise ProtocolViolation("what to describe is a statement or a portal")
        columns = found.description.columns
        described = row_description(columns, format_codes(codes, len(columns))) if columns else None
        self._channel.write(described or messages.NO_DATA)

    def _describe_cursor(self, name: str) -> None:
        """Describe a cursor, which drivers name as if it were a portal."""
        columns, binary = self._session.cursors.columns(name), self._session.cursors.is_binary(name)
        self._channel.write(row_description(columns, (int(binary),) * len(columns)))

    def close(self, body: Body) -> None:
        """Forget a statement, a portal or a cursor of that name; one that does not exist is no error."""
        kind, name = body.take(1), body.name()
        body.end()
        if kind not in (b"S", b"P"):
            raise ProtocolViolation("what to close is a statement or a portal")
        if kind == b"S":
            self._statements.pop(name, None)
        elif self._portals.pop(name, None) is None and name in self._session.cursors:
            self._session.cursors.close(name)
        self._channel.write(messages.CLOSE_COMPLETE)

    def end_batch(self) -> None:
        """Forget the portals, unless a transaction keeps them."""
        if not self._session.transactions.open:
            self._portals.clear()

    def begin_simple(self) -> None:
        """Forget the unnamed statement and the unnamed portal, as each simple query does."""
        self._statements.pop("", None)
        self._portals.pop("", None)


def _read_bind(body: Body) -> tuple[str, str, tuple[int, ...], list[bytes | None], tuple[int, ...]]:
    """Read the names of portal and statement, formats and values of parameters, and formats of columns."""
    portal, statement = body.name(), body.name()
    codes = body.array("h")
    count = body.count()
    if count > MOST_PARAMETERS:
        raise WireError(f"a statement has at most {MOST_PARAMETERS:,} parameters", "54000")
    values = [body.value() for _ in range(count)]
    columns = body.array("h", MOST_COLUMNS)
    body.end()
    return portal, statement, codes, values, columns


def _without_rows(result: WireResult) -> WireResult:
    """Return a result whose rows are gone: more of them are asked in vain."""
    return WireResult(result.tag)


def _columns_error(more: str) -> WireError:
    text = "the statement gives other columns than when it was prepared"
    return WireError(text, "55000", f"prepare it again{more}")


def _shape_of(columns: tuple[AnswerColumn, ...]) -> list[tuple[str, pa.DataType]]:
    return [(column.name, column.type) for column in columns]
