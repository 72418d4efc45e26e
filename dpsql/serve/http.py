"""Serve ASGI applications, such as that of MCP, in the server's event loop (uvicorn)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsql.errors import OperationalError
from dpsql.serve.limits import MOST_HEADERS
from dpsql.serve.listening import cannot_listen

if TYPE_CHECKING:
    from dpsql.policy import Address
    from dpsql.serve.tls import Tls

_GRACE = 20
"""Seconds that requests have to end by themselves, less than the server's own drain."""
_BACKLOG = 128


def unambiguous(application: Callable[..., Any]) -> Callable[..., Any]:
    """Return an application that refuses requests with two lengths, and ends their connections.

    Somebody between client and server could see another end of such a request than the server does, and take
    what is behind it for a request of somebody else.
    """

    async def answer(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        names = {name for name, _ in scope["headers"]} if scope["type"] == "http" else set()
        if not {b"content-length", b"transfer-encoding"} <= names:
            await application(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 400, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"two lengths"})

    return answer


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
        import uvicorn  # noqa: PLC0415  of the extras `dpsql[http]` and `dpsql[mcp]`

        from dpsql.serve.http_protocol import CONNECTIONS, SECONDS, LimitedProtocol  # noqa: PLC0415  as above

        class Server(uvicorn.Server):
            @contextmanager
            def capture_signals(self) -> Generator[None, None, None]:
                yield  # signals are for the whole server

        secured: dict[str, Any] = {}
        if self._tls is not None:
            secured = {"ssl_certfile": self._tls.certificate, "ssl_keyfile": self._tls.key}
        opened = _open(self._address)
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
        self._server = server = Server(config)
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


def _open(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        raise cannot_listen(address, problem) from None
