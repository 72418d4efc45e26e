"""Nothing is missing where keys are chosen from several rows of a unit: firsts, lasts, windows, branches.

Random statements over rows all of whose values are declared: each group of plain DuckDB is there, with its
number of units, and no number of the others is above 0. Which dates are never before others is found from the
statement: where that is wrong, groups are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpsql.analysis import unit_order
from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present

ROWS = """
SELECT i, i * 7 % 60 AS u, ['a', 'b', 'c', NULL][1 + (i * 11 + i // 60) % 4] AS k,
  (i * 5 + i // 60 * (i // 60 + 1) // 2) % 4 AS n,
  DATE '2024-01-10' + ((i * i * 13 + i // 60 * 31) % 120)::INTEGER AS day,
  CASE WHEN i % 9 > 0 THEN DATE '2024-01-10' + to_hours((i * i * 17 + i * 7) % 2880) END AS ts
FROM range(240) r(i)
"""
POLICY = """
[budget]
epsilon = 1e12
ledger = "ledger.sqlite"
high_water = false
[tables.v]
source = "v.parquet"
unit = "u"
not_null = ["day"]
[tables.v.domain]
k = ["a", "b", "c"]
day = { from = 2024-01-01, to = 2024-06-30 }
ts = { from = 2024-01-01, to = 2024-06-30 }
"""
OWN, BY_DAY = "OVER (PARTITION BY u ORDER BY i)", "ROW_NUMBER() OVER (PARTITION BY u ORDER BY day, i)"
OF_UNITS = (
    "SELECT u, MIN(day) AS d, MAX(k) AS x FROM v GROUP BY u",
    "SELECT u, MAX(ts) AS d, arg_min(k, i) AS x FROM v GROUP BY u",
    "SELECT u, MIN(ts)::DATE AS d, MIN(k) AS x FROM v WHERE n > 0 GROUP BY u",
    "SELECT u, MAX(day) AS d, MIN(k) AS x FROM v WHERE n > 0 AND k = 'a' GROUP BY u",
    "SELECT u, date_trunc('month', MIN(day)) AS d, MIN(k) AS x FROM v WHERE n = 3 GROUP BY u",
    "SELECT u, k AS x, MIN(day) AS d FROM v GROUP BY u, k",
    "SELECT u, MIN(day) FILTER (WHERE n > 1) AS d, MAX(k) FILTER (WHERE n > 1) AS x FROM v GROUP BY u",
    "SELECT u, MIN(CASE WHEN n > 1 THEN ts END) AS d, MIN(k) AS x FROM v GROUP BY u",
    f"SELECT u, day AS d, k AS x FROM v QUALIFY {BY_DAY} = 1",
    f"SELECT u, ts AS d, k AS x FROM v QUALIFY {BY_DAY} = 1",
    f"SELECT u, day AS d, k AS x FROM (SELECT *, {BY_DAY} AS r FROM v WHERE n > 0) w WHERE r = 2",
    "SELECT u, MIN(t) AS d, MIN(k) AS x FROM (SELECT u, day AS t, k FROM v WHERE n = 1 UNION ALL "
    "SELECT u, ts::DATE, 'union' FROM v) w GROUP BY u",
)
OF_ROWS = (
    f"SELECT *, MIN(ts) OVER (PARTITION BY u) AS d, FIRST_VALUE(k) {OWN} AS x FROM v",
    "SELECT *, MAX(day) OVER (PARTITION BY u, n) AS d, MIN(k) OVER (PARTITION BY u) AS x FROM v",
    "SELECT *, MIN(day) OVER (PARTITION BY u ORDER BY i ROWS 1 PRECEDING) AS d, k AS x FROM v",
    f"SELECT *, LAG(day) {OWN} AS d, LAG(k, 1, 'b') {OWN} AS x FROM v",
    f"SELECT *, LEAD(ts) {OWN} AS d, LEAD(k, 2, 'no') {OWN} AS x FROM v",
    "SELECT *, FIRST_VALUE(day) OVER (PARTITION BY u ORDER BY day DESC, i) AS d, k AS x FROM v",
    "SELECT u, MIN(day) AS day, MAX(day) AS d, MIN(ts) AS ts, MAX(k) AS x, MIN(k) AS k FROM v GROUP BY u",
    "SELECT *, (SELECT MAX(w.day) FROM v w WHERE w.u = o.u AND w.n = 2) AS d, k AS x FROM v o",
)
SOURCES = (
    *(f"v JOIN ({each}) f USING (u)" for each in OF_UNITS),
    *(f"(SELECT * FROM v WHERE n > 0) v JOIN ({each}) f USING (u)" for each in OF_UNITS),
    *(f"v LEFT JOIN ({each}) f USING (u)" for each in OF_UNITS),
    *(f"({each}) v" for each in OF_ROWS),
    *(
        f"v JOIN (SELECT u, day AS d, k AS x, {BY_DAY} AS r FROM v) f ON f.u = v.u AND f.r = {number}"
        for number in (1, 2)
    ),
)
KEYS = (
    *("x", "k", "upper(x)", "x = k", "month(d)", "date_trunc('month', d)", "date_trunc('week', d)"),
    *("date_diff('month', d, day)", "date_diff('month', day, d)", "date_diff('quarter', d, ts)"),
    *("date_diff('day', d, day) // 7", "date_diff('week', d, ts)", "date_sub('month', d, day)"),
    *("(year(day) - year(d)) * 12 + month(day) - month(d)", "EXTRACT(MONTH FROM AGE(ts, d))"),
    *("CASE WHEN day > d THEN 'after' WHEN day = d THEN 'same' END", "date_trunc('month', day)"),
    *("LEAST(date_diff('month', d, day), 2)", "strftime(d, '%Y-%m')", "COALESCE(month(d), 0)"),
)
WHERE = (
    *("day >= d", "d < DATE '2024-03-01'", "date_diff('day', d, day) BETWEEN 0 AND 40", "x = 'a'"),
    *("day > DATE '2024-01-20'", "d IS NOT NULL", "ts < d", "k <> 'b'", "date_trunc('month', day) >= d"),
)


class World:
    """One policy, and the same rows in plain DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.plain = duckdb.connect()
        self.plain.execute(f"CREATE TABLE v AS {ROWS}")
        self.plain.execute(f"COPY v TO '{folder / 'v.parquet'}' (FORMAT parquet)")
        (folder / "dpsql.toml").write_text(POLICY)
        self.session = Session(load(folder / "dpsql.toml"))
        self.refused: list[str] = []

    @staticmethod
    def plain_values(row: Iterable[object]) -> tuple[object, ...]:
        """Return a row with days, whether they are DATEs or TIMESTAMPs."""
        return tuple(each.date() if isinstance(each, datetime) else each for each in row)

    def check(self, keys: list[str], rest: str) -> bool:
        """Compare one statement; return whether it is answered."""
        named = ", ".join(f"{key} AS g{i}" for i, key in enumerate(keys))
        selected = f"{named}, COUNT(DISTINCT v.u) AS number FROM {rest} GROUP BY ALL"
        asked = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, fresh = true) {selected}"
        try:
            release = present(self.session.run(asked).release)
        except QueryRefused as refused:
            self.refused.append(f"{asked}: {refused}")
            return False
        rows = [self.plain_values(row.values()) for row in release.rows.to_pylist()]
        shown = {row[:-1]: round(float(str(row[-1]))) for row in rows}
        assert len(shown) == len(rows), asked
        true = map(self.plain_values, self.plain.execute(f"SELECT {selected}").fetchall())
        groups = {row[:-1]: row[-1] for row in true}
        assert groups.items() <= shown.items(), (asked, groups.items() - shown.items())
        assert not any(number for key, number in shown.items() if key not in groups), asked
        return True


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.session.close()
    made.plain.close()


@pytest.mark.parametrize(
    ("seed", "statements"),
    [(3, 16), *(pytest.param(seed, 200, marks=pytest.mark.slow) for seed in range(300, 306))],
)
def test_no_group_is_missing(world: World, seed: int, statements: int) -> None:
    rng, answered = Random(seed), 0
    for _ in range(statements):
        where = rng.sample(WHERE, rng.choice([0, 0, 1, 2]))
        rest = rng.choice(SOURCES) + (f" WHERE {' AND '.join(where)}" if where else "")
        answered += world.check(rng.sample(KEYS, rng.choice([1, 1, 2, 3])), rest)
    assert answered > 0.8 * statements, world.refused


def test_a_mutant_that_takes_the_first_date_for_the_last_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = unit_order.find_ordered

    def wrong(*arguments: object) -> tuple[unit_order.OrderedColumns, ...]:
        pairs = found(*arguments)  # type: ignore[arg-type]  # passed on
        return (*pairs, *(unit_order.OrderedColumns(each.high, each.low, each.length) for each in pairs))

    monkeypatch.setattr(unit_order, "find_ordered", wrong)
    with pytest.raises(AssertionError):
        world.check(["date_diff('month', d, day)"], SOURCES[0])
