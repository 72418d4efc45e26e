"""Views of the policy: a statement that reads one is the statement with its SELECT written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa

from dpsql.cli.repl import names_of
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type
from tests.sql_fixtures import raw_data, write

VIEWS = {
    "slow": "SELECT * FROM visits WHERE ms > 5",
    "pages_of": "SELECT user_id, page FROM Slow",
    "per_page": "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page",
    "shares": "SELECT page, n / SUM(n) OVER () AS share FROM per_page",
    "kinds": "SELECT category, COUNT(*) AS pages FROM pages GROUP BY category",
    "first": "WITH slow AS (SELECT user_id, MIN(ms) AS ms FROM visits GROUP BY user_id) SELECT * FROM slow",
    "renamed": "SELECT page AS user_id, ms FROM visits",
    "wrong": "SELECT nothing FROM visits",
    "bare": "SELECT page, COUNT(*) AS n FROM visits GROUP BY page",
}
"""The policy's views: private rows, releases, what is computed from one, public rows."""


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    """The rows with keys in the declared domains, and the views in DuckDB."""
    with raw_data() as connection:
        connection.execute("DELETE FROM visits WHERE user_id IS NULL OR page IS NULL OR page IN ('e', 'z')")
        connection.execute("DELETE FROM pages WHERE page NOT IN (SELECT page FROM visits)")
        for name in ("slow", "pages_of", "per_page", "shares", "kinds", "first"):
            connection.execute(f"CREATE VIEW {name} AS {VIEWS[name]}")
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    path = write(tmp_path_factory.mktemp("views") / "whole", raw)
    text = path.read_text("utf-8").replace("epsilon = 1000\n", f"epsilon = {10**10}\n", 1)
    text = text.replace("default_epsilon = 1\n", "default_epsilon = 1e6\n")
    text = text.replace("\n[tables.visits.domain]", '\nnot_null = ["page"]\n[tables.visits.domain]')
    listed = "".join(f"\n[views.{name}]\nsql = '''{sql}'''\n" for name, sql in VIEWS.items())
    path.write_text(text + listed)
    found = Session(load(path))
    yield found
    found.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(DISTINCT user_id) AS n FROM slow",
        "SELECT page, COUNT(DISTINCT s.user_id) AS n FROM main.SLOW AS s GROUP BY page ORDER BY page",
        "SELECT pages_of.page, COUNT(DISTINCT user_id) AS n FROM pages_of GROUP BY 1 ORDER BY 1",
        "SELECT page, n FROM per_page WHERE n > 3.5 ORDER BY page",
        "SELECT page, ROUND(share, 3) AS share FROM shares ORDER BY page",
        "SELECT a.page, a.n - b.n AS d FROM per_page a JOIN per_page b ON a.page > b.page ORDER BY 1, 2",
        "SELECT category, SUM(n) AS n FROM per_page JOIN pages USING (page) GROUP BY 1 ORDER BY 1",
        "SELECT category, pages FROM kinds ORDER BY 1",
        "SELECT COUNT(DISTINCT user_id) AS n FROM first WHERE ms < 30",
        "SELECT COUNT(DISTINCT u.user_id) AS n FROM users u WHERE u.user_id IN (SELECT user_id FROM slow)",
        "(SELECT COUNT(DISTINCT user_id) AS n FROM slow) UNION ALL SELECT SUM(n) FROM per_page ORDER BY 1",
        "SELECT COUNT(DISTINCT f.user_id) AS n FROM first f JOIN main.slow s ON f.user_id = s.user_id",
        # Names of the statement's own: of a view, and of the table that a view reads.
        "WITH slow AS (SELECT 1 AS x) SELECT x FROM slow",
        "WITH visits AS (SELECT 'a' AS page) SELECT page, n FROM per_page JOIN visits USING (page)",
        "WITH slow AS (SELECT 1 AS x) SELECT x, n FROM slow, "
        "(SELECT COUNT(DISTINCT user_id) AS n FROM main.slow)",
        "WITH per_page AS (SELECT * FROM per_page WHERE n > 3.5) SELECT page, n FROM per_page ORDER BY page",
    ],
)
@pytest.mark.sampled(3)
def test_answers_are_those_of_the_same_views_in_duckdb(
    session: Session, raw: duckdb.DuckDBPyConnection, statement: str
) -> None:
    found = session.run(statement).table.to_pydict()
    exact = raw.sql(statement).to_arrow_table().to_pydict()
    assert list(found) == list(exact)
    for name, column in exact.items():
        if isinstance(column[0], str):
            assert found[name] == column
        else:
            assert found[name] == pytest.approx([float(value) for value in column], abs=0.01)


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("SELECT COUNT(DISTINCT user_id) FROM slow", f"WITH slow AS ({VIEWS['slow']}) %s"),
        (
            "SELECT page, COUNT(DISTINCT user_id) AS n FROM slow GROUP BY page",
            f"WITH slow AS ({VIEWS['slow']}) %s",
        ),
        ("SELECT page, n FROM per_page WHERE n > 2", f"WITH per_page AS ({VIEWS['per_page']}) %s"),
        ("SELECT MAX(n) FROM per_page", f"WITH per_page AS ({VIEWS['per_page']}) %s"),
        (
            "SELECT COUNT(DISTINCT ms, contribution_bounds_per_group => (0, 2)) AS n FROM renamed",
            f"WITH renamed AS ({VIEWS['renamed']}) %s",
        ),
        (
            "SELECT page FROM pages_of GROUP BY page ORDER BY COUNT(DISTINCT user_id) DESC LIMIT 2",
            f"WITH slow AS ({VIEWS['slow']}), pages_of AS ({VIEWS['pages_of']}) %s",
        ),
    ],
)
def test_a_statement_is_analysed_as_if_the_view_stood_in_it(
    session: Session, statement: str, written: str
) -> None:
    """The same counting SQL, bounds and price: nothing is known of a view that its SELECT does not say."""
    statement = statement.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", 1)
    plans = []
    for text in (statement, written % statement):
        prepared = session.prepare(text)
        assert isinstance(prepared, (PreparedPrivate, PreparedComposed))
        plans.append([(part.key, part.plan.counts, part.plan.outputs) for part in prepared.parts])
        plans[-1].append(prepared.price)  # type: ignore[arg-type]  # beside the parts
    assert plans[0] == plans[1]


def test_a_view_whose_alias_is_the_units_name_has_no_unit(session: Session) -> None:
    """`page AS user_id` counts pages: each unit may have many of them, so the count has a bound."""
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)"
    bounded = (
        f"SELECT {options} COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 7)) FROM renamed"
    )
    (count,) = of_type(session.prepare(bounded), PreparedPrivate).plan.counts
    assert count.bound == 7
    pages = session.prepare(
        f"SELECT {options} COUNT(DISTINCT user_id) FROM (SELECT page AS user_id FROM slow)"
    )
    assert of_type(pages, PreparedPrivate).plan.values is not None, "it counts the units of each page"
    prepared = session.prepare("SELECT COUNT(DISTINCT user_id) FROM slow")
    (count,) = of_type(prepared, PreparedPrivate).plan.counts
    assert count.bound == 1


def test_a_release_in_a_view_is_drawn_and_paid_for_once(session: Session) -> None:
    prepared = of_type(
        session.prepare(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, fresh = TRUE) a.n - b.n AS d "
            "FROM per_page a JOIN per_page b USING (page)"
        ),
        PreparedComposed,
    )
    assert len(prepared.parts) == 1
    assert float(prepared.price.epsilon) == 0.5
    assert set(session.execute(prepared).table.column("d").to_pylist()) == {0.0}


@pytest.mark.parametrize(
    ("statement", "error", "at"),
    [
        ("SELECT * FROM slow", "the rows of a private table are counted, never shown", "* FROM"),
        (
            "SELECT COUNT(DISTINCT user_id) FROM wrong",
            "there is no column nothing, in the view wrong",
            "wrong",
        ),
        (
            "SELECT n FROM bare",
            "say how many may count, in the view bare",
            "bare",
        ),
        ("SELECT SUM(p.n) FROM per_page p JOIN visits v USING (page)", "released and private rows", "visits"),
        ("SELECT x FROM other.slow", "there is no table slow", "other"),
        ("SELECT page FROM shars", "there is no table shars", "shars"),
    ],
)
def test_a_refusal_points_into_the_statement_that_reads_the_view(
    session: Session, statement: str, error: str, at: str
) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(statement)
    found = next(o for o in caught.value.obstacles if error in o.message)
    assert found.col == statement.index(at) + 1


def test_a_view_that_does_not_exist_is_found_by_its_letters(session: Session) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare("SELECT category FROM kindz")
    assert caught.value.rewrite == "SELECT category FROM kinds"


def test_what_a_view_has_is_shown(session: Session) -> None:
    shown = session.run("SHOW TABLES").table.to_pylist()
    assert [row["table"] for row in shown if row["unit"] == "view"] == list(VIEWS)
    columns = {
        "slow": [
            ("user_id", "BIGINT", ""),
            ("page", "VARCHAR", "declared"),
            ("country", "VARCHAR", "declared"),
        ],
        "per_page": [("page", "VARCHAR", "released"), ("n", "DOUBLE", "released")],
        "shares": [("page", "VARCHAR", "released"), ("share", "DOUBLE", "released")],
        "kinds": [("category", "VARCHAR", "public"), ("pages", "BIGINT", "public")],
    }
    spent = session.budget().spent
    for name, expected in columns.items():
        found = session.run(f"DESCRIBE {name}").table.to_pylist()
        assert [tuple(row.values()) for row in found][:3] == expected
    with pytest.raises(QueryRefused, match="there is no column nothing"):
        session.run("DESCRIBE wrong")
    assert session.budget().spent == spent


@pytest.mark.parametrize(
    ("statement", "views"),
    [
        ("SELECT COUNT(DISTINCT user_id) FROM pages_of", "slow, pages_of"),
        ("SELECT share FROM shares", "per_page, shares"),
        ("SELECT pages FROM kinds", "kinds"),
        ("SELECT COUNT(DISTINCT user_id) FROM visits", None),
    ],
)
def test_explain_names_the_views(session: Session, statement: str, views: str | None) -> None:
    found = session.run(f"EXPLAIN {statement}").table.to_pydict()
    assert dict(zip(found["property"], found["value"], strict=True)).get("views") == views


def test_completion_knows_views_and_leaves_out_the_columns_of_a_wrong_one(session: Session) -> None:
    found = names_of(session).tables
    assert found["shares"] == ("page", "share")
    assert found["wrong"] == ()


def test_sqlalchemy_lists_views(session: Session) -> None:
    path = of_type(session.policy.path, Path)
    engine = sa.create_engine(f"dpsql:///{path}")
    inspector = sa.inspect(engine)
    assert inspector.get_view_names() == list(VIEWS)
    assert set(inspector.get_table_names()) == set(session.policy.tables)
    assert [column["name"] for column in inspector.get_columns("SHARES")] == ["page", "share"]
    assert inspector.get_table_comment("shares") == {"text": "view"}
    with engine.connect() as connection:
        probed = connection.execute(sa.text("SELECT * FROM per_page WHERE 1 = 0"))
        assert list(probed.keys()) == ["page", "n"]
        assert probed.fetchall() == []
    engine.dispose()
