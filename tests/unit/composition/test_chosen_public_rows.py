# ruff: noqa: E501  a statement stands on one line, as it is typed
"""Public rows that are counted by whether private rows have their value."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from dpsql.errors import QueryRefused
from dpsql.session import Session
from tests.narrow import present
from tests.support.world import world_fixture

POLICY = """
[budget]
epsilon = 1e12
max_epsilon_per_query = 1e9
default_epsilon = 100000
ledger = "ledger.sqlite"
[defaults]
rows_per_unit = 5
[tables.rental]
source = "rental.parquet"
unit = "user_id"
trust_source = true
[tables.rental.domain]
item_id = { table = "item", column = "item_id" }
[tables.item]
source = "item.parquet"
public = true
unique = [["item_id"]]
[tables.shelf]
source = "shelf.parquet"
public = true
[tables.film]
source = "film.parquet"
public = true
unique = [["film_id"]]
"""
TABLES = {
    "rental": "SELECT i // 3 AS user_id, CASE WHEN i % 13 <> 2 THEN i * i % 60 END AS item_id, i % 4 = 0 AS late FROM range(900) t(i)",
    "item": "SELECT i AS item_id, i % 7 AS film_id FROM range(80) t(i)",
    "shelf": "SELECT CASE WHEN i % 4 <> 1 THEN i END AS item_id, i % 3 AS room FROM range(60) t(i)",
    "film": "SELECT i AS film_id, ['x', 'y'][1 + i % 2] AS kind FROM range(9) t(i)",
}
OUT = "(SELECT r.item_id FROM rental r WHERE r.late)"
LIKE_SQL = [
    f"SELECT COUNT(*) AS n FROM item WHERE item_id NOT IN {OUT}",
    f"SELECT COUNT(*) AS n FROM item WHERE item_id IN {OUT} AND film_id > 2",
    f"SELECT f.film_id, COUNT(*) AS n FROM film f JOIN item i ON i.film_id = f.film_id WHERE i.item_id NOT IN {OUT} GROUP BY 1 ORDER BY 1 ASC",
    f"SELECT f.kind, COUNT(*) AS n FROM film f JOIN item i ON i.film_id = f.film_id WHERE i.item_id IN {OUT} AND f.film_id < 6 GROUP BY f.kind ORDER BY f.kind",
    f"SELECT kind, n FROM (SELECT f.kind, COUNT(*) AS n FROM film f, item i WHERE i.film_id = f.film_id AND i.item_id NOT IN {OUT} GROUP BY f.kind) ORDER BY kind",
]

BY_EXISTS = [
    "SELECT COUNT(*) AS n FROM item i WHERE EXISTS (SELECT 1 FROM rental r WHERE r.item_id = i.item_id AND late)",
    "SELECT COUNT(*) AS n FROM item i WHERE NOT EXISTS (SELECT * FROM rental WHERE late AND i.item_id = item_id)",
    "SELECT COUNT(*) AS n FROM item WHERE film_id < 5 AND NOT EXISTS (SELECT r.late FROM rental r WHERE r.item_id = item.item_id)",
    "SELECT COUNT(*) AS n FROM shelf s WHERE NOT EXISTS (SELECT 1 FROM rental r WHERE r.item_id = s.item_id AND r.late)",
    "SELECT room, COUNT(*) AS n FROM shelf s WHERE NOT EXISTS (SELECT 1 FROM rental r WHERE r.item_id = s.item_id AND r.late) GROUP BY room ORDER BY room",
    "SELECT f.kind, COUNT(*) AS n FROM film f JOIN item i ON i.film_id = f.film_id WHERE EXISTS (SELECT 1 FROM rental r JOIN film g ON r.user_id % 9 = g.film_id WHERE g.kind = 'x' AND r.item_id = i.item_id) GROUP BY f.kind ORDER BY f.kind",
    "SELECT COUNT(*) AS n FROM shelf s LEFT JOIN rental r ON r.item_id = s.item_id AND r.late WHERE r.item_id IS NULL",
    "SELECT room, COUNT(*) AS n FROM shelf s LEFT JOIN rental r ON late AND s.item_id = r.item_id WHERE r.item_id IS NULL AND room > 0 GROUP BY room ORDER BY room",
    "SELECT f.kind, COUNT(*) AS n FROM film f JOIN item i ON i.film_id = f.film_id LEFT JOIN rental r ON r.item_id = i.item_id WHERE r.item_id IS NULL GROUP BY f.kind ORDER BY f.kind",
]
SHOWN = [
    "SELECT item_id, film_id FROM item WHERE item_id IN (SELECT item_id FROM rental WHERE late) ORDER BY item_id",
    "SELECT item_id FROM item i WHERE NOT EXISTS (SELECT 1 FROM rental r WHERE r.item_id = i.item_id) AND film_id < 5 ORDER BY film_id DESC, item_id LIMIT 9",
    "SELECT s.* FROM shelf s LEFT JOIN rental r ON r.item_id = s.item_id AND r.late WHERE r.item_id IS NULL ORDER BY ALL",
    "SELECT s.room, item_id FROM shelf s WHERE EXISTS (SELECT 1 FROM rental r WHERE r.item_id = s.item_id) ORDER BY ALL",
]
"""Rows that are shown, by a list of found values, as are those of a column that repeats its values."""


@pytest.mark.parametrize("sql", SHOWN)
def test_public_rows_are_shown_by_found_values(session: Session, sql: str) -> None:
    with duckdb.connect() as raw:
        for name, rows in TABLES.items():
            raw.execute(f"CREATE TABLE {name} AS {rows}")
        exact = raw.execute(sql).fetchall()
    answer = session.run(sql)
    assert [tuple(row.values()) for row in answer.table.to_pylist()] == exact
    told = present(answer.release).warnings[0]
    assert told.startswith(
        "found: an item_id counts as there from about 1 units that speak for it; rarer ones"
    )


@pytest.mark.parametrize("sql", BY_EXISTS)
@pytest.mark.sampled(4, rest="longer")
def test_existence_by_value_is_that_of_sql_with_null(session: Session, sql: str) -> None:
    with duckdb.connect() as raw:
        for name, rows in TABLES.items():
            raw.execute(f"CREATE TABLE {name} AS {rows}")
        exact = raw.execute(sql).fetchall()
    found = [tuple(row.values()) for row in session.run(sql).table.select(range(len(exact[0]))).to_pylist()]
    assert found == [
        tuple(pytest.approx(v, abs=0.4) if isinstance(v, int) else v for v in row) for row in exact
    ]


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT 1 FROM rental r WHERE r.item_id < i.item_id",
        "SELECT 1 FROM rental r WHERE r.item_id = i.item_id AND r.user_id = i.film_id",
        "SELECT 1 FROM rental r WHERE r.item_id = i.item_id OR late",
        "SELECT COUNT(*) FROM rental r WHERE r.item_id = i.item_id",
        "SELECT 1 FROM rental r WHERE r.item_id = i.item_id LIMIT 0",
        "SELECT 1 FROM rental r WHERE r.item_id = i.item_id AND r.user_id IN (SELECT user_id FROM rental)",
        "SELECT 1 FROM rental r WHERE r.item_id + 1 = i.item_id",
    ],
)
def test_other_existence_of_public_rows_is_refused(session: Session, inner: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(f"SELECT COUNT(*) FROM item i WHERE NOT EXISTS ({inner})")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM shelf s LEFT JOIN rental r ON r.item_id = s.item_id WHERE r.late IS NULL",
        "SELECT COUNT(*) FROM shelf s LEFT JOIN rental r ON r.item_id = s.item_id WHERE r.item_id IS NULL OR r.late",
        "SELECT COUNT(*) FROM shelf s LEFT JOIN rental r ON r.item_id = s.item_id OR r.late WHERE r.item_id IS NULL",
        "SELECT COUNT(*) FROM shelf s LEFT JOIN rental r ON r.item_id > s.item_id WHERE r.item_id IS NULL",
        "SELECT COUNT(*) FROM shelf s LEFT JOIN (SELECT * FROM rental LIMIT 3) r ON r.item_id = s.item_id WHERE r.item_id IS NULL",
    ],
)
def test_other_joins_of_public_rows_are_no_anti_join(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)


session = world_fixture(POLICY, **TABLES)


@pytest.mark.parametrize("sql", LIKE_SQL)
@pytest.mark.sampled(3, rest="longer")
def test_the_answer_is_that_of_sql_without_null(session: Session, sql: str) -> None:
    found = [tuple(row.values()) for row in session.run(sql).table.to_pylist()]
    with duckdb.connect() as con:
        for name in TABLES:
            con.execute(f"CREATE VIEW {name} AS FROM '{present(session.policy.path).parent / name}.parquet'")
        wanted = con.execute(sql.replace("r.late)", "r.late AND r.item_id IS NOT NULL)")).fetchall()
    assert len(found) == len(wanted)
    for row, true in zip(found, wanted, strict=True):
        assert row[:-1] == true[:-1]
        assert row[-1] == pytest.approx(true[-1], abs=0.5)


def test_columns_are_named_as_they_are_written(session: Session) -> None:
    sql = LIKE_SQL[2].replace("COUNT(*) AS n", "COUNT(*)")
    assert session.run(sql).table.column_names == ["film_id", "COUNT(*)"]


def test_what_is_left_out_is_told(session: Session) -> None:
    said = " ".join(present(session.run(LIKE_SQL[2]).release).warnings)
    assert "NOT IN: rows without an item_id are left out; with one, SQL's NOT IN is empty" in said
    assert "groups whose number rounds to 0 are left out" in said


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM item WHERE film_id NOT IN {OUT}",  # a film has several items
        f"SELECT SUM(film_id) FROM item WHERE item_id NOT IN {OUT}",
        f"SELECT COUNT(*) FROM film f LEFT JOIN item i ON i.film_id = f.film_id WHERE i.item_id NOT IN {OUT}",
    ],
)
def test_other_public_rows_are_not_chosen_by_private_values(session: Session, sql: str) -> None:
    with pytest.raises(QueryRefused):
        session.prepare(sql)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM item WHERE item_id NOT IN {OUT} AND film_id IN (SELECT 1 FROM read_csv('/etc/passwd'))",
        f"SELECT COUNT(*) FROM item WHERE item_id NOT IN {OUT} AND length(getenv('HOME')) > 0",
        "SELECT COUNT(DISTINCT user_id) FROM rental WHERE item_id IN (SELECT item_id FROM (SELECT item_id, COUNT(DISTINCT user_id) AS n FROM rental GROUP BY item_id), read_csv('/etc/passwd'))",
        "SELECT COUNT(DISTINCT user_id) FROM rental WHERE item_id IN (SELECT item_id FROM (SELECT item_id, COUNT(DISTINCT user_id) AS n FROM rental GROUP BY item_id) WHERE length(getenv('HOME')) > n)",
    ],
)
def test_nothing_runs_that_is_not_checked_first(
    session: Session, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for what is public or of which type a value is binds no function that a statement may not call."""
    database = session.database.engines().schema_database
    asked = list[str]()
    for name in ("run", "describe_over"):
        ask = getattr(database, name)

        def record(*given: Any, ask: Any = ask) -> Any:
            asked.extend(map(str, given))
            return ask(*given)

        monkeypatch.setattr(database, name, record, raising=False)
    with pytest.raises(QueryRefused):
        session.prepare(sql)
    assert not any(word in text.lower() for text in asked for word in ("read_csv", "getenv"))
