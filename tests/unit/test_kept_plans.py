"""Plans that a database keeps: of the same text, values, defaults, analyst and data, and of nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpsql.composition.prepared import PreparedPrivate
from dpsql.database import Database
from dpsql.kernel.loss import Charge
from dpsql.session import Session

POLICY = """
[budget]
epsilon = 1000
default_epsilon = 1
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
domain.page = { from = 0, to = 2 }
"""
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"
ROWS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE) COUNT(*) AS n FROM visits"


def write(folder: Path, units: int) -> None:
    rows = f"SELECT i % {units} AS user_id, i % 3 AS page FROM range({2 * units}) t(i)"
    duckdb.sql(f"COPY ({rows}) TO '{folder}/visits.parquet'")
    os.utime(folder / "visits.parquet", (1e9 + units, 1e9 + units))


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr("dpsql.release.reuse._SETTLED_SECONDS", -60.0)  # the change times are of now
    (tmp_path / "dpsql.toml").write_text(POLICY)
    write(tmp_path, 200)
    with Database(tmp_path / "dpsql.toml") as opened:
        yield opened


def test_a_statement_asked_again_is_not_prepared_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(database)
    first = session.run(COUNT)
    monkeypatch.setattr("dpsql.composition.planner.choose", None)  # nothing can be prepared any more
    again = session.run(COUNT)
    assert again.release is not None
    assert first.release is not None
    assert again.table.equals(first.table)
    assert again.release.number == first.release.number
    with pytest.raises(TypeError):
        session.run(COUNT.replace("AS n", "AS m"))


def test_the_price_of_a_kept_plan_is_asked_of_the_ledger(database: Database) -> None:
    session = Session(database)
    assert session.prepare(COUNT).price.epsilon == 1
    session.run(COUNT)
    assert session.prepare(COUNT).price == Charge()
    assert len(database.plans) == 1


def test_a_bound_is_analysed_once_for_each_that_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(database)
    prepared = session.prepare(ROWS)
    assert isinstance(prepared, PreparedPrivate)
    one, other = prepared.counting.with_bounds((0,)), prepared.counting.with_bounds((3,))
    dearer = prepared.counting.with_options(prepared.plan.options)
    monkeypatch.setattr("dpsql.composition.planned_count.analyse", None)
    kept = session.prepare(ROWS)
    assert isinstance(kept, PreparedPrivate)
    assert kept.counting.with_bounds((0,)) is one
    assert kept.counting.with_bounds((3,)) is other
    assert one.plan.compiled.sql != other.plan.compiled.sql
    with pytest.raises(TypeError):  # what is planned with other options has no bounds of this one
        dearer.with_bounds((0,))


def test_no_more_bounds_are_kept_than_are_found_often(database: Database) -> None:
    prepared = Session(database).prepare(ROWS)
    assert isinstance(prepared, PreparedPrivate)
    for bound in range(20):
        prepared.counting.with_bounds((bound,))
    assert len(prepared.counting._bounded) <= 8


def test_another_default_or_analyst_has_another_plan(database: Database) -> None:
    ann, bob = Session(database, "ann"), Session(database, "bob")
    assert ann.prepare(COUNT).price.epsilon == 1
    ann.run("SET dp_epsilon = 2")
    assert ann.prepare(COUNT).price.epsilon == Fraction(2)
    ann.run("SET dp_epsilon = 1")
    assert ann.prepare(COUNT).price.epsilon == 1
    assert len(database.plans) == 2
    bob.prepare(COUNT)
    assert len(database.plans) == 3


def test_values_of_parameters_belong_to_a_plan(database: Database) -> None:
    session, asked = Session(database), f"{COUNT} WHERE page < $page"
    texts = set()
    for value in (1, 2, 1):
        prepared = session.prepare(asked, {"page": value})
        assert isinstance(prepared, PreparedPrivate)
        texts.add(prepared.plan.compiled.sql)
    assert len(texts) == len(database.plans) == 2


@pytest.mark.parametrize(
    "text", [f"EXPLAIN {COUNT}", "SHOW PRIVACY BUDGET", f"{COUNT} WHERE page < year(today()) - 2024"]
)
def test_what_changes_by_itself_is_not_kept(database: Database, text: str) -> None:
    Session(database).prepare(text)
    assert len(database.plans) == 0


def test_other_data_have_other_plans(database: Database, tmp_path: Path) -> None:
    session = Session(database)
    before = session.prepare(COUNT)
    write(tmp_path, 300)
    after = session.prepare(COUNT)
    assert isinstance(before, PreparedPrivate)
    assert isinstance(after, PreparedPrivate)
    assert before.engines is not after.engines
    assert before.key != after.key
    assert len(database.plans) == 1


def test_a_file_changed_just_now_keeps_no_plan(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.release.reuse._SETTLED_SECONDS", 60.0)
    Session(database).prepare(COUNT)
    assert len(database.plans) == 0


def test_a_closed_database_keeps_no_plan(database: Database) -> None:
    Session(database).prepare(COUNT)
    assert len(database.plans) == 1
    database.close()
    assert len(database.plans) == 0
