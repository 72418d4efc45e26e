"""The rows that a unit adds to the cells of its values: at most C, chosen by its own rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.analysis import Plan
from dpsql.composition.prepared import PreparedPrivate
from dpsql.policy import load
from dpsql.session import Session
from tests.daily import daily
from tests.narrow import of_type

POLICY = """
[budget]
epsilon = 1
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.r]
source = "r.parquet"
unit = "u"
rows_per_unit = 3
"""
COLUMNS = "u BIGINT, k VARCHAR, i BIGINT, x DOUBLE, d DECIMAL(18, 2), t DATE, m TIMESTAMP"
KEYS = "k IN ('a', 'b', 'c')"
NUMBERS = "contribution_bounds_per_row => (-7, 20.5)"
DAYS = "contribution_bounds_per_row => ('2024-01-05', '2024-03-01')"
FREE = "WITH DIFFERENTIAL_PRIVACY OPTIONS (delta = 1e-6, max_groups_contributed = 2)"
STATEMENTS = {
    "integers": f"SELECT k, MEDIAN(i, {NUMBERS}) FROM r WHERE {KEYS} GROUP BY k",
    "doubles": f"SELECT k, QUANTILE_CONT(x, 0.9, {NUMBERS}) FROM r WHERE {KEYS} GROUP BY k",
    "decimals": f"SELECT MEDIAN(d, {NUMBERS}) FILTER (WHERE i > 0) FROM r",
    "dates": f"SELECT k, MEDIAN(t, {DAYS}) FROM r WHERE {KEYS} GROUP BY k",
    "timestamps": f"SELECT MEDIAN(m, {DAYS}) FROM r",
    "wide": "SELECT MEDIAN(i, contribution_bounds_per_row => (-9000000000000000, 9000000000000000)) FROM r",
    "undeclared": f"SELECT {FREE} k, MEDIAN(i, {NUMBERS}) FROM r GROUP BY k",
    "largest of undeclared": f"SELECT {FREE} k, MAX(i, {NUMBERS}) FROM r GROUP BY k",
    "largest": f"SELECT k, MAX(x, {NUMBERS}) FROM r WHERE {KEYS} GROUP BY k",
    "least": f"SELECT MIN(i, {NUMBERS}) FROM r",
}
CELLS = {"integers": 29, "doubles": 56321, "decimals": 2751, "dates": 57, "largest": 56321, "least": 29}
RESULTS = """
SELECT CASE WHEN random() < .1 THEN NULL WHEN random() < .3 THEN 7 ELSE (random() * 6)::BIGINT END AS u,
  ['a', 'b', 'c', 'other', NULL][1 + (random() * 4.9)::INTEGER] AS k,
  [0, 1, 5, -7, 21, 9223372036854775807, -9223372036854775808, NULL][1 + (random() * 7.9)::INTEGER] AS i,
  [0.5, -0.0, 1e300, 'nan'::DOUBLE, 'inf'::DOUBLE, '-inf'::DOUBLE, NULL, 3.25][1 + (random() * 7.9)::INTEGER]
    AS x,
  [1.25, -9999999999999999.99, 9999999999999999.99, NULL, 20.5][1 + (random() * 4.9)::INTEGER] AS d,
  ['2024-01-05', '2024-02-01', 'infinity', '-infinity', '5000000-01-01', NULL][1 + (random() * 5.9)::INTEGER]
    ::DATE AS t,
  ['2024-01-05', '2024-02-01 12:30:01.5', 'infinity', '-infinity', NULL][1 + (random() * 4.9)::INTEGER]
    ::TIMESTAMP AS m
FROM range({rows})
"""
Cell = tuple[Any, ...]


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    folder = tmp_path_factory.mktemp("cells")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE r({COLUMNS})")
        connection.execute(f"COPY r TO '{folder / 'r.parquet'}'")
    (folder / "policy.toml").write_text(POLICY)
    session = Session(load(folder / "policy.toml"))
    found = {name: of_type(session.prepare(sql), PreparedPrivate).plan for name, sql in STATEMENTS.items()}
    session.close()
    return found


@pytest.fixture
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE world({COLUMNS})")
        yield connection


def cells(raw: duckdb.DuckDBPyConnection, sql: str, rows: str) -> Counter[Cell]:
    """The rows of each group and cell, of some rows of the world."""
    raw.execute(f"CREATE OR REPLACE VIEW r AS {rows}")
    found = raw.execute(sql)
    assert found.description is not None
    names = [each[0] for each in found.description]
    listed = [*(place for place, name in enumerate(names) if name[0] == "k"), names.index("n0")]
    count = names.index("n1")
    return Counter({tuple(row[i] for i in listed): row[count] for row in found.fetchall() if row[count]})


def worlds(raw: duckdb.DuckDBPyConnection, number: int, seed: int) -> Iterator[list[int]]:
    """Fill the table with random rows, so often; yield its units."""
    rng = np.random.default_rng(seed)
    raw.execute(f"SELECT setseed({rng.random()})")
    for _ in range(number):
        raw.execute("DELETE FROM world")
        raw.execute(f"INSERT INTO world {RESULTS.format(rows=int(rng.integers(5, 60)))}")
        yield [
            u for (u,) in raw.sql("SELECT DISTINCT u FROM world WHERE u IS NOT NULL ORDER BY u").fetchall()
        ]


def removals(
    raw: duckdb.DuckDBPyConnection, sql: str, number: int, seed: int
) -> Iterator[tuple[Counter[Cell], Counter[Cell]]]:
    """Yield what each unit's removal takes away, and the cells of its rows alone."""
    for units in worlds(raw, number, seed):
        whole = cells(raw, sql, "SELECT * FROM world ORDER BY hash(i, x, k)")
        for unit in units:
            less = cells(raw, sql, f"SELECT * FROM world WHERE u IS DISTINCT FROM {unit}")
            alone = cells(raw, sql, f"SELECT * FROM world WHERE u = {unit}")
            lost = Counter({cell: whole[cell] - less[cell] for cell in {*whole, *less}})
            yield Counter({cell: n for cell, n in lost.items() if n}), alone


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.sampled(5)
def test_a_unit_adds_its_own_rows_and_at_most_so_many(
    name: str, plans: dict[str, Plan], raw: duckdb.DuckDBPyConnection
) -> None:
    plan, most = plans[name], 0
    part = plan.cells
    assert part is not None
    for lost, alone in removals(raw, plan.compiled.sql, 2, seed=len(name)):
        if name == "undeclared":  # the unit counts in two groups; rows in others show where others are
            assert alone <= lost, "what a unit keeps depends on others"
        else:
            assert lost == alone, "what a unit keeps depends on others"
        assert all(0 <= cell[-1] < part.cells.number for cell in lost)
        if part.extreme:
            assert all(n == 1 for n in Counter(cell[:-1] for cell in lost).values())
            assert set(lost.values()) <= {1}
            most = max(most, len(lost))
        else:
            # Where a group is there by this unit alone, delta covers what others have in it.
            own = alone if name == "undeclared" else lost
            assert own.total() <= part.most == 3
            most = max(most, own.total())
    bound = {"least": 1, "largest of undeclared": 2}.get(name, 3)
    assert most == bound, "the bound is not reached"


@pytest.mark.parametrize(("name", "number"), CELLS.items())
def test_the_cells_are_the_steps_between_the_bounds(name: str, number: int, plans: dict[str, Plan]) -> None:
    part = plans[name].cells
    assert part is not None
    assert part.cells.number == number


@pytest.mark.parametrize("name", ["largest", "least"])
def test_an_extreme_is_in_the_cell_of_the_units_own(
    name: str, plans: dict[str, Plan], raw: duckdb.DuckDBPyConnection
) -> None:
    sql, by_row = plans[name].compiled.sql, plans["doubles" if name == "largest" else "integers"].compiled.sql
    by_row = by_row.replace("> 3", "> 1000")
    for units in worlds(raw, 2, seed=5):
        for unit in units:
            rows = f"SELECT * REPLACE ('a' AS k) FROM world WHERE u = {unit}"
            own = {cell[-1] for cell in cells(raw, by_row, rows)}
            found = {cell[-1] for cell in cells(raw, sql, rows)}
            assert found == ({max(own) if name == "largest" else min(own)} if own else set())


@pytest.mark.parametrize("name", ["undeclared", "largest of undeclared"])
@pytest.mark.sampled(2)
def test_a_unit_is_counted_once_in_at_most_two_groups(
    name: str, plans: dict[str, Plan], raw: duckdb.DuckDBPyConnection
) -> None:
    sql, most = plans[name].compiled.sql, 0

    def units(rows: str) -> Counter[str]:
        raw.execute(f"CREATE OR REPLACE VIEW r AS {rows}")
        return Counter(dict(raw.sql(f"SELECT DISTINCT k0, n2 FROM ({sql})").fetchall()))

    for owners in worlds(raw, 2, seed=11):
        whole = units("SELECT * FROM world")
        for unit in owners:
            lost = whole - units(f"SELECT * FROM world WHERE u IS DISTINCT FROM {unit}")
            assert lost == units(f"SELECT * FROM world WHERE u = {unit}")
            assert set(lost.values()) <= {1}
            assert lost.total() <= 2
            most = max(most, lost.total())
    assert most == 2


MUTANTS = {
    "rows beyond the bound": ("z.r > 3", "z.r > 4"),
    "a unit just beyond the bound": ("v.n > 3", "v.n > 4"),
    "an order of equal rows that the engine chooses": (
        "ORDER BY hash(y.u, y.k0, y.f0, y.j), y.k0, y.f0, y.j",
        "ORDER BY y.u",
    ),
    "a bound for each group": ("OVER (PARTITION BY y.u ORDER", "OVER (PARTITION BY y.u, y.k0 ORDER"),
    "the bound of all units together": ("OVER (PARTITION BY y.u ORDER", "OVER (ORDER"),
    "a NULL cell": ("COUNT(h.f0)", "COUNT(*)"),
}


@pytest.mark.parametrize("mutant", daily(MUTANTS, 3))
def test_mutants_of_the_sample_are_caught(
    mutant: str, plans: dict[str, Plan], raw: duckdb.DuckDBPyConnection
) -> None:
    old, new = MUTANTS[mutant]
    sql = plans["integers"].compiled.sql
    assert old in sql
    sql = sql.replace(old, new)

    assert any(
        lost != alone or lost.total() > 3 or any(cell[-1] is None for cell in lost)
        for lost, alone in removals(raw, sql, 20, seed=9)
    )
