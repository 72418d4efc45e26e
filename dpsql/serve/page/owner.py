"""The owner's page, on this machine alone: behind a key that is made at each start, and kept in a file.

The page sends the key in a header. A cookie would be sent to whatever else is served on this machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from dpsql import __version__
from dpsql.errors import OperationalError
from dpsql.login.entropy import draw_text
from dpsql.serve import state
from dpsql.serve.http import HttpFront
from dpsql.serve.page.application import address_of, hosts_of
from dpsql.serve.page.guard import Guard
from dpsql.serve.page.owner_facts import ledger_facts, policy_facts, users_facts
from dpsql.serve.page.requests import RefusedError, body, file_routes, refusal_response

if TYPE_CHECKING:
    from starlette.requests import Request

    from dpsql.policy import Address
    from dpsql.serve.json_facts import Facts
    from dpsql.serve.service import Service

FILES = (
    ("/owner", "owner.html"),
    ("/page.css", "page.css"),
    ("/owner.js", "owner.js"),
    ("/dom.js", "dom.js"),
    ("/theme.js", "theme.js"),
    ("/icon.svg", "icon.svg"),
)
PATH = "/owner"
LINK = "dpsql-owner-page.url"
"""The file with the page's address and key, beside the users file."""


def link_file(users: Path) -> Path:
    """Return the path of the file with the link, given that of the users file."""
    return users.parent / LINK


class OwnerPages:
    """The owner's application: everything is read, nothing is changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.key = draw_text(32)

    def routes(self) -> list[Route]:
        """Return the routes of JSON."""
        return [Route("/owner/v1/overview", self._overview, methods=["GET"])]

    async def _overview(self, request: Request) -> Response:
        try:
            self._check(request)
            return Response(
                await asyncio.to_thread(lambda: body(self._facts())), media_type="application/json"
            )
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            return refusal_response(problem)

    def _check(self, request: Request) -> None:
        """Refuse a request from another machine, or without the key."""
        _from_this_machine(request)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(_hash(given), _hash(self.key)):
            raise RefusedError(401, "this is not the key of this server", f"open the link in the file {LINK}")

    def _facts(self) -> Facts:
        service, users = self._service, self._service.gate.users
        generation = service.generation
        with generation.use():
            policy, database = generation.policy, generation.database
            found = policy_facts(policy, database.engines().schema_database)
            opened = [f"when the ledger was opened: {text}" for text in service.messages]
            found["warnings"] += [*state.warnings(policy, users), *opened]
            return {
                "version": __version__,
                "database": generation.config.name,
                "connected": len(service.clients),
                **ledger_facts(database.ledger, policy, {user.analyst for user in users}),
                "users": users_facts(users, users.day()),
                "policy": found,
            }


class OwnerFront(HttpFront):
    """Serves the owner's page on a loopback address, without TLS, and keeps its link in a file."""

    def __init__(self, service: Service, address: Address, link: Path) -> None:
        self._pages = OwnerPages(service)
        self._link = link
        super().__init__(lambda bound: owner_app(self._pages, bound), address, None, PATH)

    async def start(self) -> list[str]:
        """Begin to serve; the URLs are without the key, since they are logged."""
        urls = await super().start()
        try:
            self._link.unlink(missing_ok=True)
            file = os.open(self._link, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as out:
                out.write(f"{urls[0]}#{self._pages.key}\n")
        except OSError as problem:
            await super().stop()
            why = problem.strerror or "it cannot be written"
            raise OperationalError(f"the link of the owner's page, {self._link}: {why}") from None
        return urls

    async def stop(self) -> None:
        """Stop serving, and take the file away."""
        with suppress(OSError):
            self._link.unlink(missing_ok=True)
        await super().stop()


def owner_app(pages: OwnerPages, address: Address) -> Guard:
    """Return the application of the owner at an address."""
    routes = [*file_routes(FILES), *pages.routes()]
    return Guard(Starlette(routes=routes), routes, hosts_of(address), page=PATH)


def _from_this_machine(request: Request) -> None:
    try:
        local = ipaddress.ip_address(address_of(request)).is_loopback
    except ValueError:
        local = False
    if not local:
        raise RefusedError(403, "the owner's page is for this machine alone")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
