"""Private tables of Spark's catalog: only formats in which no row makes the others unreadable."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.stores import SparkStore

from dpsql.errors import OperationalError, PolicyError
from dpsql.session import Session
from tests.narrow import engine_of, private

pytestmark = pytest.mark.spark

POLICY = """
[budget]
epsilon = 100
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
columns = { user_id = "BIGINT", page = "VARCHAR" }
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits WHERE page = 'a'"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> tuple[SparkStore, Any]:
    store = SparkStore(tmp_path_factory.mktemp("spark"))
    with duckdb.connect() as connection:
        sources = store.put(connection, {"visits": "SELECT 1::BIGINT AS user_id, 'a' AS page"})
    opened = store.session(store.policy(POLICY, sources))
    return store, engine_of(opened).session  # type: ignore[attr-defined]  # SparkEngine


def opened(spark: tuple[SparkStore, Any], ddl: str, *, public: bool = False) -> Session:
    store, owner = spark
    owner.sql("DROP TABLE IF EXISTS default.visits")
    owner.sql(f"CREATE TABLE default.visits {ddl}")
    text = POLICY.replace('unit = "user_id"', "public = true") if public else POLICY
    return store.session(store.policy(text, {"visits": "default.visits"}))


def test_one_line_of_a_text_file_makes_no_statement_fail(
    spark: tuple[SparkStore, Any], tmp_path: Path
) -> None:
    # Spark's reader of CSV fails for the whole table at a line of more than 20,480 fields.
    lines = [f"{i},a" for i in range(20)]
    (tmp_path / "rows.csv").write_text("\n".join(lines), "utf-8")
    where = f"(user_id BIGINT, page STRING) USING csv LOCATION '{tmp_path}'"
    with pytest.raises(PolicyError, match="not stored as Parquet"):
        opened(spark, where)
    opened(spark, where, public=True).close()


@pytest.mark.parametrize("provider", ["json", "text"])
def test_other_files_of_text_are_no_private_sources(
    spark: tuple[SparkStore, Any], tmp_path: Path, provider: str
) -> None:
    columns = "(value STRING)" if provider == "text" else "(user_id BIGINT, page STRING)"
    with pytest.raises(PolicyError, match="not stored as Parquet"):
        opened(spark, f"{columns} USING {provider} LOCATION '{tmp_path}'")


def test_a_query_to_another_database_is_no_table(spark: tuple[SparkStore, Any], tmp_path: Path) -> None:
    # Else that database writes its log into the current folder.
    java = spark[1].sparkContext._jvm.java.lang.System
    java.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    options = (
        "url 'jdbc:derby:memory:visits;create=true', "
        "query \"SELECT 1 AS user_id, 'a' AS page FROM SYSIBM.SYSDUMMY1\""
    )
    with pytest.raises(PolicyError, match="not stored as Parquet"):
        opened(spark, f"USING jdbc OPTIONS ({options})")


@pytest.mark.parametrize("provider", ["parquet", "orc"])
def test_columnar_tables_are_read_whatever_their_columns_are_called(
    spark: tuple[SparkStore, Any], provider: str
) -> None:
    columns = "(user_id BIGINT, page STRING, `Provider` STRING, `# Detailed Table Information` STRING)"
    session = opened(spark, f"{columns} USING {provider}")
    spark[1].sql("INSERT INTO default.visits VALUES (1, 'a', 'csv', 'x')")
    assert session.run(COUNT).release is not None
    session.close()


def test_the_end_of_sparks_process_is_printed_by_nobody(
    spark: tuple[SparkStore, Any], caplog: pytest.LogCaptureFixture
) -> None:
    from py4j import java_gateway  # comes with the extra alone

    # py4j writes this to the root logger, with its traceback, when Spark has run out of memory.
    for path in (java_gateway.__file__, __file__):
        logging.getLogger().handle(logging.LogRecord("root", logging.ERROR, path, 1, path, None, None))
    assert [record.pathname for record in caplog.records] == [__file__]


LARGE = "OPTIONS (epsilon = 20, fresh = TRUE)"


def counted(session: Session) -> int:
    found = session.run(COUNT.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY {LARGE}")).table
    return round(found.column(0)[0].as_py())


def test_rows_that_others_write_are_counted(spark: tuple[SparkStore, Any]) -> None:
    """Each session of Spark keeps its own list of a table's files."""
    session, owner = opened(spark, "(user_id BIGINT, page STRING) USING parquet"), spark[1]
    rows = "default.visits SELECT id, 'a' FROM range({})"
    seen = []
    for sql in (
        f"INSERT INTO {rows.format(1000)}",
        f"INSERT INTO {rows.format('1000, 3000')}",
        f"INSERT OVERWRITE {rows.format(50)}",
    ):
        owner.sql(sql)
        seen.append(counted(session))
    assert [abs(n - wanted) < 10 for n, wanted in zip(seen, (1000, 3000, 50), strict=True)] == [True] * 3
    assert session.ledger.count_failures(session.analyst) == 0
    session.close()


def test_what_changes_after_a_statement_is_planned_is_seen_before_the_charge(
    spark: tuple[SparkStore, Any],
) -> None:
    session, owner = opened(spark, "(user_id BIGINT, page STRING) USING parquet"), spark[1]
    engine, compiled = engine_of(session), private(session.prepare(COUNT)).plan.compiled
    assert engine.is_current(compiled)
    owner.sql("INSERT INTO default.visits VALUES (1, 'a')")
    assert not engine.is_current(compiled)
    engine.translate(compiled)
    assert engine.is_current(compiled)
    session.close()


@pytest.mark.parametrize(
    "ddl",
    [
        "VIEW default.visits AS SELECT id AS user_id, 'a' AS page FROM range(10)",
        "TABLE default.visits (user_id BIGINT, page STRING) USING json",
        "TABLE default.visits (user_id BIGINT, page BIGINT) USING parquet",
        "TABLE default.visits (user_id BIGINT, page STRING) USING parquet",
    ],
)
def test_a_table_that_is_replaced_is_seen_at_the_next_statement(
    spark: tuple[SparkStore, Any], ddl: str
) -> None:
    session, owner = opened(spark, "(user_id BIGINT, page STRING) USING parquet"), spark[1]
    assert session.run(COUNT).release is not None
    spent = session.budget().spent
    owner.sql("DROP TABLE default.visits")
    time.sleep(1.1)  # the catalogue says when a table was made in whole seconds
    owner.sql(f"CREATE {ddl}")
    with pytest.raises(
        OperationalError, match=r"visits(:| is| was) .*(gone|altered|replaced).*; nothing was charged"
    ):
        counted(session)
    assert session.budget().spent == spent
    session.close()
    owner.sql(f"DROP {ddl.split(maxsplit=1)[0]} default.visits")
