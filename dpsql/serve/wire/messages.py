"""Messages of the server's side: what it sends, but for rows, and how it reads what clients send."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Literal

from dpsql.login.messages import MessageBody, message
from dpsql.serve.limits import MOST_NAME, MOST_PARAMETERS, size_of
from dpsql.serve.wire.errors import Fields, ProtocolViolation, WireError

MAX_STARTUP = 10_000
MAX_PASSWORD = 1024
MAX_MESSAGE = 1 << 20
"""The most bytes that a message may announce, its length field included."""

PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_DONE = message(b"c")


def check_length(announced: bytes, limit: int, least: int = 4) -> int:
    """Return how many bytes follow a length field; raise for one that cannot be or is too large."""
    length: int = struct.unpack("!i", announced)[0]
    if length < least:
        raise ProtocolViolation("invalid length of a message")
    if length > limit:
        raise ProtocolViolation(f"a message is longer than the {limit:,} bytes that are allowed here")
    return length - 4


class Body(MessageBody):
    """The body of a client's message."""

    malformed = ProtocolViolation

    def count(self) -> int:
        """Read how many parts follow; PostgreSQL reads these two bytes without a sign."""
        return int(self.numbers("H")[0])

    def array(self, form: str, most: int = MOST_PARAMETERS) -> tuple[int, ...]:
        """Read how many numbers follow, and these, in a form of `struct`."""
        count = self.count()
        if count > most:
            raise WireError("54000", f"a statement has at most {most:,} parameters")
        return self.numbers(f"{count}{form}")

    def text(self) -> str:
        """Read a text."""
        try:
            return self.raw_text().decode()
        except UnicodeDecodeError:
            raise WireError("22021", "a text is not valid UTF-8") from None

    def name(self) -> str:
        """Read the name of a statement, portal or cursor."""
        found = self.text()
        if size_of(found) > MOST_NAME:
            raise WireError("54000", f"a name is longer than the {MOST_NAME:,} bytes that are allowed")
        return found


def text(value: str) -> bytes:
    """Return a text as the protocol sends it, ended by a zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: Literal[0, 10, 11, 12], data: bytes = b"") -> bytes:
    """Return AuthenticationOk (0), AuthenticationSASL (10), its Continue (11) or its Final (12)."""
    return message(b"R", struct.pack("!i", code), data)


def negotiate(version: int, unknown: Sequence[str]) -> bytes:
    """Return NegotiateProtocolVersion: the version that is spoken, and the options that are not known."""
    return message(b"v", struct.pack("!ii", version, len(unknown)), *map(text, unknown))


def parameter_status(name: str, value: str) -> bytes:
    """Return ParameterStatus."""
    return message(b"S", text(name), text(value))


def backend_key(number: int, secret: bytes) -> bytes:
    """Return BackendKeyData, with which the client may cancel."""
    return message(b"K", struct.pack("!i", number), secret)


def ready(status: str) -> bytes:
    """Return ReadyForQuery; the status is I, T or E."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """Return CommandComplete."""
    return message(b"C", text(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return ParameterDescription."""
    return message(b"t", struct.pack("!H", len(oids)), *(struct.pack("!I", oid) for oid in oids))


def error_response(fields: Iterable[tuple[bytes, str]]) -> bytes:
    """Return ErrorResponse."""
    return _response(b"E", fields)


def notice_response(severity: str, sqlstate: str, sentence: str, hint: str | None = None) -> bytes:
    """Return NoticeResponse."""
    return _response(b"N", Fields(severity, sqlstate, sentence, hint=hint))


def _response(tag: bytes, fields: Iterable[tuple[bytes, str]]) -> bytes:
    return message(tag, *(name + text(value) for name, value in fields), b"\0")
