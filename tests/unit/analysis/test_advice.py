"""What a refusal offers as the same asks the same: DuckDB computes both, where it has both."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
[tables.stays]
source = "stays.parquet"
unit = "guest"
[tables.stays.domain]
day = { from = 2024-01-01, to = 2024-02-20 }
[tables.stays.bounds]
x = { from = -10, to = 10 }
y = { from = -10, to = 10 }
"""
ROWS = """
SELECT i % 7 AS guest,
  CASE WHEN i % 5 > 0 THEN (i % 11 - 5.5)::DOUBLE END AS x,
  CASE WHEN i % 6 > 0 THEN (i % 9 - 4.5)::DOUBLE END AS y,
  TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR AS began,
  TIMESTAMP '2024-01-03 05:00:00' + INTERVAL (3 * i) HOUR AS ended,
  DATE '2024-01-01' + i::INTEGER AS day,
  i * 86400000000 - 1 AS number
FROM range(40) t(i)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("stays")
    duckdb.sql(f"COPY ({ROWS}) TO '{folder}/stays.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


def rewritten(session: Session, statement: str) -> str:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(statement)
    assert session.prepare(present(caught.value.rewrite))
    return present(caught.value.rewrite)


def value(statement: str, **rows: object) -> object:
    """Return the number of a statement over the rows, computed by DuckDB."""
    with duckdb.cursor() as engine:
        engine.execute(f"CREATE TEMP TABLE stays AS {ROWS}")
        return present(engine.execute(re.sub(r" -- .*", "", statement)).fetchone())[0]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) FROM stays WHERE EXTRACT(DAYOFYEAR FROM day) > 20",
    ],
)
@pytest.mark.sampled(3)
def test_the_statement_that_is_offered_has_the_same_value(session: Session, statement: str) -> None:
    wanted, found = value(statement), value(rewritten(session, statement))
    if isinstance(wanted, (int, float)):
        assert isinstance(found, (int, float))
        assert math.isclose(wanted, found, rel_tol=1e-9)
    else:
        assert found == wanted
