"""Messages of PostgreSQL's protocol, version 3.0: reads them from a socket, and writes a client's."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from dpsql.errors import OperationalError, ProgrammingError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

_VERSION = 3 << 16
_CANCEL = 80877102
_BEFORE_LOGIN = 1 << 16
_LARGEST = 1 << 30
_CHUNK = 1 << 18

LOST = "the server closed the connection"


class Message(NamedTuple):
    """One message of the server."""

    kind: bytes
    body: memoryview


class Incoming:
    """Reads messages; the length of one is checked before its body is read."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self._buffer = bytearray()
        self.trusted = False
        """Whether the server has proved itself: only then are long messages read."""

    def next(self) -> Message:
        """Return the next message; raises `OperationalError` when the connection ends."""
        kind, size = struct.unpack("!ci", self._take(5))
        if not 4 <= size <= (_LARGEST if self.trusted else _BEFORE_LOGIN):
            raise OperationalError("the server does not speak the protocol: a message has a wrong length")
        return Message(kind, memoryview(self._take(size - 4)))

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            received = self._source.recv(_CHUNK)
            if not received:
                raise OperationalError(LOST)
            self._buffer += received
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def startup(parameters: Mapping[str, str]) -> bytes:
    """Write the first message."""
    pairs = b"".join(text(name) + text(value) for name, value in parameters.items() if value)
    return struct.pack("!ii", len(pairs) + 9, _VERSION) + pairs + b"\0"


def cancel_request(key: bytes) -> bytes:
    """Write the request to stop what runs under a key, which goes over a connection of its own."""
    return struct.pack("!ii", 8 + len(key), _CANCEL) + key


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Write a message."""
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """Write a text, which ends with a NUL and so can hold none."""
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        raise ProgrammingError("a text has a NUL or an invalid Unicode character")
    return value.encode() + b"\0"


def sasl_initial(mechanism: str, data: bytes) -> bytes:
    """Write a client's first SASL message."""
    return message(b"p", text(mechanism) + struct.pack("!i", len(data)) + data)


def texts(body: memoryview) -> list[str]:
    """Read all texts of a message but empty ones; each ends with a NUL."""
    return [part.decode("utf-8", "replace") for part in bytes(body).split(b"\0") if part]


def fields(body: memoryview) -> dict[str, str]:
    """Read the fields of an ErrorResponse or a NoticeResponse, by their letters."""
    return {part[0]: part[1:] for part in texts(body)}


def row_description(body: memoryview) -> list[str]:
    """Read the names of a result's columns."""
    data = bytes(body)
    (count,) = struct.unpack_from("!h", data)
    names, at = [], 2
    for _ in range(count):
        end = data.index(b"\0", at)
        names.append(data[at:end].decode("utf-8", "replace"))
        at = end + 19
    return names


def data_row(body: memoryview) -> list[str | None]:
    """Read a row whose values are texts."""
    data = bytes(body)
    (count,) = struct.unpack_from("!h", data)
    values: list[str | None] = []
    at = 2
    for _ in range(count):
        (size,) = struct.unpack_from("!i", data, at)
        at += 4
        values.append(None if size < 0 else data[at : at + size].decode("utf-8", "replace"))
        at += max(size, 0)
    return values
