"""Private tables of Spark's catalog: only formats in which no row makes the others unreadable."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.stores import SparkStore

from dpsql.errors import PolicyError
from dpsql.session import Session
from tests.narrow import engine_of

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
