"""Limits of a server on a statement: its time, the size of its result, the memory of the databases."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPublic
from dpsql.database import Database
from dpsql.engines import ResultLimit, RunningStatement, running_statement
from dpsql.errors import OperationalError, ProgrammingError, QueryRefused, ResultTooLarge, StatementFailed
from dpsql.language import StatementText
from dpsql.session import Session
from tests.narrow import of_type
from tests.unit.test_database import COUNT, ENDLESS, POLICY, UNITS, instead, states

RANGE = "SELECT range AS n FROM range({})"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    rows = f"SELECT i AS user_id, i % 3 AS page FROM range({UNITS}) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{tmp_path}/visits.parquet'")
    (tmp_path / "other.csv").write_text("id\n1\n")
    (tmp_path / "pages.csv").write_text("page\na\n")
    (tmp_path / "dpsql.toml").write_text(POLICY)
    with Database(tmp_path / "dpsql.toml", memory=900_000_000) as made:
        yield made


def test_a_result_beyond_the_limit_is_not_returned(database: Database) -> None:
    session = Session(database, "alice")
    few, small = (RunningStatement(ResultLimit(r, b)) for r, b in ((1000, 10**9), (10**12, 100_000)))
    kept = session.execute(session.prepare(RANGE.format(1000)), running=few)
    assert kept.table.num_rows == 1000
    for limited in (few, small):
        with pytest.raises(ResultTooLarge, match="more than"):
            # Without the limit this would take all the memory there is.
            session.execute(session.prepare(RANGE.format(10**13)), running=limited)


def test_the_rows_over_releases_have_the_limit_too_and_the_release_is_stored(database: Database) -> None:
    session = Session(database, "alice")
    many = f"SELECT r.n, g.range FROM ({COUNT}) AS r, range(100000000) AS g"
    with pytest.raises(ResultTooLarge):
        session.execute(session.prepare(many), running=RunningStatement(ResultLimit(1000, 10**6)))
    assert states(database) == {"alice": ["settled"]}
    assert session.prepare(many).price.epsilon == 0


def test_a_private_statement_that_runs_out_of_time_is_a_failure(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, running = Session(database, "alice"), RunningStatement()
    prepared = session.prepare(COUNT)
    monkeypatch.setattr(database.engines().engine, "count", instead(database, ENDLESS))
    running.end_within(0.2)
    with pytest.raises(StatementFailed):
        session.execute(prepared, running=running)
    assert running.timed_out
    assert states(database) == {"alice": ["failed"]}


def test_a_public_statement_that_runs_out_of_time_is_stopped(database: Database) -> None:
    session, running = Session(database, "alice"), RunningStatement()
    running.end_within(0.2)
    with pytest.raises(OperationalError, match="could not finish this public statement"):
        session.execute(session.prepare(ENDLESS), running=running)
    assert running.timed_out


def test_to_vet_a_table_takes_no_time_of_the_statement(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the whole table, once for each version of it: else a large one could never be asked."""
    session, running = Session(database, "alice"), RunningStatement()
    prepared, remaining = session.prepare(COUNT), list[float | None]()

    def vet(table: str) -> bool:
        with running_statement() as statement:
            remaining.append(statement.remaining)
        return True

    monkeypatch.setattr(database.engines().engine, "vet", vet)
    running.end_within(60)
    assert session.execute(prepared, running=running).release is not None
    assert remaining == [None]
    assert running.remaining is not None


def test_the_databases_share_the_memory(database: Database) -> None:
    engine: Any = database.engines().engine
    opened = [engine._connection(counts_only=which) for which in (True, False)]
    found = [c.cursor().execute("SELECT current_setting('memory_limit')").fetchall() for c in opened]
    found.append(
        engine.schema_database._database.connection.execute(
            "SELECT current_setting('memory_limit')"
        ).fetchall()
    )
    assert found == [[("429.1 MiB",)], [("286.1 MiB",)], [("143.0 MiB",)]]


@pytest.mark.parametrize(
    ("marked", "hint"),
    [
        ("SELECT <nosuch> FROM pages", "columns here: page"),
        ("SELECT 'nosuch' AS nosuch,\n p.<NoSuch> FROM pages AS p", "columns here: page"),
        ("SELECT <pagge> FROM pages", "did you mean page?"),
        ("SELECT 'é', p.page FROM pages AS p JOIN (SELECT 1 AS n) AS q ON q.<page> = p.page", None),
        ("SELECT q.n, p.<n> FROM pages AS p, (SELECT 1 AS n) AS q WHERE q.n = 1", None),
        ("SELECT 1 AS one, <two>", None),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_a_column_that_a_public_table_does_not_have_is_shown_at_its_place(
    database: Database, marked: str, hint: str | None
) -> None:
    begin, name, end = re.split("[<>]", marked)
    text = begin + name + end
    session = Session(database, "alice")
    schema = database.engines().schema_database
    sql = of_type(session.prepare(text), PreparedPublic).sql
    for ask in (lambda: session.run(text), lambda: schema.schema(sql, text)):
        with pytest.raises(QueryRefused, match=f"^there is no column {name}\n") as caught:
            ask()
        error = caught.value
        assert error.sqlstate == "42703"
        assert (error.line, error.col) == StatementText(text).locate(len(begin))[:2]
        assert hint is None or error.hint == hint


def test_a_public_statement_that_does_not_bind_for_its_types(database: Database) -> None:
    text = "SELECT COALESCE(DATE '2024-01-01', 1) FROM pages"
    session, schema = Session(database, "alice"), database.engines().schema_database
    for ask in (lambda: session.run(text), lambda: schema.schema(text)):
        with pytest.raises(ProgrammingError, match="check the names and types") as caught:
            ask()
        assert caught.value.sqlstate == "42000"


def test_a_name_that_is_not_in_the_text_has_no_place(database: Database) -> None:
    """It stands in a view of the policy, or nobody said what the analyst wrote."""
    schema = database.engines().schema_database
    for text in (None, "SELECT * FROM a_view"):
        with pytest.raises(ProgrammingError, match="there is no column nosuch, so the engine") as caught:
            schema.run("SELECT nosuch FROM pages", text)
        assert caught.value.sqlstate == "42703"


def test_the_schema_of_a_public_statement_is_that_of_its_result(database: Database) -> None:
    schema = database.engines().schema_database
    for sql in (
        "SELECT page, page AS page, 1, 2.50 AS d, 1::HUGEINT AS h FROM pages",
        "SELECT [1, 2] AS l, {'a': 1.5} AS s, MAP {'k': 1} AS m, NULL AS n, uuid() AS u",
        "SELECT DATE '2024-01-01' AS d, TIMESTAMPTZ '2024-01-01' AS t, INTERVAL 1 DAY AS i, '1'::JSON AS j",
        "SELECT * FROM pages ORDER BY page LIMIT 0",
        "SELECT 'a'::ENUM('a', 'b') AS e, 'x'::BLOB AS b, '1'::BIT AS bits, TIME '10:00' AS t",
    ):
        assert schema.schema(sql) == schema.run(sql).schema, sql


def test_two_counts_of_different_sessions_run_in_the_engine_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits in the engine until the other is there: one after the other they would never end."""
    both = threading.Barrier(2)
    engine: Any = database.engines().engine
    connection = engine._connection(counts_only=True)
    connection.cursor()  # a cursor is opened for each statement, and closed with it

    def meet(value: int) -> int:
        both.wait(60)
        return value

    true = engine.count

    def count(compiled: Any) -> Any:
        def work(cursor: duckdb.DuckDBPyConnection) -> list[Any]:
            cursor.create_function(f"meet_{threading.get_ident()}", meet, ["BIGINT"], "BIGINT")
            return cursor.execute(f"SELECT meet_{threading.get_ident()}(1)").fetchall()

        assert engine._run(work, "stopped", counts_only=True) == [(1,)]
        return true(compiled)

    monkeypatch.setattr(engine, "count", count)
    sessions = [Session(database, name) for name in ("alice", "bob")]
    threads = [threading.Thread(target=one.run, args=(COUNT,)) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states(database) == {"alice": ["settled"], "bob": ["settled"]}
