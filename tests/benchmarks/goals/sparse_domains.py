"""Top 10 with counts over domains of 10^6 to 10^12 groups, of which a million have rows: time and memory.

`python -m tests.benchmarks --only sparse_domains`. The rows are the same for all domains, and so are the
groups with rows; only how many others there could be differs. Each statement runs in a process of its own,
in turn with DuckDB's exact count of the same groups.

`python -m tests.benchmarks.goals.sparse_domains floor|statement FOLDER NAME` is that process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.benchmarks.measures import Figure, Pairs
from tests.benchmarks.processes import peak

from . import Setting

TITLE = "sparse domains"
GOAL = "domains of up to 10^12 groups take time and memory by their groups with rows"

ROOT = Path(__file__).resolve().parents[3]
ROWS, GROUPS, RUNS = 3_000_000, 1_000_000, 3


@dataclass(frozen=True, slots=True)
class Keys:
    """How many pages, countries and hours, whole days of these, are declared."""

    pages: int
    countries: int
    hours: int

    @property
    def groups(self) -> int:
        """Return the number of groups."""
        return self.pages * self.countries * self.hours


DOMAINS = {"1e6": Keys(100, 20, 504), "1e9": Keys(1000, 200, 5016), "1e12": Keys(100_000, 2000, 4992)}
_KEYS = "page, country, date_trunc('hour', ts)"
_POLICY = """
[engine]
keep = 0
[budget]
epsilon = 1e9
ledger = "{name}.sqlite"
[tables.events]
source = "{name}.parquet"
unit = "user_id"
trust_source = true
not_null = ["page", "country", "ts"]
[tables.events.domain]
page = {{ table = "pages{name}", column = "page" }}
country = {{ from = 0, to = {last} }}
ts = {{ from = 2024-01-01, to = {day} }}
[tables.pages{name}]
source = "pages{name}.parquet"
public = true
"""


def made(folder: Path, name: str) -> None:
    """Write the rows of a domain and its policy."""
    folder.mkdir(parents=True, exist_ok=True)
    keys, path = DOMAINS[name], folder / f"{name}.parquet"
    if path.exists():
        return
    share = max(1, keys.groups // GROUPS)
    # Every group has a row, and the first ones many more.
    often = f"CAST({GROUPS} * pow(hash(i) % 1000003 / 1000003.0, 6) AS BIGINT) % {GROUPS}"
    rows = (
        f"SELECT CAST(hash(i, 1) % 1000000 AS BIGINT) AS user_id, "
        f"CASE WHEN i < {GROUPS} THEN i ELSE {often} END AS g FROM range({ROWS}) AS r(i)"
    )
    placed = f"SELECT user_id, g * {share} + g % {share} AS p FROM ({rows})"
    listed = (
        f"user_id, format('page {{:06}}', p // {keys.hours * keys.countries}) AS page, "
        f"CAST(p // {keys.hours} % {keys.countries} AS INTEGER) AS country, "
        f"TIMESTAMP '2024-01-01' + INTERVAL (60 * (p % {keys.hours})) MINUTE AS ts"
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {listed} FROM ({placed})) TO '{path}'")
        pages = f"SELECT format('page {{:06}}', i) AS page FROM range({keys.pages}) AS r(i)"
        connection.execute(f"COPY ({pages}) TO '{folder}/pages{name}.parquet'")
        last = connection.sql(f"SELECT DATE '2024-01-01' + {keys.hours // 24 - 1}").fetchall()[0][0]
    policy = _POLICY.format(name=name, last=keys.countries - 1, day=last)
    (folder / f"{name}.toml").write_text(policy, "utf-8")


def figures(setting: Setting) -> Iterator[Figure]:
    """Ask every domain, each in turn with the exact count of its groups."""
    folder, rounds = setting.folder / "sparse", min(setting.rounds, 5)
    for name, keys in DOMAINS.items():
        made(folder, name)
        both = [tuple(_asked(what, folder, name) for what in ("statement", "floor")) for _ in range(rounds)]
        own, floor = ([each[i] for each in both] for i in (0, 1))
        times = [[(one["wall"], one["work"]) for one in side] for side in (own, floor)]
        group = f"top 10 with counts, {GROUPS:,} groups with rows"
        yield Pairs(*times).figure(group, f"domain of {keys.groups:,}", "s", scale=1)
        ours, other = (statistics.median(one["peak"] for one in side) for side in (own, floor))
        yield Figure(group, "  peak memory", "MB", ours, other, ours / other, None, ours - other)


def _asked(what: str, folder: Path, name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.goals.sparse_domains", what, str(folder), name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _child(what: str, folder: str, name: str) -> None:
    """Run one side several times; the first run does not count."""
    if what == "floor":
        connection = duckdb.connect()
        connection.execute("SET enable_progress_bar = false")  # under `python -m` it may be on
        path = Path(folder, f"{name}.parquet")
        sql = f"SELECT {_KEYS}, COUNT(DISTINCT user_id) AS n FROM '{path}' GROUP BY ALL"

        def run() -> object:
            return connection.sql(sql).to_arrow_table()
    else:
        from dpsql.policy import load
        from dpsql.session import Session

        session = Session(load(Path(folder, f"{name}.toml")))
        sql = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) page, country, "
            "date_trunc('hour', ts) AS h, COUNT(DISTINCT user_id) AS n FROM events GROUP BY ALL "
            "ORDER BY n DESC LIMIT 10"
        )

        def run() -> object:
            return session.run(sql)

    run()
    begin, busy = time.perf_counter(), time.process_time()
    for _ in range(RUNS):
        run()
    wall, work = (time.perf_counter() - begin) / RUNS, (time.process_time() - busy) / RUNS
    print(json.dumps({"wall": wall, "work": work, "peak": peak()}))


if __name__ == "__main__":
    _child(*sys.argv[1:])
