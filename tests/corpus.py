"""Put a corpus of statements to the installed dpsql, and fail where too few are answered right.

`python -m tests.corpus FOLDER` works on a copy of the folder. Its `run.py` asks all statements, exits with 1
if an answer is wrong, and writes what became of each to `build/results.json`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """What became of one statement."""

    outcome: str
    out_of_scope: str = ""
    ident: str = ""


CUTS = frozenset({"googlesql15", "googlesql17", "googlesql28", "googlesql34", "googlesql36"})
"""Statements whose own bounds cut values of the data: plain SQL without the bounds has another answer.

Their answers are those of the bounds, computed in DuckDB from the totals and averages of units.
"""
NOT_COMPARED = frozenset({"googlesql13", "googlesql14", "googlesql25"})
"""Quantiles in a spelling that plain DuckDB does not have, so that the corpus has no answer to compare."""
FEW_OF_MANY = frozenset({"clickbench31"})
"""Averages of four or five rows where 10,000 rows of a unit may count: the noise is more than is allowed."""
KNOWN = CUTS | NOT_COMPARED | FEW_OF_MANY
LEAST_AS_WRITTEN = 0.80
"""The least share of statements in scope that are answered right as they were found."""
LEAST_RIGHT = 0.82
"""The least share that is answered right with a documented spelling or the refusal's own rewrite as well."""
MOST_FEW_ROWS = 4
"""The most statements of whose rows less than half come."""


def problems(outcomes: Iterable[Outcome]) -> list[str]:
    """Return what is worse than it may be."""
    judged = [o for o in outcomes if not o.out_of_scope]
    seen = Counter(o.outcome for o in judged)
    scope = seen.total()
    if not scope:
        return ["no statement is in scope"]
    shares = (
        ("as written", seen["as written"] / scope, LEAST_AS_WRITTEN),
        ("right", (seen["as written"] + seen["spelled"]) / scope, LEAST_RIGHT),
    )
    found = [f"{name}: {share:.1%}, at least {least:.0%}" for name, share, least in shares if share < least]
    if seen["few rows"] > MOST_FEW_ROWS:
        found.append(f"few rows: {seen['few rows']}, at most {MOST_FEW_ROWS}")
    wrong = [o for o in judged if o.outcome == "WRONG" and o.ident not in KNOWN]
    if wrong:
        found.append(f"WRONG: {len(wrong)}")
    return found


def main(arguments: list[str]) -> int:
    """Run the corpus in the folder that the only argument names."""
    if len(arguments) != 1 or not (Path(arguments[0]) / "run.py").is_file():
        print("usage: python -m tests.corpus FOLDER, a folder with run.py", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(arguments[0], Path(scratch) / "corpus", ignore=shutil.ignore_patterns("build"))
        ran = subprocess.run([sys.executable, "run.py"], cwd=copy, check=False)
        results = copy / "build" / "results.json"
        if not results.exists():
            print(f"run.py ended with {ran.returncode}, and without results", file=sys.stderr)
            return 1
        listed = json.loads(results.read_text("utf-8"))
    found = problems(Outcome(r["outcome"], r["out_of_scope"], r["ident"]) for r in listed)
    for problem in found:
        print(problem, file=sys.stderr)
    return int(bool(found) or ran.returncode not in (0, 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
