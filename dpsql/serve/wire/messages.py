"""The messages that the server sends, but for rows and their descriptions."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from dpsql.serve.wire.errors import Fields
from dpsql.serve.wire.framing import message, text

PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_DONE = message(b"c")
AUTHENTICATION_OK = message(b"R", struct.pack("!i", 0))


def sasl(mechanisms: Sequence[str]) -> bytes:
    """Return AuthenticationSASL, which offers mechanisms."""
    return message(b"R", struct.pack("!i", 10), *map(text, mechanisms), b"\0")


def sasl_continue(data: bytes) -> bytes:
    """Return AuthenticationSASLContinue."""
    return message(b"R", struct.pack("!i", 11), data)


def sasl_final(data: bytes) -> bytes:
    """Return AuthenticationSASLFinal."""
    return message(b"R", struct.pack("!i", 12), data)


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
