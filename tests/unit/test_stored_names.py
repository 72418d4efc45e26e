"""Test that statements may name tables as the owner's database does, with a schema."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1e12
max_epsilon_per_query = 1e9
default_epsilon = 10000
ledger = "ledger.sqlite"
[database]
path = "shop-data.duckdb"
[tables.shop_orders]
source = "shop.orders"
unit = "customer"
[tables.customers]
source = "shop.customers"
unit = "customer"
unique = [["customer"]]
[tables.countries]
source = "geo.countries"
public = true
unique = [["code"]]
"""
DATA = """
CREATE SCHEMA shop;
CREATE SCHEMA geo;
CREATE SCHEMA other;
CREATE TABLE shop.orders AS SELECT i AS id, i % 100 AS customer, i % 7 AS cost FROM range(1000) t(i);
CREATE TABLE shop.customers AS SELECT i AS customer, ['DE', 'FR'][1 + i % 2] AS code FROM range(100) t(i);
CREATE TABLE other.customers AS FROM shop.customers;
CREATE TABLE geo.countries AS FROM (VALUES ('DE', 'Germany'), ('FR', 'France')) t(code, name);
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("stored")
    with duckdb.connect(str(folder / "shop-data.duckdb")) as con:
        con.execute(DATA)
    (folder / "dpsql.toml").write_text(POLICY)
    opened = Session(str(folder / "dpsql.toml"), "tester")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(DISTINCT customer) AS n FROM shop.orders",
        "SELECT COUNT(DISTINCT orders.customer) AS n FROM Shop.Orders WHERE shop.orders.cost < 7",
        """SELECT COUNT(DISTINCT o.customer) AS n
           FROM "shop-data".shop.orders o JOIN shop.customers c USING (customer)""",
        "WITH orders AS (SELECT * FROM shop.orders) SELECT COUNT(DISTINCT customer) AS n FROM orders",
        """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (dialect = 'BIGQUERY') COUNT(DISTINCT customer) AS n
           FROM shop-data.shop.orders""",
        "SELECT SUM(n) AS n FROM (SELECT g.name, COUNT(DISTINCT c.customer) AS n FROM shop.customers c "
        "JOIN geo.countries g ON g.code = c.code GROUP BY g.name)",
    ],
)
def test_a_table_is_named_as_in_the_database(session: Session, sql: str) -> None:
    (row,) = session.run(sql).table.to_pylist()
    assert row["n"] == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize(
    "named",
    ["other.customers", "orders", "main.orders", "geo.orders", "elsewhere.shop.orders", "shop.shop_orders"],
)
def test_other_names_are_refused(session: Session, named: str) -> None:
    with pytest.raises(QueryRefused, match="there is no table"):
        session.prepare(f"SELECT COUNT(DISTINCT customer) FROM {named}")
