"""Types of the parts of which `Server` is made: what answers, the protocols, the open connections.

They are protocols of `typing`, so that the server can be tested without the parts themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from dpsql.ledger import Budget
    from dpsql.policy import Policy, ServeConfig
    from dpsql.serve.accounts import Users
    from dpsql.serve.figures import Figures
    from dpsql.serve.state import State


class Service(Protocol):
    """Answers statements. What blocks is called in a thread beside the event loop's."""

    @property
    def messages(self) -> tuple[str, ...]:
        """What the owner should know of the ledger that is open."""

    def reload(self, policy: Policy, config: ServeConfig, users: Users) -> object:
        """Answer on another policy from now on, or raise `Error` and change nothing; blocks."""

    def shut_down(self) -> None:
        """Accept no further statement."""

    def cancel_all(self) -> None:
        """Stop what runs."""

    def close(self) -> None:
        """Close the engines and the ledger; blocks."""

    def ready(self) -> bool:
        """Return whether the policy is open and the ledger can be written; blocks."""

    def figures(self) -> Figures:
        """Return what was counted."""

    def budget(self, analyst: str | None) -> Budget:
        """Return the budget of the policy or of an analyst; blocks."""


class Connections(Protocol):
    """The connections that are open."""

    handshakes: int
    """How many clients have not logged in yet."""

    def __len__(self) -> int: ...

    def shutdown(self) -> None:
        """End the idle ones now, the others behind what they run, and let no one in."""

    def cancel(self) -> None:
        """Stop what they run."""

    async def closed(self) -> None:
        """Wait until none is left."""


class Wire(Protocol):
    """The protocol that is spoken on the listening sockets."""

    @property
    def connections(self) -> Connections:
        """The connections of all listeners."""

    def factory(self, *, tls_required: bool) -> Callable[[], asyncio.BaseProtocol]:
        """Return what makes the protocol of each connection."""

    def assign(self, state: State) -> None:
        """Use what was read for logins from now on."""


class Front(Protocol):
    """What serves another protocol than PostgreSQL's, on sockets of its own."""

    async def start(self) -> list[str]:
        """Begin to serve, and return the addresses."""

    async def stop(self) -> None:
        """End when what runs has ended."""
