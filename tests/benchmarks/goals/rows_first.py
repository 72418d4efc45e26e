"""Statements that select few of many groups, of which rows are counted first, over DuckDB's exact count.

`python -m tests.benchmarks --only rows_first`. The ratios are of processor time, with fresh statements and no
kept counts. Figures of the build before are those of the same statements with `few_groups.ROWS_FIRST` off, in
the same run. Peak memory is that of a process of its own, which answers a few statements.

`python -m tests.benchmarks.goals.rows_first floor|statement|before FOLDER` is that process.
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

from dpsql.engines.duckdb import faster_counts
from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, beside
from tests.benchmarks.processes import peak

from . import Setting

TITLE = "rows first"
GOAL = "ten of 50,000 power-law groups take .35 of DuckDB's exact count of all, 100 nearly equal ones 1.15"

ROOT = Path(__file__).resolve().parents[3]
UNITS = "COUNT(DISTINCT user_id)"
CASES: dict[str, tuple[str, str, str, float]] = {
    "top 10, power law": (f"item, {UNITS} AS n", "item", "ORDER BY n DESC LIMIT 10", 0.35),
    "argmax": (f"item, {UNITS} AS n", "item", "ORDER BY n DESC LIMIT 1", 0.35),
    "threshold": (f"item, {UNITS} AS n", "item", f"HAVING {UNITS} > {{above}} LIMIT 10", 0.35),
    "top 10 of texts, power law": (f"name, {UNITS} AS n", "name", "ORDER BY n DESC LIMIT 10", 0.4),
    "top 10 of 1,000 equal groups": (f"thousand, {UNITS} AS n", "thousand", "ORDER BY n DESC LIMIT 10", 0.35),
    "top 10 of 100 equal groups": (f"hundred, {UNITS} AS n", "hundred", "ORDER BY n DESC LIMIT 10", 1.15),
}
"""What is selected, the key, the selection, and the goal."""
FIRST = "top 10, power law"
POLICY = """
[engine]
keep = 0
[budget]
epsilon = 1e9
ledger = "rows.sqlite"
[tables.rows]
source = "rows.parquet"
unit = "user_id"
trust_source = true
domain.item = {{ from = 0, to = {last} }}
domain.name = {{ table = "names", column = "name" }}
domain.hundred = {{ from = 0, to = 99 }}
domain.thousand = {{ from = 0, to = 999 }}
[tables.names]
source = "names.parquet"
public = true
"""
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) "
RUNS = 3


def made(setting: Setting) -> Path:
    """Write rows with a power-law key, the same as text, and keys of 100 and 1,000 equal groups."""
    folder, last = setting.events.folder, setting.events.size.items - 1
    path = folder / "rows.parquet"
    if not path.exists():
        keys = "user_id, item, format('item {:07}', item) AS name, "
        keys += "CAST(floor(100 * random()) AS BIGINT) AS hundred, "
        keys += "CAST(floor(1000 * random()) AS BIGINT) AS thousand"
        duckdb.sql(f"COPY (SELECT {keys} FROM '{setting.events.events()}') TO '{path}'")
        names = f"SELECT format('item {{:07}}', i) AS name FROM range({last + 1}) r(i)"
        duckdb.sql(f"COPY ({names}) TO '{folder / 'names.parquet'}'")
    (folder / "rows.toml").write_text(POLICY.format(last=last), "utf-8")
    return folder


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure each statement with rows first, then as before; then the memory."""
    folder, group = made(setting), f"{TITLE}, {setting.size}"
    above = setting.events.size.rows // 1000
    with closing(Session(load(folder / "rows.toml"))) as session, duckdb.connect() as raw:
        for what, (listed, key, selection, limit) in CASES.items():
            asked = f"{PRIVATE}{listed} FROM rows GROUP BY {key} {selection.format(above=above)}"
            ours, exact = partial(session.run, asked), partial(_fetched, raw, listed, key, folder)
            goal = Goal("work", limit) if setting.size in "ML" else None
            yield beside(ours, exact, setting.rounds).figure(group, what, goal=goal)
            try:
                faster_counts.ROWS_FIRST = False
                yield beside(ours, exact, max(3, setting.rounds // 3)).figure(group, "  all counted")
            finally:
                faster_counts.ROWS_FIRST = True
    sides = ("statement", "before", "floor")
    found = {side: statistics.median(_asked(side, folder) for _ in range(RUNS)) for side in sides}
    for side, what in (("statement", "top 10, peak memory"), ("before", "  all counted")):
        own, floor = found[side], found["floor"]
        yield Figure(group, what, "MB", own, floor, own / floor, None, own - floor)


def _fetched(raw: duckdb.DuckDBPyConnection, listed: str, key: str, folder: Path) -> object:
    return raw.sql(f"SELECT {listed} FROM '{folder / 'rows.parquet'}' GROUP BY {key}").to_arrow_table()


def _asked(side: str, folder: Path) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.goals.rows_first", side, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return float(json.loads(done.stdout))


def _child(side: str, folder: str) -> None:
    """Run one side several times, and print the most memory that it took."""
    listed, key, selection, _ = CASES[FIRST]
    run: Callable[[], object]
    if side == "floor":
        raw = duckdb.connect()
        raw.execute("SET enable_progress_bar = false")  # it would be on the output, too
        run = partial(_fetched, raw, listed, key, Path(folder))
    else:
        faster_counts.ROWS_FIRST = side == "statement"
        session = Session(load(Path(folder, "rows.toml")))
        run = partial(session.run, f"{PRIVATE}{listed} FROM rows GROUP BY {key} {selection}")
    for _ in range(RUNS):
        run()
    print(json.dumps(peak()))


if __name__ == "__main__":
    _child(*sys.argv[1:])
