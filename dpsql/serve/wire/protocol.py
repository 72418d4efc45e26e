"""Serves one connection from its first byte to its last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.serve.wire import messages
from dpsql.serve.wire.channel import Channel, Disconnected
from dpsql.serve.wire.connection import Connection
from dpsql.serve.wire.errors import FatalError, fields
from dpsql.serve.wire.startup import authenticate, receive_startup

if TYPE_CHECKING:
    from dpsql.serve.state import State
    from dpsql.serve.wire.registry import Connections, WireContext


class Wire:
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
                channel.write(messages.error_response(fields(error)))
            except Exception as error:  # noqa: BLE001  one connection's bug must not end the server
                self._context.log("bug", {"class": type(error).__name__})
                channel.write(messages.error_response(fields(FatalError("XX000", "this is a bug of dpsql"))))
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


async def _log_in(channel: Channel, context: WireContext, *, tls_required: bool) -> Connection | None:
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
        error = FatalError("57014", "the login took too long")
        _log_failure(channel, context, name, error, "timeout")
        raise error from None
    except FatalError as error:
        _log_failure(channel, context, name, error, getattr(error, "reason", error.sqlstate))
        raise
    try:
        connection = Connection(channel, context, startup, login)
        try:
            context.connections.admit(connection)
        except FatalError:
            connection.close()
            raise
    except Error as error:
        shown = fields(error)
        fatal = FatalError(shown.sqlstate, shown.message, shown.hint)
        _log_failure(channel, context, name, fatal, shown.sqlstate)
        raise fatal from None
    return connection


def _log_failure(channel: Channel, context: WireContext, name: str, error: FatalError, reason: str) -> None:
    """Log a login that failed; a name that no user has is not written, it could be a password."""
    fields = {"address": channel.address, "reason": reason, "outcome": error.sqlstate}
    context.log("handshake failed", fields | context.gate.log_field(name))
