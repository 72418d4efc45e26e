"""A stored release of a million groups by clients that get columns, over the same rows from DuckDB as Arrow.

`python -m tests.benchmarks --only columns`. The release is stored before; then each client asks for it and
reads all rows, over TLS, in turn with DuckDB.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import count

import duckdb

from tests.benchmarks.measures import Figure, Goal, beside
from tests.serve.columns import asked

from . import Setting

TITLE = "Columns"
GOAL = "a stored release of a million groups comes at no less than a tenth of DuckDB's rate"

GROUPS = 1_000_000


def figures(setting: Setting) -> Iterator[Figure]:
    """Measure one statement; nothing without the drivers of PostgreSQL."""
    if any(importlib.util.find_spec(name) is None for name in ("adbc_driver_postgresql", "psycopg")):
        return
    folder = setting.folder / "columns"
    folder.mkdir(parents=True, exist_ok=True)
    with asked(folder, GROUPS) as clients, duckdb.connect(str(folder / "raw.duckdb")) as raw:
        for number, (name, ask) in zip(count(), clients.items()):
            if not number:
                raw.register("answer", ask())
                raw.execute("CREATE OR REPLACE TABLE answer_copy AS SELECT * FROM answer")
                ask()  # it is kept from the first answer that the ledger gave on
            run = beside(
                ask, lambda: raw.sql("SELECT * FROM answer_copy").to_arrow_table(), 3 * setting.rounds
            )
            what = f"{GROUPS:,} groups, {name}"
            yield run.figure(TITLE, what, goal=Goal("ratio", 10))
