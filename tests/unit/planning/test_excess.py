"""Statements whose bound a search finds: intervals have what it cuts, and the line says which do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql.estimates import pair_half_width
from dpsql.kernel.mechanisms import Box, NoiseSource
from dpsql.noise import SeededEntropy
from dpsql.planning.bound_search import BoundSearches
from dpsql.planning.measured_excess import ExcessApart, WithExcess
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.support.exact import answer_with
from tests.support.world import open_world, write_world

POLICY = """
[budget]
epsilon = 1e9
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
[tables.orders.domain]
region = { values = ["a", "b"], complete = true }
day = { from = 0, to = 999, complete = true }
ten = { from = 1, to = 20, complete = true }
[tables.orders.bounds]
price = { from = 0, to = 10 }
"""
SMALL, LARGE = 20_000, 300
"""Users with 1 row in region a, and with 2 in b."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    users = [*range(SMALL), *(u for u in range(SMALL, SMALL + LARGE) for _ in range(2))]
    columns = {
        "user_id": users,
        "region": ["a" if user < SMALL else "b" for user in users],
        "amount": [1] * len(users),
        "price": [5] * len(users),
        "day": [user % 1_000 for user in users],
        "ten": [user % 20 + 1 for user in users],
    }
    with open_world(tmp_path_factory.mktemp("excess"), POLICY, orders=columns) as opened:
        yield opened


def asked(session: Session, rest: str, cut: str = "", epsilon: str = "0.5") -> Release:
    options = f"epsilon = {epsilon}{', cut = ' if cut else ''}{cut}"
    return present(session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}").release)


def method_of(session: Session, rest: str, cut: str = "") -> BoundSearches:
    options = f"epsilon = 0.7{', cut = ' if cut else ''}{cut}"
    found = private(session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) {rest}"))
    return of_type(found.method, BoundSearches)


@pytest.mark.parametrize("monotone", [True, False])
def test_the_interval_of_a_sum_of_two_is_that_of_the_mechanism(monotone: bool) -> None:
    """Of 40,000 draws, 5% +- 0.7% are beyond: 6 standard deviations."""
    box = Box.plan(3, 1, sensitivity=[1000] * 3, monotone=monotone)
    drawn = box.run(np.zeros((40_000, 3), dtype=np.int64), NoiseSource(SeededEntropy(7))).value / 1000
    width = pair_half_width(3, box.pads, 0.95)
    assert abs((np.abs(drawn[:, 0] + drawn[:, 1]) > width).mean() - 0.05) < 0.007
    assert (np.abs(drawn[:, 0] - drawn[:, 1]) > width).mean() < 0.057


@pytest.mark.parametrize(
    ("rest", "exact"),
    [
        ("COUNT(*) AS n FROM orders", SMALL + 2 * LARGE),
        ("SUM(amount, contribution_bounds => AUTO) AS n FROM orders", SMALL + 2 * LARGE),
        ("SUM(price) AS n FROM orders", 5 * (SMALL + 2 * LARGE)),
        ("COUNT(*) AS n, COUNT(DISTINCT user_id) AS u FROM orders WHERE region = 'b'", 2 * LARGE),
    ],
)
@pytest.mark.sampled(3)
def test_a_number_has_what_is_cut_in_its_interval(session: Session, rest: str, exact: int) -> None:
    """Of 12 answers of level .9 fewer than 7 are covered with probability 5e-5."""
    covered = 0
    for run in range(12):
        release = asked(session, rest, epsilon=f"0.5{run:02d}")
        low, high = (release.table.column(f"n_{end}")[0].as_py() for end in ("low", "high"))
        covered += low <= exact <= high
        assert "left out: " in release.line
    assert covered >= 7


def test_a_number_and_its_excess_cost_what_the_statement_costs(session: Session) -> None:
    for rest in (
        "COUNT(*) AS n, SUM(amount) AS s FROM orders",
        "region, COUNT(*) AS n FROM orders GROUP BY region",
    ):
        method = method_of(session, rest)
        share = method.epsilon * len(method.plan.ladders)
        assert share == Fraction(14, 100)
        assert share + method.first.quote.charge.epsilon == Fraction(7, 10)
        first = method.first
        if isinstance(first, WithExcess):
            assert sum((pair.noise.loss.charge.epsilon for pair in first.pairs), Fraction(0)) == Fraction(
                56, 100
            )
        else:
            apart = of_type(first, ExcessApart)
            assert [each.loss.charge.epsilon for each in apart.noise] == [Fraction(14, 100)]
            assert apart.inner.quote.charge.epsilon == Fraction(42, 100)
        release = asked(session, rest, epsilon="0.7")
        assert release.charge.epsilon == Fraction(7, 10)


@pytest.mark.parametrize(
    ("rest", "sixteenths"),
    [
        ("region, COUNT(*) AS n FROM orders GROUP BY 1", 4),
        ("ten, COUNT(*) AS n FROM orders GROUP BY 1", 2),
        ("day, COUNT(*) AS n FROM orders GROUP BY 1", 1),
        ("day, SUM(amount, contribution_bounds => AUTO) AS n FROM orders GROUP BY 1", 4),
        ("COUNT(*) AS n, AVG(price) AS a FROM orders", 4),
    ],
)
def test_the_excess_has_the_share_that_makes_intervals_narrow(
    session: Session, rest: str, sixteenths: int
) -> None:
    """The interval is 2/(1 - s) + c t/s wide: no other share in sixteenths up to a quarter is better."""
    assert of_type(method_of(session, rest).first, ExcessApart).share == Fraction(sixteenths, 16)


def test_what_is_computed_of_all_groups_has_what_is_cut_once(session: Session) -> None:
    """Twenty times the cut of one group would make the interval as wide as all twenty together."""
    each = "ten, SUM(amount, contribution_bounds => AUTO) AS n FROM orders GROUP BY 1"
    groups = asked(session, each).table.to_pylist()
    total = asked(session, f"SUM(n) AS n FROM (SELECT {each})").table.to_pylist()[0]
    assert total["n"] == pytest.approx(sum(row["n"] for row in groups))
    assert total["n_high"] - total["n_low"] < 0.4 * sum(row["n_high"] - row["n_low"] for row in groups)


def test_noise_only_measures_no_excess(session: Session) -> None:
    for rest in ("COUNT(*) AS n FROM orders", "region, COUNT(*) AS n FROM orders GROUP BY region"):
        first = method_of(session, rest, "NOISE_ONLY").first
        assert not isinstance(first, (WithExcess, ExcessApart))
        release = asked(session, rest, "NOISE_ONLY")
        value, low, high = (release.table.column(name)[0].as_py() for name in ("n", "n_low", "n_high"))
        assert high - value == pytest.approx(value - low)
        assert "what is cut is not known" in release.line
        assert "assumes" not in release.properties


def test_whole_allows_each_group_the_whole(session: Session) -> None:
    rest = "region, COUNT(*) AS n FROM orders GROUP BY region"
    shared, whole = (asked(session, rest, cut, epsilon="50") for cut in ("SHARED", "WHOLE"))
    assert "twice its share" in shared.properties["assumes"]
    assert "twice its share" not in whole.properties["assumes"]


@pytest.mark.parametrize(
    "rest",
    [
        "region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC LIMIT 1",
        "region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > 5",
    ],
)
def test_of_selected_groups_the_range_has_what_is_cut(session: Session, rest: str) -> None:
    assert "(in the range)" in asked(session, rest).line


def test_the_range_reaches_to_what_is_beyond_the_excess(tmp_path: Path) -> None:
    """How many users have twice as many rows follows a power law: beyond 2B is more than from B to 2B.

    Of 12 answers of level .95 fewer than 9 are covered with probability 2e-4; the excess alone covers 26%.
    """
    rows = [2**power for power in range(11) for _ in range(int(6_000 / 2 ** (1.2 * power)))]
    users = [user for user, size in enumerate(rows) for _ in range(size)]
    write_world(tmp_path, POLICY.partition("[tables.orders.domain]")[0], orders={"user_id": users})
    covered = 0
    with closing(Session(load(tmp_path / "dpsql.toml"))) as opened:
        for run in range(12):
            release = asked(opened, "COUNT(*) AS n FROM orders", epsilon=f"1.0{run:02d}")
            low, high = (release.table.column(f"n_{end}")[0].as_py() for end in ("low", "high"))
            covered += low <= len(users) <= high
    assert covered >= 9


def test_of_quantiles_the_cut_is_not_known(session: Session) -> None:
    assert "what is cut is not known" in asked(session, "MEDIAN(price) AS n FROM orders").line


def test_explain_says_what_is_measured(session: Session) -> None:
    def shown(rest: str) -> dict[str, str]:
        rows = session.run(f"EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {rest}").table
        return dict(zip(rows.column(0).to_pylist(), rows.column(1).to_pylist(), strict=True))

    alone, grouped = (
        shown(f"{r}COUNT(*) AS n FROM orders{g}") for r, g in (("", ""), ("region, ", " GROUP BY 1"))
    )
    assert "noise and excess to 2B (in the range)" in alone["left_out"]
    assert "noise and excess to 2B (in the range)" in grouped["left_out"]
    many = shown("day, COUNT(*) AS n FROM orders GROUP BY 1")
    assert "noise and excess to 4B (in the range)" in many["left_out"]
    assert "excess" in alone["split"]


def test_what_is_computed_from_a_number_has_what_is_cut(session: Session) -> None:
    rest = "n + u AS d, n, u FROM (SELECT COUNT(*) AS n, COUNT(DISTINCT user_id) AS u FROM orders)"
    # Of one answer in three the excess is measured as so little that the interval is that of the noise alone.
    asks = (asked(session, rest, epsilon=f"0.50{i:02}") for i in range(8))  # none is asked before
    rows = [each.table.to_pylist()[0] for each in asks]
    assert all(row["d_high"] - row["d"] > 0.99 * (row["d"] - row["d_low"]) for row in rows)
    assert any(row["d_high"] - row["d"] > 1.2 * (row["d"] - row["d_low"]) for row in rows)


def test_bounds_that_no_larger_one_follows_are_said_to_cut_what_is_not_known(session: Session) -> None:
    method = method_of(session, "COUNT(*) AS n FROM orders")
    found = private(
        session.prepare("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.7) COUNT(*) AS n FROM orders")
    )
    last = (len(method.plan.ladders[0].ladder.bounds) - 1,)
    searched = [found.counting.count(each.compiled) for each in found.plan.ladders]
    bounded = found.counting.with_bounds(last)
    answer = answer_with(method, bounded.plan, last, searched, bounded.count())
    assert answer.loss.charge.epsilon == Fraction(56, 100)
    number = present(answer.counts[0])
    assert number.high[0] - number.value[0] == pytest.approx(number.value[0] - number.low[0])
    assert "how much is not known" in answer.left_out["line.cut"]
