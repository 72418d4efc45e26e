"""`Calls`: what the methods of Flight do for a session. No gRPC: bytes come in, bytes go out.

`info` prices and describes and charges nothing; `get` fetches what a ticket stands for, once, and charges it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsql import __version__
from dpsql.errors import Error
from dpsql.serve.flight import messages as m
from dpsql.serve.flight import metadata, sql_info
from dpsql.serve.flight.arrow import ParameterStream, flight_data, parameter_schema, schema_bytes
from dpsql.serve.flight.errors import FlightError
from dpsql.serve.flight.protobuf import MalformedMessageError, read, write
from dpsql.serve.flight.statements import Offer, description, numbered, offer
from dpsql.serve.flight.tickets import LIFETIME, Ticket, Tickets

if TYPE_CHECKING:
    from dpsql.policy import ServeConfig
    from dpsql.serve.flight.sessions import Session, Sessions

ACTIONS = {
    "CreatePreparedStatement": "Prepare a statement; free. CreatePreparedStatementRequest -> .. Result",
    "ClosePreparedStatement": "Forget a prepared statement. ClosePreparedStatementRequest -> nothing",
    "CancelFlightInfo": "Stop what a ticket asks, or end the ticket. CancelFlightInfoRequest -> .. Result",
    "CancelQuery": "As CancelFlightInfo, of older clients. ActionCancelQueryRequest -> .. Result",
    "SetSessionOptions": "Change settings, such as dp_epsilon. SetSessionOptionsRequest -> .. Result",
    "GetSessionOptions": "Return settings. GetSessionOptionsRequest -> .. Result",
    "CloseSession": "End the session of the bearer token. CloseSessionRequest -> .. Result",
}
_UPDATES = ("CommandStatementUpdate", "CommandPreparedStatementUpdate")
_MOST_OPTIONS = 100
MOST_OF_ANALYST = 256 << 20
"""Bytes of results that are sent to an analyst when another one is asked for."""


class Calls:
    """The methods of Flight, for sessions that have logged in."""

    def __init__(self, sessions: Sessions, config: ServeConfig, tickets: Tickets | None = None) -> None:
        self._sessions = sessions
        self._config = config
        self._tickets = Tickets() if tickets is None else tickets
        self._held: Counter[str] = Counter()
        """Bytes of the results that are being sent, by analyst."""
        self._running: dict[bytes, Session] = {}
        """The sessions whose tickets are being answered, by ticket."""

    # -- pricing and describing

    async def info(self, session: Session, descriptor: bytes) -> bytes:
        """Answer `GetFlightInfo`: price, columns, and a ticket; nothing is charged."""
        made = await self._offer(session, *_command(descriptor))
        ticket = self._tickets.issue(Ticket(session.name, made.work, made.size))
        expires = write(m.TIMESTAMP, {"seconds": int(time.time() + LIFETIME)})
        endpoint = {"ticket": write(m.TICKET, {"ticket": ticket}), "expiration_time": expires}
        return write(
            m.INFO,
            {
                "schema": schema_bytes(made.schema),
                "flight_descriptor": descriptor,
                "endpoint": [write(m.ENDPOINT, endpoint)],
                "total_records": -1,
                "total_bytes": -1,
                "app_metadata": json.dumps(made.facts).encode() if made.facts else None,
            },
        )

    async def schema(self, session: Session, descriptor: bytes) -> bytes:
        """Answer `GetSchema`: the columns alone, which need no agreement to a price."""
        name, asked = _command(descriptor)
        text = None
        if name == "CommandStatementQuery":
            text = _text(asked)
        elif name == "CommandPreparedStatementQuery":
            text = session.statement(asked.get("prepared_statement_handle", b"")).text
        if text is None:
            found = (await self._offer(session, name, asked)).schema
        else:
            _, found = await description(session, text, self._config.max_statement)
        return write(m.SCHEMA_RESULT, {"schema": schema_bytes(found)})

    async def _offer(self, session: Session, name: str, asked: dict[str, Any]) -> Offer:
        longest = self._config.max_statement
        match name:
            case "CommandStatementQuery":
                return await offer(session, _text(asked), longest)
            case "CommandPreparedStatementQuery":
                found = session.statement(asked.get("prepared_statement_handle", b""))
                return await offer(session, found.text, longest, found.values, found.types, found.size)
            case "CommandGetSqlInfo":
                timeout = self._config.statement_timeout
                return _of(sql_info.INFO, lambda: sql_info.info(__version__, timeout, asked.get("info", ())))
            case "CommandGetXdbcTypeInfo":
                return _of(sql_info.TYPES, lambda: sql_info.types(asked.get("data_type")))
        schema = metadata.tables_schema(asked) if name == "CommandGetTables" else metadata.SCHEMAS.get(name)
        if schema is None:
            raise FlightError("0A000", f"{name} is not answered here", "nothing can be changed, only asked")

        async def work() -> pa.Table:
            found = metadata.answer(name, asked, session.client, self._config.name)
            return await session.turn.take(found)

        return Offer(schema, work)

    # -- fetching

    async def get(self, session: Session, ticket: bytes) -> AsyncGenerator[bytes, None]:
        """Answer `DoGet`: redeem a ticket, ask its statement, and yield its rows."""
        secret, analyst = read(m.TICKET, ticket).get("ticket", b""), session.client.user.analyst
        if self._held[analyst] > MOST_OF_ANALYST:
            raise FlightError(
                "54000",
                "the results that your programs have not read are too large together; nothing was charged",
                "read them, or give them up",
            )
        found = self._tickets.redeem(secret, session.name)
        self._running[secret] = session
        try:
            table = await found.work()
        finally:
            del self._running[secret]
        self._held[analyst] += table.nbytes
        try:
            for message in flight_data(table):
                yield message
        finally:
            self._held[analyst] -= table.nbytes
            self._held += Counter()  # without analysts who hold nothing

    # -- parameters, and what would change something

    async def put(self, session: Session, received: AsyncIterator[bytes]) -> bytes:
        """Answer `DoPut`: bind the values of a prepared statement's parameters, or change a setting."""
        stream, asked = ParameterStream(), None
        async for data in received:
            descriptor = stream.add(data)
            if asked is None:
                asked = _command(descriptor)
                if asked[0] in _UPDATES:
                    return await self._update(session, *asked)
                if asked[0] != "CommandPreparedStatementQuery":
                    raise FlightError("0A000", "nothing can be changed here, only asked")
        if asked is None:
            raise MalformedMessageError("the stream is empty")
        handle = asked[1].get("prepared_statement_handle", b"")
        session.bind(handle, *stream.values(), stream.size)
        done = write(m.PREPARED_RESULT, {"prepared_statement_handle": handle})
        return write(m.PUT_RESULT, {"app_metadata": done})

    async def _update(self, session: Session, name: str, asked: dict[str, Any]) -> bytes:
        """Change a setting; any other statement is not asked by an update."""
        if name == "CommandStatementUpdate":
            text = _text(asked)
        else:
            text = session.statement(asked.get("prepared_statement_handle", b"")).text
        made = await offer(session, text, self._config.max_statement)
        if len(made.schema):
            raise FlightError("0A000", "this is a query, not an update", "ask it as a query, which has rows")
        await made.work()
        return write(m.PUT_RESULT, {"app_metadata": write(m.UPDATE_RESULT, {"record_count": 0})})

    # -- actions

    async def act(self, session: Session, action: bytes) -> list[bytes]:
        """Answer `DoAction` with the bodies of its results."""
        found = read(m.ACTION, action)
        name, body = found.get("type", ""), found.get("body", b"")
        match name:
            case "CreatePreparedStatement":
                return [await self._prepare(session, _in_any(name, body))]
            case "ClosePreparedStatement":
                session.prepared.pop(_in_any(name, body).get("prepared_statement_handle", b""), None)
                return []
            case "CancelFlightInfo":
                status = self._cancel(session, read(m.CANCEL_REQUEST, body).get("info", b""))
                return [write(m.CANCEL_RESULT, {"status": status})]
            case "CancelQuery":
                status = self._cancel(session, _in_any(name, body).get("info", b""))
                return [m.write_any("ActionCancelQueryResult", {"result": status})]
            case "SetSessionOptions":
                return [_set_options(session, body)]
            case "GetSessionOptions":
                return [_get_options(session)]
            case "CloseSession":
                self._sessions.end(session)
                return [write(m.CLOSE_RESULT, {"status": m.CLOSED})]
        raise FlightError("0A000", "this action is not known here", "ListActions lists those that are")

    async def _prepare(self, session: Session, asked: dict[str, Any]) -> bytes:
        text = _text(asked)
        longest = self._config.max_statement
        if len(text) <= longest:  # else `description` refuses it
            text = await session.client.beside(len(text), lambda: numbered(text))
        types, schema = await description(session, text, longest)
        return m.write_any(
            "ActionCreatePreparedStatementResult",
            {
                "prepared_statement_handle": session.prepare(text),
                "dataset_schema": schema_bytes(schema),
                "parameter_schema": schema_bytes(parameter_schema(types)),
            },
        )

    def _cancel(self, session: Session, info: bytes) -> int:
        """Stop what the tickets of a `FlightInfo` ask; return the worst status of them."""
        status = m.NOT_CANCELLABLE
        for endpoint in read(m.INFO, info).get("endpoint", ()):
            ticket = read(m.TICKET, read(m.ENDPOINT, endpoint).get("ticket", b"")).get("ticket", b"")
            if self._tickets.revoke(ticket, session.name) is not None:
                status = m.CANCELLED
            running = self._running.get(ticket)
            if running is not None and running.name == session.name:
                running.client.cancel()
                status = m.CANCELLING
        return status


def _of(schema: pa.Schema, table: Callable[[], pa.Table]) -> Offer:
    async def work() -> pa.Table:
        return table()

    return Offer(schema, work)


def _command(descriptor: bytes) -> tuple[str, dict[str, Any]]:
    """Return name and fields of the command in a descriptor."""
    found = read(m.DESCRIPTOR, descriptor)
    if found.get("type") != m.COMMAND_DESCRIPTOR:
        raise FlightError("0A000", "there are no flights by path here", "send a command of Flight SQL")
    return m.read_any(found.get("cmd", b""))


def _in_any(action: str, body: bytes) -> dict[str, Any]:
    name, found = m.read_any(body)
    if name != f"Action{action}Request":
        raise MalformedMessageError("the body of the action is another message")
    return found


def _text(asked: dict[str, Any]) -> str:
    """Return the statement of a command; raises if it belongs to a transaction."""
    if asked.get("transaction_id"):
        raise FlightError("0A000", "there are no transactions here", "ask the statement by itself")
    text: str = asked.get("query", "")
    return text


def _set_options(session: Session, body: bytes) -> bytes:
    """Change settings; those that cannot be changed are told, the others are changed."""
    wrong = []
    given = read(m.SET_OPTIONS, body).get("session_options", ())
    if len(given) > _MOST_OPTIONS:
        raise FlightError("54000", "too many options")
    for entry in given:
        found = read(m.OPTION_ENTRY, entry)
        name, value = found.get("key", ""), _option(found.get("value", b""))
        problem = None
        try:
            session.settings.show(name)
        except Error:
            problem = m.INVALID_NAME
        try:
            if problem is None:
                session.settings.set(name, value)
        except Error:
            problem = m.INVALID_VALUE
        if problem is not None:
            error = write(m.OPTION_ERROR, {"value": problem})
            wrong.append(write(m.OPTION_ERROR_ENTRY, {"key": name, "value": error}))
    return write(m.SET_RESULT, {"errors": wrong})


def _option(value: bytes) -> str | None:
    """Return the value of an option as a text, which all settings have; None resets it."""
    found = read(m.OPTION_VALUE, value)
    if "flag" in found:
        return "on" if found["flag"] else "off"
    text: str | None = found.get("text")
    return text or None


def _get_options(session: Session) -> bytes:
    entries: Iterator[bytes] = (
        write(m.OPTION_ENTRY, {"key": name, "value": write(m.OPTION_VALUE, {"text": value})})
        for name, value in session.settings.as_mapping().items()
    )
    return write(m.GET_RESULT, {"session_options": list(entries)})
