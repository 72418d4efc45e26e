"""The privacy claim with bounds of kept ladders: removing a unit moves every number by what the plan says.

The databases and the claim are those of the statement fuzz; every table there has ladders of its rows, of
the totals of all its columns with numbers and of the groups of its keys, of random sizes. Whole-table
statements are made here, others by the fuzz: a ladder changes nothing of them, or it is found.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from fractions import Fraction
from random import Random

import pytest
from fuzz.campaign import Campaign
from fuzz.check import Tried, compile_releases, run_all
from fuzz.data import FEW, big_data, small_data
from fuzz.stage import UNITS
from fuzz.statements import Statement
from fuzz.world import World

from dpsql.analysis.bound_ladders import Kept, KeptLadders
from dpsql.analysis.table_measures import UnitMeasure, compile_group_measure, compile_unit_measure
from dpsql.errors import ProgrammingError
from dpsql.estimates import KeptLadder
from dpsql.kernel.mechanisms.ladder import thresholds
from dpsql.kernel.tree import CappedSum, Expr, FewUnits, RowSum, WeightedRows
from dpsql.policy import Table, UnitColumn, UnitRow

SEED = 35
ROUNDS = [(1, 20), pytest.param(150, 8_000, marks=pytest.mark.slow)]
"""Databases, and the removals to be expected with bounds of ladders."""
LARGEST = (1, 2, 3, 5, 7, 20, 100, 1_000, 10**6, 3 * 2**41 + 5, 5 * 2**60 + 1, 2**83)
"""The largest sizes of ladders, in steps."""


class Everything:
    """A ladder of every measure of every private table, of random sizes."""

    def __init__(self, world: World, rng: Random) -> None:
        self.ladders: dict[str, dict[str, Kept]] = {}
        for table in world.policy.tables.values():
            if table.public or isinstance(table.unit, UnitRow):
                continue
            columns = [name for name, kind in world.schema_database.columns(table.name) if kind.numeric]
            totals = [
                compile_unit_measure(world.policy, world.schema_database, table, c) for c in (None, *columns)
            ]
            for measure in (*totals, *_of_groups(world, table)):
                most = rng.choice(LARGEST)
                if not measure.wide:
                    most = min(most, 1 << 20)
                if measure.groups > 1:
                    most = rng.choice((1, 1, 2, 3))
                bins = tuple(rng.choice((0, 1, 5, 300, -2)) for _ in range(len(thresholds(most)) + 1))
                made = datetime(2026, 1, 1, tzinfo=UTC)
                ladder = KeptLadder(
                    1, table.name, measure.text, measure.step, "v", made, Fraction(1), most, bins
                )
                self.ladders.setdefault(table.name, {})[measure.text] = Kept(ladder, current=True)

    def of(self, table: str) -> tuple[str, ...]:
        """See `KeptLadders`."""
        return tuple(self.ladders.get(table, ()))

    def earlier(self, tables: Iterable[str]) -> Iterator[KeptLadders]:
        """See `KeptLadders`: there are no others."""
        yield from ()

    def find(self, table: str, measure: str) -> Kept | None:
        """See `KeptLadders`."""
        return self.ladders.get(table, {}).get(measure)


def _of_groups(world: World, table: Table) -> Iterator[UnitMeasure]:
    """Yield the measures of in how many groups of one or two columns a unit is, if it may be in several."""
    for columns in (*itertools.combinations(table.domain, 1), *itertools.combinations(table.domain, 2)):
        with suppress(ProgrammingError):
            yield compile_group_measure(world.policy, world.schema_database, table, columns)


def whole_statement(rng: Random, world: World) -> Statement:
    """Make a statement over all rows of a private table: numbers of all kinds, keys, and a selection."""
    tables = [t for t in world.policy.tables.values() if not t.public and not isinstance(t.unit, UnitRow)]
    table = rng.choice(tables)
    columns = [name for name, kind in world.schema_database.columns(table.name) if kind.numeric]
    keys = rng.sample(sorted(table.domain), min(len(table.domain), rng.choice((0, 0, 1, 1, 2))))
    numbers = [_number(rng, columns) for _ in range(rng.choice((1, 1, 2, 3)))]
    if isinstance(table.unit, UnitColumn) and rng.random() < 0.3:
        numbers = [f"COUNT(DISTINCT {table.unit.column})", *numbers[2:]]
    listed = ", ".join([*keys, *(f"{each} AS n{i}" for i, each in enumerate(numbers))])
    options = ["epsilon = 1"]
    if rng.random() < 0.2:
        options.append(f"max_rows_contributed = {rng.choice((1, 2, 3, 10))}")
    source = rng.choice(
        (table.name, table.name, f"(SELECT * FROM {table.name}) AS q", f"{table.name} WHERE TRUE")
    )
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({', '.join(options)}) {listed} FROM {source}"
    if keys:
        text += f" GROUP BY {', '.join(keys)}"
        text += rng.choice(("", "", " ORDER BY n0 DESC LIMIT 2", " HAVING n0 > 3"))
    return Statement(text, frozenset({"all rows of a table", f"table {table.name}"}))


def _number(rng: Random, columns: list[str]) -> str:
    kind = rng.choice(("COUNT(*)", "SUM", "SUM", "SUM", "AVG", "STDDEV", "rows"))
    if kind == "COUNT(*)" or not columns:
        return "COUNT(*)"
    column, low, high = rng.choice(columns), rng.choice((0, 0, -3)), rng.choice((1, 4, 50))
    if kind == "SUM":
        return f"SUM({column})"
    name = "SUM" if kind == "rows" else kind
    return f"{name}({column}, contribution_bounds_per_row => ({low}, {high}))"


@pytest.fixture(scope="module")
def opened() -> Iterator[Campaign]:
    with closing(Campaign(SEED)) as made:
        yield made


@pytest.fixture
def campaign(opened: Campaign) -> Campaign:
    """The same databases, and the same random ones of them, for each test."""
    opened.rng, opened.rounds, opened.tried = Random(SEED), 0, Tried()
    for stage in opened.stages:
        stage.world.schema_database.kept_ladders = Everything(stage.world, opened.rng)
    return opened


def whole_round(campaign: Campaign, tried: Tried, statements: int = 12) -> int:
    """Run new statements on a new database and its neighbours; return the removals with bounds of ladders."""
    stage, rng = campaign.stages[campaign.rounds % len(campaign.stages)], campaign.rng
    campaign.rounds += 1
    stage.world.schema_database.kept_ladders = Everything(stage.world, rng)
    plans = []
    for _ in range(statements):
        plans += compile_releases(stage.world, whole_statement(rng, stage.world), tried)
    bounded = [each for each in plans if any(each[1].left_out)]
    if rng.random() < campaign.big:
        stage.fill(big_data(rng, stage.world))
    else:
        stage.fill(small_data(rng, stage.world, rng.choice((FEW, FEW, UNITS))))
    before = tried.removals
    run_all(stage, bounded, tried, ("shuffled", "nobody", "only"))
    return tried.removals - before


@pytest.mark.parametrize(("rounds", "removals"), ROUNDS)
def test_no_unit_moves_a_number_of_a_whole_table_by_more_than_its_bound(
    campaign: Campaign, rounds: int, removals: int
) -> None:
    tried = Tried()
    bounded = sum(whole_round(campaign, tried) for _ in range(rounds))
    print(tried, bounded)
    assert not tried.findings, "\n\n".join(map(str, tried.findings[:3]))
    assert bounded >= removals


@pytest.mark.slow
def test_no_unit_moves_a_number_of_any_statement_by_more_than_its_bound(campaign: Campaign) -> None:
    for _ in range(40):
        campaign.round()
    assert not campaign.tried.findings, "\n\n".join(map(str, campaign.tried.findings[:3]))


def _uncut(part: object, unit: Expr, values: tuple[Expr, ...], up_to: Expr, whole: Expr) -> Expr:
    return values[-1]


@pytest.mark.parametrize(
    "part",
    [*(pytest.param(p, marks=pytest.mark.slow) for p in (CappedSum, WeightedRows, RowSum, FewUnits))],
)
def test_a_number_that_is_not_cut_is_noticed(
    campaign: Campaign,
    monkeypatch: pytest.MonkeyPatch,
    part: type[CappedSum | WeightedRows | RowSum | FewUnits],
) -> None:
    monkeypatch.setattr(part, "weigh", _uncut)
    tried = Tried()
    for _ in range(20):
        whole_round(campaign, tried)
        if tried.findings:
            break
    assert tried.findings
