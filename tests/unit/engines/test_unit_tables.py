"""Searches of bounds, and sums with the bounds that they find, read what units have from kept tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.analysis import CompiledQuery
from dpsql.composition.planned_count import PlannedCount
from dpsql.engines import Cancelled
from dpsql.engines.duckdb import faster_counts
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.kernel import unit_tables
from dpsql.kernel.sealed import unseal
from dpsql.kernel.tree import bounding
from dpsql.kernel.unit_tables import UnitTable, form_of_tables
from dpsql.kernel.unweighted import UnweightedText
from dpsql.policy import load
from dpsql.release import reuse
from dpsql.session import Session
from tests.narrow import of_type, private
from tests.sql_fixtures import raw_data, write
from tests.support.world import open_world
from tests.unit.analysis.test_sql_fixtures import ACCEPTED, proved
from tests.unit.engines.test_unit_bits import numbers

POLICY = """
[budget]
epsilon = 1e6
default_epsilon = 1
max_failures = 3
ledger = "ledger.sqlite"
[engine]
keep = 0
[tables.t]
source = "t.parquet"
unit = "u"
domain.k = { from = 0, to = 3 }
"""
ROWS = """
SELECT i % 211 - 100 AS u, i % 5 AS k, i * 7919 % 100 - 30 AS b,
    CAST(i * 104729 % 9999 / 100.0 - 20 AS DECIMAL(9, 2)) AS d, i * 31337 % 1000 / 7 - 9 AS x,
    9223372036854775807 - i AS g FROM range(3000) AS r(i)
"""
SELECTED = (
    "SUM(b) AS n FROM t",
    "SUM(d) AS n FROM t",
    "SUM(x) AS n FROM t",
    "SUM(g) AS n FROM t",
    "k, SUM(b) AS n FROM t GROUP BY k",
    "k, SUM(d) AS n FROM t GROUP BY k",
    "k, SUM(x) AS n FROM t GROUP BY k",
    "k, SUM(g) AS n FROM t GROUP BY k",
    "k, SUM(d) AS n, COUNT(DISTINCT u) AS m FROM t GROUP BY k",
)
FIRST = "SELECT " + SELECTED[5]
FRESH = FIRST.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = TRUE)")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of few units that were written just now be counted so, too."""
    monkeypatch.setattr(unit_tables, "FEWEST_UNITS", 0)
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -3600.0)


def write_rows(folder: Path, sql: str = ROWS) -> None:
    duckdb.sql(f"COPY ({sql}) TO '{folder}/t.parquet'")


@contextmanager
def opened(folder: Path) -> Iterator[Session]:
    with open_world(folder, POLICY) as session:
        yield session


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("many")
    write_rows(folder)
    with opened(folder) as session:
        yield session


@pytest.fixture
def session(many: Session) -> Session:
    """A session whose engine knows nothing of its rows yet."""
    known = of_type(many.database.engines().engine, DuckDBEngine)._rows
    known.forget()
    known._failed.clear()
    known._small.clear()
    return many


class Seen:
    """What was fetched of the texts, how many tables were counted, and whether all numbers were there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.complete: list[bool] = []
        self.counted = 0
        count, tables = UnweightedText.count, UnitTable.count

        def fetched(text: UnweightedText, *arguments: Any) -> Any:
            found = count(text, *arguments)
            self.complete.append(found is not None)
            return found

        def made(*arguments: Any) -> Any:
            self.counted += 1
            return tables(*arguments)

        monkeypatch.setattr(UnweightedText, "count", fetched)
        monkeypatch.setattr(UnitTable, "count", made)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def both(engine: DuckDBEngine, compiled: CompiledQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = numbers(engine.count(compiled))
    with monkeypatch.context() as off:
        off.setattr(faster_counts, "KNOWS_ROWS", False)
        assert fast == numbers(engine.count(compiled))


def all_of(counting: PlannedCount) -> list[CompiledQuery]:
    """The searches of a statement, and its counting query with small, middling and large bounds."""
    ladders = counting.plan.ladders
    made = [each.compiled for each in ladders]
    for part in (0, 6, 12, 40) if ladders else ():
        places = tuple(min(part, len(each.ladder.bounds) - 1) for each in ladders)
        made.append(counting.with_bounds(places).plan.compiled)
    return made or [counting.plan.compiled]


def engine_of(counting: PlannedCount) -> DuckDBEngine:
    return of_type(counting.engines.engine, DuckDBEngine)


@pytest.mark.parametrize("selected", SELECTED)
@pytest.mark.sampled(4, rest="longer")
def test_numbers_are_those_of_the_query(
    selected: str, session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    counting = private(session.prepare(f"SELECT {selected}")).counting
    for compiled in all_of(counting):
        both(engine_of(counting), compiled, monkeypatch)
    assert len(seen.complete) > 3
    assert seen.complete.count(True) > 3
    # A DOUBLE has other steps for each bound.
    assert seen.counted <= (7 if "x" in selected else 2)


@pytest.mark.parametrize(
    ("names", "counted"), [("values A250", 2), pytest.param("", 3, marks=pytest.mark.longer)]
)
def test_all_fixtures(
    names: str, counted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        engine = of_type(session.database.engines().engine, DuckDBEngine)
        for fixture in ACCEPTED:
            if not str(fixture.id).startswith(names):
                continue
            plan = proved(session, fixture.values[0].statement)
            for compiled in (plan.compiled, *(each.compiled for each in plan.ladders)):
                if form_of_tables(compiled.query) is not None and not compiled.faster:
                    both(engine, compiled, monkeypatch)
    assert len(seen.complete) >= counted
    assert all(seen.complete)


def test_a_second_statement_counts_no_table(session: Session, seen: Seen) -> None:
    """One table serves the search and the sum, whatever bound is found and however rows are grouped."""
    for _ in range(3):
        session.run(FRESH)
    session.run("SELECT k % 2 AS j, SUM(d) AS n FROM t GROUP BY j HAVING COUNT(DISTINCT u) > 0")
    assert seen.counted == 1
    assert len(seen.complete) >= 6
    assert all(seen.complete)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, SUM(d) AS n FROM t WHERE b > 0 GROUP BY k",
        "SELECT SUM(a.d) AS n FROM t a JOIN t b USING (u)",
        "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k",
    ],
    ids=["some rows", "a join", "units"],
)
def test_other_rows_and_numbers(text: str, session: Session, seen: Seen) -> None:
    session.run(text)
    assert seen.counted == 0


def test_few_units_are_not_tried(session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    counting = private(session.prepare(FIRST)).counting
    engine, search = engine_of(counting), all_of(counting)[0]
    for fewest in (212, 211):
        monkeypatch.setattr(unit_tables, "FEWEST_UNITS", fewest)
        engine.count(search)
    assert not seen.complete
    engine._rows._small.clear()
    engine._rows._failed.clear()
    engine.count(search)
    assert seen.complete == [True]


def test_tables_take_a_part_of_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """The one that was read last stays; a table that is too large is not kept, and the query is counted."""
    write_rows(tmp_path)
    with opened(tmp_path) as session:
        engine = of_type(session.database.engines().engine, DuckDBEngine)
        searches = [all_of(private(session.prepare(f"SELECT {each}")).counting)[0] for each in SELECTED[:2]]
        engine.count(searches[0])
        (one,) = engine._rows._tables.values()
        engine._rows._most = one.size * 2
        for search in (*searches, searches[1]):
            both(engine, search, monkeypatch)
        assert seen.counted == 2
        engine._rows._tables.clear()
        engine._rows._most = one.size - 1
        both(engine, searches[0], monkeypatch)
        assert not engine._rows._tables
    assert seen.complete == [True] * 4


def test_a_sum_that_is_cut_is_counted_as_before(
    session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    monkeypatch.setattr(bounding, "BEYOND", 1000)
    counting = private(session.prepare(FIRST)).counting
    for compiled in all_of(counting)[1:]:
        both(engine_of(counting), compiled, monkeypatch)
    assert not any(seen.complete)


# -- versions and failures


def test_tables_are_those_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    write_rows(tmp_path)
    with opened(tmp_path) as session:
        for sql in (ROWS, ROWS.replace("3000", "4000")):
            write_rows(tmp_path, sql)
            counting = private(session.prepare(FIRST)).counting
            for compiled in all_of(counting):
                both(engine_of(counting), compiled, monkeypatch)
    assert seen.counted == 2
    assert all(seen.complete)


def test_a_text_on_other_rows_than_the_table_has_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path)
    with opened(tmp_path) as session:
        counting = private(session.prepare(FIRST)).counting
        search = counting.plan.ladders[0].compiled
        both(engine_of(counting), search, monkeypatch)
        write_rows(tmp_path, ROWS.replace("3000", "4000"))
        both(engine_of(counting), search, monkeypatch)
    assert seen.complete == [True, False]


def test_a_table_of_rows_that_change_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path)
    count = UnitTable.count

    def replaced(sql: str, ask: Any, *arguments: Any) -> Any:
        def asking(sql: str) -> Any:
            rows = ask(sql)
            write_rows(tmp_path, ROWS.replace("3000", "4000"))
            return rows

        return count(sql, asking, *arguments)

    monkeypatch.setattr(UnitTable, "count", replaced)
    with opened(tmp_path) as session:
        engine = of_type(session.database.engines().engine, DuckDBEngine)
        with pytest.raises(Cancelled, match="the data changed"):
            session.run(FIRST)
        assert not engine._rows._tables


@pytest.mark.parametrize("what", [(UnweightedText, "count"), (UnitTable, "count")])
def test_a_text_that_fails_is_no_failure(
    what: tuple[type, str], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (duckdb.OutOfMemoryException("1"), MemoryError(), ValueError("1")):

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(*what, fails)
        of_type(session.database.engines().engine, DuckDBEngine)._rows._failed.clear()
        charged = session.budget().spent.epsilon
        assert session.run(FRESH).table.num_rows > 0
        assert session.budget().spent.epsilon == charged + 1
        assert session.database.ledger.count_failures(session.analyst) == 0


def test_what_is_kept_shows_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path)
    with opened(tmp_path) as session:
        session.run(FIRST)
        (table,) = of_type(session.database.engines().engine, DuckDBEngine)._rows._tables.values()
    assert repr(table) == "UnitTable(...)"
    assert unseal(table).table.num_rows == 211
