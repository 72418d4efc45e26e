"""What client and server of PostgreSQL's protocol compute alike: messages, and logins by password.

Messages are bytes of version 3, written and read part by part. Logins (``scram``) are SCRAM-SHA-256 and
SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677), for which passwords are prepared as clients do before they hash them
(SASLprep, RFC 4013). Hashes of a server's certificate bind a login to it (RFC 5929), and are what a person
compares. Random keys, salts, nonces and tokens are drawn here; noise of answers is drawn in
`dpsql.kernel.noise` alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import struct
import unicodedata
from typing import Any, ClassVar


def draw_key(size: int) -> bytes:
    """Return random bytes of the system's generator."""
    return secrets.token_bytes(size)


def draw_number(bits: int) -> int:
    """Return a random number from 0 to 2**bits - 1."""
    return secrets.randbits(bits)


def draw_text(size: int) -> str:
    """Return random bytes as letters, digits, `-` and `_`.

    >>> len(draw_text(32))
    43
    """
    return base64.urlsafe_b64encode(draw_key(size)).rstrip(b"=").decode()


_HASHES = {
    # The hash of a certificate's signature binds it (RFC 5929), and SHA-256 in place of MD5 and SHA-1.
    "1.2.840.113549.1.1.4": "sha256",  # RSA with MD5
    "1.2.840.113549.1.1.5": "sha256",  # RSA with SHA-1
    "1.2.840.113549.1.1.14": "sha224",
    "1.2.840.113549.1.1.11": "sha256",
    "1.2.840.113549.1.1.12": "sha384",
    "1.2.840.113549.1.1.13": "sha512",
    "1.2.840.10045.4.1": "sha256",  # ECDSA with SHA-1
    "1.2.840.10045.4.3.1": "sha224",
    "1.2.840.10045.4.3.2": "sha256",
    "1.2.840.10045.4.3.3": "sha384",
    "1.2.840.10045.4.3.4": "sha512",
}
"""The object identifier of a signature's algorithm -> the hash that binds its certificate."""


def hash_for_binding(certificate: bytes) -> bytes:
    """Return the `tls-server-end-point` data of a certificate in DER; empty where RFC 5929 defines none.

    Those are certificates whose signature names no hash of its own, Ed25519 for instance. Clients then log in
    without channel binding.
    """
    try:
        _, body, _ = _read_element(certificate)
        _, _, rest = _read_element(body)  # what is signed
        _, algorithm, _ = _read_element(rest)
        tag, identifier, _ = _read_element(algorithm)
        name = _HASHES.get(_write_identifier(identifier)) if tag == 6 else None
    except IndexError:
        return b""
    return hashlib.new(name, certificate).digest() if name else b""


def hash_certificate(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER, as browsers show it: `AB:CD:..`."""
    return hashlib.sha256(certificate).digest().hex(":").upper()


def _read_element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first DER element, and what follows it."""
    tag, size, start = data[0], data[1], 2
    if size >= 128:
        start += size - 128
        size = int.from_bytes(data[2:start])
    if start + size > len(data):
        raise IndexError
    return tag, data[start : start + size], data[start + size :]


def _write_identifier(data: bytes) -> str:
    """Return an object identifier in dots.

    >>> _write_identifier(bytes.fromhex("2a864886f70d01010b"))
    '1.2.840.113549.1.1.11'
    """
    numbers, value = [data[0] // 40, data[0] % 40], 0
    for byte in data[1:]:
        value = value << 7 | byte & 127
        if byte < 128:
            numbers.append(value)
            value = 0
    return ".".join(map(str, numbers))


VERSION = 3 << 16
CANCEL, TLS, GSS = 80877102, 80877103, 80877104
"""What a first message has in place of the version: a request to cancel, for TLS or for GSS encryption."""


def message(tag: bytes, *parts: bytes | memoryview) -> bytes:
    r"""Return a message: its type, its length and its body. The first one of a connection has no type.

    >>> message(b"C", b"SELECT 1\0")
    b'C\x00\x00\x00\rSELECT 1\x00'
    """
    body = b"".join(parts)
    return tag + struct.pack("!i", len(body) + 4) + body


class MessageBody:
    """The body of a message; each method reads the next part and raises if it is not there."""

    malformed: ClassVar[type[Exception]] = ValueError
    """What is raised, with the text of the error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes of the message, and step over them."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise self.malformed("a message ends before its last part")
        self._at, start = end, self._at
        return self._data[start:end]

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Read numbers in a form of `struct`: `h` of two bytes, `i` of four, `H` and `I` without a sign."""
        return struct.unpack("!" + form, self.take(struct.calcsize("!" + form)))

    def int16(self) -> int:
        """Read a number of two bytes."""
        return int(self.numbers("h")[0])

    def int32(self) -> int:
        """Read a number of four bytes."""
        return int(self.numbers("i")[0])

    def raw_text(self) -> bytes:
        """Read up to the next zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise self.malformed("a text in a message is not ended")
        self._at, start = end + 1, self._at
        return self._data[start:end]

    def text(self) -> str:
        """Read a text; what is not UTF-8 is a replacement character."""
        return self.raw_text().decode("utf-8", "replace")

    def value(self) -> bytes | None:
        """Read a value behind its length; None stands for NULL."""
        size = self.int32()
        if size < -1:
            raise self.malformed("invalid length of a value")
        return None if size < 0 else self.take(size)

    @property
    def more(self) -> bool:
        """Whether bytes of the message are left to read."""
        return self._at < len(self._data)

    def rest(self) -> bytes:
        """Read all that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raise unless all was read."""
        if self.more:
            raise self.malformed("a message is longer than its parts")


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
