"""Numbers and excesses with Gaussian noise, where a statement divides its cost: intervals, prices, signs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpsql.analysis.cut_contributions import find_excesses
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.loss import BoundedRange, Gaussian
from dpsql.kernel.loss.composing import Spending, is_within
from dpsql.kernel.release import Run
from dpsql.planning.bound_search import BoundSearches
from dpsql.planning.excess_noise import BoxOfAll, GaussianOfEach
from dpsql.planning.measured_excess import WithExcess
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.exact import ample, answer_with, known_of, made_up, runs_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e6
delta = 1e-6
accounting = "zcdp"
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
[tables.orders.domain]
region = ["a", "b"]
"""
USERS, LARGE = 20_000, 300
"""Users with one row, and with 12 rows."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    users = [*range(USERS), *(u for u in range(USERS, USERS + LARGE) for _ in range(12))]
    columns = {
        "user_id": users,
        "region": ["a" if user % 2 else "b" for user in users],
        "amount": [1 if user % 4 else -1 for user in users],
        "far": [1 << 40] * len(users),
        "ratio": [-0.5 if user >= USERS else 0.25 for user in users],
    }
    with open_world(tmp_path_factory.mktemp("excess_noise"), POLICY, orders=columns) as opened:
        yield opened


def method_of(session: Session, rest: str, epsilon: str = "0.5") -> BoundSearches:
    options = f"epsilon = {epsilon}, layout = ORDER"
    found = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"))
    return of_type(found.method, BoundSearches)


STATEMENTS = {
    "COUNT(*) AS n FROM orders": USERS + 12 * LARGE,
    "SUM(amount) AS n FROM orders": (USERS + 12 * LARGE) // 2,
    "SUM(far) AS n FROM orders": (USERS + 12 * LARGE) << 40,
    "SUM(ratio) AS n FROM orders": USERS / 4 - 6 * LARGE,
}


@pytest.mark.parametrize("rest", STATEMENTS)
@pytest.mark.sampled(4)
def test_a_number_has_what_is_cut_in_its_interval(session: Session, rest: str) -> None:
    """Of 12 answers of level .95 fewer than 8 are covered with probability 1e-4."""
    covered, exact = 0, STATEMENTS[rest]
    for run in range(12):
        options = f"epsilon = 0.5{run:02d}, layout = ORDER"
        release = present(session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}").release)
        low, high = (release.table.column(f"n_{end}")[0].as_py() for end in ("low", "high"))
        covered += low <= exact <= high
        assert "left out: " in release.line
        assert release.charge.epsilon <= Fraction(500 + run, 1000)
    assert covered >= 8


@pytest.mark.parametrize("rest", STATEMENTS)
def test_the_noise_is_gaussian_and_of_what_is_left(session: Session, rest: str) -> None:
    """A tenth of the cost finds the bound; of the rest, .15 are for the excess."""
    method = method_of(session, rest)
    pair = of_type(method.first, WithExcess).pairs[0]
    noise = of_type(pair.noise, GaussianOfEach)
    # At the largest bound no excess is known.
    parts = method.compute_quote().loss.parts
    assert [type(part) for part in parts].count(BoundedRange) == 1
    rhos = [part.rho for part in parts if isinstance(part, Gaussian)]
    assert float(rhos[1] / sum(rhos)) == pytest.approx(0.15, rel=1e-6)
    order = present(method.plan.epsilon_division.order)
    cost = method.plan.epsilon_division.cost
    assert float(sum(rhos) * order / cost) == pytest.approx(0.9, rel=1e-6)
    assert method.compute_quote().loss.cost(order) <= cost
    assert noise.loss.parts == tuple(part for part in parts if isinstance(part, Gaussian))


@pytest.mark.parametrize("rest", [*STATEMENTS, "region, SUM(far) AS n FROM orders GROUP BY region"])
@pytest.mark.parametrize("epsilon", ["1e-5", "0.001", "0.01", "0.5", "20"])
@pytest.mark.sampled(9)
def test_no_bound_changes_what_an_answer_costs(session: Session, rest: str, epsilon: str) -> None:
    """What was reserved for the largest bound is enough for every other one."""
    options = f"epsilon = {epsilon}, layout = ORDER"
    found = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"))
    method = of_type(found.method, BoundSearches)
    searched = [found.counting.count(each.compiled) for each in method.plan.ladders]
    bounds = method.plan.ladders[0].ladder.bounds
    for place in {0, 3, len(bounds) // 2, len(bounds) - 1}:
        bounded = found.counting.with_bounds((place,))
        spending = Spending(method.compute_quote().loss)
        method.find(runs_of(searched, spending))
        counted = None if known_of(method, bounded.plan, (place,), searched) else bounded.count()
        answer_with(method, bounded.plan, (place,), searched, counted, spending)
        assert is_within(spending.loss, method.compute_quote().loss)


def test_at_a_small_cost_the_noise_is_a_box(session: Session) -> None:
    for epsilon, kind in (("0.0001", BoxOfAll), ("0.1", GaussianOfEach)):
        first = of_type(method_of(session, "COUNT(*) AS n FROM orders", epsilon).first, WithExcess)
        assert isinstance(first.pairs[0].noise, kind)


def test_the_widths_are_those_of_the_noise(session: Session) -> None:
    """Of 1,500 draws of A and of 2 E - A, 95% of A + E are within their width, to 2%."""
    rest = "SUM(amount) AS n FROM orders"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, layout = ORDER) {rest}"
    plan = private(session.prepare(text)).counting.with_bounds((6,)).plan
    found = find_excesses(plan, method_of(session, rest).plan.ladders, (6,))
    noise = GaussianOfEach.plan([plan.counts[0].bound], found, Fraction(1, 50), monotone=False)
    assert noise.leads(0)
    most = found[0].most
    changes = [NumberChange(-noise.noise.bounds[0], noise.noise.bounds[0]), NumberChange(-most, most)]
    nothing = pa.table({"x": [0]}).select([])
    counts = made_up(nothing, [np.zeros(1, dtype=np.int64)] * 2, UnitChanges(tuple(changes)))
    run = Run(counts, ample())
    drawn = np.array([noise.run(run, [0], [1]) for _ in range(1500)])
    number, excess = drawn[:, 0], np.array([noise.excess_of(each, 0, 0, 1.0) for each in drawn])
    level = Fraction(19, 20)
    for errors, width in (
        (number, noise.half_width(0, level)),
        (excess, noise.excess_half_width(0, 0, 1.0, level)),
        (number + excess, noise.sum_half_width(0, 0, 1.0, level)),
    ):
        assert abs((np.abs(errors) > width).mean() - 0.05) < 0.023
    assert noise.sum_half_width(0, 0, 1.0, level) < 2.1 * noise.half_width(0, level)
