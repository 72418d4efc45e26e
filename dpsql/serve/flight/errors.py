"""Errors as gRPC tells them: a code, the words that other protocols use, the SQLSTATE beside them."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import grpc

from dpsql.errors import Error
from dpsql.serve.flight.protobuf import MalformedMessageError
from dpsql.serve.wire.errors import fields

SQLSTATE = "dpsql-sqlstate"
"""The trailing metadata in which a client finds the SQLSTATE."""
_LONGEST = 4000
"""Bytes of an error's text: clients read 8 KiB of metadata."""

_Code = grpc.StatusCode
_CODES = {
    "0A": _Code.INVALID_ARGUMENT,
    "22": _Code.INVALID_ARGUMENT,
    "28": _Code.UNAUTHENTICATED,
    "42": _Code.INVALID_ARGUMENT,
    "42501": _Code.PERMISSION_DENIED,
    "42P01": _Code.NOT_FOUND,
    "53": _Code.RESOURCE_EXHAUSTED,
    "54": _Code.RESOURCE_EXHAUSTED,
    "55": _Code.ABORTED,
    "57014": _Code.CANCELLED,
    "57P01": _Code.UNAVAILABLE,
    "08P01": _Code.INVALID_ARGUMENT,
    "XX": _Code.INTERNAL,
    "ZP001": _Code.FAILED_PRECONDITION,
    "ZP002": _Code.RESOURCE_EXHAUSTED,
    "ZP": _Code.FAILED_PRECONDITION,
}
"""The codes by SQLSTATE or its first two characters; others are UNKNOWN."""


class FlightError(Error):
    """An error of the protocol's own."""

    def __init__(self, sqlstate: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.sqlstate, str(self), self.hint)


async def abort(context: Any, error: BaseException, text: str = "") -> NoReturn:  # noqa: ANN401  gRPC has no types
    """End a call by an error; `text` is the statement that it is about. Of our bugs nothing is told."""
    code, words, sqlstate = told(error, text)
    await context.abort(code, words, ((SQLSTATE, sqlstate),))
    raise asyncio.CancelledError  # not reached: the call has ended


def told(error: BaseException, text: str = "") -> tuple[grpc.StatusCode, str, str]:
    r"""Return the code, the words and the SQLSTATE of an error.

    >>> told(FlightError("54000", "too long", "write less"))
    (<StatusCode.RESOURCE_EXHAUSTED: (8, 'resource exhausted')>, 'too long\nHint: write less', '54000')
    """
    if isinstance(error, MalformedMessageError):
        error = FlightError("08P01", str(error))
    found = fields(error, text)
    parts = [found.message]
    if found.position is not None:
        parts[0] += f" (at character {found.position})"
    if found.detail:
        parts.append(found.detail)
    if found.hint:
        parts.append(f"Hint: {found.hint}")
    words = "\n".join(parts).encode(errors="replace")[:_LONGEST].decode(errors="ignore")
    state = found.sqlstate
    return _CODES.get(state) or _CODES.get(state[:2]) or _Code.UNKNOWN, words, state
