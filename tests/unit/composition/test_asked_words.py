"""Questions that are no SQL are read by the words of the policy, and what is not read is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.composition.refusals import read_words
from dpsql.policy import load
from dpsql.session import Session

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("words")
    for each in ("clinic.toml", "patients.parquet", "visits.parquet", "diagnoses.parquet"):
        (folder / each).symlink_to(ROOT / "data" / each)
    return Session(load(folder / "clinic.toml"))


@pytest.mark.parametrize(
    ("asked", "written", "guess"),
    [
        ("number of visits", "SELECT COUNT(*) FROM visits", "what the words ask"),
        (
            "median minutes by clinic in 2024",
            "SELECT clinic, MEDIAN(minutes) FROM visits GROUP BY clinic",
            "what the words ask without `2024`",
        ),
        (
            "how many patients are there at lakeside?",
            "SELECT COUNT(*) FROM patients WHERE region = 'Lakeside'",
            "what the words ask",
        ),
        (
            "=SUMIFS(cost, sex, 'F')",
            "SELECT SUM(cost) FROM patients WHERE sex = 'F'",
            "what the words ask",
        ),
    ],
)
def test_words_of_the_policy_are_read(session: Session, asked: str, written: str, guess: str) -> None:
    catalog = session.planner.database.engines().schema_database
    assert read_words(asked, session.planner.policy, catalog) == (written, guess)


@pytest.mark.parametrize("asked", ["hello", "average happiness", "the visits", ""])
def test_other_texts_are_not_read(session: Session, asked: str) -> None:
    catalog = session.planner.database.engines().schema_database
    assert read_words(asked, session.planner.policy, catalog) is None
