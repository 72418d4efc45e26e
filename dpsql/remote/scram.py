"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS as a client (RFC 5802, RFC 7677), without input or output.

The server sees no password, and proves in turn that it knows the verifier. With channel binding the proof
also covers the server's certificate: somebody between client and server cannot pass it on.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re

from dpsql.login.entropy import draw_text
from dpsql.login.scram import BINDING, PLAIN, PLUS, derive_keys, hash_key, prepare_password, sign, xor

_FIRST = re.compile(r"r=([!-+\--~]{1,1024}),s=([A-Za-z0-9+/=]{1,1024}),i=([1-9][0-9]{0,7})(,.*)?", re.DOTALL)
_LEAST, _MOST = 4096, 2_000_000
"""Rounds of the password hash: fewer make guessing cheap, more only keep the client busy."""


class ScramClientError(Exception):
    """The exchange fails; the text says why, and holds nothing secret."""


class ScramClient:
    """One login; `binding` is the hash of the server's certificate, None without TLS."""

    def __init__(self, password: str, binding: bytes | None, *, nonce: str | None = None) -> None:
        self.mechanism = PLAIN if binding is None else PLUS
        try:
            self._password = prepare_password(password).encode()
        except ValueError:
            self._password = password.encode()  # as libpq: the server may have hashed it as it is
        self._nonce = draw_text(24) if nonce is None else nonce
        header = b"n,," if binding is None else f"p={BINDING},,".encode()
        self._channel = base64.b64encode(header + (binding or b"")).decode()
        # The user is that of the startup message: PostgreSQL's clients leave the name empty here.
        self._bare = f"n=,r={self._nonce}"
        self.first = header + self._bare.encode()
        """The client's first message."""
        self._signature: bytes | None = None

    def final(self, server_first: bytes) -> bytes:
        """Return the client's proof, given the server's first message."""
        found = _FIRST.fullmatch(server_first.decode("ascii", "replace"))
        if found is None or not found[1].startswith(self._nonce) or len(found[1]) == len(self._nonce):
            raise ScramClientError("the server's first message is malformed")
        rounds = int(found[3])
        if not _LEAST <= rounds <= _MOST:
            raise ScramClientError(f"the server asks for {rounds} rounds of the password hash")
        try:
            salt = base64.b64decode(found[2], validate=True)
        except binascii.Error:
            raise ScramClientError("the server's first message is malformed") from None
        client, server = derive_keys(self._password, salt, rounds)
        unproved = f"c={self._channel},r={found[1]}"
        signed = f"{self._bare},".encode() + server_first + f",{unproved}".encode()
        proof = xor(client, sign(hash_key(client), signed))
        self._signature = sign(server, signed)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Check the server's own proof; raises `ScramClientError` if it does not know the verifier."""
        expected = b"" if self._signature is None else b"v=" + base64.b64encode(self._signature)
        if not expected or not hmac.compare_digest(server_final, expected):
            raise ScramClientError("the server does not prove that it knows the password")
