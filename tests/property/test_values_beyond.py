"""The privacy claim of what values have beyond bounds: a unit moves three numbers by at most B w.

The databases are those of the statement fuzz, the columns all of their numbers, the bounds random ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from fuzz.campaign import Campaign
from fuzz.data import FEW, big_data, small_data
from fuzz.stage import UNITS, Stage

from dpsql.analysis import grids, table_measures
from dpsql.analysis.table_measures import ValueMeasure, compile_value_measure
from dpsql.kernel.check import Certificate
from dpsql.kernel.tree import Beyond, Query
from dpsql.policy import ColumnBounds, Table
from dpsql.types import DOUBLE

SEED = 44
ROUNDS = [(1, 40), pytest.param(150, 8_000, marks=pytest.mark.slow)]
"""Databases, and the removals to be expected."""
ENDS = (-(2**63), -(2**40), -1000, -3, -1, 0, 1, 2, 7, 50, 10**6, 2**40, 2**63 - 1)
BOUNDS = (1, 1, 2, 3, 10, 1000, 2**20)
"""B, how many rows of a unit count."""


@pytest.fixture(scope="module")
def opened() -> Iterator[Campaign]:
    with closing(Campaign(SEED)) as made:
        yield made


@pytest.fixture
def campaign(opened: Campaign) -> Campaign:
    """The same databases, and the same random ones of them, for each test."""
    opened.rng, opened.rounds = Random(SEED), 0
    return opened


def measures(rng: Random, stage: Stage) -> Iterator[ValueMeasure]:
    """Compile the measures of the numbers of all private tables, each with bounds of its own."""
    world = stage.world
    for table in world.policy.tables.values():
        for column, kind in world.schema_database.columns(table.name) if not table.public else ():
            if not kind.numeric or column in table.domain:
                continue
            low, high = sorted(rng.sample(ENDS, 2))
            if kind != DOUBLE:
                least, most = (end // 10**kind.scale for end in grids._ends_of_type(kind))
                low, high = max(low, least + 1), min(high, most)
            if low < high:
                ends = (Decimal(low), Decimal(high)) if kind.name in ("DECIMAL", "DOUBLE") else (low, high)
                bounded: Table = replace(table, domain={}, bounds={column: ColumnBounds(*ends)})
                yield compile_value_measure(
                    world.policy, world.schema_database, bounded, column, rng.choice(BOUNDS)
                )


def numbers(stage: Stage, measure: ValueMeasure, database: str) -> list[int]:
    stage.enter(database)
    found = stage.connection.execute(stage.parsed(measure.compiled.sql)).fetchone()
    assert found is not None
    return list(found)


def violations(campaign: Campaign) -> tuple[int, list[str]]:
    """Fill a database, remove every unit in turn; return how many were, and where the claim fails."""
    stage, rng = campaign.stages[campaign.rounds % len(campaign.stages)], campaign.rng
    campaign.rounds += 1
    made = list(measures(rng, stage))
    big = rng.random() < campaign.big
    units = rng.choice((FEW, FEW, UNITS))
    stage.fill(big_data(rng, stage.world) if big else small_data(rng, stage.world, units))
    removals, wrong = 0, []
    for measure in made:
        every = numbers(stage, measure, "whole")
        if numbers(stage, measure, "shuffled") != every or numbers(stage, measure, "nobody") != [0, 0, 0]:
            wrong.append(f"order or nobody: {measure}")
        for i in range(len(stage.data.units)):
            moved = [a - b for a, b in zip(every, numbers(stage, measure, f"minus{i}"), strict=True)]
            removals += 1
            if min(moved) < 0 or sum(moved) > measure.unit_change:
                wrong.append(f"{moved} beyond {measure.unit_change}: {measure.compiled.sql}")
    return removals, wrong


@pytest.mark.parametrize(("rounds", "removals"), ROUNDS)
def test_no_unit_moves_the_numbers_by_more_than_their_bound(
    campaign: Campaign, rounds: int, removals: int
) -> None:
    found = 0
    for _ in range(rounds):
        number, wrong = violations(campaign)
        assert not wrong, "\n\n".join(wrong[:3])
        found += number
    assert found >= removals


def _every_row(rows: Query, low: int, high: int, width: int, most: int, by_unit: bool) -> Beyond:
    return Beyond(rows, low, high, width, 2**20, by_unit)


def _check_nothing(certificate: Certificate, most: int) -> None:
    """Let what is certified be more than what is claimed."""


def test_rows_that_are_not_weighted_are_noticed(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_numbers", "check_together"):
        monkeypatch.setattr(table_measures, check, _check_nothing)
    monkeypatch.setattr(table_measures, "Beyond", _every_row)
    assert any(violations(campaign)[1] for _ in range(8))


def test_the_bound_is_reached(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    for check in ("check_numbers", "check_together"):
        monkeypatch.setattr(table_measures, check, _check_nothing)
    monkeypatch.setattr(ValueMeasure, "unit_change", property(lambda self: self.rows * self.width - 1))
    assert any(violations(campaign)[1] for _ in range(8))
