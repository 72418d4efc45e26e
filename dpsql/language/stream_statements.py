"""The parsed statements of streams: OPEN CHECKS, CHECK .. EXPECT, ASK, REFILL STREAM and CLOSE STREAM."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import Literal, get_args

from dpsql.errors import QueryRefused
from dpsql.language.statement import Query, StatementText
from dpsql.lazy_dataclass import dataclass

Sides = Literal["BOTH", "AT_MOST", "AT_LEAST"]
"""What the checks of a stream may ask: any; or one side alone, of counts, with half the noise."""
SIDES: tuple[Sides, ...] = get_args(Sides)
SCALES: tuple[Fraction, ...] = tuple(Fraction(tenths, 10) for tenths in range(8, 13))
"""What the numbers of models are multiplied by, if a stream does not say it."""


@dataclass(frozen=True, slots=True)
class OpenChecks:
    """OPEN CHECKS name OPTIONS (..): begins a stream, whose whole epsilon is charged.

    Attributes
    ----------
    epsilon, misses
        What the stream costs, and how many checks may be off.
    answers
        The share of a miss's budget for a fresh answer; 0: none.
    sides
        What its checks may ask.
    tolerance
        That of checks which say none; None: they have to.
    at_once
        After so many that are off in one statement, the rest of it is not checked.
    models, scales
        The models of the policy that its checks may expect, and what their numbers are multiplied by.
    parts
        The first and the last day of the parts of units that it may ask about; None: all parts.
    rows
        A public lower bound of each group's rows, for intervals of averages; None: these have none.
    """

    source: StatementText
    name: str
    epsilon: Fraction
    misses: int
    answers: Fraction = Fraction(1, 3)
    sides: Sides = "BOTH"
    tolerance: Fraction | None = None
    at_once: int = 2
    models: tuple[str, ...] = ()
    scales: tuple[Fraction, ...] = SCALES
    parts: tuple[date, date] | None = None
    rows: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a column.

    Attributes
    ----------
    low, high
        The number is at least `low` - tolerance and at most `high` + tolerance; None: that side is open.
    tolerance
        None: that of the stream.
    table
        The public table that has the expectations of groups, beside their keys; "" if there is none.
    last
        The number is what the stream last accepted or answered of the same SELECT, or of the same name (PER).
    models
        The number is the weighted median of what the stream's models have.
    share
        The tolerance as a share of that number; None: it is `tolerance`.
    """

    low: Fraction | None = None
    high: Fraction | None = None
    tolerance: Fraction | None = None
    table: str = ""
    at: int = 0
    last: bool = False
    share: Fraction | None = None
    models: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """CHECK name SELECT .. EXPECT column ..: compares numbers with what is expected of them.

    Attributes
    ----------
    query
        The SELECT as written.
    statistics
        The SELECT that counts how far its column is from what is expected: on the low side and, behind it, on
        the high one, as far as there are such sides. The same as `query` for counts and sums, which are
        compared themselves.
    kind
        Of the column: a count or sum, an average, or a quantile.
    column
        Its name.
    series
        What finds its results for later checks that expect LAST: its SELECT and column, or the name of PER.
    """

    source: StatementText
    name: str
    query: Query
    statistics: Query
    kind: Literal["sum", "average", "quantile"]
    column: str
    expected: Expectation
    series: str


@dataclass(frozen=True, slots=True)
class Ask:
    """ASK name SELECT ..: the short form of the question for which a stream was opened."""

    source: StatementText
    name: str
    query: Query
    check: Check | QueryRefused
    """What it asks of a stream with models: whether its last column is what they have; or why it cannot."""


@dataclass(frozen=True, slots=True)
class StreamCommand:
    """A parsed REFILL STREAM name or CLOSE STREAM name."""

    source: StatementText
    what: Literal["refill", "close"]
    name: str
    misses: int | None = None
    """Of REFILL: another number of misses."""
