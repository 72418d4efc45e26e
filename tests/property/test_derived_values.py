"""What the kernel's checker derives of values is what DuckDB binds, and holds of what it computes.

Every statement that the analysis accepts is total and deterministic for the checker, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fuzz.campaign import FOCUS, FOCUSED
from fuzz.check import Tried, compile_releases
from fuzz.data import small_data
from fuzz.derived_values import Seen, hold, queries_of, unique_in
from fuzz.stage import Stage
from fuzz.statements import statement
from fuzz.world import worlds

from dpsql.analysis import analyse, complete_options
from dpsql.composition.block import separate
from dpsql.kernel.check import NotCertified
from dpsql.kernel.check.totality import Checked, Walk, check_total
from dpsql.language import Query, parse
from dpsql.policy import load
from dpsql.policy.model import facts_of
from dpsql.session import Session
from tests.narrow import engine_of
from tests.sql_fixtures import FOLDER, Fixture, raw_data, read, write

EACH = 32
"""One of so many fixtures is checked every day."""
FIXTURES = [fixture for path in sorted((FOLDER / "accepted").glob("*.sql")) for fixture in read(path)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        found = Session(load(write(tmp_path_factory.mktemp("values") / "whole", raw)))
    yield found
    found.close()


@pytest.mark.parametrize(
    "fixtures",
    [pytest.param(FIXTURES[::EACH], id="some"), pytest.param(FIXTURES, id="all", marks=pytest.mark.slow)],
)
def test_accepted_fixtures_are_total(fixtures: list[Fixture], session: Session) -> None:
    schema_database = engine_of(session).schema_database
    facts = facts_of(session.policy, schema_database)
    for fixture in fixtures:
        query = parse(fixture.statement)
        assert isinstance(query, Query)
        plain, _ = separate(query, session.policy, schema_database)
        plan = analyse(
            plain, session.policy, schema_database, complete_options(query.options, session.defaults)
        )
        checked = check_total(plan.compiled.query, facts)
        assert all(not value.literal for value in checked.rows.columns.values())


@pytest.mark.parametrize(
    ("seed", "statements"),
    [(1, 4), *(pytest.param(seed, 400, marks=pytest.mark.slow) for seed in (2, 3, 4))],
)
def test_types_and_ends_of_random_statements_hold(seed: int, statements: int) -> None:
    rng, seen, refused, checked = Random(seed), Seen(), Counter[str](), 0
    stages = [Stage(world) for world in worlds()]
    facts = [facts_of(stage.world.policy, stage.world.schema_database) for stage in stages]
    for number in range(statements):
        place = number % len(stages)
        stage, connection = stages[place], stages[place].connection
        if number % 40 < len(stages):
            stage.fill(small_data(rng, stage.world))
        focus = rng.choice(FOCUS) if rng.random() < FOCUSED else ()
        made = statement(rng, stage.world, frozenset(focus))
        for _, plan in compile_releases(stage.world, made, Tried()):
            checked += 1
            walk = Walk(facts[place])
            try:
                rows = walk.check_whole(plan.compiled.query, None)
            except NotCertified as refusal:
                refused[refusal.rule] += 1
                continue
            hold(Checked(rows, walk.scopes), plan.compiled.query, connection, seen)
            for query in queries_of(plan.compiled.query):
                if id(query) in walk.known.queries:
                    unique_in(query, walk.known.queries[id(query)].rows, connection, seen)
    for stage in stages:
        stage.close()
    assert not seen.wrong, "\n".join(seen.wrong[:20])
    assert refused.total() <= checked * 0.005, refused
    assert seen.types > 20 * checked
    assert seen.tight > checked
    assert seen.unique > checked


@pytest.mark.slow  # only a change of the campaign can break it
def test_a_wrong_type_is_noticed() -> None:
    """The comparison above would see it."""
    stage = Stage(worlds()[0])
    facts = facts_of(stage.world.policy, stage.world.schema_database)
    rng, seen = Random(3), Seen()
    stage.fill(small_data(rng, stage.world))
    found = compile_releases(stage.world, statement(rng, stage.world, frozenset()), Tried())
    while not found:
        found = compile_releases(stage.world, statement(rng, stage.world, frozenset()), Tried())
    query = found[0][1].compiled.query
    walk = Walk(facts)
    rows = walk.check_whole(query, None)
    for _, scope in walk.scopes.values():
        for item in scope.items.values():
            for name, value in item.columns.items():
                item.columns[name] = value._replace(high=value.low, nullable=False)
    hold(Checked(rows, walk.scopes), query, stage.connection, seen)
    stage.close()
    assert seen.wrong


def test_no_module_of_the_checker_knows_the_analysis() -> None:
    package = Path(__file__).parents[2] / "dpsql" / "kernel" / "check"
    assert not [path for path in package.glob("*.py") if "dpsql.analysis" in path.read_text("utf-8")]
