"""Sums over undeclared keys: where units count in few groups, no faster text is used."""

from pathlib import Path

import pytest

from dpsql.kernel.tree import FewUnits, Weighted, walk
from dpsql.kernel.unit_tables import form_of_tables
from dpsql.kernel.unweighted import rows_in_full
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1000
delta = 0.1
default_epsilon = 100
default_delta = 1e-3
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.bounds]
cost = { from = 0, to = 10 }
"""
VISITS = "SELECT i AS user_id, 'page ' || i % 3 AS page, (i % 5)::DOUBLE AS cost FROM range(600) t(i)"


@pytest.mark.parametrize("number", ["SUM(cost)", "AVG(cost)", "COUNT(*)", "SUM(cost), COUNT(*)"])
@pytest.mark.sampled(3, rest="longer")
def test_sums_of_undeclared_groups_are_answered(tmp_path: Path, number: str) -> None:
    with open_world(tmp_path, POLICY, visits=VISITS) as session:
        text = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 2) "
            f"page, {number} FROM visits GROUP BY page"
        )
        query = session.prepare(text).parts[0].plan.compiled.query  # type: ignore[union-attr]  # it is private
        parts = [part for node in walk(query) if isinstance(node, Weighted) for part in node.parts]
        assert any(isinstance(part, FewUnits) for part in parts)
        assert form_of_tables(query) is None
        assert rows_in_full(query) is None
        assert session.run(text).table.num_rows == 3
