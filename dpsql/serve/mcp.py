"""The Model Context Protocol over HTTP: `/mcp` of the server, for programs with a token.

Each request names its user by a bearer token, which is looked up in the users of this moment. The headers
Host and Origin are checked, so that no page in somebody's browser reaches the server by another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from dpsql.serve.confirm import Confirmations, SpendingRule
from dpsql.serve.errors import LoginEnded
from dpsql.serve.gate import Login
from dpsql.serve.mcp_server import server
from dpsql.serve.mcp_sessions import LARGEST_REQUEST, SessionsOfUsers
from dpsql.serve.mcp_tools import Tools

if TYPE_CHECKING:
    from dpsql.policy import Address, McpConfig
    from dpsql.serve.service import Service


class _Access(AccessToken):
    """A token that was checked, with its login."""

    login: object
    """A `Login`: pydantic cannot read the types of its fields, which are imported for type checkers alone."""


class Programs:
    """The programs that are served: the user of a token, and the tools of the present request's user."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._confirmations = Confirmations(service.gate.users.secret)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whom a token belongs to now; None for one that is unknown or has expired."""
        login = self._service.gate.by_token(token)
        return None if login is None else _Access(token="", client_id=login.user.name, scopes=[], login=login)

    async def tools(self) -> Tools:
        """Return the tools of the user whose request this is."""
        access = get_access_token()
        login = access.login if isinstance(access, _Access) else None
        if not isinstance(login, Login):
            raise LoginEnded("the login is no longer valid")
        user = self._service.gate.user(login)
        config = self._service.policy.serve or self._service.generation.config
        rule = SpendingRule(self._confirmations, user.free_below, config.mcp.ask_person_above)
        return Tools(self._service.client_of(login, "mcp"), rule)


def http_app(service: Service, address: Address, config: McpConfig) -> SessionsOfUsers:
    """Return the application that answers at `/mcp`; what may be reloaded is asked for at each request."""
    names = ["127.0.0.1", "localhost", "[::1]"] if address.local else [address.host]
    security = TransportSecuritySettings(
        allowed_hosts=[*(f"{name}:{address.port}" for name in names), *config.allowed_hosts],
        allowed_origins=list(config.allowed_origins),
    )
    programs = Programs(service)
    # The tokens are the server's own, so there is no one else to name as their issuer.
    auth = AuthSettings(issuer_url=AnyHttpUrl(f"http://localhost:{address.port}"), resource_server_url=None)
    made = server(programs.tools, auth=auth, token_verifier=programs).streamable_http_app(
        transport_security=security, max_request_body_size=LARGEST_REQUEST
    )

    def user_of(token: str) -> str | None:
        login = service.gate.by_token(token)
        return None if login is None else login.user.name

    return SessionsOfUsers(made, user_of)
