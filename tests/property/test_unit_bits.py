"""Units counted by bits, on random statements over random databases: the same numbers, or none.

A range that is too small, shifted or empty gives the numbers of the certified query, too, or says of each
group that it lacks some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest
from fuzz.campaign import Campaign
from fuzz.check import Counts, by_group, compile_releases
from fuzz.data import small_data
from fuzz.stage import Stage

from dpsql.analysis import Plan
from dpsql.kernel.faster import MISSING, by_bits
from dpsql.kernel.tree import duckdb_sql
from dpsql.policy import UnitColumn
from dpsql.types import HUGEINT

SEED = 16
STATEMENTS = [100, pytest.param(20_000, marks=pytest.mark.slow)]
BATCH = 20
"""Statements on one database."""


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    made = Campaign(SEED)
    yield made
    made.close()


def ends(stage: Stage, plan: Plan) -> tuple[int, int] | None:
    """Return the least and the greatest unit of the plan's tables; None if they are no integers, or none."""
    found: list[int] = []
    for name in plan.compiled.tables:
        table = stage.world.policy.tables[name]
        if table.public or not isinstance(table.unit, UnitColumn):
            continue
        column = table.unit.column
        row = stage.connection.execute(f"SELECT MIN({column}), MAX({column}) FROM main.{name}").fetchall()[0]
        if any(isinstance(end, str) for end in row):
            return None
        found += [end for end in row if isinstance(end, int)]
    return (min(found), max(found)) if found else None


def counted(stage: Stage, plan: Plan, sql: str) -> Counts:
    return by_group(plan, stage.connection.execute(sql).fetchall())


def check(stage: Stage, plan: Plan, rng: Random, seen: Counter[str]) -> None:
    """Compare the texts of the right range and of wrong ones with the certified query."""
    query = plan.compiled.query
    if by_bits(query, 0, 1, HUGEINT) is None:
        seen["no units"] += 1
        return
    right = ends(stage, plan)
    if right is None:
        seen["no integers"] += 1
        return
    exact = counted(stage, plan, plan.compiled.sql)
    least, greatest = right
    wrong = rng.randrange(-3, 4), rng.randrange(-3, 4)
    for what, low, high in (
        ("right", least, greatest),
        ("wider", least - 5, greatest + 70),
        ("wrong", least + wrong[0], greatest + wrong[1]),
        ("reversed", greatest, least),
        ("elsewhere", greatest + 1, greatest + 9),
    ):
        made = by_bits(query, low, high, HUGEINT)
        assert made is not None
        try:
            found = counted(stage, plan, duckdb_sql(made))
        except duckdb.Error:
            assert high - low >= 10**9 or low > high, plan.compiled.sql
            seen["too wide"] += 1
            continue
        if any(MISSING in row for row in found.values()):
            assert what not in ("right", "wider"), plan.compiled.sql
            seen["missing"] += 1
            assert found.keys() == exact.keys()
            for group, row in found.items():
                assert all(n in (e, MISSING) for n, e in zip(row, exact[group], strict=True))
        else:
            assert found == exact, plan.compiled.sql
            seen[what] += 1


@pytest.mark.parametrize("statements", STATEMENTS)
def test_units_are_those_of_the_query(campaign: Campaign, statements: int) -> None:
    seen, rng = Counter[str](), Random(SEED)
    for batch in range(statements // BATCH):
        stage = campaign.stages[batch % len(campaign.stages)]
        stage.fill(small_data(campaign.rng, stage.world, repeated=0.5))
        stage.enter("whole")
        for _ in range(BATCH):
            made = campaign._statement(stage)
            for _, plan in compile_releases(stage.world, made, campaign.tried):
                check(stage, plan, rng, seen)
    print(seen)
    assert seen["right"] > statements / 30, seen
    assert seen["missing"] > statements / 100, seen
    assert not campaign.tried.findings
