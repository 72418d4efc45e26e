"""Subqueries that are known change nothing in plans and refusals, and are compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest
from sqlglot import exp

from dpsql.analysis import build_plan, check_statement, complete_options, select_blocks
from dpsql.analysis.compiled_relation import Cte, Relation
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.known_subqueries import KnownSubqueries
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


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.longer)])
def test_plans_and_refusals_are_those_without_known_subqueries(session: Session, every: int) -> None:
    seen = 0
    for text in NESTED[::every]:
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
    assert seen > 200 / every


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


def tree_of(text: str) -> exp.Query:
    return of_type(parse(text), Query).tree


def find_cte(text: str) -> tuple[Cte, ...]:
    return (Cte("a", tree_of(text), (), ()),)


@pytest.mark.parametrize(
    ("text", "named", "same"),
    [
        ("SELECT b FROM a", "SELECT b FROM t", True),
        ("SELECT  b FROM a", "SELECT b FROM t", False),
        ("SELECT b FROM a", "SELECT  b FROM t", False),
        ("SELECT b FROM a", "SELECT b FROM u", False),
        ("SELECT c FROM a", "SELECT b FROM t", False),
        ("SELECT b FROM A", "SELECT b FROM t", False),
    ],
)
def test_what_a_subquery_depends_on(text: str, named: str, *, same: bool) -> None:
    """Its own nodes, those of the expressions that it names, and where they stand."""
    known = KnownSubqueries(select_blocks.compile_query)
    first = known.identify([tree_of("SELECT b FROM a")], find_cte("SELECT b FROM t"))
    assert (known.identify([tree_of(text)], find_cte(named)) == first) is same


def test_an_expression_that_is_not_named_makes_no_difference() -> None:
    known, tree = KnownSubqueries(select_blocks.compile_query), tree_of("SELECT b FROM t")
    assert known.identify([tree], find_cte("SELECT 1")) == known.identify([tree], ())


def test_which_expression_a_name_means() -> None:
    """Two trees that name the same two expressions, in another order."""
    known = KnownSubqueries(select_blocks.compile_query)
    queries = [tree_of("SELECT b FROM t"), tree_of("SELECT b FROM u")]
    found = [
        tuple(Cte(name, query, (), ()) for name, query in zip(names, queries, strict=True))
        for names in ("ac", "ca", "ac")
    ]
    tree = tree_of("SELECT b FROM a, c")
    one, other, again = (known.identify([tree], ctes) for ctes in found)
    assert one == again
    assert one != other


def test_trees_are_read_again_where_they_may_have_changed() -> None:
    known, tree = KnownSubqueries(select_blocks.compile_query), tree_of("SELECT b FROM t")
    before = known.identify([tree], ())
    with known.read_trees_once():
        known.identify([tree], ())
    tree.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    assert known.identify([tree], ()) != before
