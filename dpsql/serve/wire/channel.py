"""`Channel`: the bytes of one connection, with TLS, limits of both buffers, and an end at any time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.catalog import Encryption
from dpsql.serve.state import Tls, common_name

SEND_BUFFER = 1 << 20
"""Bytes that may wait to be sent before the connection's work waits."""
RECEIVE_BUFFER = 2 << 20
"""Bytes that may wait to be read, more than the longest message; then the client has to wait."""
SLOW_READER = 60.0
"""Seconds in which a client that has to read must have read something."""
LINGER = 10.0
"""Seconds for the last bytes of a connection that the server ends."""
_GATHERED = 1 << 16
_TAKEN = 1 << 14
"""Bytes that are taken from one connection before others have their turn: a record of TLS."""
_KEEPALIVE = 60


class Disconnected(Exception):  # noqa: N818  an event
    """The client has gone, or was cut off."""


@dataclass(frozen=True, slots=True)
class Secured:
    """The TLS of a connection whose handshake is done."""

    settings: Tls
    """The certificate that this connection has seen; the server may have another one since."""
    connection: ssl.SSLObject

    @property
    def protocol(self) -> str | None:
        """The application protocol that the client chose (ALPN)."""
        return self.connection.selected_alpn_protocol()

    @property
    def encryption(self) -> Encryption:
        """The version of TLS and the cipher that were agreed on."""
        name, _, bits = self.connection.cipher() or (None, None, None)
        return Encryption(self.connection.version(), name, bits)

    @property
    def client_name(self) -> str | None:
        """The common name in the client's certificate, if it has shown one."""
        return common_name(self.connection)


class Channel(asyncio.BufferedProtocol):
    """The two streams of a connection. One task reads and writes; `interrupt` may come from elsewhere.

    The task is started by `serve`, when the connection is made. What is written is gathered, and sent by
    `flush` or `drain`. TLS is asyncio's. Its `StreamReader` is not used: it does not tell what has arrived
    and was not read, which may be plain text behind a request for TLS, and it takes 256 KiB at a time.
    """

    def __init__(self, serve: Callable[[Channel], Coroutine[object, object, None]]) -> None:
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._plain: asyncio.Transport
        """What sends the bytes of the network."""
        self._transport: asyncio.Transport
        """The same, or the TLS over it."""
        self._task: asyncio.Task[None]
        self._arriving = memoryview(b"")
        self._in = bytearray()
        self._out = bytearray()
        self.tls: Secured | None = None
        """The TLS of the connection, once its handshake is done."""
        self._encrypted = False
        """Whether a TLS handshake began, after which no side can go on alone."""
        self._news = asyncio.Event()
        """Set when something has arrived or happened."""
        self._room = asyncio.Event()
        """Set unless the send buffer is full."""
        self._room.set()
        self._closed = asyncio.Event()
        self._interrupt: BaseException | None = None
        self._ended = False
        self._paused = False
        self.address = ""
        """The client's address; empty on a Unix socket."""

    # -- events of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the task that serves the new connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  what a stream listener makes
        self._plain = self._transport = transport
        transport.set_write_buffer_limits(high=SEND_BUFFER)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.address = str(peer[0])
            _keep_alive(transport.get_extra_info("socket"))
        self._task = self._loop.create_task(self._serve(self))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the event loop puts what has come from the client."""
        del sizehint
        self._arriving = memoryview(bytearray(_TAKEN))
        return self._arriving

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has come from the client."""
        self._in += self._arriving[:nbytes]
        self._arriving = memoryview(b"")
        self._wake_reader()

    def eof_received(self) -> bool:
        """Note that the client sends nothing more; without TLS it may still read."""
        self._ended = True
        self._wake_reader()
        return not self._encrypted

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake all that wait for something of the connection, which is gone."""
        del exc
        self._ended = True
        for event in (self._closed, self._news, self._room):
            event.set()

    def pause_writing(self) -> None:
        """Note that the send buffer is full."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Note that the send buffer has room."""
        self._room.set()

    # -- reading

    @property
    def is_lost(self) -> bool:
        """Whether the client has ended the connection, so that nobody waits for an answer."""
        return self._ended

    @property
    def buffered_bytes(self) -> int:
        """Bytes that have arrived and were not read."""
        return len(self._in)

    async def peek(self) -> int | None:
        """Return the next byte without taking it; None at the end."""
        try:
            await self._wait_for(1)
        except Disconnected:
            return None
        return self._in[0]

    async def read(self, size: int) -> bytes:
        """Return that many bytes; raises `Disconnected` at the end, or what `interrupt` was given.

        If it has to wait, it sends what was gathered.
        """
        await self._wait_for(size)
        data = bytes(self._in[:size])
        del self._in[:size]
        if self._paused and len(self._in) < RECEIVE_BUFFER:
            self._paused = False
            self._transport.resume_reading()
        return data

    def check(self) -> None:
        """Raise if the connection has to end, or has ended."""
        if self._interrupt is not None:
            raise self._interrupt
        if self._closed.is_set():
            raise Disconnected

    def interrupt(self, error: BaseException) -> None:
        """Make the reader raise an error at its next read, or now if it waits for one."""
        if self._interrupt is None:
            self._interrupt = error
        self._wake_reader()

    async def _wait_for(self, size: int) -> None:
        while True:
            self.check()
            if len(self._in) >= size:
                return
            if self._ended:
                raise Disconnected
            self.flush()
            self._news.clear()
            await self._news.wait()

    def _wake_reader(self) -> None:
        if len(self._in) >= RECEIVE_BUFFER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._news.set()

    # -- TLS

    async def start_tls(self, settings: Tls) -> None:
        """Make the TLS handshake; all that has arrived and was not read belongs to it."""
        if self._in:
            # This comes behind what `start_tls` calls soon, and before anything of the network is read.
            self._loop.call_soon(self._loop.call_soon, _feed_bytes, self._plain, bytes(self._in))
            self._in.clear()
        secured, self._encrypted = None, True
        try:
            secured = await self._loop.start_tls(self._plain, self, settings.context, server_side=True)
        except OSError as error:
            raise Disconnected from error
        finally:
            if secured is None:  # of a connection that is lost in the handshake asyncio tells nothing more
                self.abort()
                self.connection_lost(None)
        if secured is None:
            raise Disconnected
        secured.set_write_buffer_limits(high=1, low=0)  # what it encrypts is buffered below it
        self._transport = secured
        self.tls = Secured(settings, secured.get_extra_info("ssl_object"))

    # -- writing

    def write(self, data: bytes) -> None:
        """Gather bytes for the client."""
        self._out += data
        if len(self._out) >= _GATHERED:
            self.flush()

    def flush(self) -> None:
        """Send the bytes that were gathered."""
        if self._out and not self._transport.is_closing():
            self._transport.write(bytes(self._out))
        self._out.clear()

    @property
    def full(self) -> bool:
        """Whether the client has so much to read that the connection's work has to wait in `drain`."""
        return not self._room.is_set()

    async def drain(self) -> None:
        """Send what was gathered and wait while the client has much to read; other connections go on."""
        self.flush()
        await asyncio.sleep(0)
        left = self._unsent
        while self.full:
            try:
                async with asyncio.timeout(SLOW_READER):
                    await self._room.wait()
            except TimeoutError:
                if self._unsent >= left:
                    self.abort()
                    raise Disconnected from None
                left = self._unsent
        if self._closed.is_set():
            raise Disconnected

    @property
    def _unsent(self) -> int:
        above = self._transport.get_write_buffer_size() if self.tls is not None else 0
        return above + self._plain.get_write_buffer_size()

    # -- the end

    async def close(self) -> None:
        """Send what was gathered and end the connection; a client that does not read it is cut off."""
        self.flush()
        try:
            async with asyncio.timeout(LINGER):
                await self._room.wait()
                self._transport.close()
                self._plain.close()  # TLS alone would wait for the client's own end
                await self._closed.wait()
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._ended = True
        self._transport.abort()
        self._wake_reader()


def _feed_bytes(transport: asyncio.Transport, data: bytes) -> None:
    """Give bytes to the protocol of a transport as if they came from the network."""
    protocol = transport.get_protocol()
    assert isinstance(protocol, asyncio.BufferedProtocol)  # noqa: S101  the one of asyncio's TLS
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        size = min(len(data), len(buffer))
        buffer[:size], data = data[:size], data[size:]
        protocol.buffer_updated(size)


def _keep_alive(connection: socket.socket) -> None:
    """Let the system find out that a client is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE // 6)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
