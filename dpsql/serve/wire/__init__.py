"""The PostgreSQL wire protocol, version 3: the loop that reads a client's messages and answers them.

==============================  =====================================================================
``startup``                     until the client has logged in; all connections and their cancel keys
``channel``                     its bytes: buffers, TLS, the end at any time
``messages``                    messages as bytes, read and written; what a client sees of an error
``extended``, ``portals``       the extended query; prepared statements, portals and cursors by name
``session``                     running one statement, whatever it is; the state of the transaction
``commands``, ``command_words`` the commands of a session
``copy_in``                     the rows of an upload
``results``                     statements, what they give, and sending it: rows, copies, notices
``types``                       values and rows as bytes
==============================  =====================================================================
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dpsql.errors import Error, error_to_json
from dpsql.login import draw_key
from dpsql.serve.catalog import Encryption
from dpsql.serve.settings import Settings, read_options
from dpsql.serve.wire import messages
from dpsql.serve.wire.channel import Channel, Disconnected
from dpsql.serve.wire.copy_in import decode_rows, receive_copy
from dpsql.serve.wire.extended import Extended
from dpsql.serve.wire.messages import (
    MAX_MESSAGE,
    Body,
    FatalError,
    ProtocolViolation,
    WireError,
    check_length,
    error_fields,
)
from dpsql.serve.wire.results import LocatedError, send_result
from dpsql.serve.wire.session import WireSession
from dpsql.serve.wire.startup import (
    ERRORS_OPTION,
    OPTION,
    Startup,
    authenticate,
    receive_startup,
    secret_length,
)
from dpsql.uploads import MOST_BYTES

if TYPE_CHECKING:
    from dpsql.serve.gate import Login
    from dpsql.serve.state import State
    from dpsql.serve.users import User
    from dpsql.serve.wire.command_words import CopyIn
    from dpsql.serve.wire.startup import Connections, WireContext

_OWN = frozenset({"user", "database", "options", "replication"})
"""Parameters of the startup message that are no settings."""
_EXTENDED = b"PBDECHS"
_IGNORED = b"dcf"
"""CopyData, CopyDone and CopyFail: a client may send them behind a COPY that failed."""
_FAIR = 8
"""Messages of one client in a row before other connections go on."""
_KNOWN = _EXTENDED + _IGNORED + b"QXF"


class WireConnection:
    """The loop that reads a client's messages and answers them."""

    def __init__(self, channel: Channel, context: WireContext, startup: Startup, login: Login) -> None:
        """Begin a session; raises `Error` if a parameter of the startup message is wrong."""
        self._channel = channel
        self._context = context
        self.user = user = login.user
        self.address = channel.address
        self.number = context.connections.number()
        self.secret = draw_key(secret_length(startup))
        self._settings = _make_settings(context, startup, user)
        client = context.service.client(login, self.number, self._settings)
        self._session = WireSession(
            client,
            self._settings,
            lambda: context.connections.count_held_bytes(user.analyst),
            lambda: context.connections.note_held(self),
            context.accounts.open(user.analyst),
        )
        client.address, client.started = channel.address, datetime.now(UTC)
        client.encryption = Encryption() if channel.tls is None else channel.tls.encryption
        client.in_transaction = lambda: self._session.transactions.open
        client.prepared, client.cursors = self._session.prepared.rows, self._session.cursors.rows
        self._loop = asyncio.get_running_loop()
        client.on_terminate, client.on_cancel = self._terminate_soon, self._session.stop_sending
        self._extended = Extended(channel, self._session, context.max_statement)
        self._skipping = False
        self._errors_as_json = ERRORS_OPTION in startup.parameters

    # -- for the registry

    @property
    def is_running(self) -> bool:
        """Whether a statement runs or waits to run."""
        return self._session.asking

    def cancel(self) -> None:
        """Stop the statement that runs, or the rows that are sent, if there are any."""
        self._session.cancel()

    def end(self, error: FatalError) -> None:
        """End the connection: now if it is idle, else behind what it runs."""
        self._channel.interrupt(error)

    def _terminate_soon(self) -> None:
        """Stop what runs and end the connection; any thread may ask for it."""
        self._loop.call_soon_threadsafe(self._terminate)

    def _terminate(self) -> None:
        self.end(FatalError("the connection is ended by the server's administrator or by yourself", "57P01"))
        self.cancel()

    # -- the loop

    async def run(self) -> None:
        """Answer messages until the client leaves; raises `FatalError` if the server ends the connection."""
        self._greet()
        for count in itertools.count(1):
            tag = await self._channel.read(1)
            if tag not in _KNOWN:
                raise ProtocolViolation("a message of an unknown type")
            body = await self._channel.read(check_length(await self._channel.read(4), MAX_MESSAGE))
            if tag == b"X":
                return
            await self._wait_for_pace(len(body))
            await self._answer(tag, Body(body))
            if self._channel.full or count % _FAIR == 0:
                await self._next_turn()

    @property
    def held_bytes(self) -> int:
        """Bytes of results that the connection keeps."""
        return self._session.held_bytes

    def close(self) -> None:
        """Give back what the connection holds; its results at once, which the garbage collector would not."""
        self._session.clear()
        self._session.client.close()

    def _greet(self) -> None:
        self._channel.write(messages.authentication(0))
        for name, value in self._settings.reported_values():
            self._channel.write(messages.parameter_status(name, value))
        self._channel.write(messages.backend_key(self.number, self.secret))
        self._ready()

    def _ready(self) -> None:
        self._channel.write(messages.ready(self._session.transactions.status))

    async def _answer(self, tag: bytes, body: Body) -> None:
        if tag == b"S":
            body.end()
            self._skipping = False
            self._extended.end_batch()
            self._ready()
            self._channel.flush()
        elif self._skipping or tag in _IGNORED:
            return
        elif tag in _EXTENDED:
            self._skipping = not await self._report_errors(lambda: self._step(tag, body))
        else:
            await self._report_errors(lambda: self._simple(tag, body))
            self._ready()
            self._channel.flush()

    async def _step(self, tag: bytes, body: Body) -> None:
        """Answer one message of the extended query."""
        match tag:
            case b"P":
                await self._extended.parse(body)
            case b"B":
                await self._extended.bind(body)
            case b"D":
                self._extended.describe(body)
            case b"E":
                self._check_client()
                await self._extended.execute(body)
            case b"C":
                self._extended.close(body)
            case _:
                body.end()
                await self._channel.drain()

    async def _simple(self, tag: bytes, body: Body) -> None:
        """Answer a simple query: each statement in turn, up to the first error."""
        if tag == b"F":
            raise WireError("functions are called in statements only", "0A000")
        text = body.text()
        body.end()
        self._extended.begin_simple()
        parts = await self._session.statements(text, self._context.max_statement)
        if not parts:
            self._channel.write(messages.EMPTY_QUERY)
        for statement in parts:
            self._check_client()
            result = await self._session.run(statement)
            if result.upload is not None:
                await self._copy_in(result.upload)
                continue
            with self._session.count_while_sending(result) as check:
                await send_result(self._channel, result, self._settings, check)
                if self._channel.full or statement is not parts[-1]:  # others have their turn behind the last
                    await self._next_turn()

    async def _copy_in(self, command: CopyIn) -> None:
        """Receive the rows of an upload and keep them."""
        account = self._context.accounts.open(self.user.analyst, MOST_BYTES)
        data = await receive_copy(self._channel, command, self._wait_for_pace, account)
        try:
            client = self._session.client
            rows = await client.upload(
                len(data), command.name, lambda: decode_rows(command, data), command.key
            )
        finally:
            account.give(len(data))
        self._channel.write(messages.complete(f"COPY {rows}"))

    async def _wait_for_pace(self, size: int) -> None:
        delay = self._context.pace.delay(self.user.analyst, size)
        if delay > 0:
            await asyncio.sleep(delay)

    async def _next_turn(self) -> None:
        """Let other connections go on, and wait for a client that does not read what it gets.

        A message can hold thousands of statements, and each of them can have a long answer.
        """
        if self._channel.full:
            await self._channel.drain()
        else:
            await asyncio.sleep(0)

    def _check_client(self) -> None:
        """Raise if the client is gone or the connection has to end: nobody would read what is charged."""
        self._channel.check()
        if self._channel.is_lost:
            raise Disconnected

    async def _report_errors(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do work and return True; tell the client of an error, which leaves the connection open."""
        try:
            await work()
        except (FatalError, Disconnected):
            raise
        except LocatedError as located:
            error, text, offset = located.error, located.text, located.offset
        except Exception as problem:  # noqa: BLE001  whatever it is, the client sees none of its text
            error, text, offset = problem, "", 0
        else:
            return True
        if not isinstance(error, Error):
            self._context.log("bug", {"number": self.number, "class": type(error).__name__})
        self._session.transactions.note_failure()
        as_json = error_to_json if self._errors_as_json else None
        self._channel.write(messages.error_response(error_fields(error, text, offset, as_json=as_json)))
        del error  # it holds this frame, and those of what was answered; nothing may hold it by this one
        return False


def _make_settings(context: WireContext, startup: Startup, user: User) -> Settings:
    given = startup.parameters
    database = given.get("database") or context.name
    if database != context.name:
        raise FatalError(
            f'there is no database "{database}"', "3D000", f"the database is named {context.name}"
        )
    names = read_options(given.get("options", ""))
    names |= {
        name: value for name, value in given.items() if name not in _OWN and not name.startswith(OPTION)
    }
    return Settings(user.name, database, statement_timeout=context.statement_timeout, startup=names)


class WireProtocol:
    """The protocol on all listeners of a server."""

    def __init__(self, context: WireContext) -> None:
        self._context = context

    @property
    def connections(self) -> Connections:
        """The connections of all listeners."""
        return self._context.connections

    def assign(self, state: State) -> None:
        """Use what was read for logins from now on."""
        context, config = self._context, state.config
        context.name, context.tls = config.name, state.tls
        context.gate.users = state.users
        context.statement_timeout = config.statement_timeout * 1_000
        context.max_statement = config.max_statement

    def factory(self, *, tls_required: bool = False) -> Callable[[], Channel]:
        """Return what a listener makes for each connection; TLS is begun in it, so the listener gets none."""

        async def serve(channel: Channel) -> None:
            try:
                await _serve(channel, self._context, tls_required=tls_required)
            except Disconnected:
                pass
            except FatalError as error:
                channel.write(messages.error_response(error_fields(error)))
            except Exception as error:  # noqa: BLE001  one connection's bug must not end the server
                self._context.log("bug", {"class": type(error).__name__})
                channel.write(
                    messages.error_response(error_fields(FatalError("this is a bug of dpsql", "XX000")))
                )
            finally:
                await channel.close()

        return lambda: Channel(serve)


async def _serve(channel: Channel, context: WireContext, *, tls_required: bool) -> None:
    with ExitStack() as counted:
        try:
            counted.enter_context(context.connections.handshake(channel.address))
        except FatalError as error:
            context.log("handshake refused", {"address": channel.address, "outcome": error.sqlstate})
            raise
        connection = await _log_in(channel, context, tls_required=tls_required)
    if connection is None:
        return
    began = {"number": connection.number, "user": connection.user.name, "analyst": connection.user.analyst}
    context.log("connected", {**began, "address": channel.address, "tls": channel.tls is not None})
    reason = "left"
    try:
        await connection.run()
    except FatalError as error:
        reason = error.sqlstate
        raise
    except Disconnected:
        reason = "lost"
    finally:
        context.connections.leave(connection)
        connection.close()
        context.log("disconnected", {**began, "reason": reason})


async def _log_in(channel: Channel, context: WireContext, *, tls_required: bool) -> WireConnection | None:
    """Return the connection of a client that has logged in; None if it left before."""
    name = ""
    try:
        startup = await receive_startup(channel, context, tls_required=tls_required)
        if startup is None:
            return None
        name = startup.user
        if startup.negotiates:
            channel.write(messages.negotiate(startup.version, startup.unknown_options))
        login = await authenticate(channel, context, name)
    except TimeoutError:
        error = FatalError("the login took too long", "57014")
        _log_failure(channel, context, name, error, "timeout")
        raise error from None
    except FatalError as error:
        _log_failure(channel, context, name, error, getattr(error, "reason", error.sqlstate))
        raise
    try:
        connection = WireConnection(channel, context, startup, login)
        try:
            context.connections.admit(connection)
        except FatalError:
            connection.close()
            raise
    except Error as error:
        shown = error_fields(error)
        fatal = FatalError(shown.message, shown.sqlstate, shown.hint)
        _log_failure(channel, context, name, fatal, shown.sqlstate)
        raise fatal from None
    return connection


def _log_failure(channel: Channel, context: WireContext, name: str, error: FatalError, reason: str) -> None:
    """Log a login that failed; a name that no user has is not written, it could be a password."""
    fields = {"address": channel.address, "reason": reason, "outcome": error.sqlstate}
    context.log("handshake failed", fields | context.gate.log_field(name))
