"""How long `dpsql` takes to be of use, from a cold process: `python tests/benchmarks/cold_start.py`.

`--help` over the interpreter's bare start; the first answer of `-c` on the demo's data against importing what
any answer needs (duckdb, pyarrow, numpy; and sqlglot). All take turns: a busy machine slows all alike.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 11
DATA = Path(__file__).parents[2] / "data"
QUESTION = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) d.diagnosis, COUNT(DISTINCT v.patient_id) AS n "
    "FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code GROUP BY d.diagnosis TOP 5"
)


def seconds(*command: str) -> tuple[float, float]:
    """Time of one process: on the clock, and of the processor (which a busy machine changes less)."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *command], capture_output=True, check=False)
    took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr.decode()
    return took, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Print medians in milliseconds, and the ratios that are promised."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for file in DATA.iterdir():
            if file.suffix in (".toml", ".parquet"):
                shutil.copyfile(file, folder / file.name)
        policy = str(folder / "clinic.toml")

        def first_answer() -> tuple[float, float]:
            # A new ledger each time: a stored answer would be found, and the data need not be read again.
            for file in folder.glob("*.sqlite*"):
                file.unlink()
            return seconds("-m", "dpsql.cli", "-p", policy, "-c", QUESTION)

        works: dict[str, Callable[[], tuple[float, float]]] = {
            "python, doing nothing": lambda: seconds("-c", "pass"),
            "import click": lambda: seconds("-c", "import click"),
            "dpsql --help": lambda: seconds("-m", "dpsql.cli", "--help"),
            "import duckdb, pyarrow, numpy": lambda: seconds("-c", "import duckdb, pyarrow, numpy"),
            "the same and sqlglot": lambda: seconds("-c", "import duckdb, pyarrow, numpy, sqlglot"),
            "dpsql -c, a public SELECT 1": lambda: seconds("-m", "dpsql.cli", "-p", policy, "-c", "SELECT 1"),
            "dpsql -c, the first private answer": first_answer,
            "dpsql -c, the same answer again": lambda: seconds(
                "-m", "dpsql.cli", "-p", policy, "-c", QUESTION
            ),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, work in works.items():
                times[name].append(work())
    print(f"{'milliseconds, median':36} {'clock':>7} {'least':>7} {'processor':>10}")
    for name, found in times.items():
        clock, processor = zip(*found, strict=True)
        middle = [1e3 * f for f in (statistics.median(clock), min(clock), statistics.median(processor))]
        print(f"{name:36} {middle[0]:7.0f} {middle[1]:7.0f} {middle[2]:10.0f}")

    def median(name: str, over: str, what: Callable[[float, float], float]) -> list[float]:
        pairs = list(zip(times[name], times[over], strict=True))
        return [statistics.median(what(a[i], b[i]) for a, b in pairs) for i in (0, 1)]

    own = median("dpsql --help", "python, doing nothing", lambda a, b: 1e3 * (a - b))
    print(f"--help over the bare interpreter: {own[0]:.0f} ms on the clock, {own[1]:.0f} by processor")
    for over in ("import duckdb, pyarrow, numpy", "the same and sqlglot"):
        ratio = median("dpsql -c, the first private answer", over, lambda a, b: a / b)
        print(f"first private answer over '{over}': {ratio[0]:.2f} on the clock, {ratio[1]:.2f} by processor")


if __name__ == "__main__":
    main()
