"""Trees by hand: what is certified, and what an attacker would try."""

from __future__ import annotations

import duckdb
import pytest
from kernel.reading import tree_of

from dpsql.kernel.check import NotCertified
from dpsql.kernel.tree import duckdb_sql
from tests.counted_nodes import certify
from tests.unit.kernel.more_trees_by_hand import MORE_CERTIFIED, MORE_REFUSED
from tests.unit.kernel.trees_by_hand import CERTIFIED, FACTS, REFUSED, of_pages, written

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


@pytest.mark.parametrize("most", [0, 1, 2])
@pytest.mark.parametrize(("kind", "unit"), [("LEFT", "t.u"), ("FULL", "COALESCE(t.u, x.u)"), ("", "t.u")])
def test_rows_without_a_partner_are_in_one_more_group(kind: str, unit: str, most: int) -> None:
    """A unit without ranked rows is in the group of NULL, even where no rank is kept."""
    ranked = (
        "SELECT z.u AS u, z.c1 AS c1, ROW_NUMBER() OVER (PARTITION BY z.u ORDER BY z.c1) AS r "
        "FROM (SELECT DISTINCT v.u AS u, v.c1 AS c1 FROM ({visits}) AS v) AS z"
    )
    kept = f"SELECT y.u AS u, y.c1 AS c1 FROM ({ranked}) AS y WHERE y.r <= {most}"
    rows = f"SELECT {unit} AS u, x.c1 AS c1 FROM ({{visits}}) AS t {kind} JOIN ({kept}) AS x ON x.u = t.u"
    groups = f"SELECT s.c1 AS k0, COUNT(DISTINCT s.u) AS n0 FROM ({rows}) AS s GROUP BY s.c1"
    claim = certify(tree_of(written(of_pages(groups))), FACTS)
    total = claim.numbers[0].total
    assert total is None or total >= (max(most, 1) if kind else most)
    assert claim.most_groups is None or claim.most_groups >= (max(most, 1) if kind else most)
