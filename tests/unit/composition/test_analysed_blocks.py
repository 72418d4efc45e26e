"""Each block of a statement is analysed once, however often it is asked about and wherever it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from sqlglot import exp

from dpsql.analysis import Draft, build_plan, check_statement
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition import analysed_blocks as module
from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import QueryRefused
from dpsql.language import Options, Query, copy_tree, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import analysed_blocks, engine_of, of_type
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
@pytest.mark.sampled(3, rest="longer")
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


ROWS = "FROM visits v JOIN (SELECT user_id AS u, country FROM visits) w ON v.user_id = w.u WHERE page > 'a'"


@pytest.mark.parametrize(
    ("text", "compiled"),
    [
        (f"SELECT COUNT(*) {ROWS} GROUP BY v.page", 1),
        (f"SELECT COUNT(*) {ROWS.replace('u AND', 'u')} AND v.country = 'x'", 2),
        (f"SELECT COUNT(*) {ROWS.replace(', country', ', page')}", 2),
        (f"SELECT COUNT(*)  {ROWS}", 2),  # at other places of the text
    ],
)
def test_equal_from_clauses_are_compiled_once(session: Session, text: str, compiled: int) -> None:
    first, second = (query_of(each) for each in (f"SELECT COUNT(*) {ROWS}", text))
    provenance = Provenance(first.source, session.policy, engine_of(session).schema_database)
    selects = [of_type(copy_tree(each), exp.Select) for each in (first.tree, first.tree, second.tree)]
    made = [provenance.compile_rows(select, ())[1] for select in selects]
    assert made[0].source is made[1].source
    assert made[0].scope is not made[1].scope  # names may be added to each
    assert len({id(each.source) for each in made}) == compiled


def test_a_from_clause_that_names_another_query_is_compiled_again(session: Session) -> None:
    found = []
    texts = [f"WITH w AS (SELECT {columns} FROM visits) SELECT COUNT(*) FROM w" for columns in ("*", "page")]
    provenance = Provenance(query_of(texts[0]).source, session.policy, engine_of(session).schema_database)
    for text in (texts[0], *texts):
        select = of_type(query_of(text).tree, exp.Select)
        found.append(provenance.compile_rows(select, provenance.list_ctes(select, ()))[1])
    assert found[0].source is found[1].source
    assert found[0].source is not found[2].source
    assert not found[2].scope.has("country")


def test_of_sets_whose_rows_no_public_row_meets_one_is_analysed(session: Session, made: list[str]) -> None:
    """If no public row has values of the keys that meet WHERE, no set of the same rows has groups."""
    keys = "p.category, p.page"
    joined = "visits v JOIN pages p ON v.page = p.page WHERE p.category = 'none'"
    text = f"SELECT {keys}, COUNT(DISTINCT user_id) AS n FROM {joined} GROUP BY ROLLUP ({keys})"
    session.planner.query(text, query_of(text), session.database.engines())
    assert made == ["check at 1/3", "check at 1/3", "check at 1", "plan"]
