"""The Model Context Protocol over HTTP: `/mcp` of the server, for programs with a token; limits of each user.

``tools`` has the tools and resources by which programs price and ask statements.

Logins: each request names its user by a bearer token, which is looked up in the users of this moment. The
headers Host and Origin are checked, so that no page in somebody's browser reaches the server by another name.

Limits: `SessionsOfUsers` ends a user's oldest sessions where they are too many, and limits requests. The SDK
has one limit for all sessions, which one program could fill: no other would be let in.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from dpsql.serve.gate import Login
from dpsql.serve.http import Application, HttpFront, Message, Receive, Send, refuse
from dpsql.serve.limits import MOST_QUERY_STRING, LimitExceeded, LoginEnded, check_json
from dpsql.serve.mcp.tools import Tools, make_server
from dpsql.serve.state import CLIENT
from dpsql.serve.statement_service import Confirmations, SpendingRule

if TYPE_CHECKING:
    from dpsql.policy import Address, McpConfig
    from dpsql.serve.service import Service
    from dpsql.serve.state import State

LARGEST_REQUEST = 256 << 10
"""Bytes of a request: a statement is 64 KiB at most."""
MOST = 50
"""Sessions of one user; another one ends the one that was used least recently."""
MOST_AT_ONCE = 40
"""Requests of one user at the same time, those that wait for news among them."""
EVERY = 5.0
"""Seconds after which it is looked at again whether the token of an open stream still holds."""
_ID = b"mcp-session-id"


class SessionsOfUsers:
    """An ASGI application that limits the MCP sessions of each user; `user_of` returns a token's user."""

    def __init__(
        self,
        application: Application,
        user_of: Callable[[str], str | None],
        most: int = MOST,
        every: float = EVERY,
    ) -> None:
        self._application = application
        self._user_of = user_of
        self._most = most
        self._every = every
        self._sessions: dict[str, OrderedDict[bytes, None]] = {}
        """The ids of each user's sessions, the one that was used last at the end."""
        self._asked: Counter[str] = Counter()
        """How many requests of each user are being answered."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, and end the session that there is no room for any more."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        token = _headers_of(scope).get(b"authorization", b"")[len("Bearer ") :].decode("latin-1")
        user = self._user_of(token)
        state = scope.get("state") or {}
        if user is None or (CLIENT in state and state[CLIENT] != user):
            # Without a token it is refused in the same words, whether the token or the certificate is wrong.
            headers = [pair for pair in scope["headers"] if pair[0] != b"authorization"]
            await self._application({**scope, "headers": headers}, receive, send)
        elif self._asked[user] >= MOST_AT_ONCE:
            await refuse(send, 429, b"too many requests at the same time")
        elif len(scope.get("query_string", b"")) > MOST_QUERY_STRING:
            await refuse(send, 414, b"the address is too long")
        else:
            self._asked[user] += 1
            try:
                try:
                    measured = await _measure(scope, receive)
                except LimitExceeded as problem:
                    await refuse(send, 413, str(problem).encode())
                else:
                    if scope["method"] == "GET":  # a stream of news, which has no end of its own
                        measured = self._until_login_ends(measured, token, user)
                    await self._answer(scope, measured, send, user)
            finally:
                self._asked[user] -= 1

    def _until_login_ends(self, receive: Receive, token: str, user: str) -> Receive:
        """Return what tells the application that the program has gone, once its token holds no more."""

        async def receive_or_end() -> Message:
            coming = asyncio.ensure_future(receive())
            try:
                while not (await asyncio.wait({coming}, timeout=self._every))[0]:
                    if self._user_of(token) != user:
                        return {"type": "http.disconnect"}
                return coming.result()
            finally:
                coming.cancel()

        return receive_or_end

    async def _answer(self, scope: Message, receive: Receive, send: Send, user: str) -> None:
        given = _headers_of(scope)
        own = self._sessions.setdefault(user, OrderedDict())
        if given.get(_ID) in own:
            own.move_to_end(given[_ID])

        unfinished = False

        async def send_and_note(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or message.get("more_body", False)
            if message["type"] == "http.response.start" and message["status"] < 400 and _ID not in given:
                own.update((value, None) for name, value in message["headers"] if name.lower() == _ID)
            await send(message)

        await self._application(scope, receive, send_and_note)
        if unfinished:  # of a program that has gone nothing is sent
            await send({"type": "http.response.body", "body": b""})
        if given.get(_ID) in own and scope["method"] == "DELETE":
            del own[given[_ID]]
        while len(own) > self._most:
            await self._end(scope, own.popitem(last=False)[0])

    async def _end(self, scope: Message, session: bytes) -> None:
        """End a session of the user who makes this request, as the program itself would."""

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            return None

        kept = [pair for pair in scope["headers"] if pair[0] in (b"authorization", b"host")]
        await self._application(
            {**scope, "method": "DELETE", "headers": [*kept, (_ID, session)]}, receive, send
        )


async def _measure(scope: Message, receive: Receive) -> Receive:
    """Read a request's body and return what gives it again; raises `LimitExceeded` if it is too much JSON."""
    if scope["method"] != "POST":
        return receive
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return receive  # the program has gone
        body += message.get("body", b"")
        if len(body) > LARGEST_REQUEST:
            raise LimitExceeded(f"the body has more than {LARGEST_REQUEST:,} bytes", "54000")
        more = message.get("more_body", False)
    check_json(bytes(body), "program")
    given: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return given.pop() if given else await receive()

    return again


def _headers_of(scope: Message) -> dict[bytes, bytes]:
    """Return the headers; of several with one name the first, which the SDK reads."""
    return dict(reversed(scope["headers"]))


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


def make_fronts(
    state: State, service: Service, log: Callable[[str, Mapping[str, object]], None]
) -> list[HttpFront]:
    """Return the server of programs that speak MCP, at the address of `[mcp]`."""
    del log  # the service tells of each statement
    config = state.config.mcp
    if config.listen is None:
        return []
    return [HttpFront(lambda bound: http_app(service, bound, config), config.listen, state.tls)]


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
    made = make_server(programs.tools, auth=auth, token_verifier=programs).streamable_http_app(
        transport_security=security, max_request_body_size=LARGEST_REQUEST
    )

    def user_of(token: str) -> str | None:
        login = service.gate.by_token(token)
        return None if login is None else login.user.name

    return SessionsOfUsers(made, user_of)
