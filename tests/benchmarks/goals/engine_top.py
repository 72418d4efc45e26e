"""The largest of 50,000 groups on PostgreSQL and Spark, over the engine's own count of all groups' units.

`python -m tests.benchmarks --only engine_top`, with both extras: five million rows, whatever size is asked.
dpsql counts all groups there. The second line of an engine has what its rows first would take in its own SQL:
the rows of all groups, then the units of 16 of them, which are joined from a list. The processor time is that
of the engine's processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.benchmarks.measures import Figure
from tests.narrow import engine_of, private

from . import Setting
from .engine_sums import beside_engine, opened_engines

TITLE = "Top 10 on other engines"
GOAL = "dpsql's counts take no longer than the engine's own count of the same groups"

ROWS, UNITS, GROUPS, CANDIDATES = 5_000_000, 500_000, 50_000, 16
MADE = (
    f"SELECT CAST(hash(r, 1) % {UNITS} AS BIGINT) AS id, CAST(least(floor(exp("
    f"hash(r, 2) / 18446744073709551615 * ln({GROUPS + 1}))) - 1, {GROUPS - 1}) AS INTEGER) AS k "
    f"FROM range({ROWS}) AS t(r)"
)
POLICY = """
[database]
engine = "{engine}"
[engine]
keep = 0
[budget]
epsilon = 1e9
default_epsilon = 1
ledger = "{name}.sqlite"
[tables.many]
source = '{source}'
unit = "id"
trust_source = true
not_null = ["k"]
domain.k = {{ from = 0, to = 49999 }}
[tables.many.columns]
id = "BIGINT"
k = "INTEGER"
"""


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure both engines, as far as they are on this machine."""
    for name, session, own, process in opened_engines(setting.folder / "engine_top", MADE, POLICY):
        text = "SELECT k, COUNT(DISTINCT id) AS n FROM many GROUP BY k ORDER BY n DESC LIMIT 10"
        ours = partial(engine_of(session).count, private(session.prepare(text)).plan.compiled)
        floor = partial(own, "SELECT k, COUNT(DISTINCT id) AS n FROM {} AS m GROUP BY k")
        for what, work in (
            ("all groups are counted", ours),
            ("rows first, in the engine's own SQL", partial(count_rows_first, own)),
        ):
            work(), floor()
            yield beside_engine(work, floor, process, setting.rounds).figure(TITLE, f"{name}: {what}")


def count_rows_first(own: Callable[[str], Any]) -> dict[int, int]:
    """Count the rows of all groups, and the units of those that have most."""
    rows = own("SELECT k, COUNT(*) AS n FROM {} AS m WHERE id IS NOT NULL GROUP BY k").to_pydict()
    largest = [key for _, key in sorted(zip(rows["n"], rows["k"], strict=True))[-CANDIDATES:]]
    listed = ", ".join(f"({key})" for key in largest)
    found = own(
        f"SELECT m.k, COUNT(DISTINCT m.id) AS n FROM {{}} AS m JOIN (VALUES {listed}) AS c(k) ON m.k = c.k "
        "GROUP BY m.k"
    ).to_pydict()
    return dict(zip(found["k"], found["n"], strict=True))
