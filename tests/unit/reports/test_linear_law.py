"""What breaks the linear law stays out of an estimate: taken as linear, it would be far off."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from dpsql.session import Session
from tests.support.world import open_world, world_fixture

POLICY = """
[budget]
epsilon = 1000000
ledger = "ledger.sqlite"
high_water = false
[tables.users]
source = "users.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
domain.land = { values = ["a", "b"], complete = true }
domain.way = { values = ["x", "y"], complete = true }
domain.open = ["p", "q"]
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 2
domain.page = { values = ["a", "b"], complete = true }
"""
TABLES = {
    "users": "SELECT i AS user_id, ['a', 'b'][1 + i % 2] AS land, ['x', 'y'][1 + (i // 2) % 2] AS way,"
    " ['p', 'q', 'pz', NULL][1 + i % 4] AS open FROM range(800) t(i)",
    "visits": "SELECT i % 400 AS user_id, ['a', 'b'][1 + (i // 400) % 2] AS page FROM range(1600) t(i)",
}
SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000)"
DEVIATION = math.sqrt(3 * 2) * 3
"""Of a number less two others, each with a third of epsilon 1."""
BREAKS = [
    # 7.1, the same measure: rows that are weighted down, and units over groups
    ("COUNT(*) AS n FROM visits", [f"COUNT(*) AS n FROM visits WHERE page = '{p}'" for p in "ab"]),
    (
        "COUNT(DISTINCT user_id) AS n FROM visits",
        [f"COUNT(DISTINCT user_id) AS n FROM visits WHERE page = '{p}'" for p in "ab"],
    ),
    # 7.2, the same rows: a subquery, a join
    ("COUNT(*) AS n FROM users WHERE user_id IN (SELECT user_id FROM visits)", ["COUNT(*) AS n FROM users"]),
    (
        "COUNT(DISTINCT u.user_id) AS n FROM users u JOIN visits v ON u.user_id = v.user_id",
        ["COUNT(*) AS n FROM users"],
    ),
    # 7.3, conditions by columns
    (
        "COUNT(*) AS n FROM users WHERE land = 'a' OR way = 'x'",
        ["COUNT(*) AS n FROM users WHERE land = 'a'", "COUNT(*) AS n FROM users WHERE way = 'x'"],
    ),
    # 7.5, complete columns: a value that nobody declared
    (
        "COUNT(*) AS n FROM users WHERE open LIKE 'p%'",
        ["COUNT(*) AS n FROM users WHERE open = 'p'"],
    ),
]


shared = world_fixture(POLICY, **TABLES)


session = world_fixture(POLICY, scope="function", **TABLES)


def value(session: Session, text: str) -> float:
    return float(session.run(f"{SELECT} {text}").table.column(0)[0].as_py())


@pytest.mark.parametrize(("broken", "parts"), BREAKS, ids=["7.1", "7.1b", "7.2", "7.2b", "7.3", "7.5"])
@pytest.mark.sampled(3, rest="longer")
def test_a_pair_that_breaks_the_law_stays_out_and_would_be_off(
    shared: Session, broken: str, parts: list[str]
) -> None:
    texts = [f"SELECT WITH DIFFERENTIAL_PRIVACY {text}" for text in (broken, *parts)]
    planned = shared.reports.plan(texts, 1)
    assert planned.statements[0].reasons
    assert abs(value(shared, broken) - sum(value(shared, each) for each in parts)) > 3 * DEVIATION


def test_a_total_is_not_the_declared_groups_alone(shared: Session) -> None:
    """A column that is not complete has rows in no declared group, which the estimate counts apart."""
    texts = [
        "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) AS n FROM users",
        "SELECT WITH DIFFERENTIAL_PRIVACY open, COUNT(*) AS n FROM users GROUP BY open",
    ]
    total, groups = shared.reports.run(shared.reports.plan(texts, 1000))
    assert total.release is not None
    assert groups.release is not None
    declared = [row["n"] for row in groups.table.to_pylist() if row["open"] in ("p", "q")]
    assert total.table.column(0)[0].as_py() - sum(declared) > 3 * DEVIATION
    assert abs(total.table.column(0)[0].as_py() - 800) < 1


def test_a_noisy_maximum_is_no_measurement(shared: Session) -> None:
    """7.4: what noise has chosen among many is higher than it is, by more than three deviations."""
    top = "land, COUNT(*) AS n FROM users GROUP BY land ORDER BY n DESC LIMIT 1"
    assert shared.reports.plan([f"SELECT WITH DIFFERENTIAL_PRIVACY {top}"], 1).statements[0].reasons == (
        "selects groups by noise",
    )
    random, runs = Random(4), 2000

    def laplace() -> float:
        return random.expovariate(1) - random.expovariate(1)

    highest = sum(max(laplace() for _ in range(200)) for _ in range(runs)) / runs
    assert highest > 3 * math.sqrt(2)


def test_a_week_of_other_rows_is_not_added_up(session: Session, tmp_path: Path) -> None:
    """7.6: a number of an earlier version of the data is off by the rows that have come since."""
    session.run(f"{SELECT} COUNT(*) AS n FROM users WHERE land = 'a'")
    session.run(f"{SELECT} COUNT(*) AS n FROM users WHERE land = 'b'")
    both = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (combine = ONLY) COUNT(*) AS n FROM users"
    assert abs(session.run(both).table.column(0)[0].as_py() - 800) < 1
    more = TABLES["users"].replace("range(800)", "range(1000)")
    session.close()
    with open_world(tmp_path, POLICY, **{**TABLES, "users": more}) as later:
        with pytest.raises(Exception, match="not told by what was released"):
            later.run(both)
        assert value(later, "COUNT(*) AS n FROM users") - 800 > 3 * DEVIATION
        assert later.budget().spent.epsilon == Fraction(3000)
