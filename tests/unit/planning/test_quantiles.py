"""Quantiles and extremes of whole statements: near what plain SQL says, in the argument's type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import present

ROWS = 5_000
POLICY = """
[budget]
epsilon = 1e9
delta = 1e-3
default_epsilon = 100000
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unit_kind = "customer"
rows_per_unit = 12
[tables.orders.domain]
city.values = ["a", "b", "c", "nowhere"]
city.complete = true
[tables.orders.bounds]
amount = { from = 0, to = 500 }
fee = { from = 0, to = 50 }
quantity = { from = 0, to = 50 }
day = { from = 2024-01-01, to = 2024-12-31 }
moment = { from = 2024-01-01, to = 2024-12-31 }
odd = { from = 0, to = 100 }
[tables.free]
source = "free.parquet"
unit = "user_id"
rows_per_unit = 10
[tables.free.bounds]
amount = { from = 0, to = 500 }
[tables.one]
source = "one.parquet"
unit = "user_id"
unique = [["user_id"]]
"""
DATA = f"""
CREATE TABLE orders AS SELECT i // 10 AS user_id, ['a', 'b', 'c'][1 + i % 3] AS city,
  (i * 7919 % 5000) / 10 AS amount, CAST((i * 77 % 5000) / 100 AS DECIMAL(9, 2)) AS fee,
  CAST(i * 31 % 50 AS INTEGER) AS quantity, DATE '2024-01-01' + CAST(i * 13 % 366 AS INTEGER) AS day,
  TIMESTAMP '2024-01-01' + to_seconds(i * 99991 % 31000000) AS moment,
  [NULL, 'NaN'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE, 10, 20, 30][1 + i % 7] AS odd
FROM range({ROWS}) AS r(i)
"""
ONE = "CREATE TABLE one AS SELECT i AS user_id, CAST(i % 200 - 100 AS TINYINT) AS t FROM range(1000) AS r(i)"
FREE = """
CREATE TABLE free AS SELECT user_id, CASE WHEN user_id < 2 THEN 'rare' ELSE 'item' || user_id % 3 END AS item,
  amount FROM orders
"""


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(DATA)
        connection.execute(ONE)
        connection.execute(FREE)
        yield connection


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Path:
    made = tmp_path_factory.mktemp("quantiles")
    for table in ("orders", "one", "free"):
        raw.execute(f"COPY {table} TO '{made / table}.parquet'")
    (made / "policy.toml").write_text(POLICY)
    return made


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    found = Session(load(folder / "policy.toml"))
    yield found
    found.close()


def answered(session: Session, statement: str) -> Release:
    return present(session.run(statement).release)


def number(value: object) -> float:
    if isinstance(value, datetime):
        return (value - datetime(2024, 1, 1)).total_seconds()
    if isinstance(value, date):
        return float(value.toordinal())
    assert isinstance(value, int | float | Decimal), value
    return float(value)


@pytest.mark.parametrize(
    ("statement", "within"),
    [
        ("SELECT MEDIAN(amount), QUANTILE_CONT(amount, 0.9), QUANTILE_CONT(amount, 0.01) FROM orders", 0.2),
        ("SELECT QUANTILE_DISC(quantity, 0.25), QUANTILE(quantity, 0.8) FROM orders", 1),
        ("SELECT PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY amount DESC) FROM orders", 0.2),
        ("SELECT PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY day) FILTER (WHERE city = 'a') FROM orders", 1),
        ("SELECT QUANTILE_DISC(moment, 0.7) FROM orders WHERE quantity > 10", 20_000),
        ("SELECT QUANTILE_DISC(fee, 0.5), MIN(fee), MAX(fee) FROM orders", 0.05),
        ("SELECT MIN(amount), MAX(amount), MIN(quantity), MAX(quantity) FROM orders", 0.3),
        ("SELECT MIN(day), MAX(day) FROM orders WHERE day BETWEEN '2024-03-01' AND '2024-04-30'", 1),
        ("SELECT MAX(moment), MIN(moment) FROM orders", 90_000),
        (
            "SELECT city, MEDIAN(amount) AS m FROM orders WHERE city < 'c' GROUP BY city ORDER BY city",
            1,
        ),
        ("SELECT city, MAX(day) AS m FROM orders WHERE city <> 'nowhere' GROUP BY city ORDER BY city", 1),
        ("SELECT MEDIAN(amount * 2 + quantity) FROM orders", 1.5),
        ("SELECT MEDIAN(t), MIN(t), MAX(t) FROM one", 1),
        ("SELECT MAX(day) - MIN(day) AS days FROM orders", 1),
        (
            "SELECT city, COUNT(*) AS n, MEDIAN(amount) AS m, SUM(quantity) AS s, MAX(fee) AS f, "
            "COUNT(DISTINCT user_id) AS u FROM orders WHERE city <> 'b' OR day > '2024-06-30' GROUP BY city "
            "ORDER BY n DESC LIMIT 3",
            1,
        ),
        (
            "SELECT city, ROUND(MEDIAN(amount), -1) AS m FROM orders WHERE city <> 'nowhere' GROUP BY city "
            "HAVING MEDIAN(amount) > 100 ORDER BY city DESC",
            0.1,
        ),
        (
            "SELECT city FROM orders WHERE city <> 'nowhere' AND (city <> 'b' OR amount > 200) GROUP BY city "
            "ORDER BY MEDIAN(amount) DESC LIMIT 1",
            0,
        ),
        (
            "SELECT MAX(m) - MIN(m) AS spread FROM (SELECT city, MEDIAN(amount) AS m FROM orders "
            "WHERE city <> 'nowhere' GROUP BY city) AS c",
            0.3,
        ),
    ],
)
@pytest.mark.sampled(3)
def test_a_statement_says_what_plain_sql_says(
    session: Session, raw: duckdb.DuckDBPyConnection, statement: str, within: float
) -> None:
    found, meant = answered(session, statement).rows, raw.sql(statement)
    assert found.column_names == meant.columns or "(" in "".join(meant.columns)
    rows, expected = list(zip(*(c.to_pylist() for c in found.columns), strict=True)), meant.fetchall()
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        for value, exact in zip(row, other, strict=True):
            if isinstance(exact, str):
                assert value == exact
            else:
                assert abs(number(value) - number(exact)) <= within, (row, other)


def test_results_have_the_type_of_the_argument(session: Session) -> None:
    rows = answered(
        session,
        "SELECT MEDIAN(quantity) AS a, QUANTILE_DISC(quantity, 0.5) AS b, MAX(quantity) AS c, "
        "QUANTILE_DISC(fee, 0.5) AS d, MEDIAN(fee) AS e, MEDIAN(day) AS f, MAX(moment) AS g FROM orders",
    ).rows
    assert [str(column.type) for column in rows.columns] == [
        *("double", "int64", "int64", "decimal128(9, 2)", "double", "date32[day]", "timestamp[us]")
    ]


def test_nan_and_null_do_not_count_and_infinity_is_cut(session: Session) -> None:
    rows = answered(
        session,
        "SELECT QUANTILE_CONT(odd, 0.1) AS a, QUANTILE_CONT(odd, 0.3) AS b, MEDIAN(odd) AS c, "
        "QUANTILE_CONT(odd, 0.9) AS d FROM orders",
    ).rows.to_pylist()[0]
    assert [rows[name] for name in "abcd"] == pytest.approx([0, 10, 20, 100], abs=0.01)


def test_values_beyond_the_bounds_are_at_them(session: Session) -> None:
    rows = answered(
        session,
        "SELECT MEDIAN(amount, contribution_bounds_per_row => (300, 400)) AS a, "
        "MEDIAN(amount, contribution_bounds_per_row => (-20.5, -10)) AS b, "
        "MEDIAN(day, contribution_bounds_per_row => (DATE '2030-01-01', DATE '2031-01-01')) AS c, "
        "MAX(moment, contribution_bounds_per_row => ('2020-01-01', '2020-01-02')) AS d FROM orders",
    ).rows.to_pylist()[0]
    assert rows == {
        "a": 300.0,
        "b": -10.0,
        "c": date(2030, 1, 1),
        "d": datetime(2020, 1, 2),
    }


def test_a_group_without_rows_has_a_value_between_the_bounds(session: Session) -> None:
    statement = "SELECT city, MEDIAN(amount) AS m, MIN(day) AS d, COUNT(*) AS n FROM orders GROUP BY city"
    rows = {row["city"]: row for row in answered(session, statement).rows.to_pylist()}
    assert set(rows) == {"a", "b", "c", "nowhere"}
    assert 0 <= rows["nowhere"]["m"] <= 500
    assert date(2024, 1, 1) <= rows["nowhere"]["d"] <= date(2024, 12, 31)
    assert abs(rows["nowhere"]["n"]) < 1


def test_rows_of_the_bounds_of_where_are_narrower(session: Session) -> None:
    rows = answered(session, "SELECT MEDIAN(amount) AS m FROM orders WHERE amount BETWEEN 100 AND 101")
    assert 100 <= rows.rows.to_pylist()[0]["m"] <= 101


def test_counts_beside_a_quantile_keep_their_intervals(session: Session) -> None:
    made = answered(session, "SELECT city, COUNT(*) AS n, MEDIAN(amount) AS m FROM orders GROUP BY city")
    assert {"n_stddev", "n_low", "n_high"} <= set(made.table.column_names)
    assert not np.isnan(made.table.column("n_stddev").to_numpy()).any()
    assert len(made.parts) == 2
    assert {part.charge.epsilon for part in made.parts} == {50_000}
    assert made.charge.epsilon == 100_000


def test_quantiles_of_one_column_are_one_release(session: Session) -> None:
    made = answered(
        session, "SELECT MEDIAN(fee) AS a, QUANTILE_DISC(fee, 0.9) AS b FROM orders WHERE city = 'b'"
    )
    assert not made.parts
    assert made.charge.epsilon == 100_000


def test_the_same_quantile_is_not_charged_twice_and_another_is(session: Session) -> None:
    first = answered(session, "SELECT QUANTILE_CONT(amount, 0.41) AS q FROM orders")
    again = answered(session, "SELECT QUANTILE_CONT(amount, 0.41) AS q FROM orders")
    other = answered(session, "SELECT QUANTILE_CONT(amount, 0.42) AS q FROM orders")
    assert first.number == again.number
    assert again.reused is not None
    assert other.number != first.number


def explained(session: Session, statement: str) -> dict[str, str]:
    table = session.run(f"EXPLAIN {statement}").table
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_explain_predicts_the_error_of_the_rank(session: Session) -> None:
    found = explained(session, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) MEDIAN(t) FROM one")
    assert found["mechanism"] == "exponential mechanism over 256 cells"
    assert float(found["rank_error"]) == pytest.approx(np.log(256 / 0.05), rel=1e-3)
    assert found["epsilon"] == "1"
    assert "predicted_stddev" not in found


def test_explain_says_what_an_extreme_is(session: Session) -> None:
    found = explained(
        session, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) MAX(amount) FROM orders"
    )
    assert "MAX(amount) is the value that about 29 units reach, not the largest" in found["warnings"]


def test_a_quantile_near_an_end_has_a_warning(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
    found = explained(session, f"SELECT {options} QUANTILE_CONT(amount, 0.99) FROM orders")
    assert "QUANTILE_CONT(amount, 0.99) is unreliable for fewer than" in found["warnings"]
    found = explained(session, f"SELECT {options} QUANTILE_CONT(amount, 0.75) FROM orders")
    assert "unreliable" not in found.get("warnings", "")
    found = explained(session, f"SELECT {options} t > 0 AS up, MEDIAN(t) AS m FROM one GROUP BY t > 0")
    assert "m is unreliable in groups of fewer than" in found["warnings"]


def test_how_few_rows_are_too_few_follows_from_the_bound_that_is_found(folder: Path, tmp_path: Path) -> None:
    """The largest bound that a search may find, of 2^20 rows, would say it of any group."""
    text = POLICY.replace("rows_per_unit = 12\n", "")
    (tmp_path / "open.toml").write_text(text.replace('source = "', f'source = "{folder}/'))
    session = Session(load(tmp_path / "open.toml"))
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5)"
    sql = f"SELECT {options} city, MEDIAN(amount) AS m FROM orders GROUP BY city"
    try:
        said = explained(session, sql)["warnings"]
        assert "unreliable follows from the bound that is found" in said
        assert "fewer than" not in said
        told = present(session.run(sql).release).warnings
    finally:
        session.close()
    (fewest,) = [note for note in told if "m is unreliable in groups of fewer than" in note]
    assert int(fewest.split()[-2].replace(",", "")) < ROWS
    assert not any("follows from the bound" in note for note in told)


def test_the_policy_may_refuse_extremes(folder: Path, tmp_path: Path) -> None:
    text = POLICY.replace("[tables.orders]", "[defaults]\nextremes = false\n[tables.orders]", 1)
    (tmp_path / "strict.toml").write_text(text.replace('source = "', f'source = "{folder}/'))
    strict = Session(load(tmp_path / "strict.toml"))
    with pytest.raises(QueryRefused, match="the policy does not release MAX") as caught:
        strict.prepare("SELECT MAX(amount) FROM orders")
    assert caught.value.obstacles[0].hint == "PERCENTILE_CONT(x, 0.99)"
    strict.prepare("SELECT MEDIAN(amount) FROM orders")
    strict.close()


def test_the_extremes_of_many_groups_share_epsilon_among_those_of_a_unit(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1{})"
    every, few = (
        explained(session, f"SELECT {options.format(more)} city, MAX(amount) FROM orders GROUP BY city")
        for more in ("", ", max_groups_contributed = 2")
    )
    assert float(every["noise_scale"]) == 8
    assert float(few["noise_scale"]) == 4


UNDECLARED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6, max_groups_contributed = 1)"
)


def test_groups_of_undeclared_keys_are_found_by_their_units(
    session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    statement = "item, MEDIAN(amount) AS m, QUANTILE_CONT(amount, 0.9) AS q FROM free GROUP BY item"
    rows = answered(session, f"{UNDECLARED} {statement} ORDER BY item DESC").rows.to_pylist()
    meant = {row[0]: row[1:] for row in raw.sql(f"SELECT {statement}").fetchall()}
    assert [row["item"] for row in rows] == ["item2", "item1", "item0"]  # not that of two units
    for row in rows:
        m, q = meant[row["item"]]
        assert abs(row["m"] - m) < 60
        assert abs(row["q"] - q) < 60


def test_groups_of_undeclared_keys_cost_epsilon_and_delta_once(session: Session) -> None:
    made = answered(session, f"{UNDECLARED} item, MAX(amount) AS m FROM free GROUP BY item LIMIT 2")
    assert made.charge.epsilon == 2
    assert made.charge.delta == Fraction(1, 10**6)
    assert made.rows.num_rows == 2
    found = explained(session, f"{UNDECLARED} item, MAX(amount) AS m FROM free GROUP BY item")
    assert found["split"] == "1 for existence, 1 for the extreme"
    assert float(found["noise_scale"]) == 2  # half of epsilon, one group a unit


def test_no_group_of_undeclared_keys_is_shown_where_none_is(session: Session) -> None:
    statement = f"{UNDECLARED} item, MEDIAN(amount) AS m FROM free WHERE amount < 0 GROUP BY item"
    assert answered(session, statement).rows.num_rows == 0


def test_quantiles_beside_a_selection_of_undeclared_keys(session: Session) -> None:
    made = answered(
        session,
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000, delta = 1e-6, max_groups_contributed = 1) "
        "item, COUNT(DISTINCT user_id) AS n, MEDIAN(amount) AS m FROM free GROUP BY item "
        "ORDER BY n DESC LIMIT 2",
    )
    assert made.rows.num_rows == 2
    assert all(row["n"] > 160 and 200 < row["m"] < 300 for row in made.rows.to_pylist())
    assert sum(part.charge.delta for part in made.parts) == made.charge.delta == Fraction(1, 10**6)


def test_bounds_and_rows_are_found_privately(session: Session) -> None:
    """The bound is the least power of two above all values, 512, or some powers more.

    A power costs at least 5/2 of the scale of the choice's noise, at any epsilon: so t powers too many have a
    probability of at most e^(-5 t/2)/2, and seven or more, at which this fails, of less than 2e-8.
    """
    statement = "SELECT MEDIAN(amount, contribution_bounds => AUTO) AS m FROM orders"
    made = answered(session, statement)
    (found,) = re.findall(r"values above ([\d,]+)", " ".join(made.properties.values()))
    bound = int(found.replace(",", ""))
    assert bound in [512 << t for t in range(7)]
    assert made.rows.to_pylist()[0]["m"] == pytest.approx(250, abs=1 + bound / 32768)
