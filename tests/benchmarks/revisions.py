"""Whole statements of this source tree beside those of another one, in turn, by processor time.

`python -m tests.benchmarks.revisions FOLDER --size S` runs the package `dpsql` of FOLDER, such as the
worktree of an earlier commit, in a second process. A statement is run for the first time, in a session that
has not seen it, and again. Both sides get the same data, and a ledger of their own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .events import SIZES, Events

__all__ = ["main"]

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, fresh = TRUE) "
COUNTED = "COUNT(DISTINCT user_id)"
STATEMENTS = {
    "COUNT(*)": "COUNT(*) AS n FROM amounts",
    "SUM by 10 groups": "kind, SUM(amount) AS s FROM amounts GROUP BY kind",
    "top 10": f"item, {COUNTED} AS n FROM amounts GROUP BY item ORDER BY n DESC LIMIT 10",
    "argmax": f"item FROM amounts GROUP BY item ORDER BY {COUNTED} DESC LIMIT 1",
    "above a threshold": f"item, {COUNTED} AS n FROM amounts GROUP BY item HAVING {COUNTED} >= 300 LIMIT 10",
    "AVG of sums of users": (
        "AVG(s, contribution_bounds_per_row => (0, 500)) AS a "
        "FROM (SELECT user_id, SUM(amount) AS s FROM amounts GROUP BY user_id) AS x"
    ),
}
WORKER = """
import sys, time
from dpsql.policy import load
from dpsql.session import Session
session = None
for line in sys.stdin:
    kind, text = line.rstrip().split(" ", 1)
    if kind == "first":
        if session is not None:
            session.close()
        session = Session(load(sys.argv[1]))
    begin = time.process_time()
    session.run(text)
    print(time.process_time() - begin, flush=True)
"""


class Side:
    """A process that runs statements with the package of one folder."""

    def __init__(self, folder: Path, policy: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", WORKER, str(policy)]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def seconds(self, kind: str, text: str) -> float:
        """Run a statement, `first` in a new session or `again`; return the processor time."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a process without pipes")
        self.process.stdin.write(f"{kind} {text}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def main() -> None:
    """Run the command."""
    reader = argparse.ArgumentParser(prog="python -m tests.benchmarks.revisions", description=__doc__)
    reader.add_argument("other", type=Path, help="the folder with the package to compare with")
    reader.add_argument("--size", choices=sorted(SIZES, reverse=True), default="S")
    reader.add_argument("--rounds", type=int, default=15)
    reader.add_argument("--again", type=int, default=2, help="how often a statement is repeated in a round")
    reader.add_argument("--folder", type=Path, help="where data are made, and kept; else a temporary one")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        events = Events((given.folder or Path(temporary)) / given.size, SIZES[given.size])
        text = (
            events.amounts_policy().read_text("utf-8").replace('"amounts.parquet"', f'"{events.amounts()}"')
        )
        sides = []
        for place, folder in enumerate((Path.cwd(), given.other)):
            policy = Path(temporary) / f"side{place}.toml"
            policy.write_text(text.replace("amounts.sqlite", f"side{place}.sqlite"), "utf-8")
            sides.append(Side(folder.resolve(), policy))
        for name, rest in STATEMENTS.items():
            found: dict[str, list[list[float]]] = {"first": [[], []], "again": [[], []]}
            for turn in range(given.rounds):
                order = (0, 1) if turn % 2 else (1, 0)
                for kind in ("first", *["again"] * given.again):
                    for place in order:
                        found[kind][place].append(sides[place].seconds(kind, PRIVATE + rest))
            for kind, (ours, others) in found.items():
                one, two = statistics.median(ours[1:]), statistics.median(others[1:])
                pairs = statistics.median(a / b for a, b in zip(ours[1:], others[1:], strict=True))
                least = min(ours) / min(others)
                print(
                    f"{given.size} {name:<22} {kind}: {one * 1e3:9.2f} ms beside {two * 1e3:9.2f} ms, "
                    f"pairwise {pairs:.3f}, least over least {least:.3f}",
                    flush=True,
                )
        for side in sides:
            side.close()


if __name__ == "__main__":
    main()
