"""What client and server compute alike in SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677)."""

from __future__ import annotations

import hashlib
import hmac

PLAIN = "SCRAM-SHA-256"
PLUS = "SCRAM-SHA-256-PLUS"
"""The same, bound to the server's certificate."""
BINDING = "tls-server-end-point"
"""How `PLUS` is bound: by a hash of the certificate (RFC 5929)."""


def derived_keys(password: bytes, salt: bytes, rounds: int) -> tuple[bytes, bytes]:
    """Return the client's key and the server's key of a password that is prepared; the hash takes a while."""
    salted = hashlib.pbkdf2_hmac("sha256", password, salt, rounds)
    return signature(salted, b"Client Key"), signature(salted, b"Server Key")


def stored(client: bytes) -> bytes:
    """Return what a server keeps of the client's key: it checks a proof, and makes none."""
    return hashlib.sha256(client).digest()


def signature(key: bytes, text: bytes) -> bytes:
    """Return the HMAC of a text."""
    return hmac.digest(key, text, "sha256")


def xor(one: bytes, other: bytes) -> bytes:
    """Return the bits that differ: of the client's key and a signature, the proof; of the proof, the key."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
