"""Errors of the server itself, each with its SQLSTATE; none tells anything of private rows."""

from __future__ import annotations

from dpsql.errors import Error, NotSupportedError, OperationalError, QueryRefused, QuerySyntaxError


class CodedError(Error):
    """An error that is given its SQLSTATE and hint when it is raised; mixed into classes of `dpsql.errors`.

    Attributes
    ----------
    sqlstate
        The SQLSTATE, as PostgreSQL has it for the same mistake.
    hint
        What to write or send instead, or None.
    """

    def __init__(self, message: str, sqlstate: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.sqlstate, self.hint)


class QueueFull(OperationalError):  # noqa: N818  an event, as `BudgetExceeded`
    """As many statements wait as the server lets wait; nothing was charged."""

    sqlstate = "53300"
    hint = "wait until one of them has ended"


class StatementTooLong(OperationalError):  # noqa: N818  as above
    """The text of a statement is longer than the server reads."""

    sqlstate = "54000"
    hint = None


class TimedOut(OperationalError):  # noqa: N818  as above
    """The statement ran longer than `statement_timeout`. If it was charged, it counts as a failure."""

    sqlstate = "57014"
    hint = None


class LoginEnded(OperationalError):  # noqa: N818  as above
    """The user of a connection may not ask any more, or its password or token does not hold any more."""

    sqlstate = "28000"
    hint = "log in again"


class PolicyReloaded(OperationalError):  # noqa: N818  as above
    """The policy was read again while the statement waited; nothing was charged."""

    sqlstate = "55000"
    hint = "send it again"


class ShuttingDown(OperationalError):  # noqa: N818  as above
    """The server is ending and runs no further statement."""

    sqlstate = "57P01"
    hint = None


class CatalogRefused(NotSupportedError):  # noqa: N818  as above
    """A statement reads the catalogue and data at once."""

    sqlstate = "0A000"
    hint = "ask the catalogue and the tables in two statements"


def locate(error: BaseException, text: str) -> None:
    """Write into an error where in the statement's text its first obstacle stands, if it has a place."""
    if not isinstance(error, (QueryRefused, QuerySyntaxError)):
        return
    first = error.obstacles[0]
    if first.line is None or first.col is None or first.source is None:
        return
    lines = text.split("\n")
    if first.line <= len(lines) and lines[first.line - 1] == first.source:
        error.position = sum(len(line) + 1 for line in lines[: first.line - 1]) + first.col - 1
