"""Rows that are weighed for few units, or for none, give the numbers of the certified query."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis import CompiledQuery
from dpsql.engines import Cancelled, RunningStatement, running_statement
from dpsql.engines.duckdb import duckdb_engine, faster_counts
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import StatementFailed
from dpsql.kernel import unit_tables, unweighted
from dpsql.kernel.sealed import unseal
from dpsql.kernel.tree import bounding
from dpsql.kernel.unweighted import RowFacts, UnweightedText, rows_in_full
from dpsql.policy import load
from dpsql.release import reuse
from dpsql.session import Session
from tests.narrow import of_type, private
from tests.sql_fixtures import raw_data, write
from tests.support.world import open_world
from tests.unit.analysis.test_sql_fixtures import ACCEPTED, proved
from tests.unit.engines.test_unit_bits import engine_and_query, numbers

POLICY = """
[budget]
epsilon = 1e6
default_epsilon = 1
max_failures = 3
ledger = "ledger.sqlite"
[engine]
keep = 0
[tables.t]
source = "{source}"
unit = "u"
domain.k = {{ from = 0, to = 3 }}
domain.c = ["a", "b"]
bounds.x = {{ from = -4, to = 5 }}
columns = {{ u = "{kind}", k = "BIGINT", c = "VARCHAR", x = "BIGINT" }}
[tables.names]
source = "names.parquet"
public = true
unique = [["k"]]
[tables.others]
source = "names.parquet"
public = true
"""
SELECTED = (
    "SUM(x) AS n FROM t",
    "COUNT(*) AS n FROM t",
    "AVG(x) AS n, VARIANCE(x) AS v, COUNT(x) AS m FROM t",
    "k, SUM(x) AS n FROM t GROUP BY k",
    "k, COUNT(*) AS n, COUNT(*) FILTER (WHERE x > 2) AS m FROM t GROUP BY k",
    "k, c, AVG(x) AS n, SUM(x) AS s FROM t GROUP BY k, c",
    "k, SUM(x) AS n, COUNT(DISTINCT u) AS m, COUNT(DISTINCT u) FILTER (WHERE x > 2) AS o FROM t GROUP BY k",
    "c, SUM(x) AS n FROM t WHERE k < 2 GROUP BY c",
    "k, SUM(x) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2",
    "name, SUM(x) AS n FROM t JOIN names USING (k) GROUP BY name",
    "k, COUNT(*, contribution_bounds_per_group => (0, {})) AS n, COUNT(DISTINCT u) AS m FROM t GROUP BY k",
)
FIRST = SELECTED[3]
BOUNDS = (1, 5, 6, 11, 12, 100)
"""How many rows of a unit count: of those of `units_of_sizes` each is a border."""


def asked(selected: str, most: int) -> str:
    if "{}" in selected:
        return f"SELECT {selected.format(most)}"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = {most}) {selected}"


def units_of_sizes(units: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [unit for unit, size in zip(units, sizes, strict=True) for _ in range(size)]


MANY = units_of_sizes(range(300), [5] * 290 + [6] * 8 + [12] * 2)


def write_rows(path: Path, units: Sequence[object], kind: pa.DataType | None = None) -> None:
    keys, texts, numbers = (0, 1, 2, 3, 9, None), ("a", "b", "z", None), (*range(-9, 9), None)
    columns = {
        "u": pa.array(units, kind or pa.int64()),
        "k": pa.array([keys[i * 7 % 6] for i in range(len(units))], pa.int64()),
        "c": pa.array([texts[i * 5 % 4] for i in range(len(units))], pa.string()),
        "x": pa.array([numbers[i * 3 % 19] for i in range(len(units))], pa.int64()),
    }
    pq.write_table(pa.table(columns), path)
    names = {"k": pa.array([0, 1, 2, 3]), "name": pa.array(["n", "e", "s", "w"])}
    pq.write_table(pa.table(names), path.with_name("names.parquet"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of few rows that were written just now be counted so, too."""
    monkeypatch.setattr(unweighted, "FEWEST", 0)
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -3600.0)


@contextmanager
def opened(folder: Path, source: str = "t.parquet", kind: str = "BIGINT") -> Iterator[Session]:
    with open_world(folder, POLICY.format(source=source, kind=kind)) as session:
        yield session


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("many")
    write_rows(folder / "t.parquet", MANY)
    with opened(folder) as session:
        yield session


@pytest.fixture
def session(many: Session) -> Session:
    """A session on the rows of `MANY`, whose engine knows nothing of them yet."""
    known = of_type(many.database.engines().engine, DuckDBEngine)._rows
    known.forget()
    known._failed.clear()
    known._small.clear()
    return many


class Seen:
    """The texts that were run, the units that they list, and whether their numbers were all there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        self.listed: list[int] = []
        self.complete: list[bool] = []
        count = UnweightedText.count

        def counted(text: UnweightedText, *arguments: Any) -> Any:
            sql, tables, _ = unseal(text)
            self.texts.append(sql)
            self.listed.append(sum(table.num_rows for table in tables.values()))
            found = count(text, *arguments)
            self.complete.append(found is not None)
            return found

        monkeypatch.setattr(UnweightedText, "count", counted)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def both(engine: DuckDBEngine, compiled: CompiledQuery, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Count with what is known of units, and as certified; return whether numbers are not all 0."""
    fast = numbers(engine.count(compiled))
    with monkeypatch.context() as off:
        off.setattr(faster_counts, "KNOWS_ROWS", False)
        assert fast == numbers(engine.count(compiled))
    return any(number not in "(0, None)" for number in fast)


# -- equality

UNITS: dict[str, Sequence[object]] = {
    "plain": MANY,
    "negative": [-150 + unit for unit in MANY],
    "the greatest": [2**63 - 1 - unit for unit in MANY],
    "the least": [-(2**63) + unit for unit in MANY],
    "one": [7] * 12,
    "NULL alone": [None] * 20,
    "with NULL": [None if unit < 3 else unit for unit in MANY],
    "none": [],
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.sampled(5, rest="longer")
def test_numbers_are_those_of_the_query(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    monkeypatch.setattr(unweighted, "PART", 1)
    write_rows(tmp_path / "t.parquet", UNITS[name])
    units = {unit: UNITS[name].count(unit) for unit in {*UNITS[name]} - {None}}
    pairs = [(FIRST, most) for most in BOUNDS]
    pairs += [(each, BOUNDS[(i + len(name)) % len(BOUNDS)]) for i, each in enumerate(SELECTED)]
    with opened(tmp_path) as session:
        for selected, most in pairs:
            both(*engine_and_query(session, asked(selected, most)), monkeypatch)
    assert seen.complete == [True] * len(pairs)
    for (_, most), listed in zip(pairs, seen.listed, strict=True):
        assert listed == sum(rows > most for rows in units.values())


KINDS: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "VARCHAR": (pa.string(), str),
    "INTEGER": (pa.int32(), int),
    "UBIGINT": (pa.uint64(), lambda unit: 2**64 - 1 - unit),
    "UUID": (pa.string(), "00000000-0000-0000-0000-{:012}".format),
    "DATE": (pa.date32(), int),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3, rest="longer")
def test_units_of_any_type(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    arrow, made = KINDS[kind]
    write_rows(tmp_path / "t.parquet", list(map(made, MANY)), arrow)
    with opened(tmp_path, kind=kind) as session:
        for most in (6, 12):
            assert both(*engine_and_query(session, asked(FIRST, most)), monkeypatch)
            assert both(*engine_and_query(session, asked(SELECTED[1], most)), monkeypatch)
    assert seen.complete == [True] * 4
    assert seen.listed == [2, 2, 0, 0]


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.longer)])
def test_all_fixtures(every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setattr(unweighted, "PART", 1)
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        engine = of_type(session.database.engines().engine, DuckDBEngine)
        plans = [proved(session, fixture.values[0].statement) for fixture in ACCEPTED[::every]]
        weighed = [plan for plan in plans if rows_in_full(plan.compiled.query) is not None]
        for plan in weighed:
            both(engine, plan.compiled, monkeypatch)
    assert all(seen.complete)
    assert len(seen.complete) > 15 // every
    assert any(seen.listed)


@pytest.mark.parametrize("source", ["t.csv", "own"])
@pytest.mark.sampled(3, rest="longer")
def test_sources_of_other_kinds(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path / "t.parquet", MANY)
    if source == "t.csv":
        duckdb.sql(f"COPY (FROM '{tmp_path}/t.parquet') TO '{tmp_path}/t.csv'")
    else:
        with duckdb.connect(str(tmp_path / "own.duckdb")) as own:
            own.execute(f"CREATE TABLE own AS FROM '{tmp_path}/t.parquet'")
        monkeypatch.setitem(globals(), "POLICY", POLICY + '[database]\npath = "own.duckdb"\n')
    with opened(tmp_path, source) as session:
        for most in (6, 12):
            assert both(*engine_and_query(session, asked(FIRST, most)), monkeypatch)
    assert seen.complete == [True] * 2
    assert seen.listed == [2, 0]


def test_rows_of_a_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Of a table whose rows find their unit by a key, the rows of that table are counted."""
    monkeypatch.setattr(unweighted, "PART", 1)
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        for most in (1, 2, 10_000):
            engine, compiled = engine_and_query(session, asked("COUNT(*) AS n FROM goods", most))
            assert compiled.certificate.rows_of == "goods"
            both(engine, compiled, monkeypatch)
    assert seen.complete == [True] * 3
    assert seen.listed[0] > seen.listed[1] > seen.listed[2] == 0


# -- what is counted as before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k",
        "SELECT k, SUM(x, contribution_bounds_per_group => (0, 9)) AS n FROM t GROUP BY k",
        asked("k, COUNT(*) AS n FROM t JOIN others USING (k) GROUP BY k", 100),
        asked("a.k, COUNT(*) AS n FROM t a JOIN t b USING (u) GROUP BY a.k", 100),
    ],
    ids=["units", "totals in a group", "a join that may repeat rows", "a join of private tables"],
)
def test_other_numbers_and_rows(text: str, session: Session, seen: Seen) -> None:
    engine, compiled = engine_and_query(session, text)
    engine.count(compiled)
    assert seen.texts == []


def test_many_units_with_many_rows_are_not_listed(session: Session, seen: Seen) -> None:
    for most in (4, 5, 6):
        engine, compiled = engine_and_query(session, asked(FIRST, most))
        engine.count(compiled)
    assert seen.listed == [10, 2]


def test_small_tables_are_not_tried(session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    engine, compiled = engine_and_query(session, asked(FIRST, 12))
    for fewest in (len(MANY) + 1, len(MANY)):
        monkeypatch.setattr(unweighted, "FEWEST", fewest)
        engine.count(compiled)
        engine.count(compiled)
    assert not seen.texts
    engine._rows._small.clear()
    engine._rows._failed.clear()
    engine.count(compiled)
    assert len(seen.texts) == 1


def test_a_sum_that_is_cut_is_counted_as_before(
    session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    for limit in (0, 10**6):
        monkeypatch.setattr(bounding, "FURTHEST", limit)
        engine, compiled = engine_and_query(session, asked(SELECTED[0], 12))
        engine._rows._failed.clear()
        both(engine, compiled, monkeypatch)
    assert seen.complete == [False, True]


def test_rows_are_counted_once_and_units_listed_again_for_less(
    session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    monkeypatch.setattr(unweighted, "PART", 1)
    counted, listed = RowFacts.count, unweighted._rows_of_units
    calls: list[str] = []

    def known(*arguments: Any) -> RowFacts | None:
        calls.append("count")
        return counted(*arguments)

    def rows(*arguments: Any) -> Any:
        calls.append("rows")
        return listed(*arguments)

    monkeypatch.setattr(RowFacts, "count", known)
    monkeypatch.setattr(unweighted, "_rows_of_units", rows)
    for selected, most in ((FIRST, 12), (SELECTED[0], 6), (SELECTED[1], 8), (FIRST, 5), (FIRST, 6)):
        engine, compiled = engine_and_query(session, asked(selected, most))
        engine.count(compiled)
    assert calls == ["count", "rows", "rows", "rows"]
    assert seen.listed == [0, 2, 2, 10, 2]


@pytest.mark.parametrize("selected", [SELECTED[i] for i in (3, 5, 6)])
@pytest.mark.sampled(3, rest="longer")
def test_where_many_would_be_listed_sizes_are_kept_and_shares_are_those_of_the_query(
    selected: str, session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    monkeypatch.setattr(unweighted, "MOST_LISTED", 0)
    monkeypatch.setattr(unit_tables, "FEWEST_UNITS", 0)
    for most in (1, 5, 6):
        assert both(*engine_and_query(session, asked(selected, most)), monkeypatch)
    assert seen.complete == [True] * 3
    assert all("§units0" in text for text in seen.texts)


# -- facts that lie


def test_a_list_that_lacks_a_unit_is_noticed(
    session: Session, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """It has not so many units as were counted."""
    engine, compiled = engine_and_query(session, asked(FIRST, 6))
    engine.count(compiled)
    known = unseal(engine._rows._facts["t"])
    limit, listed = known.listed
    known.listed = limit, listed.slice(1)
    both(engine, compiled, monkeypatch)
    assert seen.listed == [2]


def test_facts_of_other_rows_change_numbers(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing but the version stands between them and an answer: the next tests are about it."""
    engine, compiled = engine_and_query(session, asked(FIRST, 1))
    engine.count(compiled)
    known = unseal(engine._rows._facts["t"])
    known.sizes = known.sizes * 0 + 1
    with pytest.raises(AssertionError):
        both(engine, compiled, monkeypatch)


@pytest.mark.parametrize("when", ["before the facts", "after the facts", "before the text", "after the text"])
@pytest.mark.sampled(3, rest="longer")
def test_a_file_that_is_replaced_ends_the_statement(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of the text is returned, and then the statement ends as it did."""
    path = tmp_path / "t.parquet"
    write_rows(path, MANY)
    count, known = UnweightedText.count, RowFacts.count
    found: list[object] = []

    def replace_file(now: str) -> None:
        if now == when:
            write_rows(path, [unit for unit in MANY for _ in range(3)])

    def counted(text: UnweightedText, fetch: Callable[..., Any], *arguments: Any) -> Any:
        replace_file("before the text")

        def fetched(*of: Any) -> Any:
            rows = fetch(*of)
            replace_file("after the text")
            return rows

        found.append(count(text, fetched, *arguments))
        return found[-1]

    def counting(units: Any, ask: Callable[[str], Any], *arguments: Any) -> Any:
        replace_file("before the facts")

        def asking(sql: str) -> Any:
            rows = ask(sql)
            replace_file("after the facts")
            return rows

        return known(units, asking, *arguments)

    with opened(tmp_path) as session:
        monkeypatch.setattr(UnweightedText, "count", counted)
        monkeypatch.setattr(RowFacts, "count", counting)
        with pytest.raises(Cancelled, match="the data changed"):
            session.run(asked(FIRST, 12))
        assert found == ([None] if when.endswith("the text") else [] if when == "after the facts" else found)
        monkeypatch.undo()
        monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -3600.0)
        assert session.run(asked(FIRST, 12)).table.num_rows > 0


def test_facts_are_those_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    write_rows(tmp_path / "t.parquet", MANY)
    with opened(tmp_path) as session:
        both(*engine_and_query(session, asked(FIRST, 12)), monkeypatch)
        write_rows(tmp_path / "t.parquet", [*MANY, *[7] * 9])
        both(*engine_and_query(session, asked(FIRST, 12)), monkeypatch)
    assert seen.complete == [True, True]
    assert seen.listed == [0, 1]


def test_a_text_on_other_rows_than_the_facts_has_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """An engine that goes on after a file was replaced counts the query itself."""
    write_rows(tmp_path / "t.parquet", MANY)
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, asked(FIRST, 12))
        both(engine, compiled, monkeypatch)
        write_rows(tmp_path / "t.parquet", [unit for unit in MANY for _ in range(3)])
        both(engine, compiled, monkeypatch)
    assert seen.complete == [True, False]


def test_a_database_that_is_opened_again_has_facts_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is open is the old file, whatever is at its place: facts of it are not those of the new one."""

    def write_database(path: Path, units: Sequence[object]) -> None:
        write_rows(tmp_path / "t.parquet", units)
        with duckdb.connect(path) as made:
            made.execute(f"CREATE TABLE t AS FROM '{tmp_path}/t.parquet'")

    write_database(tmp_path / "own.duckdb", MANY)
    write_database(tmp_path / "new.duckdb", [unit for unit in MANY for _ in range(3)])
    policy = POLICY.format(source="t", kind="BIGINT") + '[database]\npath = "own.duckdb"\n'
    (tmp_path / "dpsql.toml").write_text(policy, "utf-8")
    with closing(Session(load(tmp_path / "dpsql.toml"))) as session:
        engine, compiled = engine_and_query(session, asked(FIRST, 12))
        for counts_only in (False, True):
            engine._connection(counts_only=counts_only)
        os.replace(tmp_path / "new.duckdb", tmp_path / "own.duckdb")
        both(engine, compiled, monkeypatch)
        engine._reopen()
        both(engine, compiled, monkeypatch)


def test_a_file_of_now_has_no_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """It may change once more without its times telling it."""
    write_rows(tmp_path / "t.parquet", MANY)
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", 3600.0)
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, asked(FIRST, 12))
        engine.count(compiled)
        assert not engine._rows._facts
        os.utime(tmp_path / "t.parquet", (1, 1))
    assert seen.texts == []


# -- failures

ERRORS = (
    duckdb.OutOfMemoryException("1 .. 39"),
    duckdb.BinderException("1 .. 39"),
    duckdb.FatalException("1 .. 39"),
    MemoryError("1 .. 39"),
    ValueError("1 .. 39"),
)


@pytest.mark.parametrize("what", [(UnweightedText, "count"), (RowFacts, "count"), (UnweightedText, "of")])
@pytest.mark.sampled(3, rest="longer")
def test_a_text_that_fails_is_no_failure(
    what: tuple[type, str], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, compiled = engine_and_query(session, asked(FIRST, 12))
    text = asked(FIRST, 12).replace("OPTIONS (", "OPTIONS (fresh = TRUE, ")
    for error in ERRORS:

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(*what, fails)
        engine._rows._failed.clear()
        both(engine, compiled, monkeypatch)
        assert compiled.sql in engine._rows._failed, error
        engine._rows._failed.clear()
        charged = session.budget().spent.epsilon
        assert session.run(text).table.num_rows > 0
        assert session.budget().spent.epsilon == charged + 1
        assert session.database.ledger.count_failures(session.analyst) == 0


def test_a_text_that_failed_is_not_tried_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def fails(*_: object) -> None:
        tried.append(1)
        raise ValueError

    monkeypatch.setattr(UnweightedText, "count", fails)
    engine, compiled = engine_and_query(session, asked(FIRST, 12))
    engine.count(compiled)
    engine.count(compiled)
    assert len(tried) == 1


def test_only_the_query_fails_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "t.parquet", MANY)
    monkeypatch.setattr(duckdb_engine, "FILLS_DOMAINS", False)
    with opened(tmp_path) as session:
        prepared = session.prepare(asked(FIRST, 12))
        fails = duckdb.OutOfMemoryException("no")
        monkeypatch.setattr(UnweightedText, "count", lambda *_: (_ for _ in ()).throw(fails))
        object.__setattr__(private(prepared).counting.plan.compiled, "sql", "SELECT nothing")
        with pytest.raises(StatementFailed):
            session.execute(prepared)
        assert session.database.ledger.count_failures(session.analyst) == 1


@pytest.mark.parametrize("what", [(UnweightedText, "count"), (RowFacts, "count")])
def test_a_cancellation_ends_the_statement(
    what: tuple[type, str], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunningStatement()

    def cancelled(*_: object) -> None:
        running.cancel()
        raise duckdb.InterruptException("interrupted")

    engine, compiled = engine_and_query(session, asked(FIRST, 12))
    monkeypatch.setattr(*what, cancelled)
    with running_statement(running), pytest.raises(Cancelled):
        engine.count(compiled)
    assert not running.failed


# -- nothing is told


def test_no_text_shows_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Neither handle has anything to show, and other rows have the same explanation."""
    shown = []
    for size in (6, 9):
        write_rows(tmp_path / "t.parquet", units_of_sizes(range(300), [5] * 298 + [size] * 2))
        with opened(tmp_path) as session:
            engine, compiled = engine_and_query(session, asked(FIRST, 8))
            engine.count(compiled)
            answers = (session.run(f"EXPLAIN {f}{asked(FIRST, 8)}") for f in ("", "(FORMAT JSON) "))
            shown.append("".join(str(answer.table.to_pylist()) for answer in answers))
            assert repr(engine._rows._facts["t"]) == "RowFacts(...)"
    assert shown[0] == shown[1]
    assert seen.listed == [0, 2]
