"""The certificate of a query with other compared constants than a certified one is that of a new proof."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pytest

from dpsql.kernel.check import certify, renew
from dpsql.kernel.tree import Constant, Node, Query, Select, replace_nodes, walk
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import engine_of, private
from tests.sql_fixtures import Fixture, raw_data, write

from .test_sql_fixtures import ACCEPTED, proved, sample


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        found = Session(load(write(tmp_path_factory.mktemp("sql") / "whole", raw)))
        yield found
        found.close()


def constants_in_where(query: Query) -> set[int]:
    """The constants below the WHERE of any SELECT, by identity."""
    conditions = [node.where for node in walk(query) if isinstance(node, Select) and node.where is not None]
    return {id(node) for each in conditions for node in walk(each) if isinstance(node, Constant)}


def with_others(query: Query, chosen: set[int]) -> Query:
    """A query with other constants of the same kinds in the place of some."""

    def change(node: Node) -> Node:
        if not isinstance(node, Constant) or id(node) not in chosen:
            return node
        match node.value:
            case int() as number if type(number) is int and number + 1 < 1 << 31:
                return Constant(number + 1, node.type)
            case str() as text:
                return Constant(f"{text}!", node.type)
            case date() as day:
                return Constant(day + timedelta(days=1), node.type)
        return node

    return replace_nodes(query, change)


@pytest.mark.parametrize("fixture", sample(ACCEPTED))
def test_a_renewed_certificate_is_that_of_a_new_proof(session: Session, fixture: Fixture) -> None:
    compiled = proved(session, fixture.statement).compiled
    facts = engine_of(session).schema_database.facts(session.policy, compiled.tables)
    every = constants_in_where(compiled.query)
    for chosen in (every, *({each} for each in every)):
        other = with_others(compiled.query, chosen)
        found = renew(compiled.certificate, other, facts)
        if found is not None:
            assert found == certify(other, facts)
            assert found.query is other


def test_a_statement_with_another_constant_is_not_proved_anew(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(DISTINCT user_id) FROM visits"
    statement = begin + " WHERE ms > {}"
    session.prepare(statement.format(70_001))
    monkeypatch.setattr("dpsql.analysis.compiled_query.certify", None)
    assert "70002" in engine_text(session, statement.format(70_002))
    with pytest.raises(TypeError):
        session.prepare(statement.format(1 << 40))  # it has another type


def engine_text(session: Session, statement: str) -> str:
    return private(session.prepare(statement)).plan.compiled.sql
