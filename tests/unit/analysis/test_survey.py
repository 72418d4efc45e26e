"""All obstacles of a statement: the survey agrees with the analysis, and cannot accept anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.analysis import analyse, complete_options, is_private, survey
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.known_subqueries import find_rule
from dpsql.analysis.select_blocks import compile_query
from dpsql.composition.block import separate
from dpsql.errors import InternalError, QueryRefused, QuerySyntaxError
from dpsql.language import Query, StatementText, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of
from tests.sql_fixtures import Fixture, raw_data, write
from tests.unit.analysis.test_sql_fixtures import ACCEPTED, REFUSED, sample


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        found = Session(load(write(tmp_path_factory.mktemp("survey") / "data", raw)))
    yield found
    found.close()


def both(session: Session, text: str) -> tuple[QueryRefused | None, list[QueryRefused]] | None:
    """What the analysis raises, and what the survey finds; None for a text that neither gets."""
    try:
        query = parse(text)
    except (QueryRefused, QuerySyntaxError):
        return None
    if not isinstance(query, Query) or not is_private(query, session.policy):
        return None
    options = complete_options(query.options, session.defaults)
    catalog = engine_of(session).schema_database
    query, _ = separate(query, session.policy, catalog)
    found = survey(query, session.policy, catalog, options)
    try:
        analyse(query, session.policy, catalog, options)
    except QueryRefused as refused:
        return refused, found
    return None, found


@pytest.mark.parametrize("fixture", sample(ACCEPTED))
@pytest.mark.sampled(3, rest="longer")
def test_an_accepted_statement_has_no_obstacle(fixture: Fixture, session: Session) -> None:
    assert both(session, fixture.statement) == (None, [])


@pytest.mark.parametrize("fixture", REFUSED)
@pytest.mark.sampled(3)
def test_a_refused_statement_has_the_obstacle_that_the_analysis_stopped_at(
    fixture: Fixture, session: Session
) -> None:
    refused, found = both(session, fixture.statement) or (None, [])
    if refused is not None:  # else it is refused before the analysis, or after it
        assert refused.obstacles[0] in [o for one in found for o in one.obstacles]


def compiler(session: Session) -> StatementCompiler:
    catalog = engine_of(session).schema_database
    return StatementCompiler(StatementText("SELECT 1"), session.policy, catalog, find_rule, compile_query)


def test_the_compiler_of_plans_goes_on_behind_no_refusal(session: Session) -> None:
    strict, refused = compiler(session), QueryRefused("no")
    for part in (strict.part(), strict.part("name"), strict.part(of_from=True)):
        with pytest.raises(QueryRefused), part:
            raise refused
    with pytest.raises(QueryRefused):
        strict.report(refused)
    with pytest.raises(InternalError):
        strict.give_up()


def test_only_the_survey_uses_the_compiler_that_goes_on() -> None:
    package = Path(__file__).parents[3] / "dpsql"
    users = {p.name for p in package.rglob("*.py") if "Surveyor" in p.read_text("utf-8")}
    assert users == {"survey.py", "__init__.py"}
    text = (package / "analysis" / "__init__.py").read_text("utf-8")
    made = text.split("def survey(")[1].split("\ndef ")[0]
    assert text.count("Surveyor(") == made.count("Surveyor(") == 1
    assert "-> list[QueryRefused]:" in made
