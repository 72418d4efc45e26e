"""An average under a constant bound weighs each row of a unit alike, in the part and in the whole."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from dpsql.policy import load
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1e12
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "user_id"
domain = {{ k = {{ from = 0, to = 2, complete = true }} }}
bounds = {{ x = {{ from = 0, to = 9 }} }}
{more}
"""
AVERAGES = {
    "AVG(x > 4)": "x > 4",
    "AVG(CASE WHEN x > 4 THEN 1 ELSE 0 END)": "COALESCE(x > 4, FALSE)",
    "AVG(CASE WHEN x > 4 THEN 1 ELSE 0 END + 0)": "COALESCE(x > 4, FALSE)",
    "AVG(CASE WHEN x > 6 THEN 3 WHEN x < 3 THEN 0 END)": "CASE WHEN x > 6 THEN 3 WHEN x < 3 THEN 0 END",
    "AVG(IF(x > 4, -2, 0))": "CASE WHEN x > 4 THEN -2 ELSE 0 END",
    "AVG(x > 4) FILTER (WHERE k < 2)": "CASE WHEN k < 2 THEN x > 4 END",
    "AVG(x)": "x",
}
"""Averages, and the value of a row of which each is the average."""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("by_policy", [False, True])
@pytest.mark.sampled(5, rest="longer")
def test_an_average_is_that_of_weighted_rows(tmp_path: Path, seed: int, keyed: bool, by_policy: bool) -> None:
    chance = random.Random(seed)
    rows = [
        (unit, chance.choice([None, *range(10)]), chance.randrange(3))
        for unit in range(60)
        for _ in range(chance.choice([1, 2, 5, 40]))
    ]
    most = chance.randrange(1, 9)
    opened = duckdb.connect()
    opened.execute("CREATE TABLE t (user_id INTEGER, x INTEGER, k INTEGER)")
    opened.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    opened.execute(f"COPY t TO '{tmp_path}/t.parquet'")
    more = f"rows_per_unit = {most}" if by_policy else ""
    (tmp_path / "dpsql.toml").write_text(POLICY.format(more=more), "utf-8")
    option = "" if by_policy else f", max_rows_contributed = {most}"
    keys, group = ("k, ", "GROUP BY k ORDER BY k") if keyed else ("", "")
    session = Session(load(tmp_path / "dpsql.toml"))
    for average, value in AVERAGES.items():
        # A row of a unit with a rows that have a value weighs min(1, C / a).
        weighted = (
            f"SELECT {keys}SUM(v * w) / SUM(w) AS r FROM (SELECT *, LEAST(1, {most} / COUNT(*) OVER "
            f"(PARTITION BY user_id)) AS w FROM (SELECT *, ({value})::INTEGER AS v FROM t) "
            f"WHERE v IS NOT NULL) {group}"
        )
        expected = [row[-1] for row in opened.execute(weighted).fetchall()]
        text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6{option}) {keys}{average} AS r FROM t"
        answer = session.run(f"{text} {group}")
        found = dict(zip(range(3), answer.table.column("r").to_pylist(), strict=False))
        wanted = dict(zip(range(3), expected, strict=False))
        for place, each in wanted.items():
            assert found[place] == pytest.approx(each, abs=2e-4), (average, most)
    session.close()
    opened.close()
