"""Answers questions with another system's package, in whichever Python has it: `python worker.py NAME FILE`.

Nothing of dpsql is imported. NAME is that of a module beside this one, FILE holds `user_id`, `item`, `kind`
and `amount`. Each line of standard input names a question; each of standard output is its answer, as JSON.
Its rows are a key (0 without one), a number and, from systems that tell one, the ends of its interval. The
variable of the environment DPSQL_PEERS may hold other amounts than those below, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from importlib import import_module

_GIVEN = json.loads(os.environ.get("DPSQL_PEERS", "{}"))
EPSILON: float = _GIVEN.get("epsilon", 1.0)
"""What every question may spend."""
TOP = 10
KINDS = 10
"""All groups of `kind`; one user may be in all of them."""
ROWS: int = _GIVEN.get("rows", 50)
"""The rows of a user that are summed."""
LARGEST: int = _GIVEN.get("largest", 500)
"""The largest amount; the smallest is 0."""
QUESTIONS = ("top", "counts", "sums")
"""The items with the most users, with these; the users of each kind; the sum of amounts of each kind."""
WHOLE = ("COUNT", "SUM", "AVG", "TOP 10", "GROUP BY")
"""How many rows; the sum of amounts, and their average; the items with most rows; the rows of each kind."""

LIMITED = (
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY hash(item, amount)) AS r "
    f"FROM '{{file}}') WHERE r <= {ROWS}"
)
"""At most so many rows of each user, as systems need it that cannot limit them themselves."""


def main(name: str, file: str) -> None:
    """Say which version is there, then answer until the input ends."""
    warnings.simplefilter("ignore")
    output = sys.stdout
    sys.stdout = sys.stderr
    try:
        version, answers = import_module(name).prepared(file)
    except ImportError as problem:
        version, answers = "", {}
        said: dict[str, object] = {"missing": str(problem)}
    else:
        said = {"version": version}
    print(json.dumps(said), file=output, flush=True)
    for line in sys.stdin:
        begin, busy = time.perf_counter(), time.process_time()
        try:
            rows = list(answers[line.strip()]())
        except Exception as problem:  # noqa: BLE001  a package's own exceptions are its answer
            said = {"refused": f"{type(problem).__name__}: {problem}".partition("\n")[0]}
        else:
            took = time.perf_counter() - begin, time.process_time() - busy
            said = {"rows": [[int(key), *map(float, numbers)] for key, *numbers in rows], "took": took}
        print(json.dumps(said), file=output, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
