"""Parse the statements of boards and holdouts: OPEN BOARD, OPEN HOLDOUT, and CHECK of a score without EXPECT.

Both are streams of checks of averages. A holdout compares a score with that on the training rows; a board
compares it with its best, which is known when the check is prepared (`composition.boards`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.language.check_rewrites import (
    count_values,
    end_without_name,
    find_items,
    name_of_item,
    rewrite_item,
)
from dpsql.language.statement import Query, StatementText
from dpsql.language.stream_statements import Check, Expectation, OpenChecks
from dpsql.language.tokens import Cursor
from dpsql.lazy_dataclass import dataclass

BEST: Final = ("LOWEST", "HIGHEST")
"""Which scores of a board are better."""
TRAINING: Final = ("OTHER_UNITS", "PRIVATE")
"""Why a score on training rows tells nothing of the rows of a holdout: no unit is in both, or it was released
with noise."""


@dataclass(frozen=True, slots=True)
class OpenBoard(OpenChecks):
    """OPEN BOARD name OPTIONS (..): a stream of scores, each compared with the best until then.

    `misses` is how many improvements are answered. A score is one if it is better than the best by more than
    `step`; before the first one, the best is `start`.
    """

    highest: bool = False
    step: Fraction = Fraction(0)
    start: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class OpenHoldout(OpenChecks):
    """OPEN HOLDOUT name OPTIONS (..): a stream of scores, each compared with the same on training rows."""

    training: str = ""


@dataclass(frozen=True, slots=True)
class Submission(Check):
    """CHECK name SELECT AVG(..) FROM .., without EXPECT: a score that is compared with a board's best.

    `statistics` is `query` until that best is known; `expect` then makes them.
    """

    expect: Callable[[Expectation], Query]
    rows: Callable[[], Query]
    """Returns the statement that counts the rows of the average."""


BOARD_ANSWERS: Final = Fraction(1, 10)
"""The share of an improvement for counting the rows of its score, which follows from its gap: the best one
for scores that are better than the edge by a 19th of what a row can change.

`estimates.scores_and_weights` says why."""
_EXAMPLES: Final = {
    "BOARD": "OPEN BOARD {} OPTIONS (epsilon = 1, improvements = 15, step = 0.01, best = LOWEST, start = 1)",
    "HOLDOUT": "OPEN HOLDOUT {} OPTIONS (epsilon = 1, misses = 8, training = OTHER_UNITS)",
}
SCORES: Final = (*_EXAMPLES,)
"""What follows OPEN, beside CHECKS."""
_NEEDED: Final = {
    "BOARD": ("epsilon", "improvements", "step", "best", "start"),
    "HOLDOUT": ("epsilon", "misses", "training"),
}
_FREE: Final = {"BOARD": ("rows", "parts"), "HOLDOUT": ("rows", "parts", "answers", "at_once")}

ReadName = Callable[[StatementText, Cursor, Sequence[Token]], str]
ReadOptions = Callable[[StatementText, Cursor, set[str]], dict[str, Any]]


def parse_open_scores(
    source: StatementText, at: Cursor, read_name: ReadName, read_options: ReadOptions
) -> OpenBoard | OpenHoldout:
    """Parse OPEN BOARD or OPEN HOLDOUT, from the second word on."""
    tokens, what, start = at.tokens, at.word(), at.tokens[0].start
    at.i += 1
    name = read_name(source, at, tokens)
    options = read_options(source, at, {*_NEEDED[what], *_FREE[what]})
    if at.kind() is not None:
        raise source.syntax(f"cannot read `{at.text()[:40]}` here", tokens[at.i - 1].start)
    missing = [option for option in _NEEDED[what] if option not in options]
    if missing:
        why = ""
        if missing == ["training"]:
            why = ": a score on rows of the holdout's own units would tell of them, unless it is private"
        raise source.syntax(
            f"a {what.lower()} needs the option {missing[0]}{why}", start, _EXAMPLES[what].format(name)
        )
    if what == "HOLDOUT":
        return OpenHoldout(source, name, **options)
    if not options["step"]:
        raise source.syntax(
            "option step: it must be above 0, or noise alone is an improvement",
            start,
            _EXAMPLES[what].format(name),
        )
    return OpenBoard(
        source,
        name,
        options["epsilon"],
        options["improvements"],
        BOARD_ANSWERS,
        at_once=1,
        parts=options.get("parts"),
        rows=options.get("rows"),
        highest=options["best"] == "HIGHEST",
        step=options["step"],
        start=options["start"],
    )


def parse_submission(
    source: StatementText, name: str, query: list[Token], parse: Callable[[list[Token]], Query]
) -> Submission:
    """Parse a check without EXPECT, from its SELECT on."""
    items = find_items(query)
    if len(items) != 1 or items[0][0] == items[0][1]:
        raise source.refuse(
            "CHECK without EXPECT is of one score, which a board compares with its best; another check says "
            "what is expected",
            query[0].start,
            f"CHECK {name} SELECT AVG(CASE WHEN .. THEN 1 ELSE 0 END) AS score FROM .., or EXPECT ..",
        )
    begin, end = items[0]
    named = name_of_item(query, begin, end)
    if named < 0:
        at = query[end - 1]
        words = ((TokenType.ALIAS, "AS"), (TokenType.VAR, "score"))
        alias = [Token(kind, text, at.line, at.col, at.start, at.end) for kind, text in words]
        query = [*query[:end], *alias, *query[end:]]
        end, named = end + 2, end + 1
    column = query[named].text
    item = begin, end_without_name(query, named)
    made = parse(query)

    def expect(expected: Expectation) -> Query:
        kind, statistics = rewrite_item(source, query, item, expected)
        if kind != "average" or statistics is None:
            raise source.refuse(
                "a board compares averages",
                query[begin].start,
                f"CHECK {name} SELECT AVG(CASE WHEN .. THEN 1 ELSE 0 END) AS score FROM ..",
            )
        return parse(statistics)

    def rows() -> Query:
        return parse(count_values(query, begin))

    return Submission(source, name, made, made, "average", column, Expectation(), "", expect, rows)
