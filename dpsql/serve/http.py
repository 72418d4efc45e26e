"""Serve ASGI applications, such as that of MCP, in the server's event loop, on connections of limited time.

`HttpFront` serves one at an address. `RequestGuard` refuses the requests of other sites, and adds headers
that browsers obey. uvicorn itself waits for requests and readers for ever. It is of the extras `dpsql[http]`
and `dpsql[mcp]`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.errors import OperationalError
from dpsql.render.data import as_json
from dpsql.serve.gate import network
from dpsql.serve.limits import MOST_HEADERS, MOST_QUERY_STRING
from dpsql.serve.state import CLIENT, cannot_listen, common_name

if TYPE_CHECKING:
    from starlette.routing import Route

    from dpsql.policy import Address
    from dpsql.serve.state import Tls

_GRACE = 20
"""Seconds that requests have to end by themselves, less than the server's own drain."""
_BACKLOG = 128
SECONDS = 10.0
"""Seconds in which a request has to come whole, and after an answer the next one."""
LEAST_READ = 32 << 10
"""Bytes that a client has to read in such a time, or half of what waits for it, if that is less."""
CONNECTIONS = 200
"""Connections that are answered at the same time; others are told to come again."""
_MOST = CONNECTIONS + CONNECTIONS // 2
_MOST_OF_ONE_NETWORK = CONNECTIONS // 2


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
"""The words of ASGI: an application is given a request's scope, and what receives and sends its messages."""


async def refuse(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Answer a request with this status and body, and end its connection, so that others find room."""
    headers = (*headers, (b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": body})


def unambiguous(application: Application) -> Application:
    """Return an application that refuses requests with two lengths, and ends their connections.

    Somebody between client and server could see another end of such a request than the server does, and take
    what is behind it for a request of somebody else.
    """

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope["headers"]} if scope["type"] == "http" else set()
        if not {b"content-length", b"transfer-encoding"} <= names:
            await application(scope, receive, send)
        else:
            await refuse(send, 400, b"two lengths")

    return answer


MARK = b"x-dpsql"
"""A header that a page of another site cannot send without being asked for permission, which nobody gives."""

_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_SAFE = ("GET", "HEAD")

_PORTS = {"http": "80", "https": "443"}


class RequestGuard:
    """An ASGI application around another one; `hosts` are the accepted values of the header Host."""

    def __init__(
        self,
        application: Application,
        routes: Sequence[Route],
        hosts: Iterable[str],
        origins: Iterable[str] = (),
        page: str = "/",
    ) -> None:
        self._application = application
        self.routes = tuple(routes)
        """The routes of the application."""
        self._page = page
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower() for origin in origins}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                given = {name for name, _ in message["headers"]}
                more = [pair for pair in HEADERS if pair[0] not in given]
                if b"cache-control" not in given:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refused = self._find_refusal(scope)
        if refused is not None:
            await _refuse_as_json(send_with_headers, *refused)
            return
        try:
            await self._application(scope, receive, send_with_headers)
        except Exception as problem:  # noqa: BLE001  its text may hold private values
            if not begun:
                what = f"internal error ({type(problem).__name__}): this is a bug of dpsql"
                await _refuse_as_json(send_with_headers, 500, what, "report it to the owner of the data")

    def _find_refusal(self, scope: Message) -> tuple[int, str, str] | None:
        """Return how a request is refused; None if it is not."""
        if len(scope.get("query_string", b"")) > MOST_QUERY_STRING:
            return (
                414,
                f"what stands behind ? has more than {MOST_QUERY_STRING:,} bytes",
                "shorten the address",
            )
        headers = _headers_of(scope)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self._is_known(hosts[0].lower(), scope["scheme"]):
            hint = "use the address that the server was started with, or name this one in allowed_hosts"
            return 421, "this server has another name", hint
        if any(len(headers.get(name, [])) > 1 for name in (b"origin", b"authorization", b"cookie", MARK)):
            return 400, "a header is given twice", "send it once"
        origin = headers.get(b"origin", [None])[0]
        own = f"{scope['scheme']}://{hosts[0]}".lower()
        if origin is not None and origin.lower() != own and origin.lower() not in self._origins:
            return 403, "another site sent this request", "open the page itself"
        site = headers.get(b"sec-fetch-site", ["none"])[0]
        if site not in ("same-origin", "none") and not self._follows_link(scope, headers):
            return 403, "another site sent this request", "open the page itself"
        return None

    def _follows_link(self, scope: Message, headers: dict[bytes, list[str]]) -> bool:
        """Whether somebody follows a link to the page, which shows nothing by itself."""
        navigates = headers.get(b"sec-fetch-mode") == ["navigate"]
        return navigates and scope["method"] in _SAFE and scope["path"] == self._page

    def _is_known(self, host: str, scheme: str) -> bool:
        return host in self._hosts or f"{host}:{_PORTS.get(scheme, '')}" in self._hosts


def _headers_of(scope: Message) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value.decode("latin-1"))
    return found


async def _refuse_as_json(send: Send, status: int, refused: str, hint: str) -> None:
    facts = as_json({"refused": refused, "hint": hint}).encode("utf-8", "backslashreplace")
    await refuse(send, status, facts, (b"content-type", b"application/json"))


def hosts_of(address: Address, more: tuple[str, ...] = ()) -> list[str]:
    """Return the values of the header Host that stand for an address."""
    names = ["127.0.0.1", "localhost", "[::1]"] if address.local else [address.host]
    return [*(f"{name}:{address.port}" for name in names), *more]


class LimitedProtocol(H11Protocol):
    """Ends connections whose request does not come, whose answers are not read, or that are too many.

    Of one network fewer are too many than of all.
    """

    _deadline: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _resumed = False
    """Whether the client has read so much since it was looked at last that its answer went on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection: keep the name in its certificate; end it if there are too many."""
        super().connection_made(transport)
        encrypted = transport.get_extra_info("ssl_object")
        if encrypted is not None and encrypted.context.verify_mode == ssl.CERT_REQUIRED:
            self.app_state = {**self.app_state, CLIENT: common_name(encrypted)}
        origin = _origin(self)
        same = sum(_origin(each) == origin for each in self.connections if isinstance(each, H11Protocol))
        if len(self.connections) > _MOST or same > _MOST_OF_ONE_NETWORK:
            transport.abort()
        else:
            self._wait()
            self._look(0)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request from the network."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request of the connection."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers of a connection that has ended."""
        super().connection_lost(exc)
        self._forget()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def resume_writing(self) -> None:
        """Go on with the answer: the client has read most of what was written."""
        super().resume_writing()
        self._resumed = True

    def _look(self, before: int) -> None:
        """End the connection if its client reads next to nothing; also one that is being closed.

        A transport that is closed waits for ever until what was written is read.
        """
        left = self.transport.get_write_buffer_size()
        if 0 < before < left + min(LEAST_READ, before // 2 + 1) and left and not self._resumed:
            self.transport.abort()
            return
        self._resumed = False
        self._watch = self.loop.call_later(SECONDS, self._look, left)

    def _wait(self) -> None:
        """Begin to wait for a request, or go on; stop if it has come whole."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(SECONDS, self._give_up)

    def _give_up(self) -> None:
        """End a connection whose request did not come; while its client reads an answer, look again later."""
        self._deadline = None
        if self.transport.get_write_buffer_size():
            self._wait()
        else:
            self.transport.abort()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _origin(protocol: H11Protocol) -> str:
    return network(protocol.client[0]) if protocol.client else ""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield  # signals are for the whole server


class HttpFront:
    """An application on one address: with TLS where other machines reach it or clients need certificates.

    `application` makes it, given the address with the port that the system chose where the policy says 0.
    `path` is where its URL leads.
    """

    def __init__(
        self, application: Callable[[Address], Any], address: Address, tls: Tls | None, path: str = "/mcp"
    ) -> None:
        self._application = application
        self._address = address
        self._tls = None if address.local and not (tls is not None and tls.clients) else tls
        self._path = path
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> list[str]:
        """Begin to serve, and return the URLs."""
        secured: dict[str, Any] = {}
        if self._tls is not None:
            secured = {"ssl_certfile": self._tls.certificate, "ssl_keyfile": self._tls.key}
        opened = _open_socket(self._address)
        address = replace(self._address, port=opened.getsockname()[1])
        config = uvicorn.Config(
            unambiguous(self._application(address)),
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,  # whoever connects could give another address, and escape its delays
            http=LimitedProtocol,
            limit_concurrency=CONNECTIONS,
            h11_max_incomplete_event_size=MOST_HEADERS,
            timeout_graceful_shutdown=_GRACE,
            **secured,
        )
        config.load()
        if config.ssl is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
            if self._tls is not None and self._tls.authorities is not None:
                config.ssl.load_verify_locations(self._tls.authorities)
                config.ssl.verify_mode = ssl.CERT_REQUIRED
        self._server = server = _Server(config)
        self._task = asyncio.create_task(server.serve([]))
        while not server.started and not self._task.done():
            await asyncio.sleep(0.01)
        if self._task.done():
            opened.close()
            await self._task
            raise OperationalError(f"the HTTP server at {address} did not start")

        def protocol() -> asyncio.Protocol:
            return LimitedProtocol(config, server.server_state, server.lifespan.state)

        # uvicorn's own listener would wait a minute for each TLS handshake.
        timeout = None if config.ssl is None else SECONDS
        listener = await asyncio.get_running_loop().create_server(
            protocol, sock=opened, ssl=config.ssl, ssl_handshake_timeout=timeout, backlog=_BACKLOG
        )
        server.servers.append(listener)
        return [f"{'http' if self._tls is None else 'https'}://{address}{self._path}"]

    async def stop(self) -> None:
        """Stop serving; return when the requests have ended, or their time is over."""
        if self._task is not None:
            self._server.should_exit = True
            await self._task


def _open_socket(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        made = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        raise cannot_listen(address, problem) from None
    # Of a socket that it did not make asyncio does not know that it is TCP, and leaves the delay on: the body
    # of an answer then waits 40 ms for the client to acknowledge its head.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
