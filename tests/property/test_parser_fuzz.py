"""Whatever is typed, preparing it ends in a prepared statement or in one of dpsql's own errors, and soon."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random

import pytest
from fuzz.data import small_data
from fuzz.real import open_session
from fuzz.stage import Stage
from fuzz.statements import statement
from fuzz.world import worlds
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpsql.analysis import analyse, complete_options, is_private, survey
from dpsql.errors import Error, InternalError, QueryRefused, QuerySyntaxError
from dpsql.language import Query, parse, split_script
from dpsql.session import Session
from tests.narrow import engine_of

SEED = 7
FIXTURES = Path(__file__).parents[1] / "sql"
CLAUSES = """
    WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, measure = AUTO) | TOP 3 BY n | ARGMAX BY n |
    ABOVE THRESHOLD 10 LIMIT 2 | FETCH FIRST 3 ROWS ONLY | LIMIT 5 | OFFSET 2 | HAVING n >= 2 |
    QUALIFY n > 1 | ORDER BY ALL | GROUP BY ALL | GROUP BY ROLLUP (1) | FILTER (WHERE TRUE) |
    OVER (PARTITION BY user_id) | USING SAMPLE 10 | TABLESAMPLE 5 | UNION ALL SELECT 1 |
    EXCEPT (SELECT 2) | EXPLAIN | SHOW RELEASES | SET dp_epsilon = 1 | DESCRIBE | FROM visits | SELECT |
    DISTINCT ON (user_id) | EXISTS (SELECT 1) | CASE WHEN | END | CAST(x AS | INTERVAL 3 DAY | ::INTEGER |
    -> | ->> | [1] | [1:2] | {'a': 1} | $1 | ? | $name | lambda x: x | x -> x | COLUMNS(*) |
    * EXCLUDE (a) | * REPLACE (1 AS a) | PIVOT | UNPIVOT | LATERAL | ASOF | POSITIONAL | NATURAL |
    RECURSIVE | VALUES (1) | IN (1, 2) | BETWEEN 1 AND 2 | LIKE 'a' ESCAPE '$' | SIMILAR TO 'a' |
    COLLATE NOCASE | AT (VERSION => 1) | INTO x | FOR UPDATE | COPY x TO 'y' | DELETE FROM visits |
    ATTACH 'x' | PRAGMA x
"""
BITS = [
    "'",
    '"',
    "(",
    ")",
    "[",
    "]",
    "{",
    ";",
    "--",
    "/*",
    "*/",
    "$$",
    "\\",
    "\x00",
    "\ufeff",
    "\u202e",
    "é",
    "😀",
]
BITS += [
    "\n",
    "\t",
    "1e999",
    "0x1F",
    "1_000",
    ".5",
    "5.",
    "99999999999999999999999",
    "-1",
    "NULL",
    "TRUE",
    "=>",
    "**",
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    made = Stage(worlds()[0])
    made.fill(small_data(Random(SEED), made.world))
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    made = open_session(stage, tmp_path_factory.mktemp("parser"))
    yield made
    made.close()


def sources(rng: Random, stage: Stage) -> list[str]:
    """Collect statements to start from: random ones, the fixtures, and short ones of every kind."""
    texts = [statement(rng, stage.world).text for _ in range(150)]
    for path in sorted(FIXTURES.glob("*/*.sql")):
        texts += split_script(path.read_text("utf-8"))
    return [*texts, "SHOW TABLES", "DESCRIBE visits", "SET dp_epsilon = 0.5", "SELECT 1", "FROM pages"]


def tokens(text: str) -> list[str]:
    try:
        return [text[t.start : t.end + 1] for t in DuckDB().tokenize(text)]
    except TokenError:
        return text.split()


def sort_of(token: str) -> str:
    """Sort tokens into texts, numbers, names and keywords, and the rest by themselves."""
    if token[:1] in "'\"" or token[:1].isdigit():
        return token[:1] if token[:1] in "'\"" else "0"
    return "word" if token[:1].isalpha() else "sign"


def mutated(rng: Random, text: str, others: list[str]) -> str:
    """Break a statement in one way or a few."""
    clauses = [c.strip() for c in CLAUSES.split("|")]
    parts = tokens(text) or [""]
    for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
        i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
        match rng.choice([*range(9), *[9] * 9]):
            case 0:
                del parts[i : i + rng.randint(1, 3)]
            case 1:
                parts[i], parts[j] = parts[j], parts[i]
            case 2:
                parts[i:i] = parts[min(i, j) : max(i, j)][:40]
            case 3:
                parts.insert(i, rng.choice(BITS))
            case 4:
                parts.insert(i, rng.choice(clauses))
            case 5:
                other = tokens(rng.choice(others)) or [""]
                k = rng.randrange(len(other))
                parts[i : i + 4] = other[k : k + rng.randint(1, 12)]
            case 6:
                parts[i] = "".join(
                    chr(rng.choice([rng.randrange(32, 127), rng.randrange(1, 0x2FFF)])) for _ in range(4)
                )
            case 7:
                depth = rng.choice([1, 5, 30, 70, 300])
                opening, closing = rng.choice(
                    [
                        ("(", ")"),
                        ("[", "]"),
                        ("CASE WHEN TRUE THEN ", " END"),
                        ("(SELECT ", ")"),
                        ("NOT ", ""),
                        ("- ", ""),
                        ("f(", ")"),
                    ]
                )
                parts[i] = opening * depth + parts[i] + closing * depth
            case 8:
                parts[i] = rng.choice(
                    ["*", "user_id", "visits", "page", "n", "COUNT(DISTINCT user_id)", "1", "''"]
                )
            case 9:  # another word of the same kind: what still parses has to be understood
                alike = [p for p in [*parts, *tokens(rng.choice(others))] if sort_of(p) == sort_of(parts[i])]
                parts[i] = rng.choice(alike)
        parts = parts or [""]
    made = rng.choice([" ", " ", "\n", "  "]).join(parts)
    if rng.random() < 0.05:
        raw = bytearray(made.encode("utf-8", "surrogatepass"))
        for _ in range(3):
            raw[rng.randrange(len(raw) or 1) : 0] = bytes([rng.randrange(256)])
        made = raw.decode("utf-8", rng.choice(["replace", "surrogateescape"]))
    return made


PARAMETERS: list[list[object] | None] = [*[None] * 18, [1], ["x", 2.5]]


def trial(session: Session, text: str, parameters: list[object] | None) -> str:
    """Prepare one text; say what is wrong with how that ended, or nothing."""
    begin = time.thread_time()  # work of this thread alone: a busy machine makes nothing wrong
    wrong = ""
    try:
        session.prepare(text, parameters)
    except InternalError as error:
        wrong = f"InternalError: {str(error)[:200]}"
    except (QueryRefused, QuerySyntaxError) as error:
        wrong = judged(session, text, parameters, error)
    except Error as error:
        wrong = "" if str(error).strip() else "an error without words"
    except BaseException as error:  # noqa: BLE001  any other exception is the finding
        wrong = f"{type(error).__name__}: {str(error)[:200]}"
    spent = time.thread_time() - begin
    if not wrong and spent > 2:
        wrong = f"{spent:.1f} s of work"
    return f"{wrong}: {text[:3000]!r}" if wrong else ""


def judged(
    session: Session,
    text: str,
    parameters: list[object] | None,
    error: QueryRefused | QuerySyntaxError,
) -> str:
    """Say what is wrong with a refusal: an obstacle without words or place, or an offer that is refused."""
    places = [(o.line, o.col) for o in error.obstacles]
    if not all(o.message.strip() for o in error.obstacles) or None in chain(*places):
        return "an obstacle without words or place"
    if places != sorted(places):
        return "obstacles out of order"
    if error.rewrite is None:
        return ""
    if tokens(error.rewrite) == tokens(text):
        return "what was typed is offered"
    try:
        session.prepare(error.rewrite, parameters)
    except Error as again:
        return f"the offer {error.rewrite!r} is refused: {str(again)[:200]}"
    return ""


def campaign(session: Session, stage: Stage, seed: int, statements: int) -> list[str]:
    rng = Random(seed)
    starts = sources(rng, stage)
    found = []
    for _ in range(statements):
        text = mutated(rng, rng.choice(starts), starts)
        parameters = rng.choice(PARAMETERS)
        wrong = trial(session, text, parameters)
        if wrong:
            found.append(wrong)
    return found


def test_what_is_typed_is_prepared_or_refused(session: Session, stage: Stage) -> None:
    found = campaign(session, stage, SEED, 10)
    assert not found, "\n\n".join(found[:5])


def test_a_statement_with_an_obstacle_is_not_accepted(session: Session, stage: Stage) -> None:
    """The survey, which goes on behind refusals, finds something exactly where the analysis refuses."""
    rng = Random(SEED + 1)
    starts = sources(rng, stage)
    catalog, refused = engine_of(session).schema_database, 0
    for _ in range(30):
        text = mutated(rng, rng.choice(starts), starts)
        try:
            query = parse(text)
        except Error:
            continue
        if not isinstance(query, Query) or not is_private(query, session.policy):
            continue
        options = complete_options(query.options, session.defaults)
        found = survey(query, session.policy, catalog, options)
        accepted = True
        try:
            analyse(query, session.policy, catalog, options)
        except QueryRefused:
            accepted = False
        refused += not accepted
        assert accepted != bool(found), f"{found[:1]}: {text!r}"
    assert refused > 3


@pytest.mark.slow
def test_campaign(session: Session, stage: Stage) -> None:
    """`DPSQL_STATEMENTS` sizes it, `DPSQL_SEED` repeats one that failed."""
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    found = campaign(session, stage, seed, int(os.environ.get("DPSQL_STATEMENTS", "100000")))
    assert not found, f"seed {seed}: {len(found)}\n\n" + "\n\n".join(found[:5])
