"""Statements that tools send: the catalogue gives PostgreSQL's columns and rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dpsql.serve.catalog import Route, SessionFacts
from dpsql.serve.catalog.catalog import PgCatalog
from tests.serve.catalog_cases import OIDS, Declared, Statement, ours, plain, policy, statements

SQL = Path(__file__).parents[3] / "sql"
STATEMENTS = statements(SQL / "catalogue.sql")
EXPECTED: dict[str, Any] = json.loads((SQL / "catalogue.json").read_text(encoding="utf-8"))
FACTS = SessionFacts("alice", 4711)


@pytest.fixture(scope="module")
def catalog() -> PgCatalog:
    return PgCatalog(policy(), Declared(), "clinic", oids=OIDS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: f"{s.number}-{s.origin}")
@pytest.mark.sampled(3, rest="longer")
def test_answers_are_those_of_postgresql(catalog: PgCatalog, statement: Statement) -> None:
    expected = EXPECTED[str(statement.number)]
    assert catalog.route(statement.text) is Route.CATALOG
    found = ours(catalog, FACTS, statement.text)
    assert found.error == ""
    assert [list(column) for column in zip(found.names, found.oids, strict=True)] == expected["columns"]
    assert len(found.rows) == expected["count"]
    if expected["rows"] is not None:
        assert Counter(map(plain, found.rows)) == Counter(map(plain, expected["rows"]))


def test_the_fixture_has_an_answer_for_every_statement() -> None:
    assert {str(statement.number) for statement in STATEMENTS} == EXPECTED.keys()
    assert len(STATEMENTS) > 140


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: f"{s.number}-{s.origin}")
@pytest.mark.sampled(3)
def test_announced_columns_are_those_delivered(catalog: PgCatalog, statement: Statement) -> None:
    announced = catalog.describe(statement.text, FACTS)
    answer = catalog.answer(statement.text, FACTS)
    assert announced.columns == answer.columns
    assert [field.type for field in answer.table.schema] == [column.type for column in answer.columns]
    assert answer.table.column_names == [column.name for column in answer.columns]
    assert announced.parameters == ()
