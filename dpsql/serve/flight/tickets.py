"""`Tickets`: what `GetFlightInfo` has priced and its user may fetch by `DoGet`, once, within ten minutes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpsql.login import entropy
from dpsql.serve.flight.errors import FlightError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import pyarrow as pa

LIFETIME = 600.0
"""Seconds for which a ticket holds."""
MOST, MOST_BYTES = 100, 8 << 20
"""Tickets of one user, and bytes that are kept for them; another one ends the oldest of them."""


@dataclass(eq=False)
class Ticket:
    """What a ticket stands for. `work` asks the statement, and charges it if it is private."""

    user: str
    work: Callable[[], Awaitable[pa.Table]] = field(repr=False)
    size: int = 0
    """Bytes that are kept for it, about."""
    ends: float = 0.0


class Tickets:
    """The tickets that were issued. Only the thread of the event loop uses it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[bytes, Ticket] = {}
        """By the hash of the ticket, so that no time tells anything of one; the oldest first."""

    def __len__(self) -> int:
        return len(self._tickets)

    def issue(self, ticket: Ticket) -> bytes:
        """Return the random bytes that redeem a ticket."""
        now = self._clock()
        ticket.ends = now + LIFETIME
        for key in [key for key, each in self._tickets.items() if each.ends <= now]:
            del self._tickets[key]
        own = [(key, each.size) for key, each in self._tickets.items() if each.user == ticket.user]
        while own and (len(own) >= MOST or sum(size for _, size in own) + ticket.size > MOST_BYTES):
            del self._tickets[own.pop(0)[0]]
        secret = entropy.key(32)
        self._tickets[_hashed(secret)] = ticket
        return secret

    def redeem(self, secret: bytes, user: str) -> Ticket:
        """Use a ticket up; raises `FlightError`, with the same words for all tickets that do not hold."""
        found = self.revoke(secret, user)
        if found is None:
            raise FlightError(
                "22023",
                "the ticket is not known, was used or has expired; nothing was charged",
                "a ticket holds once, for ten minutes: ask GetFlightInfo again",
            )
        return found

    def revoke(self, secret: bytes, user: str) -> Ticket | None:
        """End a ticket of a user and return it; None if he has no such ticket. That of another user stays."""
        key = _hashed(secret)
        found = self._tickets.get(key)
        if found is None or found.user != user:
            return None
        del self._tickets[key]
        return found if found.ends > self._clock() else None


def _hashed(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
