"""How a statement is sent: asked for as Arrow by COPY, or plainly as a command of the connection."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpsql.errors import ProgrammingError
from dpsql.language import Source, split, words, written_out
from dpsql.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.language import Parameters

_SHOWN = frozenset({"PRIVACY", "TABLES", "RELEASES", "RELEASE"})
_FREE = frozenset({"EXPLAIN", "DESCRIBE", "DESC"})
_COMMANDS = frozenset(
    {"SET", "RESET", "SHOW", "DISCARD", "DEALLOCATE", "LISTEN", "UNLISTEN"}
    | {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"}
    | {"DECLARE", "FETCH", "MOVE", "CLOSE"}
)
"""What concerns the connection: it cannot be asked for as Arrow."""


_CATALOG = re.compile(r"\b(?:pg_|information_schema\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sent:
    """A text for the server, and where in it the analyst's statement begins."""

    text: str
    statement: str
    begin: int = 0
    before: str = ""
    """What stands before it in the text that is answered: EXPLAIN, where only the price is asked."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One statement with its parameters written out."""

    text: str
    first: tuple[str, ...]
    """Its first words, in upper case."""

    @classmethod
    def of(cls, text: str, parameters: Parameters) -> Outgoing:
        """Check that a text is one statement, and write its parameters into it."""
        parts, source = split(text), Source(text)
        if not parts:
            raise source.syntax("there is no statement")
        if len(parts) > 1:
            raise source.syntax("one statement at a time: found `;` inside", text.index(parts[1]))
        statement = text.rstrip()
        if not statement.endswith(parts[0]):  # behind it stand semicolons and comments
            statement = text[: text.index(parts[0]) + len(parts[0])]
        if parameters:
            statement = written_out(statement, parameters)
        return cls(statement, words(statement, 3))

    @property
    def priced(self) -> bool:
        """Whether the server can say its price: a SELECT or a REFINE RELEASE, also a misspelt one."""
        return self.first[0] not in _COMMANDS | _FREE

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
    def answered(self) -> bool:
        """Whether the statement is one of dpsql with rows, not a command of the connection."""
        shown = self.first[0] == "SHOW" and not _SHOWN.isdisjoint(self.first[1:2])
        return shown or self.first[0] not in _COMMANDS

    def answer(self) -> Sent:
        """Write what asks for its answer."""
        return self._copy("") if self.answered else Sent(self.text, self.text)

    def price(self) -> Sent:
        """Write what asks for its price."""
        if not self.priced:
            raise ProgrammingError("only a SELECT or a REFINE RELEASE has a price")
        return self._copy("EXPLAIN (FORMAT JSON)\n")

    def _copy(self, before: str) -> Sent:
        begin = f"COPY ({before}"
        return Sent(f"{begin}{self.text}\n) TO STDOUT (FORMAT arrow, RELEASE)", self.text, len(begin), before)
