"""Errors of the wire protocol, and the fields by which a client sees any error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dpsql.errors import Error, PolicyError, QueryRefused, QuerySyntaxError
from dpsql.lazy_dataclass import dataclass

INTERNAL = "XX000"
_BUG = "this is a bug of dpsql: please report it"
_OTHERS = 7
"""The most obstacles shown beside the first."""


class WireError(Error):
    """An error of the protocol's own, which ends the statement or the batch of messages."""

    def __init__(self, sqlstate: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.sqlstate, str(self), self.hint)


class FatalError(WireError):
    """An error that ends the connection."""


class ProtocolViolation(FatalError):  # noqa: N818  the word of the protocol
    """The client sent what the protocol does not allow; the connection ends."""

    def __init__(self, message: str) -> None:
        super().__init__("08P01", message)

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


def fields(
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
