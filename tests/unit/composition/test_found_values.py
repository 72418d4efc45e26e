# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Lists of values that others have: found by units that speak for one value each, then read as a constant."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.exact import exact_of
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
delta = 1e-3
max_epsilon_per_query = 1e9
default_epsilon = 1
default_delta = 1e-6
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
unique = [["visit"]]
[tables.visits.domain]
code = { from = 1, to = 40 }
"""
VISITS = (
    "SELECT i // 4 AS user_id, CASE WHEN i % 11 <> 3 THEN 1 + i * i % 37 END AS code, i % 100 AS cost, 'n' || (i % 6) AS note, i AS visit "
    "FROM range(24000) t(i) UNION ALL SELECT 9000, 40, 99, 'rare', 99999"
)
DEAR = (
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE code {} (SELECT code FROM visits WHERE cost >= 97)"
)
LISTS = [
    DEAR.format("IN"),
    DEAR.format("IN").replace("(SELECT code", "(SELECT DISTINCT code"),
    DEAR.format("IN").replace("97)", "97 GROUP BY code)"),
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE NOT code IN (SELECT code FROM visits WHERE cost >= 97 AND code IS NOT NULL)",
    "WITH dear AS (SELECT * FROM visits WHERE cost >= 97) SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE cost < 9 AND code IN (SELECT code FROM dear)",
    "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE note IN (SELECT note FROM visits WHERE cost > 98)",
]


session = world_fixture(POLICY, visits=VISITS)


@pytest.mark.parametrize("sql", LISTS)
@pytest.mark.sampled(3, rest="longer")
def test_the_answer_is_that_of_plain_sql_where_values_are_frequent(session: Session, sql: str) -> None:
    session.run("SET dp_epsilon = 10000")
    (row,) = session.run(sql).table.to_pylist()
    session.run("SET dp_epsilon = 1")
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW visits AS FROM '{present(session.policy.path).parent / 'visits.parquet'}'")
        wanted = con.execute(sql).fetchone()
    # One unit alone has the code 40; its note is found only with delta.
    assert row["n"] == pytest.approx(present(wanted)[0], abs=2)


def speakers(session: Session, sql: str) -> PreparedPrivate:
    made = of_type(session.prepare(sql), PreparedComposed)
    return next(part for part in made.parts if not part.values)


def test_each_unit_speaks_for_one_value(session: Session) -> None:
    part = speakers(session, DEAR.format("IN"))
    assert part.plan.compiled.certificate.most_groups == 1
    (change,) = part.plan.compiled.certificate.numbers
    assert (change.low, change.high, change.total) == (0, 1, 1)
    assert part.method.quote.charge.epsilon == Fraction(1, 2)


def test_units_with_the_same_values_speak_for_different_ones(session: Session) -> None:
    """A hash of the value alone would have all of them speak for one, and find one value."""
    found = exact_of(speakers(session, DEAR.format("IN")).counting.count())
    numbers = [int(n) for each in found.n for n in each]
    assert sum(numbers) <= 24000 / 4 + 1, "a unit speaks once"
    assert sum(n > 0 for n in numbers) > 10


def test_a_value_of_one_unit_is_hardly_ever_found(session: Session) -> None:
    """Its holder would else be seen to choose the rows of others."""
    least = present(session.run(DEAR.format("IN")).release).warnings[0]
    assert least.startswith("found: a code counts as there from about 8 units that speak for it; rarer ones")
    assert "intervals are of the noise alone" in least


def test_what_not_in_leaves_out_is_told(session: Session) -> None:
    (told, *_) = present(session.run(DEAR.format("NOT IN")).release).warnings
    assert told.endswith("NOT IN: rows without a code are left out; with one, SQL's NOT IN is empty")


def test_lists_of_a_units_own_keys_need_no_release(session: Session) -> None:
    sql = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE visit IN (SELECT visit FROM visits WHERE cost > 50)"
    assert isinstance(session.prepare(sql), PreparedPrivate)
