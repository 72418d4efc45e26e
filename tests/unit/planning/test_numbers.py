"""What EXPLAIN says of each number, and what results say was cut: the same as what is released."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.release import Release
from dpsql.render.grid import Style
from dpsql.render.table import as_table
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 1
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 10
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "user"
[tables.orders.domain]
region.values = ["n", "s", "e"]
region.complete = true
[tables.orders.bounds]
amount = { from = 0, to = 50 }
change = { from = -20, to = 5 }
[tables.prices]
source = "prices.parquet"
public = true
unique = [["item"]]
"""
ORDERS = """SELECT i % 400 AS user_id, ['n', 's', 'e'][1 + i % 3] AS region, i % 5 AS item,
  (i % 50)::DECIMAL(10, 2) AS amount, -(i % 20)::DOUBLE AS change FROM range(4000) t(i)"""
PRICES = "SELECT i AS item, ((i + 1) * 1.5)::DECIMAL(10, 2) AS price FROM range(5) t(i)"
ROWS = "10 rows of a user count in all groups, rows beyond are weighted down"
MOVES = "one user moves it by at most"


session = world_fixture(POLICY, orders=ORDERS, prices=PRICES)


Explained = Callable[[str], dict[str, Any]]


@pytest.fixture
def explained(session: Session) -> Explained:
    return lambda text: json.loads(session.run(f"EXPLAIN (FORMAT JSON) {text}").table.column(0)[0].as_py())


def lines(session: Session, text: str) -> dict[str, str]:
    table = session.run(f"EXPLAIN {text}").table.to_pydict()
    return dict(zip(table["property"], table["value"], strict=True))


def released(session: Session, text: str) -> Release:
    return present(session.run(text).release)


def test_a_sum_of_rows(explained: Explained) -> None:
    facts = explained("SELECT region, SUM(amount) AS s FROM orders GROUP BY region")
    assert facts["numbers"] == [
        {
            "name": "s",
            "what": "sum of amount",
            "bounds": [0, 50],
            "bounds_from": "the declared bounds of orders.amount",
            "rows_per_unit": 10,
            "step": 0.01,
            "moves_by": 500,
            "moves": f"{MOVES} 500 in all groups together",
            "cut": ["each value is cut to 0 to 50 (the declared bounds of orders.amount)", ROWS],
            "predicted": "stddev 707, half-width 1,498",
        }
    ]
    assert facts["noise_scale"] == 500
    assert facts["assumed"] == [
        "values of amount outside 0 to 50 are cut (policy)",
        "at most 10 rows of a user_id count, rows beyond are weighted down (policy)",
    ]


def test_what_the_statement_writes_is_not_assumed(explained: Explained) -> None:
    facts = explained(
        "SELECT region, SUM(amount, contribution_bounds_per_group => (-5, 20.5)) AS s "
        "FROM orders GROUP BY region"
    )
    assert "assumed" not in facts or facts["assumed"] is None
    (number,) = facts["numbers"]
    assert (number["bounds"], number["bounds_from"]) == ([-5, 20.5], "the statement")
    assert number["cut"] == ["the total of a user in a group is cut to -5 to 20.5 (as written)"]
    assert number["moves"] == f"{MOVES} 20.5 in each group"
    assert "rows_per_unit" not in number


def test_numbers_of_one_vector_say_so(session: Session, explained: Explained) -> None:
    text = "SELECT region, AVG(amount) AS a, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY region"
    found = {each["name"]: each for each in explained(text)["numbers"]}
    assert {name: each.get("vector") for name, each in found.items()} == {
        "a": ["n", "s"],
        "n": ["a", "s"],
        "s": ["a", "n"],
    }
    assert found["a"]["moves"] == "one user moves its moments by at most 10 rows in all groups together"
    assert found["s"]["moves_by"] == 500
    assert found["n"]["what"] == "number of rows"
    shown = lines(session, text)
    assert shown["number 3"].startswith("s: sum of amount; cut as a; ")
    assert "one noise with a, n" in shown["number 3"]
    assert "n being the number of rows" in shown["number 1"]


@pytest.mark.parametrize("keys", ["", "region, "])
def test_averages_over_units_and_over_rows_have_a_noise_of_their_own(
    session: Session, explained: Explained, keys: str
) -> None:
    """Their moments are of one grid and one column: together they move by more than one noise is for."""
    low_high = "(0, 1125899906842624)"
    text = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 1) {keys}"
        f"AVG(item, contribution_bounds_per_group => {low_high}) AS of_units, "
        f"AVG(item, contribution_bounds_per_row => {low_high}) AS of_rows FROM orders"
        f"{' GROUP BY region' if keys else ''}"
    )
    counts = private(session.prepare(text)).plan.counts
    assert len({count.noise_group for count in counts}) == 2
    assert not any("vector" in number for number in explained(text)["numbers"])


def test_an_average_of_units_weighs_each_the_same(explained: Explained) -> None:
    (number,) = explained("SELECT AVG(amount, contribution_bounds_per_group => (0, 50)) AS a FROM orders")[
        "numbers"
    ]
    assert number["what"] == "average over units (user) of the average of amount of each"
    assert number["cut"][1] == "each user weighs the same"
    assert number["moves"] == "one user moves its moments by at most 1 row"
    assert number["predicted"].endswith("n being the number of units")


@pytest.mark.parametrize(
    ("number", "what", "moves"),
    [
        ("COUNT(DISTINCT user_id)", "number of units (user)", 1),
        ("COUNT(*)", "number of rows", 10),
        ("COUNT(*, contribution_bounds_per_group => (0, 4))", "number of rows", 4),
        ("COUNT(DISTINCT item)", "number of different values", 10),
        ("COUNT(*) - COUNT_IF(amount > 3)", "difference of two counts", 10),
        ("VAR_POP(amount)", "variance of amount", 10),
        ("STDDEV(amount)", "standard deviation of amount", 10),
    ],
)
def test_every_kind_has_a_name(explained: Explained, number: str, what: str, moves: int) -> None:
    (found,) = explained(f"SELECT {number} AS n FROM orders")["numbers"]
    assert (found["name"], found["what"], found["moves_by"]) == ("n", what, moves)


def test_bounds_of_an_expression_name_their_sources(explained: Explained) -> None:
    facts = explained("SELECT SUM(amount * price) AS s FROM orders JOIN prices USING (item)")
    (number,) = facts["numbers"]
    assert number["bounds"] == [0, 375]
    assert number["bounds_from"] == "the declared bounds of orders.amount and the values of prices.price"
    assert facts["assumed"][0] == "values of amount * price outside 0 to 375 are cut (policy)"


def test_what_no_row_exceeds_is_not_said_to_be_cut(explained: Explained) -> None:
    facts = explained("SELECT SUM(price) AS s FROM orders JOIN prices USING (item)")
    assert [each for each in facts["assumed"] if "cut" in each] == []


@pytest.mark.parametrize(
    ("threshold", "shown"), [("100", "100"), ("1234.5", "1,234.5"), ("2000000", "2,000,000")]
)
def test_a_threshold_is_in_the_unit_of_the_sum(session: Session, threshold: str, shown: str) -> None:
    text = f"SELECT region, SUM(amount) AS s FROM orders GROUP BY region HAVING s >= {threshold}"
    assert lines(session, text)["selection"] == f"above threshold {shown}"
    assert released(session, text).selection == f"above threshold {shown}"
    top = f"{text} ORDER BY s DESC LIMIT 2"
    assert lines(session, top)["selection"] == f"top-2 above {shown}"


def test_the_number_that_orders_is_described_without_being_selected(explained: Explained) -> None:
    facts = explained("SELECT region FROM orders GROUP BY region ORDER BY SUM(amount) DESC LIMIT 1")
    (number,) = facts["numbers"]
    assert (number["name"], number["what"]) == ("ordering number", "sum of amount")
    assert facts["noise_scale"] == 500


def test_a_mechanism_is_considered_once_and_under_its_name(explained: Explained) -> None:
    """Sums with one bound in all groups have Laplace noise, also where BOX measures counts."""
    facts = explained("SELECT region, SUM(amount) AS s FROM orders GROUP BY region")
    assert [each["mechanism"] for each in facts["considered"]] == ["LAPLACE"]
    both = explained("SELECT region, AVG(amount), COUNT(DISTINCT user_id) AS n FROM orders GROUP BY region")
    assert both["considered"][0]["mechanism"] == "LAPLACE + BOX"


def test_a_bound_that_is_found_privately_has_no_figures_before(explained: Explained) -> None:
    facts = explained(
        "SELECT SUM(amount, contribution_bounds => AUTO) AS s, COUNT(DISTINCT user_id) AS n FROM orders"
    )
    total, units = facts["numbers"]
    assert total["cut"] == ["the total of a user in all groups is cut to a bound that is found privately"]
    assert (total["bounds_from"], total["step"]) == ("found privately", 0.01)
    assert not {"bounds", "moves_by", "moves", "predicted", "rows_per_unit"} & total.keys()
    assert units["moves_by"] == 1
    assert facts["noise_scale"] is None


def test_quantiles_say_what_they_are_chosen_from(explained: Explained) -> None:
    facts = explained("SELECT MEDIAN(amount) AS m, PERCENTILE_CONT(amount, 0.9) AS q FROM orders")
    middle, upper = facts["numbers"]
    assert (middle["what"], upper["what"]) == ("quantile 0.5 of amount", "quantile 0.9 of amount")
    assert middle["cut"] == [
        "each value is cut to 0 to 50 (the declared bounds of orders.amount)",
        "10 rows of a user count in all groups, chosen by a hash",
        "chosen among 5,001 public values",
    ]
    assert re.fullmatch(r"its rank is off by at most \d+ rows", middle["predicted"])
    assert "values of amount outside 0 to 50 are cut (policy)" in facts["assumed"]
    assert any("chosen by a hash (policy)" in each for each in facts["assumed"])


def test_an_extreme_is_said_to_be_a_rank(explained: Explained) -> None:
    (number,) = explained("SELECT MAX(amount) AS m FROM orders")["numbers"]
    assert number["what"] == "largest of amount that enough units reach"
    assert "each user counts once" in number["cut"]
    assert re.match(r"the value that about \d+ units reach", number["predicted"])


FIGURES = re.compile(r"stddev ([\d.,]+), half-width ([\d.,]+)")


@pytest.mark.parametrize(
    "numbers",
    [
        "SUM(amount) AS s",
        "SUM(amount) AS s, AVG(amount) AS a, COUNT(*) AS n",
        "SUM(change) AS s, COUNT(*) AS n",
    ],
)
def test_the_predicted_error_is_that_of_the_release(
    session: Session, explained: Explained, numbers: str
) -> None:
    text = f"SELECT {numbers} FROM orders"
    table = released(session, text).table
    for each in explained(text)["numbers"]:
        name, found = each["name"], FIGURES.search(each["predicted"])
        if found is None:
            continue
        stddev, half = (float(figure.replace(",", "")) for figure in found.groups())
        assert table.column(f"{name}_stddev")[0].as_py() == pytest.approx(stddev, rel=0.01)
        low, high = (table.column(f"{name}_{end}")[0].as_py() for end in ("low", "high"))
        assert (high - low) / 2 == pytest.approx(half, rel=0.01)


def test_the_predicted_error_of_an_average_is_that_of_the_release(
    session: Session, explained: Explained
) -> None:
    """Values at the lower bound: there the prediction, which is the largest, is exact."""
    text = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 200)
      AVG(amount) AS a, COUNT(*) AS n FROM orders WHERE amount = 0"""
    table = released(session, text).table
    number = explained(text)["numbers"][0]
    stddev = float(present(re.search(r"at most ([\d.,]+) / n", number["predicted"]))[1].replace(",", ""))
    n = table.column("n")[0].as_py()
    assert table.column("a_stddev")[0].as_py() == pytest.approx(stddev / n, rel=0.05)


def test_tables_show_sums_and_averages_with_their_noise(session: Session) -> None:
    text = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 200)
      region, SUM(change) AS s, AVG(amount) AS a, STDDEV(amount) AS d FROM orders GROUP BY region"""
    release = released(session, text)
    for columns in (80, 120):
        drawn = as_table(release.rows, release, Style(columns)).splitlines()
        assert max(map(len, drawn)) <= columns
        for line in drawn[3:6]:
            _, region, total, average, deviation, *_ = (cell.strip() for cell in line.split("│"))
            assert region in ("n", "s", "e")
            assert re.fullmatch(r"-1\d,\d{3}\.\d ± \d\.\d", total)
            assert re.fullmatch(r"2\d\.\d+ ± 0\.\d+", average)
            assert re.fullmatch(r"1\d\.\d+ ± \d?\.?\d+", deviation)


def test_bars_of_negative_sums_end_at_zero(session: Session) -> None:
    text = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100)
      region, SUM(change) AS s FROM orders GROUP BY region"""
    release = released(session, text)
    heading, *rows = (
        line.split("│")[3]
        for line in as_table(release.rows, release, Style(80)).splitlines()[1:7]
        if "│" in line and "─" not in line
    )
    assert heading.strip().startswith("-1")
    assert heading.strip().endswith("0")
    assert all(row.rstrip().endswith("█") and row.strip().startswith(("█", "▒")) for row in rows)


@pytest.mark.parametrize(
    ("mechanism", "rest", "scale"),
    [
        ("NOISY_TOP_K", "ORDER BY s DESC LIMIT 2", 2 * 15),
        ("EXPONENTIAL", "ORDER BY s DESC LIMIT 1", 15),
        ("JOINT", "ORDER BY s DESC LIMIT 2", 2 * 15),
        ("HYBRID_TOP_K", "HAVING s >= 100 ORDER BY s DESC LIMIT 2", 2 * 15),
    ],
)
def test_an_order_by_a_sum_has_noise_for_its_range(
    session: Session, mechanism: str, rest: str, scale: int
) -> None:
    """One unit moves a sum by -3 to 12, so by 15; noise for counts of both directions would be for 24."""
    found: Any = private(session.prepare(signed(mechanism, rest))).method
    chosen = found.mechanism
    assert chosen.scale * chosen.loss.charge.epsilon == scale


def signed(mechanism: str, rest: str) -> str:
    return (
        f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = {mechanism}) region, "
        f"SUM(item, contribution_bounds_per_group => (-3, 12)) AS s FROM orders GROUP BY region {rest}"
    )
