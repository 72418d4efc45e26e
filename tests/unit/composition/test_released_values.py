# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Numbers of earlier releases as constants of later ones: what depends on them, what they cost, how often drawn."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.analysis import find_values, put_values
from dpsql.composition import parts_of
from dpsql.composition.prepared import PreparedComposed, question_key
from dpsql.errors import BudgetExceeded, QueryRefused
from dpsql.language import Query, parse
from dpsql.session import Session
from tests.narrow import analysed_blocks, engine_of, of_type, present
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1000000
delta = 1e-3
default_epsilon = 1
default_delta = 1e-9
max_epsilon_per_query = 100000
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 50
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
page.values = ["a", "b", "c", "d"]
page.complete = true
[tables.visits.bounds]
ms = { from = 0, to = 100 }
[tables.pages]
source = "pages.parquet"
public = true
"""
ABOVE = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE ms > (SELECT AVG(ms) FROM visits)"
LOUD = "SET dp_epsilon = 10000"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    visits = (
        "SELECT i % 300 AS user_id, ['a', 'b', 'c'][1 + i % 3] AS page,"
        " i * 37 % 101 AS ms, 'v' || (i // 4) AS visit FROM range(2000) t(i)"
    )
    with open_world(tmp_path, POLICY, visits=visits, pages="SELECT unnest(['a', 'b', 'c']) AS page") as found:
        yield found


def exact(session: Session, sql: str) -> list[tuple[object, ...]]:
    folder = present(session.policy.path).parent
    with duckdb.cursor() as con:
        for name in ("visits", "pages"):
            con.execute(f"CREATE TEMP VIEW {name} AS FROM '{folder / name}.parquet'")
        return con.execute(sql).fetchall()


def spent(session: Session) -> Fraction:
    return session.budget().total.epsilon - session.budget().remaining.epsilon


@pytest.mark.parametrize(
    "sql",
    [
        ABOVE,
        "WITH a AS (SELECT AVG(ms) AS m, STDDEV(ms) AS s FROM visits) SELECT AVG((ms - m) / s) AS z FROM visits, a",
        "SELECT page, COUNT(*) AS n FROM visits WHERE ms > (SELECT AVG(ms) FROM visits) GROUP BY page ORDER BY 1",
    ],
)
@pytest.mark.sampled(3)
def test_the_answer_is_that_of_plain_sql(session: Session, sql: str) -> None:
    session.run(LOUD)
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist()]
    wanted = [row for row in exact(session, sql) if row[0] != "d"]
    found = [row for row in found if row[0] != "d"]  # a declared page without rows
    assert len(found) == len(wanted)
    for row, true in zip(found, wanted, strict=True):
        for a, b in zip(row, true, strict=True):
            assert a == b if isinstance(b, str) else a == pytest.approx(b, abs=1.5)


def test_nothing_but_the_constant_depends_on_the_number(session: Session) -> None:
    """Whatever the number is, the same rule, noise and candidates hold: the plan is made before it is known."""
    prepared = of_type(session.prepare(ABOVE), PreparedComposed)
    part = next(p for p in prepared.parts if p.values)
    catalog = engine_of(session).schema_database
    before = part.plan.compiled.sql
    assert before.count("TRY_CAST('released value 1' AS DOUBLE)") == 1
    for value, text in (
        (5.0, "5.0"),
        (-3.5, "-3.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (None, "NULL"),
    ):
        after = put_values(part.plan, {0: value}, session.policy, catalog)
        head, tail = before.split("TRY_CAST('released value 1' AS DOUBLE)")
        sql = after.compiled.sql
        assert sql.startswith(head)
        assert sql.endswith(tail)
        assert text in sql[len(head) : len(sql) - len(tail)]
        assert (after.counts, after.outputs, after.domain_size) == (
            part.plan.counts,
            part.plan.outputs,
            part.plan.domain_size,
        )


def test_a_value_is_no_bound_and_no_key(session: Session) -> None:
    """`ms < 10` narrows the bounds of a sum; a number that noise made must not, nor list the values of a key."""
    plain = session.prepare("SELECT SUM(ms) AS s FROM visits WHERE ms < 10")
    assert plain.plan.counts[0].bound < 10 * 50 + 1  # type: ignore[union-attr]  # it is one release
    prepared = of_type(
        session.prepare(
            "SELECT SUM(ms) AS s FROM visits WHERE ms < (SELECT COUNT(DISTINCT user_id) FROM visits)"
        ),
        PreparedComposed,
    )
    part = next(p for p in prepared.parts if p.values)
    assert part.plan.counts[0].bound == 100 * 50
    with pytest.raises(QueryRefused, match="cannot choose private rows"):
        session.prepare(
            "SELECT COUNT(DISTINCT user_id) FROM visits GROUP BY ms + (SELECT COUNT(*) FROM visits)"
        )


def test_the_price_is_that_of_all_releases_and_is_charged_before(session: Session) -> None:
    assert session.prepare(ABOVE).price.epsilon == 1
    before = spent(session)
    answer = session.run(ABOVE)
    assert spent(session) - before == 1
    assert [part.charge.epsilon for part in present(answer.release).parts] == [Fraction(1, 2)] * 2
    session.run("SET dp_epsilon = 100001")
    with pytest.raises(BudgetExceeded):
        session.run(ABOVE)
    assert spent(session) - before == 1


def test_asked_again_it_is_free_and_the_same(session: Session) -> None:
    first = session.run(ABOVE)
    before = spent(session)
    again = session.run(ABOVE)
    assert again.table.to_pylist() == first.table.to_pylist()
    assert spent(session) == before


def test_a_stored_answer_is_not_that_for_another_number(session: Session) -> None:
    """A new draw of the number is another question: its answer is charged, not taken from the store."""
    session.run(ABOVE)
    before = spent(session)
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE, epsilon = 0.5)"
    session.run(
        ABOVE.replace("(SELECT AVG", f"(SELECT {clause} AVG").replace(
            "SELECT COUNT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT", 1
        )
    )
    assert spent(session) - before == 1


def test_one_number_used_twice_is_drawn_once(session: Session) -> None:
    query = of_type(
        parse(
            "WITH a AS (SELECT AVG(ms) AS m, COUNT(*) AS c FROM visits) "
            "SELECT COUNT(DISTINCT user_id) AS n FROM visits, a WHERE ms > m AND ms < c"
        ),
        Query,
    )
    parts = parts_of(query, analysed_blocks(session))
    assert len(parts.releases) == 2
    assert sorted(len(find_values(part.query.tree)) for part in parts.releases) == [0, 2]


def test_a_confirmation_is_for_one_value(session: Session) -> None:
    """The releases of both statements are priced alike, and the number is not known yet."""
    above = (
        "SELECT COUNT(*) FROM visits WHERE ms > (SELECT m + {} FROM (SELECT AVG(ms) AS m FROM visits) AS a)"
    )
    keys = [question_key(session.prepare(above.format(more))) for more in (1, 2, 1)]
    assert keys[0] == keys[2] != keys[1]


def test_explain_shows_where_the_number_stands(session: Session) -> None:
    rows = session.run(f"EXPLAIN {ABOVE}").table.to_pylist()
    shown = "\n".join(f"{row['property']}: {row['value']}" for row in rows)
    assert "released value 1" in shown
    assert "2. epsilon: 0.5" in shown


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(DISTINCT user_id) FROM visits v WHERE ms > (SELECT AVG(w.ms) FROM visits w WHERE w.page = v.page AND w.ms = v.ms)",
        "SELECT COUNT(DISTINCT user_id) FROM visits WHERE EXISTS (SELECT 1 FROM (SELECT COUNT(*) AS n FROM visits) WHERE n > 3)",
        "SELECT COUNT(DISTINCT user_id) FROM visits v JOIN (SELECT page, COUNT(*) AS n FROM visits GROUP BY page) r ON r.page = v.page AND v.ms < r.n",
        "SELECT COUNT(DISTINCT user_id) FROM visits v LEFT JOIN (SELECT COUNT(*) AS n FROM visits) r ON v.ms < r.n",
    ],
)
def test_what_is_not_one_number_is_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)


TOTAL = "SELECT SUM(high) AS n FROM (SELECT visit, MAX(CASE WHEN ms > 90 THEN 1 ELSE 0 END) AS high FROM visits GROUP BY visit)"


def test_a_total_of_indicators_counts_groups(session: Session) -> None:
    session.run(LOUD)
    answer = session.run(TOTAL)
    assert answer.table.to_pylist()[0]["n"] == pytest.approx(exact(session, TOTAL)[0][0], abs=0.5)
    assert "a group without visit is not counted" in present(answer.release).warnings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SUM(high)", "AVG(high)"),
        ("ELSE 0", "ELSE 2"),
        ("THEN 1", "THEN ms"),
        ("GROUP BY visit)", "GROUP BY visit, page)"),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_other_totals_are_not_read_so(session: Session, old: str, new: str) -> None:
    query = of_type(parse(TOTAL.replace(old, new)), Query)
    try:
        parts = parts_of(query, analysed_blocks(session))
    except QueryRefused:
        return
    assert all("DISTINCT" not in part.query.tree.sql().upper() for part in parts.releases)


def test_declared_values_stand_for_private_ones_only_beside_a_release_of_those_that_exist(
    session: Session,
) -> None:
    session.run(LOUD)
    sql = "SELECT p.page, COUNT(DISTINCT user_id) AS n FROM (SELECT DISTINCT page FROM visits) p JOIN visits v ON v.page <= p.page GROUP BY p.page ORDER BY 1"
    found = [(row["page"], round(row["n"])) for row in session.run(sql).table.to_pylist()]
    assert found == exact(session, sql)  # `d` is declared and has rows below it, but none of its own
    for spoilt in (
        sql.replace("p.page, ", "").replace("GROUP BY p.page ORDER BY 1", ""),
        sql.replace("GROUP BY p.page", "GROUP BY v.page").replace("p.page, ", "v.page, "),
    ):
        with pytest.raises(QueryRefused, match="DISTINCT over private rows"):
            session.prepare(spoilt)


def test_the_announced_price_is_the_charged_one(session: Session) -> None:
    """A release that reads a number of another one is found when it is stored, as it is when it runs."""

    def asked(sql: str) -> tuple[Fraction, Fraction]:
        announced = session.prepare(sql).price.epsilon
        again = session.planner.priced(of_type(session.prepare(sql), PreparedComposed)).price.epsilon
        assert again == announced
        before = spent(session)
        session.run(sql)
        return announced, spent(session) - before

    nothing = Fraction(0), Fraction(0)
    assert asked(ABOVE) == (Fraction(1), Fraction(1))
    assert asked(ABOVE) == nothing
    average, count = "(epsilon = 0.5) AVG(ms)", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)"
    other = f"{count} COUNT(*) AS n FROM visits WHERE ms > (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS {average} FROM visits)"
    session.run(other.replace("COUNT(*)", "COUNT(DISTINCT user_id)"))
    # The average is stored, and no count above it.
    assert asked(other) == (Fraction(1, 4), Fraction(1, 4))
    assert asked(other) == nothing
    explained = session.run(f"EXPLAIN {other}").table.to_pydict()
    assert dict(zip(explained["property"], explained["value"], strict=True))["epsilon"].startswith("0")


def test_a_plan_that_was_priced_holds_no_number_of_the_analyst(session: Session) -> None:
    session.run(ABOVE)
    prepared = of_type(session.prepare(ABOVE), PreparedComposed)
    assert all(part.counting.values == () for part in prepared.parts)
    assert not any(part.price.epsilon for part in prepared.parts)


def test_a_statement_charged_again_says_why_also_of_a_release_that_reads_a_number(session: Session) -> None:
    assert session.run(ABOVE).release is not None
    folder = present(session.policy.path).parent
    duckdb.sql(f"COPY (SELECT 1 AS user_id, 'a' AS page, 5 AS ms, 'v' AS visit) TO '{folder}/visits.parquet'")
    release = present(session.run(ABOVE).release)
    assert [part.charged_again.partition("; ")[2] for part in release.parts] == [
        "charged again: the data changed"
    ] * 2
