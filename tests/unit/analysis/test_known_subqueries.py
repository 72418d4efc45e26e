"""Subqueries that are known change nothing in plans and refusals, and are compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest
from sqlglot import exp

from dpsql.analysis import build_plan, check_statement, complete_options, select_blocks
from dpsql.analysis.compiled_relation import Cte, Relation
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.known_subqueries import KnownSubqueries, read_with_ctes
from dpsql.errors import QueryRefused, QuerySyntaxError
from dpsql.language import Options, Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type
from tests.sql_fixtures import FOLDER, raw_data, read, write

FILES = [path for kind in ("accepted", "refused") for path in sorted((FOLDER / kind).glob("*.sql"))]
TEXTS = [found.statement for path in FILES for found in read(path)]
NESTED = [text for text in TEXTS if text.upper().count("SELECT") > 1]
ROWS = "SELECT page, country, user_id FROM visits WHERE country <> 'x'"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with raw_data() as raw:
        path = write(tmp_path_factory.mktemp("known") / "whole", raw)
    found = Session(load(path))
    yield found
    found.close()


class NoneKnown(KnownSubqueries):
    """Compiles each subquery each time."""

    def __call__(
        self, compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
    ) -> Relation:
        return self.compile_query(compiler, node, ctes, depth)


def analyse(session: Session, query: Query, known: KnownSubqueries) -> str:
    """Return what the analysis finds of a statement that is one block, as text."""
    options = complete_options(query.options, Options(epsilon=Fraction(1)))
    catalog = session.database.engines().schema_database
    try:
        plan = build_plan(check_statement(query, session.database.policy, catalog, options, (), known))
    except QueryRefused as refused:
        return f"{refused} {refused.position}"
    return repr((plan.compiled.sql, plan.compiled.tables, plan.outputs, plan.assumed, plan.counts))


def test_plans_and_refusals_are_those_without_known_subqueries(session: Session) -> None:
    seen = 0
    for text in NESTED:
        try:
            query = parse(text)
        except (QueryRefused, QuerySyntaxError):
            continue
        if not isinstance(query, Query):
            continue
        known = KnownSubqueries(select_blocks.compile_query)
        expected = analyse(session, query, NoneKnown(select_blocks.compile_query))
        assert [analyse(session, query, known) for _ in range(2)] == [expected] * 2, text
        seen += 1
    assert seen > 200


def test_equal_subqueries_of_a_statement_are_compiled_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, compile_query = list[str](), select_blocks.compile_query

    def count(compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int) -> Relation:
        compiled.append(node.sql())
        return compile_query(compiler, node, ctes, depth)

    monkeypatch.setattr(select_blocks, "compile_query", count)
    counted = "COUNT(DISTINCT user_id) AS n FROM b GROUP BY"
    session.prepare(
        f"WITH a AS ({ROWS}), b AS (SELECT * FROM a), p AS (SELECT page, {counted} page), "
        f"c AS (SELECT country, {counted} country) SELECT p.n + c.n AS n FROM p CROSS JOIN c"
    )
    assert sorted(text for text in compiled if "DISTINCT" not in text) == ["SELECT * FROM a", ROWS]


def find_cte(text: str) -> tuple[Cte, ...]:
    query = of_type(parse(text), Query).tree
    return (Cte("a", query, (), ()),)


@pytest.mark.parametrize(
    ("text", "named", "same", "placed"),
    [
        ("SELECT b FROM a", "SELECT b FROM t", True, True),
        ("SELECT  b FROM a", "SELECT b FROM t", True, False),
        ("SELECT b FROM a", "SELECT  b FROM t", True, False),
        ("SELECT b FROM a", "SELECT b FROM u", False, True),
        ("SELECT c FROM a", "SELECT b FROM t", False, True),
        ("SELECT b FROM A", "SELECT b FROM t", False, True),
    ],
)
def test_what_a_subquery_depends_on(text: str, named: str, *, same: bool, placed: bool) -> None:
    """Its own nodes, those of the expressions that it names, and where they stand."""
    known = read_with_ctes([of_type(parse("SELECT b FROM a"), Query).tree], find_cte("SELECT b FROM t"))
    held, positions = read_with_ctes([of_type(parse(text), Query).tree], find_cte(named))
    assert (held == known[0], positions == known[1]) == (same, placed)


def test_an_expression_that_is_not_named_makes_no_difference() -> None:
    query = of_type(parse("SELECT b FROM t"), Query).tree
    assert read_with_ctes([query], find_cte("SELECT 1")) == read_with_ctes([query], ())
