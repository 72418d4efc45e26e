"""Sums, averages and deviations beside SmartNoise SQL: the same statements, rows, bounds and epsilon."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from dpsql.analysis import CompiledQuery
from dpsql.kernel.counts import Counts
from dpsql.policy import load
from dpsql.session import Session
from reproduce.order_lines import OrderLines, order_lines
from reproduce.page import Claim, Figure, Section, Table

__all__ = ["ASKED", "Asked", "Cell", "Runs", "beside_smartnoise", "claims"]

SUM, AVG, STDDEV, COUNT, MEDIAN = "SUM", "AVG", "STDDEV", "COUNT", "MEDIAN"
EPSILON = Fraction(1)
BOUNDS = {
    "l_quantity": ("1", "50", 1),
    "l_extendedprice": ("0", "105000", 1000),
    "l_discount": ("0", "0.1", 1),
    "l_tax": ("0", "0.08", 1),
}
"""Of each column the least and the largest value that counts, and what SmartNoise gets it divided by.

It refuses noise of a scale above 10 million, and advises to make the values smaller.
"""
SCALE_1 = 6_000_000
"""Rows of TPC-H's lineitem at scale factor 1, rounded down."""
LARGE = 1_000_000
"""Rows of a group that has a goal there: one of the four has only 38,854, to which the noise is not small."""
KEYS = {"l_returnflag": ("A", "N", "R"), "l_linestatus": ("F", "O")}
PRICE = "l_extendedprice"
DISCOUNTED = f"{PRICE} * (1 - l_discount)"
REVENUE = f"{PRICE} * l_discount"
YEAR = (
    "l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 "
    "AND l_quantity < 24"
)
AUTO = ", contribution_bounds => AUTO"


@dataclass(frozen=True, slots=True)
class Asked:
    """A statement: its aggregates, each of an expression (or of rows, `*`), over all lines or by the keys."""

    name: str
    measures: tuple[tuple[str, str], ...]
    keyed: bool = False
    where: str = ""
    bound: str = ""
    """What stands behind the expression here alone."""
    within: float | None = None
    """The goal for the relative error, in per cent, on TPC-H at scale factor 1 and beyond."""

    def sql(self, table: str = "lineitem", options: str = "", bound: str = "") -> str:
        """Write it; the aggregates are named m0, m1, .."""
        keys = ", ".join(KEYS) if self.keyed else ""
        aggregates = [f"{kind}({of}{bound}) AS m{i}" for i, (kind, of) in enumerate(self.measures)]
        listed = ", ".join(([keys] if keys else []) + aggregates)
        where = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {options}{listed} FROM {table}{where}" + (f" GROUP BY {keys}" if keys else "")


ASKED = (
    Asked(
        "six aggregates by return flag and line status",
        (
            (SUM, "l_quantity"),
            (SUM, PRICE),
            (AVG, "l_quantity"),
            (AVG, PRICE),
            (AVG, "l_discount"),
            (COUNT, "*"),
        ),
        keyed=True,
    ),
    Asked("one sum", ((SUM, PRICE),)),
    Asked("one average", ((AVG, PRICE),)),
    Asked("one standard deviation", ((STDDEV, PRICE),)),
)
"""What both systems answer."""
OTHERS = (
    Asked("Q1's products", ((SUM, DISCOUNTED), (SUM, f"{DISCOUNTED} * (1 + l_tax)")), keyed=True),
    Asked("Q6", ((SUM, REVENUE),), where=YEAR, within=1.0),
    Asked("Q6, its bound found privately", ((SUM, REVENUE),), where=YEAR, bound=AUTO, within=0.2),
    Asked("one sum, its bound found privately", ((SUM, PRICE),), bound=AUTO, within=0.1),
    Asked("one median", ((MEDIAN, PRICE),), within=0.2),
)
"""What SmartNoise refuses, or has no word for."""

Group = tuple[str, ...]
Answer = tuple[float | None, float | None, float | None]
"""A released number and the ends of its interval."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One aggregate of one group: medians over the runs of the relative errors, in millionths."""

    statement: str
    group: str
    rows: int
    """Rows of the group that WHERE leaves."""
    aggregate: str
    here: float
    covered: float
    """Runs whose 95% interval holds the exact value, in per cent."""
    smartnoise: float | None
    """None where it was not run, or refuses the statement."""

    @property
    def ratio(self) -> float | None:
        """Error here over SmartNoise's."""
        return None if self.smartnoise is None else self.here / self.smartnoise


@dataclass(frozen=True, slots=True)
class Runs:
    """How often each system draws the noise of a statement; the exact numbers are counted once in both."""

    here: int
    smartnoise: int

    def chance(self, cells: int = 1) -> float:
        """Return the factor by which a ratio of two median errors may be off, at 3.5 standard errors.

        A median of n absolute values of Laplace noise has a relative standard error of 1/(ln 2 sqrt n).
        """
        each = (1 / self.here + 1 / self.smartnoise) / cells
        return math.exp(3.5 * math.sqrt(each) / math.log(2))


def beside_smartnoise(
    data: Path | None,
    runs: Runs,
    seed: int,
    smartnoise: str,
    tick: Callable[[], None],
    *,
    customers: int = 8000,
) -> Section:
    """Ask both systems every statement so many times, and compare their errors."""
    with tempfile.TemporaryDirectory(prefix="dpsql-sums-") as made:
        folder = Path(made)
        lines = order_lines(data, folder / "lineitem.parquet", seed, customers)
        # Nobody has more lines, so that neither system leaves any out.
        bound = -(-lines.most // 10) * 10
        peer, said = _smartnoise(lines, bound, runs.smartnoise, smartnoise, folder)
        tick()
        cells: list[Cell] = []
        session = _session(lines, bound, folder)
        for asked in ASKED + OTHERS:
            cells += _compared(asked, lines, session, runs, peer.get(asked.name, {}))
            tick()
        session.close()
    refused = [f"It refuses {name!r}: {a['refused']}" for name, a in peer.items() if "refused" in a]
    return Section(
        "Sums and averages beside SmartNoise SQL",
        "dpsql's own: the aggregates of one column are computed from one noisy vector, at the price of one. "
        "SmartNoise SQL pays for each sum and each count.",
        f"{lines.rows:,} order lines of {lines.customers:,} customers ({lines.role}). The customer is the "
        f"privacy unit, with at most {bound} lines; both systems cut values to the same bounds, and a "
        f"statement costs epsilon {float(EPSILON):g}, however many aggregates it has. Medians of {runs.here} "
        f"runs; the noise of this section is not seeded. {said}",
        [Figure("Errors of the same statements (table below)", claims(cells, runs, lines.rows))],
        [
            Table(
                "sums_and_averages",
                (
                    "statement",
                    "group",
                    "rows",
                    "aggregate",
                    "error",
                    "covered %",
                    "SmartNoise's error",
                    "ratio",
                ),
                [(*astuple(cell), cell.ratio) for cell in cells],
                shown=True,
                title="Relative errors in millionths (10,000 are 1%), medians of the runs",
                note=" ".join(refused),
            )
        ],
    )


def claims(cells: Sequence[Cell], runs: Runs, rows: int = 0) -> list[Claim]:
    """Say what the table shows: of intervals always, of SmartNoise's errors where it was run.

    On `rows` of TPC-H's smallest scale factor and beyond, errors are held to the goals for it, too.
    """
    names = {asked.name for asked in ASKED}
    groups = len({(cell.statement, cell.group) for cell in cells if cell.statement in names})
    covered = statistics.fmean(cell.covered for cell in cells if cell.statement in names)
    found = [
        Claim(
            f"The 95% intervals hold the exact value in {covered:.1f}% of the runs.",
            # Aggregates of one group share noise, so as if each run of a group had one interval.
            covered >= 95 - 400 * math.sqrt(0.95 * 0.05 / (runs.here * groups)),
        )
    ]
    many, one_sum, one_average, deviation = (
        {c: c.ratio for c in cells if c.statement == asked.name and c.ratio is not None} for asked in ASKED
    )
    if many:
        means = {name: [r for c, r in many.items() if c.aggregate == name] for name in _names(many)}
        middle = [statistics.geometric_mean(r) for name, r in means.items() if not name.startswith(COUNT)]
        low, high, worst = min(middle), max(middle), max(many.values())
        allowed = runs.chance(min(map(len, means.values())))
        found.append(
            Claim(
                f"Sums and averages that share epsilon have {low:.2f} to {high:.2f} of SmartNoise's errors "
                "(geometric means over the groups; the goal is .6). No error is above "
                f"SmartNoise's, that of counts included, up to chance: the largest ratio is {worst:.2f}.",
                high <= 0.6 * allowed and worst <= runs.chance(),
            )
        )
    for ratios, what, goal in (
        (one_average, "An average alone", 0.6),
        (deviation, "A standard deviation alone", 0.25),
    ):
        for ratio in ratios.values():
            words = f"{what} has {ratio:.2f} of SmartNoise's error; the goal is {goal:g}."
            found.append(Claim(words, ratio <= goal * runs.chance()))
    for ratio in one_sum.values():
        words = f"A sum alone has the same noise in both: its errors have a ratio of {ratio:.2f}."
        found.append(Claim(words, 1 / runs.chance() <= ratio <= runs.chance()))
    return found + (_at_scale_1(cells) if rows >= SCALE_1 else [])


def _at_scale_1(cells: Sequence[Cell]) -> list[Claim]:
    """Hold errors to the goals for TPC-H's smallest scale factor."""
    large = [c.here / 1e4 for c in cells if c.statement == ASKED[0].name and c.rows >= LARGE]
    words = (
        f"In groups of {LARGE:,} rows and more each of the six aggregates errs by at most {max(large):.3f}%"
    )
    found = [Claim(f"{words}; the goal is 0.2%.", max(large) <= 0.2)]
    goals = {asked.name: asked.within for asked in OTHERS if asked.within}
    for cell in cells:
        if goal := goals.get(cell.statement):
            words = f"{cell.statement}: an error of {cell.here / 1e4:.3f}%; the goal is {goal:g}%."
            found.append(Claim(words, cell.here <= 1e4 * goal))
    return found


def _names(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.aggregate for cell in cells))


def _session(lines: OrderLines, bound: int, folder: Path) -> Session:
    """Open a session over the lines that counts a statement's exact numbers once, as SmartNoise does here."""
    domains = "\n".join(f"{key} = {json.dumps(values)}" for key, values in KEYS.items())
    bounds = "\n".join(f"{c} = {{ from = {low}, to = {high} }}" for c, (low, high, _) in BOUNDS.items())
    (folder / "dpsql.toml").write_text(
        f"""
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.lineitem]
source = "{lines.path.name}"
unit = "l_custkey"
trust_source = true
rows_per_unit = {bound}
[tables.lineitem.domain]
{domains}
[tables.lineitem.bounds]
{bounds}
"""
    )
    session = Session(load(folder / "dpsql.toml"))
    engine = session.database.engines().engine
    count, counted = engine.count, dict[str, Counts]()

    def once(compiled: CompiledQuery) -> Counts:
        if compiled.sql not in counted:
            counted[compiled.sql] = count(compiled)
        return counted[compiled.sql]

    engine.count = once  # type: ignore[method-assign]  # all the rest of a run is as ever
    return session


def _compared(
    asked: Asked, lines: OrderLines, session: Session, runs: Runs, answer: Mapping[str, Any]
) -> list[Cell]:
    """Run a statement here, and compare each of its cells with the exact value and with SmartNoise's."""
    with duckdb.connect() as connection:
        counted = replace(asked, measures=(*asked.measures, (COUNT, "*")))
        exact = _by_group(asked, sorted(connection.sql(counted.sql(f"'{lines.path}'")).fetchall()))
    private = asked.sql(
        options=f"WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {EPSILON}, fresh = TRUE) ", bound=asked.bound
    )
    here = [_answered(asked, session, private) for _ in range(runs.here)]
    theirs = [_by_group(asked, rows) for rows in answer.get("rows", ())]
    cells = []
    for group, values in exact.items():
        for i, (kind, column) in enumerate(asked.measures):
            factor = BOUNDS[column][2] if column in BOUNDS else 1
            # A group that has no average in a run has no row.
            drawn = [run[group][i] if group in run else (None, None, None) for run in here]
            cells.append(
                Cell(
                    asked.name,
                    " ".join(group) or "all",
                    int(values[-1]),
                    f"{kind}({column})",
                    _error([value for value, _, _ in drawn], values[i]),
                    100 * statistics.fmean(_holds(one, values[i]) for one in drawn),
                    _error([run[group][i] for run in theirs], values[i] / factor) if theirs else None,
                )
            )
    return cells


def _answered(asked: Asked, session: Session, sql: str) -> dict[Group, list[Answer]]:
    """Run it once; return each group's numbers with their intervals."""
    release = session.run(sql).release
    assert release is not None
    keys = len(KEYS) if asked.keyed else 0
    found: dict[Group, list[Answer]] = {}
    for row in release.table.to_pylist():
        group = tuple(list(row.values())[:keys])
        names = [f"m{i}" for i in range(len(asked.measures))]
        found[group] = [(row[m], row.get(f"{m}_low"), row.get(f"{m}_high")) for m in names]
    return found


def _by_group(asked: Asked, rows: Iterable[Sequence[Any]]) -> dict[Group, list[Any]]:
    keys = len(KEYS) if asked.keyed else 0
    return {tuple(row[:keys]): [v if v is None else float(v) for v in row[keys:]] for row in rows}


def _error(drawn: Sequence[float | None], exact: float) -> float:
    """Return the median relative error in millionths; where there is no value, the error is infinite."""
    return 1e6 * statistics.median(math.inf if x is None else abs(x / exact - 1) for x in drawn)


def _holds(answer: Answer, exact: float) -> bool:
    _, low, high = answer
    return (low is None or low <= exact) and (high is None or exact <= high)


def _smartnoise(
    lines: OrderLines, bound: int, runs: int, python: str, folder: Path
) -> tuple[dict[str, Any], str]:
    """Let SmartNoise answer the same statements; return its answers, and in words what was run."""
    request, answer = folder / "request.json", folder / "answer.json"
    asked = {
        "rows": str(lines.path),
        "table": "lineitem",
        "unit": "l_custkey",
        "keys": list(KEYS),
        "rows_per_unit": bound,
        "epsilon": float(EPSILON),
        "runs": runs,
        "bounds": {
            c: {"low": float(low), "high": float(high), "divided_by": by}
            for c, (low, high, by) in BOUNDS.items()
        },
        "dates": ["l_shipdate"],
        "statements": {a.name: a.sql("main.lineitem") for a in ASKED + OTHERS if not a.bound},
    }
    request.write_text(json.dumps(asked))
    program = Path(__file__).with_name("smartnoise.py")
    done = subprocess.run(
        [python, str(program), str(request), str(answer)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {}, f"SmartNoise SQL was not run: {python} failed: {done.stderr.strip()[-300:]}"
    found = json.loads(answer.read_text())
    if "missing" in found:
        return {}, (
            f"SmartNoise SQL was not run: {found['missing']}. --smartnoise names a Python that has "
            "smartnoise-sql and duckdb."
        )
    return found["answers"], (
        f"SmartNoise SQL {found['version']} drew {runs} times on the same rows. It gets prices in thousands, "
        "as it refuses noise of a scale above 10 million. For each number that it measures it gets the "
        "statement's epsilon divided by how many those are, since it counts the price of a statement so."
    )
