"""The query tree: DuckDB's text of each node, where TRY stands, what a node reads, the forms of functions."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pytest

from dpsql.analysis.released.released_numbers import Moment, RowSum
from dpsql.analysis.released.unit_counts import WeightedRows
from dpsql.analysis.total_forms import expand_form
from dpsql.errors import InternalError
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    MOST,
    OPAQUE,
    Aggregate,
    Apply,
    Argument,
    Between,
    Binary,
    Bound,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Cut,
    Derived,
    DomainScan,
    Element,
    Exists,
    Expr,
    Form,
    Frame,
    InList,
    InQuery,
    Interval,
    IsNull,
    IsTruth,
    Item,
    Join,
    KeptHash,
    Lambda,
    Like,
    ListOf,
    Mean,
    Moved,
    Node,
    Not,
    OrderTerm,
    Parameter,
    Paren,
    Range,
    Saturated,
    ScalarQuery,
    Scan,
    Select,
    SetOperation,
    Slice,
    Steps,
    Try,
    Unary,
    Unnest,
    Unscaled,
    UtcTime,
    Values,
    Window,
    conjunction,
    duckdb_sql,
    facts,
    guarded,
    listed_forms,
    utc_time_sql,
)
from dpsql.kernel.tree.forms import (
    LONGEST,
    NEAR,
    NEGATED,
    SHORT_LIST,
    UTC_OFFSET,
    concatenated,
    overlaid,
    text_up_to,
)
from dpsql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    HUGEINT,
    INTEGER,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
)
from tests.kernel_trees import CELLS, of_units

A, B = Column("t1", "c0"), Column("t1", "c1")
ONE = Constant(1, INTEGER)
QUERY = Select(
    (Item(A, "c0"),), Derived(Select((Item(Column("b", "x", stored=True), "c0"),), Scan("t", "b")), "t1")
)
INNER = '(SELECT b."x" AS c0 FROM main."t" AS b) AS t1'


def form(template: str) -> Form:
    """Return a form of which nothing is known."""
    return Form("", "", (), template)


WRITTEN: list[tuple[Node, str]] = [
    (A, "t1.c0"),
    (Column("", "v"), "v"),
    (Column("b", 'a"b', stored=True), 'b."a""b"'),
    (Constant("it's", VARCHAR), "'it''s'"),
    (Constant(None, NULL), "NULL"),
    (Constant(value=True, type=BOOLEAN), "TRUE"),
    (Constant(1.5, DOUBLE), "CAST(1.5 AS DOUBLE)"),
    (Constant(Decimal("0.50"), SqlType("DECIMAL", 3, 2)), "CAST(0.50 AS DECIMAL(3,2))"),
    (Constant(Decimal(5), SqlType("DECIMAL", 1, 0)), "TRY_CAST(5 AS DECIMAL(1,0))"),
    (Constant(date(2024, 1, 31), DATE), "DATE '2024-01-31'"),
    (Constant(date(1, 1, 1), TIMESTAMP), "TIMESTAMP '0001-01-01'"),
    (Interval("3 month"), "INTERVAL '3 month'"),
    (ListOf((ONE, ONE)), "[1, 1]"),
    (Unary("-", ONE), "-1"),
    (Paren(Binary("=", A, ONE)), "(t1.c0 = 1)"),
    (Between(A, ONE, B), "t1.c0 BETWEEN 1 AND t1.c1"),
    (Not(A), "NOT t1.c0"),
    (IsNull(A), "t1.c0 IS NULL"),
    (IsNull(A, negated=True), "t1.c0 IS NOT NULL"),
    (IsTruth(A, value=False), "t1.c0 IS FALSE"),
    (Like(A, "ILIKE", B), "t1.c0 ILIKE t1.c1"),
    (Like(A, "LIKE", B, Constant("$", VARCHAR)), "t1.c0 LIKE t1.c1 ESCAPE '$'"),
    (InList(A, (ONE, B)), "t1.c0 IN (1, t1.c1)"),
    (Case(((A, ONE), (B, A)), B), "CASE WHEN t1.c0 THEN 1 WHEN t1.c1 THEN t1.c0 ELSE t1.c1 END"),
    (Case(((A, ONE),)), "CASE WHEN t1.c0 THEN 1 END"),
    (Cast(A, BIGINT), "TRY_CAST(t1.c0 AS BIGINT)"),
    (Cast(A, TIMESTAMPTZ), "TRY_CAST(t1.c0 AS TIMESTAMP)"),
    (UtcTime(A), utc_time_sql("t1.c0")),
    (Moved(A, -3600), "t1.c0 + INTERVAL '-3600 second'"),
    (Cast(A, BIGINT, safe=False), "CAST(t1.c0 AS BIGINT)"),
    (Try(A), "TRY(t1.c0)"),
    (Canonical(A), "(CASE WHEN isnan(t1.c0) THEN CAST('nan' AS DOUBLE) ELSE t1.c0 + 0.0 END)"),
    (Call("hash", (A, B)), "hash(t1.c0, t1.c1)"),
    (Apply(form("pow({1},{0}) + {1}"), (A, B)), "pow(t1.c1,t1.c0) + t1.c1"),
    (Element(A, ONE), "t1.c0[1]"),
    (Slice(A, -2, 3), "t1.c0[-2:3]"),
    (
        Steps(A, -3, 8, Fraction(1, 4)),
        "(CASE WHEN t1.c0 BETWEEN CAST(-0.75 AS DOUBLE) AND CAST(2.0 AS DOUBLE) THEN "
        "TRY_CAST(floor(t1.c0 * CAST(4.0 AS DOUBLE) + CAST(0.5 AS DOUBLE)) AS BIGINT) "
        "WHEN t1.c0 < CAST(-0.75 AS DOUBLE) THEN -3 WHEN t1.c0 <= CAST('inf' AS DOUBLE) THEN 8 END)",
    ),
    (Unscaled(A, SqlType("DECIMAL", 9, 2)), "TRY_CAST(t1.c0 * 100 AS BIGINT)"),
    (
        Unscaled(A, SqlType("DECIMAL", 18, 1)),
        "TRY_CAST(TRY_CAST(t1.c0 AS DECIMAL(38,1)) * 10 AS BIGINT)",
    ),
    (
        Unscaled(A, SqlType("DECIMAL", 38, 1)),
        "(TRY_CAST(trunc(t1.c0) AS HUGEINT) * 10 + "
        "TRY_CAST((t1.c0 - TRY_CAST(trunc(t1.c0) AS DECIMAL(38,1))) * 10 AS HUGEINT))",
    ),
    (Cut(Case(((A, ONE),)), A, SqlType("DECIMAL", 9, 2), 0, 1), "CASE WHEN t1.c0 THEN 1 END"),
    (
        Mean(A, B),
        "(CASE WHEN t1.c0 BETWEEN -9007199254740992 AND 9007199254740992 THEN "
        "TRY_CAST(TRY_CAST(t1.c0 AS BIGINT) AS DOUBLE) / TRY_CAST(t1.c1 AS DOUBLE) ELSE "
        "TRY_CAST(TRY_CAST(t1.c0 // t1.c1 AS BIGINT) AS DOUBLE) + "
        "TRY_CAST(TRY_CAST(t1.c0 % t1.c1 AS BIGINT) AS DOUBLE) / TRY_CAST(t1.c1 AS DOUBLE) END)",
    ),
    (Saturated(A, BIGINT, (1 << 63) - 1), "TRY_CAST(t1.c0 AS BIGINT)"),
    (
        Saturated(A, BIGINT, 1 << 63),
        "COALESCE(TRY_CAST(t1.c0 AS BIGINT), CASE (t1.c0 > 0) WHEN TRUE THEN 9223372036854775807 "
        "WHEN FALSE THEN (-9223372036854775807 - 1) END)",
    ),
    (
        Saturated(A, SqlType("DECIMAL", 18, 2), MOST),
        "COALESCE(TRY_CAST(t1.c0 AS DECIMAL(18,2)), CASE (TRY_CAST(t1.c0 AS DOUBLE) > 0) "
        "WHEN TRUE THEN TRY_CAST('9999999999999999.99' AS DECIMAL(18,2)) "
        "WHEN FALSE THEN TRY_CAST('-9999999999999999.99' AS DECIMAL(18,2)) END)",
    ),
    (
        Saturated(A, HUGEINT, MOST + 1, B),
        f"COALESCE(TRY_CAST(TRY(TRY_CAST(t1.c0 AS DECIMAL(38,0))) AS HUGEINT), CASE "
        f"WHEN t1.c1 >= CAST(1e+38 AS DOUBLE) THEN {MOST} WHEN t1.c1 <= -CAST(1e+38 AS DOUBLE) THEN -{MOST} "
        "ELSE TRY_CAST(t1.c1 AS HUGEINT) END)",
    ),
    (Call("f", (A, Lambda("p", Parameter("p")))), "f(t1.c0, lambda p: p)"),
    (
        Call("f", (A, Lambda("p", Parameter("p", ("x", "y"))))),
        "f(t1.c0, lambda p: struct_extract(struct_extract(p, 'x'), 'y'))",
    ),
    (Aggregate("COUNT"), "COUNT(*)"),
    (Aggregate("COUNT", (A,), distinct=True), "COUNT(DISTINCT t1.c0)"),
    (
        Aggregate("FIRST", (A,), order=(OrderTerm(B, "DESC", "LAST"), OrderTerm(A)), filter=B),
        "FIRST(t1.c0 ORDER BY t1.c1 DESC NULLS LAST, t1.c0) FILTER (WHERE t1.c1)",
    ),
    (Window(Call("RANK", ())), "RANK() OVER ()"),
    (
        Window(Aggregate("SUM", (A,)), (A, B), (OrderTerm(B),), Frame("ROWS", Bound("PRECEDING"))),
        "SUM(t1.c0) OVER (PARTITION BY t1.c0, t1.c1 ORDER BY t1.c1 ROWS UNBOUNDED PRECEDING)",
    ),
    (
        Window(A, order=(OrderTerm(B),), frame=Frame("GROUPS", Bound("CURRENT ROW"), Bound("FOLLOWING", 2))),
        "t1.c0 OVER (ORDER BY t1.c1 GROUPS BETWEEN CURRENT ROW AND 2 FOLLOWING)",
    ),
    (InQuery(A, QUERY), f"t1.c0 IN (SELECT t1.c0 AS c0 FROM {INNER})"),
    (Exists(Select((Item(ONE),))), "EXISTS (SELECT 1)"),
    (ScalarQuery(Select((Item(ONE),))), "(SELECT 1)"),
    (
        Select((Item(A, "k0"), Item(B)), Scan("t", "t1"), A, (ONE, B), (OrderTerm(B),), 3, distinct=True),
        'SELECT DISTINCT t1.c0 AS k0, t1.c1 FROM main."t" AS t1 WHERE t1.c0 GROUP BY 1, t1.c1 '
        "ORDER BY t1.c1 LIMIT 3",
    ),
    (SetOperation(Select((Item(ONE),)), "UNION ALL", Select((Item(ONE),))), "SELECT 1 UNION ALL SELECT 1"),
    (DomainScan("d_1"), "dpsql_domain.d_1"),
    (Values(((A, ONE), (B, ONE)), "r", ("v", "o")), "(VALUES (t1.c0, 1), (t1.c1, 1)) AS r(v, o)"),
    (Range(0, 5), "range(0, 5) AS r(i)"),
    (Range(0, 50, 10), "range(0, 50, 10) AS r(i)"),
    (Join(Scan("a", "a"), "CROSS", Unnest(A, "t2")), 'main."a" AS a CROSS JOIN UNNEST(t1.c0) AS t2(c0)'),
    (
        Join(Join(Scan("a", "a"), "", Scan("b", "b"), A), "LEFT", Scan("c", "c"), B),
        'main."a" AS a JOIN main."b" AS b ON t1.c0 LEFT JOIN main."c" AS c ON t1.c1',
    ),
]


@pytest.mark.parametrize(("node", "text"), WRITTEN, ids=lambda x: x if isinstance(x, str) else None)
def test_a_node_is_written(node: Node, text: str) -> None:
    assert duckdb_sql(node) == text


def test_every_node_type_is_written() -> None:
    types = {t for t in vars(tree).values() if isinstance(t, type) and issubclass(t, Node)}
    bases = {tree.Node, tree.Expr, tree.Query, tree.Source}
    seen = {type(node) for root, _ in WRITTEN for node in tree.walk(root)}
    written_as_others = {t for t in types if issubclass(t, (tree.Lowered, tree.Counted))}
    assert types - bases - seen - written_as_others == {Argument, tree.Candidates, tree.Numbered}
    assert {type(CELLS), type(of_units(tree.Units((), single=False)))} <= written_as_others


@pytest.mark.parametrize("node", [CELLS, of_units(tree.WeightedRows((), 7))], ids=["Sampled", "Weighted"])
def test_a_node_is_written_as_the_queries_that_it_stands_for(node: tree.Lowered) -> None:
    assert duckdb_sql(node) == duckdb_sql(node.lowered)
    assert tree.plain(node) is node.lowered
    assert isinstance(node.lowered, tree.Select)


def test_cells_are_written_as_in_stored_releases() -> None:
    """Another text of the same rows would end the free repeats of all quantiles: it is in the reuse key."""
    assert "FROM (SELECT a.u AS u, a.f0 AS f0 FROM (SELECT s.u, s.f0 FROM (" in duckdb_sql(CELLS)


def test_an_unknown_node_is_not_written() -> None:
    with pytest.raises(InternalError):
        duckdb_sql(Argument(0))


RAISING = Apply(form("chr({0})"), (A,))
GUARDED = [
    (A, "t1.c0"),
    (ONE, "1"),
    (RAISING, "TRY(chr(t1.c0))"),
    (Try(A), "TRY(TRY(t1.c0))"),
    (Binary("+", A, B), "TRY(t1.c0 + t1.c1)"),
    (Paren(Binary("=", RAISING, ONE)), "(TRY(chr(t1.c0)) = 1)"),
    (Binary("AND", Not(RAISING), IsNull(RAISING)), "NOT TRY(chr(t1.c0)) AND TRY(chr(t1.c0)) IS NULL"),
    (InList(RAISING, (RAISING,)), "TRY(chr(t1.c0)) IN (TRY(chr(t1.c0)))"),
    (
        Case(((IsTruth(RAISING, value=True), RAISING),)),
        "CASE WHEN TRY(chr(t1.c0)) IS TRUE THEN TRY(chr(t1.c0)) END",
    ),
    (Between(RAISING, ONE, ONE), "TRY(chr(t1.c0)) BETWEEN 1 AND 1"),
    (Call("coalesce", (RAISING, A)), "coalesce(TRY(chr(t1.c0)), t1.c0)"),
    (Call("json_extract_string", (A, ONE)), "TRY(json_extract_string(t1.c0, 1))"),
    (Cast(A, BIGINT, bounded=True), "TRY_CAST(t1.c0 AS BIGINT)"),
    (Cast(A, BIGINT), "TRY(TRY_CAST(t1.c0 AS BIGINT))"),
    (Cast(RAISING, BIGINT, bounded=True), "TRY(TRY_CAST(chr(t1.c0) AS BIGINT))"),
    (Canonical(RAISING), f"TRY({duckdb_sql(Canonical(RAISING))})"),
    (Apply(NEAR["neg"], (Exists(QUERY),)), None),
    (Window(RAISING), "chr(t1.c0) OVER ()"),
]


@pytest.mark.parametrize(("node", "text"), GUARDED)
def test_try_stands_around_what_could_fail(node: Expr, text: str | None) -> None:
    assert duckdb_sql(guarded(node)) == (duckdb_sql(node) if text is None else text)


def test_a_subquery_is_never_put_into_try() -> None:
    with pytest.raises(InternalError, match="a subquery under TRY"):
        guarded(Apply(form("chr({0})"), (ScalarQuery(QUERY),)))


def test_nodes_are_equal_by_their_parts_and_compared_by_kept_hashes() -> None:
    one, other = (Paren(Binary("+", Column("t", "a"), Constant(1, BIGINT))) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Paren(Binary("+", Column("t", "a"), Constant(2, BIGINT)))
    assert Paren(Column("t", "a")) != Not(Column("t", "a"))
    assert {type(node).__hash__ for node, _ in WRITTEN} == {Node.__hash__}
    assert {type(node).__eq__ for node, _ in WRITTEN} == {Node.__eq__}


def kinds(above: type[KeptHash]) -> set[type[KeptHash]]:
    below = above.__subclasses__()
    return {each for each in below if is_dataclass(each)}.union(*map(kinds, below))


def test_a_kept_hash_is_of_all_parts() -> None:
    """A part that it left out would make two numbers one, which is released once for both.

    The type of a column follows from the scope of the column.
    """
    found = kinds(KeptHash)
    assert {Paren, Select, WeightedRows, RowSum, Moment} <= found
    for each in found:
        names = [f.name for f in fields(each)]  # type: ignore[arg-type]
        assert names == [*each.__match_args__, *(["type"] if each.__name__ == "Column" else [])], (
            each.__name__
        )
        assert (each.__eq__, each.__hash__) == (KeptHash.__eq__, KeptHash.__hash__), each.__name__


def test_the_facts_of_an_expression() -> None:
    assert facts(Paren(Binary("=", A, B))).reads == {"t1.c0", "t1.c1"}
    assert facts(InQuery(A, QUERY)).reads == {"t1.c0", OPAQUE}
    assert facts(Exists(QUERY)).reads == facts(ScalarQuery(QUERY)).reads == {OPAQUE}
    assert facts(Window(Aggregate("COUNT", (A,)), (B,))).reads == {"t1.c0", OPAQUE}
    assert facts(Aggregate("SUM", (A,), order=(OrderTerm(B),), filter=B)).reads == {"t1.c0"}
    twice = Apply(form("{0} {0}"), (Binary("+", A, B),))
    assert facts(twice).size == 7
    assert facts(Apply(form("{0} {0}"), (twice,))).size == 15


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    """Return DuckDB's own tree of an expression, without the places in the text."""
    (text,) = connection.execute("SELECT json_serialize_sql($1)", [f"SELECT {sql}"]).fetchall()[0]
    found: dict[str, Any] = json.loads(text)
    assert not found["error"], sql
    return without_places(found["statements"][0]["node"]["select_list"][0])


def without_places(node: object) -> object:
    if isinstance(node, dict):
        return {k: without_places(v) for k, v in node.items() if not k.startswith("query_location")}
    return [without_places(part) for part in node] if isinstance(node, list) else node


OF_RULES = {
    *(NEGATED, UTC_OFFSET, SHORT_LIST, *NEAR.values()),
    *(text_up_to(32), text_up_to(LONGEST), concatenated(1), concatenated(3), overlaid(3), overlaid(4)),
}
"""Forms that rules make, beside those of `functions.csv`."""


def test_the_template_of_a_form_is_the_form() -> None:
    columns = tuple(Column("t1", f"c{i}") for i in range(6))
    every = {f for forms in listed_forms().values() for f in forms} | OF_RULES
    with duckdb.connect() as connection:
        for each in every - {*listed_forms()["not_like"]}:  # in the tree it is NOT of LIKE
            text = each.template.format(*map(duckdb_sql, columns))
            # The tree knows the type that DuckDB gives to 0.0.
            made = duckdb_sql(expand_form(Apply(each, columns))).replace("CAST(0.0 AS DECIMAL(2,1))", "0.0")
            assert parsed(connection, made) == parsed(connection, text)


def test_an_or_among_conditions_keeps_its_parentheses() -> None:
    one, *two = (Binary("=", A, Constant(i, BIGINT)) for i in (1, 2, 3))
    other = Binary("OR", *two)
    assert duckdb_sql(conjunction([one, other]) or A) == "t1.c0 = 1 AND (t1.c0 = 2 OR t1.c0 = 3)"
    assert duckdb_sql(conjunction([other]) or A) == "t1.c0 = 2 OR t1.c0 = 3"
