"""Where it is not sure which groups exist, what is computed of the same groups either way has intervals."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from dpsql.composition.existence import find_same_rows
from dpsql.release import Release, places_of
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e9
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.t]
source = "t.parquet"
unit = "u"
unique = [["u"]]
[tables.t.domain]
d = { from = 2024-01-01, to = 2024-01-09 }
"""
SIZES = {1: 400, 2: 300, 3: 500, 4: 0, 5: 300, 6: 400, 7: 300, 8: 0, 9: 0}
"""Units by day: none on the fourth, and none on the last two."""
DAYS = "(SELECT d, COUNT(*) AS n FROM t GROUP BY d)"
CHANGE = f"SELECT d, n - LAG(n) OVER (ORDER BY d) AS c FROM {DAYS} ORDER BY d"


session = world_fixture(
    POLICY,
    t=" UNION ALL ".join(
        f"SELECT {day * 1000} + i AS u, DATE '2024-01-{day:02}' AS d FROM range({size}) r(i)"
        for day, size in SIZES.items()
    ),
)


def intervals(release: Release, name: str) -> dict[int, tuple[float, float]]:
    """Return the ends of a number's intervals by the day of the month, NaN where there are none."""
    place = next(p for p in places_of(release).numbers if release.rows.column_names[p.place] == name)
    ends = [release.table.column(present(at)).to_pylist() for at in (place.low, place.high)]
    days = [day.day for day in release.rows.column(0).to_pylist()]
    return {
        day: tuple(math.nan if end is None else end for end in both)  # type: ignore[misc]  # two
        for day, *both in zip(days, *ends, strict=True)
    }


@pytest.mark.parametrize("epsilon", [1.001, 1.002, 1.003, 1.004, 1.005, 1.006])
def test_change_from_the_day_before(session: Session, epsilon: float) -> None:
    """NULL and the last days, which are left out, change nothing of the days before; the fourth does."""
    words = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon})"
    found = present(session.run(CHANGE.replace("SELECT", words, 1)).release)
    told = intervals(found, "c")
    for day in (2, 3, 6, 7):
        low, high = told[day]
        exact = SIZES[day] - SIZES[day - 1]
        assert high - low < 40, "the law of two counts of units"
        assert low - 20 < exact < high + 20
    assert np.isnan(told[5]).all(), "the fourth day may exist: then it is the one before"
    assert any("not sure which groups have rows" in text for text in found.warnings)


def test_average_of_groups_needs_all_of_them(session: Session) -> None:
    found = present(session.run(f"SELECT AVG(n) AS a FROM {DAYS}").release)
    place = next(iter(places_of(found).numbers))
    assert found.table.column(present(place.low)).to_pylist() == [None]


def test_all_exist_beyond_doubt(session: Session) -> None:
    """With days on which there are many units, an average of days has an interval."""
    where = "WHERE d IN ('2024-01-01', '2024-01-02', '2024-01-03')"
    found = present(
        session.run(f"SELECT AVG(n) AS a FROM (SELECT d, COUNT(*) AS n FROM t {where} GROUP BY d)").release
    )
    place = next(iter(places_of(found).numbers))
    low, high = (found.table.column(present(at))[0].as_py() for at in (place.low, place.high))
    assert low - 10 < 400 < high + 10


LISTS = pa.list_(pa.struct([("p", pa.int64()), ("w", pa.float64())]))


def rows(*made: tuple[str, float | None, list[tuple[int, float]] | None]) -> pa.Table:
    keys, values, hidden = zip(*made, strict=True)
    lists = [None if of is None else [{"p": p, "w": w} for p, w in of] for of in hidden]
    return pa.table({"k": keys, "v": values, "dpsql_row_f1": pa.array(lists, LISTS)})


def test_rows_are_the_same_by_their_keys() -> None:
    nan = math.nan
    one = rows(
        ("a", 1.0, [(1, 1.0)]), ("b", None, None), ("c", nan, [(2, nan)]), ("d", 4.0, []), ("e", 5.0, [])
    )
    two = rows(("e", 5.0, [(9, 1.0)]), ("c", nan, [(2, nan)]), ("b", None, None), ("a", 1.0, [(1, 1.0)]))
    assert find_same_rows(one, two, [0], [1]).tolist() == [True, True, True, False, False]
    assert find_same_rows(one, two, [0], [1], absent=True).tolist() == [True, True, True, True, False]
    changed = rows(("a", 2.0, [(1, 1.0)]), ("b", None, []), ("c", nan, [(2, 1.0)]), ("d", 4.0, None))
    assert find_same_rows(one, changed, [0], [1]).tolist() == [False] * 5
    twice = rows(*(("a", 1.0, [(1, 1.0)]) for _ in range(2)))
    assert not find_same_rows(one, twice, [0], [1], absent=True)[0]
    assert not find_same_rows(one, two, [], [1]).any(), "without keys, and of other sizes"
    assert find_same_rows(one, one, [], [1]).all()


def test_rows_of_one_key_are_the_same_in_any_order() -> None:
    one = pa.table({"region": ["a", "a", "b", "b", "c"], "x": [2.0, 1.0, 5.0, 6.0, 7.0]})
    other = pa.table({"region": ["b", "a", "a", "b", "c", "c"], "x": [6.0, 1.0, 2.0, 4.0, 7.0, 7.0]})
    for absent in (False, True):
        same = find_same_rows(one, other, [0], [1], absent=absent)
        assert same.tolist() == [True, True, False, True, False], "b has another row, and c one more"


@pytest.mark.parametrize("block", [DAYS, "(SELECT d, SUM(u) AS n FROM t GROUP BY d)"])
def test_a_sum_over_a_frame_of_rows_leaves_out_groups_without_rows(session: Session, block: str) -> None:
    frame = "SUM(n) OVER (ORDER BY d ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    words = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e5)"
    release = present(session.run(f"{words} d, {frame} AS s FROM {block} ORDER BY d").release)
    assert [day.day for day in release.rows.column(0).to_pylist()] == [1, 2, 3, 5, 6, 7]
    found = intervals(release, "s")
    assert not any(math.isnan(low) for low, _ in found.values()), "the fourth day is surely without rows"
