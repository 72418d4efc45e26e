"""Answers questions with one system, in whichever Python has it: `python worker.py with_NAME DATA.parquet
GIVEN.json`.

Each line of standard input names a question; each of standard output is its answer, as JSON: rows of a key
('0' without one), a number and, from systems that tell one, the ends of its 95% interval.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path


def main(name: str, file: str, given: str) -> None:
    """Say which version is there, then answer until the input ends."""
    warnings.simplefilter("ignore")
    output = sys.stdout
    sys.stdout = sys.stderr
    try:
        version, answers = import_module(name).prepared(file, json.loads(Path(given).read_text()))
    except ImportError as problem:
        print(json.dumps({"missing": str(problem)}), file=output, flush=True)
        return
    print(json.dumps({"version": version, "questions": sorted(answers)}), file=output, flush=True)
    for line in sys.stdin:
        try:
            rows = [[str(key), *map(float, numbers)] for key, *numbers in answers[line.strip()]()]
        except Exception as problem:  # noqa: BLE001  a package's own exceptions are its answer
            said: dict[str, object] = {"refused": f"{type(problem).__name__}: {problem}".strip()[:300]}
        else:
            said = {"rows": rows}
        print(json.dumps(said), file=output, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
