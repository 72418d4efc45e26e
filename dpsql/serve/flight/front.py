"""`FlightFront`: the gRPC server of Flight SQL, in the server's event loop.

Nothing but a handshake is answered before a login. gRPC reads no message longer than the limit, takes no
compressed ones, and tells the address of each call.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import grpc

from dpsql.errors import OperationalError, PolicyError
from dpsql.serve.flight import messages as m
from dpsql.serve.flight.calls import ACTIONS, Calls
from dpsql.serve.flight.errors import FlightError, abort
from dpsql.serve.flight.protobuf import write
from dpsql.serve.flight.sessions import Session, Sessions, basic

if TYPE_CHECKING:
    from dpsql.policy import Address, ServeConfig
    from dpsql.serve.accounts import Users
    from dpsql.serve.service import Service
    from dpsql.serve.throttle import Throttle
    from dpsql.serve.tls import Tls

LARGEST_MESSAGE = 1 << 20
"""Bytes of a message from a client, as on the wire: nothing is read of a longer one."""
LARGEST_HEADERS = 16 << 10
STREAMS = 32
"""Calls at the same time on one connection."""
CALLS, CALLS_OF_USER = 400, 40
"""Calls at the same time in all, and of one user."""
SECONDS = 10
"""Seconds that a client has for a handshake of TLS or HTTP/2, and for its first bytes of a stream."""
STALLED = 60.0
"""Seconds after which a client is cut that does not read."""
_GRACE = 20.0
"""Seconds that calls have to end by themselves, less than the server's own drain."""
_IDENTITY = 1
"""The set of compressions that are accepted: none, so that no message is larger than it looks."""

_Context = Any
_Handler = Callable[[Any, Any], Any]


def _options(connections: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", LARGEST_MESSAGE),
        ("grpc.max_metadata_size", LARGEST_HEADERS),
        ("grpc.absolute_max_metadata_size", LARGEST_HEADERS),
        ("grpc.max_concurrent_streams", STREAMS),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY),
        ("grpc.server_handshake_timeout_ms", SECONDS * 1000),
        ("grpc.max_connection_idle_ms", 60_000),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.so_reuseport", 0),  # another process would be given a part of the calls
    ]


def flight_front(
    service: Callable[[], Service],
    users: Callable[[], Users],
    config: ServeConfig,
    throttle: Throttle,
    log: Callable[[str, Mapping[str, object]], None],
    tls: Tls | None,
) -> FlightFront:
    """Return the server of Flight SQL at the address of the configuration."""
    address = config.flight.listen
    assert address is not None  # noqa: S101  without an address nothing is served
    sessions = Sessions(service, users, config, throttle, log)
    return FlightFront(Calls(sessions, config), sessions, address, tls, connections=config.max_connections)


class FlightFront:
    """Flight SQL on one address: with TLS where other machines reach it or clients need certificates."""

    def __init__(
        self,
        calls: Calls,
        sessions: Sessions,
        address: Address,
        tls: Tls | None,
        *,
        connections: int = 200,
        stalled: float = STALLED,
    ) -> None:
        self._calls = calls
        self._sessions = sessions
        self._address = address
        self._tls = None if address.local and not (tls is not None and tls.clients) else tls
        self._connections = connections
        self._stalled = stalled
        self._server: grpc.aio.Server | None = None
        self._calling: Counter[str] = Counter()

    async def start(self) -> list[str]:
        """Begin to serve, and return the URL."""
        if not self._address.local and self._tls is None:
            raise PolicyError(f"flight.listen: {self._address} is reached from other machines, without TLS")
        logging.getLogger("grpc").disabled = True  # it would write errors with their texts
        logging.getLogger("grpc._cython.cygrpc").disabled = True
        server = grpc.aio.server(options=_options(self._connections), maximum_concurrent_rpcs=CALLS)
        server.add_generic_rpc_handlers((_Methods(self._methods()),))
        try:
            if self._tls is None:
                port = server.add_insecure_port(str(self._address))
            else:
                port = server.add_secure_port(str(self._address), _credentials(self._tls))
        except RuntimeError:
            await server.stop(0)
            raise OperationalError(
                f"cannot listen on {self._address}: another program listens there, or it is no address here"
            ) from None
        await server.start()
        self._server = server
        shown = replace(self._address, port=port)
        return [f"grpc{'' if self._tls is None else '+tls'}://{shown}"]

    async def stop(self) -> None:
        """Stop serving; return when the calls have ended, or their time is over."""
        if self._server is not None:
            await self._server.stop(_GRACE)

    # -- methods

    def _methods(self) -> dict[str, grpc.RpcMethodHandler]:
        calls = self._calls

        async def actions(_: Session) -> list[bytes]:
            return [write(m.ACTION_TYPE, {"type": k, "description": text}) for k, text in ACTIONS.items()]

        async def act(session: Session, request: bytes) -> list[bytes]:
            return [write(m.RESULT, {"body": body}) for body in await calls.act(session, request)]

        unary, streams = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        both = grpc.stream_stream_rpc_method_handler
        return {
            "Handshake": both(self._handshake),
            "GetFlightInfo": unary(self._unary(calls.info)),
            "GetSchema": unary(self._unary(calls.schema)),
            "DoGet": streams(self._get),
            "DoPut": both(self._put),
            "DoAction": streams(self._several(act)),
            "ListActions": streams(self._several(lambda session, _: actions(session))),
        }

    def _unary(self, answer: Callable[[Session, bytes], Awaitable[bytes]]) -> _Handler:
        async def method(request: bytes, context: _Context) -> bytes:
            try:
                async with self._session(context) as session:
                    return await answer(session, request)
            except Exception as error:  # noqa: BLE001  of a bug the client is told that it is one
                return await abort(context, error)

        return method

    def _several(self, answer: Callable[[Session, bytes], Awaitable[list[bytes]]]) -> _Handler:
        async def method(request: bytes, context: _Context) -> None:
            try:
                async with self._session(context) as session:
                    for each in await answer(session, request):
                        await self._send(context, each)
            except Exception as error:  # noqa: BLE001  as above
                await abort(context, error)

        return method

    async def _get(self, request: bytes, context: _Context) -> None:
        try:
            async with self._session(context) as session, aclosing(self._calls.get(session, request)) as rows:
                async for each in rows:
                    await self._send(context, each)
        except Exception as error:  # noqa: BLE001  as above
            await abort(context, error)

    async def _put(self, requests: AsyncIterator[bytes], context: _Context) -> None:
        try:
            async with self._session(context) as session:
                await self._send(context, await self._calls.put(session, self._received(requests)))
        except Exception as error:  # noqa: BLE001  as above
            await abort(context, error)

    async def _handshake(self, _: AsyncIterator[bytes], context: _Context) -> None:
        """Answer a login by the header `authorization`; what the client's messages say is not read."""
        try:
            token = await self._sessions.log_in(*_login(context), *self._origin(context))
            await context.send_initial_metadata((("authorization", f"Bearer {token}"),))
            await self._send(context, write(m.HANDSHAKE, {"payload": token}))
        except Exception as error:  # noqa: BLE001  as above
            await abort(context, error)

    @asynccontextmanager
    async def _session(self, context: _Context) -> AsyncIterator[Session]:
        """Give the session of a call, which is counted in this block."""
        session = await self._sessions.of_call(_header(context), *self._origin(context))
        name = session.name
        if self._calling[name] >= CALLS_OF_USER:
            raise FlightError("53300", f"you make {CALLS_OF_USER} calls at the same time, as many as you may")
        self._calling[name] += 1
        try:
            yield session
        finally:
            self._calling[name] -= 1
            if not self._calling[name]:
                del self._calling[name]

    def _origin(self, context: _Context) -> tuple[str, str | None]:
        """Return the address of a call, and the name in its certificate if one is needed."""
        if self._tls is None or not self._tls.clients:
            return address_of(context.peer()), None
        names = context.auth_context().get("x509_common_name", ())
        name = bytes(names[0]).decode(errors="replace") if len(names) == 1 else ""  # which is no user's
        return address_of(context.peer()), name

    async def _send(self, context: _Context, message: bytes) -> None:
        """Send a message; a client that does not read is cut."""
        try:
            async with asyncio.timeout(self._stalled):
                await context.write(message)
        except TimeoutError:
            raise FlightError("57014", "the answer was not read in time") from None

    async def _received(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what a client sends; one that stops sending is cut."""
        source = aiter(requests)
        while True:
            try:
                async with asyncio.timeout(SECONDS):
                    message = await anext(source)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise FlightError("57014", "nothing more was sent in time") from None
            yield message


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC has no types
    """Finds the method of a call by its path."""

    def __init__(self, methods: dict[str, grpc.RpcMethodHandler]) -> None:
        self._methods = methods

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        service, _, name = details.method.rpartition("/")
        return self._methods.get(name) if service == "/arrow.flight.protocol.FlightService" else None


def _header(context: _Context) -> str:
    """Return the header `authorization`; the same error for none, several, and one of bytes."""
    found = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
    return found[0] if len(found) == 1 and isinstance(found[0], str) else ""


def _login(context: _Context) -> tuple[str, str]:
    """Return the name and the password that a client sends."""
    scheme, _, rest = _header(context).partition(" ")
    if scheme.lower() != "basic":
        raise FlightError("28000", "this needs a login", "send name and password as Basic")
    return basic(rest)


def address_of(peer: str) -> str:
    """Return the IP address in gRPC's name of a client.

    >>> address_of("ipv4:127.0.0.1:4711"), address_of("ipv6:%5B::1%5D:4711"), address_of("unix:")
    ('127.0.0.1', '::1', '')
    """
    kind, _, rest = unquote(peer).partition(":")
    host = rest.rpartition(":")[0].strip("[]")
    try:
        return str(ipaddress.ip_address(host.partition("%")[0])) if kind in ("ipv4", "ipv6") else ""
    except ValueError:
        return ""


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    """Return gRPC's form of the server's TLS (1.2 and newer)."""
    try:
        pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
        roots = None if tls.authorities is None else tls.authorities.read_bytes()
    except OSError as problem:
        raise PolicyError(f"the certificate cannot be read: {problem.strerror}") from None
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=tls.clients)
