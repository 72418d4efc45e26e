"""COUNT(DISTINCT x) with a bound on the values of a unit: it lies between 0 and how many are declared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e6
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 6
[tables.t]
source = "t.parquet"
unit = "user_id"
domain = { ward = ["w0", "w1", "w2", "w3", "w4", "w5"], k = ["x0", "x1"] }
not_null = ["k"]
[tables.one]
source = "t.parquet"
unit = "user_id"
unique = [["user_id"]]
domain = { ward = ["w0", "w1", "w2", "w3", "w4", "w5"] }
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("wards")
    cells = "i AS user_id, 'w' || (i % 6) AS ward, 'x' || (i % 2) AS k, i AS free"
    with open_world(folder, POLICY, t=f"SELECT {cells} FROM range(600) AS r(i)") as opened:
        yield opened


@pytest.mark.parametrize("table", ["t", "one"])
@pytest.mark.sampled(2)
def test_it_is_cut_to_what_is_declared(session: Session, table: str) -> None:
    ends = set()
    for n in range(15):  # each with an epsilon of its own: none is a stored answer
        found = session.run(
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {0.02 + n / 10_000}) "
            "COUNT(DISTINCT ward, contribution_bounds_per_group => (0, 6)) AS n, "
            f"DP_INTERVAL_LOW(n) AS a, DP_INTERVAL_HIGH(n) AS b FROM {table}"
        )
        (row,) = found.table.to_pylist()
        assert 0 <= row["a"] <= row["n"] <= row["b"] <= 6
        ends.add(row["n"])
    assert {0.0, 6.0} & ends  # it was cut
    release = present(found.release)
    assert any("different values of ward" in str(each) for each in release.assumed)


def test_in_groups_and_at_a_large_epsilon_it_is_the_number(session: Session) -> None:
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e4) k, COUNT(DISTINCT ward) AS n "
        "FROM t GROUP BY k ORDER BY k"
    )
    assert [round(n) for n in session.run(text).table.column("n").to_pylist()] == [3, 3]


def test_values_that_are_not_declared_are_not_cut(session: Session) -> None:
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e4) "
        "COUNT(DISTINCT free, contribution_bounds_per_group => (0, 2)) AS n FROM t"
    )
    assert round(session.run(text).table.column("n")[0].as_py()) == 600


def test_a_number_that_was_cut_is_not_refined(session: Session) -> None:
    """A refinement goes on from the noisy value, which a cut hides.

    About two of three are cut: that all of 60 are, or none, happens once in 10^10 runs.
    """
    refined = set[bool]()
    for n in range(60):
        if len(refined) == 2:
            break
        found = session.run(
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {0.9 + n / 10_000}) "
            "COUNT(DISTINCT ward, contribution_bounds_per_group => (0, 6)) AS n FROM t WHERE k = 'x0'"
        )
        (value,) = found.table.column("n").to_pylist()
        text = f"REFINE RELEASE {present(found.release).number} TO 2"
        if value in (0, 6):
            with pytest.raises(QueryRefused, match="cut to the values that are declared"):
                session.run(text)
            refined.add(False)
        else:
            session.run(text)
            refined.add(True)
    assert refined == {False, True}
