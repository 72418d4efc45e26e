"""`dpsql init`: what a database's keys and NOT NULL say, and paths of several keys to the privacy unit."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pytest

from dpsql.cli import init, main
from dpsql.cli.narrate import ExitCode
from dpsql.policy import Table, UnitColumn, UnitRow, UnitVia, load

Init = Callable[..., str]

SHOP = """
CREATE TABLE patients (patient_id BIGINT, region VARCHAR NOT NULL);
CREATE TABLE encounters (encounter_id BIGINT PRIMARY KEY, patient_id BIGINT NOT NULL, ward VARCHAR NOT NULL,
  code VARCHAR UNIQUE, tag VARCHAR UNIQUE NOT NULL, span MAP(INT, INT) NOT NULL);
CREATE TABLE lab_orders (order_id BIGINT PRIMARY KEY,
  encounter_id BIGINT REFERENCES encounters (encounter_id));
CREATE TABLE results (result_id BIGINT PRIMARY KEY, order_id BIGINT REFERENCES lab_orders (order_id));
CREATE TABLE comments (result_id BIGINT, words VARCHAR);
CREATE TABLE codes (code VARCHAR NOT NULL);
"""
FILES = {
    "patients": "SELECT 1 AS patient_id, 'a' AS region",
    "encounters": "SELECT 1 AS encounter_id, 1 AS patient_id",
    "lab_orders": "SELECT 1 AS order_id, 1 AS encounter_id",
    "results": "SELECT 1 AS result_id, 1 AS order_id",
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Init:
    """The command in a folder with a database and files; it returns what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute(SHOP)
        for name, sql in FILES.items():
            connection.execute(f"COPY ({sql}) TO '{name}.parquet'")

    def go(*args: str, answers: list[str] | None = None, code: int = ExitCode.OK) -> str:
        Path("dpsql.toml").unlink(missing_ok=True)
        terminal, given = io.StringIO(), iter(answers or [])
        if answers is not None:
            terminal.isatty = lambda: True  # type: ignore[method-assign]  # somebody is there to be asked
            monkeypatch.setattr(init, "_ask_on_terminal", lambda question, default="": next(given) or default)
        monkeypatch.setattr(sys, "stdin", terminal)
        found = main(["init", *args])
        said = capfd.readouterr().err
        assert found == code, said
        return said

    return go


def tables() -> Mapping[str, Table]:
    return load("dpsql.toml").tables


def text() -> str:
    return Path("dpsql.toml").read_text()


def test_what_a_database_enforces_is_declared(made: Init) -> None:
    made("shop.duckdb", "--unit", "patient_id", "--public", "codes")
    found = tables()
    # UNIQUE allows two NULLs, which are one value to dpsql.
    assert found["encounters"].unique == (("encounter_id",), ("tag",))
    # The unit's own NULLs are never counted, and what has no type is not declared.
    assert found["encounters"].not_null == ("encounter_id", "ward", "tag")
    assert found["patients"].not_null == ("region",)
    assert found["comments"].not_null == found["codes"].not_null == ()


def test_foreign_keys_lead_over_several_tables(made: Init) -> None:
    said = made("shop.duckdb", "--unit", "patient_id", "--public", "codes")
    found = tables()
    assert found["lab_orders"].unit == UnitVia("encounter_id", "encounters", "encounter_id")
    assert found["results"].unit == UnitVia("order_id", "lab_orders", "order_id")
    # This one has no foreign key: names alone lead to a table that leads on.
    assert found["comments"].unit == UnitVia("result_id", "results", "result_id")
    assert "comments: its result_id names a row of results" in said
    assert "patient_id, found through lab_orders, encounters" in said


def test_names_lead_over_several_tables(made: Init) -> None:
    """In any order of the files; the keys on the way are declared unique."""
    files = [f"{name}.parquet" for name in FILES]
    for listed in (files, files[::-1]):
        made(*listed, "--unit", "patient_id")
        found = tables()
        assert found["encounters"].unit == UnitColumn("patient_id")
        assert found["results"].unit == UnitVia("order_id", "lab_orders", "order_id")
        assert found["lab_orders"].unit == UnitVia("encounter_id", "encounters", "encounter_id")
        assert found["lab_orders"].unique == (("order_id",),)
        assert found["encounters"].unique == (("encounter_id",),)


def test_a_path_is_proposed_to_who_is_asked(made: Init) -> None:
    """Enter for everything: parents are asked about before the tables that lead to them."""
    files = ["results.parquet", "lab_orders.parquet", "encounters.parquet"]
    made(*files, answers=[""] * 8)
    found = tables()
    assert found["results"].unit == UnitVia("order_id", "lab_orders", "order_id")
    assert found["lab_orders"].unit == UnitVia("encounter_id", "encounters", "encounter_id")


def test_a_path_stands_before_single_rows(made: Init) -> None:
    said = made(
        "shop.duckdb",
        "--unit",
        "patient_id",
        "--unit",
        "results=ROW",
        "--public",
        "codes",
        "--public",
        "comments",
    )
    assert isinstance(tables()["results"].unit, UnitRow)
    assert "results: ROW protects single rows, although its order_id names a row of lab_orders" in said
    line = '# unit = { via = "order_id", table = "lab_orders", column = "order_id" }'
    assert text().index(line) < text().index('unit = "ROW"')
    followed = text().replace(line, line[2:]).replace('unit = "ROW"', '# unit = "ROW"')
    Path("dpsql.toml").write_text(followed)
    assert tables()["results"].unit == UnitVia("order_id", "lab_orders", "order_id")


def test_nothing_leads_to_single_rows(made: Init) -> None:
    """A path ends where the owner has said that rows are units."""
    made(
        "shop.duckdb",
        "--unit",
        "patient_id",
        "--unit",
        "results=ROW",
        "--public",
        "codes",
        "--unit",
        "comments=ROW",
    )
    assert (
        "# unit = " not in text().partition("[tables.comments]")[2].partition("[tables.comments.columns]")[0]
    )


def test_the_shortest_path_is_taken(made: Init) -> None:
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute(
            "CREATE TABLE deliveries (order_id BIGINT PRIMARY KEY REFERENCES lab_orders (order_id))"
        )
        connection.execute("CREATE TABLE returns (order_id BIGINT, day DATE)")
    made("shop.duckdb", "--unit", "patient_id", "--public", "codes")
    assert tables()["deliveries"].unit == UnitVia("order_id", "lab_orders", "order_id")
    assert tables()["returns"].unit == UnitVia("order_id", "lab_orders", "order_id")


def test_a_unit_that_looks_like_the_key(made: Init) -> None:
    """Where the name says it: the owner alone knows, so that it is a comment, with what it gains."""
    made("shop.duckdb", "--unit", "patient_id", "--public", "codes")
    line = '# unique = [["patient_id"]]'
    assert text().count(line) == 1
    assert text().index("[tables.patients]") < text().index(line) < text().index("[tables.patients.columns]")
    assert "COUNT(*) then needs no bound, and has less noise" in text()
    Path("dpsql.toml").write_text(text().replace(line, line[2:]))
    assert tables()["patients"].unique == (("patient_id",),)


def test_keys_that_two_tables_share_are_proposed(made: Init) -> None:
    """A table with units of its own, whose rows name those of another one: nobody has said whose they are."""
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute("CREATE TABLE refunds (patient_id BIGINT, encounter_id BIGINT, amount INT)")
    made("shop.duckdb", "--unit", "patient_id", "--public", "codes")
    line = '# same_unit = { encounter_id = "encounters.encounter_id" }'
    assert line in text()
    assert dict(tables()["refunds"].same_unit) == {}
    Path("dpsql.toml").write_text(text().replace(line, line[2:]))
    assert dict(tables()["refunds"].same_unit) == {"encounter_id": ("encounters", "encounter_id")}


def test_who_is_asked_declares_shared_keys(made: Init) -> None:
    duckdb.sql("COPY (SELECT 1 AS patient_id, 1 AS encounter_id, 2 AS amount) TO 'refunds.parquet'")
    files = ["encounters.parquet", "refunds.parquet"]
    for answer, declared in (("yes", True), ("", False)):
        made(*files, "--unit", "patient_id", "--epsilon", "1", answers=["", "", answer, ""])
        assert bool(tables()["refunds"].same_unit) is declared
