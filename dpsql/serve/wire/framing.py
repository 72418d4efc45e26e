"""Messages as bytes: their parts are read, and the lengths they announce are checked."""

from __future__ import annotations

import struct

from dpsql.serve.limits import MOST_NAME, MOST_PARAMETERS, size_of
from dpsql.serve.wire.errors import ProtocolViolation, WireError

MAX_STARTUP = 10_000
MAX_PASSWORD = 1024
MAX_MESSAGE = 1 << 20
"""The most bytes that a message may announce, its length field included."""


def message(tag: bytes, *parts: bytes | memoryview) -> bytes:
    r"""Return a message: its type, its length and its body.

    >>> message(b"C", b"SELECT 1\0")
    b'C\x00\x00\x00\rSELECT 1\x00'
    """
    body = b"".join(parts)
    return tag + struct.pack("!i", len(body) + 4) + body


def checked_length(announced: bytes, limit: int, least: int = 4) -> int:
    """Return how many bytes follow a length field; raise for one that cannot be or is too large."""
    length: int = struct.unpack("!i", announced)[0]
    if length < least:
        raise ProtocolViolation("invalid length of a message")
    if length > limit:
        raise ProtocolViolation(f"a message is longer than the {limit:,} bytes that are allowed here")
    return length - 4


def text(value: str) -> bytes:
    """Return a text as the protocol sends it, ended by a zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def check_name(name: str) -> None:
    """Raise if a name that a client chose is too long to be kept."""
    if size_of(name) > MOST_NAME:
        raise WireError("54000", f"a name is longer than the {MOST_NAME:,} bytes that are allowed")


class Body:
    """The body of a message; each method reads the next part and raises if it is not there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """Read that many bytes."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ProtocolViolation("a message ends before its last part")
        self._at, start = end, self._at
        return self._data[start:end]

    def int16(self) -> int:
        """Read a number of two bytes."""
        number: int = struct.unpack("!h", self.take(2))[0]
        return number

    def count(self) -> int:
        """Read how many parts follow; PostgreSQL reads these two bytes without a sign."""
        number: int = struct.unpack("!H", self.take(2))[0]
        return number

    def int32(self) -> int:
        """Read a number of four bytes."""
        number: int = struct.unpack("!i", self.take(4))[0]
        return number

    def oid(self) -> int:
        """Read the number of a type."""
        number: int = struct.unpack("!I", self.take(4))[0]
        return number

    def numbers(self, form: str, most: int = MOST_PARAMETERS) -> tuple[int, ...]:
        """Read how many numbers follow, and these: `h` of two bytes, `I` of four without a sign."""
        count = self.count()
        if count > most:
            raise WireError("54000", f"a statement has at most {most:,} parameters")
        found: tuple[int, ...] = struct.unpack(
            f"!{count}{form}", self.take(count * struct.calcsize("!" + form))
        )
        return found

    def name(self) -> str:
        """Read the name of a statement, portal or cursor."""
        found = self.text()
        check_name(found)
        return found

    def raw_text(self) -> bytes:
        """Read up to the next zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("a text in a message is not ended")
        self._at, start = end + 1, self._at
        return self._data[start:end]

    def text(self) -> str:
        """Read a text."""
        try:
            return self.raw_text().decode()
        except UnicodeDecodeError:
            raise WireError("22021", "a text is not valid UTF-8") from None

    def rest(self) -> bytes:
        """Read all that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raise unless all was read."""
        if self._at != len(self._data):
            raise ProtocolViolation("a message is longer than its parts")
