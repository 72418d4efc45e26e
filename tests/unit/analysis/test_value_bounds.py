"""The public bounds of the values of columns and expressions: where they come from and how they combine."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.known_subqueries import find_rule
from dpsql.analysis.select_blocks import compile_query
from dpsql.analysis.typed_expression import Bounds
from dpsql.errors import PolicyError
from dpsql.language import Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
[tables.orders.domain]
hour = { from = 0, to = 23 }
rate = [-1.5, 2.25, 0]
day = { from = 2024-01-01, to = 2024-12-31 }
placed = { from = 2024-01-01, to = 2024-12-31 }
code = { table = "products", column = "code" }
[tables.orders.bounds]
amount = { from = 0, to = 500 }
price = { from = -0.5, to = 99.5 }
score = { from = 0, to = 1, step = 0.001 }
hour = { from = 6, to = 18 }
paid = { from = 2024-02-01, to = 2024-02-29 }
sent = { from = 2024-02-01, to = 2024-02-29 }
[tables.products]
source = "products.parquet"
public = true
"""
ORDERS = """
SELECT i AS user_id, i AS amount, i AS note, i::DECIMAL(6,2) AS price, i::DOUBLE AS score, i::DOUBLE AS rate,
       i AS hour, i % 9 AS code, i % 2 = 0 AS late, DATE '2024-01-01' + i::INTEGER AS day,
       TIMESTAMP '2024-01-01' AS placed, DATE '2024-01-01' AS paid, TIMESTAMP '2024-01-01' AS sent,
       'a' AS name
FROM range(5) t(i)
"""
PRODUCTS = """
SELECT * FROM (VALUES
    (3, 0.25, 2.5::DOUBLE, DATE '2020-02-03', TIMESTAMP '1970-01-01 00:00:01', TRUE, 'x', NULL::INTEGER),
    (8, 7.75, 'nan'::DOUBLE, DATE 'infinity', TIMESTAMP 'infinity', FALSE, 'y', NULL),
    (5, 1.00, 'inf'::DOUBLE, DATE '5000000-01-01', TIMESTAMP '-infinity', NULL, NULL, NULL),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
) t(code, cost, weight, since, seen, new, label, empty)
"""
DAYS = {"2024-01-01": 19723, "2024-02-01": 19754, "2024-02-29": 19782, "2024-12-31": 20088}
MICROSECONDS = 86_400_000_000


session = world_fixture(POLICY, orders=ORDERS, products=PRODUCTS)


def bounds(session: Session, text: str) -> Bounds | None:
    """Return the bounds of the first column of a query."""
    query = of_type(parse(text), Query)
    catalog = engine_of(session).schema_database
    compiler = StatementCompiler(query.source, session.policy, catalog, find_rule, compile_query)
    return compile_query(compiler, query.tree, (), 1).columns[0].bounds


def ends(session: Session, text: str) -> tuple[Fraction, Fraction] | None:
    found = bounds(session, text)
    return None if found is None else (found.low, found.high)


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        ("amount", 0, 500),
        ("price", "-0.5", "99.5"),
        ("score", 0, 1),
        ("rate", "-1.5", "2.25"),  # the values of its domain
        ("hour", 6, 18),  # the bounds, not the domain
        ("code", 3, 8),  # the domain is a public column
        ("late", 0, 1),
        ("day", DAYS["2024-01-01"], DAYS["2024-12-31"]),
        ("placed", DAYS["2024-01-01"] * MICROSECONDS, (DAYS["2024-12-31"] + 1) * MICROSECONDS - 1),
        ("paid", DAYS["2024-02-01"], DAYS["2024-02-29"]),
        ("sent", DAYS["2024-02-01"] * MICROSECONDS, (DAYS["2024-02-29"] + 1) * MICROSECONDS - 1),
    ],
)
def test_bounds_of_a_private_column(session: Session, column: str, low: int | str, high: int | str) -> None:
    assert ends(session, f"SELECT {column} FROM orders") == (Fraction(low), Fraction(high))


@pytest.mark.parametrize("column", ["user_id", "note", "name"])
def test_a_private_column_of_which_nobody_said_anything_has_no_bounds(session: Session, column: str) -> None:
    assert bounds(session, f"SELECT {column} FROM orders") is None


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("code", (3, 8)),
        ("cost", ("0.25", "7.75")),
        ("weight", ("2.5", "2.5")),  # NaN and infinity do not count
        # The last date is beyond those of Python.
        ("since", (18295, 1_825_492_972)),
        ("seen", (1_000_000, 1_000_000)),
        ("new", (0, 1)),
        ("label", None),
        ("empty", None),
    ],
)
def test_a_public_column_has_the_bounds_of_its_values(
    session: Session, column: str, expected: tuple[int | str, int | str] | None
) -> None:
    found = ends(session, f"SELECT {column} FROM products")
    assert found == (None if expected is None else tuple(Fraction(e) for e in expected))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT x FROM (SELECT amount AS x FROM orders) AS s", (0, 500)),
        ("WITH s(y) AS (SELECT amount FROM orders) SELECT y FROM s", (0, 500)),
        ("SELECT amount FROM orders JOIN products USING (code)", (0, 500)),
        ("SELECT cost FROM orders LEFT JOIN products USING (code)", ("0.25", "7.75")),
        ("SELECT code FROM orders FULL JOIN orders AS o USING (user_id, code)", (3, 8)),
        ("SELECT amount FROM orders UNION ALL SELECT hour - 10 FROM orders", (-4, 500)),
        ("SELECT amount FROM orders UNION ALL SELECT price FROM orders", ("-0.5", 500)),
        ("SELECT amount FROM orders UNION ALL SELECT NULL FROM orders", (0, 500)),
        ("SELECT day FROM orders UNION ALL SELECT sent FROM orders", (1704067200000000, 1735603200000000)),
        ("SELECT amount FROM orders UNION ALL SELECT note FROM orders", None),
        ("SELECT code, user_id FROM orders EXCEPT SELECT amount, user_id FROM orders", (3, 8)),
        ("SELECT x FROM orders, (VALUES (1), (NULL), (-2)) AS v(x)", (-2, 1)),
        ("SELECT x FROM orders, (VALUES (1), (2.5)) AS v(x)", (1, "2.5")),
        ("SELECT amount FROM (SELECT amount, user_id FROM orders GROUP BY ALL) AS s", (0, 500)),
        ("SELECT MAX(amount) FROM orders GROUP BY user_id", (0, 500)),
        ("SELECT AVG(amount) FROM orders GROUP BY user_id", (0, 500)),
        ("SELECT MIN(day) FROM orders GROUP BY user_id", (DAYS["2024-01-01"], DAYS["2024-12-31"])),
        ("SELECT ARG_MAX(amount, day) FROM orders GROUP BY user_id", (0, 500)),
        ("SELECT SUM(amount) FROM orders GROUP BY user_id", None),
        ("SELECT COUNT(amount) FROM orders GROUP BY user_id", None),
        ("SELECT LIST(amount ORDER BY day) FROM orders GROUP BY user_id", None),
        ("SELECT SUM(amount) OVER (PARTITION BY user_id) FROM orders", None),
        (
            "SELECT amount FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY day) AS r "
            "FROM orders) AS s",
            (0, 500),
        ),
    ],
)
def test_bounds_pass_through_relations(
    session: Session, query: str, expected: tuple[int | str, int | str] | None
) -> None:
    assert ends(session, query) == (None if expected is None else tuple(Fraction(e) for e in expected))


def test_bounds_say_where_they_come_from(session: Session) -> None:
    found = {c: present(bounds(session, f"SELECT {c} FROM orders")) for c in ("amount", "rate", "score")}
    assert found["amount"].origin == "the declared bounds of orders.amount"
    assert found["rate"].origin == "the declared domain of orders.rate"
    assert (found["amount"].step, found["score"].step) == (None, Fraction(1, 1000))
    public = present(bounds(session, "SELECT code FROM products"))
    assert public.origin == "the values of products.code"
    both = "SELECT amount * cost + amount * 2 FROM orders JOIN products USING (code)"
    assert present(bounds(session, both)).origin == (
        "the declared bounds of orders.amount and the values of products.cost"
    )


def test_bounds_that_do_not_fit_a_column_of_the_source_are_refused(tmp_path: Path) -> None:
    for name, query in {"orders": ORDERS, "products": PRODUCTS}.items():
        duckdb.sql(f"COPY ({query}) TO '{tmp_path / name}.parquet'")
    path = tmp_path / "dpsql.toml"
    for written, says in [
        ("amonut = { from = 0, to = 500 }", "there is no column amonut"),
        ("amount = { from = 0, to = 500.5 }", "orders.bounds.amount.to: '500.5' is not a valid BIGINT"),
        ("name = { from = 0, to = 500 }", "orders.bounds.name: a column of type VARCHAR has no bounds"),
        ("day = { from = 0, to = 500 }", "orders.bounds.day: the bounds of a column of type DATE are dates"),
    ]:
        path.write_text(f"{POLICY.partition('[tables.orders.domain]')[0]}[tables.orders.bounds]\n{written}\n")
        with pytest.raises(PolicyError) as caught:
            Session(load(path))
        assert says in str(caught.value)


def test_decimals_are_exact(session: Session) -> None:
    found = present(bounds(session, "SELECT price * 0.1 FROM orders"))
    assert (found.low, found.high) == (Fraction(Decimal("-0.05")), Fraction(Decimal("9.95")))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT amount FROM orders WHERE amount BETWEEN 10 AND 200", (10, 200)),
        ("SELECT amount FROM orders WHERE amount < 200 AND hour = 3 AND -5 <= amount", (0, 199)),
        ("SELECT amount FROM orders WHERE amount > 9.5", (10, 500)),
        ("SELECT amount FROM orders WHERE amount <= 1e2", (0, 100)),
        ("SELECT amount FROM orders WHERE amount IN (3, 7, 5)", (3, 7)),
        ("SELECT amount FROM orders WHERE amount = 3 OR amount = 9", (3, 9)),
        ("SELECT amount FROM orders WHERE amount > 600", (0, 500)),  # nothing is left of the bounds
        ("SELECT amount FROM orders WHERE amount < 200 OR hour = 3", (0, 500)),
        ("SELECT amount FROM orders WHERE NOT amount < 200", (0, 500)),
        ("SELECT amount FROM orders WHERE amount < note", (0, 500)),
        ("SELECT amount FROM orders WHERE amount < 'nan'::DOUBLE", (0, 500)),
        ("SELECT amount FROM orders WHERE amount < NULL", (0, 500)),
        ("SELECT note FROM orders WHERE note BETWEEN -3 AND 8", (-3, 8)),
        ("SELECT note FROM orders WHERE note > -3", None),
        ("SELECT price FROM orders WHERE price > 1.25 AND price < 2", ("1.25", 2)),
        ("SELECT score FROM orders WHERE score >= 0.1", ("0.1", 1)),  # a DOUBLE is its shortest decimal
        ("SELECT day FROM orders WHERE day >= DATE '2024-02-01' AND day < '2024-03-01'", (19754, 19782)),
        (
            "SELECT placed FROM orders WHERE placed::DATE = '2024-02-01'",
            (19754 * MICROSECONDS, 19755 * MICROSECONDS - 1),
        ),
        ("SELECT amount * 2 FROM orders WHERE amount < 100", (0, 198)),
        ("SELECT amount * note FROM orders WHERE amount * note BETWEEN 0 AND 9", (0, 9)),
        (
            "SELECT amount * cost FROM orders JOIN products USING (code) WHERE cost <= 1 AND amount < 9",
            (0, 8),
        ),
        ("SELECT MAX(amount) FROM orders WHERE amount < 100 GROUP BY user_id", (0, 99)),
        ("SELECT x FROM (SELECT amount AS x FROM orders) AS s WHERE x < 100", (0, 99)),
        ("SELECT x FROM (SELECT code AS x FROM orders) AS s WHERE x < 5", (3, 4)),
        ("SELECT x FROM (SELECT amount AS x FROM orders WHERE amount < 100) AS s WHERE x > 5", (6, 99)),
        (
            "SELECT a.amount FROM orders AS a JOIN orders AS b ON a.user_id = b.user_id AND a.amount < 9",
            (0, 8),
        ),
        (
            "SELECT a.amount FROM orders AS a LEFT JOIN orders AS b "
            "ON a.user_id = b.user_id AND a.amount < 9",
            (0, 500),
        ),
    ],
)
def test_conditions_narrow_the_bounds_of_what_they_compare(
    session: Session, query: str, expected: tuple[int | str, int | str] | None
) -> None:
    assert ends(session, query) == (None if expected is None else tuple(Fraction(e) for e in expected))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("5", (5, 5)),
        ("-5", (-5, -5)),
        ("2.50", ("2.5", "2.5")),
        ("-1e3", (-1000, -1000)),
        ("amount + hour", (6, 518)),
        ("amount - hour", (-18, 494)),
        ("amount * -2", (-1000, 0)),
        ("price * price", ("-49.75", "9900.25")),
        ("-price", ("-99.5", "0.5")),
        ("abs(price)", (0, "99.5")),
        ("abs(-1 - amount)", (1, 501)),
        ("amount / hour", (0, Fraction(500, 6))),
        ("amount // -hour", (-83, 0)),
        ("amount / price", None),  # the interval holds 0
        ("hour / 4", ("1.5", "4.5")),
        ("floor(price)", (-1, 99)),
        ("ceil(price)", (0, 100)),
        ("round(price)", (-1, 100)),
        ("round(score, 2)", (0, 1)),
        ("trunc(price)", (0, 99)),
        ("price::INTEGER", (-1, 100)),
        ("price::DOUBLE", ("-0.5", "99.5")),
        ("score::DECIMAL(4, 1)", (0, 1)),
        ("(price * 0.01)::DECIMAL(4, 1)", ("-0.1", 1)),
        ("late::INTEGER", (0, 1)),
        ("(amount > 3)::INTEGER * 10", (0, 10)),
        ("CASE WHEN late THEN amount ELSE -1 END", (-1, 500)),
        ("CASE WHEN late THEN amount END", (0, 500)),
        ("CASE WHEN late THEN amount ELSE note END", None),
        ("CASE hour WHEN 1 THEN 2.5 WHEN 2 THEN NULL ELSE price END", ("-0.5", "99.5")),
        ("COALESCE(amount, -7)", (-7, 500)),
        ("COALESCE(NULL, amount)", (0, 500)),
        ("IF(late, 1, 0)", (0, 1)),
        ("IF(late, amount)", (0, 500)),
        ("NULLIF(amount, 3)", (0, 500)),
        ("GREATEST(price, 5)", (5, "99.5")),
        ("GREATEST(price, amount)", ("-0.5", 500)),  # either may be NULL
        ("LEAST(amount, 5)", (0, 5)),
        ("LEAST(GREATEST(amount, 10), 300)", (10, 300)),
        ("hour(placed)", (0, 23)),
        ("EXTRACT(month FROM day) - 1", (0, 11)),
        ("day - paid", None),
        ("day + 7", None),
        ("day::TIMESTAMP", (19723 * MICROSECONDS, 20088 * MICROSECONDS)),
        ("sent::DATE", (19754, 19782)),
        ("EXTRACT(epoch FROM sent - placed)", None),
        ("amount + note", None),
        ("sqrt(amount)", None),
        ("length(name)", None),
        ("NULL::INTEGER", None),
    ],
)
def test_bounds_of_an_expression(
    session: Session, expression: str, expected: tuple[int | str | Fraction, int | str | Fraction] | None
) -> None:
    found = ends(session, f"SELECT {expression} FROM orders")
    assert found == (None if expected is None else tuple(Fraction(e) for e in expected))


def test_the_ends_of_an_expression_do_not_grow_without_a_limit(session: Session) -> None:
    text = "SELECT price * 1.01 AS x FROM orders"
    for _ in range(12):
        text = f"SELECT x * x AS x FROM ({text}) AS s"
    assert bounds(session, text) is None
