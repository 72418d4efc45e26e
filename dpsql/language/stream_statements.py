"""The parsed statements of streams: OPEN CHECKS, CHECK .. EXPECT, ASK, REFILL STREAM and CLOSE STREAM.

It parses OPEN STABLE and FIRST STABLE, which ask for exact answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import QueryRefused
from dpsql.language.statement import Query, StatementText
from dpsql.language.tokens import Cursor
from dpsql.lazy_dataclass import dataclass

STREAMS = ("OPEN", "CHECK", "ASK", "REFILL", "CLOSE", "FIRST")
"""The first words of statements about streams and boards."""
Sides = Literal["BOTH", "AT_MOST", "AT_LEAST"]
"""What the checks of a stream may ask: any; or one side alone, of counts, with half the noise."""
SIDES: tuple[Sides, ...] = get_args(Sides)
SCALES: tuple[Fraction, ...] = tuple(Fraction(tenths, 10) for tenths in range(8, 13))
"""What the numbers of models are multiplied by, if a stream does not say it."""


@dataclass(frozen=True, slots=True)
class OpenChecks:
    """OPEN CHECKS name OPTIONS (..): begins a stream, whose whole epsilon is charged."""

    source: StatementText
    name: str
    epsilon: Fraction
    misses: int
    """What the stream costs, and how many checks may be off."""
    answers: Fraction = Fraction(1, 3)
    """The share of a miss's budget for a fresh answer; 0: none."""
    sides: Sides = "BOTH"
    """What its checks may ask."""
    tolerance: Fraction | None = None
    """That of checks which say none; None: they have to."""
    at_once: int = 2
    """After so many that are off in one statement, the rest of it is not checked."""
    models: tuple[str, ...] = ()
    scales: tuple[Fraction, ...] = SCALES
    """The models of the policy that its checks may expect, and what their numbers are multiplied by."""
    parts: tuple[date, date] | None = None
    """The first and the last day of the parts of units that it may ask about; None: all parts."""
    rows: Fraction | None = None
    """A public lower bound of each group's rows, for intervals of averages; None: these have none."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a column."""

    low: Fraction | None = None
    high: Fraction | None = None
    """The number is at least `low` - tolerance and at most `high` + tolerance; None: that side is open."""
    tolerance: Fraction | None = None
    """None: that of the stream."""
    table: str = ""
    """The public table that has the expectations of groups, beside their keys; "" if there is none."""
    at: int = 0
    last: bool = False
    """The number is what the stream last accepted or answered of the same SELECT, or of the same name
    (PER)."""
    share: Fraction | None = None
    """The tolerance as a share of that number; None: it is `tolerance`."""
    models: bool = False
    """The number is the weighted median of what the stream's models have."""


@dataclass(frozen=True, slots=True)
class Check:
    """CHECK name SELECT .. EXPECT column ..: compares numbers with what is expected of them."""

    source: StatementText
    name: str
    query: Query
    """The SELECT as written."""
    statistics: Query
    """The SELECT that counts how far its column is from what is expected: on the low side and, behind it, on
    the high one, as far as there are such sides. The same as `query` for counts and sums, which are
    compared themselves."""
    kind: Literal["sum", "average", "quantile"]
    """Of the column: a count or sum, an average, or a quantile."""
    column: str
    """Its name."""
    expected: Expectation
    series: str
    """What finds its results for later checks that expect LAST: its SELECT and column, or the name of PER."""


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


@dataclass(frozen=True, slots=True)
class OpenStable(OpenChecks):
    """OPEN STABLE name OPTIONS (..): a stream of questions that are answered without noise, or not at all.

    `misses` is how many may be unstable, and `questions` how many are asked at most: delta is for these.
    """

    delta: Fraction = Fraction(0)
    questions: int = 1_000


@dataclass(frozen=True, slots=True)
class FirstStable:
    """FIRST STABLE SELECT .. ELSE SELECT ..: the exact answer of the first SELECT that has a stable one.

    The options of the first SELECT are those of the statement, which has one price.
    """

    source: StatementText
    queries: tuple[Query, ...]


_STABLE: Final = "OPEN STABLE {} OPTIONS (epsilon = 1, delta = 1e-6, unstable = 5, questions = 1000)"
_OPTIONS_OF_STABLE: Final = {"epsilon", "delta", "unstable", "questions", "parts"}

ReadName = Callable[[StatementText, Cursor, Sequence[Token]], str]
ReadOptions = Callable[[StatementText, Cursor, set[str]], dict[str, Any]]


def parse_open_stable(
    source: StatementText, at: Cursor, read_name: ReadName, read_options: ReadOptions
) -> OpenStable:
    """Parse OPEN STABLE, from the second word on."""
    tokens, start = at.tokens, at.tokens[0].start
    at.i += 1
    name = read_name(source, at, tokens)
    options = read_options(source, at, _OPTIONS_OF_STABLE)
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{at.text()[:40]}` here", tokens[at.i - 1].start)
    if not {"epsilon", "delta", "unstable"} <= options.keys():
        raise source.syntax(
            "a stream of exact answers needs its epsilon and delta, and how many of them may be unstable",
            start,
            _STABLE.format(name),
        )
    misses = options.pop("unstable")
    return OpenStable(source, name, misses=misses, **options)


_FIRST_STABLE: Final = (
    "FIRST STABLE SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) a FROM t GROUP BY a "
    "ORDER BY COUNT(*) DESC LIMIT 1 ELSE SELECT .."
)


def parse_first_stable(
    source: StatementText, tokens: list[Token], parse: Callable[[list[Token]], Query]
) -> FirstStable:
    """Parse FIRST STABLE SELECT .. ELSE SELECT ..; `parse` parses the tokens of a SELECT."""
    parts, depth, cases = list[list[Token]]([[]]), 0, 0
    for token in tokens[2:]:
        kind = token.token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        cases += (kind == TokenType.CASE) - (kind == TokenType.END)
        if kind == TokenType.ELSE and not depth and not cases:
            parts.append([])
        else:
            parts[-1].append(token)
    at, stable = tokens[0].start, [token.text.upper() for token in tokens[1:2]] == ["STABLE"]
    for part in parts if stable else ([],):
        if not part or part[0].text.upper() not in ("SELECT", "WITH"):
            found = part[0].start if part else at
            raise source.syntax("FIRST STABLE takes SELECTs, with ELSE between them", found, _FIRST_STABLE)
    if len(parts) < 2:
        raise source.syntax(
            "FIRST STABLE takes several SELECTs, with ELSE between them",
            at,
            "one alone: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, ..) ..",
        )
    return FirstStable(source, tuple(parse(part) for part in parts))
