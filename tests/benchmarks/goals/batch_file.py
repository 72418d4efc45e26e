"""A batch file: the statements of the cookbook in one session, with counts that are kept and without.

`python -m tests.benchmarks --only batch_file`. The tables are copied so often that counting takes time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpsql.analysis import CompiledQuery
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.kernel.counts import Counts
from dpsql.language import split_script
from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.measures import Figure, Goal, Pairs

from . import Setting

TITLE = "a batch file"
GOAL = "statements over the same groups take at most 1.2 times the longest of them"

ROOT = Path(__file__).resolve().parents[3]
KEPT = '"256 MB"'
COPIES = {"S": 1, "M": 4, "L": 20}
"""How often each patient is there, by the size that was asked for."""

COUNTS = (
    "SELECT clinic, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5",
    "SELECT clinic FROM visits GROUP BY clinic HAVING COUNT(DISTINCT patient_id) >= 3000 LIMIT 3",
    "SELECT clinic, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits GROUP BY clinic",
    "SELECT clinic, SUM(cost, contribution_bounds_per_group => (0, 2000)) AS n FROM visits GROUP BY clinic",
)
"""Statements over the same rows and groups, of numbers that have a bound in each group."""

SUMS = (
    "SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 5",
    "SELECT clinic, SUM(cost) AS revenue FROM visits GROUP BY clinic ORDER BY revenue DESC LIMIT 5",
    "SELECT clinic, AVG(cost) AS mean FROM visits GROUP BY clinic",
    "SELECT clinic, COUNT_IF(minutes >= 30) AS n FROM visits GROUP BY clinic HAVING n >= 1000",
    "SELECT clinic, SUM(minutes) AS m FROM visits GROUP BY clinic ORDER BY m DESC LIMIT 3",
)
"""The same with bounds in all groups together."""

SAME = {"4 of the same groups": COUNTS, "5 of the same groups": SUMS}


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure the cookbook, its first twenty statements, and statements of the same groups."""
    copies, rounds = COPIES[setting.size], setting.rounds
    where = setting.folder / f"clinic{copies}"
    where.mkdir(parents=True, exist_ok=True)
    cookbook = [s for s in split_script((ROOT / "examples/cookbook.sql").read_text()) if not s.isspace()]
    policies = {keep: _policy(where, copies, keep) for keep in ("0", KEPT)}
    time.sleep(2.5)  # counts of a file that was just written are not kept

    def measured(keep: str, statements: Sequence[str]) -> tuple[float, float]:
        return _run(policies[keep], statements).seconds

    for what, statements in (
        ("the cookbook", cookbook),
        ("its first 20 statements", cookbook[:20]),
        *((what, statements) for what, statements in SAME.items()),
    ):
        scans = [str(len(_run(policies[keep], statements).scans)) for keep in policies]
        pairs = [(measured(KEPT, statements), measured("0", statements)) for _ in range(rounds)]
        run = Pairs([a for a, _ in pairs], [b for _, b in pairs])
        yield run.figure(f"{TITLE}, clinic x {copies}", f"{what}: {' -> '.join(scans)} scans")
    for what, statements in SAME.items():
        longest = max(statements, key=lambda statement: measured("0", [statement])[1])
        pairs = [(measured(KEPT, statements), measured("0", [longest])) for _ in range(rounds)]
        run = Pairs([a for a, _ in pairs], [b for _, b in pairs])
        yield run.figure(f"{TITLE}, clinic x {copies}", f"{what} over the longest", goal=Goal("ratio", 1.2))


def _policy(folder: Path, copies: int, keep: str) -> Path:
    """Write the clinic's policy with a large budget, and its tables."""
    source = ROOT / "data"
    for table in ("patients", "visits"):
        path = folder / f"{table}.parquet"
        if not path.exists():
            keys = "patient_id + c * 10000000 AS patient_id"
            if table == "visits":
                keys += ", visit_id + c * 100000000 AS visit_id"
            rows = f"SELECT * REPLACE ({keys}) FROM '{source}/{table}.parquet', range({copies}) AS r(c)"
            duckdb.sql(f"COPY ({rows}) TO '{path}'")
    (folder / "diagnoses.parquet").write_bytes((source / "diagnoses.parquet").read_bytes())
    text = (source / "clinic.toml").read_text()
    text = text.replace("epsilon = 10\n", "epsilon = 1e9\n").replace("delta = 1e-5", "delta = 0.1")
    name = "each" if keep == "0" else "kept"
    text = text.replace("clinic-ledger", name).replace("[budget]", "[budget]\nhigh_water = false")
    text = re.sub('^unit = "patient_id"', "trust_source = true\\n\\g<0>", text, flags=re.MULTILINE)
    path = folder / f"{name}.toml"
    path.write_text(f"[engine]\nkeep = {keep}\n{text}")
    return path


@dataclass(frozen=True, slots=True)
class _Run:
    scans: list[str]
    """The SQL of what was counted."""
    seconds: tuple[float, float]
    """Wall and processor seconds of all statements, from the first charge to the last answer."""


def _run(policy: Path, statements: Sequence[str]) -> _Run:
    """Price statements, then run them, as a batch file."""
    for ledger in policy.parent.glob(f"{policy.stem}.sqlite*"):
        ledger.unlink()  # so that nothing is stored
    with _counted() as scans, Session(load(policy)).database as database:
        session = Session(database)
        prepared = [session.prepare(statement) for statement in statements]
        begin, busy = time.perf_counter(), time.process_time()
        with session.together(prepared):
            for one in prepared:
                session.execute(one)
        return _Run(scans, (time.perf_counter() - begin, time.process_time() - busy))


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Note what DuckDB counts."""
    found: list[str] = []
    true = DuckDBEngine.count

    def count(engine: DuckDBEngine, compiled: CompiledQuery) -> Counts:
        found.append(compiled.sql)
        return true(engine, compiled)

    DuckDBEngine.count = count  # type: ignore[method-assign,assignment]  # for the block
    try:
        yield found
    finally:
        DuckDBEngine.count = true  # type: ignore[method-assign]  # as before
