"""Keys with one value for each step of a number: `floor(minutes / 10) * 10` of a range, or of bounds."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 100000000
default_epsilon = 100000
ledger = "ledger.sqlite"
[tables.trips]
source = "trips.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 1
not_negative = ["minutes"]
[tables.trips.bounds]
price = { from = 0, to = 30 }
"""
TRIPS = """SELECT i AS user_id, CASE WHEN i % 50 = 0 THEN NULL ELSE i * 0.1 END::DOUBLE AS minutes,
  nextafter(i::DOUBLE, 0) AS below, (i % 400 - 100)::DOUBLE / 8 AS signed,
  (i % 4000)::DECIMAL(8, 2) / 100 AS price,
  (i / 100)::DECIMAL(8, 2) AS fee, i % 90 AS ticks FROM range(1, 1000) t(i)"""


session = world_fixture(POLICY, trips=TRIPS)


def ask(session: Session, key: str, where: str) -> tuple[dict[object, int], float | None]:
    """Return the rows of each group that has some, and of no group."""
    release = present(session.run(f"SELECT {key} AS k, COUNT(*) AS n FROM trips {where} GROUP BY 1").release)
    found = {row["k"]: round(row["n"]) for row in release.table.to_pylist()}
    outside = None if release.outside is None else release.outside.value
    return {k: n for k, n in found.items() if n}, outside


def exact(key: str, where: str) -> dict[object, int]:
    """Return how many rows each group has, of the same rows without dpsql."""
    sql = f"SELECT {key} AS k, COUNT(*) AS n FROM ({TRIPS}) AS trips {where} GROUP BY 1"
    return dict(duckdb.execute(sql).fetchall())


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("floor(minutes / 10) * 10", "WHERE minutes >= 0 AND minutes < 60"),
        ("floor(minutes / 10) * 10", "WHERE minutes < 60"),
        ("floor(minutes / 0.1)", "WHERE minutes BETWEEN 2 AND 9"),
        ("floor(minutes * 3)", "WHERE minutes > 1 AND minutes <= 7"),
        ("CAST(minutes AS INTEGER)", "WHERE minutes >= 0.5 AND minutes <= 12.5"),
        ("round(minutes, -1)", "WHERE minutes < 99"),
        ("round(minutes)", "WHERE minutes < 20"),
        ("ceil(below)", "WHERE below > 3 AND below < 17"),
        ("floor(signed)", "WHERE signed BETWEEN -9 AND 20"),
        ("trunc(signed / -2)", "WHERE signed >= -12 AND signed < 30"),
        ("floor(-signed / 2)", "WHERE signed >= -12 AND signed < 30"),
        ("'up to ' || (10 - floor(signed / 5) * 5)::INTEGER", "WHERE signed BETWEEN -12 AND 20"),
        ("CASE WHEN floor(minutes / 20) > 2 THEN 'long' ELSE 'short' END", "WHERE minutes < 90"),
        ("CAST(sqrt(minutes) AS INTEGER)", "WHERE minutes BETWEEN 0 AND 90"),
        ("trunc(log10(minutes) * 4)", "WHERE minutes BETWEEN 0.5 AND 90"),
        ("floor(price / 5) * 5", ""),
        ("CAST(price AS INTEGER)", "WHERE price < 12.345"),
        ("floor(price)", "WHERE price > 3.005 AND price < 20"),
        ("CAST(fee * 100 AS INTEGER)", "WHERE fee > 3.005 AND fee < 3.055"),
        ("CAST(fee * 100 AS INTEGER)", "WHERE fee > 3 AND fee < 3.05"),
        ("nullif(floor(signed / 5), 1)", "WHERE signed BETWEEN -12 AND 20"),
        ("CASE WHEN floor(minutes / 20) > 2 THEN 'long' END", "WHERE minutes < 90"),
        ("TRY_CAST(floor(signed) AS UTINYINT)", "WHERE signed BETWEEN -12 AND 20"),
        ("ticks // 7 * 7", "WHERE ticks BETWEEN 0 AND 50"),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_each_group_with_rows_is_there_and_each_row_is_in_its_group(
    session: Session, key: str, where: str
) -> None:
    found, outside = ask(session, key, where)
    wanted = exact(key, where)
    assert found == {k: n for k, n in wanted.items() if k in found}
    left = sum(n for k, n in wanted.items() if k not in found)
    assert left == (0 if outside is None else round(outside))
    assert left == 0 or "price" in key


def test_null_is_a_group_where_nothing_is_asked_of_the_column(session: Session) -> None:
    plan = private(session.prepare("SELECT floor(price / 10) AS k, COUNT(*) AS n FROM trips GROUP BY 1")).plan
    assert plan.groups == 6  # 0, 1, 2, 3, NULL, and all other rows


@pytest.mark.parametrize(
    "key",
    [
        "floor(minutes * minutes)",
        "floor(10 / minutes)",
        "floor(minutes % 7)",
        "floor(minutes) + minutes",
        "round(minutes, 1)",
        "floor(minutes) + floor(minutes / 7)",
    ],
    ids=["a product", "a divisor", "a remainder", "the number itself", "tenths", "two steps"],
)
def test_other_functions_have_no_steps(session: Session, key: str) -> None:
    with pytest.raises(QueryRefused, match="not declared"):
        session.prepare(
            f"SELECT {key} AS k, COUNT(*) AS n FROM trips WHERE minutes BETWEEN 1 AND 50 GROUP BY 1"
        )


def test_one_end_alone_leaves_the_steps_open(session: Session) -> None:
    with pytest.raises(QueryRefused, match="not declared"):
        session.prepare("SELECT floor(minutes) AS k, COUNT(*) AS n FROM trips WHERE minutes > 5 GROUP BY 1")


@pytest.mark.parametrize(
    "key", ["floor(minutes / 10) * 10", "LEAST(CAST(minutes AS INTEGER), 60)", "-round(minutes, -1)"]
)
def test_what_to_write_names_the_number_of_the_steps(session: Session, key: str) -> None:
    statement = f"SELECT {key} AS k, COUNT(*) AS n FROM trips"
    with pytest.raises(QueryRefused, match="WHERE minutes BETWEEN 0 AND 99"):
        session.prepare(f"{statement} GROUP BY 1")
    session.prepare(f"{statement} WHERE minutes BETWEEN 0 AND 99 GROUP BY 1")
