"""A new owner's shop: `dpsql init` protects customers in every private table, `dpsql check` agrees."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpsql.cli import main
from dpsql.policy import UnitColumn, UnitVia, load

SECONDS = 60
TABLES = {
    "customers": "SELECT i AS customer_id, 'c' || i AS name FROM range(40) AS r(i)",
    "order_items": "SELECT i // 3 AS order_id, i % 5 AS product_id, i % 4 AS n FROM range(600) AS r(i)",
    "orders": "SELECT i AS order_id, i % 40 AS customer_id, i % 3 = 0 AS paid FROM range(200) AS r(i)",
    "products": "SELECT i AS product_id, 'p' || i AS title FROM range(5) AS r(i)",
}
JOINED = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(DISTINCT o.customer_id) AS n "
    "FROM orders AS o JOIN order_items AS i ON o.order_id = i.order_id"
)


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture(params=["duckdb", "parquet", "csv"])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    kind = request.param
    with duckdb.connect(str(tmp_path / "shop.duckdb") if kind == "duckdb" else ":memory:") as connection:
        for name, sql in TABLES.items():
            if kind == "duckdb":
                connection.execute(f"CREATE TABLE {name} AS {sql}")
            else:
                connection.execute(f"COPY ({sql}) TO '{tmp_path / name}.{kind}' (FORMAT {kind})")
    return ["shop.duckdb"] if kind == "duckdb" else [f"{name}.{kind}" for name in TABLES]


@pytest.fixture
def dpsql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command in the shop's folder, with nobody at a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)

    def go(*args: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        code = main(list(args))
        return Done(code, *capfd.readouterr())

    return go


def protects_customers(dpsql: Run) -> None:
    """The policy protects customers in all private tables, is true of the data, and answers for customers."""
    tables = load("dpsql.toml").tables
    assert tables["customers"].unit == tables["orders"].unit == UnitColumn("customer_id")
    assert tables["order_items"].unit == UnitVia("order_id", "orders", "order_id")
    assert tables["orders"].unique == (("order_id",),)
    assert tables["products"].public
    checked = dpsql("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "order_id is unique" in checked.stdout
    notes = [line for line in checked.stdout.splitlines() if line.startswith("note ")]
    noted = [line for line in notes if ".columns" not in line]  # of CSV files: what texts could be
    assert len(noted) == 1, "init proposes the fact in a comment, check tells that the rows agree"
    assert "customer_id names each of 40 rows once" in noted[0]
    assert '# unique = [["customer_id"]]' in Path("dpsql.toml").read_text()
    explained = dpsql("-c", f"EXPLAIN {JOINED}")
    assert "COUNT(DISTINCT" in explained.stdout
    answered = dpsql("--format", "csv", "-c", JOINED.replace("0.5", "4"))
    assert answered.returncode == 0, answered.stderr
    # 40 customers; Laplace noise of scale 1/4 is beyond 10 with probability 1e-17.
    assert abs(float(answered.stdout.split()[1]) - 40) < 10


@pytest.mark.sampled(2)
def test_flags_alone(sources: list[str], dpsql: Run) -> None:
    done = dpsql("init", *sources, "--unit", "customer_id", "--public", "products", "--epsilon", "5")
    assert done.returncode == 0, done.stderr
    assert "its order_id names a row of orders" in done.stderr
    protects_customers(dpsql)


@pytest.mark.parametrize("sources", ["parquet"], indirect=True)
def test_a_link_that_is_written(sources: list[str], dpsql: Run) -> None:
    units = ("--unit", "customer_id", "--unit", "order_items=orders.order_id")
    done = dpsql("init", *sources, *units, "--public", "products", "--epsilon", "5")
    assert done.returncode == 0, done.stderr
    protects_customers(dpsql)


@pytest.mark.sampled(3)
def test_enter_for_everything_but_what_is_public(sources: list[str], dpsql: Run, tmp_path: Path) -> None:
    ours, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsql.cli", "init", *sources, "--public", "products", "--epsilon", "5"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "TERM": "dumb"},
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    seen, answered, deadline = "", 0, time.monotonic() + SECONDS
    try:
        while select.select([ours], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # the other end is closed: it has ended
                break
            seen += data.decode()
            while answered < len(
                asked := re.findall(r"(?:PUBLIC|none\)|type of \S+)(?: \[[^]]*\])?: ", seen)
            ):
                answered += 1
                os.write(ours, b"\n")
    finally:
        if time.monotonic() > deadline:
            process.kill()
        code = process.wait(SECONDS)
        os.close(ours)
    assert code == 0, seen
    assert asked
    protects_customers(dpsql)


@pytest.mark.parametrize("sources", ["parquet"], indirect=True)
def test_rows_instead_of_customers_are_warned_of(sources: list[str], dpsql: Run, tmp_path: Path) -> None:
    units = ("--unit", "customer_id", "--unit", "order_items=ROW")
    done = dpsql("init", *sources, *units, "--public", "products", "--epsilon", "5")
    assert done.returncode == 0, done.stderr
    assert "order_items: ROW protects single rows" in done.stderr
    checked = dpsql("check").stdout
    *single, note = [line for line in checked.splitlines() if line.startswith("note")]
    assert all("names each of 40 rows once" in line for line in single)
    assert "order_id" in note or "names a row of orders" in note
    assert "only one row of order_items is protected" in note
    assert 'unit = { via = "order_id", table = "orders", column = "order_id" }' in note
    explained = dpsql(
        "-c",
        "EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM order_items",
    )
    assert "adding or removing one row of order_items changes" in " ".join(explained.stdout.split())
    policy = tmp_path / "dpsql.toml"
    policy.write_text(policy.read_text().replace('unit = "ROW"', 'unit = "ROW"\nunit_kind = "unit"'))
    refused = dpsql("check")
    assert refused.returncode == 2
    assert "tables.order_items.unit_kind: is 'unit' as in 'customers'" in refused.stderr
