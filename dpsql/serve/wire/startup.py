"""How clients come in: the startup messages until one has logged in, and all connections of a server.

Messages: a request for encryption, the startup message and SCRAM, or a request to cancel.

Connections: `Connections` says how many there may be and has the keys that cancel; `Pace` says how fast an
analyst may send.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from dpsql.lazy_dataclass import dataclass
from dpsql.login import CANCEL, GSS, TLS, draw_number
from dpsql.login.scram import ScramError, ScramServer, ScramViolationError
from dpsql.serve.gate import network
from dpsql.serve.limits import DecodingBudget, LimitExceeded, MemoryAccounts, size_of
from dpsql.serve.wire import messages
from dpsql.serve.wire.messages import (
    MAX_PASSWORD,
    MAX_STARTUP,
    Body,
    FatalError,
    ProtocolViolation,
    WireError,
    check_length,
)

if TYPE_CHECKING:
    from dpsql.serve.gate import Gate, Login
    from dpsql.serve.service import Service
    from dpsql.serve.state import Tls
    from dpsql.serve.users import User
    from dpsql.serve.wire.channel import Channel

RATE = 4 << 20
"""Bytes a second that are read of an analyst in the long run."""
BURST = 4 << 20
"""Bytes that an analyst who sent nothing for a while may send at once."""
_MESSAGE = 64
"""Bytes that each message counts beside its own."""
_NUMBER_BITS = 31
_SHUTTING_DOWN = "the server is shutting down"


class LiveConnection(Protocol):
    """A connection that has logged in."""

    number: int
    """The number by which the client knows it; random, and no process id."""
    secret: bytes
    user: User
    address: str

    @property
    def is_running(self) -> bool:
        """Whether the connection runs a statement."""

    @property
    def held_bytes(self) -> int:
        """Bytes of results that the connection keeps."""

    def cancel(self) -> None:
        """Stop the statement that runs, if one does."""

    def end(self, error: FatalError) -> None:
        """End the connection: now if it is idle, else behind what it runs."""


class Connections:
    """Counts connections and finds them by their numbers. Used by the thread of the event loop alone."""

    def __init__(self, *, maximum: int = 200, handshakes: int = 100) -> None:
        self.maximum = maximum
        self.most_handshakes = handshakes
        self.handshakes = 0
        """How many clients have not logged in yet."""
        self._most_of_one_network = max(1, handshakes // 5)
        self._origins: Counter[str] = Counter()
        self._live: dict[int, LiveConnection] = {}
        self._holding: set[LiveConnection] = set()
        self._closing = False
        self._none_left = asyncio.Event()
        self._none_left.set()

    def __len__(self) -> int:
        return len(self._live)

    @property
    def live(self) -> Mapping[int, LiveConnection]:
        """The connections that have logged in, by number."""
        return MappingProxyType(self._live)

    @contextmanager
    def handshake(self, address: str) -> Iterator[None]:
        """Count a client that is logging in during this block; raise if there are too many.

        So few may come from one network that a single machine keeps nobody else out.
        """
        if self._closing:
            raise FatalError(_SHUTTING_DOWN, "57P03")
        origin = network(address)
        if self.handshakes >= self.most_handshakes or self._origins[origin] >= self._most_of_one_network:
            raise FatalError("too many clients are logging in", "53300", "try again in a few seconds")
        self.handshakes += 1
        self._origins[origin] += 1
        try:
            yield
        finally:
            self.handshakes -= 1
            self._origins[origin] -= 1
            if not self._origins[origin]:
                del self._origins[origin]

    def number(self) -> int:
        """Return a number for a new connection."""
        while True:
            number = draw_number(_NUMBER_BITS)
            if number and number not in self._live:
                return number

    def admit(self, connection: LiveConnection) -> None:
        """Take in a connection that has logged in; raise if there are too many of all or of its analyst."""
        if self._closing:
            raise FatalError(_SHUTTING_DOWN, "57P03")
        if len(self._live) >= self.maximum:
            raise FatalError("the server has as many connections as it allows", "53300", "try again later")
        user = connection.user
        if sum(other.user.analyst == user.analyst for other in self._live.values()) >= user.max_connections:
            raise FatalError(
                f"you have {user.max_connections} connections, as many as you may have",
                "53300",
                "close one that you do not use",
            )
        self._live[connection.number] = connection
        self._none_left.clear()

    def note_held(self, connection: LiveConnection) -> None:
        """Note that a connection gets a result, so that it may keep one from now on."""
        self._holding.add(connection)

    def count_held_bytes(self, analyst: str) -> int:
        """Return how many bytes of results all connections of an analyst keep."""
        held = {each: each.held_bytes for each in self._holding}
        self._holding = {each for each, size in held.items() if size}
        return sum(size for each, size in held.items() if each.user.analyst == analyst)

    def leave(self, connection: LiveConnection) -> None:
        """Take out a connection that has ended."""
        if self._live.get(connection.number) is connection:
            del self._live[connection.number]
        self._holding.discard(connection)
        if not self._live:
            self._none_left.set()

    def cancel_by_key(self, number: int, secret: bytes) -> bool:
        """Stop what runs under a key; return whether it is the key of a connection."""
        connection = self._live.get(number)
        if connection is None or not hmac.compare_digest(connection.secret, secret):
            return False
        connection.cancel()
        return True

    def shutdown(self) -> None:
        """End all idle connections, the others after their statements, and let no one in any more."""
        self._closing = True
        for connection in list(self._live.values()):
            connection.end(FatalError(_SHUTTING_DOWN, "57P01"))

    def cancel(self) -> None:
        """Stop all statements that run."""
        for connection in list(self._live.values()):
            connection.cancel()

    async def wait_closed(self) -> None:
        """Wait until no connection is left."""
        await self._none_left.wait()


class Pace:
    """Tells how long to wait before more is read of an analyst, so that others are read meanwhile.

    Used by the thread of the event loop alone.
    """

    def __init__(
        self, rate: int = RATE, burst: int = BURST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._clock = rate, clock
        self._ahead = burst / rate
        self._paid: dict[str, float] = {}
        """The time by which what each analyst has sent would have come at the rate."""

    def delay(self, analyst: str, size: int) -> float:
        """Count a message of a given number of bytes; return the seconds to wait, 0 within the burst.

        >>> pace = Pace(100, 200, lambda: 7.0)
        >>> pace.delay("ann", 36), pace.delay("ann", 136), pace.delay("bob", 100)
        (0.0, 1.0, 0.0)
        """
        now = self._clock()
        begun = max(self._paid.get(analyst, 0.0), now - self._ahead)
        self._paid[analyst] = paid = begun + (size + _MESSAGE) / self._rate
        return max(0.0, paid - now)


@dataclass(slots=True)
class WireContext:
    """What the connections use of the server; the server assigns other values when it is reloaded."""

    name: str
    """The name of the database that clients use."""
    service: Service
    tls: Tls | None
    connections: Connections
    log: Callable[[str, Mapping[str, object]], None]
    """Takes an event and its fields; never a text of a statement."""
    pace: Pace = field(default_factory=Pace)
    """How fast each analyst may send."""
    accounts: MemoryAccounts = field(default_factory=MemoryAccounts)
    """Count what is decoded for each connection and analyst, and for all."""
    statement_timeout: int = 300_000
    """Milliseconds that a statement may run; a client may choose fewer."""
    max_statement: int = 65_536
    """Characters of what a client sends as one query."""

    @property
    def gate(self) -> Gate:
        """The gate of the service, which says for every protocol who may log in and ask."""
        return self.service.gate


MAJOR, NEWEST_MINOR = 3, 2
"""The newest version of the protocol that the server speaks."""
ALPN = "postgresql"
OPTION = "_pq_."
"""Prefix of the names of protocol options in the startup message."""
ERRORS_OPTION = "_pq_.dpsql_errors"
"""dpsql's own option: each error is sent as JSON, too."""
_KNOWN_OPTIONS = frozenset({ERRORS_OPTION})

_TLS_RECORD = 0x16
"""First byte of a TLS handshake, which no startup message begins with."""
_LONGEST_KEY = 256
STEP = 10.0
"""Seconds that a client has for each step until it is logged in."""


@dataclass(frozen=True, slots=True)
class Startup:
    """What the startup message says. The user is not known yet: he says who he is, and must prove it."""

    minor: int
    """The version 3.x that is spoken."""
    asked_minor: int
    parameters: dict[str, str] = field(default_factory=dict)
    unknown_options: tuple[str, ...] = ()

    @property
    def user(self) -> str:
        """The name of the user who wants to log in."""
        return self.parameters["user"]

    @property
    def version(self) -> int:
        """The version of PostgreSQL's protocol that is spoken, as a number: major << 16 | minor."""
        return MAJOR << 16 | self.minor

    @property
    def negotiates(self) -> bool:
        """Whether the client asked for more than the server knows."""
        return self.minor != self.asked_minor or bool(self.unknown_options)


async def receive_startup(channel: Channel, context: WireContext, *, tls_required: bool) -> Startup | None:
    """Read up to the startup message; None if the client left, or wanted to cancel a statement only."""
    async with asyncio.timeout(STEP):
        first = await channel.peek()
    if first is None:
        return None
    asked_tls = asked_gss = False
    if first == _TLS_RECORD:
        if context.tls is None:
            return None  # only TLS could carry an answer
        await _start_tls(channel, context.tls)
        if channel.tls is None or channel.tls.protocol != ALPN:
            raise ProtocolViolation("TLS without a request for it needs the application protocol postgresql")
        asked_tls = True
    while True:
        async with asyncio.timeout(STEP):
            length = check_length(await channel.read(4), MAX_STARTUP, least=8)
            body = Body(await channel.read(length))
        code = body.int32()
        if code == TLS:
            body.end()
            if asked_tls or channel.tls is not None:
                raise ProtocolViolation("TLS was requested before")
            asked_tls = True
            await _answer_tls(channel, context)
        elif code == GSS:
            body.end()
            if asked_gss or channel.tls is not None:
                raise ProtocolViolation("GSS encryption was requested before")
            asked_gss = True
            channel.write(b"N")
            channel.flush()
        elif code == CANCEL:
            _cancel(context, body)
            return None
        else:
            startup = parse_startup(code, body)
            certified = context.tls is not None and context.tls.clients
            if (tls_required or certified) and channel.tls is None:
                raise FatalError(
                    "the server is reached by TLS only", "28000", "sslmode=verify-full asks for it"
                )
            return startup


async def _answer_tls(channel: Channel, context: WireContext) -> None:
    """Answer a request for TLS, and begin it.

    Bytes sent behind the request could be those of somebody between client and server: they would be taken
    for the client's own once TLS has begun. So they end the connection.
    """
    if channel.buffered_bytes:
        raise ProtocolViolation("there was unencrypted data behind the request for TLS")
    channel.write(b"N" if context.tls is None else b"S")
    channel.flush()
    if context.tls is not None:
        await _start_tls(channel, context.tls)


async def _start_tls(channel: Channel, tls: Tls) -> None:
    async with asyncio.timeout(STEP):
        await channel.start_tls(tls)


def _cancel(context: WireContext, body: Body) -> None:
    number, secret = body.int32(), body.rest()
    if not 4 <= len(secret) <= _LONGEST_KEY:
        raise ProtocolViolation("invalid length of a key to cancel")
    found = context.connections.cancel_by_key(number, secret)
    context.log("cancel requested", {"known": found})


def parse_startup(code: int, body: Body) -> Startup:
    r"""Read the parameters of a startup message.

    >>> parse_startup(3 << 16, Body(b"user\0alice\0\0")).user
    'alice'
    """
    major, minor = code >> 16, code & 0xFFFF
    if major != MAJOR:
        raise FatalError(f"protocol {major}.{minor} is not spoken here, but 3.0 to 3.{NEWEST_MINOR}", "0A000")
    parameters: dict[str, str] = {}
    unknown: list[str] = []
    budget = DecodingBudget("startup")
    try:
        while name := body.text():
            value = body.text()
            budget.take(size_of(name) + size_of(value))
            if name in _KNOWN_OPTIONS or not name.startswith(OPTION):
                parameters[name] = value
            else:
                unknown.append(name)
    except LimitExceeded as error:
        raise FatalError(str(error), error.sqlstate) from None
    except WireError as error:
        raise FatalError("the startup message is not valid UTF-8", error.sqlstate) from None
    body.end()
    if not parameters.get("user"):
        raise FatalError("the startup message names no user", "28000")
    if parameters.get("replication", "").lower() not in ("", "false", "off", "no", "0"):
        raise FatalError("there is no replication", "0A000")
    return Startup(min(minor, NEWEST_MINOR), minor, parameters, tuple(unknown))


def secret_length(startup: Startup) -> int:
    """Return how long the key to cancel is in the version of the protocol that is spoken."""
    return 32 if startup.minor >= 2 else 4


class LoginError(FatalError):
    """A login that failed; `reason` is for the owner's log alone."""

    def __init__(self, message: str, sqlstate: str, reason: str) -> None:
        super().__init__(message, sqlstate)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.sqlstate, self.reason)


async def authenticate(channel: Channel, context: WireContext, name: str) -> Login:
    """Let the client prove its password; all logins that fail see the same messages at the same place."""
    layer, gate = channel.tls, context.gate
    binding = layer.settings.binding if layer is not None else b""
    scram = ScramServer(gate.verifier(name), binding or None)
    try:
        channel.write(
            messages.authentication(10, b"".join(map(messages.text_bytes, (*scram.mechanisms, ""))))
        )
        channel.flush()
        initial = Body(await _sasl_response(channel))
        mechanism, size = initial.raw_text().decode("ascii", "replace"), initial.int32()
        data = initial.take(size) if size >= 0 else b""
        initial.end()
        channel.write(messages.authentication(11, scram.first(mechanism, data)))
        channel.flush()
        proof = await _sasl_response(channel)
        await asyncio.sleep(gate.delay(name, channel.address))
        final = scram.final(proof)
    except ScramViolationError as error:
        raise LoginError("the login does not follow SCRAM-SHA-256", "08P01", error.reason) from None
    except ScramError as error:
        reason = error.reason
    else:
        reason = "the user may not log in"
    certified = None if layer is None or not layer.settings.clients else layer.client_name or ""
    if scram.keys is not None and certified not in (None, name):
        reason = "certificate of another user"
    # The users may have been read again meanwhile.
    login = gate.login(name, channel.address, scram.keys, certified)
    if login is None:
        raise LoginError(f'password authentication failed for user "{name}"', "28P01", reason)
    channel.write(messages.authentication(12, final))
    return login


async def _sasl_response(channel: Channel) -> bytes:
    """Return the body of the client's next message, which has to be one of the login."""
    async with asyncio.timeout(STEP):
        tag = await channel.read(1)
        if tag != b"p":
            raise ProtocolViolation("a message of the login was expected")
        return await channel.read(check_length(await channel.read(4), MAX_PASSWORD))
