# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Groups of undeclared keys that are counted as one number, of which one unit changes few."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.kernel.loss import Charge
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.support.world import open_world, world_fixture

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
JOINED = [
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost <= 50 GROUP BY note HAVING COUNT(DISTINCT user_id) > 2) AS b USING (note) WHERE a.n > b.m OR s < 99",
    "SELECT COUNT(*) AS n FROM (SELECT code, note, MAX(cost) AS top FROM visits GROUP BY code, note) AS a JOIN (SELECT lower(note) AS k, code AS c, COUNT(cost) FILTER (WHERE cost > 30) AS m FROM visits GROUP BY c, lower(note)) AS b ON a.code = b.c AND b.k = a.note WHERE m > 2 AND top < 99 AND k <> 'n1'",
    "SELECT SUM(LEAST(m, 9)) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a JOIN (SELECT note, COUNT(*) AS m FROM visits WHERE cost < 40 GROUP BY note) AS b USING (note) WHERE note LIKE '%1%'",
    "SELECT AVG(LEAST(a.m, 9)) AS n FROM (SELECT note AS k, COUNT(*) AS m FROM visits WHERE cost > 50 GROUP BY note) AS a JOIN (SELECT note AS k, COUNT(*) AS m FROM visits WHERE cost < 40 GROUP BY 1) AS b ON b.k = a.k WHERE b.m > 3",
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a LEFT JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b ON a.note = b.note WHERE COALESCE(m, 0) * 2 < n",
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a LEFT JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b USING (note) WHERE b.note IS NULL",
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a RIGHT OUTER JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b ON b.note = a.note WHERE a.n IS NULL OR a.n < m",
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a FULL JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b USING (note)",
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a FULL JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b USING (note) WHERE note IS NULL OR note LIKE '%1%'",
    "SELECT COUNT(*) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a FULL JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b ON a.note = b.note WHERE a.note IS NULL OR m IS NULL",
    "SELECT SUM(LEAST(n, 9)) AS n FROM (SELECT note, COUNT(*) AS n FROM visits WHERE cost > 50 GROUP BY note) AS a LEFT JOIN (SELECT note, COUNT(*) AS m, SUM(cost) AS s FROM visits WHERE cost < 20 GROUP BY note HAVING COUNT(*) > 2) AS b USING (note)",
    "SELECT COUNT(*) AS n FROM (SELECT code, COUNT(*) AS n FROM visits GROUP BY code) AS a FULL JOIN (SELECT cost * 0.5 AS k, COUNT(*) AS m FROM visits GROUP BY k) AS b ON a.code = b.k",
    "SELECT COUNT(*) AS n FROM (SELECT code, COUNT(*) AS n FROM visits GROUP BY code) AS a JOIN (SELECT cost / 4 AS k, COUNT(*) AS m FROM visits GROUP BY k) AS b ON a.code = b.k",
]
"""Groups that are joined: those that both blocks have, without NULL; in outer joins those of one, too."""
NOT_JOINED = [
    "(SELECT code::VARCHAR AS k, COUNT(*) AS n FROM visits GROUP BY k) AS a JOIN (SELECT code, COUNT(*) AS m FROM visits GROUP BY code) AS b ON a.k = b.code",
    "(SELECT note, code, COUNT(*) AS n FROM visits GROUP BY note, code) AS a JOIN (SELECT note, COUNT(*) AS m FROM visits GROUP BY note) AS b USING (note)",
    "(SELECT note, COUNT(*) AS n FROM visits GROUP BY note) AS a JOIN (SELECT note, COUNT(*) AS m FROM visits GROUP BY note) AS b ON a.n = b.m",
    "(SELECT note, COUNT(*) AS n FROM visits GROUP BY note) AS a JOIN (SELECT note, COUNT(*) AS m FROM visits GROUP BY note) AS b ON a.note < b.note",
]
OTHERS = [
    "SELECT COUNT(*) AS n FROM (SELECT code FROM visits GROUP BY code HAVING COUNT(*) > 30) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT user_id FROM visits GROUP BY user_id HAVING COUNT(*) > 3) AS t",
    "SELECT COUNT(*) AS n FROM (SELECT user_id, note FROM visits GROUP BY user_id, note) AS t",
]


GROUPED = "FROM (SELECT note, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY note) AS t"
SUMS = {
    f"SELECT SUM(LEAST(n, 14)) AS n {GROUPED}": (-14, 14),
    f"SELECT SUM(LEAST(14, n)) AS n {GROUPED} WHERE n > 9": (-14, 14),
    f"SELECT SUM(GREATEST(LEAST(s - 900, 50), -5)) AS n {GROUPED}": (-55, 55),
    f"SELECT SUM(LEAST(GREATEST(s, 700), 900)) AS n {GROUPED}": (-900, 900),
    "SELECT SUM(GREATEST(LEAST(age, 30), -3)) AS n FROM (SELECT age FROM users GROUP BY age) AS t": (-3, 30),
}
"""Sums over groups, and by how much one group moves each."""
MEANS = [
    f"SELECT AVG(LEAST(n, 14)) AS n {GROUPED}",
    "WITH v AS (SELECT note, user_id FROM visits WHERE cost > 3) SELECT AVG(GREATEST(LEAST(n, 90), 3)) AS n FROM (SELECT note, COUNT(*) AS n FROM v GROUP BY note HAVING COUNT(*) > 8) AS t WHERE note <> 'n1'",
]
NO_SUMS = [
    "SUM(n)",
    "AVG(n)",
    "SUM(LEAST(n, 1.5))",
    "SUM(DISTINCT LEAST(n, 14))",
    "SUM(LEAST(n, s))",
    "MAX(LEAST(n, 14))",
    "SUM(LEAST(s, 5))",
]


session = world_fixture(POLICY, **TABLES)


@pytest.mark.parametrize("sql", [*NUMBERS, *SUMS, *MEANS, *JOINED])
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
    most = 1 if "FROM users GROUP" in sql else 30  # a user has one row of `users`
    assert (change.low, change.high, change.total) == (-most if alters else 0, most, most)
    assert part.price.delta == 0
    assert any(
        str(each).startswith(f"at most {most}") and "policy" in str(each) for each in part.plan.assumed
    )


def test_the_statement_may_say_to_how_many(session: Session) -> None:
    sql = NUMBERS[0].replace(
        "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 4)", 1
    )
    part = of_type(session.prepare(sql), PreparedPrivate)
    assert part.plan.counts[0].unit_change == (-4, 4)


@pytest.mark.parametrize("sql", [*SUMS])
def test_a_unit_moves_a_sum_by_as_many_groups(session: Session, sql: str) -> None:
    part = of_type(session.prepare(sql), PreparedPrivate)
    (change,) = part.plan.compiled.certificate.numbers
    most = 1 if "FROM users GROUP" in sql else 30
    assert (change.low, change.high) == tuple(most * end for end in SUMS[sql])
    assert part.plan.counts[0].unit_change == (change.low, change.high)
    assert part.price.delta == 0


@pytest.mark.parametrize("sql", MEANS)
def test_an_average_is_a_sum_and_a_number_at_one_price(session: Session, sql: str) -> None:
    prepared = of_type(session.prepare(sql), PreparedComposed)
    changes = [part.plan.counts[0].unit_change[1] for part in prepared.parts]
    assert len(changes) == 2
    assert min(changes) == 30
    assert prepared.price == sum((part.price for part in prepared.parts), Charge())
    row = present(session.run(sql).release).table.to_pylist()[0]
    assert row["n_low"] < row["n"] < row["n_high"]


@pytest.mark.parametrize("sql", JOINED)
def test_joined_groups_are_groups_of_the_rows_of_both(session: Session, sql: str) -> None:
    prepared = session.prepare(sql)
    assert isinstance(prepared, PreparedComposed | PreparedPrivate)
    for part in prepared.parts:
        (change,) = part.plan.compiled.certificate.numbers
        assert (change.low, change.high) in ((-30, 30), (-270, 270))
    assert prepared.price.delta == 0


@pytest.mark.parametrize("joined", NOT_JOINED)
@pytest.mark.sampled(3, rest="longer")
def test_groups_that_are_joined_otherwise_are_as_before(session: Session, joined: str) -> None:
    try:
        prepared = session.prepare(f"SELECT COUNT(*) AS n FROM {joined}")
    except QueryRefused:
        return
    assert isinstance(prepared, PreparedComposed | PreparedPrivate)
    assert all(type(p.plan.counts[0].parts[0]).__name__ != "FewGroups" for p in prepared.parts)


@pytest.mark.parametrize("call", NO_SUMS)
@pytest.mark.sampled(3, rest="longer")
def test_what_the_statement_does_not_keep_between_whole_numbers_is_no_such_sum(
    session: Session, call: str
) -> None:
    try:
        prepared = session.prepare(f"SELECT {call} AS n {GROUPED}")
    except QueryRefused:
        return
    assert isinstance(prepared, PreparedComposed | PreparedPrivate)
    assert all(type(p.plan.counts[0].parts[0]).__name__ != "FewGroups" for p in prepared.parts)


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


@pytest.mark.parametrize("most", ["", "[defaults]\ngroups = 30\n"])
def test_units_of_one_row_need_no_bound_on_their_groups(
    tmp_path_factory: pytest.TempPathFactory, most: str
) -> None:
    policy = POLICY.replace("[defaults]\ngroups = 30\n", most)
    with open_world(tmp_path_factory.mktemp("one") / "data", policy, **TABLES) as opened:
        for sql, change in (
            ("SELECT COUNT(*) AS n FROM (SELECT age FROM users GROUP BY age) AS t", (0, 1)),
            (
                "SELECT COUNT(*) AS n FROM (SELECT age FROM users GROUP BY age HAVING COUNT(*) > 7) AS t",
                (-1, 1),
            ),
            (
                "SELECT SUM(LEAST(n, 5)) AS n FROM (SELECT age, COUNT(*) AS n FROM users GROUP BY age)",
                (-5, 5),
            ),
        ):
            part = of_type(opened.prepare(sql), PreparedPrivate)
            assert part.plan.counts[0].unit_change == change
            assert part.price.delta == 0
