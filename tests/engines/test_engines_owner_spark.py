"""The owner of Parquet files on Spark: `dpsql init`, `dpsql check`, and errors that name what to mend."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from support.stores import SparkStore

from dpsql.cli import main
from dpsql.engines.spark import SparkGuard
from dpsql.engines.spark.spark_tables import find_table
from dpsql.errors import OperationalError, PolicyError
from dpsql.owner import verify
from dpsql.policy import DatabaseSource, ParquetSource, Table, UnitColumn, ViewSource, load
from tests.narrow import engine_of

pytestmark = pytest.mark.spark

ROWS = "SELECT i AS customer_id, CASE WHEN i < 60 THEN 'calm' ELSE 'glad' END AS mood FROM range(100) AS r(i)"
POLICY = """
[database]
engine = "spark"
[budget]
epsilon = 1
default_epsilon = 0.1
ledger = "ledger.sqlite"
[tables.customers]
source = "customers.parquet"
unit = "customer_id"
columns = { customer_id = "BIGINT", mood = "VARCHAR" }
"""


def write(tmp_path: Path, sql: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({sql}) TO '{tmp_path}/customers.parquet'")


def test_init_and_check_of_files_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, ROWS)
    assert main(["init", "spark", "customers.parquet", "--unit", "customer_id"]) == 0
    file = tmp_path / "dpsql.toml"
    text = file.read_text("utf-8").replace('# mood = ["...", "..."]', 'mood = ["calm"]')
    text = text.replace(
        'unit = "customer_id"', 'unique = [["mood"]]\nnot_null = ["mood"]\nunit = "customer_id"'
    )
    file.write_text(text, "utf-8")
    found = load(file)
    assert found.engine == "spark"
    report = verify(found)
    wrong = {f.place: f.text for f in report.findings if f.level == "wrong"}
    assert wrong == {"tables.customers.unique[0]": "2 values of mood stand in more than one row (100 rows)"}
    notes = {f.place: f.text for f in report.findings if f.level == "note"}
    assert notes["tables.customers.domain.mood"].startswith("40 rows outside of the domain (40.00%)")
    assert notes["tables.customers.unit"].startswith("customer_id names each of 100 rows once")
    file.write_text(text.replace('mood = "VARCHAR"', 'mood = "VARCHAR"\nnone = "DATE"'), "utf-8")
    (problem,) = [f for f in verify(load(file)).findings if f.level == "wrong"]
    assert problem.place == "tables.customers.columns.none"


def test_an_altered_column_is_named(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    (tmp_path / "dpsql.toml").write_text(POLICY, "utf-8")
    with closing(SparkStore(tmp_path).session(load(tmp_path / "dpsql.toml"))) as session:
        spark = engine_of(session).session  # type: ignore[attr-defined]  # SparkEngine
        source = ParquetSource(tmp_path / "customers.parquet")
        declared = Table(name="customers", source=source, unit=UnitColumn("customer_id"))
        find_table(spark, declared, "altered")
        guard = SparkGuard.of(spark, declared, "altered", ["customer_id", "mood"])
        write(tmp_path, ROWS.replace("i AS customer_id", "CAST(i AS VARCHAR) AS customer_id"))
        with pytest.raises(OperationalError, match="table customers: its column customer_id was altered"):
            guard.check(spark)


@pytest.mark.parametrize("damage", ["no head", "no end", "no pages"])
def test_a_damaged_file_is_called_so(tmp_path: Path, damage: str) -> None:
    write(tmp_path, ROWS)
    file, policy = tmp_path / "customers.parquet", tmp_path / "dpsql.toml"
    data = file.read_bytes()
    policy.write_text(POLICY, "utf-8")
    file.write_bytes(
        {
            "no head": b"no Parquet at all",
            "no end": data[:-20],
            "no pages": data[:4] + bytes(len(data) // 2 - 4) + data[len(data) // 2 :],
        }[damage]
    )
    if damage == "no pages":  # the schema is there
        with closing(SparkStore(tmp_path).session(load(policy))) as session:
            with pytest.raises(OperationalError, match="cannot be read as declared"):
                session.run("SELECT COUNT(DISTINCT customer_id) AS n FROM customers WHERE mood = 'calm'")
            assert session.budget().spent.epsilon == 0
    else:
        with pytest.raises(PolicyError, match="cannot be read by Spark") as caught:
            SparkStore(tmp_path).session(load(policy))
        assert "damaged" in str(caught.value.hint)
    (problem,) = [f for f in verify(load(policy)).findings if f.level == "wrong"]
    assert "Spark" in problem.text or "parquet" in problem.text.lower()


def test_a_view_needs_the_owners_word(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    (tmp_path / "dpsql.toml").write_text(POLICY, "utf-8")
    with closing(SparkStore(tmp_path).session(load(tmp_path / "dpsql.toml"))) as session:
        spark = engine_of(session).session  # type: ignore[attr-defined]  # SparkEngine
        spark.sql("CREATE OR REPLACE VIEW default.seen AS SELECT 1L AS customer_id")
        try:
            declared = Table(
                name="seen", source=DatabaseSource("default", "seen"), unit=UnitColumn("customer_id")
            )
            with pytest.raises(PolicyError, match="is a view") as caught:
                find_table(spark, declared, "")
            assert "stable = true" in str(caught.value.hint)
            stable = Table(name="seen", source=ViewSource("default", "seen"), unit=UnitColumn("customer_id"))
            assert find_table(spark, stable, "")[0] == "`default`.`seen`"
        finally:
            spark.sql("DROP VIEW default.seen")


def test_the_command_line_lets_spark_import_pandas() -> None:
    # pyspark refuses to connect without pandas, which the command line hides for a quicker start.
    code = (
        "import sys; from dpsql.cli.__main__ import _WithoutPandas\n"
        "sys.meta_path.insert(0, _WithoutPandas())\n"
        "from dpsql.engines.spark.spark_connection import open_session\n"
        "try: open_session('sc://127.0.0.1:1/#')\n"
        "except Exception: pass\n"
        "import pandas"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
