"""TLS between a connection's bytes and its messages, without input or output of its own."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from dpsql.serve.catalog.facts import Encryption
from dpsql.serve.tls import common_name

if TYPE_CHECKING:
    from dpsql.serve.tls import Tls

_CHUNK = 1 << 16


class TlsLayer:
    """The server's side of one TLS connection: bytes of the network in, bytes for the network out."""

    def __init__(self, settings: Tls) -> None:
        self.settings = settings
        """The certificate that this connection has seen; the server may have another one since."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = settings.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.ready = False
        """Whether the handshake is done."""

    @property
    def protocol(self) -> str | None:
        """The application protocol that the client chose (ALPN)."""
        return self._object.selected_alpn_protocol()

    @property
    def encryption(self) -> Encryption:
        """The version of TLS and the cipher that were agreed on."""
        name, _, bits = self._object.cipher() or (None, None, None)
        return Encryption(self._object.version(), name, bits)

    @property
    def client_name(self) -> str | None:
        """The common name in the client's certificate, if it has shown one."""
        return common_name(self._object)

    def received(self, data: bytes) -> None:
        """Take bytes from the network."""
        self._incoming.write(data)

    def handshake(self) -> bool:
        """Go on with the handshake; return whether it is done. Raises `ssl.SSLError` if it failed."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.ready = True
        return True

    def read(self) -> tuple[bytes, bool]:
        """Return what the client has sent, and whether it ended the connection."""
        parts: list[bytes] = []
        try:
            while part := self._object.read(_CHUNK):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts), False
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(parts), True

    def write(self, data: bytes) -> None:
        """Encrypt bytes for the client; `pending` has the result."""
        self._object.write(data)

    def end(self) -> None:
        """Tell the client that nothing more will come."""
        try:
            self._object.unwrap()
        except ssl.SSLError:
            return  # the client has not answered yet, or the handshake was not done

    def pending(self) -> bytes:
        """Return what must be sent over the network now."""
        return self._outgoing.read()
