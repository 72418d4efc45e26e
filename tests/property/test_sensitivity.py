"""The privacy claim itself, on random statements over random databases.

For each accepted statement: the candidate groups are the same with and without any privacy unit; each count
changes by at most its bound, all groups the same way; what a unit adds does not depend on who else is there;
and the counts depend neither on the order of rows nor on threads nor on the optimizer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from fuzz.campaign import FOCUS, Campaign
from fuzz.check import Finding, Tried, compile_releases, compile_statement
from fuzz.crowd import Crowd
from fuzz.data import small_data
from fuzz.mutant import Mutant
from fuzz.mutants import MUTANTS
from fuzz.real import open_session
from fuzz.statements import Statement, statement
from fuzz.unseen import UNSEEN
from fuzz.world import worlds
from kernel.agreement import disagreement
from kernel.grounds import queries_of

from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.policy.model import facts_of
from tests.daily import daily
from tests.narrow import engine_of
from tests.support.exact import exact_of

SEED = 20240229
ROUNDS = [(1, 30), pytest.param(30, 2_000, marks=pytest.mark.slow)]
"""So many rounds, in which so many removals of units are to be expected."""
REACHED = """
    AND, OR, NOT, comparison, BETWEEN, IN, IS NULL, IS TRUE, IS DISTINCT FROM, LIKE, number kinds, CASE, cast,
    call, choice, interval, extract, negation, predicate call,
    owned-public INNER, owned-public LEFT, owned-public RIGHT, owned-public FULL, owned-public CROSS,
    owned-public comma, owned-public USING, owned-public SEMI, owned-public ANTI, public-owned INNER,
    public-owned LEFT, public-owned RIGHT, public-owned FULL, owned-owned INNER, owned-owned LEFT,
    owned-owned RIGHT, owned-owned FULL, owned-owned SEMI, owned-owned ANTI, owned-owned comma,
    owned-owned USING, join on the parent key,
    join on a shared key, UNNEST, VALUES, WITH, CTE reference, subquery, star,
    column list, DISTINCT, GROUP BY unit, owned GROUP BY, public GROUP BY, HAVING in a subquery, DISTINCT ON,
    window, QUALIFY,
    rank, ROW_NUMBER, neighbour, running, UNION ALL, UNION, EXCEPT, INTERSECT, public LIMIT,
    public branch of UNION ALL, owned branch of UNION ALL,
    subquery in a condition, IN unit, NOT IN unit, EXISTS tied, IN public, EXISTS public, scalar subquery,
    COUNT DISTINCT, FILTER, CASE in COUNT, IF in COUNT, COUNT(*), COUNT(x), COUNT_IF, COUNT(*) FILTER,
    clamped rows, weighted rows, distinct values, sum of ones, IN parent key, EXISTS parent key,
    GROUP BY parent key, joint domain, range in WHERE, measures apart, several releases,
    released value, declared values,
    one release used twice, HAVING on key or count, QUALIFY over released rows, ORDER BY key, OFFSET,
    COALESCE of units, difference of counts, all groups,
    key of facts, key column, key IN list, key boolean, key CASE, key coalesce, key expression, key part,
    unknown domain, all groups of an unknown domain,
    partitions of facts, partitions of events,
    ORDER BY LIMIT, TOP BY, HAVING LIMIT, HAVING ORDER, QUALIFY selection, lowest,
    unit person, unit row, unit device, table visits, table users, table orders, table items, table likes
"""
"""Rules that the ordinary run must reach with accepted statements."""


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    made = Campaign(SEED)
    yield made
    made.close()


@pytest.mark.parametrize(("rounds", "removals"), ROUNDS)
def test_no_unit_moves_a_count_by_more_than_its_bound(campaign: Campaign, rounds: int, removals: int) -> None:
    for _ in range(rounds):
        campaign.round()
    tried = campaign.tried
    print(tried)
    assert not tried.findings, "\n\n".join(map(str, tried.findings[:3]))
    assert tried.accepted >= 0.6 * tried.generated
    assert tried.removals >= removals


@pytest.mark.slow  # ten seconds, and only a change of the generator can break it
def test_the_generator_reaches_every_rule(campaign: Campaign) -> None:
    wanted = {name.strip() for name in REACHED.split(",")} - {""}
    for _ in range(40):
        if not wanted - set(campaign.tried.saw):
            break
        campaign.generate(50)
    assert not wanted - set(campaign.tried.saw)


NOTICED = [
    pytest.param(m, id=m.name, marks=[pytest.mark.slow] * m.slow)
    for m in MUTANTS
    if m.by in ("counts", "binder")
]


def test_each_wrong_rule_edits_the_code_as_it_is() -> None:
    """Most of them run on some days only."""
    with pytest.MonkeyPatch.context() as patch:
        for mutant in MUTANTS:
            mutant.apply(patch)
            patch.undo()


@pytest.mark.parametrize("mutant", daily(NOTICED, 2))
def test_a_wrong_rule_is_noticed(campaign: Campaign, mutant: Mutant) -> None:
    campaign.rng = Random(mutant.name)
    found = campaign.hunt(mutant, batches=40)
    assert found is not None
    assert (mutant.by == "binder") == found.what.startswith("InternalError")
    if mutant.by == "counts":
        assert bool(refusal_without_rows(campaign, found)) != (mutant.name in UNSEEN)


def refusal_without_rows(campaign: Campaign, found: Finding) -> str:
    """Return why the checker refuses the wrong query; nothing if it does not, or if no query is wrong."""
    if found.plan is None:
        return ""
    world = next(s.world for s in campaign.stages if found.where.startswith(s.world.name))
    facts = facts_of(world.policy, world.schema_database)
    reasons = (disagreement(query, facts) for query in queries_of(found.text, found.plan))
    return "; ".join(filter(None, reasons))


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.by == "analysis"], ids=lambda m: m.name)
def test_a_wrong_rule_accepts_nothing(campaign: Campaign, mutant: Mutant) -> None:
    made, tried = Statement(mutant.statement, frozenset()), Tried()
    assert not compile_releases(campaign.stages[0].world, made, tried)
    right = set(tried.refused)
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        assert not compile_releases(campaign.stages[0].world, made, tried)
    assert set(tried.refused) > right, "the rule was not made wrong"
    assert not tried.findings


@pytest.mark.slow
def test_the_fixtures_of_wrong_rules_are_sound_under_the_right_ones(campaign: Campaign) -> None:
    assert campaign.sound([m.statement for m in MUTANTS if m.statement]) > 0


@pytest.mark.slow
def test_campaign() -> None:
    """`DPSQL_REMOVALS` sizes it (a million for a night), `DPSQL_SEED` repeats one that failed."""
    wanted = int(os.environ.get("DPSQL_REMOVALS", "100000"))
    seed = int(os.environ.get("DPSQL_SEED", Random().randrange(2**32)))
    campaign = Campaign(seed, wide=0.9)
    try:
        while campaign.tried.removals < wanted and not campaign.tried.findings:
            campaign.round()
            if campaign.rounds % 200 == 0:
                print(seed, campaign.rounds, campaign.tried, flush=True)
    finally:
        campaign.close()
    print(seed, campaign.tried, campaign.tried.constructs, sep="\n")
    assert not campaign.tried.findings, f"seed {seed}: " + "\n\n".join(map(str, campaign.tried.findings[:3]))


def test_the_real_engine_counts_as_the_campaign_does(campaign: Campaign, tmp_path: Path) -> None:
    """From Parquet files, through the views and locks of a session, the counts are the same."""
    stage = campaign.stages[0]
    stage.fill(small_data(Random(3), stage.world))
    session = open_session(stage, tmp_path)
    compared = 0
    try:
        for _ in range(9):
            plan = compile_statement(stage.world, statement(campaign.rng, stage.world), Tried())
            if plan is None or (plan.key_types and plan.domain_size is None):
                continue
            found = engine_of(session).count(plan.compiled)
            table = pa.table({f"n{i}": n for i, n in enumerate(exact_of(found).n)})
            for i, name in enumerate(exact_of(found).keys.column_names):
                table = table.append_column(name, exact_of(found).keys.column(i))
            expected = stage.connection.sql(plan.compiled.sql).to_arrow_table().select(table.column_names)
            assert rows_of(table) == rows_of(expected), plan.compiled.sql
            compared += 1
    finally:
        session.close()
    assert compared > 3


@pytest.mark.slow
@pytest.mark.parametrize("people", [False, True], ids=["nobody", "some"])
def test_what_is_accepted_is_answered_whoever_is_there(
    campaign: Campaign, tmp_path: Path, *, people: bool
) -> None:
    """A statement that fails on some rows alone would tell of them."""
    stage, rng, answered = campaign.stages[0], Random(SEED), 0
    data = small_data(rng, stage.world)
    stage.fill(data if people else replace(data, rows={table: [] for table in data.rows}))
    session = open_session(stage, tmp_path)
    try:
        while answered < 200:
            try:
                prepared = session.prepare(statement(rng, stage.world, frozenset(rng.choice(FOCUS))).text)
            except (QueryRefused, QuerySyntaxError):
                continue
            session.execute(prepared)
            answered += 1
    finally:
        session.close()


def rows_of(table: pa.Table) -> list[str]:
    texts = [column.cast(pa.string()).to_pylist() for column in table.columns]
    return sorted(map(repr, zip(*texts, strict=True)))


@pytest.mark.slow
def test_a_crowd_counts_alike_on_any_number_of_threads() -> None:
    tried = Tried()
    crowd = Crowd(Random(SEED), worlds()[0])
    try:
        crowd.run(int(os.environ.get("DPSQL_STATEMENTS", "150")), tried)
    finally:
        crowd.close()
    print(tried)
    assert not tried.findings, "\n\n".join(map(str, tried.findings[:3]))
