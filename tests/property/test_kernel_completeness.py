"""What the analysis accepts is certified, with bounds that are no lower than those it states.

`python -m tests.property.kernel.completeness --random 10000 [--corpus FOLDER]` is the same at any length.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import pytest
from kernel.amounts import amounts
from kernel.completeness import Share, share_of
from kernel.grounds import FixtureGround, Ground, grounds

from dpsql.analysis.bound_ladders import Ladder
from dpsql.analysis.counting_query import ProjectedRows, score_rungs
from dpsql.kernel.tree import Query

SEED = 36


@pytest.fixture(scope="module")
def made() -> Iterator[list[Ground]]:
    found = grounds()
    yield found
    for ground in found:
        ground.close()


def rungs_of_servers(rows: ProjectedRows, ladder: Ladder, *, server: bool) -> Query:
    assert not server
    return score_rungs(rows, ladder, server=True)


def shown(share: Share) -> str:
    return "\n\n".join(f"{why}\n{text}" for text, why in share.lacking)


@pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_all_fixtures_are_certified(made: list[Ground], every: int) -> None:
    """Every day all are certified by `unit/analysis/test_sql_fixtures.py`; these are compared."""
    (fixtures,) = (ground for ground in made if isinstance(ground, FixtureGround))
    texts = fixtures.texts[::every]
    share = share_of("fixtures", fixtures, texts)
    print(share)
    assert share.accepted == len(texts)
    assert not share.lacking, shown(share)


@pytest.mark.parametrize("number", [24, pytest.param(4_000, marks=pytest.mark.slow)])
def test_searches_as_servers_run_them_are_certified(
    made: list[Ground], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(sys.modules["dpsql.analysis.passes"], "score_rungs", rungs_of_servers)
    rng, searches = Random(SEED), 0
    for ground in (ground for ground in made if not isinstance(ground, FixtureGround)):
        texts = [amounts(rng) for _ in range(number // 4)]
        share = share_of(ground.name, ground, texts)
        print(share)
        searches += share.queries - share.accepted
        assert len(share.lacking) <= share.accepted // 200, shown(share)
    assert searches >= number // 8


@pytest.mark.parametrize("number", [20, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_statements_are_certified(made: list[Ground], number: int) -> None:
    worlds = [ground for ground in made if not isinstance(ground, FixtureGround)]
    rng, every = Random(SEED), Share("random")
    for ground in worlds:
        share = share_of(ground.name, ground, (ground.draw(rng) for _ in range(number // len(worlds))))
        print(share)
        every.accepted += share.accepted
        every.certified += share.certified
        every.lacking += share.lacking
    assert every.accepted >= number // 2
    # One in 200, and of few statements one.
    assert len(every.lacking) <= max(every.accepted // 200, 1), shown(every)
