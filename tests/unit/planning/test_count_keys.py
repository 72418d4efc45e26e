"""Keys that are a number of a unit's rows: candidates up to the policy's bound, and clear groups shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpsql.estimates import Combined
from dpsql.planning import NoisyResult, keep_clear
from tests.narrow import private
from tests.nearly_exact import NearlyExact, nearly_exact

TABLES = """
CREATE TABLE visits AS SELECT u AS user_id, i AS visit_id, u % 3 AS kind
FROM range(8) AS units(u) JOIN range(1, 10) r(i) ON i <= [1, 1, 2, 3, 3, 5, 7, 9][u + 1];
CREATE TABLE users AS SELECT i AS user_id FROM range(10) r(i);
CREATE TABLE kinds AS SELECT i AS number, i % 3 AS kind FROM range(9) r(i);
"""
POLICY = """
[tables.visits]
source = "visits"
unit = "user_id"
rows_per_unit = 7
[tables.visits.domain]
kind = { from = 0, to = 2, complete = true }
[tables.users]
source = "users"
unit = "user_id"
unique = [["user_id"]]
[tables.kinds]
source = "kinds"
public = true
unique = [["number"]]
"""
OF_EACH = "(SELECT user_id, COUNT(*) AS n FROM visits GROUP BY user_id)"


COUNTED = f"SELECT n, COUNT(*) AS users FROM {OF_EACH} GROUP BY n ORDER BY n"


def _counted(rows: str) -> str:
    return f"SELECT n, COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM {rows} GROUP BY user_id) GROUP BY n"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> NearlyExact:
    return nearly_exact(tmp_path_factory.mktemp("counts"), TABLES, POLICY, epsilon=10**6)


def test_groups_of_single_units_are_shown_without_delta(asked: NearlyExact) -> None:
    cursor = asked.private.execute(COUNTED)
    found = {n: round(users) for n, users in cursor.fetchall()}
    assert found == {1: 2, 2: 1, 3: 2, 5: 1, 7: 1}  # one user has more than 7 rows
    assert cursor.release.charge.delta == 0
    assumed = "at most 7 rows of a user_id, one with more is in no group (policy)"
    assert assumed in map(str, cursor.release.assumed)


@pytest.mark.parametrize(
    "rows",
    [
        "visits JOIN kinds ON visits.kind = number",
        "kinds JOIN visits ON visits.kind = number",
        "users JOIN visits USING (user_id)",
        "visits JOIN users USING (user_id)",
    ],
)
def test_a_join_that_repeats_no_row_leaves_the_candidates(asked: NearlyExact, rows: str) -> None:
    assert asked.private.execute(_counted(rows)).release.charge.delta == 0


def test_numbers_of_units_without_rows_are_among_the_candidates(asked: NearlyExact) -> None:
    each = "SELECT user_id, COUNT(visit_id) AS n FROM users LEFT JOIN visits USING (user_id) GROUP BY user_id"
    asked.agrees(f"SELECT n, COUNT(*) FROM ({each}) WHERE n < 8 GROUP BY n")


def test_a_public_key_may_stand_beside_it(asked: NearlyExact) -> None:
    grouped = "SELECT user_id, kind, COUNT(*) AS n FROM visits WHERE user_id <> 7 GROUP BY user_id, kind"
    asked.agrees(f"SELECT n, COUNT(*) AS rows FROM ({grouped}) WHERE kind = 1 GROUP BY n")


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT n, COUNT(*) AS users FROM {OF_EACH} GROUP BY n ORDER BY users DESC LIMIT 3",
        f"SELECT n, COUNT(*) FROM users LEFT JOIN {OF_EACH} USING (user_id) GROUP BY n",
        f"SELECT n, COUNT(*) FROM (FROM users LEFT JOIN {OF_EACH} USING (user_id)) GROUP BY n",
        _counted("visits JOIN kinds USING (kind)"),
        _counted("visits CROSS JOIN UNNEST([1, 2, 3]) AS of_list(item)"),
        _counted("visits AS a JOIN visits AS b USING (user_id)"),
        _counted("(SELECT user_id FROM visits UNION ALL SELECT user_id FROM visits)"),
        f"SELECT n, MEDIAN(n) FROM {OF_EACH} GROUP BY n",
        f"SELECT n, SUM(n) FROM {OF_EACH} GROUP BY n",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, mechanism = LAPLACE_THRESHOLD) "
        f"n, COUNT(*) FROM {OF_EACH} GROUP BY n",
    ],
)
@pytest.mark.sampled(4, rest="longer")
def test_other_statements_find_the_groups_by_their_units(asked: NearlyExact, statement: str) -> None:
    assert asked.private.execute(statement).release.charge.delta > 0


def test_a_group_is_shown_if_its_interval_for_all_at_once_is_above_0(asked: NearlyExact) -> None:
    plan: Any = private(asked.private._session.prepare(COUNTED)).plan
    value, wide = np.array([9.0, 2.0, 4.0, 0.0]), 3.0
    one = Combined(value, np.ones(4), value - 1.5, value + 1.5, (value - wide, value + wide))
    rows: Any = SimpleNamespace(take=lambda places: [*places])
    shown: Any = keep_clear(plan, NoisyResult(rows, (one,)))
    assert [*shown.rows] == [0, 2]
    (count,) = shown.counts
    assert count is not None
    assert [*count.value] == [9.0, 4.0]


def test_a_few_units_are_not_shown_and_that_is_said(asked: NearlyExact) -> None:
    few = COUNTED.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.01)", 1)
    release = asked.private.execute(few).release
    assert release.rows.num_rows < 8  # of all 8 candidates an interval above 0 is a case of 1 in 40 for each
    assert any("is shown if the interval of a count" in each for each in release.warnings)


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT SUM(users) FROM ({COUNTED})",
        f"SELECT AVG(users) FROM ({COUNTED})",
        f"SELECT n, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM {OF_EACH} GROUP BY n",
    ],
)
def test_what_is_computed_of_the_groups_that_are_shown_has_no_interval(
    asked: NearlyExact, statement: str
) -> None:
    """SQL computes it of all groups, and those of few units are not among them."""
    release = asked.private.execute(statement).release
    (low,) = (name for name in release.table.column_names if name.endswith("_low"))
    assert release.table.column(low).null_count == release.table.num_rows > 0
    assert "what is computed of groups that noise has found and chosen has no interval" in release.warnings
