"""Paths of several foreign keys on each engine: what is counted, and that a key is unique at every hop."""

from __future__ import annotations

import duckdb
import pytest
from support.stores import Store

from dpsql.errors import Error, OperationalError, PolicyError
from dpsql.policy import Policy
from dpsql.session import Session
from tests import paths

POLICY = (
    paths.POLICY.replace("epsilon = 10\n", "epsilon = 1000000\n")
    + """unique = [["result_id"]]
[tables.notes]
source = "notes.parquet"
unit = { via = "result_id", table = "results", column = "result_id" }
"""
)
DATA = {
    "encounters": "SELECT i AS encounter_id, CASE WHEN i % 9 > 0 THEN i % 25 END AS patient_id "
    "FROM range(80) AS r(i)",
    "lab_orders": "SELECT i AS order_id, CASE WHEN i % 7 > 0 THEN i * 3 % 90 END AS encounter_id "
    "FROM range(150) AS r(i)",
    "results": "SELECT i AS result_id, (i * 7 % 160)::INTEGER AS order_id FROM range(250) AS r(i)",
    "notes": "SELECT i % 270 AS result_id, i % 5 AS x FROM range(400) AS r(i)",
}
STATEMENTS = {
    "SELECT COUNT(DISTINCT patient_id) AS n FROM notes": "SELECT COUNT(DISTINCT e.patient_id)",
    "SELECT COUNT(*, contribution_bounds_per_group => (0, 100)) AS n FROM notes": "SELECT COUNT(*)",
    "SELECT COUNT(*, contribution_bounds_per_group => (0, 100)) AS n "
    "FROM notes JOIN results r USING (result_id) JOIN lab_orders USING (order_id)": "SELECT COUNT(*)",
}
PATH = (
    " FROM notes JOIN results USING (result_id) JOIN lab_orders USING (order_id) "
    "JOIN encounters e USING (encounter_id) WHERE e.patient_id IS NOT NULL"
)


def policy(store: Store, twice: str = "") -> Policy:
    again = {twice: f"{DATA[twice]} UNION ALL {DATA[twice]} WHERE i = 11"} if twice else {}
    with duckdb.connect() as connection:
        return store.policy(POLICY, store.put(connection, DATA | again))


def asked(session: Session, statement: str) -> float:
    priced = statement.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 50000)", 1)
    return float(session.run(priced).table.column("n")[0].as_py())


def test_what_is_counted_is_the_join_written_out(store: Store) -> None:
    session = store.session(policy(store))
    with duckdb.connect() as connection:
        for table, sql in DATA.items():
            connection.execute(f"CREATE TABLE {table} AS {sql}")
        for statement, counted in STATEMENTS.items():
            expected = connection.execute(counted + PATH).fetchall()[0][0]
            assert asked(session, statement) == pytest.approx(expected, abs=0.2)
    session.close()


@pytest.mark.parametrize("twice", ["encounters", "lab_orders", "results"])
def test_a_key_that_occurs_twice_is_refused(store: Store, twice: str) -> None:
    """PostgreSQL keeps keys unique by an index, without which nothing is opened; Spark reads the rows."""
    session, problem = None, Error("accepted")
    try:
        session = store.session(policy(store, twice))
        asked(session, next(iter(STATEMENTS)))
    except (PolicyError, OperationalError) as error:
        problem = error
    finally:
        if session is not None:
            assert not session.ledger.entries()
            session.close()
    assert f"tables.{twice}.unique: no index" in str(problem) or f"table {twice} cannot" in str(problem)
