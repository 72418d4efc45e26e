"""Each block of a statement is analysed once, however often it is asked about and wherever it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql.analysis import Draft, build_plan, check_statement
from dpsql.composition import analysed_blocks as module
from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import QueryRefused
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import analysed_blocks, of_type
from tests.sql_fixtures import raw_data, write

PAGES = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
COUNTRIES = "SELECT country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY country"
TWO = f"WITH p AS ({PAGES}), c AS ({COUNTRIES}) SELECT * FROM "


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        path = write(tmp_path_factory.mktemp("analysed") / "whole", raw)
    found = Session(load(path))
    yield found
    found.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tell each check and each plan that is made."""
    found: list[str] = []

    def check(query: Query, *args: object) -> Draft:
        found.append(f"check at {of_type(args[2], Options).epsilon}")
        return check_statement(query, *args)  # type: ignore[arg-type]  # as it was called

    def build(draft: Draft) -> object:
        found.append("plan")
        return build_plan(draft)

    monkeypatch.setattr(module, "check_statement", check)
    monkeypatch.setattr(module, "build_plan", build)
    return found


def query_of(text: str) -> Query:
    return of_type(parse(text), Query)


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        (PAGES, 1),
        (f"SELECT * FROM ({PAGES}) WHERE n > 3", 1),
        (f"{TWO}(SELECT n FROM p UNION ALL SELECT n FROM c)", 2),
        (f"{TWO}p AS a JOIN p AS b USING (page) CROSS JOIN c", 2),
        ("SELECT page, country, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY ROLLUP (page, country)", 3),
    ],
)
def test_each_release_is_analysed_once(session: Session, made: list[str], text: str, releases: int) -> None:
    session.planner.query(text, query_of(text), session.database.engines())
    part = Fraction(1, releases)
    assert sorted(made) == [f"check at {part}"] * releases + ["plan"] * releases


def test_releases_that_are_equal_when_planned_are_planned_with_their_parts(
    session: Session, made: list[str]
) -> None:
    """Only the plans tell that two texts ask the same: then each has a larger part of the epsilon."""
    text = f"SELECT * FROM ({PAGES}) a JOIN ({PAGES}) b USING (page)"
    found = session.planner.query(text, query_of(text), session.database.engines())
    assert made.count("check at 1/2") == 2
    assert made.count("check at 1") == 1
    assert [part.plan.epsilon for part in of_type(found, PreparedComposed).parts] == [1]


def test_what_differs_is_analysed_for_itself(session: Session, made: list[str]) -> None:
    blocks, query = analysed_blocks(session), query_of(PAGES)
    first = blocks.plan(query)
    assert blocks.plan(replace(query)) is not first
    assert made == ["check at 1", "plan"]
    other = replace(query, options=replace(query.options, epsilon=Fraction(7)))
    assert blocks.plan(other).epsilon == 7
    assert blocks.plan(query).epsilon == 1
    top = replace(query, clause=query_of(f"{PAGES} TOP 3").clause)
    assert blocks.plan(top).selection != first.selection
    assert blocks.plan(query_of(f" {PAGES}")).compiled is not first.compiled  # errors are shown elsewhere
    assert made.count("plan") == 4


def test_a_changed_tree_is_another_block(session: Session, made: list[str]) -> None:
    blocks, query = analysed_blocks(session), query_of(f"{PAGES} ORDER BY page")
    assert blocks.is_declared(query)
    query.tree.set("order", None)
    blocks.plan(query)
    assert made == ["check at 1", "check at 1", "plan"]


def test_a_refusal_is_kept(session: Session, made: list[str]) -> None:
    blocks, query = analysed_blocks(session), query_of("SELECT SUM(nothing) FROM visits")
    refused = []
    for ask in (blocks.plan, blocks.check, blocks.plan):
        with pytest.raises(QueryRefused) as error:
            ask(query)
        refused.append(error.value)
    assert refused[0] is refused[1] is refused[2]
    assert not blocks.is_declared(query)
    assert made == ["check at 1"]
