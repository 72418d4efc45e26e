"""A server's connections for tests, without a listener: each client has one end of a pair of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dpsql.login.scram import Verifier
from dpsql.serve import state
from dpsql.serve.gate import Gate
from dpsql.serve.service import Service
from dpsql.serve.users import Account, User, Users
from dpsql.serve.wire import WireProtocol
from dpsql.serve.wire.startup import Connections, WireContext
from tests.serve.answers import AnsweringService
from tests.serve.frontend import Frontend

_T = TypeVar("_T")
PASSWORD = "correct horse"
VERIFIER = Verifier.of(PASSWORD, b"0123456789abcdef")


def users(most: int = 20) -> Users:
    listed = [
        User("alice", "alice", max_connections=most),
        User("ali", "alice", max_connections=most),
        User("bob", "bob", max_connections=most),
    ]
    return Users({user.name: Account(user, VERIFIER) for user in listed}, b"s" * 32)


@dataclass
class Bench:
    """The server's side of some connections, and how to open one."""

    tls: state.Tls | None = None
    tls_required: bool = False
    most: int = 20
    maximum: int = 200
    handshakes: int = 100
    events: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    opened: list[Frontend] = field(default_factory=list)

    def start(self) -> None:
        self.service = AnsweringService()
        self.service.gate = Gate(users(self.most))
        self.connections = Connections(maximum=self.maximum, handshakes=self.handshakes)
        self.context = WireContext(
            name="shop",
            service=self.service,  # type: ignore[arg-type]  # what the connections use of one
            tls=self.tls,
            connections=self.connections,
            log=lambda event, fields: self.events.append((event, fields)),
        )

    async def connect(self) -> Frontend:
        """Open a connection that has sent nothing yet."""
        client, server = socket.socketpair()
        for end in (client, server):
            end.setblocking(False)
        factory = WireProtocol(self.context).factory(tls_required=self.tls_required)
        await asyncio.get_running_loop().connect_accepted_socket(factory, server)
        reader, writer = await asyncio.open_connection(sock=client)
        self.opened.append(Frontend(reader, writer))
        return self.opened[-1]

    async def log_in(self, user: str = "alice", **parameters: str) -> Frontend:
        """Open a connection and log in; `parameters` are those of the startup message."""
        frontend = await self.connect()
        return await frontend.log_in(user, PASSWORD, parameters=parameters)

    def forget(self) -> None:
        """Drop what was noted of connections that have ended, but for errors that are not dpsql's own."""
        self.events[:] = [one for one in self.events if one[0] == "bug"]
        self.service.forget(self.connections.live)

    async def close(self) -> None:
        for frontend in self.opened:
            frontend.writer.close()
        async with asyncio.timeout(20):
            await self.connections.wait_closed()


class Real(Bench):
    """Connections to a service that answers from data."""

    real: Service

    def start(self) -> None:
        super().start()
        self.real.gate.users = self.service.gate.users
        self.context.service = self.real


Test = Callable[[Bench], Coroutine[object, object, _T]]


def run(test: Test[_T], bench: Bench | None = None, *, seconds: float = 60) -> _T:
    """Run a test in an event loop of its own; no connection and no task may be left of it."""
    bench = bench or Bench()

    async def whole() -> _T:
        bench.start()
        try:
            async with asyncio.timeout(seconds):
                return await test(bench)
        finally:
            await bench.close()

    return asyncio.run(whole())
