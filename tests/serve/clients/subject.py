"""What each client is asked to do, and what it should come back with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tests.serve.clients.cookbook import Answered, Rows
from tests.serve.clients.shop import PASSWORD, Shop


class NotOffered(Exception):  # noqa: N818  no error: a test is skipped
    """The client has no such thing."""


@dataclass(frozen=True)
class Login:
    """Who the client is to the server, and how its connection is secured."""

    user: str
    tls: bool
    bound: bool
    """The client insisted on binding the login to the certificate."""


@dataclass(frozen=True)
class Refusal:
    """What a client shows of an error; None where it shows no such thing."""

    text: str
    sqlstate: str | None = None
    position: int | None = None
    """In characters of the statement, from 1."""


@dataclass(frozen=True)
class Cancelled:
    """What a client saw of a cancelled statement, and the answer of `SELECT 2` on the same connection.

    `next` is None for a client that ends when it is cancelled.
    """

    text: str
    next: object | None


class Subject:
    """A client that was not made for dpsql, driven as its users drive it. Each method logs in anew."""

    name: ClassVar[str]

    def missing(self) -> str | None:
        """Say what this machine lacks to run the client; None if nothing."""
        return None

    def login(self, shop: Shop) -> Login:
        raise NotOffered

    def cookbook(self, shop: Shop, statements: Sequence[str]) -> list[Answered]:
        """Ask statements as `alice`."""
        raise NotOffered

    def parameters(self, shop: Shop) -> list[Rows]:
        """Ask PARAMETERS by prepared statements; return the rows of each statement for each of its values."""
        raise NotOffered

    def large(self, shop: Shop) -> int:
        """Read all rows of LARGE; return how many there are."""
        raise NotOffered

    def refused(self, shop: Shop) -> Refusal:
        """Send WRONG; return what the client shows of the error."""
        raise NotOffered

    def cancelled(self, shop: Shop) -> Cancelled:
        """Send LONG as `bob` and cancel it; return what the client shows of that."""
        raise NotOffered

    def browsed(self, shop: Shop) -> dict[str, list[str]]:
        """Return the tables, with the columns of `visits`, as the client's own functions list them."""
        raise NotOffered


def conninfo(shop: Shop, user: str = "alice", *, host: str = "localhost") -> str:
    """Return a connection string of libpq without the password, which insists on all that secures a login."""
    return (
        f"host={host} port={shop.wire} user={user} dbname=shop sslmode=verify-full"
        f" sslrootcert={shop.certificate} channel_binding=require"
    )


def url(shop: Shop, scheme: str, user: str = "alice") -> str:
    """Return a URL of the server with the password, which insists on all that secures a login."""
    secured = f"sslmode=verify-full&sslrootcert={shop.certificate}&channel_binding=require"
    return f"{scheme}://{user}:{PASSWORD.replace(' ', '%20')}@localhost:{shop.wire}/shop?{secured}"
