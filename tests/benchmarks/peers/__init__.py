"""Other systems beside dpsql, on the same rows, questions and epsilon: time and error.

Each module `with_*` answers with one package, in a process of its own (`worker`), whose Python is the first
of those given that has the package: their requirements exclude one another.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from dpsql.policy import load
from dpsql.session import Session
from tests.benchmarks.events import Events
from tests.benchmarks.measures import Figure, Pairs

from .worker import EPSILON, QUESTIONS, TOP

__all__ = ["peers"]

FOLDER = Path(__file__).parent
LONGEST = 15.0
"""Seconds for all rounds of one peer's question, of which there are two at least."""

_HEAD = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {EPSILON:g}, fresh = TRUE)"
_STATEMENTS = {
    "top": f"{_HEAD} TOP {TOP} item, COUNT(DISTINCT user_id) AS n FROM amounts GROUP BY item ORDER BY n DESC",
    "counts": f"{_HEAD} kind, COUNT(DISTINCT user_id) AS n FROM amounts GROUP BY kind",
    "sums": f"{_HEAD} kind, SUM(amount) AS n FROM amounts GROUP BY kind",
}
_EXACT = {
    "top": "SELECT item, COUNT(DISTINCT user_id) FROM '{}' GROUP BY item",
    "counts": "SELECT kind, COUNT(DISTINCT user_id) FROM '{}' GROUP BY kind",
    "sums": "SELECT kind, SUM(CAST(amount AS DOUBLE)) FROM '{}' GROUP BY kind",
}
_TITLES = {
    "top": f"the {TOP} items with the most users, with counts",
    "counts": "users of each of 10 kinds",
    "sums": "sum of amounts of each of 10 kinds",
}


class Answer(NamedTuple):
    """Keys with their released numbers, and the time on the clock and of the processor."""

    rows: Sequence[tuple[float, ...]]
    took: tuple[float, float]


class Worker:
    """A process with another system's package."""

    def __init__(self, python: str, name: str, file: Path) -> None:
        self._process = subprocess.Popen(
            [python, str(FOLDER / "worker.py"), name, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        said = self._read()
        self.name = f"{name.removeprefix('with_')} {said.get('version', '')}"
        self.missing = "missing" in said

    def ask(self, question: str) -> Answer | str:
        """Return the answer to a question, or why there is none."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        said = self._read()
        if "refused" in said:
            return str(said["refused"])
        return Answer([(key, *numbers) for key, *numbers in said["rows"]], (said["took"][0], said["took"][1]))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {"missing": "it ended", "refused": "it ended"}


def peers(events: Events, size: str, rounds: int, pythons: Sequence[str]) -> Iterator[Figure]:
    """Ask each question of dpsql and of each peer in turn: its time over dpsql's, and the errors of both."""
    file = events.amounts()
    with ExitStack() as stack:
        session = Session(load(events.amounts_policy()))
        stack.callback(session.close)
        workers = []
        for name in sorted(path.stem for path in FOLDER.glob("with_*.py")):
            found = _started(name, file, pythons or [sys.executable], stack)
            if found is None:
                print(f"\n({name.removeprefix('with_')} is not installed: nothing to compare with)")
            else:
                workers.append(found)
        raw = stack.enter_context(duckdb.connect())
        for question in QUESTIONS:
            exact = dict(raw.sql(_EXACT[question].format(file)).fetchall())
            for worker in workers:
                yield _figure(session, worker, question, exact, f"peers, {size}: {_TITLES[question]}", rounds)


def _started(name: str, file: Path, pythons: Sequence[str], stack: ExitStack) -> Worker | None:
    for python in pythons:
        worker = Worker(python, name, file)
        stack.callback(worker.close)
        if not worker.missing:
            return worker
    return None


def _figure(
    session: Session, worker: Worker, question: str, exact: Mapping[int, float], group: str, rounds: int
) -> Figure:
    """Ask in turn; the first answers of both do not count."""
    _ask(session, question)
    first = worker.ask(question)
    if isinstance(first, str):
        return Figure(group, worker.name, "ms", math.nan, error=f"refused: {first[:60]}")
    ours, theirs = [], []
    for _ in range(max(2, min(rounds, int(LONGEST / first.took[0])))):
        ours.append(_ask(session, question))
        again = worker.ask(question)
        assert isinstance(again, Answer), again
        theirs.append(again)
    figure = Pairs([a.took for a in theirs], [a.took for a in ours]).figure(group, worker.name)
    error = f"{_error(theirs, exact, question)}; dpsql: {_error(ours, exact, question)}"
    values = {name: getattr(figure, name) for name in Figure.__dataclass_fields__}
    return Figure(**values | {"error": error})


def _ask(session: Session, question: str) -> Answer:
    begin, busy = time.perf_counter(), time.process_time()
    table = session.run(_STATEMENTS[question]).table
    took = time.perf_counter() - begin, time.process_time() - busy
    return Answer(
        [(int(key), float(value)) for key, value in zip(*map(_listed, table.columns[:2]), strict=True)], took
    )


def _listed(column: Any) -> list[Any]:
    return list(column.to_pylist())


def _error(answers: Sequence[Answer], exact: Mapping[int, float], question: str) -> str:
    """Return the root of the mean squared error; of a top-k also how many of its keys are right."""
    squares = [(value - exact.get(int(key), 0)) ** 2 for answer in answers for key, value, *_ in answer.rows]
    words = f"± {math.sqrt(sum(squares) / len(squares)):,.3g}" if squares else "no rows"
    if question != "top":
        return words
    best = set(sorted(exact, key=lambda key: -exact[key])[:TOP])
    right = sum(key in best for answer in answers for key, *_ in answer.rows) / len(answers)
    return f"{right:.1f} of {TOP} right, {words}"
