"""What engines raise: one of few constant messages."""

from __future__ import annotations

import re

from dpsql.errors import Unknown

UNCHARGED = "the statement was cancelled; nothing was charged"
KEPT = "the statement was cancelled; what it released is stored, and costs nothing when it is asked again"


class Untranslatable(Exception):  # noqa: N818  a refusal of the statement for this engine
    """The engine cannot run a part of the statement with DuckDB's result on every value.

    It is raised before anything is charged. `hint` says what to write instead.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnboundQuery(Exception):  # noqa: N818  a refusal of the statement
    """A query over released rows names or types something that is not there; nothing was charged."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def missing(self) -> tuple[Unknown, str]:
        """What is named and does not exist, and its name; empty texts if that is not the reason."""
        for what, pattern in _MISSING.items():
            found = pattern.search(self.message)
            if found is not None:
                return what, found[1]
        return "", ""


_MISSING: dict[Unknown, re.Pattern[str]] = {
    "column": re.compile(r'(?:Referenced column|does not have a column named) "([^"\n]{1,100})"'),
    "function": re.compile(r"Function with name \"?([^\"\s]{1,100})\"? does not exist"),
    "table": re.compile(r"Table with name \"?([^\"\s!]{1,100})\"? does not exist"),
}
"""How DuckDB reports a name that does not exist, by what the name would mean."""
