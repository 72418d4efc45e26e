"""The query of the scores of bounds: those of the definition; one unit moves each by 1 at most."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpsql.kernel.mechanisms import FULL, RungBins, excess_scores
from dpsql.kernel.tree import Column, Item, Scan, Select, bound_searches, duckdb_sql

ROWS = tuple(1 << j for j in range(21))
TOTALS = tuple(1 << j for j in range(84))
VALUES = (0, *(1 << j for j in range(64)))
LARGEST = 1 << 85
"""Where totals are cut."""


class Counted:
    """A table of units, and the scores as the engine counts them."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, module: types.ModuleType = bound_searches
    ) -> None:
        self.connection, self.module = connection, module

    def scores(
        self,
        units: Sequence[int],
        bounds: Sequence[int],
        *,
        by_excess: bool = True,
        server: bool = False,
    ) -> NDArray[np.int64]:
        wide = bounds[-1] >= 1 << 62
        self.connection.execute(f"CREATE OR REPLACE TABLE units (a {'HUGEINT' if wide else 'BIGINT'})")
        if units:
            self.connection.execute(f"INSERT INTO units VALUES {', '.join(f'({unit})' for unit in units)}")
        own = Select((Item(Column("r", "a", stored=True), "a"),), Scan("units", "r"))
        query = self.module.Scores(own, tuple(bounds), by_excess=by_excess, wide=wide, server=server)
        rows = self.connection.execute(duckdb_sql(query)).fetchall()
        assert all(type(number) is int and 0 <= number < 1 << 63 for row in rows for number in row)
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        assert not columns[3:].any(), "no unit is without a number"
        return RungBins(*columns[:3]).scores(len(bounds))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        yield made


def around(bounds: Sequence[int]) -> list[int]:
    """Return sizes below, at and above each bound, and about an eighth of it above."""
    sizes = {0, LARGEST if bounds[-1] >= 1 << 62 else (1 << 63) - 1}
    for bound in bounds:
        eighth = bound + bound // 8
        sizes |= {*range(max(bound - 1, 0), bound + 3), *range(max(eighth - 1, 0), eighth + 2)}
        sizes |= {bound + bound // 16, bound + bound // 9, 2 * bound}
    return sorted(size for size in sizes if bounds[-1] >= 1 << 62 or size < 1 << 63)


def wanted(units: Sequence[int], bounds: Sequence[int]) -> list[int]:
    return [*excess_scores(units, bounds)[:-1], 0]


@pytest.mark.parametrize("bounds", [ROWS, TOTALS, VALUES])
def test_they_are_those_of_the_definition(
    connection: duckdb.DuckDBPyConnection, bounds: tuple[int, ...]
) -> None:
    counted, sizes = Counted(connection), around(bounds)
    assert counted.scores(sizes, bounds).tolist() == wanted(sizes, bounds)
    assert counted.scores([], bounds).tolist() == [0] * len(bounds)
    assert counted.scores(sizes, bounds).tolist() == wanted(sizes, bounds)
    assert counted.scores(sizes, bounds, server=True).tolist() == wanted(sizes, bounds)
    assert counted.scores([], bounds, server=True).tolist() == [0] * len(bounds)
    above = [FULL * sum(size > bound for size in sizes) for bound in bounds]
    for server in (False, True):
        scores = counted.scores(sizes, bounds, by_excess=False, server=server)
        assert scores.tolist() == [*above[:-1], 0]


@settings(deadline=None, max_examples=30)
@given(data=st.data(), bounds=st.sampled_from([ROWS, TOTALS, VALUES]))
def test_a_unit_moves_every_score_up_by_at_most_one_unit(
    connection: duckdb.DuckDBPyConnection, data: st.DataObject, bounds: tuple[int, ...]
) -> None:
    sizes = st.sampled_from(around(bounds)) | st.integers(0, 2 * bounds[-1])
    units, more = data.draw(st.lists(sizes, max_size=6)), data.draw(sizes)
    counted = Counted(connection)
    before, after = (counted.scores(each, bounds) for each in (units, [*units, more]))
    assert before.tolist() == wanted(units, bounds)
    assert ((after - before >= 0) & (after - before <= FULL)).all()


def mutant(old: str, new: str) -> types.ModuleType:
    """Return the module with an expression replaced."""
    source = inspect.getsource(bound_searches)
    assert source.count(old) == 1, old
    made = types.ModuleType(bound_searches.__name__)
    exec(compile(source.replace(old, new), str(bound_searches.__file__), "exec"), made.__dict__)
    return made


MUTANTS = {
    "a score that is not cut": (", (full, whole(FULL))), partial)", ",), partial)"),
    "all of a bound instead of an eighth": ('Paren(Binary("//", bound, whole(8)))', "bound"),
    "half of the parts": ("_PARTS = 8 * FULL", "_PARTS = 4 * FULL"),
    "a bound is exceeded where it is reached": (
        'Binary(">", value, whole(bounds[middle]))',
        'Binary(">=", value, whole(bounds[middle]))',
    ),
    "a bound is taken for the one before": ("results[middle + 1 :])", "results[middle:])"),
}


SIZES = [size for size in around(ROWS) if size <= 2 * ROWS[-1]]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_has_other_scores(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    counted, sizes = Counted(connection, mutant(*MUTANTS[name])), SIZES
    assert counted.scores(sizes, ROWS).tolist() != wanted(sizes, ROWS)


@pytest.mark.parametrize("name", ["a score that is not cut", "all of a bound instead of an eighth"])
@pytest.mark.sampled(2)
def test_a_unit_moves_a_mutants_score_by_more_than_one_unit(
    connection: duckdb.DuckDBPyConnection, name: str
) -> None:
    counted = Counted(connection, mutant(*MUTANTS[name]))
    moved = (counted.scores([size], ROWS).max() for size in SIZES)
    assert max(moved) > FULL
