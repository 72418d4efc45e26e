"""The public bounds of the values of columns and expressions: where they come from and how they combine."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.analysis.blocks import query as compile_query
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.rules import RULES_BY_NODE
from dpsql.analysis.typed import Bounds
from dpsql.errors import PolicyError
from dpsql.language import Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, of_type, present

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


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("bounds")
    for name, query in {"orders": ORDERS, "products": PRODUCTS}.items():
        duckdb.sql(f"COPY ({query}) TO '{folder / name}.parquet'")
    (folder / "dpsql.toml").write_text(POLICY)
    found = Session(load(folder / "dpsql.toml"))
    yield found
    found.close()


def bounds(session: Session, text: str) -> Bounds | None:
    """Return the bounds of the first column of a query."""
    query = of_type(parse(text), Query)
    catalog = engine_of(session).schema_database
    compiler = StatementCompiler(query.source, session.policy, catalog, RULES_BY_NODE, compile_query)
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
