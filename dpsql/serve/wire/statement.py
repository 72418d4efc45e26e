"""The statements in what a client sends, and what one statement gives back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpsql.language import pieces
from dpsql.serve.limits import check_words
from dpsql.serve.wire.command_types import Command, Copy, CopyOptions, Declare
from dpsql.serve.wire.commands import command, may_be_command
from dpsql.serve.wire.errors import WireError

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsql.release import Release
    from dpsql.serve.answer import AnswerColumn, Encoded, Notice


_SEVERAL = re.compile(r"--|/\*|\{#|;")
"""What a text may have that is more than one statement, or none."""
_QUOTE = re.compile(r"['\"$]")


class LocatedError(Exception):
    """Carries the error of a statement, whose positions count in `text`, at `offset` of what was sent."""

    def __init__(self, error: Exception, text: str, offset: int) -> None:
        super().__init__()
        self.error = error
        self.text = text
        self.offset = offset


@dataclass(frozen=True)
class Statement:
    """One statement; `offset` is the index of its first character in what the client sent."""

    text: str
    offset: int = 0

    @cached_property
    def command(self) -> Command | None:
        """The command of the session that it is; None for a statement that is answered."""
        return command(self.text) if self.may_be_command else None

    @cached_property
    def may_be_command(self) -> bool:
        """Whether its first word is that of a command, which is read at once; others have no tokens yet."""
        return may_be_command(self.text)

    def question(self, found: Command | None) -> Statement | None:
        """Return what is answered: the statement, or the query inside DECLARE or COPY; None for a command."""
        match found:
            case None:
                return self
            case Declare() | Copy():
                return Statement(found.query, self.offset + found.at)
        return None


@dataclass(frozen=True, slots=True)
class Description:
    """The parameters of a statement and the columns of its rows; without columns it gives no rows."""

    parameters: tuple[int, ...] = ()
    """The OIDs of the parameters."""
    types: tuple[pa.DataType, ...] = ()
    """The types of the parameters."""
    columns: tuple[AnswerColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave; `table` is None if it gives no rows."""

    tag: str
    """The text of CommandComplete, without the number of rows for `SELECT` and `COPY`."""
    columns: tuple[AnswerColumn, ...] = ()
    table: pa.Table | None = None
    notices: tuple[Notice, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    """SQLSTATE and text of the protocol's own warnings."""
    changes: tuple[tuple[str, str], ...] = ()
    """The reported settings that changed, with their values."""
    copy: CopyOptions | None = None
    """How the rows are copied out; None if they are sent as rows."""
    release: Release | None = None
    encoded: Encoded | None = None
    """Where the rows are kept as they were sent."""
    binary: bool = False
    """Whether the rows are those of a binary cursor, sent binary if the client chose no format."""

    def complete(self, rows: int) -> str:
        """Return the text of CommandComplete behind that many rows."""
        return f"{self.tag} {rows}" if self.tag in ("SELECT", "COPY") else self.tag


def check_length(text: str, longest: int) -> None:
    """Raise if what a client sent is too long."""
    if len(text) > longest:
        raise WireError("54000", f"the statement is longer than {longest:,} characters")
    check_words(text)


def split_plain(text: str) -> list[Statement] | None:
    """Return the statement, or none, of a text without comments and semicolons but at its end; else None.

    With quotes it may have no semicolon at all: the quote could be open.
    """
    found = _SEVERAL.search(text)
    if found is not None and (found[0] != ";" or text[found.end() :].strip() or _QUOTE.search(text)):
        return None
    whole = text.strip().removesuffix(";").rstrip()
    return [Statement(whole, len(text) - len(text.lstrip()))] if whole else []


def split(text: str) -> list[Statement]:
    """Split a text of any number of statements by its tokens, which takes time for a long one."""
    return [Statement(part, start) for start, part in pieces(text)]
