"""The numbers that README.md and `dpsql demo` show, each beside its exact answer: is it in what is shown?

    python -m tests.e2e.shown_numbers

Statements are asked by the command line, as they stand there, of copies of the shipped data; the demo's once
before `dpsql bounds` and once after it, as it goes. The exact answer is that of the same SQL, without what is
dpsql's own, run by DuckDB on the rows that have a patient.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from dpsql.cli.demo import TOUR

ROOT = Path(__file__).parents[2]
PRIVATE = ("patients", "visits")
OWN_PROCESS = (sys.executable, "-m", "dpsql.cli")
LINE = "{:<8}{:<32}{:<14}{:>12}{:>26}{:>14}  {}"

_OWN = (
    (r"WITH\s+DIFFERENTIAL_PRIVACY\s+OPTIONS\s*\([^)]*\)", ""),
    (r",\s*contribution_bounds\w*\s*=>\s*(\([^)]*\)|AUTO)", ""),
    (r",\s*DP_GAP\(\)\s+AS\s+\w+", ""),
    (r"\s(TOP\s+\d+|ABOVE\s+THRESHOLD\s+\d+|ARGMAX\s+BY\s+.*|LIMIT\s+\d+)\s*$", ""),
    (r"\bTOP\s+\d+\s*$", ""),
)
"""What is dpsql's own in these statements, and what selects among groups."""


@dataclass(frozen=True)
class Number:
    """One number as it is shown; there is no range where none is."""

    place: str
    key: str
    name: str
    value: float
    low: float | None
    high: float | None
    exact: float

    @property
    def covered(self) -> bool | None:
        """Whether the exact answer lies in what is shown; None without a range."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.exact <= self.high

    def line(self) -> str:
        """Write it as one line of the table."""
        covered = {None: "no range", True: "yes", False: "NO"}[self.covered]
        shown = "" if self.low is None else f"{self.low:,.8g} to {self.high:,.8g}"
        values = f"{self.value:,.8g}", shown, f"{self.exact:,.8g}"
        return LINE.format(self.place, self.key[:31], self.name[:13], *values, covered)


def raw(statement: str) -> str:
    """Return the SQL that DuckDB runs on the raw rows.

    >>> raw("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) a, SUM(b, contribution_bounds => AUTO) "
    ...     "AS n FROM t GROUP BY a TOP 3")
    'SELECT a, SUM(b) AS n FROM t GROUP BY a'
    """
    text = " ".join(statement.split())
    for pattern, instead in _OWN:
        text = re.sub(pattern, instead, text)
    return " ".join(text.split())


def of_readme(text: str) -> list[str]:
    """Return the statements over private tables in the commands and programs of a page."""
    found = []
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        if language == "bash":
            found += [s for s in re.findall(r'-c "\s*(.*?)"', block, re.S) if s.startswith("SELECT")]
        if language == "python":
            texts = [n.value for n in ast.walk(ast.parse(block)) if isinstance(n, ast.Constant)]
            found += [s.replace("?", "0.5") for s in texts if isinstance(s, str) and s.startswith("SELECT")]
    return found


def of_demo() -> tuple[list[str], tuple[str, ...], list[str]]:
    """Return the statements before the bounds are found, what is found, and the statements after it."""
    place = next(i for i, stop in enumerate(TOUR) if stop.bounds)
    asked = [
        [s.statement for s in part if _counts(s.statement)] for part in (TOUR[:place], TOUR[place + 1 :])
    ]
    return asked[0], TOUR[place].bounds, asked[1]


def _counts(statement: str) -> bool:
    return (
        statement.startswith("SELECT") and "ARGMAX" not in statement and "patient_id, note" not in statement
    )


@dataclass(frozen=True)
class Clinic:
    """A copy of the shipped data, and the command that is asked of it."""

    folder: Path
    command: Sequence[str]

    @staticmethod
    def copied(folder: Path, command: Sequence[str]) -> Clinic:
        """Copy the data, without any ledger."""
        shutil.copytree(ROOT / "data", folder, ignore=shutil.ignore_patterns("*.sqlite*"))
        return Clinic(folder, command)

    def run(self, *arguments: str) -> str:
        """Run a command on the data; return what it prints."""
        command = [*self.command, "-p", str(self.folder / "clinic.toml"), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", cwd=ROOT)
        return done.stdout

    def answered(self, statements: Sequence[str]) -> list[list[dict[str, Any]]]:
        """Return the rows of the answers, as they are shown, with the ends of their ranges."""
        if not statements:
            return []
        asked = self.folder / "asked.sql"
        asked.write_text(";\n".join(statements), "utf-8")
        found = json.loads(self.run("-f", str(asked), "--format", "json", "--intervals"))
        return [found] if len(statements) == 1 else [answer["rows"] for answer in found]


def numbers(
    place: str, statements: Sequence[str], answers: Sequence[Sequence[Mapping[str, Any]]]
) -> Iterator[Number]:
    """Yield the numbers of answers with their exact answers."""
    with duckdb.connect() as own:
        for name in (*PRIVATE, "diagnoses"):
            where = " WHERE patient_id IS NOT NULL" if name in PRIVATE else ""
            own.execute(f"CREATE VIEW {name} AS SELECT * FROM '{ROOT}/data/{name}.parquet'{where}")
        for statement, rows in zip(statements, answers, strict=True):
            found = own.execute(raw(statement))
            columns = [c[0] for c in found.description or ()]
            exact = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
            for row in rows:
                measures = [c for c in columns if isinstance(row.get(c), (int, float))]
                key = {c: row[c] for c in columns if c not in measures}
                true = next((e for e in exact if all(str(e[c]) == str(key[c]) for c in key)), {})
                for name in measures:
                    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
                    said = "; ".join(map(str, key.values()))
                    yield Number(place, said, name, row[name], low, high, float(true.get(name, 0) or 0))


def printed(page: str) -> Iterator[Number]:
    """Yield the numbers in the tables that a page shows, below the statements that they answer."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.M | re.S)
    for (language, command), (other, table) in pairwise(blocks):
        asked = re.search(r'-c "\s*(SELECT.*?)"', command, re.S) if language == "bash" else None
        if asked is None or other or "│" not in table:
            continue
        lines = [[c.strip() for c in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
        for cells in lines[1:]:
            row: dict[str, Any] = {lines[0][0]: cells[0]}
            for name, cell in zip(lines[0][1:], cells[1:], strict=True):
                if re.match(r"[\d,.]+ +(±|\()", cell):
                    row |= _range(name, cell)
            yield from numbers("printed", [asked[1]], [[row]])


def _range(name: str, cell: str) -> dict[str, float]:
    """Read `1,545,000 ± 30,000` or `399,800 (398,500 to 403,100)`."""
    value, *ends = (float(n.replace(",", "")) for n in re.findall(r"-?[\d,]+(?:\.\d+)?", cell))
    low, high = ends if len(ends) > 1 else (value - ends[0], value + ends[0])
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def shown(folder: Path, command: Sequence[str] = OWN_PROCESS) -> list[Number]:
    """Ask everything by a command that stands for `dpsql`, of two copies of the data below a folder."""
    page = (ROOT / "README.md").read_text("utf-8")
    before, measures, after = of_demo()
    readme, demo = (Clinic.copied(folder / name, command) for name in ("readme", "demo"))
    statements = of_readme(page)
    named = re.search(r"bounds ((?:\w+[.\w]* )+)--yes", page)
    if named:
        readme.run("bounds", *named[1].split(), "--yes")
    found = [*printed(page), *numbers("README", statements, readme.answered(statements))]
    found += numbers("demo", before, demo.answered(before))
    demo.run("bounds", *measures, "--yes")
    return [*found, *numbers("demo", after, demo.answered(after))]


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = shown(Path(folder))
    print(LINE.format("place", "group", "number", "shown", "range", "exact", "covered"))
    for number in found:
        print(number.line())
    ranged = [number for number in found if number.covered is not None]
    print(f"{sum(bool(n.covered) for n in ranged)} of {len(ranged)} numbers with a range are covered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
