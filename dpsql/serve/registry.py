"""The clients that are connected; an analyst sees, cancels and ends his own connections alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from dpsql.serve.catalog.facts import Connection, Encryption

if TYPE_CHECKING:
    from dpsql.serve.settings import Settings
    from dpsql.serve.user import User


class Connected(Protocol):
    """What is known of a client."""

    user: User
    number: int
    settings: Settings
    address: str
    encryption: Encryption | None
    started: datetime
    in_transaction: Callable[[], bool]

    @property
    def running(self) -> bool:
        """Whether a statement is asked now."""

    def cancel(self) -> None:
        """Stop what is asked now."""

    def terminate(self) -> None:
        """Let the connection end."""


_Client = TypeVar("_Client", bound=Connected)


class Registry(Generic[_Client]):
    """The connected clients, by number. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[int, _Client] = {}

    @property
    def clients(self) -> Mapping[int, _Client]:
        """The clients, to be read."""
        return MappingProxyType(self._clients)

    def all(self) -> list[_Client]:
        """Return the clients of all analysts."""
        with self._lock:
            return list(self._clients.values())

    def add(self, client: _Client) -> None:
        """Add a client, under its number."""
        with self._lock:
            self._clients[client.number] = client

    def forget(self, client: Connected) -> None:
        """Take a client from the list; of one that is not there, nothing."""
        with self._lock:
            if self._clients.get(client.number) is client:
                del self._clients[client.number]

    def rows(self, analyst: str) -> tuple[Connection, ...]:
        """Return the connections of an analyst, as rows of `pg_stat_activity`."""
        return tuple(_row(client) for client in self.all() if client.user.analyst == analyst)

    def signal(self, analyst: str, kind: Literal["cancel", "terminate"], number: int) -> bool:
        """Cancel or end a connection of an analyst; return whether it is one of his."""
        for client in self.all():
            if client.number == number and client.user.analyst == analyst:
                (client.cancel if kind == "cancel" else client.terminate)()
                return True
        return False


def _row(client: Connected) -> Connection:
    state: Literal["active", "idle", "idle in transaction"] = "idle"
    if client.running:
        state = "active"
    elif client.in_transaction():
        state = "idle in transaction"
    return Connection(
        client.number,
        client.user.name,
        client.settings.as_mapping().get("application_name", ""),
        client.address or None,
        started=client.started,
        state=state,
        encryption=client.encryption,
    )
