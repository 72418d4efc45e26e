"""Tables with one row for each row of their parent: a key that is itself the link to the next table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of
from tests.paths import put
from tests.support.exact import exact_of
from tests.unit.analysis.test_sql_fixtures import proved

POLICY = """
[budget]
epsilon = 10
ledger = "l.sqlite"
[tables.orders]
source = "orders.parquet"
unit = "user_id"
unique = [["order_id"]]
[tables.shipments]
source = "shipments.parquet"
unit = { via = "order_id", table = "orders", column = "order_id" }
unique = [["order_id"]]
[tables.scans]
source = "scans.parquet"
unit = { via = "order_id", table = "shipments", column = "order_id" }
[tables.invoices]
source = "invoices.parquet"
unit = { via = "order_id", table = "orders", column = "order_id" }
"""
DATA = {
    "orders": "SELECT i AS order_id, i % 12 AS user_id FROM range(40) AS r(i)",
    "shipments": "SELECT i AS order_id, i % 3 AS carrier FROM range(0, 44, 2) AS r(i)",
    "scans": "SELECT i % 50 AS order_id, i % 4 AS place FROM range(100) AS r(i)",
    "invoices": "SELECT i % 45 AS order_id, i AS amount FROM range(90) AS r(i)",
}
BOUNDED = "COUNT(*, contribution_bounds_per_group => (0, 1000))"
SHIPPED = "JOIN shipments USING (order_id) JOIN orders USING (order_id)"
STATEMENTS = {
    f"SELECT {BOUNDED} FROM scans": f"FROM scans {SHIPPED}",
    f"SELECT {BOUNDED} FROM scans JOIN shipments USING (order_id)": f"FROM scans {SHIPPED}",
    f"SELECT {BOUNDED} FROM scans JOIN orders USING (order_id)": f"FROM scans {SHIPPED}",
    f"SELECT {BOUNDED} FROM scans JOIN invoices USING (order_id)": f"FROM scans {SHIPPED} "
    "JOIN invoices USING (order_id)",
    f"SELECT {BOUNDED} FROM shipments s JOIN invoices i ON s.order_id = i.order_id": "FROM shipments "
    "JOIN orders USING (order_id) JOIN invoices USING (order_id)",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put(tmp_path_factory.mktemp("links"), DATA, POLICY).parent


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    found = Session(load(folder / "dpsql.toml"))
    yield found
    found.close()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_key_that_leads_on_ties_all_tables_of_the_path(
    session: Session, folder: Path, statement: str
) -> None:
    plan = proved(session, statement)
    with duckdb.cursor() as connection:
        for table in DATA:
            connection.execute(f"CREATE TEMP TABLE {table} AS FROM '{folder / table}.parquet'")
        expected = connection.execute(f"SELECT COUNT(*) {STATEMENTS[statement]}").fetchall()[0][0]
    assert expected > 20
    assert int(exact_of(engine_of(session).count(plan.compiled)).n[0][0]) == expected


def test_other_columns_tie_nothing(session: Session) -> None:
    with pytest.raises(QueryRefused, match="joined only on their privacy unit"):
        session.prepare(f"SELECT {BOUNDED} FROM scans s JOIN shipments t ON s.place = t.order_id")
