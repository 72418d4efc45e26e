"""What is said of a statement before it is charged is the same, whatever the private rows are.

Refusals with their hints and rewritings, the compiled queries, their price and EXPLAIN: all of them follow
from the statement, the policy and public tables.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import Error
from dpsql.policy import load
from dpsql.session import Session
from tests.daily import daily
from tests.sql_fixtures import FOLDER, Fixture, raw_data, read, write

OTHER = {
    "visits": "SELECT i AS user_id, 'canary' AS page, 'Q' AS country, NULL::INTEGER AS ms, "
    "repeat('x', i) AS note, NULL::DATE AS day FROM (SELECT i::INTEGER AS i FROM range(300) t(i))",
    "users": "SELECT 20::BIGINT AS user_id, -5 AS age, 'canary' AS city",
    "baskets": "FROM baskets LIMIT 0",
    "goods": "FROM goods LIMIT 0",
    "parcels": "FROM parcels LIMIT 0",
    "scans": "FROM scans LIMIT 0",
    "refunds": "FROM refunds LIMIT 0",
    "readings": "SELECT 'canary' AS sensor, 'NaN'::DOUBLE AS value FROM range(9)",
}
FIXTURES = [
    fixture
    for path in sorted(FOLDER.rglob("*.sql"))
    if path.parent != FOLDER or path.name in ("composed.sql", "later.sql", "hints.sql")
    for fixture in read(path)
]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Session]]:
    folder = tmp_path_factory.mktemp("rows")
    with raw_data() as raw:
        paths = write(folder / "some", raw), write(folder / "other", raw, **OTHER)
    some, other = (Session(load(path)) for path in paths)
    yield some, other
    some.close()
    other.close()


def said(session: Session, statement: str) -> str:
    """Return all that is said of a statement that nobody has charged."""
    try:
        prepared = session.prepare(statement)
        if not isinstance(prepared, (PreparedPrivate, PreparedComposed)):
            return ""  # it reads public tables alone
        explained = session.run(f"EXPLAIN {statement}").table.to_pylist()
    except Error as refusal:
        return f"{type(refusal).__name__}: {refusal} {getattr(refusal, 'rewrite', None)}"
    return repr(
        (explained, [(p.plan.compiled.sql, p.plan.outputs, p.full_price, p.warned) for p in prepared.parts])
    )


@pytest.mark.parametrize("fixture", daily(FIXTURES, 30), ids=lambda f: f.name)
def test_no_private_row_changes_what_is_said(sessions: tuple[Session, Session], fixture: Fixture) -> None:
    some, other = (said(session, fixture.statement) for session in sessions)
    assert some == other
    assert "canary" not in other
