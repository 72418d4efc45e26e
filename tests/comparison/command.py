"""Reads the arguments, runs the comparison, and writes its results and the page."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.comparison.data_sets import DATA_SETS, prepare
from tests.comparison.environments import SYSTEMS, make_environment
from tests.comparison.measure import exact_answers, measure_question, started
from tests.comparison.page import PAGE, RESULTS, write_page
from tests.comparison.questions import QUESTIONS

EPSILON = 1.0
DELTA = 1e-6


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; keep what other runs have measured."""
    reader = argparse.ArgumentParser(prog="python -m tests.comparison")
    reader.add_argument("--page", action="store_true", help="only write the page again")
    reader.add_argument("--data", action="append", choices=list(DATA_SETS), help="only this data set")
    reader.add_argument("--systems", action="append", choices=list(SYSTEMS), help="only this system")
    reader.add_argument("--questions", action="append", choices=list(QUESTIONS), help="only this question")
    reader.add_argument("--repeats", type=int, default=20, help="of each question, at most")
    reader.add_argument(
        "--results", type=Path, default=RESULTS, help="the file of results, which is added to"
    )
    reader.add_argument("--environments", type=Path, help="where environments are, or are made and stay")
    given = reader.parse_args(arguments)
    results: dict[str, Any] = json.loads(given.results.read_text()) if given.results.exists() else {}
    if not given.page:
        with tempfile.TemporaryDirectory() as scratch:
            environments = given.environments or Path(scratch) / "environments"
            for name in given.data or DATA_SETS:
                _compare(name, Path(scratch) / name, environments, given, results)
    if given.results == RESULTS:
        PAGE.write_text(write_page(results), "utf-8")
    return 0


def _compare(
    name: str, folder: Path, environments: Path, given: argparse.Namespace, results: dict[str, Any]
) -> None:
    """Ask every system about one data set; write the results after each."""
    prepared = prepare(name, folder, EPSILON, DELTA)
    exact = exact_answers(prepared.file)
    said = {key: value for key, value in prepared.given.items() if key not in ("kinds", "items")}
    said |= {key: len(prepared.given[key]) for key in ("kinds", "items")}
    results.setdefault("data", {})[name] = said
    results["machine"] = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    for system in given.systems or SYSTEMS:
        found = results.setdefault("systems", {}).setdefault(system, {})
        found["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        try:
            python = make_environment(system, environments)
        except RuntimeError as problem:
            found["missing"] = str(problem)
            continue
        with started(python, system, prepared) as worker:
            if "missing" in worker.said:
                found["missing"] = worker.said["missing"]
                continue
            found["version"] = worker.said["version"]
            for question in given.questions or QUESTIONS:
                if question in worker.said["questions"]:
                    figure = measure_question(worker, question, exact[question], given.repeats)
                else:
                    figure = {"refused": "no such question"}
                found.setdefault("figures", {}).setdefault(name, {})[question] = figure
                print(name, system, question, figure, flush=True)
        given.results.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
