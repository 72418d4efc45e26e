"""Edited query trees: what the checker certifies holds on random data without each unit.

`python -m tests.property.kernel.campaign --edits 20000 --seed S` is the same at any length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import duckdb
import pytest
from kernel.attack import Attack, Claimed, Figures, hold
from kernel.edits import RULES, edited
from kernel.grounds import Ground, grounds
from kernel.place import Place
from kernel.sites import everywhere, sites

from dpsql.kernel.check import Certificate, Change, NotCertified, certify
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import Query, Select, duckdb_sql

SEED = 36


@pytest.fixture(scope="module")
def made() -> Iterator[list[Ground]]:
    found = grounds()
    yield found
    for ground in found:
        ground.close()


@pytest.mark.parametrize(
    ("edits", "each", "fills"),
    [pytest.param(40, 6, 1, id="daily"), pytest.param(20_000, 20, 3, id="long", marks=pytest.mark.slow)],
)
def test_edited_trees_hold_what_is_certified_of_them(
    made: list[Ground], edits: int, each: int, fills: int
) -> None:
    """`DPSQL_SEED` repeats a long run that failed."""
    seed = int(os.environ.get("DPSQL_SEED", SEED if fills == 1 else Random().randrange(2**32)))
    attack = Attack(made, seed)
    while attack.figures.edits < edits:
        attack.round(edits=each, statements=3, fills=fills)
    figures = attack.figures
    print(seed, figures)
    assert not figures.findings, f"seed {seed}: " + "\n\n".join(map(str, figures.findings[:3]))
    assert figures.accepted.total() >= edits // 10
    assert figures.refused.total() >= edits // 10


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "SELECT page, MEDIAN(ms, contribution_bounds_per_row => (0, 5)) AS n FROM visits GROUP BY page",
            marks=pytest.mark.slow,
        ),
        "SELECT COUNT(DISTINCT note) AS n FROM visits",
        pytest.param(
            "SELECT country, COUNT(DISTINCT note) AS n FROM visits GROUP BY country", marks=pytest.mark.slow
        ),
        pytest.param(
            "SELECT page, AVG(ms, contribution_bounds_per_row => (0, 5)) AS n FROM visits GROUP BY page",
            marks=pytest.mark.slow,
        ),
        pytest.param("SELECT SUM(ms, contribution_bounds => AUTO) AS n FROM visits", marks=pytest.mark.slow),
    ],
)
def test_no_query_of_a_tree_has_a_limit_or_another_name(made: list[Ground], text: str) -> None:
    """Every SELECT of a tree is edited: what is compared with a pattern must be the whole of it."""
    ground, rng, claimed, figures = made[0], Random(SEED), list[Claimed](), Figures()
    ground.fill(rng)
    for compiled in ground.compiled(text):
        for name in ("change LIMIT", "change names"):
            for site in sites(compiled.query):
                if not isinstance(site.node, Select):
                    continue
                for new in RULES[name][1](Place(site, compiled.query, rng)):
                    query = everywhere(compiled.query, site.node, new)
                    claim = claimed_of(ground, query)
                    if claim is not None:
                        claimed.append(Claimed(query, claim, compiled, (name,)))
    broken = hold(ground, claimed, rng, 3, figures)
    assert not broken, "\n\n".join(map(str, broken[:3]))


def claimed_of(ground: Ground, query: Query) -> Certificate | None:
    """What is certified of a query that binds; nothing if it is refused."""
    try:
        ground.connection.sql(duckdb_sql(query))
        return certify(query, ground.facts)
    except (duckdb.Error, NotCertified):
        return None


@pytest.mark.slow  # only a change of the campaign can break it
def test_a_claim_that_is_too_low_is_found(made: list[Ground]) -> None:
    """Without this, the campaign might find nothing whatever is certified."""

    def careless(query: Query, facts: Facts) -> Certificate:
        claim = certify(query, facts)
        numbers = tuple(Change(n.column, 0, 0, 0) for n in claim.numbers)
        object.__setattr__(claim, "numbers", numbers)
        return claim

    attack = Attack(made, SEED, careless)
    for _ in made:
        attack.round(edits=0, statements=2, fills=1)
    assert attack.figures.findings


@pytest.mark.slow  # only a change of the edits can break it
def test_every_rule_edits(made: list[Ground]) -> None:
    rng, seen = Random(SEED), set[str]()
    for _ in range(40):
        for ground in made:
            for compiled in ground.compiled(ground.draw(rng)):
                for _ in range(10):
                    new = edited(compiled.query, rng)
                    if new is not None:
                        assert duckdb_sql(new.query) != duckdb_sql(compiled.query)
                        seen.update(name.partition(",")[0] for name in new.edits)
        if seen >= RULES.keys():
            break
    assert seen >= RULES.keys()
