"""Rows that are weighed for listed units alone, on random statements over random databases: the same numbers.

Units are listed that have more rows in the table than count, as the facts have them; or more of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from fuzz.campaign import Campaign
from fuzz.check import Counts, by_group, compile_releases
from fuzz.data import small_data
from fuzz.stage import Stage
from fuzz.statements import statement

from dpsql.analysis import Plan
from dpsql.kernel.tree import Aggregate, Column, Derived, Item, Query, Scan, Select, duckdb_sql
from dpsql.kernel.unweighted import LISTED, _find_weighted, rows_in_full, units_of, unweighted

SEED = 38
STATEMENTS = [300, pytest.param(20_000, marks=pytest.mark.slow)]
BATCH = 60
"""Statements on one database."""


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    made = Campaign(SEED)
    yield made
    made.close()


def rows_by_unit(stage: Stage, rows: Query) -> dict[object, int]:
    unit = Column("s", "u")
    query = Select((Item(unit), Item(Aggregate("COUNT"), "n")), Derived(rows, "s"), group=(unit,))
    found = dict(stage.connection.execute(duckdb_sql(query)).fetchall())
    found.pop(None, None)
    return found


def counted(stage: Stage, plan: Plan, query: Query | None, listed: pa.Table | None) -> Counts:
    assert query is not None
    if listed is not None:
        stage.connection.register(LISTED, listed)
    return by_group(plan, stage.connection.execute(duckdb_sql(query)).fetchall())


def check(stage: Stage, plan: Plan, rng: Random, seen: Counter[str]) -> None:
    """Compare what the certificate says of a unit's rows, and then the numbers, with what is in the table."""
    query, table = plan.compiled.query, plan.compiled.certificate.rows_of
    node = _find_weighted(query)
    if node is None or table is None:
        seen["no such rows"] += 1
        return
    units = units_of(stage.world.schema_database.facts(stage.world.policy, plan.compiled.tables), table)
    assert units is not None
    every = rows_by_unit(stage, units)
    for unit, rows in rows_by_unit(stage, node.alone or node.rows).items():
        assert rows <= every[unit], plan.compiled.sql
    most = rows_in_full(query)
    if most is None:
        seen["not weighed"] += 1
        return
    exact = by_group(plan, stage.connection.execute(plan.compiled.sql).fetchall())
    source = Select(
        (Item(Column("a", "u")), Item(Aggregate("COUNT"), "n")),
        Derived(units, "a"),
        group=(Column("a", "u"),),
    )
    known = stage.connection.sql(duckdb_sql(source)).to_arrow_table()
    large = max(every.values(), default=0) > most
    for limit in {most, rng.randrange(most + 1), 0}:
        listed = known.filter(pa.array([n > limit for n in known["n"].to_pylist()], pa.bool_()))
        assert counted(stage, plan, unweighted(query, Scan(LISTED, "l")), listed) == exact, plan.compiled.sql
        seen["listed" if large else "none listed"] += 1
    if not large:
        assert counted(stage, plan, unweighted(query, None), None) == exact, plan.compiled.sql
        seen["nobody"] += 1
    elif counted(stage, plan, unweighted(query, None), None) != exact:
        seen["needed"] += 1


@pytest.mark.parametrize("statements", STATEMENTS)
def test_numbers_are_those_of_the_query(campaign: Campaign, statements: int) -> None:
    seen, rng = Counter[str](), Random(SEED)
    for batch in range(statements // BATCH):
        stage = campaign.stages[batch % len(campaign.stages)]
        stage.fill(small_data(campaign.rng, stage.world, repeated=0.5))
        stage.enter("whole")
        for number in range(BATCH):
            focus = frozenset(("weighted rows",) if number % 3 else ())
            made = statement(campaign.rng, stage.world, focus)
            for _, plan in compile_releases(stage.world, made, campaign.tried):
                check(stage, plan, rng, seen)
    print(seen)
    assert min(seen[what] for what in ("listed", "none listed", "nobody", "needed")) > statements / 100, seen
    assert not campaign.tried.findings
