"""Items of a select list without an alias are named by their text."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpsql.language import find_nodes, name_columns, parse, title_of
from dpsql.language.statement import Query
from tests.narrow import of_type

CASES = [
    ("SELECT SUM(x), count( * ) FROM t", ["SUM(x)", "count( * )"]),
    ('SELECT a.b, "c d", b AS e, * FROM a', ["b", "c d", "e", "*"]),
    ("SELECT SUM(x)\n  /2, -- half\n  MAX( y /* of, all */ ) FROM t", ["SUM(x) /2", "MAX( y )"]),
    ("SELECT 'a,  b' || c FROM t", ["'a,  b' || c"]),
    ("SELECT x IS NOT DISTINCT FROM 'FROM' FROM t", ["x IS NOT DISTINCT FROM 'FROM'"]),
    ("SELECT DISTINCT ON (a, b) EXTRACT(day FROM d), [1, 2] FROM t", ["EXTRACT(day FROM d)", "[1, 2]"]),
    ("SELECT * EXCEPT (a), COUNT(*) FROM t", ["*", "COUNT(*)"]),
    ("SELECT COUNT(*) FILTER (WHERE x > ?), ? + 2 FROM t", ["COUNT(*) FILTER (WHERE x > ?)", "? + 2"]),
    ("SELECT CASE WHEN a THEN 'x' END, (SELECT 1);", ["CASE WHEN a THEN 'x' END", "(SELECT 1)"]),
    ("SELECT x::int, -y LIMIT 1", ["x::int", "-y"]),
    ("SELECT TOP 3 g, COUNT(*) FROM t GROUP BY g", ["g", "COUNT(*)"]),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) SUM(x, bounds => (0, 5)) FROM t",
     ["SUM(x, bounds => (0, 5))"]),
    ("FROM t SELECT COUNT(*) , 3", ["COUNT(*)", "3"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "titles"), CASES)
def test_the_name_is_the_text(text: str, titles: list[str]) -> None:
    select = of_type(of_type(parse(text, [1, 2] if "?" in text else None), Query).tree, exp.Select)
    found = ["*" if isinstance(n, exp.Star) else n.alias or title_of(n) for n in select.expressions]
    assert found == titles


def test_each_block_has_names_of_its_own() -> None:
    text = "WITH q AS (SELECT MIN(a), 1 FROM t) SELECT MAX(b) FROM q, (SELECT b + 1, c FROM u)"
    text += " UNION SELECT d || e FROM v"
    tree = of_type(parse(text), Query).tree
    found = {title_of(node) for select in find_nodes(tree, exp.Select) for node in select.expressions}
    assert found == {"MIN(a)", "1", "MAX(b)", "b + 1", "c", "d || e"}


def test_what_was_not_typed_is_written() -> None:
    assert title_of(exp.Anonymous(this="dpsql_fn_count", expressions=[exp.Star()])) == "count(*)"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT COUNT( * ), a, MAX(b) AS c, * FROM x", ["COUNT( * )", "a", "c", ""]),
        ("SELECT n > 40 FROM r UNION ALL SELECT 3", ["n > 40"]),
        ("SELECT SUM(n) FROM r UNION ALL SELECT 3 ORDER BY sum(n)", [""]),
        ("(SELECT date_diff(a, b, ISOWEEK) FROM r)", ["date_diff(a, b, ISOWEEK)"]),
    ],
)
def test_outermost_columns_get_their_names(text: str, names: list[str]) -> None:
    tree = of_type(parse(text), Query).tree
    name_columns(tree)
    first = next(iter(find_nodes(tree, exp.Select)))
    unnamed = (exp.Anonymous, exp.Star)
    found = ["" if isinstance(node, unnamed) else node.alias_or_name for node in first.expressions]
    assert found == names
