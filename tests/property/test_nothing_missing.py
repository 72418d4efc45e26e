"""Nothing is missing: the groups and what is in no group shown add up to the statement without GROUP BY.

Random statements that release all groups of declared keys, at an epsilon at which noise is below a half and
with nothing cut: each group is that of plain DuckDB, NULL is one of them, and the sum of the groups and of
the number beside them is the ungrouped number, for every kind of key: CASE, nullif, parts of dates,
conversions, columns of a LEFT JOIN, several keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import present

ROWS = """
SELECT i AS u, ['a', 'b', 'c', 'z', NULL, '7'][1 + i * 7 % 6] AS k,
  [0, 1, 2, 3, -1, 9, NULL][1 + i * 5 % 7]::INTEGER AS n,
  CASE WHEN i % 9 > 0 THEN DATE '2024-01-29' + (i * 11 % 7)::INTEGER END AS day,
  CASE WHEN i % 8 > 0 THEN TIMESTAMP '2024-01-29 22:00:00' + to_hours(i * 13 % 120) END AS ts,
  [0, 9, NULL, 40][1 + i * 3 % 4]::INTEGER AS ms, ['x', 'y', NULL][1 + i % 3] AS w, i % 5 > 1 AS late,
  ['s', 't'][1 + i % 2] AS sure
FROM range(500) r(i)
"""
POLICY = """
[budget]
epsilon = 1e12
ledger = "ledger.sqlite"
high_water = false
[tables.e]
source = "e.parquet"
unit = "u"
unique = [["u"]]
not_null = ["late"]
[tables.e.domain]
k = ["a", "b", "c", "7", "q"]
n = { from = 0, to = 3 }
day = { from = 2024-01-30, to = 2024-02-01 }
ts = { from = 2024-01-30, to = 2024-02-01 }
sure = { values = ["s", "t", "v"], complete = true }
[tables.e.bounds]
ms = { from = 0, to = 40 }
[tables.p]
source = "p.parquet"
public = true
unique = [["a"]]
"""
SOURCES = (
    *(
        "e",
        "e",
        "e LEFT JOIN p ON e.k = p.a",
        "e JOIN p ON e.k = p.a",
        "e LEFT JOIN p ON e.k = p.a AND e.ms > 3",
    ),
    *("(SELECT *, upper(k) AS loud FROM e WHERE u > 9) AS e", "e LEFT JOIN p ON e.n = p.c AND p.c < 3"),
)
KEYS = (
    *(
        "e.k",
        "e.n",
        "e.day",
        "e.sure",
        "e.late",
        "e.ms > 3",
        "upper(e.k)",
        "e.k || '!'",
        "COALESCE(e.k, 'none')",
    ),
    *(
        "CASE WHEN e.ms > 3 THEN 'slow' WHEN e.n > 1 THEN e.k END",
        "CASE WHEN e.k = 'a' THEN 1 WHEN e.n < 2 THEN 2 ELSE 3 END",
    ),
    *(
        "nullif(e.k, 'a')",
        "nullif(e.n, 2)",
        "IF(e.late, e.n, NULL)",
        "GREATEST(e.k, e.sure)",
        "TRY_CAST(e.k AS INTEGER)",
    ),
    *(
        "EXTRACT(MONTH FROM e.day)",
        "EXTRACT(DOW FROM e.ts)",
        "date_part('hour', e.ts)",
        "EXTRACT(DAY FROM e.day)",
    ),
    *(
        "CAST(date_trunc('month', e.day) AS DATE)",
        "date_trunc('hour', e.ts)",
        "CAST(e.ts AS DATE)",
        "e.n // 2",
        "e.n % 2",
    ),
    *(
        "e.k IS NULL",
        "e.n IS DISTINCT FROM 2",
        "e.k IN ('a', 'b')",
        "e.ms BETWEEN 1 AND 20",
        "length(e.k)",
        "e.n // 0",
    ),
    *(
        "strftime(e.ts, '%H')",
        "e.w = 'x'",
        "e.k LIKE 'a%'",
        "date_diff('day', e.day, DATE '2024-01-31')",
        "e.k = e.sure",
    ),
)
OF_P = (
    "b",
    "c",
    "COALESCE(b, e.k)",
    "c + e.n",
    "upper(b)",
    "CASE WHEN e.late THEN b END",
    "c > 1",
    "nullif(b, e.k)",
)
WHERE = (
    "e.n BETWEEN 1 AND 2",
    "e.k <> 'b'",
    "e.k IS NOT NULL",
    "e.day >= '2024-01-31'",
    "e.ms > 3",
    "NOT e.late",
    "e.n IN (0, 3)",
    "e.k IS NULL",
)
MEASURES = (
    "COUNT(*)",
    "COUNT(DISTINCT u)",
    "COUNT(ms)",
    "SUM(ms)",
    "COUNT_IF(late)",
    "COUNT(*) FILTER (WHERE n > 1)",
)


@dataclass
class World:
    """One policy, and the same rows in plain DuckDB."""

    session: Session
    plain: duckdb.DuckDBPyConnection
    refused: list[str] = field(default_factory=list)

    def number(self, text: str) -> int:
        rows = self.plain.execute(text).fetchall()
        return round(rows[0][0] or 0)

    def check(self, keys: list[str], measure: str, rest: str) -> bool:
        """Compare one statement; return whether it is answered."""
        named = ", ".join(f"{key} AS g{i}" for i, key in enumerate(keys))
        by = ", ".join(f"g{i}" for i in range(len(keys)))
        selected = f"{named}, {measure} AS number FROM {rest} GROUP BY {by}"
        asked = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e5, fresh = true) {selected}"
        try:
            release = present(self.session.run(asked).release)
        except QueryRefused:
            self.refused.append(asked)
            return False
        rows = [tuple(row.values()) for row in release.rows.to_pylist()]
        shown = {row[:-1]: round(row[-1]) for row in rows}
        assert len(shown) == len(rows), asked
        groups = {
            row[:-1]: round(row[-1] or 0) for row in self.plain.execute(f"SELECT {selected}").fetchall()
        }
        assert shown == {key: groups.get(key, 0) for key in shown}, asked
        missing = sum(n for key, n in groups.items() if key not in shown)
        outside = release.outside
        assert (0 if outside is None else round(outside.value)) == missing, asked
        assert sum(shown.values()) + missing == self.number(f"SELECT {measure} FROM {rest}"), asked
        if len(keys) == 1 and (None,) in groups:
            assert (None,) in shown, asked
        return True


def make(folder: Path) -> World:
    plain = duckdb.connect()
    plain.execute("SET error_on_division_by_zero = false")
    plain.execute(f"CREATE TABLE e AS {ROWS}")
    plain.execute(
        "CREATE TABLE p AS SELECT * FROM (VALUES ('a', 'one', 0), ('b', NULL, 1), ('z', 'two', 2), "
        "(NULL, 'three', 3), ('q', 'one', NULL)) AS t(a, b, c)"
    )
    for table in ("e", "p"):
        plain.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    (folder / "dpsql.toml").write_text(POLICY)
    return World(Session(load(folder / "dpsql.toml")), plain)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = make(tmp_path)
    yield made
    made.session.close()
    made.plain.close()


def campaign(world: World, seed: int, statements: int) -> None:
    rng, answered = Random(seed), 0
    for _ in range(statements):
        source = rng.choice(SOURCES)
        known = (*KEYS, *OF_P, *OF_P) if "JOIN" in source else KEYS
        keys = rng.sample(known, rng.choice([1, 1, 2, 3]))
        where = rng.sample(WHERE, rng.choice([0, 0, 1]))
        rest = source + (f" WHERE {' AND '.join(where)}" if where else "")
        answered += world.check(keys, rng.choice(MEASURES), rest)
    assert answered > 0.7 * statements, world.refused[:3]


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_each_key_by_itself(world: World, each: int) -> None:
    for key in KEYS[::each]:
        world.check([key], "COUNT(*)", "e")
    for key in OF_P[::each]:
        world.check([key], "COUNT(*)", SOURCES[2])
    assert len(world.refused) <= 6, world.refused


def test_nothing_is_missing(world: World) -> None:
    campaign(world, 5, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 310))
def test_nothing_is_missing_in_a_long_campaign(world: World, seed: int) -> None:
    campaign(world, seed, 200)


def test_a_mutant_without_the_number_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("dpsql.analysis.passes"), "_has_rows_outside", lambda *_: False)
    with pytest.raises(AssertionError):
        world.check(["e.k"], "COUNT(*)", "e")


def test_a_mutant_that_drops_null_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.analysis.key_candidates.add_null", lambda domain: domain.without_null())
    with pytest.raises(AssertionError):
        world.check(["e.k"], "COUNT(*)", "e")
