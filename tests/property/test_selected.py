"""What an outer query shows does not depend on noise unless that was found, over random statements.

Each statement is run by DuckDB over the same keys with several draws of noise. Where its rows differ in
anything but the noisy numbers themselves, `selected` must have found the release.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

from dpsql.composition.selected import ReleasedRelation, find_selected
from dpsql.language import Query, parse
from tests.narrow import of_type

COLUMNS = (("k", "key"), ("c", "key"), ("n", "count"), ("m", "count"), ("lo", "low"))
RELEASED = (ReleasedRelation("r0", COLUMNS, ordered=False), ReleasedRelation("r1", COLUMNS, ordered=False))
DRAWS = 6
CLEAN = ("k > 'c'", "c = 'x'", "k IN (SELECT k FROM places WHERE size > 2)", "ascii(k) % 2 = 0", "TRUE")
NOISY = (
    "n > 104",
    "n + m > 205",
    "n BETWEEN 95 AND 103",
    "n >= (SELECT AVG(n) FROM r1)",
    "k IN (SELECT k FROM r1 WHERE n > 100)",
    "CASE WHEN c = 'x' THEN m > 100 ELSE TRUE END",
    "NOT (n > m)",
)
TERMS = ("k", "c, k DESC", "n", "m DESC", "abs(n - 100), k", "length(k), k")


def statement(rng: random.Random, depth: int = 0) -> str:
    """Return a random query with the columns `k`, `c`, `n`, `m` and `lo`."""
    shape = rng.randrange(9 if depth < 2 else 1)
    inner = statement(rng, depth + 1) if shape else ""
    condition = rng.choice(CLEAN if rng.random() < 0.6 else NOISY)
    term = rng.choice(TERMS)
    match shape:
        case 0:
            return f"SELECT * FROM {rng.choice(('r0', 'r1'))} WHERE {rng.choice(CLEAN)}"
        case 1:
            return f"SELECT * FROM ({inner}) AS a WHERE {condition}"
        case 2:
            return f"SELECT * FROM ({inner}) AS a ORDER BY {term} LIMIT {rng.randrange(1, 9)}"
        case 3:
            return f"SELECT * FROM ({inner}) AS a ORDER BY {term}"
        case 4:
            by = rng.choice(("", "PARTITION BY c "))
            return f"SELECT * FROM ({inner}) AS a QUALIFY ROW_NUMBER() OVER ({by}ORDER BY {term}) < 4"
        case 5:
            other = statement(rng, depth + 1)
            kind = rng.choice(("SEMI JOIN", "ANTI JOIN"))
            return f"SELECT a.* FROM ({inner}) AS a {kind} ({other}) AS b USING (k)"
        case 6:
            return f"SELECT DISTINCT ON (c) * FROM ({inner}) AS a ORDER BY {term}"
        case 7:
            other = statement(rng, depth + 1)
            word = rng.choice(("UNION ALL", "UNION", "EXCEPT", "INTERSECT"))
            return f"SELECT * FROM ({inner}) AS a {word} SELECT * FROM ({other}) AS b"
        case _:
            places = "JOIN (SELECT k, size FROM places) AS p USING (k) WHERE size > 1"
            return f"WITH w AS ({inner}) SELECT w.* FROM w {places}"


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """The relations in one schema for each draw of noise, with equal keys."""
    noise = np.random.default_rng(20261128)
    with duckdb.connect(config={"threads": 1}) as made:
        for draw in range(DRAWS):
            made.execute(f"CREATE SCHEMA s{draw}").fetchall()
            places = "SELECT chr((97 + i)::INTEGER) AS k, i % 5 AS size FROM range(9) AS t(i)"
            made.execute(f"CREATE TABLE s{draw}.places AS {places}").fetchall()
            for name in ("r0", "r1"):
                rows = ", ".join(
                    f"('{chr(97 + i)}', '{'xyz'[i % 3]}', {n}, {m}, {n - 9})"
                    for i, (n, m) in enumerate(noise.normal(100, 5, (10, 2)).round(6).tolist())
                )
                values = f"FROM (VALUES {rows}) AS v(k, c, n, m, lo)"
                made.execute(f"CREATE TABLE s{draw}.{name} AS {values}").fetchall()
        yield made


def shown(connection: duckdb.DuckDBPyConnection, text: str, draw: int) -> list[tuple[str, str]]:
    """Return the keys of the rows that a query shows for one draw of noise, sorted."""
    connection.execute(f"USE s{draw}").fetchall()
    return sorted(connection.execute(f"SELECT k, c FROM ({text}) AS q").fetchall())


@pytest.mark.parametrize("number", [40, pytest.param(5_000, marks=pytest.mark.slow)])
def test_without_a_selection_by_noise_the_same_rows_are_shown(
    connection: duckdb.DuckDBPyConnection, number: int
) -> None:
    rng = random.Random(20261128)
    places = {"places": ("k", "size")}
    clean = moved = 0
    for _ in range(number):
        text = statement(rng)
        found = find_selected(of_type(parse(text), Query).tree, RELEASED, places.get).releases
        seen = {tuple(shown(connection, text, draw)) for draw in range(DRAWS)}
        if len(seen) > 1:
            moved += 1
            assert found, text
        clean += not found
    assert clean > number / 8, "not everything is taken for a selection by noise"
    assert moved > number / 8
