"""Integer arithmetic at extremes: DuckDB's on HUGEINT wherever that has a value, and no row is ever lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from random import Random

import duckdb
import pytest
from fuzz.amounts import analysed
from fuzz.integers import BEYOND, COLUMNS, POLICY, UNSURE, Predicate, predicates, rows

from dpsql.analysis import total_forms
from dpsql.engines.duckdb import duckdb_settings
from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.support.world import open_world

SEED = 20261128


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_settings.connect() as connection:
        kinds = {"user_id": "BIGINT", **COLUMNS}
        connection.execute(f"CREATE TABLE t ({', '.join(f'{c} {k}' for c, k in kinds.items())})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [tuple(r.values()) for r in rows()])
        yield connection


@pytest.fixture(scope="module")
def session(engine: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("integers")
    engine.execute(f"COPY t TO '{folder}/t.parquet'")
    with open_world(folder, POLICY) as opened:
        yield opened


def counted(session: Session, engine: duckdb.DuckDBPyConnection, condition: str) -> int:
    plan = analysed(session, f"SELECT COUNT(*) AS n FROM t WHERE {condition}")
    return int(engine.execute(plan.compiled.sql).fetchall()[0][0])


def wrong(session: Session, engine: duckdb.DuckDBPyConnection, one: Predicate) -> str:
    """Say where a predicate's counts of true and false differ from those of whole numbers."""
    truth = [one.of(row) for row in rows()]
    yes, no = (counted(session, engine, text) for text in (one.text, f"NOT ({one.text})"))
    beyond, unsure = truth.count(BEYOND), truth.count(UNSURE)
    there, sure = len(truth) - truth.count(None), truth.count(True)
    if there - unsure <= yes + no <= there and sure <= yes <= sure + beyond + unsure:
        return ""
    return f"{one.text}: {yes} and {no}; {sure}, {truth.count(False)}, {beyond} and {unsure}"


def exact_in_duckdb(engine: duckdb.DuckDBPyConnection, one: Predicate) -> bool:
    """Return whether DuckDB computes a predicate on HUGEINT with the truth that it has here."""
    cells = ", ".join(f"{c}::HUGEINT AS {c}" for c in COLUMNS)
    try:
        found = engine.execute(f"SELECT count(*) FROM (SELECT {cells} FROM t) WHERE {one.text}").fetchall()
    except duckdb.Error:
        return False
    return bool(found[0][0] == [one.of(row) for row in rows()].count(True))


@pytest.mark.parametrize("size", [16, pytest.param(3_000, marks=pytest.mark.slow)])
def test_predicates_are_those_of_128_bits_and_lose_no_row(
    session: Session, engine: duckdb.DuckDBPyConnection, size: int
) -> None:
    found, exact, compared = [], 0, 0
    for one in predicates(Random(SEED)):
        try:
            found.append(wrong(session, engine, one))
        except QueryRefused:
            continue
        exact += exact_in_duckdb(engine, one)
        compared += 1
        if compared == size:
            break
    assert not any(found), "\n".join(f for f in found if f)
    assert exact > size // 3


KEPT = {
    "q * q * q * q >= 0": "q",
    "0 * (x * x * x) = 0": "q",
    "(q * q * x * x) * (0 % q) = 0": "q",
    "q * q * q * q * q * q * q * q * q >= 0": "q",
    "-(x) IS NULL": "",
    "abs(x) >= 0": "q",
    "fmod(x, 7) IS NULL": "",
    "x // -1 IS NULL": "",
    "mod(x, -1) = 0": "q",
    "round(x, -1) IS NULL": "",
    "lcm(x, 7) >= 0": "q",
    "d + d IS NULL": "",
    "d - (-d) IS NULL": "",
    "x * x / 2 >= 0": "q",
    "x * 2 BETWEEN -20000000000000000000 AND 20000000000000000000": "refused",
    "CAST(x * x AS DOUBLE) >= 0": "q",
    "x >= -9223372036854775808": "q",
    "x - -9223372036854775808 < x": "",
    "(SELECT MAX(p) FROM f) * x * x * x IS NULL": "",
}
"""Conditions that hold for all rows (q), for none, or that are refused."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("wide")
    with duckdb_settings.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i AS user_id, i * 83 + 1 AS q, "
            "CASE WHEN i % 2 = 0 THEN -9223372036854775807 - 1 ELSE 9223372036854775807 END AS x, "
            "9999999999999999.99::DECIMAL(18,2) AS d FROM range(6000) AS r(i)"
        )
        connection.execute(f"COPY t TO '{folder}/t.parquet'")
        connection.execute(f"COPY (SELECT 9223372036854775807 AS p) TO '{folder}/f.parquet'")
        text = POLICY.split("columns")[0] + (
            'columns = { user_id = "BIGINT", q = "BIGINT", x = "BIGINT", d = "DECIMAL(18,2)" }\n'
            '[tables.f]\nsource = "f.parquet"\npublic = true\ncolumns = { p = "BIGINT" }\n'
        )
        connection.execute(f"CREATE TABLE f AS FROM '{folder}/f.parquet'")
        (folder / "dpsql.toml").write_text(text, "utf-8")
        with closing(Session(load(folder / "dpsql.toml"))) as opened:
            yield opened, connection


@pytest.mark.parametrize("condition", KEPT)
@pytest.mark.sampled(4)
def test_no_row_is_lost(wide: tuple[Session, duckdb.DuckDBPyConnection], condition: str) -> None:
    if KEPT[condition] == "refused":
        with pytest.raises(QueryRefused, match="beyond BIGINT"):
            counted(*wide, condition)
        return
    assert counted(*wide, condition) == (6000 if KEPT[condition] else 0)


def test_totals_within_a_unit_are_cut(wide: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, engine = wide
    for inner in (
        "SELECT user_id, SUM(x * x) AS s, SUM(d) AS w FROM t GROUP BY user_id",
        "SELECT user_id, SUM(q * x * x) OVER (PARTITION BY user_id) AS s, "
        "SUM(d + d) OVER (PARTITION BY user_id) AS w FROM t",
    ):
        plan = analysed(session, f"SELECT COUNT(*) AS n FROM ({inner}) AS g WHERE s > 0 AND w > 0")
        assert engine.execute(plan.compiled.sql).fetchall()[0][0] == 6000


def test_a_key_is_cut_to_the_ends_of_bigint(wide: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, engine = wide
    text = "SELECT x * 3 AS k, COUNT(DISTINCT user_id) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2"
    rows_of = engine.execute(analysed(session, text).compiled.sql).fetchall()
    assert {row[0] for row in rows_of} == {-(1 << 63), (1 << 63) - 1}


def test_a_limit_that_is_too_high_is_noticed(
    session: Session, engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With MOST beyond 127 bits nothing stands for a product that the engine cannot compute."""
    monkeypatch.setattr(total_forms, "MOST", 1 << 400)
    for one in islice(predicates(Random(SEED)), 60):
        with suppress(QueryRefused, duckdb.Error):
            if wrong(session, engine, one):
                return
    pytest.fail("not noticed")
