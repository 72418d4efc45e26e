"""Parse OPEN STABLE: streams of exact answers, of which only those that are close use what is paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from sqlglot.tokenizer_core import Token

from dpsql.language.statement import StatementText
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
