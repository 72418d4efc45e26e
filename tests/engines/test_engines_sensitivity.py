# ruff: noqa: E501  statements and lists of values read better unbroken
"""The privacy claim itself, on each engine: no unit moves a count by more than its bound.

A small campaign of the fuzzer: random statements over random rows, counted whole and without each unit; and
the whole compared with DuckDB, which counts the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from fuzz.check import Counts, Tried, by_group, compile_statement, counting_sql, counts, moved, plain_values
from fuzz.statements import Statement, statement
from support.stores import Store, compare
from support.worlds import Town, town

from dpsql.analysis import Plan
from dpsql.engines.writer import Untranslatable

SEED = 20261120
STATEMENTS = {"PostgreSQL": 60, "Spark": 14}
"""So many are counted, each on the whole and on five neighbours; Spark takes half a second for each."""


@pytest.fixture
def place(store: Store) -> Iterator[Town]:
    yield from town(store, Random(SEED))


def counted(place: Town, plan: Plan) -> Counts:
    table = compare(place.engine, counting_sql(plan))
    rows = list(zip(*(plain_values(column) for column in table.columns), strict=True))
    found = by_group(plan, rows)
    assert len(found) == len(rows)
    return found


def test_no_unit_moves_a_count_by_more_than_its_bound(place: Town) -> None:
    rng, tried = Random(SEED + 1), Tried()
    refused: Counter[str] = Counter()
    plans: list[tuple[Statement, Plan]] = []
    while len(plans) < STATEMENTS[place.store.name]:
        made = statement(rng, place.world)
        plan = compile_statement(place.world, made, tried)
        if plan is None:
            continue
        try:
            place.engine.translate(plan.compiled)
        except Untranslatable as problem:
            refused[problem.message[:70]] += 1
        else:
            plans.append((made, plan))
    assert not tried.findings, "\n".join(map(str, tried.findings[:3]))
    place.enter("whole")
    whole = [counted(place, plan) for _, plan in plans]
    compared = 0
    for (made, plan), found in zip(plans, whole, strict=True):
        # Which groups a unit keeps, and how its weighted rows are rounded, is drawn by another hash.
        if "hash(" not in plan.compiled.sql:
            assert found == counts(place.duck, plan), made.text
            compared += 1
    removals = 0
    for i in range(place.units):
        place.enter(f"minus{i}")
        for (made, plan), before in zip(plans, whole, strict=True):
            less = counted(place, plan)
            removals += 1
            if plan.domain_size is not None:
                assert less.keys() == before.keys(), made.text
            assert not moved(plan, before, less), f"{moved(plan, before, less)}: {made.text}"
    nonzero = sum(any(any(row) for row in found.values()) for found in whole)
    print(
        f"{place.store.name}: {len(plans)} statements counted ({nonzero} count somebody), {removals} removals, "
        f"{sum(refused.values())} not translated: {dict(refused.most_common(12))}"
    )
    assert nonzero >= len(plans) // 3
    assert compared >= len(plans) // 3
