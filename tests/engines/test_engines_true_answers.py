"""Statements with NULL keys, offsets, zones and paths: PostgreSQL and Spark count what DuckDB counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest
from support.stores import Store

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.counts import Counts
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.support.exact import exact_of
from tests.support.world import open_world

SEED = 33
STATEMENTS = (100, pytest.param(300, marks=pytest.mark.slow))
POLICY = """
[budget]
epsilon = 1000
delta = 1e-3
default_epsilon = 1
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 50
[tables.people]
source = "people.parquet"
unit = "person_id"
unit_kind = "person"
unique = [["person_id"]]
[tables.people.domain]
region = ["north", "south", "west"]
[tables.encounters]
source = "encounters.parquet"
unit = "person_id"
unit_kind = "person"
unique = [["encounter_id"]]
[tables.encounters.domain]
ward = ["a", "b", "c"]
at = { from = 2024-01-01, to = 2024-12-31 }
minutes = { from = 0, to = 59 }
[tables.encounters.bounds]
minutes = { from = 0, to = 60 }
[tables.orders]
source = "orders.parquet"
unit = { via = "encounter_id", table = "encounters", column = "encounter_id" }
unique = [["order_id"]]
[tables.results]
source = "results.parquet"
unit = { via = "order_id", table = "orders", column = "order_id" }
[tables.results.domain]
kind = ["blood", "x-ray"]
[tables.results.bounds]
value = { from = 0, to = 100 }
"""
DATA = {
    "people": "SELECT i AS person_id, ['north', 'south', NULL, 'east'][i % 4 + 1] AS region "
    "FROM range(60) r(i)",
    "encounters": "SELECT i AS encounter_id, CASE WHEN i % 17 > 0 THEN i % 60 END AS person_id, "
    "['a', 'b', NULL, 'c', 'd'][i % 5 + 1] AS ward, (i * 7) % 60 AS minutes, "
    "CASE WHEN i % 13 > 0 THEN TIMESTAMPTZ '2024-01-01 00:30:00+00' + INTERVAL 19 HOUR * i END AS at "
    "FROM range(400) r(i)",
    "orders": "SELECT i AS order_id, CASE WHEN i % 11 > 0 THEN (i * 3) % 450 END AS encounter_id "
    "FROM range(500) r(i)",
    "results": "SELECT CASE WHEN i % 19 > 0 THEN (i * 7) % 560 END AS order_id, "
    "['blood', 'x-ray', NULL, 'other'][i % 4 + 1] AS kind, i % 90 AS value FROM range(700) r(i)",
}
TABLES = {
    "encounters e": ("e.person_id", "e.minutes", True, False),
    "encounters e JOIN people p USING (person_id)": ("e.person_id", "e.minutes", True, False),
    "encounters e LEFT JOIN people p ON p.person_id = e.person_id": ("e.person_id", "e.minutes", True, False),
    "results r": ("r.person_id", "r.value", False, True),
    "results r JOIN orders o USING (order_id)": ("r.person_id", "r.value", False, True),
    "results r JOIN orders o USING (order_id) JOIN encounters e USING (encounter_id)": (
        *("e.person_id", "r.value", True, True),
    ),
    "people p": ("p.person_id", "1", False, False),
}
"""FROM, the unit, what is summed, whether it has encounters, whether it has results."""
KEYS = {
    "e.": (
        "e.ward",
        "CASE WHEN e.ward = 'a' THEN 'first' WHEN e.minutes > 40 THEN 'long' END",
        "nullif(e.ward, 'a')",
        "coalesce(e.ward, 'none')",
        "EXTRACT(MONTH FROM e.at)",
        "date_trunc('month', e.at)",
        "EXTRACT(HOUR FROM e.at AT TIME ZONE 'Europe/Berlin')",
        "CAST(e.at AT TIME ZONE 'America/New_York' AS DATE)",
        "e.minutes % 5",
        "e.at >= '2024-07-02 00:00:00+02:00'",
    ),
    "r.": ("r.kind", "nullif(r.kind, 'blood')", "CASE WHEN r.value > 50 THEN r.kind END", "r.kind = 'blood'"),
    "p.": ("p.region", "nullif(p.region, 'north')", "p.region IS NULL"),
}
CONDITIONS = {
    "e.": (
        "e.at >= '2024-07-02 00:00:00+02:00'",
        "e.at < TIMESTAMPTZ '2024-09-01 00:00:00-05:00'",
        "e.at BETWEEN '2024-03-01 12:00:00Z' AND '2024-10-27 02:30:00+01:00'",
        "e.at IS NULL",
        "e.ward IS NULL OR e.ward <> 'b'",
        "EXTRACT(DOW FROM e.at AT TIME ZONE 'Asia/Kolkata') IN (0, 6)",
    ),
    "r.": ("r.kind IS NULL", "r.value BETWEEN 10 AND 70", "r.kind IS DISTINCT FROM 'blood'"),
    "p.": ("p.region IS NOT NULL", "p.region IN ('north', 'west')"),
}


def statements() -> Iterator[str]:
    """Yield random statements; the seed is fixed, so that they are the same on each engine."""
    rng = Random(SEED)
    while True:
        source, (unit, value, _, _) = rng.choice(list(TABLES.items()))
        there = [alias for alias in KEYS if f" {alias[0]}" in source]
        keys = list(dict.fromkeys(rng.choice(KEYS[rng.choice(there)]) for _ in range(rng.randint(0, 2))))
        wheres = [rng.choice(CONDITIONS[rng.choice(there)]) for _ in range(rng.randint(0, 2))]
        number = rng.choice(
            [
                f"COUNT(DISTINCT {unit})",
                "COUNT(*)",
                *(f"{name}({value})" for name in ("SUM", "AVG", "MEDIAN")),
            ]
        )
        shown = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
        text = f"SELECT {shown}{', ' if keys else ''}{number} AS n FROM {source}"
        text += f" WHERE {' AND '.join(f'({w})' for w in wheres)}" if wheres else ""
        text += f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        yield text


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute("SET TimeZone = 'UTC'")
        for name, sql in DATA.items():
            made.execute(f"CREATE TABLE {name} AS {sql}")
        yield made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("home")
    for name in DATA:
        raw.execute(f"COPY {name} TO '{folder / name}.parquet'")
    with open_world(folder, POLICY) as session:
        yield session


@pytest.fixture(scope="module")
def away(store: Store, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    sources = store.put(raw, {name: f"SELECT * FROM {name}" for name in DATA})
    session = store.session(store.policy(POLICY, sources))
    yield session
    session.close()


def counted(session: Session, prepared: PreparedPrivate) -> Counter[tuple[object, ...]]:
    """Count the groups with their numbers: rows in no group have keys of NULL, as the group of NULL has."""
    counts: Counts = engine_of(session).count(prepared.plan.compiled)
    keys = list(zip(*(c.to_pylist() for c in exact_of(counts).keys.columns), strict=True))
    keys = keys or [()] * len(exact_of(counts).n[0])  # a median has a row for each cell of its values
    return Counter(
        (*key, *n)
        for key, n in zip(keys, zip(*(n.tolist() for n in exact_of(counts).n), strict=True), strict=True)
    )


@pytest.mark.parametrize("number", STATEMENTS)
def test_the_engine_counts_as_duckdb(home: Session, away: Session, number: int) -> None:
    compared, refused, null_keys, wrong = 0, [], 0, []
    for statement in statements():
        if compared == number:
            break
        try:
            ours = private(home.prepare(statement))
        except QueryRefused:
            refused.append(statement)
            assert len(refused) < number, refused[:5]
            continue
        theirs = private(away.prepare(statement))
        a, b = counted(home, ours), counted(away, theirs)
        null_keys += any(None in group for group in a)
        compared += 1
        if a != b:
            wrong.append((statement, a - b, b - a))
    print(f"{compared} statements, {null_keys} with a group of NULL, {len(refused)} refused by both")
    assert not wrong, wrong[:3]
    assert null_keys > number // 4
