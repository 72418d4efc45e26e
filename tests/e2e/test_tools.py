"""The tools people read answers with, the real ones: pandas, polars, DuckDB, SQLAlchemy, jupysql."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest
import sqlalchemy as sa
from sqlalchemy import exc, types

import dpsql

ASKED = """
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5)
       clinic, COUNT(DISTINCT patient_id) AS n
FROM visits GROUP BY clinic ORDER BY n DESC LIMIT 3
"""
LARGEST = "Coast Road"
"""Ahead of the next clinic by 2,000 patients, where the noise has a scale of about 30."""


@pytest.fixture
def connection(clinic: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(clinic, analyst="alice") as made:
        yield made


@pytest.fixture
def engine(clinic: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"dpsql:///{clinic}?analyst=alice")
    yield made
    made.dispose()


def spent(engine: sa.Engine) -> Fraction:
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, dpsql.Connection)
        return raw.budget().spent.epsilon


# -- the connector


def test_pandas_reads_a_connection(connection: dpsql.Connection) -> None:
    with pytest.warns(UserWarning, match="pandas only supports SQLAlchemy"):
        frame = pd.read_sql(ASKED, connection)
    assert list(frame.columns) == ["clinic", "n"]
    assert frame["n"].dtype == "float64"
    assert frame["clinic"][0] == LARGEST
    with pytest.warns(UserWarning, match="pandas only supports SQLAlchemy"):
        again = pd.read_sql(ASKED.replace("0.5", "?"), connection, params=[0.5])
    assert len(again) == 3


def test_arrow_goes_to_pandas_polars_and_duckdb(connection: dpsql.Connection) -> None:
    cursor = connection.execute(ASKED)
    frame = pl.DataFrame(cursor)
    assert frame.schema == {"clinic": pl.String, "n": pl.Float64}
    assert frame["clinic"][0] == LARGEST
    assert pd.DataFrame.from_arrow(cursor)["n"].tolist() == frame["n"].to_list()
    with duckdb.connect() as database:
        assert database.from_arrow(cursor).max("n").fetchall() == [(frame["n"][0],)]
    # What is free beside the rows is Arrow as well.
    assert cursor.release is not None
    assert {"gap", "n_low", "n_high"} <= set(pl.DataFrame(cursor.release.table).columns)
    assert connection.budget().spent.epsilon == Fraction(1, 2)


# -- SQLAlchemy


def test_pandas_reads_a_url(clinic: Path, engine: sa.Engine) -> None:
    frame = pd.read_sql(ASKED, f"dpsql:///{clinic}?analyst=alice")
    assert frame["clinic"][0] == LARGEST
    assert pd.read_sql(ASKED, engine).equals(frame)
    marked = sa.text(ASKED.replace("0.5", ":epsilon"))
    assert len(pd.read_sql(marked, engine, params={"epsilon": 0.5})) == 3
    assert pd.read_sql("diagnoses", engine).shape == (300, 3)


def test_polars_reads_an_engine(engine: sa.Engine) -> None:
    assert pl.read_database(ASKED, engine)["clinic"][0] == LARGEST


def test_what_tools_send_by_themselves_costs_nothing(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
        assert connection.connection.dbapi_connection is not None
        assert engine.dialect.do_ping(connection.connection.dbapi_connection)
        connection.commit()
        connection.rollback()
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        connection.execution_options(isolation_level="AUTOCOMMIT")
        for probe in ("WHERE 1=0", "where false", "LIMIT 0"):
            found = connection.exec_driver_sql(f'SELECT * FROM "visits" {probe}')
            assert list(found.keys())[:3] == ["visit_id", "patient_id", "visit_date"]
            assert found.all() == []
        assert connection.exec_driver_sql("SELECT * FROM diagnoses LIMIT 0").all() == []
    sa.MetaData().reflect(engine)
    assert spent(engine) == 0


def test_only_a_probe_is_answered_as_one(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        for statement in (
            "SELECT * FROM visits",
            "SELECT * FROM visits LIMIT 1",
            "SELECT * FROM v WHERE 1=0",
        ):
            with pytest.raises(exc.DBAPIError):
                connection.exec_driver_sql(statement)


def test_reflection_shows_what_the_policy_declares(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert inspector.get_schema_names() == ["main"]
    assert (
        inspector.get_table_names()
        == inspector.get_table_names("main")
        == ["patients", "visits", "diagnoses"]
    )
    assert inspector.get_table_names("elsewhere") == inspector.get_view_names() == []
    kinds = {column["name"]: column["type"] for column in inspector.get_columns("visits")}
    assert isinstance(kinds["patient_id"], types.BIGINT)
    assert isinstance(kinds["visit_date"], types.DATE)
    assert isinstance(kinds["note"], types.VARCHAR)
    assert isinstance(kinds["cost"], types.DECIMAL)
    assert (kinds["cost"].precision, kinds["cost"].scale) == (10, 2)
    assert inspector.get_table_comment("visits") == {"text": "private, the privacy unit is patient_id"}
    assert inspector.get_table_comment("Diagnoses") == {"text": "public"}
    assert inspector.has_table("VISITS")
    assert not inspector.has_table("SELECT 'é' FROM \"visits\"")
    assert inspector.get_pk_constraint("visits")["constrained_columns"] == []
    assert inspector.get_foreign_keys("visits") == []
    assert inspector.get_indexes("visits") == []
    assert inspector.get_unique_constraints("visits") == []
    assert inspector.get_check_constraints("visits") == []
    for ask in (inspector.get_columns, inspector.get_pk_constraint, inspector.get_foreign_keys):
        with pytest.raises(exc.NoSuchTableError):
            ask("nurses")


def test_a_statement_in_sqlalchemys_own_language(engine: sa.Engine) -> None:
    visits = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    n = sa.func.count(visits.c.patient_id.distinct()).label("n")
    asked = (
        sa.select(visits.c.clinic, n)
        .prefix_with("WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)")
        .where(visits.c.visit_date >= datetime.date(2024, 1, 1), visits.c.minutes.in_([10, 15, 20]))
        .group_by(visits.c.clinic)
        .order_by(n.desc())
        .limit(3)
    )
    with engine.connect() as connection:
        result = connection.execute(asked)
        release = result.cursor.release
        assert release.charge == dpsql.Charge(Fraction(1, 4))
        assert [row.n for row in result] == release.rows["n"].to_pylist()
    assert spent(engine) == Fraction(1, 4)


def test_refusals_come_as_sqlalchemys_exceptions(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        with pytest.raises(exc.NotSupportedError) as refused:
            connection.exec_driver_sql("SELECT note FROM visits")
        assert isinstance(refused.value.orig, dpsql.QueryRefused)
        with pytest.raises(exc.OperationalError) as exceeded:
            connection.exec_driver_sql(ASKED.replace("0.5", "2.5"))
        assert isinstance(exceeded.value.orig, dpsql.BudgetExceeded)
        assert not exceeded.value.connection_invalidated
    assert spent(engine) == 0


def test_a_closed_connection_is_replaced(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, dpsql.Connection)
        raw.close()
        with pytest.raises(exc.InterfaceError) as gone:
            connection.exec_driver_sql("SELECT 1")
        assert gone.value.connection_invalidated
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("dpsql://clinic.toml", "three slashes"),
        ("dpsql:///clinic.toml?epsilon=100", "takes analyst=NAME, not epsilon"),
        ("dpsql:///clinic.toml?analyst=a&analyst=b", "names one analyst"),
        ("dpsql://:secret@/clinic.toml", "three slashes"),
    ],
)
def test_wrong_urls(url: str, words: str) -> None:
    with pytest.raises((exc.ArgumentError, exc.InterfaceError), match=words), sa.create_engine(url).connect():
        pass


def test_urls_name_policy_and_analyst() -> None:
    def arguments(url: str) -> tuple[list[str], dict[str, str]]:
        made = sa.make_url(url)
        positional, named = made.get_dialect()().create_connect_args(made)
        return list(positional), dict(named)

    assert arguments("dpsql:///dpsql.toml") == (["dpsql.toml"], {})
    assert arguments("dpsql:////abs/x.toml?analyst=ada") == (["/abs/x.toml"], {"analyst": "ada"})
    assert arguments("dpsql://ada@/x.toml") == (["x.toml"], {"analyst": "ada"})
    assert arguments("dpsql://") == (["dpsql.toml"], {})


# -- notebooks

REFUSED = """
from IPython.testing.globalipapp import start_ipython
import dpsql
shell = start_ipython()
shell.user_ns["con"] = dpsql.connect("{policy}", analyst="alice")
shell.run_cell("con.execute('SELECT pge FROM visits')")
shell.run_cell("con.execute('SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6) COUNT(*) FROM visits')")
shell.run_cell("con.budget()")
"""


def test_an_error_in_a_cell_is_its_message_alone(clinic: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REFUSED.format(policy=clinic)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=clinic.parent,
        env={**os.environ, "HOME": str(clinic.parent)},
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert "QueryRefused: " in shown
    assert "BudgetExceeded: " in shown
    assert "^" in shown
    assert "Hint: " in shown
    assert "Traceback" not in shown
    assert ".py" not in shown
    assert len(shown.splitlines()) < 20
    assert "Fraction" not in shown
    assert "<Budget: epsilon " in shown


# -- jupysql

CELLS = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "sql")
shell.run_line_magic("sql", "dpsql:///{policy}?analyst=alice")
answer = shell.run_cell_magic("sql", "", '''{asked}''')
print("FIRST", answer[0][0], len(answer))
print("FRAME", list(answer.DataFrame().columns), list(answer.PolarsDataFrame().columns))
print(shell.run_line_magic("sqlcmd", "tables"))
print(shell.run_line_magic("sqlcmd", "columns --table visits"))
print(shell.run_cell_magic("sql", "", "SHOW PRIVACY BUDGET"))
"""


@pytest.mark.slow  # the notebook and SQLAlchemy are tested every day
def test_a_jupysql_cell(clinic: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CELLS.format(policy=clinic, asked=ASKED)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=clinic.parent,
        # jupysql counts its users over the network unless told not to.
        env={**os.environ, "PLOOMBER_STATS_ENABLED": "false", "HOME": str(clinic.parent)},
    )
    assert done.returncode == 0, done.stderr
    assert f"FIRST {LARGEST} 3" in done.stdout
    assert "FRAME ['clinic', 'n'] ['clinic', 'n']" in done.stdout
    assert re.search(r"\| +diagnoses +\|", done.stdout)
    assert re.search(r"\| +cost +\| +DECIMAL\(10, 2\)", done.stdout)
    assert re.search(r"\| +epsilon +\| +10 +\| +0.5 +\| +9.5 +\|", done.stdout)
