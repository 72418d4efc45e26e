"""Facts of the unit: for each step, whether a unit still has one value, and whether it really has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.analysis import Plan, analyse
from dpsql.language import Query, parse
from dpsql.session import Session
from tests.narrow import engine_of
from tests.support.world import open_world

POLICY = """
[budget]
epsilon = 100
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.users]
source = "users.parquet"
unit = "user_id"
unique = [["user_id"]]
domain = { city = ["X", "Y"] }
[tables.cities]
source = "cities.parquet"
public = true
unique = [["city"]]
[tables.pages]
source = "pages.parquet"
public = true
unique = [["page"]]
[tables.shops]
source = "shops.parquet"
public = true
"""

ROWS = {
    "visits": "(1, 'a', 3), (1, 'b', 9), (2, 'a', 4), (2, 'c', 8), (4, 'b', 7), (4, 'b', 2)",
    "users": "(1, 'X', 30), (2, 'Y', 40), (3, 'X', 50)",
    "cities": "('X', 'north'), ('Y', 'south')",
    "pages": "('a', 'news'), ('b', 'shop'), ('c', 'shop')",
    "shops": "('X', 'bakery'), ('X', 'butcher'), ('Y', 'bakery')",
}
COLUMNS = {
    "visits": "user_id, page, ms",
    "users": "user_id, city, age",
    "cities": "city, region",
    "pages": "page, category",
    "shops": "city, kind",
}

FACTS = {
    "a table with one row for each unit": ("u.user_id", "u.city", "users u"),
    "INNER": ("v.user_id", "u.city", "visits v JOIN users u USING (user_id)"),
    "INNER, whatever else ON reads": (
        "v.user_id",
        "u.city",
        "visits v JOIN users u ON u.user_id = v.user_id AND v.ms > 5",
    ),
    "a comma join": ("v.user_id", "u.city", "visits v, users u WHERE v.user_id = u.user_id AND v.ms < 9"),
    "LEFT": ("v.user_id", "u.city", "visits v LEFT JOIN users u ON u.user_id = v.user_id"),
    "LEFT with a condition on facts": (
        "v.user_id",
        "u.city",
        "visits v LEFT JOIN users u ON u.user_id = v.user_id AND u.city = 'X'",
    ),
    "the preserved side of LEFT": (
        "u.user_id",
        "u.city",
        "users u LEFT JOIN visits v ON v.user_id = u.user_id AND v.ms > 5",
    ),
    "the preserved side of RIGHT": (
        "u.user_id",
        "u.city",
        "visits v RIGHT JOIN users u ON v.user_id = u.user_id AND v.ms > 5",
    ),
    "RIGHT with a condition on facts": (
        "v.user_id",
        "u.city",
        "users u RIGHT JOIN visits v ON v.user_id = u.user_id AND u.age > 35",
    ),
    "FULL": (
        "COALESCE(v.user_id, u.user_id)",
        "u.city",
        "visits v FULL JOIN users u ON u.user_id = v.user_id",
    ),
    "FULL with USING": ("user_id", "u.city", "visits v FULL JOIN users u USING (user_id)"),
    "SEMI": (
        "u.user_id",
        "u.city",
        "users u SEMI JOIN visits v ON v.user_id = u.user_id AND v.ms > 5",
    ),
    "an aggregate of each unit": (
        "user_id",
        "n",
        "(SELECT user_id, COUNT(*) AS n FROM visits GROUP BY user_id) s",
    ),
    "a window over the groups of units": (
        "user_id",
        "n",
        "(SELECT user_id, SUM(COUNT(*)) OVER (PARTITION BY user_id) AS n FROM visits GROUP BY user_id) s",
    ),
    "a key that is a fact, beside one that is none": (
        "user_id",
        "city",
        "(SELECT user_id, city, page FROM visits v JOIN users USING (user_id) GROUP BY ALL) s",
    ),
    "an aggregate joined with events": (
        "user_id",
        "n",
        "visits JOIN (SELECT user_id, COUNT(*) AS n FROM visits GROUP BY 1) s USING (user_id)",
    ),
    "DISTINCT ON the unit": (
        "user_id",
        "page",
        "(SELECT DISTINCT ON (user_id) user_id, page FROM visits ORDER BY user_id, ms) s",
    ),
    "the first row of each unit": (
        "user_id",
        "page",
        "(SELECT user_id, page FROM visits "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) = 1) s",
    ),
    "the first row of each unit, by WHERE": (
        "user_id",
        "page",
        "(SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) AS k FROM visits) s WHERE k = 1",
    ),
    "the second row of each unit, in a subquery": (
        "user_id",
        "page",
        "(SELECT user_id, page FROM "
        "(SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) AS k FROM visits) s WHERE 2 = k) t",
    ),
    "a column that WHERE fixes": ("user_id", "page", "visits WHERE page = 'a'"),
    "DISTINCT": (
        "user_id",
        "city",
        "(SELECT DISTINCT user_id, city, ms FROM visits JOIN users USING (user_id)) s",
    ),
    "a function of facts and constants": (
        "v.user_id",
        "u.city || '-' || CAST(u.age // 10 AS VARCHAR)",
        "visits v JOIN users u USING (user_id)",
    ),
    "public rows that a fact determines": (
        "v.user_id",
        "c.region",
        "visits v JOIN users u USING (user_id) JOIN cities c ON c.city = u.city AND v.ms > 3",
    ),
    "public rows that a fact determines, by WHERE": (
        "u.user_id",
        "c.region",
        "cities c, users u WHERE c.city = u.city",
    ),
    "public rows that a fact determines, LEFT": (
        "v.user_id",
        "c.region",
        "visits v JOIN users u USING (user_id) LEFT JOIN cities c ON c.city = u.city AND c.region = 'north'",
    ),
    "public rows on the preserved side": (
        "u.user_id",
        "c.region",
        "cities c LEFT JOIN users u ON c.city = u.city",
    ),
    "public rows on the preserved side, RIGHT": (
        "u.user_id",
        "c.region",
        "users u RIGHT JOIN cities c ON c.city = u.city AND u.age > 30",
    ),
    "public rows that a fact determines, RIGHT": (
        "v.user_id",
        "c.region",
        "cities c RIGHT JOIN (SELECT * FROM visits JOIN users USING (user_id)) v "
        "ON c.city = v.city AND v.age > 30",
    ),
    "a fact twice through subqueries": (
        "user_id",
        "c",
        "(SELECT user_id, upper(city) AS c FROM (SELECT v.user_id, u.city, v.ms FROM visits v "
        "LEFT JOIN users u ON u.user_id = v.user_id) s WHERE ms > 2) t",
    ),
    "a fact beside a window": (
        "user_id",
        "city",
        "(SELECT user_id, city, LAG(ms) OVER (PARTITION BY user_id ORDER BY ms) AS l FROM visits "
        "JOIN users USING (user_id)) s",
    ),
    "the second of two joins": (
        "v.user_id",
        "w.city",
        "visits v LEFT JOIN users u ON u.user_id = v.user_id "
        "LEFT JOIN users w ON w.user_id = u.user_id AND u.age > 35",
    ),
}
"""What is said -> the unit, the key, and FROM with its WHERE; a unit has one value of the key."""

EVENTS = {
    "LEFT with a condition on events": (
        "v.user_id",
        "u.city",
        "visits v LEFT JOIN users u ON u.user_id = v.user_id AND v.ms > 5",
    ),
    "RIGHT with a condition on events": (
        "v.user_id",
        "u.city",
        "users u RIGHT JOIN visits v ON u.user_id = v.user_id AND v.ms > 5",
    ),
    "FULL with a condition on facts": (
        "COALESCE(v.user_id, u.user_id)",
        "u.city",
        "visits v FULL JOIN users u ON u.user_id = v.user_id AND u.city = 'Y'",
    ),
    "FULL by a second column": (
        "COALESCE(v.user_id, u.user_id)",
        "u.city",
        "(SELECT *, 'X' AS city FROM visits) v FULL JOIN users u USING (user_id, city)",
    ),
    "public rows, LEFT with a condition on events": (
        "v.user_id",
        "c.region",
        "visits v JOIN users u USING (user_id) LEFT JOIN cities c ON c.city = u.city AND v.ms > 5",
    ),
    "public rows, RIGHT with a condition on events": (
        "v.user_id",
        "c.region",
        "cities c RIGHT JOIN (SELECT * FROM visits JOIN users USING (user_id)) v "
        "ON c.city = v.city AND v.ms > 5",
    ),
    "public rows, FULL with a condition on events": (
        "v.user_id",
        "c.region",
        "cities c FULL JOIN (SELECT * FROM visits JOIN users USING (user_id)) v "
        "ON c.city = v.city AND v.ms > 5",
    ),
    "public rows that an event determines": (
        "v.user_id",
        "p.category",
        "visits v JOIN pages p USING (page)",
    ),
    "public rows that a fact repeats": ("u.user_id", "s.kind", "users u JOIN shops s ON s.city = u.city"),
    "public rows that a fact does not name": ("u.user_id", "c.region", "users u CROSS JOIN cities c"),
    "a fact and an event": ("v.user_id", "u.city || v.page", "visits v JOIN users u USING (user_id)"),
    "UNION ALL": (
        "user_id",
        "k",
        "(SELECT user_id, city AS k FROM users UNION ALL SELECT user_id, 'all' FROM users) s",
    ),
    "UNION": (
        "user_id",
        "k",
        "(SELECT user_id, city AS k FROM users UNION SELECT user_id, 'all' FROM users) s",
    ),
    "RANK": (
        "user_id",
        "page",
        "(SELECT user_id, page FROM visits QUALIFY RANK() OVER (PARTITION BY user_id ORDER BY ms > 0) = 1) s",
    ),
    "RANK, by WHERE": (
        "user_id",
        "page",
        "(SELECT *, RANK() OVER (PARTITION BY user_id ORDER BY ms > 0) AS k FROM visits) s WHERE k = 1",
    ),
    "the first two rows of each unit": (
        "user_id",
        "page",
        "(SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ms) AS k FROM visits) s WHERE k <= 2",
    ),
    "the first row of each unit and page": (
        "user_id",
        "page",
        "(SELECT user_id, page FROM visits "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id, page ORDER BY ms) = 1) s",
    ),
    "a zero that WHERE fixes, which has two signs": (
        "user_id",
        "1 / z > 0",
        "(SELECT user_id, CASE WHEN ms > 5 THEN 0e0 ELSE CAST('-0.0' AS DOUBLE) END AS z FROM visits) s "
        "WHERE z = 0e0",
    ),
    "an expression that WHERE fixes": ("user_id", "ms", "visits WHERE (ms > 2) = TRUE"),
    "a key of a group beside the unit": (
        "user_id",
        "page",
        "(SELECT user_id, page FROM visits GROUP BY user_id, page) s",
    ),
    "an aggregate of a unit's groups": (
        "user_id",
        "m",
        "(SELECT user_id, page, MAX(ms) AS m FROM visits GROUP BY user_id, page) s",
    ),
    "a window over facts": (
        "user_id",
        "c",
        "(SELECT user_id, LAG(city) OVER (PARTITION BY user_id ORDER BY ms) AS c FROM visits "
        "JOIN users USING (user_id)) s",
    ),
    "the unit of the nullable side": (
        "v.user_id",
        "u.user_id IS NULL",
        "visits v LEFT JOIN users u ON u.user_id = v.user_id AND v.ms > 5",
    ),
    "an event fixed on the nullable side": (
        "v.user_id",
        "w.page",
        "visits v LEFT JOIN (SELECT * FROM visits WHERE page = 'a') w "
        "ON w.user_id = v.user_id AND w.ms = v.ms",
    ),
}
"""The same where a unit has two values of the key."""


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, rows in ROWS.items():
            connection.execute(f"CREATE TABLE {name} AS FROM (VALUES {rows}) AS t({COLUMNS[name]})")
        yield connection


@pytest.fixture(scope="module")
def session(raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("facts")
    for name in ROWS:
        raw.execute(f"COPY {name} TO '{folder / name}.parquet'")
    with open_world(folder, POLICY) as made:
        yield made


def planned(session: Session, statement: str) -> Plan:
    query = parse(statement)
    assert isinstance(query, Query)
    options = replace(query.options, epsilon=query.options.epsilon or Fraction(1), delta=Fraction(1, 10**6))
    return analyse(query, session.policy, engine_of(session).schema_database, options)


def values_of_a_unit(raw: duckdb.DuckDBPyConnection, unit: str, key: str, rest: str) -> int:
    """Return how many values of the key a unit has at most, NULL among them."""
    pairs = f"SELECT DISTINCT {unit} AS unit, {key} AS k FROM {rest}"
    return int(
        raw.sql(
            f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM ({pairs}) WHERE unit IS NOT NULL GROUP BY unit)"
        ).fetchall()[0][0]
    )


@pytest.mark.parametrize("case", FACTS.values(), ids=FACTS)
@pytest.mark.sampled(3)
def test_a_fact_is_found(
    case: tuple[str, str, str], session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    unit, key, rest = case
    text = f"SELECT {key} AS g, COUNT(DISTINCT {unit}) AS n FROM {rest} GROUP BY g ORDER BY n DESC LIMIT 2"
    assert planned(session, text).one_group
    assert values_of_a_unit(raw, unit, key, rest) == 1


@pytest.mark.parametrize("case", EVENTS.values(), ids=EVENTS)
@pytest.mark.sampled(4, rest="longer")
def test_an_event_is_no_fact(
    case: tuple[str, str, str], session: Session, raw: duckdb.DuckDBPyConnection
) -> None:
    unit, key, rest = case
    text = f"SELECT {key} AS g, COUNT(DISTINCT {unit}) AS n FROM {rest} GROUP BY g ORDER BY n DESC LIMIT 2"
    assert not planned(session, text).one_group
    assert values_of_a_unit(raw, unit, key, rest) > 1


def test_facts_need_no_bound_on_groups(session: Session) -> None:
    text = "city, COUNT(DISTINCT user_id) AS n FROM visits JOIN users USING (user_id) GROUP BY city"
    for options in ("", "mechanism = LAPLACE", "mechanism = LAPLACE, max_groups_contributed = 2"):
        clause = f"WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})" if options else ""
        plan = planned(session, f"SELECT {clause} {text}")
        assert plan.groups_per_unit == 1
        assert "hash" not in plan.compiled.sql
    both = planned(session, f"SELECT {text}, page ORDER BY n DESC LIMIT 2".replace("city,", "city, page,", 1))
    assert not both.one_group


def test_explain_says_why_a_unit_is_in_one_group(session: Session) -> None:
    found = session.run(
        "EXPLAIN SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) city, COUNT(DISTINCT user_id) AS n "
        "FROM users GROUP BY city"
    ).table
    shown = dict(zip(*(c.to_pylist() for c in found.columns), strict=True))
    assert shown["mechanism"] == "Laplace on every group"
    assert shown["noise_scale"] == "1"
    assert "each unit is in one group: each key has one value for it" in shown["warnings"]
