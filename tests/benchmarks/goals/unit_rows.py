"""Sums, averages and counts of rows by ten groups, over DuckDB's exact count of the same groups' units.

`python -m tests.benchmarks --only unit_rows`. The ratios are of processor time, with fresh statements and no
kept counts. Bounds on the rows of a unit are such that nobody, few or most units have more. Figures of the
build before are those of the same statements with `unit_rows.KNOWS_ROWS` off, in the same run. Peak memory is
that of a process of its own: `python -m tests.benchmarks.goals.unit_rows floor|statement|before FOLDER TEXT`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import duckdb

from dpsql.engines.duckdb import faster_counts
from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, Pairs, beside
from tests.benchmarks.processes import peak

from . import Setting

TITLE = "rows of units"
GOAL = (
    "sums that need no weights take a fifth of DuckDB's exact count, and half where few units have more rows"
)

CALLS = {
    "SUM": "SUM(amount) AS v",
    "AVG": "AVG(amount) AS v",
    "COUNT": "COUNT(*) AS v",
}
BOUNDS: dict[str, tuple[int, float]] = {"nobody": (50, 0.2), "few": (22, 0.5), "most": (5, 1.5)}
"""What units have more rows than count: the bound, and the goal. Users have ten rows, and 28 at most."""
AUTO = {"first": 2.0, "second": 0.5}
POLICY = """
[engine]
keep = 0
[budget]
epsilon = 1e9
ledger = "unit_rows.sqlite"
[tables.amounts]
source = "{file}"
unit = "user_id"
trust_source = true
domain.kind = {{ from = 0, to = 9 }}
bounds.amount = {{ from = 0, to = 500 }}
rows_per_unit = 50
"""
PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE{}) "
ASKED = PRIVATE + "kind, {} FROM amounts GROUP BY kind"


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure the second statement of each kind, with what is known of units and as before; then AUTO."""
    rows = setting.events.amounts()
    path = rows.with_name("unit_rows.toml")
    path.write_text(POLICY.format(file=rows.name), "utf-8")
    group = f"{TITLE}, {setting.size}"
    with closing(Session(load(path))) as session, duckdb.connect() as raw:
        exact = partial(
            _fetched, raw, f"SELECT kind, COUNT(DISTINCT user_id) AS n FROM '{rows}' GROUP BY kind"
        )
        for who, (bound, limit) in BOUNDS.items():
            for what, call in CALLS.items():
                text = ASKED.format(f", max_rows_contributed = {bound}", call)
                yield from _with_and_without(
                    session, text, exact, f"{what}, {who} above {bound}", limit, setting
                )
        auto = ASKED.format("", "SUM(amount, contribution_bounds => AUTO) AS v")
        yield _first(path, auto, exact, setting.rounds).figure(
            group, "AUTO, first", goal=Goal("work", AUTO["first"])
        )
        yield from _with_and_without(session, auto, exact, "AUTO, second", AUTO["second"], setting)
    for what, text in (("SUM, nobody", ASKED.format("", CALLS["SUM"])), ("AUTO", auto)):
        floor, own, before = (_peak(side, path, text) for side in ("floor", "statement", "before"))
        for side, found in ((f"{what}, peak memory", own), ("  as before", before)):
            yield Figure(group, side, "MB", found, floor, found / floor, None, found - floor)


def _with_and_without(
    session: Session, text: str, exact: Callable[[], object], what: str, limit: float, setting: Setting
) -> Iterator[Figure]:
    group, ours = f"{TITLE}, {setting.size}", partial(session.run, text)
    yield beside(ours, exact, setting.rounds).figure(group, what, goal=Goal("work", limit))
    try:
        faster_counts.KNOWS_ROWS = False
        yield beside(ours, exact, max(3, setting.rounds // 3)).figure(group, "  as before")
    finally:
        faster_counts.KNOWS_ROWS = True


def _first(path: Path, text: str, exact: Callable[[], object], rounds: int) -> Pairs:
    """Measure the first statement of a session that has opened its data."""
    found: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for _ in range(rounds):
        with closing(Session(load(path))) as session:
            session.prepare(text)
            found.append((_seconds(partial(session.run, text)), _seconds(exact)))
    return Pairs([a for a, _ in found], [b for _, b in found])


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    begin, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - busy


def _fetched(raw: duckdb.DuckDBPyConnection, sql: str) -> object:
    return raw.sql(sql).to_arrow_table()


def _peak(side: str, path: Path, text: str) -> float:
    command = [sys.executable, "-m", "tests.benchmarks.goals.unit_rows", side, str(path), text]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return float(json.loads(done.stdout))


def _child(side: str, policy: str, text: str) -> None:
    """Run one side a few times, and print the most memory that it took."""
    run: Callable[[], object]
    if side == "floor":
        raw, rows = duckdb.connect(), Path(policy).with_name("amounts.parquet")
        raw.execute("SET enable_progress_bar = false")  # it would be on the output, too
        run = partial(_fetched, raw, f"SELECT kind, COUNT(DISTINCT user_id) AS n FROM '{rows}' GROUP BY kind")
    else:
        faster_counts.KNOWS_ROWS = side == "statement"
        run = partial(Session(load(Path(policy))).run, text)
    for _ in range(3):
        run()
    print(json.dumps(peak()))


if __name__ == "__main__":
    _child(*sys.argv[1:])
