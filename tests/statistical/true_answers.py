"""How true answers are by default: errors and coverage of five statements over all rows of five tables.

    python -m tests.statistical.true_answers [--data FOLDER] [--runs 200] [--whole 10] [--only SET ..]

The policies are those that `dpsql init` writes, epsilon is .25. Each statement is answered many times in two
states: with no ladder, so that it searches its own bound, and with kept ladders of epsilon .5, new ones in
each run. What is exact is counted once for each bound; searches and noise are the product's own. A few whole
runs by the public interface, with ledgers of their own, confirm it.

The table says, for each set, statement and state: by which factor the error (the root of its mean square,
over runs and groups) exceeds that of the best constant bound, which knows the data; how many of the numbers
lie in their ranges, and in those of the whole runs; the error and the width of a range relative to the
exact answer.

Of averages it also says the factor over the best bound whose own range covers: with a bound B, that is 1.96
standard deviations and s R/20 to each side, s being the share of the rows that B cuts and R the range of
the values, as intervals assume; the best one is that with the narrowest range. A unit that is cut keeps its
own average, so that the least error is at about one row for each unit. But data whose units have the same
averages and other numbers of rows look alike at that bound, and have other averages.

`FOLDER` holds the files of pairs of a unit and an item (gowalla10core, retail, msweb); a set without its
file is left out.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import dpsql
from tests.narrow import present
from tests.statistical.kept_answers import Answered, Asked, asked
from tests.statistical.kept_totals import Parts
from tests.statistical.whole_data import SETS, Whole, made, run_dpsql

KEPT = Fraction(1, 2)
"""The epsilon of each ladder: what `dpsql bounds` takes by default of a policy with 10."""
KINDS = ("COUNT", "SUM", "AVG", "TOP 10", "GROUP BY", "SUM BY")

Floats = NDArray[np.float64]


class Exact:
    """The exact answers of one table, and the least errors of constant bounds that know the data."""

    def __init__(self, whole: Whole, folder: Path) -> None:
        self.whole = whole
        self.connection = duckdb.connect()
        self.connection.execute(
            f"CREATE VIEW whole AS SELECT * FROM '{folder / 'whole.parquet'}' WHERE {whole.unit} IS NOT NULL"
        )

    def text(self, kind: str, *, options: str = "", bounds: str = "") -> str:
        """Write a statement; `bounds` are those of the call."""
        whole = self.whole
        of = {"SUM": f"SUM({whole.total}{bounds})", "AVG": f"AVG({whole.average}{bounds})"}.get(
            kind.partition(" ")[0], "COUNT(*)"
        )
        if kind in ("COUNT", "SUM", "AVG"):
            return f"SELECT {options}{of} AS n FROM whole"
        key = whole.largest if kind == "TOP 10" else whole.key
        by = f"SELECT {options}{key} AS k, {of} AS n FROM whole GROUP BY 1"
        return f"{by} ORDER BY n DESC LIMIT 10" if kind == "TOP 10" else by

    def answer(self, kind: str) -> dict[object, float] | float:
        """Return what plain SQL says, by group or as one number."""
        sql = self.text(kind).partition(" ORDER BY")[0]
        rows = self.connection.execute(sql).fetchall()
        return {k: float(n) for k, n in rows} if len(rows[0]) > 1 else float(rows[0][0])

    @cached_property
    def units(self) -> tuple[Floats, Floats, Floats]:
        """The rows, the total and the sum of the averaged column, of each unit."""
        sql = f"SELECT COUNT(*) AS n, SUM({self.whole.total}) AS t, SUM({self.whole.average}) AS a FROM whole"
        found = self.connection.execute(f"{sql} GROUP BY {self.whole.unit}").fetchnumpy()
        n, t, a = (np.asarray(found[name], dtype=np.float64) for name in "nta")
        return n, t, a

    def parts(self, key: str, what: str) -> Parts:
        """Return what each unit has in each group."""
        sql = (
            "SELECT dense_rank() OVER (ORDER BY u) - 1 AS u, dense_rank() OVER (ORDER BY k) - 1 AS k, n "
            f"FROM (SELECT {self.whole.unit} AS u, {key} AS k, {what} AS n FROM whole GROUP BY 1, 2)"
        )
        found = self.connection.execute(sql).fetchnumpy()
        return Parts(*(np.asarray(found[name]).astype(np.int64) for name in "ukn"))

    def best(self, kind: str, spread: Callable[[str], float]) -> float:
        """Return the least error over all constant bounds.

        `spread` tells the standard deviation of the noise of a statement. What a bound cuts is known here.
        """
        bias, noise = self._costs(kind, spread)
        bounds = self._bounds(1 if kind.startswith("SUM") else 0)
        return min(math.sqrt(noise(bound) ** 2 + bias(bound)) for bound in bounds)

    def best_covering(self, spread: Callable[[str], float]) -> float:
        """Return the error of an average with the bound of the narrowest interval that has what it cuts."""
        bias, noise = self._costs("AVG", spread)
        rows, (low, high) = self.units[0], self._ends

        def width(bound: float) -> float:
            cut = float(np.maximum(rows - bound, 0).sum() / rows.sum())
            return 1.96 * noise(bound) + cut * (high - low) / 20

        best = min(self._bounds(0), key=width)
        return math.sqrt(noise(best) ** 2 + bias(best))

    def _bounds(self, of: int) -> list[float]:
        last = 4 * math.log2(self.units[of].max()) + 1
        found: list[float] = np.unique(np.ceil(2 ** (np.arange(last + 1) / 4))).tolist()
        return found

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The least and the largest value of the averaged column."""
        sql = f"SELECT MIN({self.whole.average}), MAX({self.whole.average}) FROM whole"
        low, high = self.connection.execute(sql).fetchall()[0]
        return float(low), float(high)

    def _costs(
        self, kind: str, spread: Callable[[str], float]
    ) -> tuple[Callable[[float], float], Callable[[float], float]]:
        """Return the mean square of what a bound cuts, and the noise of it, as functions of the bound."""
        rows, totals, averaged = self.units
        if kind == "AVG":
            call = f", contribution_bounds_per_row => {self._ends}"

            def moved(bound: float) -> float:
                weight = np.minimum(1, bound / rows)
                return float(((weight * averaged).sum() / (weight * rows).sum() - _mean(averaged, rows)) ** 2)

            return moved, lambda bound: spread(self.text(kind, options=_with(bound), bounds=call))
        of_one = self._of_one(kind.removesuffix(" BY"), spread)
        if kind in ("COUNT", "SUM"):
            sizes = rows if kind == "COUNT" else totals
            return lambda bound: float(np.maximum(sizes - bound, 0).sum() ** 2), lambda bound: bound * of_one
        by_total = kind == "SUM BY"
        parts = self.parts(
            self.whole.largest if kind == "TOP 10" else self.whole.key,
            f"SUM({self.whole.total})" if by_total else "COUNT(*)",
        )
        exact = parts.clipped(math.inf)
        chosen = np.argsort(-exact)[:10] if kind == "TOP 10" else slice(None)

        def cut(bound: float) -> float:
            return float(np.square(parts.clipped(bound) - exact)[chosen].mean())

        if by_total:
            return cut, lambda bound: bound * of_one
        return cut, lambda bound: spread(self.text(kind, options=_with(bound)))

    def _of_one(self, kind: str, spread: Callable[[str], float]) -> float:
        """Return the noise of a number that a unit moves by 1: of one, or of groups that have it together."""
        if kind == "SUM":
            return spread(self.text(kind, bounds=_PER_GROUP)) / 64
        return spread(self.text("COUNT", options=_with(64))) / 64


_PER_GROUP = ", contribution_bounds_per_group => (0, 64)"


def _with(bound: float) -> str:
    return f"WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = {round(bound)}) "


def _mean(totals: Floats, rows: Floats) -> float:
    return float(totals.sum() / rows.sum())


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    kind: str
    state: str
    ratio: float
    covered: float
    by_noise: float
    error: float
    width: float
    whole: str
    covering: float | None = None

    def line(self) -> str:
        """Write it."""
        covering = "" if self.covering is None else f"{self.covering:.2f}"
        return (
            f"{self.name:<9}{self.kind:<10}{self.state:<9}{self.ratio:7.2f}{covering:>8}{self.covered:9.3f}"
            f"{self.by_noise:8.3f}{self.error:9.2%}{self.width:9.2%}  {self.whole}"
        )


HEAD = (
    f"{'set':<9}{'statement':<10}{'ladders':<9}{'x best':>7}{'x cov.':>8}{'covered':>9}{'noise':>8}"
    f"{'error':>9}{'width':>9}  whole runs: covered"
)


def measured(
    whole: Whole, folder: Path, policy: Path, kinds: Sequence[str], runs: int, repeats: int
) -> Iterator[Row]:
    """Answer all statements over one table in both states."""
    exact = Exact(whole, folder)
    measures = ("whole", f"whole.{whole.total}")
    confirmed = list(_whole_runs(exact, policy, measures, kinds, repeats)) if repeats else []
    with asked(policy, measures, KEPT, runs) as many:
        for kind in kinds:
            truth = exact.answer(kind)
            best = exact.best(kind, lambda text: _spread(many, text))
            covering = exact.best_covering(lambda text: _spread(many, text)) if kind == "AVG" else None
            sizes = np.array(list(truth.values()) if isinstance(truth, dict) else [truth])
            if kind == "TOP 10":
                sizes = np.sort(sizes)[-10:]
            for kept in (False, True):
                found = many.answered(exact.text(kind), "n", truth, kept=kept)
                row = _row(whole.name, kind, found, best, float(sizes.mean()), confirmed, kept=kept)
                yield replace(row, covering=covering and found.error / covering)


def _row(
    name: str,
    kind: str,
    found: Answered,
    best: float,
    size: float,
    confirmed: Sequence[tuple[str, bool, int, int]],
    *,
    kept: bool,
) -> Row:
    lying = [(inside, all_) for k, of, inside, all_ in confirmed if (k, of) == (kind, kept)]
    words = f"{sum(i for i, _ in lying)} of {sum(a for _, a in lying)}" if lying else ""
    state = "kept" if kept else "none"
    return Row(
        name,
        kind,
        state,
        found.error / best,
        float(found.covered.mean()),
        float(found.by_noise.mean()),
        found.error / size,
        found.width / size,
        words,
    )


def _spread(many: Asked, text: str) -> float:
    _, table, _ = many.once(text)
    return float(np.sqrt(np.square(np.array(table.column("n_stddev").to_pylist(), dtype=float)).mean()))


def _whole_runs(
    exact: Exact, policy: Path, measures: Sequence[str], kinds: Sequence[str], repeats: int
) -> Iterator[tuple[str, bool, int, int]]:
    """Ask by the public interface, each run with a new ledger; before `dpsql bounds`, and after it."""
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as other:
            folder = Path(other) / "whole"
            shutil.copytree(policy.parent, folder, ignore=shutil.ignore_patterns("*.sqlite*"))
            for kept in (False, True):
                if kept:
                    named = [*measures, "--epsilon", str(float(KEPT)), "--yes"]
                    run_dpsql("-p", str(folder / policy.name), "bounds", *named)
                with closing(dpsql.connect(str(folder / policy.name), analyst="alice")) as connection:
                    for kind in kinds:
                        inside, numbers = _asked_once(connection, exact, kind)
                        yield kind, kept, inside, numbers


def _asked_once(connection: dpsql.Connection, exact: Exact, kind: str) -> tuple[int, int]:
    # A stored answer of before `dpsql bounds` may still be free after it.
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE) "
    cursor = connection.execute(exact.text(kind, options=options))
    truth, table = exact.answer(kind), present(cursor.release).table
    keys = table.column(0).to_pylist()
    true = [truth.get(k, 0.0) for k in keys] if isinstance(truth, dict) else [truth]
    ends = zip(table.column("n_low").to_pylist(), table.column("n_high").to_pylist(), strict=True)
    return sum(low <= t <= high for (low, high), t in zip(ends, true, strict=True)), len(true)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for, and print one line as soon as it is known."""
    reader = argparse.ArgumentParser(
        prog="python -m tests.statistical.true_answers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reader.add_argument("--data", type=Path, metavar="FOLDER", help="where the files of pairs are")
    reader.add_argument("--runs", type=int, default=200, help="of each statement in each state")
    reader.add_argument("--whole", type=int, default=10, help="whole runs by the public interface")
    reader.add_argument("--only", nargs="+", choices=[each.name for each in SETS], help="these sets alone")
    reader.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="these statements alone")
    reader.add_argument("--bounded", action="store_true", help="the owner declares bounds of values")
    given = reader.parse_args(arguments)
    begin, worst = time.monotonic(), 1.0
    print(HEAD)
    for whole in SETS:
        if given.only and whole.name not in given.only:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            policy = made(whole, Path(temporary), given.data, bounded=given.bounded)
            if policy is None:
                print(f"{whole.name:<9}its file is not in the folder of --data")
                continue
            for row in measured(whole, Path(temporary), policy, given.kinds, given.runs, given.whole):
                worst = min(worst, row.covered)
                print(row.line(), flush=True)
    print(f"least coverage {worst:.3f}; {time.monotonic() - begin:.0f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
