"""What needs a process of its own: peak memory, and programs that are started again and again.

`python -m tests.benchmarks.processes floor|statement FILE` is the child whose memory is looked at.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .events import Events, top
from .measures import Figure, Goal, judged

__all__ = ["memory", "peak", "run"]

ROOT = Path(__file__).resolve().parents[2]
QUESTION = top("item, COUNT(DISTINCT user_id) AS n", "events", "ORDER BY n DESC LIMIT 10")


def _environment(folder: Path) -> dict[str, str]:
    """Return surroundings in which bytecode is kept, as after an installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(folder / "state"),
    }


def run(command: list[str], folder: Path) -> tuple[float, float]:
    """Run a program; return the time on the clock, and that of the processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment(folder)
    )
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memory(events: Events, name: str) -> Iterator[Figure]:
    """Peak memory of a process that asks three times, over one that counts three times."""
    peaks = {}
    for what, source in (
        ("floor", events.events()),
        ("statement", events.small_policy("memory", '"256 MB"')),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.processes", what, str(source)],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=_environment(events.folder),
        )
        peaks[what] = float(done.stdout)
    ours, floor = peaks["statement"], peaks["floor"]
    goal = Goal("ratio", 1.1) if name != "S" else None
    figure = Figure(
        f"peak memory, {name}", "top 10 with counts", "MB", ours, floor, ours / floor, None, ours - floor
    )
    yield judged(figure, goal)


def _child(what: str, source: str) -> None:
    if what == "floor":
        import duckdb
        import pyarrow  # noqa: F401  its memory is the floor's too

        connection = duckdb.connect()
        for _ in range(3):
            connection.sql(
                f"SELECT item, COUNT(DISTINCT user_id) AS n FROM '{source}' GROUP BY item"
            ).to_arrow_table()
    else:
        from dpsql.policy import load
        from dpsql.session import Session

        session = Session(load(source))
        for _ in range(3):
            session.run(QUESTION)
        session.close()
    print(peak())


def peak() -> float:
    """Peak memory of this process in MB; not `ru_maxrss`, which starts from the parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    _child(*sys.argv[1:])
