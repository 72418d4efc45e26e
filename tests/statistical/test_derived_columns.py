"""Intervals of columns that are computed from released numbers cover what they would be of exact numbers.

Each expression is answered many times by the product's own functions, over numbers with Laplace, box and
Gaussian noise; the exact counts are computed once. The quick form draws few answers and finds gross faults;
the slow one draws 1,000, and is the measurement: sums cover at .94 to .96, ratios at .94 or more, smooth
functions at .93 or more where the numbers are three standard deviations or more.

A bound holds within three standard errors of the runs, since the rows of one answer share noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.composition.composed_statements import run_composed
from dpsql.composition.prepared import PreparedComposed
from dpsql.composition.release_words import words_of_release
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss import Charge
from dpsql.planning import build_details, build_rows, noises_of
from dpsql.policy import load
from dpsql.release import Release, places_of
from dpsql.session import Session
from tests.daily import daily
from tests.narrow import engine_of, of_type
from tests.statistical.outer_queries import over
from tests.support.exact import answer_of

SIZES = (150, 200, 260, 320, 380, 450, 520, 600, 700, 800, 1000, 1200)
POLICY = """
[budget]
epsilon = 1e6
delta = 1e-3
accounting = "{accounting}"
ledger = "ledger-{accounting}.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
rows_per_unit = 1
[tables.t.domain]
g = {{ from = 1, to = 12, complete = true }}
[tables.t.bounds]
x = {{ from = 0, to = 100 }}
"""
BY_G = "g, COUNT(*) AS n, COUNT(*) FILTER (WHERE b) AS m FROM t GROUP BY g"
BLOCK = f"(SELECT {BY_G}) AS r"
LINEAR = {
    "difference to the previous": "n - LAG(n) OVER (ORDER BY g)",
    "next less this": "LEAD(n, 1, 0) OVER (ORDER BY g) - n",
    "running sum": "SUM(n) OVER (ORDER BY g)",
    "moving average": "AVG(n) OVER (ORDER BY g ROWS 2 PRECEDING)",
    "difference to the average": "n - AVG(n) OVER ()",
    "two counts": "2 * n - m",
    "per week": "(n - m) / 7",
    "first less this": "FIRST_VALUE(n) OVER (ORDER BY g) - n",
    "this and the last": "n + LAST_VALUE(n) OVER (ORDER BY g ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING)",
    "by key": "CASE WHEN g <= 6 THEN n + m ELSE n - m END",
}
RATIOS = {
    "per cent": "100 * n / SUM(n) OVER ()",
    "part": "m / n",
    "growth": "n / LAG(n) OVER (ORDER BY g) - 1",
    "running share": "SUM(n) OVER (ORDER BY g) / SUM(n) OVER ()",
    "to the average": "n / AVG(n) OVER ()",
}
SMOOTH = {
    "log": "LN(n)",
    "root": "SQRT(n)",
    "product": "n * m",
    "square": "n ^ 2",
    "larger": "GREATEST(n, LAG(n) OVER (ORDER BY g))",
    "distance": "ABS(n - 100)",
    "log of a ratio": "LN(n / LAG(n) OVER (ORDER BY g))",
    "exponential": "EXP(n / 1000)",
}
TOTALS = {
    "sum": ("linear", "SUM(n)"),
    "average": ("linear", "AVG(n)"),
    "sum by key": ("linear", "SUM(CASE WHEN g <= 6 THEN n ELSE 0 END)"),
    "weighted sum": ("linear", "SUM(g * n) / 10"),
    "part of all": ("ratio", "SUM(m) / SUM(n)"),
    "average by weight": ("ratio", "SUM(g * n) / SUM(n)"),
    "largest": ("smooth", "MAX(n)"),
    "sum of products": ("smooth", "SUM(n * m)"),
}
MOMENTS = {
    "average of a sum": ("ratio", "s / n"),
}
MOMENTS_OF_WINDOWS = {
    "difference of averages": ("smooth", "a - LAG(a) OVER (ORDER BY g)"),
    "weighted average": ("smooth", "SUM(n * a) OVER () / SUM(n) OVER ()"),
}
MOMENTS_BLOCK = "(SELECT g, COUNT(*) AS n, AVG(x) AS a, SUM(x) AS s FROM t GROUP BY g) AS r"


class Case(NamedTuple):
    """A statement whose columns are expressions, and the law of the noise."""

    law: str
    block: str
    columns: Mapping[str, tuple[str, str]]


def of_rows(kind: str, *, windows: bool) -> dict[str, tuple[str, str]]:
    """Return the expressions of rows of a kind: those with windows, or the others.

    Windows in the order of groups read those that are there by their noisy numbers, so the intervals of a
    statement with some hold for all its numbers at once.
    """
    of_kind = {"linear": LINEAR, "ratio": RATIOS, "smooth": SMOOTH}[kind]
    return {name: (kind, text) for name, text in of_kind.items() if ("OVER" in text) == windows}


CASES = {
    **{
        f"{law}, {kind}{', windows' * windows}": Case(law, BLOCK, of_rows(kind, windows=windows))
        for law in ("LAPLACE", "BOX", "GAUSSIAN")
        for kind in ("linear", "ratio", "smooth")
        for windows in (False, True)
    },
    **{f"{law}, totals": Case(law, BLOCK, TOTALS) for law in ("LAPLACE", "BOX", "GAUSSIAN")},
    "moments": Case("LAPLACE", MOMENTS_BLOCK, MOMENTS),
    "moments, windows": Case("LAPLACE", MOMENTS_BLOCK, MOMENTS_OF_WINDOWS),
}
LEAST = {"linear": 0.94, "ratio": 0.94, "smooth": 0.93}
MOST = {"linear": 0.96, "ratio": 1.0, "smooth": 1.0}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    """A table with 12 groups of several sizes, under both accountings."""
    folder = tmp_path_factory.mktemp("derived")
    group = np.repeat(np.arange(1, len(SIZES) + 1), SIZES)
    unit = np.arange(len(group))
    table = {"u": unit, "g": group, "b": unit % 3 > 0, "x": (unit * 37 % 101).astype(float)}
    pq.write_table(pa.table(table), folder / "t.parquet")
    made = {}
    for accounting in ("pure", "zcdp"):
        path = folder / f"{accounting}.toml"
        path.write_text(POLICY.format(accounting=accounting))
        made[accounting] = Session(load(path))
    with pytest.MonkeyPatch.context() as changed, duckdb.connect() as connection:
        changed.setattr(SchemaDatabase, "over", lambda _, *given: over(connection, *given))
        yield made
    for each in made.values():
        each.close()


def prepared_of(sessions: Mapping[str, Session], case: Case) -> tuple[PreparedComposed, Counts]:
    """Prepare a case; return it with the exact counts of its release."""
    session = sessions["zcdp" if case.law == "GAUSSIAN" else "pure"]
    listed = ", ".join(f'{text} AS "{name}"' for name, (_, text) in case.columns.items())
    totals = case.columns is TOTALS
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25, mechanism = {case.law}) {listed} "
        f"FROM {case.block}{'' if totals else ' ORDER BY g'}"
    )
    if case.block is MOMENTS_BLOCK:
        text = text.replace(f", mechanism = {case.law}", "").replace("0.25", "2")
    prepared = of_type(session.prepare(text), PreparedComposed)
    (part,) = prepared.parts
    return prepared, engine_of(session).count(part.plan.compiled)


def answered(prepared: PreparedComposed, counts: Counts, runs: int) -> Iterator[Release]:
    """Yield answers of a statement."""
    (part,) = prepared.parts
    plan, said = part.plan, words_of_release(part.plan, part.method)
    for _ in range(runs):
        made = answer_of(part.method, part.plan, counts)
        answer = made.result
        shown = build_rows(plan, answer, made.run)
        table, places = build_details(plan, answer, shown)
        release = Release(
            rows=shown,
            table=table,
            places=places,
            charge=Charge(),
            statement=prepared.text,
            scale=1.0,
            noises=noises_of(plan, answer, answer),
            **said,
        )
        yield run_composed(prepared, (release,))


def truth(sessions: Mapping[str, Session], case: Case) -> np.ndarray:
    """Return the columns of exact numbers, float64[rows, columns]."""
    del sessions
    group = np.repeat(np.arange(1, len(SIZES) + 1), SIZES)
    unit = np.arange(len(group))
    table = pa.table({"u": unit, "g": group, "b": unit % 3 > 0, "x": (unit * 37 % 101).astype(float)})
    listed = ", ".join(text for _, text in case.columns.values())
    order = "" if case.columns is TOTALS else " ORDER BY g"
    with duckdb.connect() as connection:
        connection.register("t", table)
        found = connection.sql(f"SELECT {listed} FROM {case.block}{order}").fetchall()
    return np.array([[np.nan if v is None else float(v) for v in row] for row in found])


def coverage(sessions: Mapping[str, Session], case: Case, runs: int) -> dict[str, tuple[float, float]]:
    """Return for each expression the share of values that are covered, and its standard error."""
    prepared, counts = prepared_of(sessions, case)
    exact = truth(sessions, case)
    alone = [kind == "linear" and "OVER" in text for kind, text in case.columns.values()]
    shares = np.empty((runs, len(case.columns)))
    for run, release in enumerate(answered(prepared, counts, runs)):
        places = {number.place: number for number in places_of(release).numbers}
        assert set(places) == set(range(len(case.columns))), "every column has an interval"
        for column in range(len(case.columns)):
            number = places[column]
            assert number.low is not None
            assert number.high is not None
            low, high = (
                np.array(release.table.column(at).to_pylist(), dtype=float)
                for at in (number.low, number.high)
            )
            there = ~np.isnan(exact[:, column])
            if alone[column]:  # a sum over one row has the interval of its number, not shown here
                there &= ~np.isnan(low)
                assert there.sum() >= len(exact) - 1
            inside = (low <= exact[:, column]) & (exact[:, column] <= high)
            shares[run, column] = inside[there].mean()
    return {
        name: (float(shares[:, i].mean()), float(shares[:, i].std() / runs**0.5))
        for i, name in enumerate(case.columns)
    }


def check(found: Mapping[str, tuple[float, float]], case: Case, least: Mapping[str, float]) -> None:
    """Assert that each expression is covered as its kind is to be."""
    wrong = {}
    for name, (kind, _) in case.columns.items():
        share, error = found[name]
        slack = 3 * max(error, 0.002)
        most = 1.0 if any("OVER" in text for _, text in case.columns.values()) else MOST[kind]
        if not least[kind] - slack <= share <= most + slack:
            wrong[name] = (kind, round(share, 4), round(error, 4))
    assert not wrong


@pytest.mark.parametrize("name", daily(CASES, 1))
def test_a_few_answers_cover(sessions: dict[str, Session], name: str) -> None:
    case = CASES[name]
    found = coverage(sessions, case, 16)
    shares = [share for share, _ in found.values()]
    # Of 16 answers of one number, less than 9 hold with a probability below 1e-6.
    assert min(shares) >= 9 / 16
    assert float(np.mean(shares)) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_intervals_of_derived_columns_cover(sessions: dict[str, Session], name: str) -> None:
    case = CASES[name]
    found = coverage(sessions, case, 1_000)
    print(name, {each: round(share, 3) for each, (share, _) in found.items()})
    check(found, case, LEAST)


def test_there_are_sixty_expressions() -> None:
    assert sum(len(case.columns) for case in CASES.values()) >= 60
