"""Statements whose bound a search finds, on PostgreSQL and Spark: excesses are those that DuckDB counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from support.stores import Store
from test_engines_kept_bounds import policy_of
from test_engines_true_answers import DATA, POLICY

from dpsql.analysis.cut_contributions import find_excesses
from dpsql.database import Database
from dpsql.session import Session
from tests.narrow import present, private
from tests.support.exact import exact_of, excess_of
from tests.support.world import world_fixture

AUTO = POLICY.replace("rows_per_unit = 50\n", "")
STATEMENTS = (
    "COUNT(*) AS n FROM encounters",
    "SUM(minutes - 20, contribution_bounds => AUTO) AS n FROM encounters WHERE ward = 'a'",
    "SUM(value, contribution_bounds => AUTO) AS n, COUNT(*) AS m FROM results",
    "ward, SUM(minutes, contribution_bounds => AUTO) AS n, COUNT(*) AS m FROM encounters GROUP BY ward",
)


plain = world_fixture(AUTO, **DATA)


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    with closing(Database(policy_of(store, AUTO))) as opened, closing(Session(opened, "alice")) as asked:
        yield asked


def figures(session: Session, rest: str) -> list[object]:
    """Return the exact excess of each bound that may be found, and the rows of the searches."""
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {rest}"
    found = private(session.prepare(text))
    made = list[object]()
    counts = [found.counting.count(search.compiled) for search in found.plan.ladders]
    made += [sorted(zip(*(column.tolist() for column in exact_of(each).n), strict=True)) for each in counts]
    for rung in range(0, len(found.plan.ladders[0].ladder.bounds) - 1, 3):
        at = tuple(min(rung, len(each.ladder.bounds) - 1) for each in found.plan.ladders)
        bounded = found.counting.with_bounds(at)
        made += [excess_of(each, counts) for each in find_excesses(bounded.plan, found.plan.ladders, at)]
    return made


@pytest.mark.parametrize("rest", STATEMENTS)
def test_excesses_are_those_of_duckdb(session: Session, plain: Session, rest: str) -> None:
    expected = figures(plain, rest)
    assert figures(session, rest) == expected
    assert any(isinstance(each, int) and each > 0 for each in expected)


def test_an_answer_has_what_is_cut(session: Session) -> None:
    release = present(session.run(f"SELECT {STATEMENTS[0]}").release)
    assert "(in the range)" in release.line
    assert "no person has more than" in release.properties["assumes"]
