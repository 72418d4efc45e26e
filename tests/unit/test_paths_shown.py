"""Where a path of foreign keys is seen: SHOW TABLES, the catalogue, SQLAlchemy, pages; what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from dpsql.errors import PolicyError, QueryRefused
from dpsql.policy import load
from dpsql.serve.catalog.database import relations_of
from dpsql.serve.json_facts import describe_tables
from dpsql.serve.page.owner import policy_facts
from dpsql.serve.statement_service import LocalService
from dpsql.session import Session
from tests import paths
from tests.narrow import engine_of

FOUND = "a patient, found through lab_orders, encounters"
POLICY = f"""{paths.POLICY}
[tables.devices]
source = "devices.parquet"
unit = "ROW"
[tables.codes]
source = "codes.parquet"
public = true
[views.tall]
sql = "SELECT * FROM results WHERE value > 3"
"""
RESULTS = "SELECT (5000 + i % 400)::{} AS order_id, i % 9 AS value FROM range(800) AS r(i)"
DATA = {
    **paths.DATA,
    "results": RESULTS.format("BIGINT"),
    "devices": "SELECT 1 AS x",
    "codes": "SELECT 'a' AS code",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return paths.put(tmp_path, DATA, POLICY).parent


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    made = Session(load(folder / "dpsql.toml"))
    yield made
    made.close()


def test_show_tables_says_whom_and_by_which_tables(session: Session) -> None:
    rows = session.run("SHOW TABLES").table.to_pylist()
    assert [(row["table"], row["unit"], row["protects"]) for row in rows] == [
        ("encounters", "patient_id", "a patient"),
        ("lab_orders", "patient_id", "a patient, found through encounters"),
        ("results", "patient_id", FOUND),
        ("devices", "ROW", "each row alone"),
        ("codes", "public", None),
        ("tall", "view", None),
    ]


def test_the_shown_unit_can_be_counted(session: Session) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5)"
    answer = session.run(f"SELECT {options} COUNT(DISTINCT patient_id) AS n FROM tall").table
    assert answer.column("n")[0].as_py() == pytest.approx(50, abs=8)


def test_the_catalogue_says_it(session: Session) -> None:
    """`\\d+` of psql shows these comments."""
    columns = {table: engine_of(session).schema_database.columns(table) for table in DATA}
    found = {each.name: each.comment for each in relations_of(session.policy, columns, {}, {})}
    assert found["results"] == f"private, protects {FOUND}"
    assert found["encounters"] == "private, the privacy unit is patient_id"


def test_sqlalchemy_says_it(folder: Path) -> None:
    engine = sqlalchemy.create_engine(f"dpsql:///{folder / 'dpsql.toml'}")
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_comment("Results") == {"text": f"private, protects {FOUND}"}
    assert inspector.get_table_comment("encounters") == {"text": "private, the privacy unit is patient_id"}
    assert inspector.get_table_comment("devices") == {"text": "private, the privacy unit is ROW"}
    assert inspector.get_table_comment("tall") == {"text": "view"}
    engine.dispose()


def test_the_pages_say_it(session: Session) -> None:
    described = {each["name"]: each for each in asyncio.run(describe_tables(LocalService(session)))}
    assert described["results"]["protects"] == FOUND
    assert "protects" not in described["encounters"]
    facts = policy_facts(session.policy, engine_of(session).schema_database)
    unit = next(each["unit"] for each in facts["tables"] if each["name"] == "results")
    assert unit.endswith(f"whose order_id is its order_id: protects {FOUND}")


def test_a_column_of_a_path_that_is_not_there_is_refused_at_opening(folder: Path) -> None:
    paths.put(folder, {}, POLICY.replace('via = "order_id"', 'via = "orderid"'))
    with pytest.raises(PolicyError, match=r"tables\.results: there is no column orderid"):
        Session(load(folder / "dpsql.toml"))


def test_a_column_of_a_path_has_values_that_equal_exactly(folder: Path) -> None:
    paths.put(folder, {"results": RESULTS.format("DOUBLE")}, POLICY)
    with pytest.raises(PolicyError, match=r"tables\.results\.unit: a column of type DOUBLE cannot link"):
        Session(load(folder / "dpsql.toml"))


def test_keys_of_two_types_are_refused(folder: Path) -> None:
    """The types of a source without declared columns are known when it is opened."""
    paths.put(folder, {"results": RESULTS.format("VARCHAR")}, POLICY)
    session = Session(load(folder / "dpsql.toml"))
    with pytest.raises(QueryRefused, match="order_id of results and order_id of lab_orders differ in type"):
        session.prepare("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM results")
    session.close()
