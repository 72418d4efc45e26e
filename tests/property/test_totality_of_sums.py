# ruff: noqa: E501  statements read better unbroken
"""Whether a sum fails depends on no value: hostile numbers in every form of sums, averages and variances."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import duckdb
import pytest
from fuzz.amounts import Amounts, analysed, statement

from dpsql.kernel.tree import Cast, Expr
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import BIGINT
from tests.narrow import engine_of
from tests.support.claimed import certify_claims
from tests.support.exact import exact_of


@pytest.fixture(scope="module")
def amounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amounts]:
    yield from Amounts.open(tmp_path_factory.mktemp("amounts"), Random(20261122))


def test_a_sample_of_sums_fails_on_no_value(amounts: Amounts) -> None:
    rng = Random(3)
    for _ in range(8):
        amounts.check(rng, statement(rng))
    assert not amounts.findings, "\n".join(amounts.findings[:3])
    assert amounts.accepted > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_no_sum_fails_on_any_value(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    for made in Amounts.open(tmp_path, rng):
        for _ in range(1000):
            made.check(rng, statement(rng))
        print(f"{made.accepted} accepted, {made.refused} refused, {made.searches} search a bound")
        assert not made.findings, "\n".join(made.findings[:3])
        assert made.accepted > 600


@pytest.mark.parametrize("column", ["i8", "i16", "u8", "u32", "u64"])
def test_the_total_of_one_row_is_cut_in_a_type_that_holds_the_bounds(amounts: Amounts, column: str) -> None:
    found, bounds = (
        Amounts(amounts.session, amounts.connections),
        "contribution_bounds_per_group => (-3, 100)",
    )
    for name in ("SUM", "AVG"):
        found.check(Random(1), f"SELECT {name}({column}, {bounds}) AS n FROM one")
    assert (found.findings, found.accepted) == ([], 2)


def uncut(total: Expr) -> Expr:
    """Return a sum as BIGINT without the cut: NULL for no rows, and where it does not fit."""
    return Cast(total, BIGINT)


def test_a_sum_that_is_not_cut_is_noticed(amounts: Amounts, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("counted", "bound_searches"):
        monkeypatch.setattr(f"dpsql.kernel.tree.{module}.saturate", uncut)
    certify_claims(monkeypatch)
    found = Amounts(amounts.session, amounts.connections)
    for name in ("SUM", "AVG"):
        found.check(Random(1), f"SELECT {name}(i64) AS n FROM many WHERE i64 > 3 AND i64 < 3")
    assert (found.accepted, len(found.findings)) == (2, 4), "each in two ways"


LAST = {
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "UBIGINT": ("0", "18446744073709551615"),
    "DECIMAL(18,0)": ("-999999999999999999", "999999999999999999"),
    "DECIMAL(18,9)": ("-999999999.999999999", "999999999.999999999"),
    "DOUBLE": ("-inf", "inf"),
}
AGGREGATES = "SUM(x, {g}) AS a, AVG(x, {g}) AS b, STDDEV(x, {r}) AS c, SUM(y, {g}) AS d, AVG(y, {g}) AS e, STDDEV(y, {r}) AS f"
POLICY = """
[budget]
epsilon = 1
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 3
[tables.t]
source = "t.parquet"
unit = "user_id"
trust_source = true
"""


@pytest.mark.parametrize("rows", [1000, pytest.param(10**6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", LAST)
@pytest.mark.sampled(3)
def test_one_unit_with_many_rows_of_the_last_values(tmp_path: Path, kind: str, rows: int) -> None:
    low, high = LAST[kind]
    with duckdb.connect() as connection:
        cells = f"1 AS user_id, '{low}'::{kind} AS x, '{high}'::{kind} AS y"
        connection.execute(f"COPY (SELECT {cells} FROM range({rows})) TO '{tmp_path}/t.parquet'")
    (tmp_path / "dpsql.toml").write_text(POLICY, "utf-8")
    least, bounds = (0, "=> (0, 7)") if low == "0" else (-3, "=> (-3, 7)")
    listed = AGGREGATES.format(
        g=f"contribution_bounds_per_group {bounds}", r=f"contribution_bounds_per_row {bounds}"
    )
    with closing(Session(load(tmp_path / "dpsql.toml"))) as session:
        plan = analysed(session, f"SELECT {listed} FROM t")
        counts = engine_of(session).count(plan.compiled)
    found = [int(n[0]) * aggregate.step for n, aggregate in zip(exact_of(counts).n, plan.counts, strict=True)]
    assert found == [least, 1, 0, 3, 0, 0, 7, 0, 1, 0, 0, 3]
