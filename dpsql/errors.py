"""The exception tree, PEP 249's with dpsql's own leaves.

::

    Warning
    Error
    ├── InterfaceError                 the connector was used wrongly (a closed cursor)
    └── DatabaseError
        ├── DataError                  a value cannot be represented
        ├── OperationalError           the engine, the ledger's file or the machine failed
        │   └── BudgetExceeded         .requested .remaining .scope
        ├── IntegrityError             never raised; PEP 249 wants the name
        ├── InternalError              a bug of dpsql, never the analyst's fault
        ├── ProgrammingError
        │   ├── QuerySyntaxError       .line .col .hint
        │   └── PolicyError            .hint    the owner's policy file is wrong
        └── NotSupportedError
            └── QueryRefused           .line .col .hint    the analysis cannot prove it private

All are picklable. Their texts never carry a value of a private table, nor any text of the engine.
"""  # noqa: D214, D416  `Warning` is an exception here, not a section

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "BudgetExceeded",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "PolicyError",
    "ProgrammingError",
    "QueryRefused",
    "QuerySyntaxError",
    "Warning",
]


class Warning(Exception):  # noqa: A001, N818  PEP 249 fixes the name
    """A condition that the caller should know of, although the statement succeeded."""


class Error(Exception):
    """Base of every error dpsql raises on purpose."""


class InterfaceError(Error):
    """The connector was used wrongly, for instance after `close()`."""


class DatabaseError(Error):
    """Base of the errors that concern the database."""


class DataError(DatabaseError):
    """A value cannot be represented or converted."""


class OperationalError(DatabaseError):
    """The engine, the ledger's file or the machine failed; the text is constant for engine failures."""


class IntegrityError(DatabaseError):
    """Part of PEP 249; dpsql writes no data, so it never raises this."""


class InternalError(DatabaseError):
    """A bug of dpsql: please report it. Nothing was released."""


class ProgrammingError(DatabaseError):
    """The statement or its parameters are wrong."""


class NotSupportedError(DatabaseError):
    """The statement asks for something dpsql does not do."""


class BudgetExceeded(OperationalError):  # noqa: N818  the design's name
    """The privacy budget does not pay for the statement; nothing was charged, no data was read.

    Attributes
    ----------
    requested, remaining
        `(epsilon, delta)`, exact.
    scope
        Which cap was exceeded: `"policy"`, `"analyst NAME"` or `"query"`.
    """

    def __init__(
        self,
        message: str,
        requested: tuple[Fraction, Fraction],
        remaining: tuple[Fraction, Fraction],
        scope: str,
    ) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining
        self.scope = scope

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.requested, self.remaining, self.scope)


class _Located(Exception):  # noqa: N818  only mixed into the leaves
    """Base of the errors that point into a statement: message, place and one hint."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        col: int | None = None,
        source: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line
        self.col = col
        self.source = source
        """The statement's line that `col` points into."""

    def __str__(self) -> str:
        parts = [self.message]
        if self.source is not None and self.line is not None and self.col is not None:
            prefix = f"  line {self.line}: "
            # A caret far to the right is shown in a window of the line, so that it is never wrapped away.
            start = max(0, self.col - 1 - 60)
            shown = self.source[start : start + 100].replace("\t", " ")
            lead = "..." if start else ""
            parts += [prefix + lead + shown, " " * (len(prefix) + len(lead) + self.col - 1 - start) + "^"]
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.line, self.col, self.source)


def _rebuild(
    kind: type, message: str, hint: str | None, line: int | None, col: int | None, source: str | None
) -> object:
    return kind(message, hint=hint, line=line, col=col, source=source)


class QuerySyntaxError(_Located, ProgrammingError):
    """The statement does not parse. `line` and `col` count from 1."""


class PolicyError(_Located, ProgrammingError):
    """The owner's policy is wrong; the message names the key, the hint says what to write."""


class QueryRefused(_Located, NotSupportedError):  # noqa: N818  the design's name
    """The analysis could not prove the statement private, so it was not run and not charged."""
