"""Trees by hand: what is certified, and what an attacker would try."""

from __future__ import annotations

import duckdb
import pytest
from kernel.reading import tree_of

from dpsql.kernel.check import NotCertified, certify
from dpsql.kernel.tree import duckdb_sql
from tests.unit.kernel.more_trees_by_hand import MORE_CERTIFIED, MORE_REFUSED
from tests.unit.kernel.trees_by_hand import CERTIFIED, FACTS, REFUSED, written

RIGHT = {**CERTIFIED, **MORE_CERTIFIED}
WRONG = {**REFUSED, **MORE_REFUSED}


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in FACTS.tables:
        listed = ", ".join(f"{name} {kind}" for name, kind in table.columns)
        connection.execute(f"CREATE TABLE {table.name} ({listed})")
    return connection


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_certified_by_hand(name: str) -> None:
    assert certify(tree_of(written(RIGHT[name])), FACTS).numbers


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused_by_hand(name: str) -> None:
    with pytest.raises(NotCertified) as refused:
        certify(tree_of(written(WRONG[name])), FACTS)
    assert (
        refused.value.rule != "groups of private keys, whatever their numbers are"
    )  # each has a worse fault


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_trees_by_hand_are_queries(name: str, engine: duckdb.DuckDBPyConnection) -> None:
    """Each of them binds, so it is not refused for want of a name."""
    sql = duckdb_sql(tree_of(written({**RIGHT, **WRONG}[name])))
    engine.sql(sql)
