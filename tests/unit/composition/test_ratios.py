"""Ratios of a part and a whole are cut to lie between 0 and 1; no other ratio is."""

from __future__ import annotations

import pytest

from dpsql.session import Session
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e6
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
unique = [["user_id"]]
domain = { k = { from = 0, to = 199 } }
bounds = { x = { from = 0, to = 100 } }
"""
CUT = {
    "AVG(x > 150)": 1,
    "AVG(CASE WHEN x >= 0 THEN 3 ELSE 0 END)": 3,
    "AVG(CASE WHEN x > 150 THEN 1 WHEN x < 50 THEN 0 END)": 1,
    "AVG(x > 150) FILTER (WHERE x > 20)": 1,
    "COUNT(*) FILTER (WHERE x > 150) / COUNT(*)": 1,
    "COUNT_IF(x >= 0) / COUNT(*)": 1,
    "COUNT_IF(x > 150 AND x > 20) / COUNT_IF(x > 20)": 1,
    "100.0 * COUNT_IF(x > 150) / COUNT(*)": 100,
    "CAST(COUNT_IF(x > 150) AS DOUBLE) / NULLIF(COUNT(*), 0)": 1,
    "SUM(CASE WHEN x > 150 THEN 1 ELSE 0 END) / COUNT(*)": 1,
    "SAFE_DIVIDE(COUNT_IF(x > 150), COUNT(*))": 1,
    "COUNT(x) / COUNT(*)": 1,
    "COUNT(DISTINCT user_id) FILTER (WHERE x > 150) / COUNT(DISTINCT user_id)": 1,
    "COUNT(*) / SUM(COUNT(*)) OVER ()": 1,
}
"""Ratios with their largest value; nearly all groups have a part that is none of the whole, or all of it."""
OTHER = (
    "COUNT_IF(x > 20) / COUNT_IF(x > 50)",
    "COUNT_IF(x > 150) / COUNT_IF(x < 20)",
    "COUNT(*) / COUNT_IF(x > 150)",
    "SUM(x) / COUNT(*)",
)
"""Ratios that may be anything."""


session = world_fixture(
    POLICY, t="SELECT i AS user_id, (i % 100)::DOUBLE AS x, i % 200 AS k FROM range(2000) AS r(i)"
)


def answers(session: Session, ratio: str) -> list[float]:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) k, {ratio} AS r FROM t GROUP BY k"
    found = session.run(text).table.column("r").to_pylist()
    return [value for value in found if value is not None]


@pytest.mark.parametrize("ratio", CUT)
@pytest.mark.sampled(3)
def test_a_part_of_a_whole_lies_between_0_and_1(session: Session, ratio: str) -> None:
    found = answers(session, ratio)
    assert len(found) > 50
    assert 0 <= min(found) <= max(found) <= CUT[ratio]
    if "OVER" not in ratio:
        assert {0, CUT[ratio]} & set(found)  # some were cut


@pytest.mark.parametrize("ratio", OTHER)
@pytest.mark.sampled(3, rest="longer")
def test_other_ratios_are_as_they_are(session: Session, ratio: str) -> None:
    assert min(answers(session, ratio)) < 0 or max(answers(session, ratio)) > 1


@pytest.mark.parametrize("ratio", [*CUT, *OTHER])
@pytest.mark.sampled(4, rest="longer")
def test_a_cut_releases_nothing_more(session: Session, ratio: str) -> None:
    """Each count is released once, however often the CASE names it."""
    counts = {"AVG": 2, "COUNT(*) / SUM(COUNT(*))": 1}
    wanted = next((n for start, n in counts.items() if ratio.startswith(start)), 2)
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) k, {ratio} AS r FROM t GROUP BY k"
    parts = session.prepare(text).parts  # type: ignore[union-attr]  # it has several
    assert sum(len(part.plan.outputs) - 1 for part in parts) == wanted


def test_counts_may_be_called_by_their_aliases(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.05)"
    inner = f"SELECT {options} k, COUNT(*) AS n, COUNT_IF(x > 95) AS a, n / SUM(n) OVER () AS s, a / n AS r"
    found = session.run(
        f"SELECT MIN(s), MIN(n), MIN(r), MAX(r) FROM ({inner} FROM t WHERE k < 60 GROUP BY k) AS q"
    ).table
    least, number, low, high = (column[0].as_py() for column in found.columns)
    assert number < 0
    assert least >= 0
    assert 0 <= low <= high <= 1


def test_a_ratio_keeps_the_name_that_is_its_text(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)"
    text = f"SELECT {options} k, COUNT_IF(x > 150)/COUNT(*) FROM t GROUP BY k"
    assert session.run(text).table.column_names == ["k", "COUNT_IF(x > 150)/COUNT(*)"]


def test_a_ratio_without_rows_is_null(session: Session) -> None:
    text = "SELECT AVG(x > 150) AS r FROM t WHERE x > 1e9"
    released = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000) {text[7:]}")
    (value,) = released.table.column("r").to_pylist()
    assert value is None or 0 <= value <= 1
