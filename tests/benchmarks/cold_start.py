"""How long `dpsql` takes to be of use, from a cold process: `python tests/benchmarks/cold_start.py`.

`--help` over the interpreter's bare start; the first answer of `-c` on the demo's data against importing what
any answer needs (duckdb, pyarrow, numpy; and sqlglot). All take turns: a busy machine slows all alike.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 11
DATA = Path(__file__).parents[2] / "data"
QUESTION = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) d.diagnosis, COUNT(DISTINCT v.patient_id) AS n "
    "FROM visits v JOIN diagnoses d ON d.code = v.diagnosis_code GROUP BY d.diagnosis TOP 5"
)


def seconds(*command):
    """Time of one process."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, check=False)
    took = time.perf_counter() - begin
    assert done.returncode == 0, done.stderr.decode()
    return took


def main():
    """Print medians in milliseconds, and the ratios that are promised."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for file in DATA.iterdir():
            if file.suffix in (".toml", ".parquet"):
                shutil.copyfile(file, folder / file.name)
        policy = str(folder / "clinic.toml")

        def first_answer():
            # A new ledger each time: a stored answer would be found, and the data need not be read again.
            for file in folder.glob("*.sqlite*"):
                file.unlink()
            return seconds("-m", "dpsql.cli", "-p", policy, "-c", QUESTION)

        works = {
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
        times = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, work in works.items():
                times[name].append(work())
    for name, found in times.items():
        print(f"{name:36} {1e3 * statistics.median(found):7.0f} ms  (least {1e3 * min(found):.0f})")

    def median(over, name, what):
        pairs = zip(times[name], times[over], strict=True)
        return statistics.median(what(a, b) for a, b in pairs)

    own = median("python, doing nothing", "dpsql --help", lambda a, b: a - b)
    print(f"--help over the bare interpreter: {1e3 * own:.0f} ms")
    for over in ("import duckdb, pyarrow, numpy", "the same and sqlglot"):
        ratio = median(over, "dpsql -c, the first private answer", lambda a, b: a / b)
        print(f"first private answer over '{over}': {ratio:.2f} times")


if __name__ == "__main__":
    main()
