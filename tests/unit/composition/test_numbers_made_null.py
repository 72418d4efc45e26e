"""Where noise made a number NULL, a value in its place has no interval as if it had no noise."""

from __future__ import annotations

import pytest

from tests.nearly_exact import NearlyExact, nearly_exact

TABLES = """
CREATE TABLE t AS SELECT i AS user_id, i % 3 AS k, i % 7 AS x FROM range(300) r(i);
CREATE TABLE keys AS SELECT i AS k FROM range(44) r(i);
"""
POLICY = """
[tables.t]
source = "t"
unit = "user_id"
rows_per_unit = 1
[tables.t.domain]
k = { from = 0, to = 39, complete = true }
[tables.t.bounds]
x = { from = 0, to = 10 }
[tables.keys]
source = "keys"
public = true
"""
MEANS = "(SELECT k, AVG(x) AS m, COUNT(*) AS n FROM t GROUP BY k)"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> NearlyExact:
    return nearly_exact(tmp_path_factory.mktemp("nulls"), TABLES, POLICY, epsilon=1)


def _ends(asked: NearlyExact, statement: str) -> list[tuple[float | None, float | None]]:
    table = asked.private.execute(statement).release.table
    return [(row["y_low"], row["y_high"]) for row in table.to_pylist()]


@pytest.mark.parametrize(
    "value",
    [
        "COALESCE(m, 0)",
        "COALESCE(m + 1, n, 2)",
        "COALESCE(m * m, 2)",
        "COALESCE(SQRT(m), m * 2, 2)",
        "GREATEST(m, 3)",
        "GREATEST(0, LEAST(1, m))",
        "LEAST(12, GREATEST(-1, m))",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_value_in_the_place_of_a_null_by_noise_is_not_exact(asked: NearlyExact, value: str) -> None:
    ends = _ends(asked, f"SELECT k, {value} AS y FROM {MEANS}")
    assert len(ends) == 40  # of 37 groups without rows about half have no average
    assert all(low is None or high is None or high - low > 0 for low, high in ends)


def test_a_row_that_a_join_does_not_find_is_known_to_have_no_value(asked: NearlyExact) -> None:
    joined = f"SELECT keys.k, COALESCE(n, -1) AS y FROM keys LEFT JOIN {MEANS} AS g USING (k) ORDER BY keys.k"
    ends = _ends(asked, joined)
    assert ends[40:] == [(-1, -1)] * 4
    assert all(low is not None and high is not None and high - low > 0 for low, high in ends[:3])


def test_the_answer_says_why_there_is_no_interval(asked: NearlyExact) -> None:
    notes = asked.notes(f"SELECT k, COALESCE(m, 0) AS y FROM {MEANS}")
    assert any(each.endswith("noise made a number NULL that it is computed from") for each in notes)
