"""IN over a query whose rows have NULL has three values, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from support.reading import query_of
from support.stores import Store, compare

from dpsql.engines.remote_engine import RemoteEngine
from dpsql.kernel.tree import duckdb_sql
from dpsql.session import Session
from tests.narrow import engine_of

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.rows]
source = "rows.parquet"
unit = "id"
columns = { id = "BIGINT", i = "BIGINT" }
[tables.other]
source = "other.parquet"
unit = "id"
columns = { id = "BIGINT", i = "BIGINT" }
"""
ROWS = {
    "rows": "SELECT i AS id, CASE WHEN i % 5 > 0 THEN i % 4 END AS i FROM range(40) AS r(i)",
    "other": "SELECT i AS id, CASE WHEN i > 0 THEN i + 1 END AS i FROM range(3) AS r(i)",
}
SETS = {
    "null": 'SELECT o."i" AS x FROM main."other" AS o',
    "no_null": 'SELECT o."i" AS x FROM main."other" AS o WHERE (o."i" IS NOT NULL)',
    "empty": 'SELECT o."i" AS x FROM main."other" AS o WHERE (o."id" > 100)',
    "only_null": 'SELECT o."i" AS x FROM main."other" AS o WHERE (o."i" IS NULL)',
}
USES = (
    "(({0}) IS NULL)",
    "(({0}) IS FALSE)",
    "(NOT ({0}))",
    "((NOT ({0})) IS NULL)",
    "coalesce(({0}), (t.x = 3))",
    "(CASE WHEN ({0}) THEN 1 WHEN (NOT ({0})) THEN 2 ELSE 3 END)",
    "({0})",
)
WHERES = (
    "({0})",
    "(NOT ({0}))",
    "(({0}) OR (t.x = 3))",
    "((NOT ({0})) OR (t.x = 3))",
    "(NOT (({0}) AND (t.x > 1)))",
    "(({0}) AND (NOT ({0})))",
    "(({0}) IS NULL)",
)
FROM = 'FROM (SELECT b."i" AS x FROM main."rows" AS b) AS t'


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    with duckdb.connect() as connection:
        found = store.session(store.policy(POLICY, store.put(connection, ROWS)))
    yield found
    found.close()


@pytest.mark.parametrize("rows", SETS.values(), ids=SETS)
def test_in_over_a_query_has_three_values(session: Session, rows: str) -> None:
    engine: RemoteEngine = engine_of(session)  # type: ignore[assignment]
    found = f"t.x IN ({rows})"
    texts = [
        f"SELECT t.u AS u, COUNT(*) AS n FROM (SELECT {use.format(found)} AS u {FROM}) AS t GROUP BY 1"
        for use in USES
    ]
    texts += [f"SELECT COUNT(*) AS n {FROM} WHERE {where.format(found)}" for where in WHERES]
    with duckdb.connect() as connection:
        for name, sql in ROWS.items():
            connection.execute(f'CREATE TABLE main."{name}" AS {sql}')
        for text in texts:
            wanted = connection.execute(duckdb_sql(query_of(text))).fetchall()
            rows_found = list(zip(*(c.to_pylist() for c in compare(engine, text).columns), strict=True))
            assert sorted(rows_found, key=repr) == sorted(wanted, key=repr), text
