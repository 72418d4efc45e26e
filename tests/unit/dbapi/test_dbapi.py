"""PEP 249, point by point, over a small session."""

from __future__ import annotations

import datetime
import decimal
import threading
import time
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpsql
from dpsql import dbapi, errors
from dpsql.dbapi import Connection
from tests.narrow import present

PRIVATE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2) diagnosis, COUNT(DISTINCT patient_id) AS n "
    "FROM visits GROUP BY diagnosis TOP 3"
)


@pytest.fixture
def con(session: Any) -> Connection:
    return Connection(session)


def test_module_constants() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")


def test_exceptions_are_a_tree_and_attributes_of_the_connection(con: Connection) -> None:
    assert issubclass(dbapi.Warning, Exception)
    assert issubclass(dbapi.Error, Exception)
    for name in ("InterfaceError", "DatabaseError"):
        assert issubclass(getattr(dbapi, name), dbapi.Error)
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert issubclass(getattr(dbapi, name), dbapi.DatabaseError)
        assert getattr(con, name) is getattr(dbapi, name) is getattr(errors, name)


def test_constructors() -> None:
    assert dbapi.Date(2002, 12, 25) == datetime.date(2002, 12, 25)
    assert dbapi.Time(13, 45, 30) == datetime.time(13, 45, 30)
    assert dbapi.Timestamp(2002, 12, 25, 13, 45, 30) == datetime.datetime(2002, 12, 25, 13, 45, 30)
    ticks = time.mktime((2002, 12, 25, 13, 45, 30, 0, 0, 0))
    assert dbapi.DateFromTicks(ticks) == datetime.date(2002, 12, 25)
    assert dbapi.TimeFromTicks(ticks) == datetime.time(13, 45, 30)
    assert dbapi.TimestampFromTicks(ticks) == datetime.datetime(2002, 12, 25, 13, 45, 30)
    assert dbapi.Binary(b"Something") == b"Something"


@pytest.mark.parametrize(
    ("sql", "code", "family"),
    [
        ("'a'", "VARCHAR", dbapi.STRING),
        ("'a'::ENUM('a')", "ENUM", dbapi.STRING),
        ("true", "BOOLEAN", dbapi.NUMBER),
        ("1", "INTEGER", dbapi.NUMBER),
        ("sum(1)", "HUGEINT", dbapi.NUMBER),
        ("1::UTINYINT", "UTINYINT", dbapi.NUMBER),
        ("1.5", "DECIMAL", dbapi.NUMBER),
        ("1.5::DOUBLE", "DOUBLE", dbapi.NUMBER),
        ("'\\xAA'::BLOB", "BLOB", dbapi.BINARY),
        ("DATE '2020-01-01'", "DATE", dbapi.DATETIME),
        ("TIME '10:00'", "TIME", dbapi.DATETIME),
        ("TIMESTAMP '2020-01-01'", "TIMESTAMP", dbapi.DATETIME),
        ("TIMESTAMPTZ '2020-01-01 00:00:00+00'", "TIMESTAMP WITH TIME ZONE", dbapi.DATETIME),
        ("INTERVAL 3 DAYS", "INTERVAL", dbapi.DATETIME),
        ("[1]", "LIST", None),
        ("{'a': 1}", "STRUCT", None),
        ("MAP {'a': 1}", "MAP", None),
        ("NULL", "NULL", None),
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_description_names_types(con: Connection, sql: str, code: str, family: object) -> None:
    description = con.execute(f"SELECT {sql} AS x").description
    assert description is not None
    (column,) = description
    assert len(column) == 7
    assert column[:2] == ("x", code)
    families = [dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID]
    assert [f for f in families if f == column[1]] == ([] if family is None else [family])


def test_description_tells_precision_and_scale(con: Connection) -> None:
    description = con.execute("SELECT 1.25::DECIMAL(10, 2) AS x").description
    assert description == (("x", "DECIMAL", None, None, 10, 2, None),)


def test_type_objects_are_not_each_other() -> None:
    families = [dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID]
    assert all((a == b) == (a is b) for a in families for b in families)
    assert repr(dbapi.STRING) == "STRING"


def test_values_are_pythons(con: Connection) -> None:
    row = con.execute(
        "SELECT 1, sum(2)::HUGEINT, 1.5, 2.5::DOUBLE, 'x', NULL, true, DATE '2020-01-02', "
        "TIMESTAMP '2020-01-02 03:04:05', '\\xAA'::BLOB, [1, 2]"
    ).fetchone()
    assert row == (
        1,
        2,
        decimal.Decimal("1.5"),
        2.5,
        "x",
        None,
        True,
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5),
        b"\xaa",
        [1, 2],
    )
    assert isinstance(row[1], int)


def test_a_value_python_cannot_hold_is_its_text(con: Connection) -> None:
    cursor = con.execute("SELECT DATE '20000-01-01' AS d, 'infinity'::TIMESTAMP AS t")
    assert cursor.fetchall() == [("20000-01-01", "infinity")]
    assert cursor.fetch_arrow_table().num_rows == 0


def test_fetch_before_execute_is_an_error(con: Connection) -> None:
    cursor = con.cursor()
    assert (cursor.description, cursor.rowcount, cursor.rownumber, cursor.release) == (None, -1, None, None)
    for fetch in (
        cursor.fetchone,
        cursor.fetchmany,
        cursor.fetchall,
        cursor.fetch_arrow_table,
        cursor.fetch_record_batch,
        cursor.__arrow_c_stream__,
        cursor.__iter__,
    ):
        with pytest.raises(dbapi.InterfaceError, match="nothing to fetch"):
            fetch()


def test_a_statement_without_result_leaves_none(con: Connection) -> None:
    cursor = con.execute("SELECT 1")
    cursor.execute("SET dp_epsilon = 0.5")
    assert cursor.description is None
    assert cursor.rowcount == -1
    with pytest.raises(dbapi.Error):
        cursor.fetchall()


def test_a_failed_statement_leaves_no_earlier_result(con: Connection) -> None:
    cursor = con.execute("SELECT 1")
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELCT 1")
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()


def test_mixed_fetching(con: Connection) -> None:
    cursor = con.execute("SELECT * FROM range(7)")
    assert cursor.rowcount == 7
    assert cursor.fetchone() == (0,)
    assert cursor.fetchmany() == [(1,)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [(2,), (3,)]
    assert next(cursor) == (4,)
    assert cursor.rownumber == 5
    assert cursor.fetchall() == [(5,), (6,)]
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == []
    assert cursor.fetchall() == []
    assert list(cursor) == []
    assert cursor.rowcount == 7


def test_fetchmany_takes_no_negative_size(con: Connection) -> None:
    with pytest.raises(dbapi.InterfaceError):
        con.execute("SELECT 1").fetchmany(-1)
    assert con.execute("SELECT 1").fetchmany(0) == []


def test_iteration_over_more_rows_than_are_converted_at_once(con: Connection) -> None:
    cursor = con.execute("SELECT range, 2 * range FROM range(1000)")
    assert cursor.fetchmany(3) == [(0, 0), (1, 2), (2, 4)]
    assert [row[0] for row in cursor] == list(range(3, 1000))


def test_arrow_fetches_what_is_left(con: Connection) -> None:
    cursor = con.execute("SELECT * FROM range(5)")
    cursor.fetchone()
    assert cursor.fetch_arrow_table().column(0).to_pylist() == [1, 2, 3, 4]
    assert cursor.fetchall() == []
    cursor.execute("SELECT * FROM range(5)")
    reader = cursor.fetch_record_batch(2)
    assert [batch.num_rows for batch in reader] == [2, 2, 1]
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute("SELECT 1").fetch_record_batch(0)


def test_arrow_stream_is_the_whole_result_every_time(con: Connection) -> None:
    cursor = con.execute("SELECT * FROM range(5)")
    cursor.fetchmany(2)
    assert pa.table(cursor).num_rows == pa.table(cursor).num_rows == 5
    assert present(duckdb.sql("SELECT sum(range) FROM cursor")).fetchall() == [(10,)]
    assert cursor.fetchone() == (2,)


def test_one_execute_one_charge_and_fetching_is_free(con: Connection, session: Any) -> None:
    cursor = con.execute(PRIVATE)
    assert con.budget().spent.epsilon == 2
    assert len(cursor.fetchall()) == 3
    cursor.fetch_arrow_table()
    pa.table(cursor)
    assert con.budget().spent.epsilon == 2
    assert len(session.ran) == 1
    assert cursor.release is not None
    assert cursor.release.charge.epsilon == Fraction(2)
    assert cursor.release.table.column_names == ["diagnosis", "n", "gap", "n_stddev", "n_low", "n_high"]
    cursor.execute("SELECT 1")
    assert cursor.release is None


def test_a_notebook_shows_answers(con: Connection) -> None:
    cursor = con.execute(PRIVATE)
    html = cursor._repr_html_()
    assert html is not None
    assert "<svg" in html
    assert "epsilon 2 of 10" in html
    public = str(con.execute("SELECT '<b>' AS a FROM range(201)")._repr_html_())
    assert public.count("&lt;b&gt;") == 200
    assert "1 more rows are not shown" in public
    assert con.execute("SET dp_epsilon = 1")._repr_html_() is None
    cursor.close()
    assert cursor._repr_html_() is None


def test_the_budget_says_no(con: Connection) -> None:
    with pytest.raises(dpsql.BudgetExceeded) as caught:
        con.execute(PRIVATE.replace("2", "11", 1))
    assert caught.value.remaining[0] == 10


def test_parameters(con: Connection) -> None:
    assert con.execute("SELECT ? + ?", [1, 2]).fetchone() == (3,)
    assert con.execute("SELECT $a", {"a": "x"}).fetchone() == ("x",)
    for wrong in ("ab", b"ab", 5, {1, 2}):
        with pytest.raises(dbapi.ProgrammingError, match="sequence"):
            con.execute("SELECT ?", wrong)  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(dbapi.ProgrammingError, match="text"):
        con.execute(b"SELECT 1")  # type: ignore[arg-type]  # what the test is about


def test_executemany_of_a_private_statement_is_refused_before_anything_ran(
    con: Connection, session: Any
) -> None:
    with pytest.raises(dbapi.NotSupportedError, match="once for each"):
        con.cursor().executemany(PRIVATE, [[], []])
    assert session.ran == []


def test_executemany_of_public_statements(con: Connection) -> None:
    cursor = con.cursor()
    cursor.executemany("SELECT ?", [[1], [2]])
    assert cursor.fetchall() == [(2,)]
    cursor.executemany("SELECT ?", [])
    assert cursor.description is None


def test_sizes_are_accepted(con: Connection) -> None:
    cursor = con.cursor()
    cursor.setinputsizes((25,))
    cursor.setoutputsize(1000)
    cursor.setoutputsize(2000, 0)
    assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_transactions_do_nothing(con: Connection) -> None:
    con.execute(PRIVATE)
    con.commit()
    con.rollback()
    assert con.budget().spent.epsilon == 2


def test_closing_the_connection(con: Connection, session: Any) -> None:
    cursor = con.cursor()
    con.close()
    assert session.closed
    uses = (
        con.close,
        con.commit,
        con.rollback,
        con.cursor,
        lambda: con.execute("SELECT 1"),
        lambda: cursor.execute("SELECT 1"),
        lambda: cursor.setinputsizes(()),
        cursor.fetchone,
    )
    for use in uses:
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            use()
    cursor.close()


def test_closing_the_cursor(con: Connection) -> None:
    cursor = con.execute("SELECT 1")
    cursor.close()
    cursor.close()
    for use in (cursor.fetchone, lambda: cursor.execute("SELECT 1"), lambda: cursor.setoutputsize(1)):
        with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
            use()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_context_managers_close(session: Any) -> None:
    with Connection(session) as con, con.execute("SELECT 1") as cursor:
        assert cursor.connection is con
    assert session.closed
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()
    with pytest.raises(dbapi.InterfaceError):
        con.__enter__()


def test_a_context_manager_lets_errors_through_and_bears_an_early_close(fakes: SimpleNamespace) -> None:
    with pytest.raises(ZeroDivisionError), Connection(fakes.Session()):
        1 / 0  # noqa: B018  the error is what is tested
    with Connection(fakes.Session()) as con:
        con.close()


def test_cancel_passes_the_queue(con: Connection, session: Any) -> None:
    running, go = threading.Event(), threading.Event()

    def slow(text: str, parameters: object = None) -> Any:
        running.set()
        assert go.wait(30)
        return session.execute(session.prepare(text, parameters))

    session.run = slow
    thread = threading.Thread(target=con.execute, args=("SELECT 1",))
    thread.start()
    assert running.wait(30)
    con.cancel()
    assert session.cancelled
    go.set()
    thread.join()
