"""No group that cannot be: the candidates of a key are what it makes of the points of a declared range.

Random ranges of days, times and integers are declared; each is a key under EXTRACT, date_trunc, `%`, `//`,
CASE and the like. The candidates must be the values that plain DuckDB computes on all points of the range, no
other and none less: a column of hours has 24 of them, days of 30 March to 3 April five, not 31.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpsql.engines.duckdb.duckdb_owner import Inspector
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import private
from tests.support.world import open_world

COLUMNS = 30
"""The columns of a table, each with a range of its own."""
PARTS = ("year", "quarter", "month", "week", "day", "dow", "doy", "isodow", "hour", "minute")
OF_TIMES = (
    "EXTRACT({part} FROM {column})",
    "EXTRACT({part} FROM {column}) % 5",
    "CASE WHEN EXTRACT({part} FROM {column}) > 11 THEN 'late' ELSE 'early' END",
    "date_trunc('{cut}', {column})",
    "strftime({column}, '%b %d')",
    "dayname({column})",
)
OF_INTEGERS = (
    "{column} % {c}",
    "{column} // {c}",
    "CASE WHEN {column} > {c} THEN 'much' WHEN {column} > {c} + 40 THEN 'more' ELSE 'little' END",
    "CASE WHEN {column} % 2 = 0 THEN {column} // {c} ELSE -1 END",
    "abs({column} - {c})",
)


class Ranges:
    """A table without rows whose columns have random ranges, and the points of each."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.rng = rng
        self.points: list[tuple[str, str]] = []
        """The type of each column, and a query of all of its values."""
        domains = []
        for i in range(COLUMNS):
            kind = ("DATE", "TIMESTAMP", "INTEGER")[i % 3]
            if kind == "INTEGER":
                low = rng.randrange(-60, 60)
                high = low + rng.choice([0, 1, 3, 10, 100])
                domains.append(f"c{i} = {{ from = {low}, to = {high} }}")
                self.points.append((kind, f"SELECT x::INTEGER AS c{i} FROM range({low}, {high + 1}) AS r(x)"))
                continue
            first = date(rng.choice([1969, 2023, 2024]), rng.randrange(1, 13), rng.randrange(1, 29))
            days = rng.choice([0, 1, 4, 9, 33])
            domains.append(f"c{i} = {{ from = {first}, to = {first + timedelta(days)} }}")
            step, number = (
                ("INTERVAL 1 DAY", days + 1) if kind == "DATE" else ("INTERVAL 1 MINUTE", 1440 * (days + 1))
            )
            each = f"(TIMESTAMP '{first} 00:00:00' + x * {step})::{kind}"
            self.points.append((kind, f"SELECT {each} AS c{i} FROM range({number}) AS r(x)"))
        self.plain = duckdb.connect()
        columns = ", ".join(f"c{i} {kind}" for i, (kind, _) in enumerate(self.points))
        self.plain.execute(f"CREATE TABLE t ({columns})")
        self.plain.execute(f"COPY t TO '{folder / 't.parquet'}' (FORMAT parquet)")
        (folder / "dpsql.toml").write_text(
            "[budget]\nepsilon = 1\n[tables.t]\nsource = 't.parquet'\nunit = 'ROW'\n"
            f"[tables.t.domain]\n{chr(10).join(domains)}\n",
            "utf-8",
        )
        policy = load(folder / "dpsql.toml")
        self.session, self.inspector = Session(policy), Inspector(policy)

    def key(self, i: int) -> str:
        """A random expression of a column."""
        kind, pick = self.points[i][0], self.rng.choice
        if kind == "INTEGER":
            return pick(OF_INTEGERS).format(column=f"c{i}", c=pick([2, 3, 5, 7, 24]))
        parts = [part for part in PARTS if kind == "TIMESTAMP" or part not in ("hour", "minute")]
        return pick(OF_TIMES).format(column=f"c{i}", part=pick(parts), cut=pick(["month", "week", "day"]))

    def candidates(self, key: str) -> set[object]:
        """The candidates of a key: the groups of a count of no rows."""
        text = (
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {key} AS k, COUNT(*) FROM t GROUP BY 1"
        )
        sql = private(self.session.prepare(text)).plan.compiled.sql
        return _distinct(self.inspector._connection(counts_only=False).execute(sql).fetchall())

    def image(self, i: int, key: str) -> set[object]:
        """What the key makes of all points of its column."""
        points = f"{self.points[i][1]} UNION ALL SELECT NULL"  # no column is declared to have no NULL
        found = self.plain.execute(f"SELECT DISTINCT {key} FROM ({points})").fetchall()
        return _distinct(found)

    def close(self) -> None:
        self.session.close()
        self.inspector.close()


def _distinct(rows: Iterable[tuple[object, ...]]) -> set[object]:
    """The first values of rows; a day is its midnight."""
    found = (row[0] for row in rows)
    return {datetime(v.year, v.month, v.day) if type(v) is date else v for v in found if v is not None}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 17))])
def test_candidates_are_the_image_of_the_range(seed: int, tmp_path: Path) -> None:
    ranges = Ranges(tmp_path, Random(seed))
    try:
        for i in range(COLUMNS):
            key = ranges.key(i)
            assert ranges.candidates(key) == ranges.image(i, key), (
                f"seed {seed}: {key} of {ranges.points[i][1]}"
            )
    finally:
        ranges.close()


@pytest.fixture(scope="module")
def spring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("spring")
    row = "SELECT DATE '2024-04-01' AS d, TIMESTAMP '2024-04-01' AS ts, 10 AS v"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({row}) TO '{folder / 't.parquet'}' (FORMAT parquet)")
    days = "{ from = 2024-03-30, to = 2024-04-03, complete = true }"
    with open_world(
        folder,
        "[budget]\nepsilon = 1\n[tables.t]\nsource = 't.parquet'\nunit = 'ROW'\nnot_null = ['d', 'ts', 'v']\n"
        f"[tables.t.domain]\nd = {days}\nts = {days}\nv = {{ from = 10, to = 12, complete = true }}\n",
    ) as session:
        yield session


@pytest.mark.parametrize(
    ("key", "size"),
    [
        ("EXTRACT(DAY FROM d)", 5),
        ("EXTRACT(DAY FROM ts)", 5),
        ("EXTRACT(MONTH FROM ts)", 2),
        ("EXTRACT(DOW FROM ts)", 5),
        ("EXTRACT(WEEK FROM ts)", 2),
        ("EXTRACT(HOUR FROM ts)", 24),
        ("EXTRACT(MINUTE FROM ts)", 60),
        ("EXTRACT(SECOND FROM ts)", 60),
        ("v % 5", 3),
        ("v // 5", 1),
    ],
)
def test_the_size_of_a_domain_is_that_of_the_image(key: str, size: int, spring: Session) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {key} AS k, COUNT(*) FROM t GROUP BY 1"
    assert private(spring.prepare(text)).plan.domain_size == size
