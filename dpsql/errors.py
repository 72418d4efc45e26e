"""The exception tree, PEP 249's with dpsql's own leaves.

::

Warning:
    Error
    ├── InterfaceError                 the connector was used wrongly (a closed cursor)
    └── DatabaseError
        ├── DataError                  a value cannot be represented
        ├── OperationalError           the engine, the ledger's file or the machine failed
        │   ├── BudgetExceeded         .requested .remaining .scope
        │   ├── ResultTooLarge         a server returns no result of that size
        │   ├── StatementFailed        a private statement failed; its charge is kept
        │   └── TooManyFailures        the limit on statements that end without an answer is reached
        ├── IntegrityError             never raised; PEP 249 wants the name
        ├── InternalError              a bug of dpsql, never the analyst's fault
        ├── ProgrammingError
        │   ├── QuerySyntaxError       .line .col .hint .rewrite
        │   └── PolicyError            .hint    the owner's policy file is wrong
        └── NotSupportedError
            ├── EngineNotTested        the installed engine plans the statement in a way that was not tested
            └── QueryRefused           .obstacles .rewrite    the analysis cannot prove it private
                └── PriceNotAgreed     it costs more than was agreed

All are picklable. Their texts never carry a value of a private table, nor any text of the engine. Each has an
SQLSTATE, `sqlstate`: the standard's or PostgreSQL's where there is one, else one of the class ZP.
"""

from __future__ import annotations

import copy
import json
from dataclasses import field, replace
from fractions import Fraction
from functools import cache
from typing import Any, Literal, Self

from dpsql.lazy_dataclass import dataclass

__all__ = [
    "BudgetExceeded",
    "DataError",
    "DatabaseError",
    "EngineNotTested",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "PolicyError",
    "PriceNotAgreed",
    "ProgrammingError",
    "QueryRefused",
    "QuerySyntaxError",
    "ResultTooLarge",
    "StatementFailed",
    "TooManyFailures",
    "Warning",
]


class Warning(Exception):  # noqa: A001, N818  PEP 249 fixes the name
    """A condition that the caller should know of, although the statement succeeded."""


class Error(Exception):
    """Base of every error dpsql raises on purpose."""

    sqlstate: str = "XX000"
    """Its SQLSTATE."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook shows: what is wrong and where in the statement, and no frames."""
        return f"{type(self).__name__}: {self}".splitlines()

    def _repr_html_(self) -> str:
        """Return what a notebook shows of an error that is displayed: its text, with the marks in place."""
        from html import escape  # noqa: PLC0415  only notebooks draw

        kind, text = type(self).__name__, escape(str(self))
        style = "white-space:pre-wrap;border-left:4px solid #b42318;padding-left:.6em;text-align:left"
        return f'<pre class="dpsql" role="alert" style="{style}"><b>{kind}</b>: {text}</pre>'


class InterfaceError(Error):
    """The connector was used wrongly, for instance after `close()`."""

    sqlstate: str = "08003"


class DatabaseError(Error):
    """Base of the errors that concern the database."""


class DataError(DatabaseError):
    """A value cannot be represented or converted."""

    sqlstate: str = "22000"


class OperationalError(DatabaseError):
    """The engine, the ledger's file or the machine failed; the text is constant for engine failures."""

    sqlstate: str = "58000"


class IntegrityError(DatabaseError):
    """Part of PEP 249; dpsql writes no data, so it never raises this."""

    sqlstate: str = "23000"


class InternalError(DatabaseError):
    """A bug of dpsql: please report it. Nothing was released."""

    sqlstate: str = "XX000"

    def _render_traceback_(self) -> list[str]:
        """Return all that a report of the bug needs."""
        import traceback  # noqa: PLC0415  only a bug needs it

        return "".join(traceback.format_exception(self)).splitlines()


class ProgrammingError(DatabaseError):
    """The statement or its parameters are wrong."""

    sqlstate: str = "42000"


class NotSupportedError(DatabaseError):
    """The statement asks for something dpsql does not do."""

    sqlstate: str = "0A000"


class EngineNotTested(NotSupportedError):  # noqa: N818  a state, as `BudgetExceeded` is an event
    """The installed engine is no tested version, and the statement needs what no tested version has.

    Nothing was run and nothing was charged; the text says which version to install.
    """


class BudgetExceeded(OperationalError):  # noqa: N818  the design's name
    """The privacy budget does not pay for the statement; nothing was charged, no data was read.

    Attributes
    ----------
    requested, remaining
        `(epsilon, delta)`, exact.
    scope
        Which cap was exceeded: `"policy"`, `"lifetime"`, `"analyst NAME"` or `"query"`.
    """

    sqlstate = "ZP002"

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


class TooManyFailures(OperationalError):  # noqa: N818  the words of the policy's limit
    """As many statements run, failed or were cancelled as the policy allows; nothing was charged."""

    sqlstate = "ZP003"


class ResultTooLarge(OperationalError):  # noqa: N818  an event, as `BudgetExceeded`
    """The result has more rows or bytes than a server returns."""

    sqlstate = "54000"


class StatementFailed(OperationalError):  # noqa: N818  an event, as `BudgetExceeded`
    """A private statement failed after it was charged; the charge is kept, and it counts as a failure."""

    sqlstate = "ZP004"


Unknown = Literal["", "table", "column", "function"]
"""What a statement names that does not exist; empty: nothing."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change of a statement's text that may remove an obstacle.

    `option` names an option to add with the value `text`. Without it, `text` replaces what stands from
    `start` to `end`, or is added at the end. `also` has further changes that belong to this one.
    """

    text: str
    start: int = -1
    end: int = -1
    option: str = ""
    guess: str = ""
    """The part of `text` that nobody said, and that the analyst should think about."""
    asks: str = ""
    """What the changed statement asks, if that is something else."""
    provided: str = ""
    """On which condition the changed statement asks the same, if nobody has said that it holds."""
    also: tuple[Fix, ...] = ()
    known: bool = False
    """Whether the policy says, or the call that is changed, that the changed statement asks the same."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why a statement is refused, with its place and what to write instead.

    `line` and `col` count from 1; `source` is the statement's line.
    """

    message: str
    line: int | None = None
    col: int | None = None
    hint: str | None = None
    source: str | None = None
    fix: Fix | None = field(default=None, repr=False)
    unknown: Unknown = ""
    """What is named here and does not exist."""
    others: tuple[tuple[str | None, Fix], ...] = field(default=(), repr=False)
    """Other changes that may be meant, each with its hint."""

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


_SHOWN = 8
"""The most obstacles that the text of an error shows."""


class _Located(Exception):  # noqa: N818  only mixed into the leaves
    """Base of the errors that point into a statement: message, place, hint, and a statement that works."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        col: int | None = None,
        source: str | None = None,
        fix: Fix | None = None,
        unknown: Unknown = "",
    ) -> None:
        super().__init__(message)
        self.obstacles: tuple[Obstacle, ...] = (Obstacle(message, line, col, hint, source, fix, unknown),)
        """All that was found wrong with the statement, in the order of its text."""
        self.rewrite: str | None = None
        """A whole statement that would be accepted, or None."""
        self.node: object = None
        """The node of the parsed statement that the error points at, while the statement is analysed."""
        self.position: int | None = None
        """Where the first obstacle stands in the text, from 0; only front ends that need it set it."""

    @property
    def message(self) -> str:
        """The message of the first obstacle."""
        return self.obstacles[0].message

    @property
    def hint(self) -> str | None:
        """The hint of the first obstacle."""
        return self.obstacles[0].hint

    @property
    def line(self) -> int | None:
        """The line of the first obstacle, from 1."""
        return self.obstacles[0].line

    @property
    def col(self) -> int | None:
        """The column of the first obstacle, from 1."""
        return self.obstacles[0].col

    @property
    def source(self) -> str | None:
        """The statement's line that `col` points into."""
        return self.obstacles[0].source

    def below(self, lines: int) -> Self:
        """Return the error of a statement that begins this many lines further down in its file."""
        moved = copy.copy(self)
        moved.obstacles = tuple(
            o if o.line is None else replace(o, line=o.line + lines) for o in self.obstacles
        )
        return moved

    def __str__(self) -> str:
        shown = [str(o) for o in self.obstacles[:_SHOWN]]
        if len(self.obstacles) > 1:
            shown = [f"{i}: {text}" for i, text in enumerate(shown, 1)]
        if len(self.obstacles) > _SHOWN:
            shown.append(f"and {len(self.obstacles) - _SHOWN} more")
        if self.rewrite is not None:
            shown += ["would be accepted:", self.rewrite]
        return "\n".join(shown)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.obstacles, self.rewrite)


def _rebuild(kind: type[_Located], obstacles: tuple[Obstacle, ...], rewrite: str | None) -> _Located:
    made = kind(obstacles[0].message)
    made.obstacles, made.rewrite = obstacles, rewrite
    return made


class QuerySyntaxError(_Located, ProgrammingError):
    """The statement does not parse. `line` and `col` count from 1."""

    sqlstate: str = "42601"


class PolicyError(_Located, ProgrammingError):
    """The owner's policy is wrong; the message names the key, the hint says what to write."""

    sqlstate: str = "28000"


class QueryRefused(_Located, NotSupportedError):  # noqa: N818  the design's name
    """The analysis could not prove the statement private, so it was not run and not charged.

    `obstacles` has every reason that was found, at least one. `rewrite` is a whole statement that would be
    accepted instead, if one was found; `message`, `line`, `col` and `hint` are those of the first obstacle.
    """

    @property
    def sqlstate(self) -> str:  # type: ignore[override]  # it follows from the first obstacle
        """The SQLSTATE of the first obstacle that names something unknown, or else of a refused statement."""
        return UNKNOWN_STATES[next((one.unknown for one in self.obstacles if one.unknown), "")]


class PriceNotAgreed(QueryRefused):
    """The statement costs more than its analyst has agreed to; it was not run and not charged."""

    sqlstate = "ZP001"


UNKNOWN_STATES: dict[Unknown, str] = {"": "0A000", "table": "42P01", "column": "42703", "function": "42883"}
"""The SQLSTATE of a statement that names something that does not exist, or that is refused for no name."""

_TOLD = ("message", "line", "col", "hint", "source", "unknown")
"""What is told of an obstacle; its fix is for the process that found it."""


@cache
def _public_classes() -> dict[str, type[Error]]:
    """Return the exceptions of this package that clients know, by their names."""
    found, waiting = {}, [Error]
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == Error.__module__:
            waiting += kind.__subclasses__()
            if not kind.__name__.startswith("_"):
                found[kind.__name__] = kind
    return found


def error_to_json(error: Error) -> str:
    """Write an error of dpsql, also one of a subclass: the client gets the class of `dpsql.errors`."""
    kind = next(c for c in type(error).__mro__ if _public_classes().get(c.__name__) is c)
    found: dict[str, Any] = {"class": kind.__name__, "text": str(error)}
    if isinstance(error, BudgetExceeded):
        amounts = {"requested": error.requested, "remaining": error.remaining}
        found |= {name: [str(amount) for amount in pair] for name, pair in amounts.items()}
        found["scope"] = error.scope
    elif isinstance(error, (PolicyError, QueryRefused, QuerySyntaxError)):
        found["obstacles"] = [{name: getattr(o, name) for name in _TOLD} for o in error.obstacles]
        found["rewrite"] = error.rewrite
    return json.dumps(found, ensure_ascii=False)


def error_from_json(text: str) -> Error:
    """Read an error back; raises `ValueError` for a text that `to_json` has not written."""
    try:
        found = json.loads(text)
        kind = _public_classes()[found["class"]]
        if issubclass(kind, BudgetExceeded):
            requested, remaining = (
                (Fraction(epsilon), Fraction(delta))
                for epsilon, delta in (found["requested"], found["remaining"])
            )
            return kind(found["text"], requested, remaining, found["scope"])
        error = kind(found["text"])
        if isinstance(error, (PolicyError, QueryRefused, QuerySyntaxError)):
            error.obstacles = tuple(
                Obstacle(**{name: each[name] for name in _TOLD}) for each in found["obstacles"]
            )
            error.rewrite = found["rewrite"]
            error.args = (error.obstacles[0].message,)
    except (KeyError, TypeError, IndexError, ValueError, ZeroDivisionError):
        raise ValueError("this is no error of dpsql") from None
    return error


def with_article(noun: str) -> str:
    """Write a noun with its indefinite article, by its first letter; a word with u begins as `unit` does.

    >>> with_article("patient"), with_article("aircraft"), with_article("user")
    ('a patient', 'an aircraft', 'a user')
    """
    return f"{'an' if noun[:1].lower() in tuple('aeio') else 'a'} {noun}"
