"""The server's own errors, each with its SQLSTATE, and the limits of all that decodes what a client sends.

Errors: none tells anything of private rows.

Limits: a length or a count in a message is small, and what it stands for can be large. So each decoder has a
`DecodingBudget`: it takes decoded bytes and steps, not wire bytes, from it before it allocates or works, and
raises where nothing is left. One table, `LIMITS`, has them by kind of message. The budgets of one connection
are charged to its `MemoryAccount`, that to the analyst's, and that to the server's.
"""

from __future__ import annotations

import threading
import weakref
from types import MappingProxyType
from typing import Self

from dpsql.errors import (
    Error,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    QueryRefused,
    QuerySyntaxError,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.lazy_pattern import lazy_pattern


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
    """The server's queue is full: as many statements wait as it lets wait; nothing was charged."""

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


@dataclass(frozen=True, slots=True)
class Limit:
    """What one message may decode to."""

    bytes: int
    steps: int
    """Parts that are read one by one: elements, fields, escapes. A step takes a few microseconds."""
    depth: int = 1
    """How deeply its parts may lie in each other."""


LIMITS = MappingProxyType(
    {
        "startup": Limit(40_000, 100),
        "parse": Limit(4 << 20, 1_000),
        "bind": Limit(8 << 20, 100_000),
        "request": Limit(1 << 20, 20),
        "sign in": Limit(1 << 14, 10),
        "program": Limit(1 << 20, 1_000, 32),
    }
)
"""The limits of each kind of message: of the wire, of JSON over HTTP, and of programs (MCP)."""
MOST_NAME = 1_024
"""Bytes of the name of a prepared statement, a portal, a cursor or a savepoint."""
MOST_PARAMETERS = 1_000
"""Parameters of a statement."""
MOST_COLUMNS = 1_664
"""Columns of a prepared statement, as many as PostgreSQL has."""
MOST_DIGITS = 1_000
"""Digits of a number, before and behind the point together; the engine has 38, and DOUBLE beyond."""
MOST_SCALAR = 2_000
"""Characters of the text of a value that is no text itself."""
MOST_WORDS = 25_000
"""Words and signs of what is split into tokens, which nothing else runs beside: dpsql reads 20,000 tokens."""
MOST_QUERY_STRING = 1_000
"""Bytes of what stands behind ? in an address."""
MOST_HEADERS = 16 << 10
"""Bytes of the headers of a request over HTTP."""

OF_CONNECTION = 16 << 20
OF_ANALYST = 128 << 20
OF_ALL = 256 << 20
"""Decoded bytes that a connection, the connections of an analyst, and those of all may keep and work on."""

_PART = 1 << 16
"""Bytes that a budget takes from its account at once."""
VALUE = 64
"""Bytes that a value takes beside its text."""
COLUMN = 256
"""Bytes that the description of a column or parameter takes beside its name."""


class LimitExceeded(CodedError, ProgrammingError):  # noqa: N818  an event, as `BudgetExceeded`
    """What a client sent stands for more than the server decodes; nothing was allocated for it."""


def size_of(text: bytes | str) -> int:
    """Return the most bytes that a text takes once it is decoded.

    >>> size_of(b"abc"), size_of("ab\u00e9".encode()), size_of("ab\u00e9")
    (3, 16, 12)
    """
    return len(text) if text.isascii() else 4 * len(text)


class MemoryAccount:
    """Counts decoded bytes: of a connection, and with it of those above. Any thread may use it."""

    def __init__(
        self, most: int = OF_CONNECTION, above: MemoryAccount | None = None, whose: str = ""
    ) -> None:
        self._most, self._above = most, above
        self._whose = whose or "this connection has"
        # All accounts of a server have one lock: what is counted in one is counted in those above it.
        self._lock: threading.Lock = threading.Lock() if above is None else above._lock  # noqa: SLF001
        self.used = 0

    def take(self, size: int) -> None:
        """Count bytes that will be allocated; if there are too many, count none and raise `LimitExceeded`."""
        levels = self._levels()
        with self._lock:
            for each in levels:
                each._check(size)  # noqa: SLF001  of its own kind
            for each in levels:
                each.used += size

    def give(self, size: int) -> None:
        """Count bytes as freed, in this memory account and in the accounts above it."""
        levels = self._levels()
        with self._lock:
            for each in levels:
                each.used -= size

    def close(self) -> None:
        """Count as freed all that is counted here."""
        self.give(self.used)

    def _check(self, size: int) -> None:
        if self.used + size > self._most:
            raise LimitExceeded(
                f"{self._whose} more to decode and to keep than the {self._most:,} bytes that are allowed",
                "53200",
                "close portals and prepared statements that are not used, or send fewer values at once",
            )

    def _levels(self) -> list[MemoryAccount]:
        """Return this memory account and the accounts above it."""
        return [self] if self._above is None else [self, *self._above._levels()]  # noqa: SLF001  as above


class MemoryAccounts:
    """The accounts of a server: one for all, one for each analyst who has connections."""

    def __init__(self, of_all: int = OF_ALL, of_analyst: int = OF_ANALYST) -> None:
        self.all = MemoryAccount(of_all, whose="the connections of all have")
        self._of_analyst = of_analyst
        self._analysts: weakref.WeakValueDictionary[str, MemoryAccount] = weakref.WeakValueDictionary()
        """Those of analysts who have connections, whose accounts hold them."""

    def open(self, analyst: str, most: int = OF_CONNECTION) -> MemoryAccount:
        """Return the account of a new connection, or another one of a connection for so many bytes."""
        above = self._analysts.get(analyst)
        if above is None:
            above = MemoryAccount(self._of_analyst, self.all, "your connections have")
            self._analysts[analyst] = above
        return MemoryAccount(most, above)


class DecodingBudget:
    """What one message may still decode to; one thread at a time uses it."""

    __slots__ = ("_account", "_kind", "_limit", "_taken", "size", "steps")

    def __init__(self, kind: str, account: MemoryAccount | None = None) -> None:
        self._kind, self._limit, self._account = kind, LIMITS[kind], account
        self.size = self.steps = self._taken = 0

    def take(self, size: int = 0, steps: int = 1) -> None:
        """Count bytes and steps before they are spent; raises `LimitExceeded`."""
        if self.size + size > self._limit.bytes or self.steps + steps > self._limit.steps:
            raise LimitExceeded(
                f"a message ({self._kind}) stands for more than {self._limit.bytes:,} bytes or "
                f"{self._limit.steps:,} values",
                "54000",
                "send fewer or shorter values",
            )
        account = self._account
        if account is not None and self.size + size > self._taken:
            more = max(_PART, self.size + size - self._taken)
            account.take(more)
            self._taken += more
        self.size += size
        self.steps += steps

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give back the bytes that decoding took; values that are kept are counted by who keeps them."""
        account, self._account = self._account, None  # a thread that nobody awaits any more takes nothing
        if account is not None:
            account.give(self._taken)


_WORD = lazy_pattern(r"'[^']*'|\"[^\"]*\"|--[^\n]*|\w+|[<>!=|:&*/-]{2}|[^\w\s]")


def check_words(text: str) -> None:
    """Raise `LimitExceeded` for a text of too many words, before it is split into tokens.

    >>> check_words("SELECT '" + "(" * 60_000 + "'")
    >>> check_words("SELECT " + "(" * 60_000)
    Traceback (most recent call last):
    dpsql.serve.limits.LimitExceeded: the statement has more than 25,000 words and signs
    """
    if len(text) > MOST_WORDS and sum(1 for _ in _WORD.finditer(text)) > MOST_WORDS:
        raise LimitExceeded(f"the statement has more than {MOST_WORDS:,} words and signs", "54000")


_NUMBER = lazy_pattern(rb"[0-9.eE+-]{101}")
_BRACKETS = lazy_pattern(rb"[][{}]")


def check_json(data: bytes, kind: str) -> None:
    """Raise `LimitExceeded` for JSON of too many parts, too deep or of too long a number, before it is read.

    >>> check_json(b'{"sql": "SELECT [[[[1]]]], {{2}}"}', "request")
    >>> check_json(b'{"sql": [[1]]}', "request")
    Traceback (most recent call last):
    dpsql.serve.limits.LimitExceeded: JSON is nested too deeply
    """
    budget, limit = DecodingBudget(kind), LIMITS[kind]
    if b"\0" in data:
        raise LimitExceeded("JSON has a NUL byte", "22021", "send UTF-8")
    shown = data.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    # Each text has two quotes, and each part of an object or list has a comma or bracket beside it.
    budget.take(size_of(data), shown.count(b'"') // 4)
    outside = b"".join(shown.split(b'"')[::2])
    budget.take(0, sum(map(outside.count, (b",", b"[", b"{"))))
    if _NUMBER.search(outside):
        raise LimitExceeded("JSON has a number with too many digits", "22003")
    depth = 0
    for bracket in _BRACKETS.findall(outside):
        depth += 1 if bracket in b"[{" else -1
        if depth > limit.depth:
            raise LimitExceeded("JSON is nested too deeply", "54000")
