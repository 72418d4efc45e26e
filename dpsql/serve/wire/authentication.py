"""Authentication by SCRAM: client and server prove to each other that they know the password."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dpsql.serve.scram import ScramError, ScramServer, ScramViolationError
from dpsql.serve.wire import messages
from dpsql.serve.wire.errors import FatalError, ProtocolViolation
from dpsql.serve.wire.framing import MAX_PASSWORD, Body, checked_length
from dpsql.serve.wire.startup import STEP

if TYPE_CHECKING:
    from dpsql.serve.gate import Login
    from dpsql.serve.wire.channel import Channel
    from dpsql.serve.wire.context import WireContext


class LoginError(FatalError):
    """A login that failed; `reason` is for the owner's log alone."""

    def __init__(self, sqlstate: str, message: str, reason: str) -> None:
        super().__init__(sqlstate, message)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.sqlstate, str(self), self.reason)


async def authenticate(channel: Channel, context: WireContext, name: str) -> Login:
    """Let the client prove its password; all logins that fail see the same messages at the same place."""
    layer, gate = channel.tls, context.gate
    binding = layer.settings.binding if layer is not None else b""
    scram = ScramServer(gate.verifier(name), binding or None)
    try:
        channel.write(messages.sasl(scram.mechanisms))
        channel.flush()
        initial = Body(await _response(channel))
        mechanism, size = initial.raw_text().decode("ascii", "replace"), initial.int32()
        data = initial.take(size) if size >= 0 else b""
        initial.end()
        channel.write(messages.sasl_continue(scram.first(mechanism, data)))
        channel.flush()
        proof = await _response(channel)
        await asyncio.sleep(gate.delay(name, channel.address))
        final = scram.final(proof)
    except ScramViolationError as error:
        raise LoginError("08P01", "the login does not follow SCRAM-SHA-256", error.reason) from None
    except ScramError as error:
        reason = error.reason
    else:
        reason = "the user may not log in"
    if scram.keys is not None and layer is not None and layer.settings.clients and layer.client_name != name:
        raise LoginError("28000", "the certificate is another user's", "certificate of another user")
    # The users may have been read again meanwhile.
    login = gate.login(name, channel.address, scram.keys, None)
    if login is None:
        raise LoginError("28P01", f'password authentication failed for user "{name}"', reason)
    channel.write(messages.sasl_final(final))
    return login


async def _response(channel: Channel) -> bytes:
    """Return the body of the client's next message, which has to be one of the login."""
    async with asyncio.timeout(STEP):
        tag = await channel.read(1)
        if tag != b"p":
            raise ProtocolViolation("a message of the login was expected")
        return await channel.read(checked_length(await channel.read(4), MAX_PASSWORD))
