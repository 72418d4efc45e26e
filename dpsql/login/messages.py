"""Messages of PostgreSQL's protocol, version 3, as bytes: written, and read part by part."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

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
        """Read that many bytes."""
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
        """Whether anything is left."""
        return self._at < len(self._data)

    def rest(self) -> bytes:
        """Read all that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raise unless all was read."""
        if self.more:
            raise self.malformed("a message is longer than its parts")
