"""`Channel`: the bytes of one connection, with TLS, limits of both buffers, and an end at any time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from dpsql.serve.wire.tls_layer import TlsLayer

if TYPE_CHECKING:
    from dpsql.serve.tls import Tls

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


class Channel(asyncio.BufferedProtocol):
    """The two streams of a connection. One task reads and writes; `interrupt` may come from elsewhere.

    The task is started by `serve`, when the connection is made. What is written is gathered, and sent by
    `flush` or `drain`.
    """

    def __init__(self, serve: Callable[[Channel], Coroutine[object, object, None]]) -> None:
        self._serve = serve
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None]
        self._arriving = bytearray()
        self._in = bytearray()
        self._out = bytearray()
        self._tls: TlsLayer | None = None
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._interrupt: BaseException | None = None
        self._ended = False
        self._paused = False
        self._full = False
        self.address = ""
        """The client's address; empty on a Unix socket."""

    # -- events of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the task that serves the new connection."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  what a stream listener makes
        self._transport = transport
        transport.set_write_buffer_limits(high=SEND_BUFFER)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.address = str(peer[0])
            _keep_alive(transport.get_extra_info("socket"))
        self._task = self._loop.create_task(self._serve(self))

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where the event loop puts bytes of the network."""
        del sizehint
        self._arriving = bytearray(_TAKEN)
        return self._arriving

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes from the network."""
        data = bytes(memoryview(self._arriving)[:nbytes])
        self._arriving = bytearray()
        if self._tls is None:
            self._in += data
        else:
            self._tls.received(data)
            self._decrypt()
        self._arrived()

    def eof_received(self) -> bool:
        """Note that the client sends nothing more; it may still read."""
        self._ended = True
        self._arrived()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake all that wait for something of the connection, which is gone."""
        del exc
        self._ended = True
        for waiter in (self._reading, self._writing, self._closed):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def pause_writing(self) -> None:
        """Note that the send buffer is full."""
        self._full = True

    def resume_writing(self) -> None:
        """Note that the send buffer has room."""
        self._full = False
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)

    # -- reading

    @property
    def lost(self) -> bool:
        """Whether the client has ended the connection, so that nobody waits for an answer."""
        return self._ended

    @property
    def buffered(self) -> int:
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
        if self._closed.done():
            raise Disconnected

    def interrupt(self, error: BaseException) -> None:
        """Make the reader raise an error at its next read, or now if it waits for one."""
        if self._interrupt is None:
            self._interrupt = error
        self._arrived()

    async def _wait_for(self, size: int) -> None:
        while True:
            self.check()
            if len(self._in) >= size:
                return
            if self._ended:
                raise Disconnected
            self.flush()
            await self._next()

    async def _next(self) -> None:
        """Wait until something arrives or happens."""
        self._reading = self._loop.create_future()
        try:
            await self._reading
        finally:
            self._reading = None

    def _arrived(self) -> None:
        if len(self._in) >= RECEIVE_BUFFER and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    # -- TLS

    @property
    def tls(self) -> TlsLayer | None:
        """The TLS of the connection, once its handshake is done."""
        return self._tls if self._tls is not None and self._tls.ready else None

    async def start_tls(self, settings: Tls) -> None:
        """Make the TLS handshake; all that has arrived and was not read belongs to it."""
        layer = TlsLayer(settings)
        layer.received(bytes(self._in))
        self._in.clear()
        self._tls = layer
        self._decrypt()
        while not layer.ready:
            self.check()
            if self._ended:
                raise Disconnected
            await self._next()

    def _decrypt(self) -> None:
        """Take what TLS has of the client's bytes; a failed TLS ends the connection."""
        layer = self._tls
        if layer is None or self._transport.is_closing():
            return
        try:
            if layer.ready or layer.handshake():
                data, ended = layer.read()
                self._in += data
                self._ended |= ended
        except ssl.SSLError:
            self._send(layer.pending())  # the alert
            self.abort()
            return
        self._send(layer.pending())

    # -- writing

    def write(self, data: bytes) -> None:
        """Gather bytes for the client."""
        self._out += data
        if len(self._out) >= _GATHERED:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered."""
        data = bytes(self._out)
        self._out.clear()
        if not data or self._transport.is_closing():
            return
        if self._tls is None:
            self._send(data)
        elif self._tls.ready:
            try:
                self._tls.write(data)
            except ssl.SSLError:
                self.abort()
            else:
                self._send(self._tls.pending())

    @property
    def full(self) -> bool:
        """Whether the client has so much to read that the connection's work has to wait in `drain`."""
        return self._full

    async def drain(self) -> None:
        """Send what was gathered and wait while the client has much to read; other connections go on."""
        self.flush()
        await asyncio.sleep(0)
        left = self._transport.get_write_buffer_size()
        while self._full and not self._closed.done():
            self._writing = self._loop.create_future()
            try:
                async with asyncio.timeout(SLOW_READER):
                    await self._writing
            except TimeoutError:
                if self._transport.get_write_buffer_size() >= left:
                    self.abort()
                    raise Disconnected from None
                left = self._transport.get_write_buffer_size()
            finally:
                self._writing = None
        if self._closed.done():
            raise Disconnected

    def _send(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    # -- the end

    async def close(self) -> None:
        """Send what was gathered and end the connection; a client that does not read it is cut off."""
        self.flush()
        if self._tls is not None and self._tls.ready:
            self._tls.end()
            self._send(self._tls.pending())
        self._transport.close()
        try:
            async with asyncio.timeout(LINGER):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._ended = True
        self._transport.abort()
        self._arrived()


def _keep_alive(connection: socket.socket) -> None:
    """Let the system find out that a client is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE // 6)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
