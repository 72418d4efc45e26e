"""One HTTP connection that strangers cannot keep open: uvicorn waits for requests and readers for ever."""

from __future__ import annotations

import asyncio
import ssl

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.serve.throttle import network
from dpsql.serve.tls import CLIENT, common_name

SECONDS = 10.0
"""Seconds in which a request has to come whole, and after an answer the next one."""
LEAST_READ = 32 << 10
"""Bytes that a client has to read in such a time, or half of what waits for it, if that is less."""
CONNECTIONS = 200
"""Connections that are answered at the same time; others are told to come again."""
_MOST = CONNECTIONS + CONNECTIONS // 2
_MOST_OF_ONE_NETWORK = CONNECTIONS // 2


class LimitedProtocol(H11Protocol):
    """Ends connections whose request does not come, whose answers are not read, or that are too many.

    Of one network fewer are too many than of all.
    """

    _deadline: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _resumed = False
    """Whether the client has read so much since it was looked at last that its answer went on."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
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
        """Take bytes from the network."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
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
