"""Released sums and averages, through whole statements: coverage, predicted errors and charges.

Bounds are six standard errors or more wide: a right product fails once in 1e8 runs of the tests. Where one
noise makes all numbers of a run, that run counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpsql.analysis import Plan
from dpsql.estimates import Combined
from dpsql.kernel.counts import Counts
from dpsql.session import Session
from tests.narrow import engine_of, present, private
from tests.support.exact import Answered, answer_of, exact_of
from tests.support.world import open_world

FEW, MANY = 12, 500
"""Groups of the two tables."""
POLICY = f"""
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.few]
source = "few.parquet"
unit = "user_id"
rows_per_unit = 3
[tables.few.domain]
page = {{ from = 0, to = {FEW - 1}, complete = true }}
[tables.few.bounds]
v = {{ from = -10, to = 60 }}
w = {{ from = 0, to = 50 }}
[tables.many]
source = "many.parquet"
unit = "user_id"
rows_per_unit = 3
[tables.many.domain]
page = {{ from = 0, to = {MANY - 1}, complete = true }}
[tables.many.bounds]
v = {{ from = -10, to = 60 }}
"""
TOTAL = "SUM(v, contribution_bounds_per_group => (0, 200)) AS s"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Units with three rows in one group, with values within the bounds; groups of `few` differ in size."""
    folder, rng = tmp_path_factory.mktemp("sums"), np.random.default_rng(20261122)
    for name, sizes in (("few", 600 + 200 * np.arange(FEW)), ("many", np.full(MANY, 20))):
        page = np.repeat(np.arange(len(sizes)), 3 * sizes)
        size = len(page)
        columns = {
            "user_id": np.arange(size) // 3,
            "page": page,
            "v": rng.integers(0, 60, size),
            "w": rng.integers(0, 50, size),
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    with open_world(folder, POLICY) as made:
        yield made


Found = dict[str, list[tuple[Combined, NDArray[np.float64], NDArray[np.float64]]]]


def estimates(plan: Plan, counts: Counts, result: Answered, found: Found) -> None:
    """Add the estimates of each number, in its own unit, with the exact values and the numbers of rows."""
    for output in plan.outputs:
        if output.kind != "count":
            continue
        uses = output.uses or (output.of,)
        exact = [
            (exact_of(counts).n[p][result.rows] * float(plan.counts[p].step)).astype(np.float64) for p in uses
        ]
        rows = np.asarray(sum(exact), dtype=np.float64)
        if output.formula is not None:
            truth = output.formula.estimate(exact, 1e-9, Fraction(1, 2)).value
            made = result.values[output.uses, output.formula]
        else:
            step, raw = float(plan.counts[output.of].step), present(result.counts[output.of])
            truth = exact[0]
            made = raw.scale(step)
        found.setdefault(output.name, []).append((made, truth, rows))


def simulated(session: Session, rest: str, runs: int) -> tuple[Found, dict[str, str]]:
    """Run a statement many times over the same exact numbers; every charge is the one that was predicted."""
    prepared = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4) {rest}"))
    counts = engine_of(session).count(prepared.plan.compiled)
    found: Found = {}
    for _ in range(runs):
        result = answer_of(prepared.method, prepared.plan, counts)
        assert result.charge == prepared.method.quote.charge
        estimates(prepared.plan, counts, result, found)
    return found, {output.name: words for output, words in prepared.method.quote.errors.items()}


def coverage(found: Found, name: str) -> float:
    held = [(e.low <= truth) & (truth <= e.high) for e, truth, _ in found[name]]
    return float(np.mean(held))


AVERAGES = ("SUM(v) AS s, AVG(v) AS a, COUNT(*) AS n", "SUM(v) AS s, AVG(v) AS a, VAR_POP(v) AS d")


@pytest.mark.parametrize(
    ("runs", "within"),
    [(12, 0.017), pytest.param(500, 0.005, marks=pytest.mark.slow)],
    ids=["daily", "full"],
)
@pytest.mark.parametrize("items", AVERAGES, ids=["degree 1", "degree 2"])
def test_sums_and_averages_are_covered_at_their_level(
    session: Session, items: str, runs: int, within: float
) -> None:
    """6,000 intervals with a standard error of 0.28%; in full, 250,000 with one of 0.05%."""
    found, _ = simulated(session, f"page, {items} FROM many GROUP BY page", runs)
    for name in {*found} - {"d"}:
        assert len(found[name]) == runs
        assert abs(coverage(found, name) - 0.95) < within, name
    if "d" in found:
        assert coverage(found, "d") > 0.95 - within


STATEMENTS = {
    "several shares": "page, COUNT(DISTINCT user_id) AS u, SUM(v) AS s, AVG(w) AS a FROM few GROUP BY page",
    "top-k": f"page, {TOTAL}, AVG(w) AS a FROM few GROUP BY page ORDER BY s DESC LIMIT 3",
    "threshold": f"page, {TOTAL}, AVG(w) AS a FROM few GROUP BY page HAVING s >= 150000",
    "one row": "COUNT(DISTINCT user_id) AS u, SUM(v) AS s, AVG(v) AS a, COUNT(*) AS n FROM few",
}


@pytest.mark.parametrize(
    ("runs", "within"),
    [(150, 0.55), pytest.param(2000, 0.15, marks=pytest.mark.slow)],
    ids=["daily", "full"],
)
@pytest.mark.parametrize("rest", STATEMENTS.values(), ids=STATEMENTS)
@pytest.mark.sampled(4)
def test_errors_are_as_predicted(session: Session, rest: str, runs: int, within: float) -> None:
    """Errors over their predicted deviation have deviation 1; its standard error is 9%, in full 2.5%."""
    found, predicted = simulated(session, rest, runs)
    assert {*found} == {*predicted}
    for name, words in predicted.items():
        stddev, width = (float(text.replace(",", "")) for text in re.findall(r"\d[\d,]*\.?\d*", words))
        errors = [(e.value - truth) / e.stddev for e, truth, _ in found[name]]
        deviation = float(np.sqrt(np.mean(np.square(np.concatenate(errors)))))
        assert abs(deviation - 1) < within, (name, deviation)
        for estimate, _, rows in found[name]:
            if "/ n" in words:
                assert (estimate.stddev * rows < 1.1 * stddev).all()
                assert (estimate.high - estimate.low < 2.2 * width / rows).all()
            else:
                np.testing.assert_allclose(estimate.stddev, stddev, rtol=0.01)
                np.testing.assert_allclose((estimate.high - estimate.low) / 2, width, rtol=0.01)
