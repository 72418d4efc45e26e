"""All counts of units, which are counted by bits, over DuckDB's exact count of the same groups.

`python -m tests.benchmarks --only bits`. The ratios are of processor time, with fresh statements and no kept
counts. Figures of the build before are those of the same statements with `unit_bits.COUNTS_BITS` off, in the
same run. Peak memory is that of a process of its own, which answers a few statements of ten groups.

`python -m tests.benchmarks.goals.bits floor|statement|before FOLDER` is that process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import duckdb

from dpsql.engines.duckdb import unit_bits
from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, beside
from tests.benchmarks.processes import peak

from . import Setting

TITLE = "units by bits"
GOAL = "all counts of ten groups take a quarter of DuckDB's exact count at M, and four tenths of its memory"

ROOT = Path(__file__).resolve().parents[3]
UNITS = "COUNT(DISTINCT user_id)"
THREE = f"{UNITS} AS n, {UNITS} FILTER (WHERE item < 100) AS m, {UNITS} FILTER (WHERE item > 1000) AS o"
LIMITS = {"S": 0.45, "M": 0.25, "L": 0.4}
"""The goals of ten groups by size; those of other statements are of M."""
CASES: dict[str, tuple[str, str, float | None]] = {
    "10 groups": (f"kind, {UNITS} AS n", "kind", None),
    "all units together": (f"{UNITS} AS n", "", 0.3),
    "10 groups, 3 counts": (f"kind, {THREE}", "kind", 0.2),
    "10 of 1,000 groups": (f"thousand, {UNITS} AS n", "thousand", 0.8),
    "10 of 50,000 groups": (f"many, {UNITS} AS n", "many", 1.05),
}
"""What is selected, the key, and the goal. Of many groups the largest are asked for, whose counts need no
bound on the groups of a unit: all groups are counted."""
POLICY = """
[engine]
keep = 0
[budget]
epsilon = 1e9
ledger = "bits.sqlite"
[tables.bits]
source = "bits.parquet"
unit = "user_id"
trust_source = true
domain.kind = { from = 0, to = 9 }
domain.thousand = { from = 0, to = 999 }
domain.many = { from = 0, to = 49999 }
"""
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) "
RUNS = 3


def made(setting: Setting) -> Path:
    """Write rows with keys of 10, 1,000 and 50,000 groups, of units in no whole bytes, and the policy."""
    folder = setting.events.folder
    path = folder / "bits.parquet"
    if not path.exists():
        keys = "item % 10 AS kind, CAST(hash(user_id, item, 1) % 1000 AS BIGINT) AS thousand, "
        keys += "CAST(hash(user_id, item, 2) % 50000 AS BIGINT) AS many"
        rows = f"SELECT user_id, item, {keys} FROM '{setting.events.events()}' WHERE user_id > 6"
        duckdb.sql(f"COPY ({rows}) TO '{path}'")
    (folder / "bits.toml").write_text(POLICY, "utf-8")
    return folder


def asked(listed: str, key: str, of: str) -> str:
    """Write a query of a table; without a key, of all its rows."""
    return f"{listed} FROM {of}" + (f" GROUP BY {key}" if key else "")


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure each statement with bits, then as before; then the memory."""
    folder, group = made(setting), f"{TITLE}, {setting.size}"
    with closing(Session(load(folder / "bits.toml"))) as session, duckdb.connect() as raw:
        for what, (listed, key, limit) in CASES.items():
            last = " ORDER BY n DESC LIMIT 10" if what.startswith("10 of") else ""
            ours = partial(session.run, PRIVATE + asked(listed, key, "bits") + last)
            exact = partial(_fetched, raw, "SELECT " + asked(listed, key, f"'{folder / 'bits.parquet'}'"))
            goal = None
            if limit is None or setting.size == "M":
                goal = Goal("work", limit or LIMITS[setting.size])
            yield beside(ours, exact, setting.rounds).figure(group, what, goal=goal)
            try:
                unit_bits.COUNTS_BITS = False
                yield beside(ours, exact, max(3, setting.rounds // 3)).figure(group, "  without bits")
            finally:
                unit_bits.COUNTS_BITS = True
    sides = ("statement", "before", "floor")
    found = {side: statistics.median(_asked(side, folder) for _ in range(RUNS)) for side in sides}
    for side, what in (("statement", "10 groups, peak memory"), ("before", "  without bits")):
        own, floor = found[side], found["floor"]
        yield Figure(group, what, "MB", own, floor, own / floor, None, own - floor)


def _fetched(raw: duckdb.DuckDBPyConnection, sql: str) -> object:
    return raw.sql(sql).to_arrow_table()


def _asked(side: str, folder: Path) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.goals.bits", side, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return float(json.loads(done.stdout))


def _child(side: str, folder: str) -> None:
    """Run one side several times, and print the most memory that it took."""
    listed, key, _ = CASES["10 groups"]
    run: Callable[[], object]
    if side == "floor":
        raw = duckdb.connect()
        raw.execute("SET enable_progress_bar = false")  # it would be on the output, too
        run = partial(_fetched, raw, "SELECT " + asked(listed, key, f"'{Path(folder, 'bits.parquet')}'"))
    else:
        unit_bits.COUNTS_BITS = side == "statement"
        session = Session(load(Path(folder, "bits.toml")))
        run = partial(session.run, PRIVATE + asked(listed, key, "bits"))
    for _ in range(RUNS):
        run()
    print(json.dumps(peak()))


if __name__ == "__main__":
    _child(*sys.argv[1:])
