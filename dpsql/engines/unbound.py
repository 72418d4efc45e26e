"""The error of a public statement that does not bind, with the place of what does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.engines.protocol import UnboundQuery
from dpsql.errors import UNKNOWN_STATES, ProgrammingError, QueryRefused
from dpsql.language import Outline, Source
from dpsql.policy import fold


def unbound(
    reason: str, position: int | None, sql: str, text: str | None, tables: Mapping[str, Sequence[str]]
) -> ProgrammingError | QueryRefused:
    """Return the error for a public statement that does not bind.

    Parameters
    ----------
    reason
        The engine's message, of which nothing but the name is shown.
    position
        The byte of `sql` that it is about, if the engine says so.
    sql
        The statement as the engine got it.
    text
        The statement as the analyst wrote it, if there is one; the error points into it.
    tables
        The public tables, by folded name, and their columns.
    """
    what, name = UnboundQuery(reason).missing
    if not what:
        return ProgrammingError(
            "the engine cannot bind this public statement: check the names and types of its columns"
        )
    message = f"there is no {what} {name}"
    at = None if text is None else _place(name, position, sql, text)
    if at is not None and text is not None:
        hint = _columns(name, text, tables) if what == "column" else None
        return Source(text).refuse(message, at, hint, unknown=what)
    error = ProgrammingError(f"{message}, so the engine cannot bind this public statement")
    error.sqlstate = UNKNOWN_STATES[what]
    return error


def _place(name: str, position: int | None, sql: str, text: str) -> int | None:
    """Return where a name stands in the analyst's text; None if it does not, as one of a policy's view."""
    written = _named(name, text)
    if len(written) > 1 and position is not None:
        sent = _named(name, sql)
        if len(sent) == len(written):
            begin = len(sql.encode()[:position].decode(errors="ignore"))
            return next((at for at, there in zip(written, sent, strict=True) if there >= begin), written[0])
    return written[0] if written else None


def _named(name: str, text: str) -> list[int]:
    """Return the places where a text names something, without those where it gives the name."""
    tokens = Outline.of(text).tokens
    return [
        token.start
        for before, token in zip([None, *tokens], tokens, strict=False)
        if fold(token.text) == fold(name) and _is_name(token) and not _gives_name(before)
    ]


def _is_name(token: Token) -> bool:
    return token.token_type not in (TokenType.STRING, TokenType.NUMBER)


def _gives_name(before: Token | None) -> bool:
    return before is not None and before.token_type == TokenType.ALIAS


def _columns(name: str, text: str, tables: Mapping[str, Sequence[str]]) -> str | None:
    """Return a hint with the columns of the public tables that a text names."""
    named = dict.fromkeys(fold(token.text) for token in Outline.of(text).tokens if token.text.isascii())
    known = list(dict.fromkeys(column for table in named for column in tables.get(table, ())))
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"columns here: {', '.join(known)[:200]}" if known else None
