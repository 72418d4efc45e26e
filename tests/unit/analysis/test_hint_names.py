"""The names in hints are those of the statement's tables; a hint without them is not shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.opened import sessions_in

HEAD = "[budget]\nepsilon = 10\ndefault_epsilon = 1\n[tables.stays]\nsource = 'stays.parquet'\n"
COLUMNS = HEAD + 'unit = "{}"\n[tables.stays.columns]\n{}'
POLICIES = {
    "a plain unit": COLUMNS.format("guest", 'guest = "BIGINT"\nx = "BIGINT"\n'),
    "a unit in quotes": COLUMNS.format("Guest No", '"Guest No" = "BIGINT"\nx = "BIGINT"\n'),
    "each row": COLUMNS.format("ROW", 'x = "BIGINT"\n'),
    "nothing but the unit": COLUMNS.format("guest", 'guest = "BIGINT"\n'),
}
EXAMPLES = re.compile(r"\b(user_id|visits|page|country)\b")
STATEMENTS = (
    "SELECT x FROM stays GROUP BY x",
    "SELECT x, COUNT(*) FROM stays GROUP BY x ABOVE THRESHOLD 5",
    "SELECT COUNT(*) FROM stays WHERE x IN (SELECT x FROM stays)",
    "SELECT COUNT(*) FROM (SELECT x, ROW_NUMBER() OVER () AS r FROM stays) WHERE r = 1",
    "SELECT COUNT(*) FROM (SELECT DISTINCT x FROM stays)",
    "SELECT COUNT(*) FROM (SELECT x, COUNT(*) FROM stays GROUP BY x)",
    "SELECT ARG_MAX(x, x) FROM stays",
    "SELECT COUNT(*) FROM stays a JOIN stays b ON a.x = b.x",
    "SELECT COUNT(*) FROM stays a WHERE EXISTS (SELECT 1 FROM stays b WHERE a.x = b.x)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT ON (x) x FROM stays)",
    "SELECT x, COUNT(*) AS n FROM stays GROUP BY x TOP 3 BY foo",
    "SELECT COUNT(*) FROM (SELECT x FROM stays EXCEPT SELECT x FROM stays)",
    "SELECT FIRST(x) FROM stays",
    "SELECT * FROM stays",
)


@pytest.fixture(params=POLICIES)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    rows = 'SELECT i AS guest, i AS "Guest No", i AS x FROM range(9) t(i)'
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/stays.parquet'")
    with sessions_in(tmp_path, POLICIES[request.param]) as opened:
        yield opened()


def test_no_hint_names_what_does_not_exist(session: Session) -> None:
    refused = 0
    for statement in STATEMENTS:
        try:
            session.prepare(statement)
        except QueryRefused as error:
            refused += 1
            for one in error.obstacles:
                assert not EXAMPLES.search(one.hint or ""), (statement, one.hint)
            if error.rewrite is not None:
                session.prepare(error.rewrite)
    assert refused > 8
