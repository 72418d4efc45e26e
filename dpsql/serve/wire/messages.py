"""Messages of the PostgreSQL protocol as bytes, and how a client sees an error: fields and SQLSTATE.

Here is what the server sends, but for rows, and how it reads what clients send.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from dpsql.errors import Error, PolicyError, QueryRefused, QuerySyntaxError
from dpsql.lazy_dataclass import dataclass
from dpsql.login import MessageBody, message
from dpsql.serve.limits import MOST_NAME, MOST_PARAMETERS, CodedError, size_of

INTERNAL = "XX000"
_BUG = "this is a bug of dpsql: please report it"
_OTHERS = 7
"""The most obstacles shown beside the first."""


class WireError(CodedError):
    """An error of the protocol's own, which ends the statement or the batch of messages."""


class FatalError(WireError):
    """An error that ends the connection."""


class ProtocolViolation(FatalError):  # noqa: N818  the word of the protocol
    """The client sent what the protocol does not allow; the connection ends."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "08P01")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self),)


@dataclass(frozen=True, slots=True)
class Fields:
    """What an ErrorResponse or NoticeResponse says; `position` counts characters from 1."""

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    position: int | None = None
    extra: str | None = None
    """The error as JSON, for clients that asked for it in their startup message."""

    def __iter__(self) -> Iterator[tuple[bytes, str]]:
        yield b"S", self.severity
        yield b"V", self.severity
        yield b"C", self.sqlstate
        yield b"M", self.message
        for name, value in ((b"D", self.detail), (b"H", self.hint), (b"J", self.extra)):
            if value:
                yield name, value
        if self.position is not None:
            yield b"P", str(self.position)


def error_fields(
    error: BaseException, text: str = "", offset: int = 0, *, as_json: Callable[[Error], str] | None = None
) -> Fields:
    """Return what the client sees of an error.

    Positions of the error count in `text`, which begins at `offset` of what the client sent. Of an error that
    is not dpsql's own nothing is shown: its text could hold data.
    """
    severity = "FATAL" if isinstance(error, FatalError) else "ERROR"
    if not isinstance(error, Error):
        return Fields(severity, INTERNAL, _BUG)
    extra = None if as_json is None else as_json(error)
    index = _index(error, text)
    position = None if index is None else offset + index + 1
    if not isinstance(error, QueryRefused | QuerySyntaxError | PolicyError):
        message, _, below = str(error).partition("\nHint: ")
        hint = getattr(error, "hint", None) or below or None
        return Fields(severity, error.sqlstate, message, None, hint, position, extra)
    first, *others = error.obstacles
    hints = [first.hint] if first.hint else []
    if error.rewrite is not None:
        hints.append(f"would be accepted:\n{error.rewrite}")
    detail = "\n".join(f"{number}: {other}" for number, other in enumerate(others[:_OTHERS], 2))
    if len(others) > _OTHERS:
        detail += f"\nand {len(others) - _OTHERS} more"
    return Fields(severity, error.sqlstate, first.message, detail, "\n".join(hints), position, extra)


def _index(error: Error, text: str) -> int | None:
    """Return the index of the character that an error points at; None if it points at none."""
    index = getattr(error, "position", None)
    if isinstance(index, int):
        return index
    line, col = getattr(error, "line", None), getattr(error, "col", None)
    if not text or not isinstance(line, int) or not isinstance(col, int):
        return None
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return min(start + col - 1, len(text))


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
            raise WireError(f"a statement has at most {most:,} parameters", "54000")
        return self.numbers(f"{count}{form}")

    def text(self) -> str:
        """Read a text that a zero byte ends; raise `WireError` unless it is UTF-8."""
        try:
            return self.raw_text().decode()
        except UnicodeDecodeError:
            raise WireError("a text is not valid UTF-8", "22021") from None

    def name(self) -> str:
        """Read the name of a statement, portal or cursor."""
        found = self.text()
        if size_of(found) > MOST_NAME:
            raise WireError(f"a name is longer than the {MOST_NAME:,} bytes that are allowed", "54000")
        return found


def text_bytes(value: str) -> bytes:
    """Return a text as the protocol sends it, ended by a zero byte."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: Literal[0, 10, 11, 12], data: bytes = b"") -> bytes:
    """Return AuthenticationOk (0), AuthenticationSASL (10), its Continue (11) or its Final (12)."""
    return message(b"R", struct.pack("!i", code), data)


def negotiate(version: int, unknown: Sequence[str]) -> bytes:
    """Return NegotiateProtocolVersion: the version that is spoken, and the options that are not known."""
    return message(b"v", struct.pack("!ii", version, len(unknown)), *map(text_bytes, unknown))


def parameter_status(name: str, value: str) -> bytes:
    """Return ParameterStatus, which tells the client the value of a setting."""
    return message(b"S", text_bytes(name), text_bytes(value))


def backend_key(number: int, secret: bytes) -> bytes:
    """Return BackendKeyData, with which the client may cancel."""
    return message(b"K", struct.pack("!i", number), secret)


def ready(status: str) -> bytes:
    """Return ReadyForQuery; the status is I, T or E."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """Return CommandComplete, the end of a statement's answer, with its tag."""
    return message(b"C", text_bytes(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return ParameterDescription: the OIDs of a statement's parameters."""
    return message(b"t", struct.pack("!H", len(oids)), *(struct.pack("!I", oid) for oid in oids))


def error_response(fields: Iterable[tuple[bytes, str]]) -> bytes:
    """Return ErrorResponse with these fields."""
    return _response(b"E", fields)


def notice_response(severity: str, sqlstate: str, sentence: str, hint: str | None = None) -> bytes:
    """Return NoticeResponse: a sentence that is no error."""
    return _response(b"N", Fields(severity, sqlstate, sentence, hint=hint))


def _response(tag: bytes, fields: Iterable[tuple[bytes, str]]) -> bytes:
    return message(tag, *(name + text_bytes(value) for name, value in fields), b"\0")
