"""Asks a system each question many times: errors against the exact answer, coverage of intervals,
processor time."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from tests.comparison.data_sets import Prepared
from tests.comparison.questions import QUESTIONS, TOP

FOLDER = Path(__file__).parent / "systems"
LONGEST = 2.0
"""Seconds of the processor for all repeats of a question; there are four at least."""


class Worker:
    """A process with a system, and the time of the processor that it and its children took."""

    def __init__(self, python: str, system: str, prepared: Prepared) -> None:
        self._process = subprocess.Popen(
            [
                python,
                str(FOLDER / "worker.py"),
                system,
                str(prepared.file),
                str(prepared.file.with_name("given.json")),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | _python_path(system),
        )
        self.said = self._read()

    def ask(self, question: str) -> dict[str, Any]:
        """Return the rows of an answer, or why it was refused."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        return self._read()

    def processor_seconds(self) -> float:
        """Return the processor time so far of the process and of all below it."""
        parents: dict[int, int] = {}
        spent: dict[int, float] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            spent[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        below = {self._process.pid}
        while True:
            more = {pid for pid, parent in parents.items() if parent in below} - below
            if not more:
                return sum(spent.get(pid, 0.0) for pid in below)
            below |= more

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {"missing": "it ended", "refused": "it ended"}


def _python_path(system: str) -> dict[str, str]:
    return {"PYTHONPATH": str(FOLDER.parents[2])} if system.startswith("with_dpsql") else {}


@contextmanager
def started(python: str, system: str, prepared: Prepared) -> Iterator[Worker]:
    """Run a system on the data, and end it."""
    worker = Worker(python, system, prepared)
    try:
        yield worker
    finally:
        worker.close()


def exact_answers(file: Path) -> dict[str, dict[str, float]]:
    """Return the exact answer of each question."""
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW data AS FROM '{file}'")
        return {
            name: {str(key): float(number) for key, number in con.execute(question.exact).fetchall()}
            for name, question in QUESTIONS.items()
        }


def measure_question(
    worker: Worker, question: str, exact: Mapping[str, float], repeats: int
) -> dict[str, Any]:
    """Ask again and again; the first answer's time does not count."""
    first = worker.ask(question)
    if "refused" in first:
        return {"refused": first["refused"]}
    answers, begin = [first["rows"]], worker.processor_seconds()
    clock = time.monotonic()
    while len(answers) < repeats and (len(answers) < 4 or worker.processor_seconds() - begin < LONGEST):
        if time.monotonic() - clock > 60 * LONGEST:
            break
        again = worker.ask(question)
        if "refused" in again:
            return {"refused": f"sometimes: {again['refused']}"}
        answers.append(again["rows"])
    took = (worker.processor_seconds() - begin) / (len(answers) - 1) if len(answers) > 1 else math.nan
    return figures(question, answers, exact) | {"repeats": len(answers), "seconds": took}


def figures(question: str, answers: list[list[list[Any]]], exact: Mapping[str, float]) -> dict[str, Any]:
    """Return the root of the mean squared error over the size of the exact numbers, and the coverage of
    intervals."""
    if question == "top":
        best = sorted(exact.values(), reverse=True)[:TOP]
        asked, size = (
            [{row[0]: exact.get(row[0], 0.0) for row in answer} for answer in answers],
            sum(best) / TOP,
        )
    else:
        asked, size = [dict(exact)] * len(answers), sum(map(abs, exact.values())) / len(exact)
    errors, covered = [], []
    for answer, wanted in zip(answers, asked, strict=True):
        found = {row[0]: row[1:] for row in answer}
        for key, true in wanted.items():
            number, *interval = found.get(key, [0.0])
            errors.append(number - true)
            if interval:
                covered.append(interval[0] <= true <= interval[1])
    made: dict[str, Any] = {"error": math.sqrt(sum(e * e for e in errors) / len(errors)) / size}
    if covered:
        made["covered"] = sum(covered) / len(covered)
    if question == "top":
        least = min(best)
        made["right"] = sum(exact.get(row[0], 0.0) >= least for answer in answers for row in answer) / len(
            answers
        )
    return made
