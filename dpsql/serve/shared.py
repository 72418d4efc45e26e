"""What all clients share: the policy that is open, the pools, the counts of statements, the other clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from dpsql.serve.admission import FairPool
from dpsql.serve.metrics import Counters, StatementRecord

if TYPE_CHECKING:
    from dpsql.serve.catalog.facts import ConnectionRow, Signal
    from dpsql.serve.gate import Gate, Login
    from dpsql.serve.generation import Generation
    from dpsql.serve.user import User

LIGHT, PLANNING, LONG, FREE = 2, 2, 2, 8
"""Threads for what was planned before; for planning short texts; for planning long ones; for the rest that is
free: public statements, the catalogue, queries over stored releases."""
SHORT = 2_000
"""The most characters of a short text, which does not wait for long ones."""


class Cancellable(Protocol):
    """A statement, or what a client asks now."""

    def cancel(self) -> None:
        """Stop it, from any thread."""


class ConnectedClient(Cancellable, Protocol):
    """What others see of a client, and do to it."""

    login: Login
    user: User
    number: int

    def row(self) -> ConnectionRow:
        """Return its row of `pg_stat_activity`."""

    def terminate(self) -> None:
        """Let the connection end."""


class Shared:
    """The part of the service that clients use. Any thread may use it."""

    def __init__(self, generation: Generation, gate: Gate) -> None:
        config = generation.config
        self.gate = gate
        self.generation = generation
        """The policy that is open now."""
        self.light = FairPool("light", LIGHT)
        self.free = FairPool("public", FREE)
        self._short, self._long = FairPool("planning", PLANNING), FairPool("long planning", LONG)
        self.heavy = FairPool(
            "private", config.max_running, waiting=config.queue, waiting_each=config.queue_per_analyst
        )
        self.closing = False
        """Whether the server runs no further statement."""
        self.ended = threading.Event()
        """Set when the service is closed: nothing waits any more."""
        self.on_statement: Callable[[StatementRecord], None] | None = None
        """Called for each statement that has ended, on any thread."""
        self.counters = Counters()
        self._abandoned: set[Cancellable] = set()
        self._clients: dict[int, ConnectedClient] = {}
        self._lock = threading.Lock()

    def planning(self, size: int) -> FairPool:
        """Return the pool in which texts of so many characters are split into tokens, parsed and analysed.

        Each pool does one piece of an analyst at a time, in turn with those of others: whoever sends long
        texts waits for himself, and nobody waits for them with short ones.
        """
        return self._short if size <= SHORT else self._long

    def record(self, record: StatementRecord, seconds: float) -> None:
        """Count a statement that has ended, and let it be logged."""
        self.counters.count(record.kind, record.outcome, seconds)
        if self.on_statement is not None:
            self.on_statement(record)

    def abandon(self, active: Cancellable, future: Future[object]) -> None:
        """Let a statement run on that nobody awaits any more; the end of the server stops it."""
        with self._lock:
            self._abandoned.add(active)
        future.add_done_callback(lambda _: self._end_abandoned(active))

    def _end_abandoned(self, active: Cancellable) -> None:
        with self._lock:
            self._abandoned.discard(active)

    # -- the clients that are connected; an analyst sees, cancels and ends his own connections alone

    @property
    def clients(self) -> list[ConnectedClient]:
        """The connected clients."""
        with self._lock:
            return list(self._clients.values())

    def clients_of(self, analyst: str) -> list[ConnectedClient]:
        """Return the clients of an analyst."""
        return [each for each in self.clients if each.user.analyst == analyst]

    def add(self, client: ConnectedClient) -> None:
        """Add a client, under its number."""
        with self._lock:
            self._clients[client.number] = client

    def forget(self, client: ConnectedClient) -> None:
        """Take a client from the list; of one that is not there, nothing."""
        with self._lock:
            if self._clients.get(client.number) is client:
                del self._clients[client.number]

    def signal(self, analyst: str, signal: Signal) -> bool:
        """Cancel or end a connection of an analyst; return whether it is one of his."""
        for client in self.clients_of(analyst):
            if client.number == signal.pid:
                (client.cancel if signal.kind == "cancel" else client.terminate)()
                return True
        return False

    # -- the end

    def shut_down(self) -> None:
        """Let no further statement begin."""
        self.closing = True

    def cancel_all(self) -> None:
        """Stop what runs and what waits, also what nobody awaits any more."""
        with self._lock:
            running: list[Cancellable] = [*self._clients.values(), *self._abandoned]
        for each in running:
            each.cancel()

    def close(self, within: float | None = None) -> bool:
        """Stop everything, and close the pools; return whether all has ended within so many seconds."""
        self.closing = True
        self.ended.set()
        self.cancel_all()
        until = None if within is None else time.monotonic() + within
        pools = (self.light, self._short, self._long, self.heavy, self.free)
        ended = [pool.close(None if until is None else until - time.monotonic()) for pool in pools]
        return all(ended)
