"""Searches of bounds on totals of DOUBLEs: a faster text has the same numbers, or says that it lacks some.

`CompiledQuery.faster` sums DOUBLEs: it is for units of which no value is below 0, with totals up to 2^52.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.analysis import CompiledQuery
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type, private
from tests.support.exact import exact_of
from tests.support.world import write_world

POLICY = """
[budget]
epsilon = 1e6
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
not_null = ["k"]
domain.k = ["a", "b"]
"""
STATEMENTS = (
    "SELECT SUM(x) AS s FROM t",
    "SELECT k, SUM(x) AS s FROM t GROUP BY k",
    "SELECT SUM(x) FILTER (WHERE k <> 'b') AS s FROM t",
    "SELECT SUM(-x * 3) AS s FROM t",
)
STEP = 2.0**-20
MOST = 2.0**33
"""2^53 steps."""
Row = tuple[int | None, str, float | None]
SPECIAL = (0.0, -0.0, float("nan"), None, 5e-324, STEP / 2, -STEP / 2, STEP * 1.5, 0.1, -0.3, 1e-9)
HUGE = (float("inf"), float("-inf"), 1e308, -1e308, 1e19, -1e19, MOST, 2.0**42, -(2.0**65), 4.5e12)


@contextmanager
def searches(
    folder: Path, rows: Sequence[Row], statements: Sequence[str] = STATEMENTS
) -> Iterator[list[tuple[DuckDBEngine, CompiledQuery]]]:
    """Open the rows; yield the compiled search of each statement."""
    units, keys, values = zip(*rows, strict=True)
    columns = {"u": pa.array(units, pa.int64()), "k": pa.array(keys), "x": pa.array(values, pa.float64())}
    write_world(folder, POLICY, t=columns)
    with closing(Session(load(folder / "dpsql.toml"))) as session:
        found = []
        for text in statements:
            counting = private(session.prepare(text)).counting
            engine = of_type(counting.engines.engine, DuckDBEngine)
            found += [(engine, search.compiled) for search in counting.plan.ladders]
        assert len(found) == len(statements)
        yield found


def numbers(engine: DuckDBEngine, sql: str) -> list[tuple[int, ...]]:
    with engine._connection(counts_only=False).cursor() as cursor:
        return sorted(cursor.execute(sql).fetchall())


def counted(engine: DuckDBEngine, compiled: CompiledQuery) -> list[tuple[int, ...]]:
    return sorted(zip(*(n.tolist() for n in exact_of(engine.count(compiled)).n), strict=True))


def complete(engine: DuckDBEngine, compiled: CompiledQuery) -> list[bool]:
    """Return for each faster text whether it has all numbers; then they must be those of the query."""
    exact, found = numbers(engine, compiled.sql), []
    for sql, cell in compiled.faster:
        faster = numbers(engine, sql)
        found.append(all(row[0] < cell for row in faster))
        assert not found[-1] or faster == exact
    # The second time, the engine knows which texts are not complete.
    assert counted(engine, compiled) == counted(engine, compiled) == exact
    return found


def small(rng: Random) -> float | None:
    return rng.choice(SPECIAL) if rng.random() < 0.3 else round(rng.gauss(0, 1e4), rng.randrange(9))


def positive(rng: Random) -> float | None:
    """Return a small value from 0 on, or NULL."""
    value = positive_or_nan(rng)
    return 0.0 if value is not None and math.isnan(value) else value


def positive_or_nan(rng: Random) -> float | None:
    """Return a small value from 0 on, or NaN or NULL."""
    value = small(rng)
    return value if value is None else abs(value)


def near(rng: Random) -> float | None:
    """Return a value of which few add up to about 2^53 steps."""
    return rng.choice((-1, 1)) * (MOST / rng.randrange(1, 6) + rng.randrange(-2, 3) * STEP)


def any_size(rng: Random) -> float | None:
    return rng.choice(HUGE) if rng.random() < 0.2 else small(rng)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (small, [[False], [False], [False], [False]]),
        (positive, [[True], [True], [True], [False]]),
        (positive_or_nan, [[False], [False], [False], [False]]),
        (near, [[False], [False], [False], [False]]),
        (any_size, [[False], [False], [False], [False]]),
    ],
)
@pytest.mark.sampled(3)
def test_the_numbers_are_those_of_the_query(
    tmp_path: Path, value: Callable[[Random], float | None], wanted: list[list[bool]]
) -> None:
    """Of values below 0, of NaN and of large ones the text lacks units."""
    rng = Random(7)
    rows: list[Row] = [(rng.choice((None, *range(200))), rng.choice("abc"), value(rng)) for _ in range(900)]
    with searches(tmp_path, rows) as found:
        assert [complete(*each) for each in found] == wanted


@settings(deadline=None, max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), kind=st.sampled_from([small, positive, positive_or_nan, near, any_size]))
def test_few_units(tmp_path: Path, seed: int, kind: Callable[[Random], float | None]) -> None:
    rng = Random(seed)
    rows: list[Row] = [(rng.randrange(3), "a", kind(rng)) for _ in range(rng.randrange(1, 6))]
    with searches(tmp_path, rows, STATEMENTS[:1]) as found:
        complete(*found[0])


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((MOST / 2,), False),
        ((MOST / 2 - STEP, STEP), False),
        ((MOST / 2, STEP), True),
        ((MOST - STEP,), True),
        ((MOST,), True),
        ((-STEP,), True),
        ((-STEP / 4,), True),
        ((MOST / 2, -MOST / 2, 1.0, 2.0, -1.0), True),
        ((None, -0.0), False),
        ((float("nan"), None, -0.0), True),
        ((float("inf"),), True),
    ],
)
@pytest.mark.sampled(5)
def test_which_units_are_missing(tmp_path: Path, values: Sequence[float | None], wanted: bool) -> None:
    """Those with any value below 0, and those above 2^52 steps: they exceed all bounds that the text has."""
    with searches(tmp_path, [(1, "a", value) for value in values] + [(2, "a", 1.0)], STATEMENTS[:1]) as found:
        engine, compiled = found[0]
        ((sql, cell),) = compiled.faster
        assert sum(row[1] for row in numbers(engine, sql) if row[0] >= cell) == wanted
        assert complete(engine, compiled) == [not wanted]


def test_a_text_that_fails_is_no_failure(tmp_path: Path) -> None:
    with searches(tmp_path, [(u, "a", u / 3) for u in range(50)], STATEMENTS[:1]) as found:
        engine, compiled = found[0]
        exact = numbers(engine, compiled.sql)
        for text in ("SELECT nothing", "SELECT 1 AS n0", "SELECT NULL AS n0, NULL AS n6"):
            object.__setattr__(compiled, "faster", ((text, 53),))
            assert counted(engine, compiled) == exact


def test_only_sums_of_doubles_have_one(tmp_path: Path) -> None:
    statements = ("SELECT COUNT(*) AS n FROM t", "SELECT SUM(CAST(x AS INTEGER)) AS s FROM t")
    with searches(tmp_path, [(u, "a", 1.0) for u in range(9)], statements) as found:
        assert [compiled.faster for _, compiled in found] == [(), ()]
