"""One table of instants on each engine: a statement has plain DuckDB's answer, or a refusal known here."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from support.stores import Store

from dpsql.engines.writer import Untranslatable
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.instants import (
    GROUPED,
    MIXED,
    PARAMETERS,
    POLICY,
    PREDICATES,
    check_repairs,
    exact,
    own_rows,
    rounded,
)

REFUSED: dict[str, set[str]] = {"PostgreSQL": set(), "Spark": set()}
"""Parts of predicates that the engine does not run."""
ZONED = """
SELECT COUNT(*) FROM ev WHERE local >= '2024-10-27 02:30:00+01:00' AND local < '2024-10-27 03:30:00+01:00'
"""


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with own_rows() as connection:
        # Local times without a zone, those of doubled and skipped hours among them.
        connection.execute(
            "ALTER TABLE ev ADD COLUMN local TIMESTAMP;"
            "UPDATE ev SET local = CASE WHEN uid < 400 THEN "
            "TIMESTAMP '2024-10-27 00:00:00' + uid * INTERVAL 1 MINUTE "
            "ELSE timezone('Europe/Berlin', seen) END"
        )
        yield connection


@pytest.fixture(scope="module")
def session(store: Store, plain: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    sources = store.put(plain, {"ev": "SELECT * FROM ev"})
    text = POLICY.format(source="ev.parquet", more="").replace(
        'seen = "TIMESTAMPTZ" }',
        'seen = "TIMESTAMPTZ", local = "TIMESTAMP" }\nzone = { local = "Europe/Berlin" }',
    )
    text += "local = { from = 2023-01-01, to = 2025-12-31 }\n"
    made = store.session(store.policy(text, sources))
    yield made
    made.close()


@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_literal_means_the_same_instant_on_every_engine(
    store: Store, session: Session, plain: duckdb.DuckDBPyConnection, predicate: str
) -> None:
    statement = f"SELECT COUNT(*) FROM ev WHERE {predicate}"
    if any(part in predicate for part in REFUSED[store.name]):
        with pytest.raises((QueryRefused, Untranslatable)):
            session.run(statement)
        return
    assert rounded(session, statement) == exact(plain, statement)


@pytest.mark.parametrize("statement", GROUPED)
def test_groups_of_instants_are_those_of_plain_sql(
    session: Session, plain: duckdb.DuckDBPyConnection, statement: str
) -> None:
    assert rounded(session, statement) == exact(plain, statement)


@pytest.mark.parametrize("value", PARAMETERS, ids=str)
def test_a_parameter_means_the_same_instant(
    session: Session, plain: duckdb.DuckDBPyConnection, value: object
) -> None:
    statement = "SELECT COUNT(*) FROM ev WHERE seen >= ?"
    wanted = exact(plain, statement.replace("?", f"TIMESTAMPTZ '{value}'"))
    assert rounded(session, statement, [value]) == wanted


@pytest.mark.parametrize("predicate", MIXED, ids=lambda p: p[0])
def test_a_refusal_names_two_repairs_and_both_mean_what_plain_sql_means(
    session: Session, plain: duckdb.DuckDBPyConnection, predicate: tuple[str, str, str, str]
) -> None:
    check_repairs(session, plain, predicate)


def test_a_column_with_a_declared_zone_is_an_instant(
    session: Session, plain: duckdb.DuckDBPyConnection
) -> None:
    wanted = ZONED.replace("local", "timezone('Europe/Berlin', local)")
    assert rounded(session, ZONED) == exact(plain, wanted) != [(0,)]
    months = "SELECT date_trunc('month', local) AS m, COUNT(*) AS n FROM ev GROUP BY m"
    text = session.run(f"EXPLAIN {months}").table.to_pylist()
    assert any("Europe/Berlin of tzdata" in str(row["value"]) for row in text)
    same = session.run("SELECT COUNT(*) FROM ev WHERE local = seen AND uid >= 400").table.column(0)[0].as_py()
    assert round(same) == exact(plain, "SELECT COUNT(seen) FROM ev WHERE uid >= 400")[0][0]
