"""Numbers and their nouns: no text says 1 rows, 1 persons or fewer than 0 rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.session import Session
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 1e9
delta = 1e-3
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 1
groups = 1
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "person"
[tables.visits.domain]
page = ["a"]
[tables.visits.bounds]
ms = { from = 0, to = 100 }
"""
STATEMENTS = (
    "COUNT(*) FROM visits",
    "SUM(ms) FROM visits",
    "MAX(ms) FROM visits",
    "MEDIAN(ms) FROM visits",
    "QUANTILE_CONT(ms, 0.99) FROM visits",
    "page, MEDIAN(ms) FROM visits GROUP BY page",
    "page, COUNT(*) AS n FROM visits GROUP BY page",
    "page, COUNT(*) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 1",
    "page, COUNT(*) AS n FROM visits GROUP BY page HAVING n > 3 LIMIT 1",
    "page, AVG(ms) FROM visits GROUP BY page",
    "note, COUNT(*) FROM visits GROUP BY note",
    "COUNT(DISTINCT note) FROM visits",
    "SUM(size) FROM visits",
)
ONE = re.compile(r"(?<![\d.,])1 (rows|units|groups|values|counts|persons|statements)\b|fewer than [01] ")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    rows = "SELECT i AS user_id, 'a' AS page, 'x' AS note, i % 100 AS ms, i AS size FROM range(500) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/visits.parquet'")
    with sessions_in(tmp_path, POLICY) as opened:
        yield opened()


@pytest.mark.parametrize("epsilon", ["0.1", "10000"])
@pytest.mark.sampled(2)
def test_one_is_said_in_the_singular(session: Session, epsilon: str) -> None:
    options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, delta = 1e-6)"
    for statement in STATEMENTS:
        whole = f"SELECT {options} {statement}"
        explained = session.run(f"EXPLAIN {whole}").table.to_pylist()
        release = session.run(whole).release
        assert release is not None
        told = [*(str(row["value"]) for row in explained if row["property"] != "compiled_sql")]
        told += [*release.warnings, *map(str, release.assumed), *release.properties.values(), repr(release)]
        for text in told:
            assert not ONE.search(str(text)), (statement, text)
