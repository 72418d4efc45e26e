"""ROLLUP and its like, and groups sorted by averages, are what DuckDB computes where noise is small."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import of_type, present
from tests.opened import sessions_in

POLICY = """
[budget]
epsilon = 1e12
default_epsilon = 1000000
max_epsilon_per_query = 1000000
[tables.sales]
source = "sales.parquet"
unit = "person"
unique = [["person"]]
not_null = ["city", "item"]
[tables.sales.domain]
city = { values = ["X", "Y", "Z"], complete = true }
item = { values = ["a", "b"], complete = true }
[tables.sales.bounds]
price = { from = 0, to = 100 }
"""
ROWS = """
SELECT i AS person, ['X', 'Y', 'Z'][1 + i % 3] AS city, ['a', 'b'][1 + i // 7 % 2] AS item,
  (i * 7 % 90)::INTEGER + i % 3 AS price
FROM range(400) t(i)
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("sets")
    duckdb.sql(f"COPY ({ROWS}) TO '{folder}/sales.parquet'")
    with sessions_in(folder, POLICY) as opened:
        yield opened()


def exact(statement: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE sales AS {ROWS}")
        return engine.execute(statement).fetchall()


def rows_of(session: Session, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in session.run(statement).table.to_pylist()]


def is_near(one: object, other: object) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-3)
    return one == other


STATEMENTS = [
    "SELECT city, item, COUNT(*) AS n FROM sales GROUP BY ROLLUP (city, item) ORDER BY 1, 2",
    "SELECT city, item, COUNT(*) AS n FROM sales GROUP BY city, item WITH ROLLUP ORDER BY 1, 2",
    "SELECT city, item, SUM(price) AS s, AVG(price) AS a FROM sales GROUP BY CUBE (city, item) ORDER BY 1, 2",
    "SELECT city, item, COUNT(*) AS n FROM sales GROUP BY GROUPING SETS ((city), (item), ()) ORDER BY 1, 2",
    "SELECT city, item, COUNT(*) AS n FROM sales GROUP BY city, ROLLUP (item) ORDER BY 1, 2",
    "SELECT city AS c, COUNT(DISTINCT person) AS n FROM sales GROUP BY ROLLUP (1) ORDER BY 1",
    "SELECT city, item, GROUPING(city) AS g, GROUPING(city, item) AS h, COUNT(*) AS n FROM sales "
    "GROUP BY ROLLUP (city, item) ORDER BY h, 1, 2",
    "SELECT city, COUNT(*) AS n FROM sales GROUP BY ROLLUP (city) HAVING COUNT(*) > 133.5 ORDER BY n DESC",
    "SELECT COALESCE(city, 'all') AS k, SUM(price) + 1 AS s FROM sales GROUP BY ROLLUP (city) ORDER BY 1",
    "SELECT city, SUM(price) AS s, RANK() OVER (PARTITION BY GROUPING(city) ORDER BY SUM(price) DESC) AS r "
    "FROM sales GROUP BY ROLLUP (city) ORDER BY GROUPING(city), r",
    "WITH w AS (SELECT city, COUNT(*) AS n FROM sales GROUP BY CUBE (city)) SELECT SUM(n), MAX(n) FROM w",
    "SELECT upper(left(city, 0)) AS city, COUNT(*) AS n FROM sales GROUP BY ROLLUP (city) ORDER BY 1, 2",
    "SELECT city, AVG(price) AS a FROM sales GROUP BY city ORDER BY a DESC LIMIT 2",
    "SELECT city, COUNT(*) AS n FROM sales GROUP BY city ORDER BY STDDEV(price) LIMIT 1",
    "SELECT item, city, COUNT(*) AS n FROM sales GROUP BY ALL ORDER BY AVG(price) - 1 DESC, 1, 2 LIMIT 4",
    "SELECT city FROM sales GROUP BY city HAVING AVG(price) > 44.6 ORDER BY city",
]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.sampled(4, rest="longer")
def test_an_answer_is_that_of_duckdb(session: Session, statement: str) -> None:
    wanted = exact(statement.replace("city, item WITH ROLLUP", "ROLLUP (city, item)"))
    found = rows_of(session, statement)
    assert len(wanted) == len(found)
    for one, other in zip(wanted, found, strict=True):
        assert all(map(is_near, one, other)), (one, other)


def test_each_set_is_a_release_and_epsilon_is_divided_evenly(session: Session) -> None:
    statement = "SELECT city, item, COUNT(*) AS n FROM sales GROUP BY ROLLUP (city, item)"
    made = of_type(session.prepare(statement), PreparedComposed)
    assert [part.plan.options.epsilon for part in made.parts] == [Fraction(1_000_000, 3)] * 3


def test_that_all_groups_are_released_is_told(session: Session) -> None:
    statement = "SELECT city, AVG(price) AS a FROM sales GROUP BY city ORDER BY a DESC LIMIT 2"
    made = of_type(session.prepare(statement), PreparedComposed)
    part = of_type(made.parts[0], PreparedPrivate)
    assert "all 3 groups are released, and then sorted" in map(str, part.plan.assumed)
    assert "all 3 groups at once" in part.of_intervals


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT person, COUNT(*) FROM sales GROUP BY ROLLUP (person)", "none is by the privacy unit"),
        ("SELECT city, COUNT(*) FROM sales GROUP BY ROLLUP (3)", "are several groupings"),
        ("SELECT city, price, COUNT(*) FROM sales GROUP BY ROLLUP (city)", "are several groupings"),
    ],
)
def test_what_cannot_be_divided_is_refused(session: Session, statement: str, said: str) -> None:
    with pytest.raises(QueryRefused, match=said):
        session.prepare(statement)


def test_lines_and_errors_name_columns_as_the_statement_does(session: Session) -> None:
    ranked = (
        "SELECT city, SUM(price) AS s, RANK() OVER (ORDER BY COUNT(*)) AS r "
        "FROM sales WHERE city <> 'Z' OR item = 'c' GROUP BY ROLLUP (city)"
    )
    (line,) = [n for n in present(session.run(ranked).release).warnings if "rounds to 0" in n]
    assert "whose COUNT(*) rounds to 0" in line
    with pytest.raises(QueryRefused, match="the values of price % 7 are not declared"):
        session.run("SELECT price % 7 AS p, MAX(price) FROM sales GROUP BY ROLLUP (price % 7)")


def test_columns_may_have_the_names_of_places(session: Session) -> None:
    rows = "(SELECT person, city AS g0, item AS k0, price AS a0 FROM sales) AS t"
    items = "g0, k0, COUNT(*) AS n, SUM(a0), GROUPING(g0) AS g"
    statement = f"SELECT {items} FROM {rows} GROUP BY CUBE (g0, k0) ORDER BY g0, k0, n"
    for one, other in zip(rows_of(session, statement), exact(statement), strict=True):
        assert all(map(is_near, one, other)), (one, other)


@pytest.mark.parametrize("where", ["k.class = 'none'", "city > 'Z'"])
def test_sets_that_can_have_no_groups_are_left_out(session: Session, where: str) -> None:
    """Where no public row meets WHERE, no row does."""
    joined = "sales JOIN (VALUES ('a', 'new'), ('b', 'old')) AS k(code, class) ON item = k.code"
    sets = "(code, class), (item), ()" if "class" in where else "(city), (item), ()"
    key = "class" if "class" in where else "city"
    statement = f"SELECT {key}, COUNT(*) AS n FROM {joined} WHERE {where} GROUP BY GROUPING SETS ({sets})"
    release = present(session.run(statement).release)
    found = [tuple(row.values()) for row in release.rows.to_pylist()]
    assert len(found) == (1 if "class" in where else 3)
    assert all(map(is_near, row, (None, 0)) for row in found)
    assert "of GROUP BY the sets whose keys no public value meets have no rows" in release.warnings


def test_sets_of_other_rows_stay(session: Session) -> None:
    joined = "sales JOIN (VALUES ('a', 'new'), ('b', 'old')) AS k(code, class) ON item = k.code"
    some = f"SELECT class, COUNT(*) AS n FROM {joined} GROUP BY ROLLUP (class)"
    none = some.replace("GROUP", "WHERE class = 'none' GROUP")
    for statement in (f"{none} UNION ALL {some}", f"{some} UNION ALL {none}"):
        wanted, found = (sorted(rows, key=repr) for rows in (exact(statement), rows_of(session, statement)))
        assert [row[0] for row in wanted] == [row[0] for row in found]
        assert sum(float(str(row[1])) for row in found) == pytest.approx(800, abs=0.1)


def test_groups_of_one_set_without_values_stay_refused(session: Session) -> None:
    statement = "SELECT city, COUNT(*) FROM sales WHERE city > 'Z' GROUP BY ROLLUP (city) HAVING city > 'Z'"
    assert len(rows_of(session, statement)) == 0
    with pytest.raises(QueryRefused, match="no value in the public domain"):
        session.prepare("SELECT city, COUNT(*) FROM sales WHERE city > 'Z' GROUP BY GROUPING SETS ((city))")
