"""Units in parts on PostgreSQL and Spark: guards keep the rows of their weeks, which alone are charged."""

from __future__ import annotations

from contextlib import closing

import duckdb
import pytest
from support.stores import Store

from dpsql.composition.prepared import PreparedPrivate
from dpsql.errors import BudgetExceeded, OperationalError
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 100
default_epsilon = 30
[parts.user]
table = "signups"
column = "COLUMN"
every = "week"
until = false
moves = "trusted"
[tables.signups]
source = "signups.parquet"
unit = "user_id"
unit_kind = "user"
unique = [["user_id"]]
[tables.visits]
source = "visits.parquet"
unit = "user_id"
unit_kind = "user"
rows_per_unit = 2
"""
DATA = {
    "signups": "SELECT i AS user_id,"
    " CASE WHEN i % 29 > 0 THEN DATE '2026-01-05' + CAST(i % 28 AS INTEGER) END AS day,"
    " day + INTERVAL 10 HOUR AS moment FROM range(2000) t(i)",
    "visits": "SELECT i % 2000 AS user_id, i AS x FROM range(4000) t(i)",
}
WEEK = "DATE '2026-01-12'"
STATEMENTS = {
    f"SELECT COUNT(*) FROM signups WHERE date_trunc('week', c) = {WEEK}": 1,
    f"SELECT COUNT(*) FROM visits JOIN signups USING (user_id) WHERE date_trunc('week', c) = {WEEK}": 1,
    f"SELECT COUNT(*) FROM signups WHERE NOT (c >= {WEEK} OR c < DATE '2026-01-05')": 1,
    f"SELECT COUNT(*) FROM signups WHERE c IS NULL OR c = {WEEK}": 2,
}


@pytest.mark.parametrize("column", ["day", "moment"])
def test_a_week_is_counted_and_charged(store: Store, column: str) -> None:
    with duckdb.connect() as connection:
        policy = store.policy(POLICY.replace("COLUMN", column), store.put(connection, DATA))
        for name, sql in DATA.items():
            connection.execute(f"CREATE TABLE {name} AS {sql}")
        with closing(Session(policy)) as session:
            for text, parts in STATEMENTS.items():
                statement = (
                    text.replace("c)", f"{column})")
                    .replace(" c ", f" {column} ")
                    .replace("(c ", f"({column} ")
                )
                prepared = session.prepare(statement.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY", 1))
                assert isinstance(prepared, PreparedPrivate)
                assert len(prepared.plan.unit_parts or ()) == parts
                found = session.execute(prepared).table.column(0)[0].as_py()
                (exact,) = connection.execute(statement).fetchone()  # type: ignore[misc]
                assert abs(found - exact) < 3
            with pytest.raises(BudgetExceeded, match="for week 2026-W03"):
                session.run(f"SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM signups WHERE {column} > {WEEK}")


VALUES = """
    SELECT i AS user_id, ['DE', 'FR', 'Zürich', 'it''s', NULL][1 + i % 5] AS land, i % 7 - 2 AS cohort,
      CASE WHEN i % 3 > 0 THEN i % 3 = 1 END AS paid FROM range(2000) t(i)
"""
OF_VALUES = {
    "land": ["= 'DE'", "IN ('Zürich', 'it''s')", "<> 'DE'", "NOT IN ('DE', 'FR')", "IS NULL", "LIKE 'D%'"],
    "cohort": ["= -2", "< 0", "BETWEEN -1 AND 2", "IN (-2, 4)", "<> 1"],
    "paid": ["", "= FALSE", "IS NOT TRUE"],
}


@pytest.mark.parametrize("column", OF_VALUES)
def test_a_value_is_counted_and_charged(store: Store, column: str) -> None:
    text = POLICY.replace("COLUMN", column).replace('every = "week"\nuntil = false\n', "")
    text = text.replace("epsilon = 100", "epsilon = 900")
    text = text.replace("[tables.visits]", "domain.land = ['DE', 'FR', \"it's\"]\n[tables.visits]", 1)
    with duckdb.connect() as connection:
        policy = store.policy(text, store.put(connection, {**DATA, "signups": VALUES}))
        connection.execute(f"CREATE TABLE signups AS {VALUES}")
        with closing(Session(policy)) as session:
            for condition in OF_VALUES[column]:
                rows = f"COUNT(*) FROM signups WHERE {column} {condition}"
                prepared = session.prepare(f"SELECT WITH DIFFERENTIAL_PRIVACY {rows}")
                assert isinstance(prepared, PreparedPrivate)
                assert prepared.plan.unit_parts is not None
                found = session.execute(prepared).table.column(0)[0].as_py()
                (exact,) = connection.execute(f"SELECT {rows}").fetchone()  # type: ignore[misc]
                assert abs(found - exact) < 3


def test_rows_of_a_unit_have_one_date_together(store: Store) -> None:
    """`constant = true`: all rows of a unit have one date, or none; else the table is refused, uncharged."""
    once = DATA["signups"]
    twice = f"SELECT user_id, day, moment FROM ({once}) AS s, range(2) AS r(j)"
    other = "CASE WHEN user_id = 7 AND j = 1 THEN NULL ELSE day END"
    text = POLICY.replace('unique = [["user_id"]]', "rows_per_unit = 2").replace("COLUMN", "day")
    text = text.replace("until = false", "until = false\nconstant = true")
    for day, refused in (("day", False), (other, True)):
        rows = f"SELECT user_id, {day} AS day, moment FROM ({once}) AS s, range(2) AS r(j)"
        with duckdb.connect() as connection:
            policy = store.policy(text, store.put(connection, {**DATA, "signups": rows}))
            (exact,) = connection.execute(f"SELECT COUNT(*) FROM ({twice}) WHERE day = {WEEK}").fetchone()  # type: ignore[misc]
        with closing(Session(policy)) as session:
            counted = f"SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM signups WHERE day = {WEEK}"
            if refused:
                with pytest.raises(OperationalError, match="cannot be read as declared"):
                    session.run(counted)
                assert session.budget().spent.epsilon == 0
            else:
                assert abs(session.run(counted).table.column(0)[0].as_py() - exact) < 6
