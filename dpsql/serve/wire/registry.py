"""All connections of a server: how many there may be, the keys that cancel, how fast an analyst may send."""

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
from dpsql.login.entropy import draw_number
from dpsql.serve.gate import network
from dpsql.serve.limits import Accounts
from dpsql.serve.wire.errors import FatalError

if TYPE_CHECKING:
    from dpsql.serve.accounts import User
    from dpsql.serve.gate import Gate
    from dpsql.serve.service import Service
    from dpsql.serve.tls import Tls

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
    def running(self) -> bool:
        """Whether it runs a statement."""

    @property
    def held(self) -> int:
        """Bytes of results that it keeps."""

    def cancel(self) -> None:
        """Stop the statement that runs, if one does."""

    def end(self, error: FatalError) -> None:
        """End it: now if it is idle, else behind what it runs."""


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
            raise FatalError("57P03", _SHUTTING_DOWN)
        origin = network(address)
        if self.handshakes >= self.most_handshakes or self._origins[origin] >= self._most_of_one_network:
            raise FatalError("53300", "too many clients are logging in", "try again in a few seconds")
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
            raise FatalError("57P03", _SHUTTING_DOWN)
        if len(self._live) >= self.maximum:
            raise FatalError("53300", "the server has as many connections as it allows", "try again later")
        user = connection.user
        if sum(other.user.analyst == user.analyst for other in self._live.values()) >= user.max_connections:
            raise FatalError(
                "53300",
                f"you have {user.max_connections} connections, as many as you may have",
                "close one that you do not use",
            )
        self._live[connection.number] = connection
        self._none_left.clear()

    def held(self, analyst: str) -> int:
        """Return how many bytes of results all connections of an analyst keep."""
        return sum(each.held for each in self._live.values() if each.user.analyst == analyst)

    def leave(self, connection: LiveConnection) -> None:
        """Take out a connection that has ended."""
        if self._live.get(connection.number) is connection:
            del self._live[connection.number]
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
        """End all idle connections, the others behind what they run, and let no one in any more."""
        self._closing = True
        for connection in list(self._live.values()):
            connection.end(FatalError("57P01", _SHUTTING_DOWN))

    def cancel(self) -> None:
        """Stop all statements that run."""
        for connection in list(self._live.values()):
            connection.cancel()

    async def closed(self) -> None:
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
        """Count a message of so many bytes; return the seconds to wait, 0 within the burst.

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
    accounts: Accounts = field(default_factory=Accounts)
    """Count what is decoded for each connection and analyst, and for all."""
    statement_timeout: int = 300_000
    """Milliseconds that a statement may run; a client may choose fewer."""
    max_statement: int = 65_536
    """Characters of what a client sends as one query."""

    @property
    def gate(self) -> Gate:
        """Who may log in and ask: that of the service, for every protocol."""
        return self.service.gate
