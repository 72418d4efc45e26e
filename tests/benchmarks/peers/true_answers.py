"""Other systems beside dpsql on statements over all rows: errors against the raw answer, and coverage of it.

    python -m tests.benchmarks.peers.true_answers --python /path/of/python [--python ..] [--runs 20]

All answer five questions about the clinic's visits at epsilon .25. The other systems need bounds by hand:
they are asked with two choices, a low and a high one. dpsql takes its bounds from kept ladders of epsilon .5,
new ones in each run, or searches them. The interval of another system is what it says of its noise; of an
average, and by diffprivlib, there is none.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

from tests.benchmarks.peers import FOLDER, Worker
from tests.benchmarks.peers.worker import WHOLE
from tests.statistical.kept_answers import asked
from tests.statistical.true_answers import KEPT, Exact
from tests.statistical.whole_data import ROOT, Whole, made

EPSILON = Fraction(1, 4)
HANDS = ((20, 200), (200, 1000))
"""The rows of a patient that count, and the largest cost."""
VISITS = Whole(
    "visits",
    "user_id",
    "amount",
    "amount",
    "item",
    "kind",
    ("item=1..301", "kind=1..20"),
    source="SELECT patient_id AS user_id, dense_rank() OVER (ORDER BY diagnosis_code) AS item, "
    "dense_rank() OVER (ORDER BY clinic) AS kind, cost AS amount "
    f"FROM '{ROOT}/data/visits.parquet' WHERE patient_id IS NOT NULL",
)
LINE = "{:<10}{:<34}{:>9}{:>10}{:>9}"

Answers = Sequence[Sequence[tuple[object, tuple[float, ...]]]]


def line(question: str, name: str, answers: Answers, truth: Mapping[object, float]) -> str:
    """Return the error, how many exact answers the intervals cover, and their width, of many runs."""
    size = _size(truth, question)
    numbers = [(numbers, truth.get(key, 0.0)) for answer in answers for key, numbers in answer]
    error = math.sqrt(sum((n[0] - t) ** 2 for n, t in numbers) / len(numbers))
    ranges = [(n[1], n[2], t) for n, t in numbers if len(n) > 1]
    covered = f"{sum(low <= t <= high for low, high, t in ranges) / len(ranges):.3f}" if ranges else "-"
    width = f"{sum(high - low for low, high, _ in ranges) / len(ranges) / size:.2%}" if ranges else "-"
    return LINE.format(question, name, f"{error / size:.2%}", covered, width)


def _size(truth: Mapping[object, float], question: str) -> float:
    largest = sorted(truth.values(), reverse=True)[: 10 if question == "TOP 10" else None]
    return sum(largest) / len(largest)


def peers(
    file: Path, pythons: Sequence[str], runs: int, truths: Mapping[str, Mapping[object, float]]
) -> Iterator[str]:
    """Ask each of the other systems, with both choices of bounds."""
    for rows, largest in HANDS:
        given = json.dumps({"epsilon": float(EPSILON), "rows": rows, "largest": largest})
        os.environ["DPSQL_PEERS"] = given  # the processes of the other systems inherit it
        for path in sorted(FOLDER.glob("with_*.py")):
            with ExitStack() as stack:
                for python in pythons:
                    worker = Worker(python, path.stem, file)
                    stack.callback(worker.close)
                    if not worker.missing:
                        break
                else:
                    yield f"({path.stem.removeprefix('with_')} is not installed)"
                    continue
                for question in WHOLE:
                    found = []
                    for _ in range(runs):
                        answer = worker.ask(question)
                        if isinstance(answer, str):
                            break
                        found.append([(key, tuple(numbers)) for key, *numbers in answer.rows])
                    name = f"{worker.name}, {rows} rows, to {largest}"
                    yield (
                        line(question, name, found, truths[question])
                        if found
                        else f"{question} {name}: {answer}"
                    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each question and system."""
    reader = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    reader.add_argument("--python", action="append", required=True, help="a Python that has other systems")
    reader.add_argument("--runs", type=int, default=20, help="of each question")
    given = reader.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        policy = made(VISITS, folder, None)
        assert policy is not None
        exact = Exact(VISITS, folder)
        truths: dict[str, dict[object, float]] = {}
        print(LINE.format("question", "system", "error", "covered", "width"))
        with asked(policy, ("whole", "whole.amount"), KEPT, given.runs) as many:
            for question in WHOLE:
                answer = exact.answer(question)
                truths[question] = answer if isinstance(answer, dict) else {0: answer}
                size = _size(truths[question], question)
                for kept in (True, False):
                    found = many.answered(exact.text(question), "n", answer, kept=kept)
                    print(
                        LINE.format(
                            question,
                            "dpsql, " + ("kept ladders" if kept else "searched bounds"),
                            f"{found.error / size:.2%}",
                            f"{found.covered.mean():.3f}",
                            f"{found.width / size:.2%}",
                        ),
                        flush=True,
                    )
        for each in peers(folder / "whole.parquet", given.python, given.runs, truths):
            print(each, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
