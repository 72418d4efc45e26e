# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Rows that are compared with a number of all rows of their key: two releases, the second reads the first."""

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
default_delta = 1e-6
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 20
[tables.sales]
source = "sales.parquet"
unit = "customer"
unit_kind = "customer"
trust_source = true
[tables.sales.domain]
day = { from = 2024-01-01, to = 2024-01-20 }
store = { from = 1, to = 9 }
[tables.sales.bounds]
amount = { from = 0, to = 100 }
[tables.notes]
source = "notes.parquet"
unit = "customer"
unit_kind = "customer"
[tables.notes.domain]
town = ["", "Old Town", "Old  Town", " Town", "1 2", "x "]
[tables.notes.bounds]
stars = { from = 0, to = 50 }
[tables.parts]
source = "parts.parquet"
public = true
unique = [["part"]]
"""
SALES = (
    "SELECT i // 10 AS customer, CASE WHEN i % 13 <> 5 THEN 1 + i % 8 END AS store, 1 + i % 50 AS part, "
    "DATE '2024-01-01' + (i * 7 % 20)::INTEGER AS day, (i * 31 % 101)::DOUBLE AS amount FROM range(6000) t(i)"
)
PARTS = "SELECT i AS part, CASE WHEN i % 3 = 0 THEN 'red' ELSE 'blue' END AS colour FROM range(60) t(i)"
TOWNS = "['', 'Old Town', 'Old  Town', ' Town', '1 2', 'x ', NULL]"
NOTES = f"SELECT i // 10 AS customer, 'a' || i % 2 AS note, {TOWNS}[1 + i % 7] AS town, i % 50 AS stars FROM range(2000) t(i)"
BY = "(SELECT {} FROM sales w WHERE w.{} = v.{})"
LIKE_SQL = [
    f"SELECT COUNT(*) AS n FROM sales v WHERE v.amount > {BY.format('AVG(w.amount)', 'store', 'store')}",
    f"SELECT store, COUNT(*) AS n FROM sales v WHERE v.amount > 1.5 * {BY.format('AVG(amount)', 'day', 'day')} GROUP BY store ORDER BY store",
    "SELECT SUM(amount) / 7.0 AS s FROM sales, parts p WHERE p.part = sales.part AND p.colour = 'red' AND amount < (SELECT 0.49 * AVG(amount) FROM sales WHERE sales.part = p.part)",
    f"SELECT COUNT(*) AS n FROM (SELECT customer, amount - {BY.format('AVG(amount) + STDDEV(amount)', 'store', 'store')} AS above FROM sales v) WHERE above > 0",
    f"SELECT COUNT(*) AS n FROM sales v WHERE {BY.format('SUM(amount)', 'store', 'store')} > 34000 AND amount < 50",
    "SELECT v.store, COUNT(*) AS n FROM sales v JOIN (SELECT store AS s, AVG(amount) AS m FROM sales GROUP BY 1) g ON g.s = v.store WHERE v.amount > 1.2 * g.m GROUP BY v.store ORDER BY 1",
    "WITH g AS (SELECT store, AVG(amount) AS m, STDDEV(amount) AS d FROM sales GROUP BY store) SELECT COUNT(*) AS n FROM sales v JOIN g USING (store) WHERE v.amount > m + d",
    "WITH g AS (SELECT store, AVG(amount) AS m FROM sales GROUP BY store) SELECT AVG(v.amount - g.m) AS n FROM sales v, g WHERE g.store = v.store AND v.amount >= g.m",
    "SELECT store, COUNT(*) AS n FROM (SELECT store, amount, ROUND(AVG(amount) OVER (PARTITION BY store), 1) AS m FROM sales) WHERE amount > m GROUP BY store ORDER BY store",
    "WITH v AS (SELECT s.amount, AVG(s.amount) OVER (PARTITION BY p.colour) AS m, AVG(s.amount) OVER () AS a FROM sales s JOIN parts p ON p.part = s.part) SELECT COUNT(*) AS n FROM v WHERE amount > m AND amount > 1.1 * a",
    "SELECT COUNT(*) AS n FROM notes v WHERE stars > (SELECT AVG(stars) + 0.1 FROM notes w WHERE w.town = v.town)",
    "SELECT town, COUNT(*) AS n FROM notes v WHERE stars > (SELECT AVG(stars) + 0.1 FROM notes w WHERE w.town = v.town) GROUP BY town ORDER BY town",
    "SELECT town, COUNT(*) - (SELECT COUNT(*) FROM notes w WHERE w.town = v.town AND w.stars > 9) AS n FROM notes v GROUP BY town ORDER BY town",
    f"SELECT store, 100 * COUNT(*) / {BY.format('COUNT(*)', 'store', 'store')} AS share FROM sales v WHERE amount > 50 AND store BETWEEN 2 AND 8 GROUP BY store ORDER BY store",
    f"SELECT store, COUNT(*) AS n FROM sales v WHERE amount > 50 GROUP BY store HAVING COUNT(*) > 0.49 * {BY.format('COUNT(*)', 'store', 'store')} ORDER BY store",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("keys") / "data"
    with open_world(folder, POLICY, sales=SALES, parts=PARTS, notes=NOTES) as opened:
        yield opened


@pytest.mark.parametrize("sql", LIKE_SQL)
@pytest.mark.sampled(3, rest="longer")
def test_the_answer_is_that_of_plain_sql(session: Session, sql: str) -> None:
    with duckdb.connect() as con:
        for name, rows in (("sales", SALES), ("parts", PARTS), ("notes", NOTES)):
            con.execute(f"CREATE TABLE {name} AS {rows}")
        wanted = con.execute(sql).fetchall()
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist()]
    found = [row for row in found if row[-1] > 0.5]  # a store of the domain without rows
    assert found == [(*row[:-1], pytest.approx(row[-1], abs=2)) for row in wanted]


def test_there_are_two_releases_and_the_second_has_a_constant(session: Session) -> None:
    prepared = of_type(session.prepare(LIKE_SQL[0]), PreparedComposed)
    counted, keyed = prepared.parts
    assert (keyed.values, len(counted.values)) == ((), 1)
    assert "released value 1" in counted.plan.compiled.sql
    assert counted.plan.counts[0].unit_change == (0, 20)
    release = present(session.run(LIKE_SQL[0]).release)
    assert [float(part.charge.epsilon) for part in release.parts] == [5e5, 5e5]
    said = (
        "rows are compared with the released number of their store, with NULL where none is shown: the range "
        "is of the rows that it selects"
    )
    assert said in release.warnings


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        # the largest of a group is no number of SQL's NULL for no rows
        (
            "SELECT COUNT(*) FROM sales v JOIN (SELECT store, COUNT(*) AS m FROM sales GROUP BY store) g ON g.store = v.store WHERE v.amount > g.m",
            "do not meet",
        ),
        # rows without a group would be there
        (
            "SELECT COUNT(*) FROM sales v JOIN (SELECT store, AVG(amount) AS m FROM sales GROUP BY store) g ON g.store = v.store WHERE v.amount > g.m OR v.day IS NULL",
            "do not meet",
        ),
        # a day and a time are written differently
        (
            "SELECT COUNT(*) FROM sales v JOIN (SELECT CAST(day AS TIMESTAMP) AS d, AVG(amount) AS m FROM sales GROUP BY 1) g ON g.d = v.day WHERE v.amount > g.m",
            "do not meet",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT amount, MAX(amount) OVER (PARTITION BY store) AS m FROM sales) WHERE amount > m",
            "PARTITION BY",
        ),
    ],
)
def test_other_numbers_of_joined_groups_are_refused(session: Session, sql: str, message: str) -> None:
    with pytest.raises(QueryRefused, match=message):
        session.prepare(sql)


def test_beside_groups_the_number_of_a_key_is_a_release_that_is_joined(session: Session) -> None:
    """No release has the other's values, so that both have an interval."""
    prepared = of_type(session.prepare(LIKE_SQL[-2]), PreparedComposed)
    assert [part.values for part in prepared.parts] == [(), ()]
    release = present(session.run(LIKE_SQL[-3]).release)
    assert "the number of a town that is in no group shown is NULL" in release.warnings


def test_a_number_of_public_rows_is_that_of_sql(session: Session) -> None:
    colours = "(SELECT COUNT(*) FROM parts q WHERE q.colour = p.colour AND q.part < 9)"
    sql = f"SELECT p.colour, {colours} AS m, COUNT(s.part) AS n FROM parts p JOIN sales s ON s.part = p.part GROUP BY p.colour ORDER BY 1"
    assert session.run(sql).table.column("m").to_pylist() == [6, 3]


def test_only_parts_that_meet_the_conditions_have_a_group(session: Session) -> None:
    prepared = of_type(session.prepare(LIKE_SQL[2]), PreparedComposed)
    assert prepared.parts[1].plan.domain_size in (20, 21)


REFUSED = [
    f"SELECT COUNT(*) FROM sales v WHERE 99 < {BY.format('COUNT(*)', 'store', 'store')}",
    f"SELECT COUNT(*) FROM sales v WHERE amount < {BY.format('MAX(amount)', 'store', 'store')}",
    "SELECT COUNT(*) FROM sales v WHERE amount > (SELECT AVG(amount) FROM sales w WHERE w.store > v.store)",
    "SELECT COUNT(*) FROM sales v WHERE amount > (SELECT AVG(amount) FROM sales w WHERE w.store = v.store AND w.day = v.day)",
    "SELECT COUNT(*) FROM sales v WHERE 'a' < (SELECT AVG(LENGTH(note)) FROM notes w WHERE w.note = v.part)",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_other_subqueries_of_others_stay_refused(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)


def test_a_subquery_over_the_rows_of_the_unit_stays_one(session: Session) -> None:
    sql = "SELECT COUNT(*) AS n FROM sales v WHERE amount > (SELECT MAX(amount) - 9 FROM sales w WHERE w.customer = v.customer)"
    assert not isinstance(session.prepare(sql), PreparedComposed)


def test_a_key_that_is_not_declared_needs_a_bound_on_the_groups_of_a_unit(session: Session) -> None:
    """The bound is for the release of the keys: the other has no groups."""
    sql = "SELECT COUNT(*) AS n FROM notes v WHERE stars > (SELECT AVG(stars) FROM notes w WHERE w.note = v.note)"
    with pytest.raises(QueryRefused, match="the values of note are not declared") as caught:
        session.prepare(sql)
    assert [one.message.partition(":")[0] for one in caught.value.obstacles] == [
        "the values of note are not declared"
    ]
    prepared = of_type(session.prepare(present(caught.value.rewrite)), PreparedComposed)
    assert [part.plan.options.max_groups_contributed for part in prepared.parts] == [None, 16]


def test_rows_without_a_row_in_another_table_are_those_of_not_exists(session: Session) -> None:
    """The join needs no bound on its rows, so both spellings have one plan."""
    joined = "sales s LEFT JOIN notes n ON n.customer = s.customer AND n.stars > 9"
    one = f"SELECT COUNT(*) AS c FROM {joined} WHERE n.customer IS NULL AND s.amount > 50"
    other = (
        "SELECT COUNT(*) AS c FROM sales s WHERE s.amount > 50 AND NOT EXISTS "
        "(SELECT 1 FROM notes n WHERE n.customer = s.customer AND n.stars > 9)"
    )
    compiled = [of_type(session.prepare(sql), PreparedPrivate).counting.sql for sql in (one, other)]
    assert compiled[0] == compiled[1]
