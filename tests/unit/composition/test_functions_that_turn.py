"""Intervals of functions that turn within the noise of a number, as ABS at 0: they cover where it turns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.composition.released_terms import range_over
from tests.nearly_exact import NearlyExact, nearly_exact

TABLES = "CREATE TABLE t AS SELECT i AS user_id FROM range(1000) r(i);"
POLICY = """
[tables.t]
source = "t"
unit = "user_id"
rows_per_unit = 1
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> NearlyExact:
    return nearly_exact(tmp_path_factory.mktemp("turns"), TABLES, POLICY, epsilon=1)


@pytest.mark.parametrize(
    "value",
    [
        "ABS(COUNT(*) - 1000)",
        "(COUNT(*) - 1000) * (COUNT(*) - 1000)",
        "POWER(COUNT(*) - 1000, 2)",
        "POWER(COUNT(*) - 1000, 2) + 7 - 7",
        "ABS(ROUND(COUNT(*) - 1000, 1))",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_the_value_at_which_a_function_turns_is_covered(asked: NearlyExact, value: str) -> None:
    (row,) = asked.private.execute(f"SELECT {value} AS y FROM t").release.table.to_pylist()
    assert row["y_low"] == pytest.approx(0, abs=1e-6)
    assert row["y_low"] <= 0 < row["y_high"]


@pytest.mark.parametrize(
    "value",
    [
        "CASE WHEN n < 1000 THEN 1000 WHEN n > 1 THEN 1 ELSE n END",
        "CASE WHEN n < 1000 THEN 1000 WHEN n < 2000 THEN 2000 ELSE n END",
        "3 * CASE WHEN n < 1000 THEN 1000 WHEN n > 1 THEN 1 ELSE n END",
    ],
)
def test_a_value_that_jumps_within_the_noise_has_no_interval(asked: NearlyExact, value: str) -> None:
    released = "SELECT SQRT(COUNT(*)) * SQRT(COUNT(*)) AS n FROM t"
    table = asked.private.execute(f"SELECT {value} AS y FROM ({released})").release.table
    (row,) = table.to_pylist()
    assert row.get("y_low") is None


DRAWS = np.random.default_rng(3).normal(size=2001)


def test_the_range_of_what_does_not_turn_is_that_of_its_quantiles() -> None:
    found = range_over(np.exp, DRAWS, 0.025, (0.0, 0.0))
    lower, upper = (
        np.quantile(np.exp(DRAWS), 0.025, method="lower"),
        np.quantile(np.exp(DRAWS), 0.975, method="higher"),
    )
    assert found == (lower, upper)


def test_what_bounds_left_out_is_in_the_range_on_all_the_way() -> None:
    def turns(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(x - 50)

    found = range_over(turns, DRAWS, 0.025, (0.0, 100.0))
    assert found is not None
    assert found[0] == 0
    assert found[1] > 51


def test_values_without_an_end_have_no_range() -> None:
    assert range_over(np.exp, np.full(9, np.nan), 0.025, (0.0, 0.0)) is None
