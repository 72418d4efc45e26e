# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Groups of undeclared keys that are counted as one number, of which one unit changes few."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 1e12
delta = 1e-3
max_epsilon_per_query = 1e9
default_epsilon = 1e6
ledger = "ledger.sqlite"
[defaults]
groups = 30
[tables.visits]
source = "visits.parquet"
unit = "user_id"
trust_source = true
[tables.visits.domain]
code = { from = 1, to = 40 }
[tables.users]
source = "users.parquet"
unit = "user_id"
trust_source = true
unique = [["user_id"]]
[tables.lines]
source = "lines.parquet"
unit = "ROW"
"""
TABLES = {
    "visits": "SELECT i // 9 AS user_id, CASE WHEN i % 11 <> 3 THEN 1 + i * i % 37 END AS code, i % 100 AS cost, "
    "CASE WHEN i % 7 <> 2 THEN 'n' || (i * i % 190) END AS note FROM range(3000) t(i)",
    "users": "SELECT i AS user_id, i % 50 AS age FROM range(400) t(i)",
    "lines": "SELECT 'l' || i % 5 AS line FROM range(40) t(i)",
}
NUMBERS = [
    "SELECT COUNT(*) AS n FROM (SELECT note FROM visits GROUP BY note HAVING COUNT(*) > 30) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT note, SUM(cost) AS s FROM visits GROUP BY note) AS t WHERE s > 1500 OR note IS NULL",
    "SELECT COUNT(*) AS n FROM (SELECT note AS k, COUNT(DISTINCT user_id) AS c FROM visits WHERE cost > 20 GROUP BY k) AS t WHERE t.c BETWEEN 5 AND 30",
    "SELECT COUNT(*) AS n FROM (SELECT code, note FROM visits GROUP BY 1, 2 HAVING MAX(cost) > 90 AND AVG(cost) < 60) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT upper(note) FROM visits GROUP BY upper(note)) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT age FROM users GROUP BY age HAVING COUNT(*) = 8) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT u.age, v.note FROM users u JOIN visits v ON v.user_id = u.user_id GROUP BY u.age, v.note HAVING MIN(v.cost) < 5) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT cost % 2 AS cost, note FROM visits GROUP BY cost, note HAVING COUNT(*) > 1) AS t WHERE cost = 0",
]
OTHERS = [
    "SELECT COUNT(*) AS n FROM (SELECT code FROM visits GROUP BY code HAVING COUNT(*) > 30) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT user_id FROM visits GROUP BY user_id HAVING COUNT(*) > 3) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT user_id, note FROM visits GROUP BY user_id, note) AS t",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with open_world(tmp_path_factory.mktemp("few") / "data", POLICY, **TABLES) as opened:
        yield opened


@pytest.mark.parametrize("sql", NUMBERS)
@pytest.mark.sampled(3, rest="longer")
def test_the_answer_is_that_of_plain_sql(session: Session, sql: str) -> None:
    (row,) = session.run(sql).table.to_pylist()
    with duckdb.connect() as con:
        for name in TABLES:
            con.execute(f"CREATE VIEW {name} AS FROM '{present(session.policy.path).parent / name}.parquet'")
        wanted = con.execute(sql).fetchone()
    assert row["n"] == pytest.approx(present(wanted)[0], abs=0.5)


@pytest.mark.parametrize("sql", NUMBERS)
def test_one_unit_changes_as_many_groups_as_it_is_kept_to(session: Session, sql: str) -> None:
    part = of_type(session.prepare(sql), PreparedPrivate)
    (change,) = part.plan.compiled.certificate.numbers
    alters = "HAVING" in sql or "WHERE" in sql.rpartition(")")[2]
    assert (change.low, change.high, change.total) == (-30 if alters else 0, 30, 30)
    assert part.price.delta == 0
    assert any(str(each).startswith("at most 30") and "policy" in str(each) for each in part.plan.assumed)


def test_the_statement_may_say_to_how_many(session: Session) -> None:
    sql = NUMBERS[0].replace(
        "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 4)", 1
    )
    part = of_type(session.prepare(sql), PreparedPrivate)
    assert part.plan.counts[0].unit_change == (-4, 4)


@pytest.mark.parametrize("sql", OTHERS)
def test_groups_of_declared_keys_and_of_units_are_counted_as_before(session: Session, sql: str) -> None:
    prepared = session.prepare(sql)
    assert isinstance(prepared, PreparedComposed | PreparedPrivate)
    plans = [part.plan for part in prepared.parts]
    assert all(type(number.parts[0]).__name__ != "FewGroups" for plan in plans for number in plan.counts)


@pytest.mark.parametrize(
    "groups",
    [
        "(SELECT note FROM visits GROUP BY note HAVING COUNT(*) > (SELECT AVG(cost) FROM visits)) AS t",
        "(SELECT note, ROW_NUMBER() OVER (ORDER BY note) AS r FROM visits GROUP BY note) AS t WHERE r > 2",
        "(SELECT note FROM visits GROUP BY note ORDER BY note LIMIT 3) AS t",
        "(SELECT line FROM lines GROUP BY line HAVING COUNT(*) > 3) AS t",
    ],
)
def test_what_reads_all_groups_is_no_number_of_few(session: Session, groups: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(f"SELECT COUNT(*) AS n FROM {groups}")
