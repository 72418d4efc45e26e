"""Parse what asks for exact answers: OPEN STABLE, a stream of questions; FIRST STABLE, one of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.statement import Query, StatementText
from dpsql.language.stream_statements import OpenChecks
from dpsql.language.tokens import Cursor
from dpsql.lazy_dataclass import dataclass


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


EXAMPLE: Final = "OPEN STABLE {} OPTIONS (epsilon = 1, delta = 1e-6, unstable = 5, questions = 1000)"
_OPTIONS: Final = {"epsilon", "delta", "unstable", "questions", "parts"}

ReadName = Callable[[StatementText, Cursor, Sequence[Token]], str]
ReadOptions = Callable[[StatementText, Cursor, set[str]], dict[str, Any]]


def parse_open_stable(
    source: StatementText, at: Cursor, read_name: ReadName, read_options: ReadOptions
) -> OpenStable:
    """Parse OPEN STABLE, from the second word on."""
    tokens, start = at.tokens, at.tokens[0].start
    at.i += 1
    name = read_name(source, at, tokens)
    options = read_options(source, at, _OPTIONS)
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{at.text()[:40]}` here", tokens[at.i - 1].start)
    if not {"epsilon", "delta", "unstable"} <= options.keys():
        raise source.syntax(
            "a stream of exact answers needs its epsilon and delta, and how many of them may be unstable",
            start,
            EXAMPLE.format(name),
        )
    misses = options.pop("unstable")
    return OpenStable(source, name, misses=misses, **options)


_LIST: Final = (
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
            raise source.syntax("FIRST STABLE takes SELECTs, with ELSE between them", found, _LIST)
    if len(parts) < 2:
        raise source.syntax(
            "FIRST STABLE takes several SELECTs, with ELSE between them",
            at,
            "one alone: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = FIRST_STABLE, ..) ..",
        )
    return FirstStable(source, tuple(parse(part) for part in parts))
