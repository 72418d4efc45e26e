"""The counts are those of the SQL as typed: dpsql's compiled text against the engine on the statement itself.

Random statements, without their selection, run on plain DuckDB over rows that all have a unit; what dpsql
counts before it adds noise must be the same. Where dpsql means something else on purpose it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest
from fuzz.check import Tried, compile_statement, plain_values
from fuzz.data import PLACE, Data, small_data
from fuzz.mutant import Mutant
from fuzz.mutants import MUTANTS
from fuzz.stage import Stage
from fuzz.statements import Statement, statement
from fuzz.world import worlds

from dpsql.analysis import Plan
from tests.daily import daily

SEED = 11
STATEMENTS = 10
SELECTION = re.compile(
    r" (TOP \d+ BY \w+|HAVING n\d+ [>=]+ \d+( ORDER BY \w+ DESC)? LIMIT \d+|ORDER BY n\d+( DESC)? LIMIT \d+)$"
)
OWN_WAYS = {
    *(
        "clamped rows",
        "weighted rows",
        "distinct values",
        "all groups",
        "QUALIFY selection",
        "QUALIFY partitions",
    ),
    *("unknown domain", "table items"),
    *("without single rows", "declared values", "a released number"),
}
"""What plain SQL has no words for; of an unknown domain only the largest groups are looked at."""

OWN_FORMS = re.compile(r"trunc\(|time_bucket|current_date| level|nums|xs")
"""A DATE stays a DATE when it is truncated, UBIGINT is computed in BIGINT, the clock is read once."""


@pytest.fixture(scope="module")
def stages() -> Iterator[list[Stage]]:
    made = [Stage(world) for world in worlds()]
    yield made
    for stage in made:
        stage.close()


def with_units(data: Data) -> Data:
    """Leave out the rows that belong to nobody: SQL joins and counts them, dpsql does not see them."""
    kept = {t: [r for r in rows if t not in PLACE or r[PLACE[t]] != "NULL"] for t, rows in data.rows.items()}
    return replace(data, rows=kept)


def answered(
    connection: duckdb.DuckDBPyConnection, sql: str, keys: int, counts: int
) -> dict[str, tuple[object, ...]]:
    table = connection.sql(sql).to_arrow_table()
    rows = list(zip(*(map(number, plain_values(c)) for c in table.columns), strict=True))
    return {repr(row[:keys]): row[keys : keys + counts] for row in rows}


def number(value: object) -> object:
    return float(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value


def comparable(text: str, saw: frozenset[str]) -> bool:
    return not (saw & OWN_WAYS or OWN_FORMS.search(text))


def compared_with_sql(stage: Stage, text: str, plan: Plan) -> tuple[str, bool]:
    """Say where the counts differ from the statement's own, and whether anything was counted."""
    keys = len(plan.key_types)
    expected = answered(stage.connection, SELECTION.sub("", text), keys, len(plan.counts))
    # COUNT_IF and SUM of no rows are NULL on the engine.
    expected = {g: tuple(0.0 if n is None else n for n in row) for g, row in expected.items()}
    nothing = (0.0,) * len(plan.counts)
    found = answered(stage.connection, plan.compiled.sql, keys, len(plan.counts))
    wrong = {g: (n, expected.get(g)) for g, n in found.items() if n != expected.get(g, nothing)}
    some = any(n for row in found.values() for n in row)
    return (f"{wrong}\n  {text}\n  {plan.compiled.sql}" if wrong else ""), some


def test_the_counts_are_those_of_the_statement(stages: list[Stage]) -> None:
    rng = Random(SEED)
    compared = counted = 0
    different = []
    for number_of in range(1_000):
        stage = stages[number_of // 15 % len(stages)]
        if number_of % 15 == 0:
            stage.fill(with_units(small_data(rng, stage.world)))
            stage.enter("whole")
        made = statement(rng, stage.world)
        if not comparable(made.text, made.saw):
            continue
        plan = compile_statement(stage.world, made, Tried())
        if plan is None:
            continue
        try:
            wrong, some = compared_with_sql(stage, made.text, plan)
        except (duckdb.Error, pa.ArrowException):
            continue  # plain SQL raises where dpsql has NULL
        if wrong:
            different.append(wrong)
        compared += 1
        counted += some
        if compared == STATEMENTS:
            break
    assert not different, "\n\n".join(different[:3])
    assert compared == STATEMENTS
    assert counted > STATEMENTS / 3


READINGS = [m for m in MUTANTS if m.by == "meaning"]


@pytest.mark.parametrize("mutant", daily(READINGS, 1), ids=lambda m: m.name)
def test_a_wrong_reading_is_noticed(stages: list[Stage], mutant: Mutant) -> None:
    rng, stage = Random(SEED), stages[0]
    made = Statement(mutant.statement, frozenset())
    right = compile_statement(stage.world, made, Tried())
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        wrong = compile_statement(stage.world, made, Tried())
    assert right is not None
    assert wrong is not None
    noticed = False
    for _ in range(6):
        stage.fill(with_units(small_data(rng, stage.world)))
        stage.enter("whole")
        assert compared_with_sql(stage, made.text, right)[0] == ""
        noticed |= compared_with_sql(stage, made.text, wrong)[0] != ""
    assert noticed
