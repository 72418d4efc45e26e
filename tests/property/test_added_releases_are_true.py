"""Whatever `combine = ONLY` answers is the answer of the same SQL, within the noise: random statements."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import duckdb
import pytest
from fuzz.mutant import Mutant

from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 900
max_epsilon_per_query = 900
ledger = "ledger.sqlite"
high_water = false
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
bounds.v = { from = 0, to = 6 }
[tables.signups.domain]
land = ["a", "b"]
v = { from = 0, to = 6, complete = true }
signed_up = { from = 2026-01-01, to = 2026-02-28 }
ts = { from = 2026-01-01, to = 2026-06-28 }
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 100
domain.place = { values = ["here", "there"], complete = true }
"""
ROWS = {
    "signups": "SELECT i AS user_id,"
    " CASE WHEN i % 29 > 0 THEN DATE '2026-01-05' + CAST(hash(i) % 28 AS INTEGER) END AS signed_up,"
    " CASE WHEN hash(i + 7) % 11 > 0 THEN ['a', 'b', 'c'][1 + CAST(hash(i + 1) % 3 AS INTEGER)] END AS land,"
    " CAST(hash(i + 2) % 7 AS INTEGER) AS v, hash(i + 3) % 2 = 0 AS flag,"
    " TIMESTAMP '2026-01-05' + CAST(hash(i + 4) % 100000 AS INTEGER) * INTERVAL 1 MINUTE AS ts"
    " FROM range(2800) t(i)",
    "visits": "SELECT CAST(hash(i) % 2800 AS BIGINT) AS user_id, ['here', 'there'][1 + i % 2] AS place"
    " FROM range(7000) t(i)",
}
CONDITIONS = """
signed_up >= DATE '2026-01-{a:02}'
signed_up < DATE '2026-01-{b:02}'
signed_up BETWEEN '2026-01-{a:02}' AND '2026-01-{b:02}'
date_trunc('week', signed_up) = DATE '2026-01-12'
date_trunc('week', signed_up) IN (DATE '2026-01-12', DATE '2026-01-19')
NOT date_trunc('week', signed_up) = DATE '2026-01-12'
date_trunc('week', signed_up) <= DATE '2026-01-13'
signed_up > TIMESTAMP '2026-01-{a:02} 10:00:00'
signed_up <= TIMESTAMP '2026-01-{a:02} 10:00:00'
signed_up IS NULL
signed_up IS NOT NULL
year(signed_up) = 2026
land = 'a'
land <> 'a'
land NOT IN ('b')
land IS NULL
NOT (land = 'a' OR land = 'b')
land IS DISTINCT FROM 'a'
lower(land) = 'a'
v < {k}
v >= {k}
v <> {k}
NOT v BETWEEN 1 AND {k}
v IN (1, {k})
v = {k} OR v = 2
v % 2 = 0
v > 2.5
flag
NOT flag
flag IS NULL
ts >= TIMESTAMP '2026-01-{a:02} 12:00:00'
CAST(ts AS DATE) = DATE '2026-01-{a:02}'
""".strip().splitlines()
KEYS = [
    "",
    "",
    "land",
    "v",
    "flag",
    "date_trunc('week', signed_up)",
    "year(signed_up)",
    "CAST(ts AS DATE)",
    "land, v",
]
NUMBERS = ["COUNT(*)", "COUNT(land)", "COUNT(DISTINCT user_id)", "SUM(v)", "COUNT(*) FILTER (WHERE v > 3)"]
FROMS = [
    "signups",
    "signups",
    "signups",
    "visits JOIN signups USING (user_id)",
    "visits LEFT JOIN signups USING (user_id)",
]


class Statements:
    """Random statements of a few conditions, keys and numbers, so that some are told by others."""

    def __init__(self, rng: Random) -> None:
        fill = {"a": rng.choice([5, 7, 12]), "b": rng.choice([12, 19, 26]), "k": rng.choice([2, 3, 4])}
        self.rng = rng
        self.conditions = [each.format(**fill) for each in rng.sample(CONDITIONS, 6)]
        self.keys, self.numbers, self.froms = (
            rng.sample(KEYS, 4),
            rng.sample(NUMBERS, 2),
            rng.sample(FROMS, 2),
        )

    def draw(self) -> str:
        """Return what follows SELECT and its options."""
        rng = self.rng
        where = " AND ".join(f"({each})" for each in rng.sample(self.conditions, rng.choice([0, 1, 1, 2])))
        key = rng.choice(self.keys)
        text = f"{key + ', ' if key else ''}{rng.choice(self.numbers)} AS n FROM {rng.choice(self.froms)}"
        text += f" WHERE {where}" if where else ""
        return text + (f" GROUP BY {key}" if key else "")


def create(connection: duckdb.DuckDBPyConnection, folder: Path) -> Path:
    """Make the tables, in the engine and as files; return the policy of these."""
    for name, rows in ROWS.items():
        connection.execute(f"CREATE TABLE {name} AS {rows}")
        connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
    (folder / "dpsql.toml").write_text(POLICY)
    return folder / "dpsql.toml"


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 60))]
)
def test_what_is_told_is_true(tmp_path: Path, seed: int) -> None:
    with duckdb.connect() as connection:
        policy, statements = create(connection, tmp_path), Statements(Random(seed))
        with closing(Session(load(policy), analyst="ann")) as session:
            for _ in range(15):
                check_told(session, connection, statements.draw())
                try:
                    session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4) {statements.draw()}")
                except QueryRefused:
                    continue
            for _ in range(15):
                check_told(session, connection, statements.draw())


def test_units_of_several_cells_that_are_added_up_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "COUNT(DISTINCT user_id) AS n FROM visits"
    along_all = ("analysis.addable_numbers", "_measure", "return EACH_UNIT,", "return EACH_ROW,")
    for wrong in (False, True):
        folder = tmp_path / str(wrong)
        folder.mkdir()
        if wrong:
            Mutant("units along any column", (along_all,)).apply(monkeypatch)
        with duckdb.connect() as connection, closing(Session(load(create(connection, folder)))) as session:
            session.run(
                f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4) place, {text} GROUP BY place"
            )
            if wrong:
                with pytest.raises(AssertionError):
                    check_told(session, connection, text)
            else:
                check_told(session, connection, text)


def check_told(session: Session, connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Compare an answer that is told by releases with the exact one, group by group."""
    try:
        release = session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY) {text}").release
    except QueryRefused:
        return
    assert release is not None
    found = connection.execute(f"SELECT {text}").fetchall()
    exact = {tuple(str(key)[:10] for key in row[:-1]): row[-1] or 0 for row in found}
    *keys, values = (column.to_pylist() for column in release.rows.columns)
    for row, value in enumerate(values):
        truth = exact.get(tuple(str(key[row])[:10] for key in keys), 0)
        assert abs(value - truth) <= 8 * release.table.column("n_stddev")[row].as_py() + 0.01, (text, row)
