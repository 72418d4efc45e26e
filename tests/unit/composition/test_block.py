"""A release block and the SELECT over its rows mean, over exact counts, what the statement means."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from sqlglot import exp

from dpsql.analysis.outer_query import MAX_COUNTS
from dpsql.composition import parts_of
from dpsql.composition.block import separate
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import analysed_blocks, engine_of, of_type, present
from tests.sql_fixtures import FOLDER, Fixture, raw_data, write
from tests.unit.analysis.test_sql_fixtures import fixtures, proved

MEASURES = fixtures(FOLDER / "accepted" / "measures.sql")


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with raw_data() as connection:
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    found = Session(load(write(tmp_path_factory.mktemp("block") / "data", raw)))
    yield found
    found.close()


def divided(session: Session, statement: str) -> tuple[Query, exp.Select | None]:
    query = parse(statement)
    assert isinstance(query, Query)
    return separate(query, session.policy, engine_of(session).schema_database)


def sql(tree: exp.Expr) -> str:
    """The statement as plain DuckDB runs it: the rank is the place in the block's own order."""
    tree = tree.copy()
    for call in tree.find_all(exp.Anonymous):
        call.set("this", str(call.this).removeprefix(MARK))
    order = tree.args.get("order")
    for call in list(tree.find_all(exp.Anonymous)):
        if call.this == "dp_rank":
            call.replace(exp.Window(this=exp.func("row_number"), order=order and order.copy()))
    return tree.sql("duckdb")


def values(found: duckdb.DuckDBPyRelation) -> list[tuple[object, ...]]:
    return [
        tuple(float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in row)
        for row in found.fetchall()
    ]


def released(raw: duckdb.DuckDBPyConnection, plain: Query) -> None:
    """Create the released relation with exact counts, as DOUBLE; keys keep their types."""
    made = raw.sql(sql(plain.tree))
    cells = [
        f'CAST("{name}" AS DOUBLE) AS "{name}"' if kind in ("BIGINT", "HUGEINT") else f'"{name}"'
        for name, kind in zip(made.columns, made.types, strict=True)
    ]
    raw.execute(f"CREATE OR REPLACE TEMP TABLE r0 AS SELECT {', '.join(cells)} FROM ({sql(plain.tree)})")


@pytest.mark.parametrize("fixture", MEASURES)
@pytest.mark.sampled(3)
def test_both_parts_together_mean_the_statement(
    fixture: Fixture, session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    plain, outer = divided(session, fixture.statement)
    if outer is not None:
        released(raw, plain)
    found, meant = raw.sql(sql(plain.tree if outer is None else outer)), raw.sql(fixture.statement)
    tree = of_type(parse(fixture.statement), Query).tree
    assert {i.alias_or_name for i in tree.expressions if isinstance(i, (exp.Alias, exp.Column))} <= set(
        found.columns
    )
    if tree.args.get("order") is not None:
        assert values(found) == values(meant)
    else:
        assert sorted(map(repr, values(found))) == sorted(map(repr, values(meant)))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page ORDER BY n DESC, page LIMIT 2",
        "SELECT page FROM visits GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2",
        "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY 1 HAVING n > 3 ORDER BY 1 LIMIT 2",
        "SELECT page, COUNT(DISTINCT user_id) FROM visits GROUP BY ALL ORDER BY page LIMIT 2",
        "SELECT page, COUNT(DISTINCT user_id) AS n, DP_STDDEV(n) AS e FROM visits GROUP BY page TOP 2 BY n",
        "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page "
        "QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 2",
        "SELECT COUNT(DISTINCT user_id), COUNT(DISTINCT user_id) FILTER (WHERE ms > 3) FROM visits",
        "SELECT nothing, COUNT(DISTINCT user_id) FROM visits GROUP BY 7",
        "SELECT 1 FROM visits",
    ],
)
def test_a_plain_block_stays_as_it_is(statement: str, session: Session) -> None:
    query = of_type(parse(statement), Query)
    plain, outer = separate(query, session.policy, engine_of(session).schema_database)
    assert plain is query
    assert outer is None


@pytest.mark.parametrize(
    ("statement", "measures"),
    [
        ("SELECT page FROM visits GROUP BY page ORDER BY {} / {}", 2),
        ("SELECT page, {} AS n FROM visits GROUP BY page HAVING n > 1 OR {} > 1", 2),
        ("SELECT page, {} AS n FROM visits GROUP BY page ORDER BY n DESC, {} LIMIT 2", 2),
        ("SELECT page, {} AS n FROM visits GROUP BY page QUALIFY {} > AVG({}) OVER ()", 3),
        ("SELECT page || '!' FROM visits GROUP BY page ORDER BY {} DESC LIMIT 2", 0),
    ],
)
def test_a_measure_that_is_not_selected_is_released_as_one_that_is(
    statement: str, measures: int, session: Session
) -> None:
    counts = [f"COUNT(DISTINCT user_id) FILTER (WHERE ms > {i})" for i in range(3)]
    plan = proved(session, statement.format(*counts))
    assert sum(output.kind == "count" for output in plan.outputs) == measures


def test_groups_without_rows_are_left_out_where_the_outer_query_divides_by_a_count(
    session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    count = "COUNT(DISTINCT user_id)"
    cells = "('a', 0.002, 0.001), ('b', -1.0, -3.0), ('c', 2.0, 4.0), ('d', -0.2, 0.6)"
    rows = f'(VALUES {cells}) AS r0(page, "{{}}", "{{}}")'
    for item, shown in [
        (f"{count} FILTER (WHERE ms > 1) / {count} AS x", 2),
        (f"{count} FILTER (WHERE ms > 1) + {count} AS x", 4),
        (f"{count} FILTER (WHERE ms > 1) / SUM({count}) OVER () AS x", 4),
    ]:
        plain, outer = divided(session, f"SELECT page, {item} FROM visits GROUP BY page")
        names = [each.alias for each in plain.tree.expressions[1:]]
        table = sql(present(outer)).replace('FROM "r0"', "FROM " + rows.format(*names))
        assert len(raw.sql(table).fetchall()) == shown


@pytest.mark.parametrize(
    ("around", "left_out"),
    [
        ("SELECT COUNT(*) FROM t WHERE n < 10", True),
        ("SELECT AVG(n) FROM t", True),
        ("SELECT page, m / n FROM t", True),
        ("SELECT page, n / 2 FROM t", False),
        ("SELECT SUM(n) FROM t", False),
        ("SELECT page, n / SUM(n) OVER () FROM t", False),
    ],
)
def test_what_counts_the_groups_of_a_release_counts_those_that_exist(
    around: str, left_out: bool, session: Session
) -> None:
    inner = (
        "SELECT page, COUNT(DISTINCT user_id) AS n, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY page"
    )
    for text in (f"WITH t AS ({inner}) {around}", around.replace("FROM t", f"FROM ({inner}) AS t")):
        query = of_type(parse(text), Query)
        parts = parts_of(query, analysed_blocks(session))
        assert ("> 0.5" in sql(present(parts.outer))) is left_out


def test_a_block_has_a_limited_number_of_measures(session: Session) -> None:
    counts = [f"COUNT(DISTINCT user_id) FILTER (WHERE ms > {i})" for i in range(MAX_COUNTS + 1)]
    proved(session, f"SELECT {' + '.join(counts[:MAX_COUNTS])} FROM visits")
    with pytest.raises(QueryRefused, match=f"at most {MAX_COUNTS} counts"):
        proved(session, f"SELECT {' + '.join(counts)} FROM visits")


@pytest.mark.parametrize(
    ("statement", "at", "message"),
    [
        ("SELECT page, {} + ms FROM visits GROUP BY page", "ms", "neither a group key nor a count"),
        ("SELECT page, {} AS n FROM visits GROUP BY page ORDER BY ms", "ms", "neither a group key"),
        ("SELECT page, {} AS n FROM visits GROUP BY page HAVING n > 1 OR ms > 1", "ms", "neither a group"),
        ("SELECT page, SUM(ms) OVER () + {} FROM visits GROUP BY page", "ms", "neither a group key"),
        ("SELECT page, {} + MEDAIN(ms) FROM visits GROUP BY page", "MEDAIN", "MEDAIN"),
        (
            "SELECT page, {} + AVG(ms) FROM visits GROUP BY page",
            "AVG",
            "AVG needs bounds on what one user_id contributes",
        ),
        ("SELECT page, n + 1 AS n FROM visits GROUP BY page ORDER BY {}", "n + 1", "there is no column n"),
    ],
)
def test_what_is_no_measure_and_no_key_is_refused_where_it_stands(
    statement: str, at: str, message: str, session: Session
) -> None:
    text = statement.format("COUNT(DISTINCT user_id)")
    with pytest.raises(QueryRefused, match=message) as caught:
        proved(session, text)
    assert caught.value.col == text.index(at) + 1
