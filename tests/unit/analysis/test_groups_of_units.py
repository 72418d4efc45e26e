"""In how many groups of undeclared keys a unit counts is searched where nobody says it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.analysis import Contribution
from dpsql.analysis.cut_contributions import find_excesses
from dpsql.errors import QueryRefused
from tests.narrow import private
from tests.nearly_exact import NearlyExact, nearly_exact

TRIPS = """
CREATE TABLE trips AS
SELECT i AS trip, i % 1000 AS rider, i % 7 AS stop, i % 3 - 1 AS gain, i % 5 > 0 AS paid
FROM range(40000) AS r(i);
INSERT INTO trips SELECT 1, 1, 99, 1, true; -- a stop of one rider is never shown
INSERT INTO trips SELECT i, i, NULL, 5, true FROM range(600) AS r(i)
"""
POLICY = """
[tables.trips]
source = "trips"
unit = "rider"
[tables.trips.bounds]
gain = { from = -1, to = 5 }
"""
_SHOWN = "SELECT stop FROM trips GROUP BY stop HAVING COUNT(DISTINCT rider) > 1"


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NearlyExact]:
    found = nearly_exact(tmp_path_factory.mktemp("trips"), TRIPS, POLICY, epsilon=1e7)
    yield found
    found.private.close()


@pytest.mark.parametrize(
    ("statement", "also"),
    [
        ("SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop", "HAVING COUNT(DISTINCT rider) > 1"),
        ("SELECT stop, COUNT(DISTINCT rider) AS n FROM trips GROUP BY stop", "HAVING n > 1"),
        (
            "SELECT stop, COUNT(DISTINCT rider) FILTER (WHERE paid) AS n, SUM(gain) AS s FROM trips "
            "GROUP BY stop",
            "HAVING COUNT(DISTINCT rider) > 1",
        ),
        ("SELECT stop, AVG(gain) AS a FROM trips GROUP BY stop", "HAVING COUNT(DISTINCT rider) > 1"),
        ("SELECT stop, SUM(gain) AS s FROM trips GROUP BY stop ORDER BY s DESC LIMIT 2", ""),
        ("SELECT stop, SUM(gain) AS s FROM trips GROUP BY stop ORDER BY s DESC LIMIT 1", ""),
        ("SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop ORDER BY n DESC, stop LIMIT 3", ""),
        ("SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop HAVING COUNT(*) > 5000", ""),
        ("SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop HAVING COUNT(*) > 5000 ORDER BY stop", ""),
    ],
)
def test_groups_with_enough_units_are_shown(trips: NearlyExact, statement: str, also: str) -> None:
    trips.agrees(statement, also=f"{statement} {also}", within=0.2)


def test_the_bound_that_is_found_decides_what_is_shown(trips: NearlyExact) -> None:
    """A rider is at up to 8 stops: a bar of 8 ln(8/2e-6)/epsilon units, and not one of a million stops."""
    statement = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4) stop, COUNT(*) AS n FROM trips GROUP BY stop"
    )
    (said,) = [note for note in trips.notes(statement) if "is shown if" in note]
    bar = float(said.split("at least ")[1].split(";")[0])
    assert 20 < bar < 200
    told = [*trips.private.execute(f"EXPLAIN {statement}").fetchall()]
    assert any("follows from the bounds that are found" in text for _, text in told)


def test_what_bounds_cut_of_shown_numbers_is_measured(trips: NearlyExact) -> None:
    """Of the units that only decide, nothing is said: a rider that is cut there is in the other numbers."""
    statement = "SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop"
    plan = private(trips.private._session.prepare(statement)).plan
    assert {each.ladder.of for each in plan.ladders} == {Contribution.ROWS, Contribution.GROUPS}
    (excess,) = find_excesses(plan, plan.ladders, [len(each.ladder.bounds) - 1 for each in plan.ladders])
    assert plan.ladders[excess.search].ladder.of is Contribution.ROWS
    release = trips.private.execute(statement).release
    left_out = " ".join(release.properties.values())
    assert "rows of a unit beyond" in left_out
    assert "groups of a unit beyond" not in left_out
    assert "groups below the bar are not shown" in left_out
    assert "groups of a unit beyond" in " ".join(
        trips.private.execute(statement.replace("*", "DISTINCT rider")).release.properties.values()
    )


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT AVG(n) FROM (SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop)",
        "SELECT SUM(n) FROM (SELECT stop, COUNT(*) AS n FROM trips GROUP BY stop HAVING COUNT(*) > 9)",
        "SELECT stop, COUNT(*) / SUM(COUNT(*)) OVER () AS part FROM trips GROUP BY stop",
        "SELECT stop, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY stop) AS more FROM trips GROUP BY stop",
    ],
)
def test_nothing_is_computed_over_groups_of_which_some_are_missing(
    trips: NearlyExact, statement: str
) -> None:
    with pytest.raises(QueryRefused, match="say in how many groups a rider may count"):
        trips.private._session.planner.prepare(statement)


def test_a_written_bound_is_taken(trips: NearlyExact) -> None:
    statement = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 8) stop, COUNT(*) AS n "
        "FROM trips GROUP BY stop ORDER BY n DESC LIMIT 3"
    )
    plan = private(trips.private._session.prepare(statement)).plan
    assert [each.ladder.of for each in plan.ladders] == [Contribution.ROWS]
    assert plan.existence is not None
    assert plan.counts[plan.existence].l1_over_groups == 8
