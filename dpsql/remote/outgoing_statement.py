"""How a statement is sent, and how the server's errors become dpsql's own, at their places in it.

dpsql's server sends its clients the whole error as JSON (field `J`, see `dpsql.errors`). Without it,
from another server or an older one, the class follows from the SQLSTATE, and the place from the position.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql import errors
from dpsql.errors import (
    Error,
    Obstacle,
    PriceNotAgreed,
    ProgrammingError,
    QueryRefused,
    QuerySyntaxError,
    Unknown,
    error_from_json,
)
from dpsql.language import StatementText, read_first_words, split_script, write_parameters
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpsql.language import Parameters

_SHOWN = frozenset({"PRIVACY", "TABLES", "RELEASES", "RELEASE", "STREAMS"})
_FREE = frozenset({"EXPLAIN", "DESCRIBE", "DESC"})
_COMMANDS = frozenset(
    {"SET", "RESET", "SHOW", "DISCARD", "DEALLOCATE", "LISTEN", "UNLISTEN"}
    | {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"}
    | {"DECLARE", "FETCH", "MOVE", "CLOSE"}
)
"""What concerns the connection: it cannot be asked for as Arrow."""


_CATALOG = lazy_pattern(r"\b(?:pg_|information_schema\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SentText:
    """A text for the server, and where in it the analyst's statement begins."""

    text: str
    statement: str
    begin: int = 0
    before: str = ""
    """What stands before it in the text that is answered: EXPLAIN, where only the price is asked."""
    rows: bytes = b""
    """What the server asks for behind the text: the rows of an upload."""


@dataclass(frozen=True, slots=True)
class OutgoingStatement:
    """One statement with its parameters written out."""

    text: str
    first: tuple[str, ...]
    """Its first words, in upper case."""

    @classmethod
    def of(cls, text: str, parameters: Parameters) -> OutgoingStatement:
        """Check that a text is one statement, and write its parameters into it."""
        parts, source = split_script(text), StatementText(text)
        if not parts:
            raise source.syntax("there is no statement")
        if len(parts) > 1:
            raise source.syntax("one statement at a time: found `;` inside", text.index(parts[1]))
        statement = text.rstrip()
        if not statement.endswith(parts[0]):  # behind it stand semicolons and comments
            statement = text[: text.index(parts[0]) + len(parts[0])]
        if parameters:
            statement = write_parameters(statement, parameters)
        return cls(statement, read_first_words(statement, 3))

    @property
    def has_price(self) -> bool:
        """Whether the server can say its price: a SELECT, a REFINE RELEASE or one of a stream of checks."""
        return self._closes_stream or self.first[0] not in _COMMANDS | _FREE

    @property
    def _closes_stream(self) -> bool:
        return self.first[:2] == ("CLOSE", "STREAM") and len(self.first) > 2

    @property
    def on_catalog(self) -> bool:
        """Whether the statement may ask PostgreSQL's catalogue, which has no price."""
        return _CATALOG.search(self.text) is not None

    @property
    def setting(self) -> str | None:
        """The name that a SET changes; None for other statements."""
        if self.first[0] != "SET":
            return None
        name = next((word for word in self.first[1:] if word not in ("SESSION", "LOCAL")), "")
        return name.lower()

    @property
    def has_rows(self) -> bool:
        """Whether the statement is one of dpsql with rows, not a command of the connection."""
        shown = self.first[0] == "SHOW" and not _SHOWN.isdisjoint(self.first[1:2])
        return shown or self._closes_stream or self.first[0] not in _COMMANDS

    def answer(self) -> SentText:
        """Write what asks for its answer."""
        return self._copy("") if self.has_rows else SentText(self.text, self.text)

    def price(self) -> SentText:
        """Write what asks for its price."""
        if not self.has_price:
            raise ProgrammingError("only a SELECT or a REFINE RELEASE has a price")
        return self._copy("EXPLAIN (FORMAT JSON)\n")

    def _copy(self, before: str) -> SentText:
        begin = f"COPY ({before}"
        return SentText(
            f"{begin}{self.text}\n) TO STDOUT (FORMAT arrow, RELEASE)", self.text, len(begin), before
        )


_Located = type[QueryRefused] | type[QuerySyntaxError]

_LOCATED: dict[str, _Located] = {
    **dict.fromkeys(("0A000", "42P01", "42703", "42883"), QueryRefused),
    "42601": QuerySyntaxError,
    "ZP001": PriceNotAgreed,
}
"""SQLSTATE -> the classes that point into the statement."""
_UNKNOWN: dict[str, Unknown] = {state: what for what, state in errors.UNKNOWN_STATES.items() if what}
_BY_STATE: dict[str, type[Error]] = {
    "XX000": errors.InternalError,
    "25P02": errors.InterfaceError,
    "54000": errors.ResultTooLarge,
    "55000": errors.OperationalError,
    "ZP003": errors.TooManyFailures,
    "ZP004": errors.StatementFailed,
}
_BY_CLASS: dict[str, type[Error]] = {
    **dict.fromkeys(("08", "28", "3D", "53", "57", "58", "ZP"), errors.OperationalError),
    **dict.fromkeys(("25", "34", "42"), errors.ProgrammingError),
    "22": errors.DataError,
    "23": errors.IntegrityError,
}
"""The first two characters of a SQLSTATE -> the class, where the state itself has none."""


def error_of(fields: Mapping[str, str], sent: SentText | None = None) -> Error:
    """Return the error that a server has reported for a text that was sent to it."""
    state, written = fields.get("C", ""), fields.get("M", "the server reported an error")
    whole = fields.get("J")
    if whole is not None:
        try:
            return _place_error(error_from_json(whole), state, sent)
        except ValueError:
            pass  # written by another version: the fields say as much
    hint, located = fields.get("H"), _LOCATED.get(state)
    if located is not None:
        line, col, shown = _find_place(fields.get("P"), sent)
        return located(written, hint=hint, line=line, col=col, source=shown, unknown=_UNKNOWN.get(state, ""))
    kind = _BY_STATE.get(state) or _BY_CLASS.get(state[:2], errors.DatabaseError)
    return _set_state(kind(f"{written}\nHint: {hint}" if hint else written), state)


def _place_error(error: Error, state: str, sent: SentText | None) -> Error:
    """Move the places of an error from the text that was sent to the statement in it."""
    if isinstance(error, (QueryRefused, QuerySyntaxError)) and sent is not None:
        lines = sent.statement.split("\n")
        error.obstacles = tuple(_move_place(obstacle, lines, sent) for obstacle in error.obstacles)
        if error.rewrite is not None:
            error.rewrite = _remove_explain(error.rewrite, sent)
    return _set_state(error, state)


def _remove_explain(text: str, sent: SentText) -> str:
    """Return a statement that a hint shows without the EXPLAIN that was sent before it, or its blanks."""
    return text.removeprefix(sent.before).removeprefix(re.sub(r"[^\n]", " ", sent.before))


def _move_place(obstacle: Obstacle, lines: list[str], sent: SentText) -> Obstacle:
    if obstacle.hint is not None:
        obstacle = replace(obstacle, hint=_remove_explain(obstacle.hint, sent))
    if obstacle.line is None:
        return obstacle
    line = obstacle.line - sent.before.count("\n")
    if not 1 <= line <= len(lines):  # it is about the statement as a whole
        return replace(obstacle, line=1, col=1, source=lines[0])
    return replace(obstacle, line=line, source=lines[line - 1])


def _set_state(error: Error, state: str) -> Error:
    """Keep the state that the server gave where the class has another one."""
    if not isinstance(error, QueryRefused):  # whose state follows from what is refused
        error.sqlstate = state
    return error


def _find_place(position: str | None, sent: SentText | None) -> tuple[int | None, int | None, str | None]:
    """Return line, column and that line of the statement, given a position in the text that was sent."""
    if position is None or not position.isdecimal() or sent is None:
        return None, None, None
    at = int(position) - 1 - sent.begin
    if not 0 <= at <= len(sent.statement):
        return None, None, None
    before = sent.statement[:at]
    line = before.count("\n") + 1
    return line, at - (before.rfind("\n") + 1) + 1, sent.statement.split("\n")[line - 1]
