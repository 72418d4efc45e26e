"""Exact counts that are kept in memory: which statements they answer, and when they are gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.analysis import CompiledQuery
from dpsql.database import Database
from dpsql.engines import Cancelled, RunningStatement, running_statement
from dpsql.engines.process_storage import KeptCounts
from dpsql.errors import OperationalError, PolicyError, StatementFailed
from dpsql.kernel.counts import Counts
from dpsql.kernel.kept import wipe
from dpsql.kernel.sealed import unseal
from dpsql.policy import BudgetPolicy, DatabaseSource, Policy, Table, load
from dpsql.policy.toml_values import read_keep
from dpsql.release import reuse
from dpsql.release.reuse import Versions
from dpsql.session import Session
from tests.narrow import engine_of, present, private
from tests.support.exact import exact_of
from tests.unit.test_one_path import in_a_child

POLICY = """
[budget]
epsilon = 1e6
delta = 0.1
default_epsilon = 50
default_delta = 1e-9
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
domain.page = { from = 0, to = 9, complete = true }
bounds.ms = { from = 0, to = 100 }
[tables.seen]
source = "visits.parquet"
unit = "user_id"
"""
N = "COUNT(DISTINCT user_id) AS n"
TOP = f"SELECT page, {N} FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
COUNTED = "epsilon = 49"


def fresh(statement: str, *options: str) -> str:
    """Write a statement that the ledger never answers."""
    listed = ", ".join(("fresh = TRUE", *options))
    return statement.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({listed})", 1)


def keeping(size: object) -> str:
    """Return the policy with the memory of kept counts."""
    return POLICY.replace("[budget]", f"[engine]\nkeep = {size}\n[budget]")


def write_visits(folder: Path, units: int = 300) -> None:
    """Put another file in the place of the old one: unit u sees the pages 0 to u % 10."""
    rows = (
        f"SELECT u AS user_id, p AS page, p AS place, u % 100 AS ms FROM range({units}) a(u), range(10) b(p)"
    )
    duckdb.sql(f"COPY ({rows} WHERE p <= u % 10) TO '{folder}/new.parquet'")
    os.replace(folder / "new.parquet", folder / "visits.parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -60.0)  # the files are of now
    write_visits(tmp_path)
    (tmp_path / "dpsql.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def database(folder: Path) -> Iterator[Database]:
    with Database(folder / "dpsql.toml") as made:
        yield made


Scans = list[CompiledQuery]


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    """The queries that DuckDB has counted."""
    from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine

    found: Scans = []
    true = DuckDBEngine.count

    def count(engine: DuckDBEngine, compiled: CompiledQuery) -> Counts:
        found.append(compiled)
        return true(engine, compiled)

    monkeypatch.setattr(DuckDBEngine, "count", count)
    return found


def kept(database: Database) -> KeptCounts:
    return database.engines().kept


# --- which statements they answer --------------------------------------------------------------------------

SAME = [
    fresh(TOP),
    fresh(TOP, "epsilon = 1"),
    fresh(TOP).replace("LIMIT 3", "LIMIT 5"),
    fresh(TOP).replace("n DESC", "n"),
    fresh(f"SELECT page FROM visits GROUP BY page ORDER BY {N[:-5]} DESC LIMIT 1"),
    fresh(f"SELECT page, {N} FROM visits GROUP BY page HAVING n >= 100 LIMIT 2"),
    fresh(f"SELECT page, {N} FROM visits GROUP BY page HAVING n >= 10 ORDER BY page LIMIT 2"),
    fresh("SELECT page AS p, COUNT(DISTINCT user_id) AS m FROM visits GROUP BY p HAVING m >= 10"),
]


@pytest.mark.parametrize("first", [0, pytest.param(5, marks=pytest.mark.slow)])
def test_statements_over_the_same_groups_are_counted_once(
    database: Database, scans: Scans, first: int
) -> None:
    analysts = [Session(database, name) for name in ("alice", "bob")]
    analysts[0].run(SAME[first])
    for i, statement in enumerate(SAME):
        analysts[i % 2].run(statement)
    assert len(scans) == 1
    assert len(kept(database)) == 1


def test_of_undeclared_keys_more_or_fewer_groups_are_taken(database: Database, scans: Scans) -> None:
    session = Session(database)
    for k in (3, 5, 1):
        text = f"SELECT place, {N} FROM seen GROUP BY place ORDER BY n DESC LIMIT {k}"
        table = session.run(fresh(text)).table
        assert table.column("place").to_pylist() == list(range(k))
    assert len(scans) == 1


def test_the_answers_are_those_of_the_data(database: Database, folder: Path) -> None:
    session = Session(database)
    for _ in range(2):
        found = session.run(fresh(TOP, COUNTED)).table.column("n").to_pylist()
        assert all(abs(n - true) < 20 for n, true in zip(found, (300, 270, 240), strict=True))  # e^-20


def test_other_rows_groups_and_numbers_are_counted(database: Database, scans: Scans) -> None:
    session = Session(database)
    for old, new in (
        ("page", "page"),
        ("FROM visits", "FROM visits WHERE ms < 50"),
        ("page", "place"),
        (N, "COUNT(*, contribution_bounds_per_group => (0, 2)) AS n"),
        ("FROM visits", "FROM visits WHERE page IN (1, 2, 3, 4)"),
    ):
        before = len(scans)
        session.run(fresh(TOP.replace(old, new)))
        assert len(scans) == before + 1
        session.run(fresh(TOP.replace(old, new), "epsilon = 1"))
        assert len(scans) == before + 1


def test_each_statement_is_charged(database: Database) -> None:
    session = Session(database)
    for i in range(1, 3):
        session.run(fresh(TOP))
        assert session.budget().spent.epsilon == 50 * i


def test_explain_does_not_tell(database: Database) -> None:
    session = Session(database)
    before = session.run(f"EXPLAIN {TOP}").table
    session.run(fresh(TOP))
    assert session.run(f"EXPLAIN {TOP}").table.slice(0, 3) == before.slice(0, 3)
    assert private(session.prepare(TOP)).counting.sql == private(session.prepare(fresh(TOP))).counting.sql


# --- settings ----------------------------------------------------------------------------------------------


def test_nothing_is_kept_with_keep_0(folder: Path, scans: Scans) -> None:
    (folder / "dpsql.toml").write_text(keeping(0))
    with Database(folder / "dpsql.toml") as database:
        session = Session(database)
        session.run(fresh(TOP)), session.run(fresh(TOP))
        assert len(scans) == 2
        assert [scan.sql for scan in scans] == [private(session.prepare(TOP)).counting.sql] * 2
        assert kept(database).size == len(kept(database)) == 0


def test_the_setting_changes_no_answer(folder: Path) -> None:
    fingerprints = set()
    for keep in ('"256 MB"', "0", '"1 GiB"', "77", '"5 KB"'):
        (folder / "dpsql.toml").write_text(keeping(keep))
        policy = load(folder / "dpsql.toml")
        fingerprints.add(policy.fingerprint(policy.tables.values()))
        assert policy.keep == read_keep(keep.strip('"') if '"' in keep else int(keep))
    assert len(fingerprints) == 1


@pytest.mark.parametrize("text", ["-1", "true", "1.5", '"x"', '"256 XB"', '"-1 MB"', '""', "[1]"])
def test_a_size_that_is_none_is_refused(folder: Path, text: str) -> None:
    (folder / "dpsql.toml").write_text(keeping(text))
    with pytest.raises(PolicyError, match=r"engine\.keep") as caught:
        load(folder / "dpsql.toml")
    assert "keep = 0" in present(caught.value.hint)


def test_what_was_used_last_stays_within_the_memory(folder: Path, scans: Scans) -> None:
    statements = [fresh(TOP.replace("FROM visits", f"FROM visits WHERE ms < {i}")) for i in range(20, 25)]
    (folder / "dpsql.toml").write_text(keeping(1500))
    with Database(folder / "dpsql.toml") as database:
        session = Session(database)
        session.run(statements[0])
        room = 1500 // kept(database).size
        assert 2 <= room < len(statements)
        for i, statement in enumerate(statements):
            session.run(statement)
            session.run(statements[0])  # used each time, so it stays
            assert 0 < kept(database).size <= 1500
            assert len(kept(database)) == min(room, i + 1)
        assert len(scans) == len(statements)
        session.run(statements[1])
        assert len(scans) == len(statements) + 1
        before = len(kept(database))
        session.run(fresh(f"SELECT ms, {N} FROM visits WHERE ms BETWEEN 0 AND 99 GROUP BY ms HAVING n >= 1"))
        assert len(kept(database)) == before  # larger than all: it is not kept, and nothing makes room for it


# --- versions of the data ----------------------------------------------------------------------------------


def test_counts_of_replaced_files_are_gone(database: Database, folder: Path, scans: Scans) -> None:
    session = Session(database)
    session.run(fresh(TOP))
    old = kept(database)
    assert len(old) == 1
    write_visits(folder, units=100)
    assert session.run(fresh(TOP, COUNTED)).table.column("n")[0].as_py() < 150  # e^-50
    assert len(scans) == 2
    assert (len(old), old.size) == (0, 0)
    assert kept(database) is not old


@pytest.mark.parametrize("change", ["during", "before"])
def test_counts_are_kept_only_of_files_whose_change_would_show(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    with Database(folder / "dpsql.toml") as database:
        session, engine = Session(database), database.engines()
        if change == "before":
            monkeypatch.setattr(reuse, "_SETTLED_SECONDS", 3600.0)
            session.run(fresh(TOP))
        else:
            true = engine.engine.count

            def count(compiled: CompiledQuery) -> Counts:
                found = true(compiled)
                write_visits(folder, units=50)
                return found

            monkeypatch.setattr(engine.engine, "count", count)
            with pytest.raises(OperationalError, match="the data changed while it was counted"):
                session.run(fresh(TOP))
        assert len(engine.kept) == 0


def test_a_remote_table_is_kept_for_a_declared_version_alone(folder: Path) -> None:
    def tells(**more: str) -> bool:
        table = Table(
            "visits", DatabaseSource("main", "visits"), unit=load(folder / "dpsql.toml").tables["visits"].unit
        )
        budget = BudgetPolicy(epsilon=1, ledger=folder / "l.sqlite")  # type: ignore[arg-type]  # a number
        policy = Policy(budget, {"visits": table}, engine="postgresql://a@b/c", **more)  # type: ignore[arg-type]
        return Versions(policy).tell([table])

    assert not tells()
    assert tells(data_version="2026-11")
    local = load(folder / "dpsql.toml")
    assert Versions(local).tell(local.tables.values())


# --- what is not kept --------------------------------------------------------------------------------------


def test_a_count_that_failed_or_was_cancelled_is_not_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, engine = Session(database), engine_of(Session(database))
    true = engine.count

    def failing(compiled: CompiledQuery) -> Counts:
        true(compiled)
        raise OperationalError("the engine could not finish the statement; its charge is kept")

    def cancelling(compiled: CompiledQuery) -> Counts:
        found = true(compiled)
        session.cancel()
        return found

    monkeypatch.setattr(engine, "count", failing)
    with pytest.raises(StatementFailed):
        session.run(fresh(TOP))
    monkeypatch.setattr(engine, "count", cancelling)
    session.run(fresh(TOP))  # it was over before it was cancelled
    assert len(kept(database)) == 0


@pytest.mark.parametrize("end", ["cancelled", "timed out"])
def test_a_statement_that_is_over_gets_no_kept_counts(database: Database, end: str) -> None:
    session = Session(database)
    session.run(fresh(TOP))
    compiled = private(session.prepare(TOP)).plan.compiled
    statement = RunningStatement()
    if end == "cancelled":
        statement.cancel()
    else:
        statement.end_within(0)
    with (
        running_statement(statement),
        pytest.raises(Cancelled if end == "cancelled" else OperationalError) as caught,
    ):
        kept(database).find(compiled)
    assert statement.failed == (end == "timed out")
    assert "its charge is kept" in str(caught.value)


# --- memory ------------------------------------------------------------------------------------------------


def memory_of(found: KeptCounts) -> list[bytearray]:
    return [memory for entry in found._entries.values() for memory in unseal(entry.copy).parts()]


def test_closing_overwrites_what_nothing_reads(folder: Path) -> None:
    database = Database(folder / "dpsql.toml")
    session = Session(database)
    session.run(fresh(TOP))
    session.run(fresh(TOP.replace("FROM visits", "FROM visits WHERE ms < 50")))
    compiled = private(session.prepare(TOP)).plan.compiled
    found = exact_of(present(kept(database).find(compiled)))
    before = found.n[0].copy()
    memory = memory_of(kept(database))
    assert [any(m) for m in memory] == [True] * 6  # keys, counts and places; what was found last is the last
    session.close()
    database.close()
    assert [any(m) for m in memory] == [False] * 3 + [True, True, False]  # what is still read stays
    assert (found.n[0] == before).all()
    assert (found.keys.column("k0").to_pylist(), len(found.n)) == ([*range(10)], 1)


def test_memory_is_overwritten_in_place() -> None:
    memory = bytearray(range(1, 200))
    array = np.frombuffer(memory, np.uint8)
    address = array.ctypes.data
    assert not wipe(memory)
    assert array[5] == 6
    del array
    assert wipe(memory)
    assert np.frombuffer(memory, np.uint8).ctypes.data == address
    assert not any(memory)
    assert wipe(bytearray())


def test_a_statement_cannot_change_what_others_get(database: Database) -> None:
    session = Session(database)
    session.run(fresh(TOP))
    found = exact_of(present(kept(database).find(private(session.prepare(TOP)).plan.compiled)))
    for array in (*found.n, *found.places.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_a_forked_child_gets_nothing_and_takes_nothing(database: Database, scans: Scans) -> None:
    session = Session(database)
    session.run(fresh(TOP))
    engines, compiled = database.engines(), private(session.prepare(TOP)).plan.compiled
    counts = present(engines.kept.find(compiled))
    reads = [session.policy.tables["visits"]]
    acts: list[Callable[[], object]] = [
        lambda: engines.count(compiled, reads),
        lambda: engines.kept.find(compiled),
        lambda: engines.kept.keep(compiled, counts),
        lambda: session.run(fresh(TOP)),
    ]
    with engines.kept._lock:  # as if another thread held it at the fork
        assert [in_a_child(act) for act in acts] == ["InterfaceError"] * 4
        assert in_a_child(engines.kept.close) == "nothing"
    session.run(fresh(TOP))
    assert len(scans) == 1


# --- policies, sessions, threads ---------------------------------------------------------------------------


def test_no_counts_are_shared_between_policies(folder: Path, scans: Scans) -> None:
    (folder / "other.toml").write_text(POLICY.replace("ledger.sqlite", "other.sqlite"))
    with Database(folder / "dpsql.toml") as one, Database(folder / "other.toml") as other:
        Session(one).run(fresh(TOP))
        Session(other).run(fresh(TOP))
        assert len(scans) == 2
        assert kept(one) is not kept(other)


def test_sessions_and_threads_share_them(database: Database) -> None:
    sessions = [Session(database, f"analyst {i}") for i in range(4)]
    statements = [
        fresh(TOP, COUNTED),
        fresh(TOP.replace("FROM visits", "FROM visits WHERE ms < 50"), COUNTED),
    ]

    def ask(i: int) -> int:
        return int(sessions[i % 4].run(statements[i // 4 % 2]).table.column("n")[0].as_py())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(12)))
    assert all(abs(n - (300, 150)[i // 4 % 2]) < 30 for i, n in enumerate(found))  # e^-30
    assert len(kept(database)) == 2
    assert database.ledger.budget().spent.epsilon == 12 * 49
