"""Columns that a unique key of a public table fixes are read as keys, and asked as MIN or MAX for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 1e12
default_epsilon = 1000000
max_epsilon_per_query = 1000000
[tables.visits]
source = "visits.parquet"
unit = "person"
unique = [["person"]]
[tables.visits.domain]
code = ["a", "b", "c", "x"]
[tables.codes]
source = "codes.parquet"
public = true
unique = [["code"]]
"""
VISITS = "SELECT i AS person, ['a', 'b', 'c', 'x'][1 + i % 4] AS code, i % 3 AS n FROM range(400) t(i)"
CODES = (
    "SELECT * FROM (VALUES ('a', 'one', 'A'), ('b', 'two', 'A'), ('c', 'three', 'B')) t(code, label, class)"
)
JOINED = "visits v JOIN codes d ON d.code = v.code"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("fixed")
    duckdb.sql(f"COPY ({VISITS}) TO '{folder}/visits.parquet'")
    duckdb.sql(f"COPY ({CODES}) TO '{folder}/codes.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


def exact(statement: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE visits AS {VISITS}")
        engine.execute(f"CREATE TABLE codes AS {CODES}")
        return engine.execute(statement).fetchall()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            f"SELECT d.code, d.label, COUNT(*) AS n FROM {JOINED} GROUP BY d.code ORDER BY 1",
            f"SELECT d.code, d.label, COUNT(*) FROM {JOINED} GROUP BY d.code, d.label ORDER BY 1",
        ),
        (
            f"SELECT v.code, label, COUNT(*) AS n FROM {JOINED} GROUP BY v.code ORDER BY label",
            f"SELECT v.code, label, COUNT(*) FROM {JOINED} GROUP BY v.code, label ORDER BY label",
        ),
        (
            "SELECT code, label, COUNT(*) AS n FROM visits JOIN codes USING (code) GROUP BY 1 ORDER BY 1",
            "SELECT code, label, COUNT(*) FROM visits JOIN codes USING (code) GROUP BY 1, 2 ORDER BY 1",
        ),
        (
            f"SELECT MAX(d.label) AS l, COUNT(*) AS n FROM {JOINED} GROUP BY d.code ORDER BY d.code",
            f"SELECT d.label, COUNT(*) FROM {JOINED} GROUP BY d.code, d.label ORDER BY d.code",
        ),
        (
            "SELECT v.code, ANY_VALUE(d.label) AS l, COUNT(*) AS n FROM visits v LEFT JOIN codes d "
            "ON d.code = v.code GROUP BY v.code ORDER BY 1",
            "SELECT v.code, d.label, COUNT(*) FROM visits v LEFT JOIN codes d ON d.code = v.code "
            "GROUP BY v.code, d.label ORDER BY 1",
        ),
        (
            f"SELECT d.code, COUNT(*) AS n FROM {JOINED} GROUP BY d.code HAVING d.class = 'A' ORDER BY 1",
            f"SELECT d.code, COUNT(*) FROM {JOINED} WHERE d.class = 'A' GROUP BY d.code ORDER BY 1",
        ),
        (
            f"SELECT class, COUNT(*) AS n FROM (SELECT d.code, d.class, COUNT(*) AS c FROM {JOINED} "
            "GROUP BY d.code) GROUP BY class ORDER BY 1",
            "SELECT class, COUNT(*) FROM codes GROUP BY class ORDER BY 1",
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_fixed_column_is_a_key(session: Session, written: str, meant: str) -> None:
    rows = [tuple(row.values()) for row in session.run(written).table.to_pylist()]
    found = [tuple(round(v) if isinstance(v, float) else v for v in row) for row in rows]
    null = [row for row in found if row[0] is None]
    assert [row for row in found if row not in null or row[-1]] == exact(meant)


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT d.class, d.label, COUNT(*) AS n FROM {JOINED} GROUP BY d.class",
        "SELECT v.code, d.label, COUNT(*) AS n FROM visits v LEFT JOIN codes d "
        "ON d.code = v.code AND v.n > 0 GROUP BY v.code",
        f"SELECT d.code, v.n, COUNT(*) AS n FROM {JOINED} GROUP BY d.code",
        "SELECT v.code, d.label, COUNT(*) AS n FROM visits v JOIN codes d ON d.code > v.code GROUP BY v.code",
    ],
)
def test_a_column_that_no_key_fixes_is_refused(session: Session, statement: str) -> None:
    with pytest.raises(QueryRefused, match="neither a group key nor"):
        session.prepare(statement)
