"""From a process's start to its first answer, over importing what any answer needs.

Bytecode is kept, the ledger is there, and the tables were read once: a second process of an analyst. The
clinic's table has 130,000 rows, so a floor of its own also opens DuckDB and counts exactly.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.events import top
from tests.benchmarks.measures import Figure, Goal, Pairs
from tests.benchmarks.processes import run

from . import Setting

TITLE = "process start to first answer"
GOAL = "at most 1.3 times importing duckdb, pyarrow, numpy and sqlglot, by processor time"

IMPORTS = "import duckdb, pyarrow, numpy, sqlglot"
DATA = Path(__file__).parents[3] / "data"
TINY = top("item, COUNT(DISTINCT user_id) AS n", "events", "ORDER BY n DESC LIMIT 3")
CLINIC = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.001, fresh = TRUE) TOP 3 d.diagnosis, "
    "COUNT(DISTINCT v.patient_id) AS n FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code "
    "GROUP BY d.diagnosis ORDER BY n DESC"
)
EXACT = (
    "SELECT d.diagnosis, COUNT(DISTINCT v.patient_id) AS n FROM '{0}/visits.parquet' v "
    "JOIN '{0}/diagnoses.parquet' d ON d.code = v.diagnosis_code GROUP BY d.diagnosis ORDER BY n DESC LIMIT 3"
)


def figures(setting: Setting) -> Iterator[Figure]:
    """Compare the command line, and a program that imports dpsql, with both floors."""
    folder = setting.folder / "clinic"
    folder.mkdir(exist_ok=True)
    for file in (*DATA.glob("*.toml"), *DATA.glob("*.parquet")):
        shutil.copyfile(file, folder / file.name)
    clinic, tiny = str(folder / "clinic.toml"), str(setting.tiny.small_policy("startup"))
    exact = f"import duckdb; duckdb.connect().sql({EXACT.format(folder)!r}).fetchall()"
    imports, counting = _python(IMPORTS), _python(f"{IMPORTS}\n{exact}")
    goal = Goal("work", 1.3)
    works = (
        ("dpsql -c, 1,000 rows", _command(tiny, TINY), imports, goal),
        ("import dpsql and ask, 1,000 rows", _program(tiny, TINY), imports, goal),
        ("dpsql -c, the clinic", _command(clinic, CLINIC), imports, None),
        ("import dpsql and ask, the clinic", _program(clinic, CLINIC), imports, None),
        ("dpsql -c, the clinic, over DuckDB's answer", _command(clinic, CLINIC), counting, goal),
        ("dpsql --help, over python", [sys.executable, "-m", "dpsql.cli", "--help"], _python("pass"), None),
    )
    for what, ours, floor, aim in works:
        for warm in (ours, floor):
            run(warm, setting.folder)
        pairs = [(run(ours, setting.folder), run(floor, setting.folder)) for _ in range(setting.rounds)]
        yield Pairs(*zip(*pairs, strict=True)).figure(TITLE, what, goal=aim)


def _python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def _command(policy: str, statement: str) -> list[str]:
    return [sys.executable, "-m", "dpsql.cli", "-p", policy, "-c", statement]


def _program(policy: str, statement: str) -> list[str]:
    return _python(f"import dpsql\ncon = dpsql.connect({policy!r})\ncon.execute({statement!r}).fetchall()")
