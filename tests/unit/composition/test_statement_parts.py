"""Statements of several blocks: what is released, at which price, and what the outer query makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from dpsql.composition import Parts, parts_of, release_blocks
from dpsql.composition.block import Separated, separate
from dpsql.composition.block_clauses import share_epsilon
from dpsql.composition.prepared import PreparedComposed
from dpsql.errors import OperationalError, QueryRefused
from dpsql.language import AboveThreshold, AllGroups, Options, Query, Selection, TopK, parse
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import analysed_blocks, engine_of, of_type
from tests.sql_fixtures import FOLDER, Fixture, raw_data, write
from tests.unit.analysis.test_sql_fixtures import fixtures

COMPOSED = fixtures(FOLDER / "composed.sql")
PAGES = "SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page"
CLAUSE = re.compile(r" WITH DIFFERENTIAL_PRIVACY OPTIONS \([^)]*\)")
EXACT = 10**6
"""An epsilon at which a count is off by less than a millionth, all but certainly."""


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    """Rows whose keys all lie in the declared domains, each value of which has rows."""
    with raw_data() as connection:
        connection.execute("DELETE FROM visits WHERE user_id IS NULL OR country NOT IN ('DE', 'FR', 'US')")
        connection.execute("DELETE FROM visits WHERE country IS NULL OR page IS NULL")
        connection.execute("DELETE FROM visits WHERE day IS NULL OR year(day) <> 2024")
        connection.execute(
            "DELETE FROM visits WHERE page NOT IN (SELECT page FROM pages WHERE page IS NOT NULL)"
        )
        connection.execute("DELETE FROM pages WHERE page NOT IN (SELECT page FROM visits)")
        yield connection


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, raw: duckdb.DuckDBPyConnection) -> Iterator[Session]:
    path = write(tmp_path_factory.mktemp("parts") / "whole", raw)
    text = path.read_text("utf-8").replace("epsilon = 1000\n", f"epsilon = {10**10}\n", 1)
    whole = 'not_null = ["page", "country", "day"]'
    path.write_text(text.replace("\n[tables.visits.domain]", f"\n{whole}\n[tables.visits.domain]"))
    found = Session(load(path))
    yield found
    found.close()


def taken_apart(session: Session, text: str) -> Parts:
    query = parse(text)
    assert isinstance(query, Query)
    return parts_of(query, analysed_blocks(session))


BESIDE_A_REFUSED_ONE = (
    "SELECT a.n / b.s AS one FROM (SELECT COUNT(DISTINCT user_id) AS n FROM visits) a, "
    "(SELECT SUM(ms) + 1 AS s FROM visits) b"
)
"""Two releases, of which the second has no bounds: both are divided before that is known."""


def test_the_blocks_of_a_refused_statement_are_those_that_were_divided(session: Session) -> None:
    query = parse(BESIDE_A_REFUSED_ONE)
    assert isinstance(query, Query)
    catalog, blocks = engine_of(session).schema_database, list[Query]()
    with pytest.raises(QueryRefused, match="bounds"):
        parts_of(query, analysed_blocks(session), blocks)
    assert len(blocks) == 2
    assert blocks == release_blocks(query, session.policy, catalog)


def test_each_block_of_a_refused_statement_is_divided_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, divided_blocks = parse(BESIDE_A_REFUSED_ONE), list[Query]()
    assert isinstance(query, Query)

    def counted(block: Query, *args: Any, **options: Any) -> Separated:
        divided_blocks.append(block)
        return separate(block, *args, **options)

    monkeypatch.setattr("dpsql.composition.quotients_of_sums.separate", counted)
    with pytest.raises(QueryRefused) as refused:
        session.planner.query(BESIDE_A_REFUSED_ONE, query, session.database.engines())
    assert len(refused.value.obstacles) == 1
    assert len(divided_blocks) == 2


def test_what_was_analysed_with_the_defaults_is_divided_again(session: Session) -> None:
    """A selection around a block is moved into it where the plan allows it, which may need a default."""
    text = BESIDE_A_REFUSED_ONE.replace(
        "(SELECT COUNT(DISTINCT user_id) AS n FROM visits) a",
        "(SELECT page, n FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page) AS p "
        "ORDER BY n DESC LIMIT 1) a",
    )
    query, blocks = parse(text), list[Query]()
    assert isinstance(query, Query)
    with pytest.raises(QueryRefused, match="bounds"):
        parts_of(query, analysed_blocks(session), blocks)
    assert not blocks


@pytest.mark.parametrize("fixture", COMPOSED)
@pytest.mark.sampled(3)
def test_each_release_has_its_share(session: Session, fixture: Fixture) -> None:
    parts = taken_apart(session, fixture.statement)
    epsilons = [part.query.options.epsilon or Fraction(1) for part in parts.releases]
    expected = [Fraction(text) for text in fixture.notes["releases"].split()]
    assert sorted(epsilons) == sorted(expected)
    assert session.prepare(fixture.statement).price.epsilon <= sum(expected)
    assert parts.outer is not None
    tables = {t.name for t in parts.outer.find_all(exp.Table)} - {
        c.alias for c in parts.outer.find_all(exp.CTE)
    }
    assert tables <= {"pages", *(part.name for part in parts.releases)}


@pytest.mark.parametrize("fixture", COMPOSED)
@pytest.mark.sampled(5)
def test_answers_are_those_of_the_same_sql_over_all_rows(
    session: Session, raw: duckdb.DuckDBPyConnection, fixture: Fixture
) -> None:
    """At a huge epsilon the answer is DuckDB's own."""
    exact = CLAUSE.sub("", fixture.statement)
    loud = re.sub(r"epsilon = [0-9.]+", f"epsilon = {EXACT}", fixture.statement)
    session.run(f"SET dp_epsilon = {EXACT}")
    try:
        found = session.run(loud).table
    finally:
        session.run("SET dp_epsilon = 1")
    reference = raw.execute(fixture.notes.get("expect", exact))
    assert found.column_names == [d[0] for d in reference.description or ()]
    rows = [tuple(row.values()) for row in found.to_pylist()]
    expected = reference.fetchall()
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        for value, true in zip(row, wanted, strict=True):
            numeric = isinstance(true, (int, float)) and value is not None
            assert value == pytest.approx(true, abs=1e-2) if numeric else value == true


REFUSED = [
    (f"SELECT r.n, v.ms FROM ({PAGES}) r JOIN visits v ON v.page = r.page", "do not meet", "visits v ON"),
    (f"SELECT n FROM ({PAGES}) WHERE NOT EXISTS (SELECT 1 FROM visits)", "do not meet", "1 FROM visits)"),
    (f"SELECT SUM(n) FROM ({PAGES}) r WHERE r.page IN (SELECT page FROM visits)", "do not meet", "page FROM"),
    (f"{PAGES} UNION ALL SELECT page, ms FROM visits", "do not meet", "page, ms"),
    (f"SELECT r.page, (SELECT COUNT(*) FROM visits v WHERE v.ms > r.n) FROM ({PAGES}) r",
     "a release for each row", "COUNT(*)"),
    ("SELECT p.page, (SELECT COUNT(*) FROM visits v WHERE v.page <> p.page) AS n FROM pages p",
     "a release for each row", "COUNT(*)"),
    ("SELECT COUNT(DISTINCT user_id) FROM visits WHERE ms > (SELECT COUNT(*) FROM visits)",
     "a user_id can have many rows", "COUNT(*)"),
    ("SELECT (SELECT COUNT(*) FROM users) AS k, COUNT(DISTINCT user_id) FROM visits GROUP BY k",
     "cannot choose private rows", "SELECT (SELECT"),
    ("SELECT k FROM (SELECT v.user_id AS k, COUNT(*) AS n FROM users u LEFT JOIN visits v "
     "ON u.user_id = v.user_id GROUP BY v.user_id) WHERE n > 3", "privacy unit or", "v.user_id)"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) n FROM (SELECT WITH DIFFERENTIAL_PRIVACY "
     "OPTIONS (epsilon = 2) COUNT(*) AS n FROM users)", "epsilon is said twice", "epsilon = 2"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) n FROM (SELECT WITH DIFFERENTIAL_PRIVACY "
     "OPTIONS (error = 2) COUNT(*) AS n FROM users)", "an error that epsilon would follow from", "error = 2"),
    ("WITH p AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) page FROM pages) "
     f"SELECT r.n FROM p JOIN ({PAGES}) r USING (page)", "this one releases nothing", "WITH DIFF"),
    (f"SELECT page, COUNT(*) FROM ({PAGES}) GROUP BY page TOP 2", "TOP selects groups", "TOP"),
    ("WITH s AS (SELECT 1 AS x), bad AS (SELECT note, COUNT(DISTINCT user_id) FROM visits GROUP BY note) "
     f"SELECT n FROM ({PAGES})", "the values of note are not declared", "note) SELECT"),
    ("SELECT " + ", ".join(f"(SELECT COUNT(*) + {i} FROM users WHERE age > {i})" for i in range(17)),
     "at most 16 releases", "COUNT(*) + 16"),
]  # fmt: skip
"""Statements with what is in their refusal and where it points."""


@pytest.mark.parametrize(("text", "message", "at"), REFUSED, ids=[case[1] for case in REFUSED])
def test_what_mixes_private_and_released_rows_is_refused(
    session: Session, text: str, message: str, at: str
) -> None:
    with pytest.raises(QueryRefused) as caught:
        session.prepare(text)
    found = next(o for o in caught.value.obstacles if message in o.message)
    assert text[(found.col or 0) - 1 :].startswith(at)


def test_an_unused_release_is_checked_and_not_charged(session: Session) -> None:
    text = f"WITH s AS ({PAGES} ORDER BY n DESC LIMIT 2), u AS (SELECT COUNT(*) FROM users) SELECT n FROM s"
    parts = taken_apart(session, text)
    assert len(parts.releases) == 1
    assert "users" not in str(parts.outer)


def test_many_uses_of_one_block_are_one_release(session: Session) -> None:
    text = "SELECT " + ", ".join(f"(SELECT COUNT(*) FROM users) + {i} AS c{i}" for i in range(40))
    assert len(taken_apart(session, text).releases) == 1


RANKED = PAGES.replace(" AS n", " AS n, ROW_NUMBER() OVER (ORDER BY COUNT(DISTINCT user_id) DESC) AS rk")
READ: list[tuple[str, Selection]] = [
    (f"SELECT * FROM ({PAGES}) ORDER BY n DESC LIMIT 2", TopK(2, 0)),
    (f"WITH r AS ({PAGES}) SELECT n AS m FROM r ORDER BY m LIMIT 2 OFFSET 1", TopK(3, 0, lowest=True)),
    (f"SELECT page FROM ({PAGES}) WHERE n >= 3 LIMIT 2", AboveThreshold(Fraction(5, 2), 0, 2)),
    (f"SELECT n FROM ({PAGES}) WHERE n > 3 ORDER BY n DESC LIMIT 2", TopK(2, 0, threshold=Fraction(7, 2))),
    (f"SELECT page, n FROM ({RANKED}) WHERE rk <= 2", TopK(2, 0)),
    # What is not directly over the one release, or is no bare measure, stays in the outer block.
    (f"SELECT * FROM ({PAGES}) WHERE page <> 'a' ORDER BY n DESC LIMIT 2", AllGroups()),
    (f"SELECT * FROM ({PAGES}) ORDER BY n * 2 DESC LIMIT 2", AllGroups()),
    (f"SELECT * FROM ({PAGES}) ORDER BY page LIMIT 2", AllGroups()),
    (f"SELECT n, SUM(n) OVER () AS s FROM ({PAGES}) ORDER BY n DESC LIMIT 2", AllGroups()),
    (f"SELECT * FROM ({PAGES}) JOIN pages USING (page) ORDER BY n DESC LIMIT 2", AllGroups()),
    (
        f"WITH r AS ({PAGES}) SELECT n FROM r WHERE page IN (SELECT page FROM r) ORDER BY n DESC LIMIT 2",
        AllGroups(),
    ),
    (f"SELECT page AS n, n AS page FROM ({PAGES}) ORDER BY n DESC LIMIT 2", AllGroups()),
]


@pytest.mark.parametrize(("text", "selection"), READ)
def test_an_outer_selection_is_that_of_the_release(session: Session, text: str, selection: Selection) -> None:
    (part,) = of_type(session.prepare(text), PreparedComposed).parts
    spelled = replace(part.plan.selection, spelling=selection.spelling)
    if isinstance(spelled, TopK):
        spelled = replace(spelled, argmax=False)
    assert spelled == selection


def test_a_condition_that_the_release_fulfils_is_not_judged_by_noise_again(session: Session) -> None:
    parts = taken_apart(session, f"SELECT page FROM ({PAGES}) WHERE n >= 3 LIMIT 2")
    assert parts.outer is not None
    assert parts.outer.find(exp.Where) is None


def test_a_computed_unit_is_no_unit(session: Session) -> None:
    halves = "SELECT user_id % 2 AS k, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY k"
    (part,) = taken_apart(session, f"SELECT n FROM ({halves})").releases
    assert part.note == "grouped by a function of the privacy unit, not by it"


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_shares_add_up_exactly(count: int) -> None:
    total = Options(epsilon=Fraction(1, 10), delta=Fraction(1, 10**7))
    own = Options(epsilon=Fraction(1, 3), at={"epsilon": 1})
    found = share_epsilon(total, Options(epsilon=Fraction(5)), [own, *(Options() for _ in range(count))])
    assert found[0].epsilon == Fraction(1, 3)
    assert sum(o.epsilon or 0 for o in found[1:]) == total.epsilon
    assert sum(o.delta or 0 for o in found) == total.delta


def test_the_default_is_shared_where_nothing_is_said() -> None:
    defaults = Options(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    found = share_epsilon(Options(), defaults, [Options(), Options(error=Fraction(3)), Options()])
    assert [o.epsilon for o in found] == [Fraction(1, 2), None, Fraction(1, 2)]


ENDS = "SELECT MIN(day)::TIMESTAMP AS a, MAX(day)::TIMESTAMP AS b FROM visits"


@pytest.mark.parametrize(
    "statement",
    [
        f"WITH e AS ({ENDS}) SELECT MAX(t) FROM (SELECT unnest(range(a, b, INTERVAL 1 SECOND)) AS t FROM e)",
        "SELECT COUNT(*) FROM (SELECT unnest(range(n::BIGINT * 1000000000)) FROM (SELECT COUNT(*) n FROM users))",  # noqa: E501
        "SELECT COUNT(*) FROM (SELECT unnest(generate_series(3000000, 1, -1)))",
    ],
)
def test_a_series_of_too_many_values_says_so(session: Session, statement: str) -> None:
    with pytest.raises(OperationalError, match=r": a series has at most 1,000,000 values"):
        session.run(statement)
