"""The catalogue of a served policy: its views with their columns, and the server's version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql import __version__
from dpsql.policy import ServeConfig
from dpsql.serve.service import Service
from tests.served import ALICE, Accounts, client_of, run

POLICY = """
[budget]
epsilon = 10
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = [0, 1, 2]
page.complete = true
[tables.pages]
source = "pages.csv"
public = true
columns = { page = "INTEGER", price = "DECIMAL(12, 2)" }
[views.latest]
sql = "SELECT user_id, page FROM visits WHERE page < 1"
[views.prices]
sql = "SELECT page, price, SUM(page) OVER () AS total, 'x' AS kind FROM pages"
[views.counts]
sql = "SELECT page, COUNT(*) AS n FROM visits GROUP BY page"
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    rows = "SELECT i AS user_id, i % 3 AS page FROM range(200) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/visits.parquet'")
    (tmp_path / "pages.csv").write_text("page,price\n0,1.5\n")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    users: Any = Accounts(ALICE)
    made = Service(replace(ServeConfig()), tmp_path / "dpsql.toml", users)
    yield made
    made.close()


def test_the_columns_of_views_are_shown(service: Service) -> None:
    text = (
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) AS type FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind = 'v' ORDER BY c.relname, a.attnum"
    )
    found = run(client_of(service).answer(text)).table.to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("counts", "page", "bigint"),
        ("counts", "n", "double precision"),
        ("latest", "user_id", "bigint"),
        ("latest", "page", "bigint"),
        ("prices", "page", "integer"),
        ("prices", "price", "numeric(12,2)"),
        ("prices", "total", "numeric"),
        ("prices", "kind", "text"),
    ]
    assert not service.generation.database.ledger.entries()


def test_the_version_is_the_servers(service: Service) -> None:
    assert __version__ in str(run(client_of(service).answer("SELECT version()")).table.column(0)[0])


def test_a_question_asked_again_needs_no_planning(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(service)
    first = run(client.answer("SELECT relname FROM pg_class WHERE relkind = 'v'"))
    monkeypatch.setattr("dpsql.serve.statement_run.StatementRun.begin", None)
    assert run(client.answer("SELECT relname FROM pg_class WHERE relkind = 'v'")).table == first.table
    assert service.figures().statements == {("catalogue", "00000"): 2}
