"""Trees by hand: what is certified, and what an attacker would try."""

from __future__ import annotations

import duckdb
import pytest
from kernel.reading import tree_of

from dpsql.kernel.check import NotCertified, certify
from dpsql.kernel.tree import duckdb_sql
from tests.unit.kernel.trees_by_hand import CERTIFIED, FACTS, REFUSED, written


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in FACTS.tables:
        listed = ", ".join(f"{name} {kind}" for name, kind in table.columns)
        connection.execute(f"CREATE TABLE {table.name} ({listed})")
    return connection


@pytest.mark.parametrize("name", CERTIFIED)
def test_what_is_certified_by_hand(name: str) -> None:
    assert certify(tree_of(written(CERTIFIED[name])), FACTS).numbers


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_by_hand(name: str) -> None:
    with pytest.raises(NotCertified):
        certify(tree_of(written(REFUSED[name])), FACTS)


@pytest.mark.parametrize("name", [*CERTIFIED, *REFUSED])
def test_trees_by_hand_are_queries(name: str, engine: duckdb.DuckDBPyConnection) -> None:
    """Each of them binds, so it is not refused for want of a name."""
    sql = duckdb_sql(tree_of(written({**CERTIFIED, **REFUSED}[name])))
    engine.sql(sql)
