"""What values have beyond the bounds of their column: measured by `dpsql bounds`, in intervals, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from dpsql.analysis.table_measures import compile_value_measure
from dpsql.database import Database
from dpsql.estimates import KeptLadder, ValuesBeyond
from dpsql.kernel.loss import PrivacyLoss
from dpsql.owner import ladder_releases
from dpsql.owner.ladder_releases import list_losses, parse_measure, release_ladders
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import exact_of
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1e9
delta = 0.5
ledger = "ledger.sqlite"
[analysts.alice]
epsilon = 1e9
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
[tables.orders.domain]
region = { values = ["a", "b"], complete = true }
grade = { from = 1, to = 5, complete = true }
[tables.orders.bounds]
amount = { from = 0, to = 50 }
ratio = { from = -1, to = 1 }
size = { from = 2, to = 9 }
"""
USERS = 300
NAN, INF = math.nan, math.inf
RATIOS = (0.5, 1.25, -7.0, NAN, INF, None, -INF, 1.0, -1.5)
Row = tuple[int | None, str, float | None, float | None, int, int]


def rows() -> list[Row]:
    """Return the rows: amounts up to 90, of which those above 50 are cut; sizes on both sides."""
    found: list[Row] = []
    for u in range(USERS):
        for i in range(30 if u % 50 == 0 else u % 4 + 1):
            amount = None if (u + i) % 13 == 0 else float((u * 31 + i * 17) % 90)
            found.append((u, "ab"[(u + i) % 2], amount, RATIOS[(u + i) % 9], (u + i) % 14, i % 5 + 1))
    return [*found, (None, "a", 90.0, 5.0, 13, 1)]


def write(folder: Path, more: int = 0, policy: str = POLICY) -> None:
    columns = list(zip(*rows(), *[(1, "a", 1.0, 0.0, 3, 1)] * more, strict=True))
    types = (pa.int64(), pa.string(), pa.decimal128(8, 2), pa.float64(), pa.int32(), pa.int64())
    names = ("user_id", "region", "amount", "ratio", "size", "grade")
    made = {n: pa.array(c, pa.float64()).cast(t) if n == "amount" else pa.array(c, t)
            for n, c, t in zip(names, columns, types, strict=True)}  # fmt: skip
    write_world(folder, policy, orders=made)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with ladders of hardly any noise."""
    made = tmp_path_factory.mktemp("beyond")
    write(made)
    with closing(Database(load(made / "dpsql.toml"))) as opened:
        names = ("orders.amount", "orders", "orders.size")
        release_ladders(opened, [parse_measure(opened, n) for n in names], Fraction(10**6), "dpsql bounds")
        yield opened


@pytest.fixture(scope="module")
def session(database: Database) -> Iterator[Session]:
    with closing(Session(database, "alice")) as opened:
        yield opened


def asked(session: Session, rest: str, options: str = "") -> Release:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000{options}) {rest}"
    return present(session.run(text).release)


def expected(column: int, low: float, high: float, most: int, step: float) -> list[int]:
    """Return the three numbers as Python computes them, unit by unit."""
    units: dict[int, list[float]] = {}
    for row in rows():
        value = row[column]
        if row[0] is not None and isinstance(value, (int, float)) and not math.isnan(value):
            units.setdefault(row[0], []).append(value)
    width, found = round((high - low) / step), [0, 0, 0]
    for values in units.values():
        n = len(values)
        above, below = (
            sum(round(min(max(sign * (v - end), 0), high - low) / step) for v in values)
            for sign, end in ((1, high), (-1, low))
        )
        if n > most:
            above, below = above * most // n, below * most // n
        found = [found[0] + above, found[1] + below, found[2] + min(n, most) * width - above - below]
    return found


@pytest.mark.parametrize("most", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("column", "place", "low", "high"), [("amount", 2, 0, 50), ("ratio", 3, -1, 1), ("size", 4, 2, 9)]
)
@pytest.mark.sampled(3)
def test_the_numbers_are_those_of_every_unit(
    database: Database, column: str, place: int, low: float, high: float, most: int
) -> None:
    engines = database.engines()
    table = database.policy.tables["orders"]
    measure = compile_value_measure(database.policy, engines.schema_database, table, column, most)
    counts = exact_of(engines.count(measure.compiled, (table,))).n
    found = [int(number[0]) for number in counts]
    assert found == expected(place, low, high, most, float(measure.step))
    assert min(found[0], found[2]) > 0
    assert measure.width * measure.step == high - low


def test_an_average_covers_what_sql_says(session: Session) -> None:
    values = [row[2] for row in rows() if row[0] is not None and row[2] is not None]
    truth = sum(values) / len(values)
    cut = sum(min(max(v, 0), 50) for v in values) / len(values)
    release = asked(session, "AVG(amount) AS a FROM orders")
    (row,) = release.table.to_pylist()
    assert abs(row["a"] - cut) < 1
    assert truth > cut + 5
    # What is beyond is known exactly but for noise, so that the upper end is the truth and a margin of noise:
    # it misses by a few thousandths in some of a hundred runs.
    assert row["a_low"] < truth < row["a_high"] + 0.05
    assert row["a_low"] > cut - 5, "nothing is below the bounds"
    assert "values of amount beyond 0 to 50 count as 0 or 50: their average over all rows is" in release.line
    assert "(in the range)" in release.line
    assert "(not in the range)" not in release.line
    assert "no value of amount is below -50 or above 100" in release.properties["assumes"]


def test_values_on_both_sides_move_both_ends(session: Session) -> None:
    values = [row[4] for row in rows() if row[0] is not None]
    above = sum(max(v - 9, 0) for v in values) / len(values)
    below = sum(max(2 - v, 0) for v in values) / len(values)
    (row,) = asked(session, "AVG(size) AS a FROM orders").table.to_pylist()
    assert row["a_low"] < row["a"] - below
    assert row["a_high"] > row["a"] + above
    assert row["a_high"] - row["a_low"] < 3 * (above + below)


def test_a_sum_of_rows_has_all_of_it(session: Session) -> None:
    truth = sum(row[2] for row in rows() if row[0] is not None and row[2] is not None)
    release = asked(session, "SUM(amount) AS s FROM orders", ", max_rows_contributed = 40")
    (row,) = release.table.to_pylist()
    assert row["s"] < 0.9 * truth
    assert row["s_low"] < truth < row["s_high"]
    assert "(in the range)" in release.line
    assert "(not in the range)" not in release.line


def test_groups_take_it_twice(session: Session) -> None:
    release = asked(session, "region, AVG(amount) AS a FROM orders GROUP BY region")
    for row in release.table.to_pylist():
        values = [r[2] for r in rows() if r[0] is not None and r[2] is not None and r[1] == row["region"]]
        assert row["a_low"] < sum(values) / len(values) < row["a_high"]
    assert "lie at most twice as far beyond the bounds as all" in release.properties["assumes"]
    shared = asked(session, "region, SUM(amount, contribution_bounds_per_row => (0, 50)) AS s, AVG(amount) AS"
                   " a FROM orders GROUP BY region")  # fmt: skip
    assert "(not in the range of s)" in shared.line


@pytest.mark.parametrize(
    ("rest", "options", "said"),
    [
        ("AVG(amount) AS a FROM orders WHERE region = 'a'", "", "what that moves is not known"),
        ("AVG(ratio) AS a FROM orders", "", "values of ratio beyond -1 to 1 count as -1 or 1, what that"),
        ("AVG(amount, contribution_bounds_per_row => (0, 60)) AS a FROM orders", "", "beyond 0 to 60 count"),
        ("AVG(amount * 2) AS a FROM orders", "", "values of amount * 2 beyond 0 to 100 count as 0 or 100"),
        ("AVG(amount) AS a FROM orders", ", cut = NOISE_ONLY", "(not in the range)"),
        ("region, AVG(amount) AS a FROM orders GROUP BY region", ", cut = WHOLE", "(not in the range)"),
        ("STDDEV(amount) AS a, AVG(amount) AS b FROM orders", "", "(not in the range of a)"),
        (
            "SUM(amount, contribution_bounds_per_group => (0, 70)) AS s FROM orders",
            "",
            "totals of amount of a user beyond 0 to 70 count as 0 or 70",
        ),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_what_is_not_in_the_range_is_said(session: Session, rest: str, options: str, said: str) -> None:
    assert said in asked(session, rest, options).line


@pytest.mark.parametrize(
    "rest",
    [
        "AVG(grade) AS a FROM orders",
        "SUM(amount) AS s FROM orders",
        "COUNT(*) AS n FROM orders",
        "AVG(CASE WHEN amount > 5 THEN 1 ELSE 0 END, contribution_bounds_per_row => (0, 1)) AS a FROM orders",
    ],
)
def test_values_that_cannot_lie_beyond_are_not_named(session: Session, rest: str) -> None:
    assert "values of" not in asked(session, rest).line


def test_extremes_at_an_end_are_at_least_that(session: Session) -> None:
    release = asked(session, "MAX(amount) AS m FROM orders")
    assert "m is at least 50: values beyond count as that" in release.line
    release = asked(session, "MIN(size) AS m FROM orders")
    assert "m is at most 2: values beyond count as that" in release.line
    release = asked(session, "region, MAX(size) AS m FROM orders GROUP BY region")
    assert "m is at least 9 in 2 of 2 groups" in release.line
    assert "at least" not in asked(session, "MAX(grade) AS m FROM orders").line
    assert (
        "at least" not in asked(session, "MEDIAN(size) AS m FROM orders", ", max_rows_contributed = 3").line
    )


def test_other_data_and_other_bounds_end_what_is_known(folder: Path) -> None:
    with (
        closing(Database(load(folder / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asking,
    ):
        measures = [parse_measure(opened, n) for n in ("orders", "orders.amount")]
        release_ladders(opened, measures, Fraction(10**6), "dpsql bounds")
        before = asked(asking, "AVG(amount) AS a FROM orders")
        write(folder, more=1)
        after = asked(asking, "AVG(amount) AS a FROM orders")
    assert "(in the range)" in before.line
    assert "what that moves is not known since the data changed" in after.line
    write(folder, policy=POLICY.replace("to = 50", "to = 51"))
    with (
        closing(Database(load(folder / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asking,
    ):
        found = asked(asking, "AVG(amount) AS a FROM orders")
    assert "beyond 0 to 51 count as 0 or 51, what that moves is not known" in found.line


def test_a_fifth_of_the_price_is_for_it_and_all_is_charged_at_once(folder: Path) -> None:
    with closing(Database(load(folder / "dpsql.toml"))) as opened:
        amount, own = (parse_measure(opened, n) for n in ("orders.amount", "orders"))
        assert ladder_releases.decide_beyond(opened, [amount]) == [False], "how many rows count is not known"
        assert ladder_releases.list_without_beyond(opened, [amount]) == ["orders.amount"]
        assert ladder_releases.decide_beyond(opened, [amount, own]) == [True, False]
        both = list_losses(opened, [amount, own], Fraction(5))
        assert [loss.epsilon for loss in both] == [5, 5]
        assert both[0] == PrivacyLoss.of(Fraction(2), times=2) + PrivacyLoss.of(Fraction(1))
        found = release_ladders(opened, [amount, own], Fraction(5), "dpsql bounds")
        assert opened.ledger.budget(None).spent.epsilon == 10
        totals = next(each for each in found if each.beyond is not None)
        assert [totals.epsilon, present(totals.beyond).epsilon, totals.price] == [4, 1, 5]


def test_a_constant_of_the_policy_says_how_many_rows_count(folder: Path) -> None:
    write(folder, policy=POLICY + "[defaults]\nrows_per_unit = 3\n")
    with closing(Database(load(folder / "dpsql.toml"))) as opened:
        (found,) = release_ladders(opened, [parse_measure(opened, "orders.amount")], Fraction(5), "x")
        assert present(found.beyond).rows == 3


BEYOND = ValuesBeyond(Fraction(0), Fraction(50), 4, 5000, Fraction(1, 100), Fraction(1), 90_000, -5, 910_005)


def test_it_is_read_as_it_was_written() -> None:
    assert ValuesBeyond.of_data(BEYOND.to_data()) == BEYOND
    found, noise = BEYOND.side(above=True)
    values = (1_000_000 - noise_of_one()) / 5000
    assert found == pytest.approx(900 / values, rel=1e-4)
    assert noise == pytest.approx(noise_of_one() / 100 / values, rel=1e-4)
    assert BEYOND.side(above=False).about == 0
    few = ValuesBeyond(Fraction(0), Fraction(50), 4, 5000, Fraction(1, 100), Fraction(1), 90, -5, 5)
    assert few.side(above=True) == (0, 50)


def noise_of_one() -> float:
    """Return half the width of the interval of a number: scale 4 w."""
    return 4 * 5000 * math.log(20)


@pytest.mark.parametrize(
    "change", [{"rows": 0}, {"width": 1.5}, {"epsilon": "0"}, {"low": "51"}, {"more": 1}]
)
def test_what_was_not_written_is_not_read(change: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        ValuesBeyond.of_data(BEYOND.to_data() | change)


def test_a_ladder_with_it_is_read_as_it_was_written(database: Database) -> None:
    ladders = present(database.engines().schema_database.kept_ladders)
    kept = present(ladders.find("orders", "total of amount")).ladder
    assert kept.beyond is not None
    assert KeptLadder.from_json(kept.to_json()) == kept


def test_the_key_of_an_answer_has_the_ladder(folder: Path) -> None:
    options = "OPTIONS (epsilon = 1, max_rows_contributed = 3)"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY {options} AVG(amount) FROM orders"
    with (
        closing(Database(load(folder / "dpsql.toml"))) as opened,
        closing(Session(opened, "alice")) as asking,
    ):
        release_ladders(opened, [parse_measure(opened, "orders")], Fraction(10**6), "dpsql bounds")
        before = private(asking.prepare(text)).key
        release_ladders(opened, [parse_measure(opened, "orders.amount")], Fraction(10**6), "dpsql bounds")
        assert private(asking.prepare(text)).key != before
