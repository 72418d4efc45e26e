"""Nests of expressions on the engines: just below the limit they are planned and right, above it refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import duckdb
import pytest
from support.nests import chained, longer, nested, twice, upper
from support.stores import PostgresStore, Store

from dpsql.engines.remote_engine import RemoteEngine
from dpsql.engines.writer import Untranslatable, write
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import Expr, Query
from dpsql.session import Session
from tests.narrow import engine_of

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.rows]
source = "rows.parquet"
unit = "id"
columns = { id = "BIGINT", s = "VARCHAR" }
"""
TEXTS = {1: "a", 2: "", 3: None, 4: "Éé", 5: "é" * 9000, 6: "x" * 65536, 7: "%_'\\"}


def meant(make: Callable[[Expr], Expr], text: str | None) -> str | None:
    """Return the text that an expression makes of another, as DuckDB means it."""
    if text is None or make is upper:
        return text and text.upper()
    more = text if make is twice else "a"
    return text + more if len((text + more).encode()) <= 65536 else None


@pytest.fixture(scope="module")
def session(store: Store) -> Iterator[Session]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE given (id BIGINT, s VARCHAR)")
        connection.executemany("INSERT INTO given VALUES (?, ?)", list(TEXTS.items()))
        found = store.session(store.policy(POLICY, store.put(connection, {"rows": "SELECT * FROM given"})))
    yield found
    found.close()


def most(engine: RemoteEngine, shape: Callable[..., Query], make: Callable[[Expr], Expr]) -> int:
    """Return how often an expression may be nested."""
    for times in range(1, 40):
        try:
            write(shape(make, times), engine.dialect, engine.schema_database, engine._private, {})
        except Untranslatable:
            return times - 1
    raise AssertionError("no nest is refused")


@pytest.mark.parametrize("shape", [nested, chained])
@pytest.mark.parametrize("make", [twice, longer, upper])
def test_the_deepest_nest_is_planned_and_right(
    session: Session, shape: Callable[..., Query], make: Callable[[Expr], Expr]
) -> None:
    engine: RemoteEngine = engine_of(session)  # type: ignore[assignment]
    times = most(engine, shape, make)
    assert times >= 3
    query = shape(make, times)
    statement = write(query, engine.dialect, engine.schema_database, engine._private, {})
    engine.bind(statement)
    found = engine._run(statement).column(0).to_pylist()
    wanted = list(TEXTS.values())
    for _ in range(times):
        wanted = [meant(make, value) for value in wanted]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_a_short_text_that_becomes_long_is_refused_uncharged(session: Session) -> None:
    source = "SELECT id, s AS x FROM rows"
    for _ in range(12):
        source = f"SELECT id, x || x AS x FROM ({source})"
    with pytest.raises(QueryRefused, match="too long"):
        session.run(f"SELECT COUNT(DISTINCT id) AS n FROM ({source}) WHERE x = 'a'")
    assert session.budget().spent.epsilon == 0


def test_a_statement_is_planned_while_another_one_runs(session: Session) -> None:
    engine: RemoteEngine = engine_of(session)  # type: ignore[assignment]
    planned = threading.Event()

    def plan() -> None:
        session.prepare("SELECT COUNT(DISTINCT id) AS n FROM rows WHERE s = 'planned beside another'")
        planned.set()

    with engine.connection():
        thread = threading.Thread(target=plan, daemon=True)
        thread.start()
        assert planned.wait(300)
    thread.join()


def test_planning_ends_after_its_own_time(store: Store, session: Session) -> None:
    """The owner's lock holds the plan up; the time limit of a statement is an hour."""
    if not isinstance(store, PostgresStore):
        pytest.skip("Spark has no locks; its limit is in the unit tests")
    from adbc_driver_postgresql import dbapi

    engine = engine_of(session)
    (guard,) = engine._guards.values()  # type: ignore[attr-defined]  # PostgresEngine
    with dbapi.connect(store.address) as owner, owner.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {guard.name} IN ACCESS EXCLUSIVE MODE")
        with engine.connection() as connection:  # type: ignore[attr-defined]
            assert not connection.explain(f"SELECT 1 FROM {guard.name}", [guard], 1)
        owner.rollback()
    with engine.connection() as connection:  # type: ignore[attr-defined]
        assert connection.explain(f"SELECT 1 FROM {guard.name}", [guard], 60)
