"""What client and server compute alike in SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677).

Passwords are prepared as clients do before they hash them (SASLprep, RFC 4013).
"""

from __future__ import annotations

import hashlib
import hmac
import stringprep
import unicodedata

PLAIN = "SCRAM-SHA-256"
PLUS = "SCRAM-SHA-256-PLUS"
"""The same, bound to the server's certificate."""
BINDING = "tls-server-end-point"
"""How `PLUS` is bound: by a hash of the certificate (RFC 5929)."""

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,  # unassigned in Unicode 3.2: clients differ in what they make of these
)


def prepare_password(password: str) -> str:
    r"""Return the form of a password that is hashed; `ValueError` if it holds a character without one.

    PostgreSQL's clients hash such a password as it is and other clients refuse it, so it could not be used
    everywhere.

    >>> prepare_password("I\u00adX"), prepare_password("\u2168"), prepare_password("a\u00a0b")
    ('IX', 'IX', 'a b')
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    if any(prohibited(c) for c in prepared for prohibited in _PROHIBITED):
        raise ValueError(
            "a password may not hold control characters, private or unassigned characters or emoji: "
            "programs differ in how they send these"
        )
    right_to_left = [c for c in prepared if stringprep.in_table_d1(c)]
    if right_to_left and (
        any(stringprep.in_table_d2(c) for c in prepared)
        or not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1]))
    ):
        raise ValueError(
            "a password with letters written from right to left begins and ends with one, and holds none "
            "written from left to right"
        )
    return prepared


def derive_keys(password: bytes, salt: bytes, rounds: int) -> tuple[bytes, bytes]:
    """Return the client's key and the server's key of a password that is prepared; the hash takes a while."""
    salted = hashlib.pbkdf2_hmac("sha256", password, salt, rounds)
    return sign(salted, b"Client Key"), sign(salted, b"Server Key")


def hash_key(client: bytes) -> bytes:
    """Return what a server keeps of the client's key: it checks a proof, and makes none."""
    return hashlib.sha256(client).digest()


def sign(key: bytes, text: bytes) -> bytes:
    """Return the HMAC of a text."""
    return hmac.digest(key, text, "sha256")


def xor(one: bytes, other: bytes) -> bytes:
    """Return the bits that differ: of the client's key and a signature, the proof; of the proof, the key."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
