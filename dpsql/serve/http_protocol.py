"""One HTTP connection that strangers cannot keep open: uvicorn waits for requests for ever, from anybody."""

from __future__ import annotations

import asyncio
import ssl

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.serve.throttle import network
from dpsql.serve.tls import CLIENT, common_name

SECONDS = 10.0
"""Seconds in which a request has to come whole, and after an answer the next one."""
CONNECTIONS = 200
"""Connections that are answered at the same time; others are told to come again."""
_MOST = CONNECTIONS + CONNECTIONS // 2
_MOST_OF_ONE_NETWORK = CONNECTIONS // 2


class LimitedProtocol(H11Protocol):
    """Ends connections whose request does not come, and those that are too many, of all or of one network."""

    _deadline: asyncio.TimerHandle | None = None

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

    def _wait(self) -> None:
        """Begin to wait for a request, or go on; stop if it has come whole."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(SECONDS, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _origin(protocol: H11Protocol) -> str:
    return network(protocol.client[0]) if protocol.client else ""
