"""Different values beside sums, in groups: which values a unit keeps is decided by rows that tie."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e9
default_epsilon = 1e6
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
[tables.t.domain]
g = { values = ["a", "b"], complete = true }
[tables.t.bounds]
x = { from = 0, to = 10 }
"""
ROWS = (
    "SELECT i % 20 AS u, ['a', 'b'][1 + i % 2] AS g, (i % 7)::INTEGER AS x, i % 9 AS y FROM range(300) t(i)"
)


@pytest.mark.parametrize("number", ["AVG(x)", "SUM(x)", "COUNT(*)", "CORR(x, y)", "STDDEV(x)"])
@pytest.mark.sampled(3, rest="longer")
def test_different_values_beside_sums_by_group(tmp_path: Path, number: str) -> None:
    different = "COUNT(DISTINCT y, contribution_bounds_per_group => (0, 20)) AS d"
    with open_world(tmp_path, POLICY, t=ROWS) as session:
        table = session.run(
            f"SELECT WITH DIFFERENTIAL_PRIVACY g, {number} AS n, {different} FROM t GROUP BY g ORDER BY g"
        ).table
    assert table.column("d").to_pylist() == pytest.approx([9, 9], abs=0.01)
