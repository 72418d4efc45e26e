"""Answers tell what a statement asks and hardly means."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.session import Session
from tests.narrow import present
from tests.unit.test_mistakes import ROWS, clinic

JOINED = "FROM patients p JOIN visits v ON p.patient_id = v.patient_id"
KEPT = "FROM patients p LEFT JOIN visits v ON p.patient_id = v.patient_id"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    opened = clinic(tmp_path_factory.mktemp("likely") / "clinic", ROWS, 50)
    yield opened
    opened.close()


def told(session: Session, statement: str) -> str:
    assert "SELECT" in statement
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.01, delta = 1e-9)"
    release = session.execute(session.prepare(statement.replace("SELECT", options, 1))).release
    assert release is not None
    return ", ".join(map(str, release.assumed))


@pytest.mark.parametrize(
    ("statement", "note"),
    [
        (
            f"SELECT SUM(p.birth_year) {JOINED}",
            "SUM(p.birth_year) has a row of patients once for each of its rows of visits",
        ),
        (f"SELECT SUM(v.minutes) {JOINED}", ""),
        (
            f"SELECT p.sex, COUNT(v.visit_id) {KEPT} WHERE v.minutes > 9 GROUP BY p.sex",
            "the condition on v.minutes leaves out what LEFT JOIN has kept: in ON it does not",
        ),
        (f"SELECT p.sex, COUNT(v.visit_id) {KEPT} WHERE v.minutes IS NULL GROUP BY p.sex", ""),
        (
            "SELECT COUNT(*) FROM patients WHERE sex <> 'F' OR sex <> 'M'",
            "each sex differs from one of both values: AND leaves both out",
        ),
        ("SELECT COUNT(*) FROM patients, diagnoses", "diagnoses is joined without a condition"),
        ("SELECT 'sex', COUNT(*) FROM patients GROUP BY 1", "'sex' is a text, the same in each row"),
        ("SELECT COUNT(*) FROM patients WHERE sex NOT IN ('F', NULL)", "NOT IN is never TRUE"),
        ("SELECT COUNT(*) FROM visits WHERE LOWER(clinic) = 'Summit'", "lower(..) is never 'Summit'"),
        ("SELECT COUNT(*) FROM visits WHERE visit_date > '2025-06-01'", "visit_date end at 2024-12-31"),
        ("SELECT COUNT(NULL) FROM visits", "COUNT(NULL) counts no row"),
        ("SELECT COUNT(*) FROM visits WHERE note = '${x}'", "'${x}' is compared as it stands"),
        ("SELECT COUNT(*) FROM visits WHERE note <=> NULL", ""),
    ],
)
def test_a_likely_mistake_is_told(session: Session, statement: str, note: str) -> None:
    found = told(session, statement)
    assert note in found
    assert note or not found


def test_distinct_before_a_count_is_told(session: Session) -> None:
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.01)"
    notes = [
        present(session.run(f"{options} {asked} FROM visits").release).warnings
        for asked in (
            "DISTINCT COUNT(patient_id)",
            "DISTINCT COUNT(DISTINCT patient_id)",
            "DISTINCT COUNT(*)",
        )
    ]
    said = "COUNT(DISTINCT patient_id) counts different patient_id"
    assert [any(said in note for note in each) for each in notes] == [True, False, False]
