"""Mistakes that people make: each has a next step that is accepted as it stands, and none misleads.

`sql/mistakes.sql` has the statements as people typed them. `meant` is what each would rather have asked,
`itself` for one that is accepted, `?` where nothing near it can be asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import BudgetExceeded, Error, QueryRefused, QuerySyntaxError
from dpsql.language import Outline
from dpsql.policy import load
from dpsql.session import Session
from tests.sql_fixtures import Fixture, read
from tests.unit.analysis.test_sql_fixtures import ASKS

ROOT = Path(__file__).parents[2]
MISTAKES = read(ROOT / "tests" / "sql" / "mistakes.sql")
NO_NEXT_STEP = 1
"""The most statements that may be refused without a next step."""

ROWS = {
    "patients": "i AS patient_id, 1930 + i % 90 AS birth_year, 'F' AS sex, 'Old Town' AS region",
    "visits": """i AS visit_id, i % 7 AS patient_id, DATE '2023-01-01' + (i % 700)::INTEGER AS visit_date,
        'C50' AS diagnosis_code, 'Summit' AS clinic, 5 AS minutes, 1.5 AS cost, 'x' AS note""",
}
OTHER = {
    "patients": "9 * i AS patient_id, 2000 AS birth_year, 'M' AS sex, 'Nowhere' AS region",
    "visits": """i AS visit_id, i % 2 AS patient_id, DATE '2024-12-31' AS visit_date,
        'Z' AS diagnosis_code, 'Orchard' AS clinic, 99 AS minutes, 7 AS cost, 'canary' AS note""",
}


def clinic(folder: Path, rows: dict[str, str], size: int, *, defaults: bool = True) -> Session:
    """A session on the demo's policy, with other rows in its private tables."""
    folder.mkdir()
    with duckdb.cursor() as raw:
        for table, row in rows.items():
            shipped = f"'{ROOT}/data/{table}.parquet'"
            types = {name: kind for name, kind, *_ in raw.execute(f"DESCRIBE FROM {shipped}").fetchall()}
            cells = ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())
            made = f"SELECT {cells} FROM (SELECT {row} FROM range({size}) t(i))"
            raw.execute(f"COPY ({made}) TO '{folder}/{table}.parquet'")
    (folder / "diagnoses.parquet").write_bytes((ROOT / "data" / "diagnoses.parquet").read_bytes())
    policy = (ROOT / "data" / "clinic.toml").read_text("utf-8")
    (folder / "clinic.toml").write_text(policy if defaults else re.sub(r"(?m)^default_.*\n", "", policy))
    return Session(load(folder / "clinic.toml"))


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    base = tmp_path_factory.mktemp("mistakes")
    opened = {
        "": clinic(base / "whole", ROWS, 50),
        "no defaults": clinic(base / "bare", ROWS, 50, defaults=False),
        "other rows": clinic(base / "other", OTHER, 3),
    }
    yield opened
    for one in opened.values():
        one.close()


@cache
def asked(session: Session, text: str) -> Error | None:
    """The error of a statement, of its price as well; None for one that is answered."""
    try:
        session.execute(session.prepare(text)) if "epsilon = 5" in text else session.prepare(text)
    except (QueryRefused, QuerySyntaxError, BudgetExceeded) as error:
        return error
    return None


def words(text: str) -> list[str]:
    outline = Outline(text)
    return [text[token.start : token.end + 1].upper() for token in outline.tokens]


def within(part: list[str], whole: list[str]) -> bool:
    return bool(part) and any(whole[i : i + len(part)] == part for i in range(len(whole)))


def shows(error: Error, meant: str, typed: str) -> bool:
    """Whether an error names what turns the statement into the one that was meant."""
    if isinstance(error, BudgetExceeded):
        return str(float(error.remaining[0])).removesuffix(".0") in words(meant)
    assert isinstance(error, (QueryRefused, QuerySyntaxError))
    return any(leads(one.hint or "", meant, typed) for one in error.obstacles)


def leads(hint: str, meant: str, typed: str) -> bool:
    """Whether a hint, or a name of its list, is what the statement lacks."""
    if hint.startswith(("tables are ", "columns here: ")):
        new = set(words(meant)) - set(words(typed))
        return bool(new) and new <= {name.upper() for name in re.findall(r"\w+", hint)}
    if "$value" in hint:
        return "$value" in meant
    return within(words(re.sub(r"^did you mean (.*)\?$", r"\1", hint)), words(meant))


def test_there_are_more_than_500_mistakes() -> None:
    assert len({m.name for m in MISTAKES}) == len(MISTAKES) > 500
    assert sum(m.notes["meant"] == "?" for m in MISTAKES) <= NO_NEXT_STEP


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
@pytest.mark.sampled(3, rest="longer")
def test_the_next_step_is_accepted_and_what_was_meant(mistake: Fixture, sessions: dict[str, Session]) -> None:
    session, meant = sessions[mistake.notes.get("policy", "")], mistake.notes["meant"]
    error = asked(session, mistake.statement)
    if error is None:
        return  # what is answered is no mistake any more
    for one in getattr(error, "obstacles", ()):
        if ASKS not in (one.hint or ""):  # a part of the statement, say
            assert not within(words(one.hint or ""), words(mistake.statement)), "a hint that was typed"
        assert "user_id" not in (one.hint or ""), "a column that the policy does not have"
    assert meant != "itself", error
    rewrite = getattr(error, "rewrite", None)
    if rewrite is not None:
        session.prepare(rewrite)
        assert meant == "?" or words(rewrite) == words(meant)
    elif meant != "?":
        for one in getattr(error, "obstacles", ()):
            if ASKS in (one.hint or ""):
                session.prepare(one.hint)
        value = date(2024, 5, 1) if "_date > $value" in meant else 30
        session.prepare(meant, {"value": value} if "$value" in meant else None)
        assert shows(error, meant, mistake.statement), error


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.longer)])
def test_a_refusal_is_the_same_whatever_the_rows(sessions: dict[str, Session], every: int) -> None:
    refused = 0
    for mistake in MISTAKES[::every]:
        if "policy" not in mistake.notes:
            here, there = (asked(sessions[name], mistake.statement) for name in ("", "other rows"))
            assert (str(here), repr(here)) == (str(there), repr(there))
            refused += here is not None
    assert refused > 40 // every
