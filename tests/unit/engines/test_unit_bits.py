"""Units that are counted by bits are those of the certified query, whatever is known of their range."""

from __future__ import annotations

import itertools
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
from dpsql.engines.duckdb import duckdb_engine, unit_bits
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.unit_bits import UnitBits
from dpsql.errors import Error, OperationalError, StatementFailed
from dpsql.kernel import faster
from dpsql.kernel.counts import Counts
from dpsql.kernel.faster import FasterText, Room, UnitFacts, bits_form, by_bits, units_counted
from dpsql.kernel.sealed import unseal
from dpsql.kernel.tree import duckdb_sql
from dpsql.policy import load
from dpsql.session import Session
from dpsql.types import BIGINT
from tests.narrow import of_type, private
from tests.sql_fixtures import raw_data, write
from tests.support.exact import exact_of
from tests.support.world import open_world
from tests.unit.analysis.test_sql_fixtures import ACCEPTED, proved

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
columns = {{ u = "{kind}", k = "BIGINT", c = "VARCHAR", x = "BIGINT" }}
"""
STATEMENTS = (
    "SELECT COUNT(DISTINCT u) AS n FROM t",
    "SELECT COUNT(DISTINCT u) AS n, COUNT(DISTINCT u) FILTER (WHERE x > 3 OR c = 'b') AS m FROM t",
    "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k",
    "SELECT k, c, COUNT(DISTINCT u) AS n, COUNT(DISTINCT u) FILTER (WHERE x IS NULL) AS m "
    "FROM t GROUP BY k, c",
    "SELECT c, COUNT(DISTINCT u) AS n FROM t WHERE x < 5 GROUP BY c",
    "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2",
    "SELECT k, COUNT(DISTINCT CASE WHEN x > 2 THEN u END) AS n FROM t GROUP BY k",
    "SELECT k, COUNT(DISTINCT u) AS n FROM (SELECT u, k FROM t WHERE x IN (SELECT 5)) GROUP BY k",
)
BY_BITS = len(STATEMENTS)
FIRST = STATEMENTS[2]
Row = tuple[int | None, int | None, str | None, int | None]


def rows_of(units: Sequence[int | None]) -> list[Row]:
    """Spread units over groups, inside and outside of their domains, and NULL."""
    keys, texts, numbers = (0, 1, 2, 3, 9, None), ("a", "b", "z", None), (*range(7), None)
    return [
        (u, keys[i * 7 % 6], texts[i * 5 % 4], numbers[i * 3 % 8]) for i, u in enumerate([*units, *units] * 3)
    ]


def write_rows(path: Path, rows: Sequence[Row], kind: pa.DataType | None = None) -> None:
    units, keys, texts, numbers = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {"u": pa.array(units, kind or pa.int64()), "k": pa.array(keys, pa.int64())}
    columns |= {"c": pa.array(texts, pa.string()), "x": pa.array(numbers, pa.int64())}
    pq.write_table(pa.table(columns), path)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of few rows be counted by bits, too."""
    monkeypatch.setattr(faster, "FEWEST", 0)
    monkeypatch.setattr(faster, "SPARSEST", 10**12)


@contextmanager
def opened(folder: Path, source: str = "t.parquet", kind: str = "BIGINT") -> Iterator[Session]:
    with open_world(folder, POLICY.format(source=source, kind=kind)) as session:
        yield session


def engine_and_query(session: Session, text: str) -> tuple[DuckDBEngine, CompiledQuery]:
    counting = private(session.prepare(text)).counting
    return of_type(counting.engines.engine, DuckDBEngine), counting.plan.compiled


def numbers(counts: Counts) -> list[str]:
    found = exact_of(counts)
    columns = [column.to_pylist() for column in found.keys.columns]
    every = [n.tolist() for n in (*found.n, *found.places.values())]
    return sorted(map(repr, zip(*columns, *every, strict=True)))


def explained(session: Session) -> str:
    answers = (session.run(f"EXPLAIN {form}{FIRST}") for form in ("", "(FORMAT JSON) "))
    return "".join(str(answer.table.to_pylist()) for answer in answers)


class Seen:
    """What was fetched of the texts, and whether all of it was there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        self.complete: list[bool] = []
        count = FasterText.count

        def counted(text: FasterText, fetch: Callable[[str], Any], size: int) -> Any:
            self.texts.append(unseal(text))
            found = count(text, fetch, size)
            self.complete.append(found is not None)
            return found

        monkeypatch.setattr(FasterText, "count", counted)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


def both(engine: DuckDBEngine, compiled: CompiledQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count by bits and as certified."""
    fast = numbers(engine.count(compiled))
    with monkeypatch.context() as off:
        off.setattr(unit_bits, "COUNTS_BITS", False)
        assert fast == numbers(engine.count(compiled))


# -- equality

UNITS: dict[str, Sequence[int | None]] = {
    "plain": range(40),
    "negative": range(-25, 9),
    "the greatest": [2**63 - 1, 2**63 - 2, 2**63 - 9],
    "the least": [-(2**63), -(2**63) + 1, -(2**63) + 70],
    "far apart": [-(2**63), 0, 2**63 - 1],
    "wider than bits": [0, 10**9],
    "as wide as bits": [5, 10**6],
    "one": [7],
    "NULL alone": [None],
    "NULL and one": [None, -3],
    "with NULL": [None, 1, 2, None, 9],
    "none": [],
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.sampled(5)
def test_units_are_those_of_the_query(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(UNITS[name]))
    with opened(tmp_path) as session:
        for text in STATEMENTS:
            both(*engine_and_query(session, text), monkeypatch)
    by_hash = name in ("far apart", "wider than bits", "NULL alone", "none")
    assert seen.complete == ([] if by_hash else [True] * BY_BITS)


KINDS = {
    "TINYINT": (pa.int8(), -128, 127),
    "SMALLINT": (pa.int16(), -(2**15), 2**15 - 1),
    "INTEGER": (pa.int32(), -(2**31), 2**31 - 1),
    "UTINYINT": (pa.uint8(), 0, 255),
    "UINTEGER": (pa.uint32(), 0, 2**32 - 1),
    "UBIGINT": (pa.uint64(), 0, 2**64 - 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(5)
def test_integers_of_any_width(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    arrow, least, greatest = KINDS[kind]
    for units in ([least, least + 1, least + 9], [greatest, greatest - 1], [least, greatest]):
        write_rows(tmp_path / "t.parquet", rows_of(units), arrow)
        with opened(tmp_path, kind=kind) as session:
            both(*engine_and_query(session, FIRST), monkeypatch)
            both(*engine_and_query(session, STATEMENTS[0]), monkeypatch)
    assert seen.complete.count(True) >= 4
    assert len(seen.complete) == (6 if greatest - least < 10**9 else 4)


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_all_fixtures(every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        engine = of_type(session.database.engines().engine, DuckDBEngine)
        plans = [proved(session, fixture.values[0].statement) for fixture in ACCEPTED[::every]]
        for plan in plans:
            if units_counted(plan.compiled.query):
                both(engine, plan.compiled, monkeypatch)
    assert len(seen.complete) >= 90 // every
    assert all(seen.complete)


@pytest.mark.parametrize("source", ["t.csv", "own"])
def test_sources_of_other_kinds(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """Of a CSV file the range is known once it was verified; then each row is read once more than before."""
    write_rows(tmp_path / "t.parquet", rows_of(range(-5, 60)))
    if source == "t.csv":
        duckdb.sql(f"COPY (FROM '{tmp_path}/t.parquet') TO '{tmp_path}/t.csv'")
    else:
        with duckdb.connect(str(tmp_path / "own.duckdb")) as own:
            own.execute(f"CREATE TABLE own AS FROM '{tmp_path}/t.parquet'")
        monkeypatch.setitem(globals(), "POLICY", POLICY + '[database]\npath = "own.duckdb"\n')
    with opened(tmp_path, source) as session:
        engine, compiled = engine_and_query(session, FIRST)
        both(engine, compiled, monkeypatch)
        assert seen.complete == ([] if source == "t.csv" else [True])
        assert engine.vet("t")
        both(engine, compiled, monkeypatch)
        assert seen.complete[-1:] == [True]


def test_units_of_a_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        text = "SELECT COUNT(DISTINCT user_id) AS n FROM goods JOIN baskets USING (basket_id)"
        engine, compiled = engine_and_query(session, text)
        both(engine, compiled, monkeypatch)
    assert seen.complete == [True]


# -- what is not counted by bits


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM t",
        "SELECT SUM(x, contribution_bounds_per_group => (0, 9)) AS n FROM t",
        "SELECT k, COUNT(DISTINCT x, contribution_bounds_per_group => (0, 3)) AS n FROM t GROUP BY k",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_other_numbers(text: str, tmp_path: Path, seen: Seen) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(9)))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, text)
        assert bits_form(compiled.query, BIGINT) == ""
        assert by_bits(compiled.query, 0, 1, BIGINT) is None
        engine.count(compiled)
    assert seen.texts == []


def test_texts_are_no_bits(tmp_path: Path, seen: Seen) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(9)))
    with opened(tmp_path, kind="VARCHAR") as session:
        engine, compiled = engine_and_query(session, FIRST)
        engine.count(compiled)
    assert seen.texts == []


@pytest.mark.parametrize(
    ("room", "rows", "wide", "numbers", "has"),
    [
        (Room(1, 2, 10**9), 10**6, 10**6, 1, True),
        (Room(1, 2, 10**9), 99_999, 10, 1, False),
        (Room(1, 2, 10**9), 10**6, 0, 1, False),
        (Room(1, 2, 10**12), 10**8, 10**9, 1, False),
        (Room(1, 2, 10**12), 10**8, 10**9 - 1, 1, True),
        (Room(100, 2, 10**12), 10**6, 10**6, 1, True),
        (Room(101, 2, 10**12), 10**6, 10**6, 1, False),
        (Room(80, 1, 40_000_000), 10**6, 10**6, 1, True),
        (Room(80, 1, 40_000_000), 10**6, 10**6, 2, False),
        (Room(80, 2, 40_000_000), 10**6, 10**6, 1, False),
    ],
)
def test_where_bits_are_faster_and_fit(
    room: Room, rows: int, wide: int, numbers: int, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faster, "FEWEST", 100_000)
    monkeypatch.setattr(faster, "SPARSEST", 100)
    assert room.has(rows, wide, numbers) is has


@pytest.mark.parametrize(
    ("ends", "bytes_of"),
    [
        ((0, 7), (0, 7)),
        ((0, 8), (-7, 8)),
        ((1, 999_999), (0, 999_999)),
        ((-9, -1), (-9, 6)),
        ((-(2**63), -(2**63)), (-(2**63), -(2**63) + 7)),
        ((2**63 - 2, 2**63 - 1), (2**63 - 8, 2**63 - 1)),
        ((9, 3), (4, 3)),
        ((4, 3), (4, 3)),
    ],
)
def test_bits_are_whole_bytes(ends: tuple[int, int], bytes_of: tuple[int, int]) -> None:
    """Ranges that are empty stay so; others have all their units, and both ends in the type of one."""
    assert faster.in_whole_bytes(*ends) == bytes_of


# -- a range that lies


LIES = {
    "too small": (3, 5),
    "shifted": (100, 140),
    "below": (-40, -1),
    "one too few": (0, 38),
    "one too few below": (1, 40),
    "reversed": (39, 0),
    "one unit": (8, 8),
    "beyond the type": (2**63 - 3, 2**63 + 9),
    "far": (-(2**70), -(2**70) + 5),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.sampled(4)
def test_a_wrong_range_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of([*range(40), None]))
    with opened(tmp_path) as session:
        for text in STATEMENTS:
            engine, compiled = engine_and_query(session, text)
            engine._bits._failed.clear()
            engine._bits.keep("t", UnitFacts.of(240, *LIES[name]))
            both(engine, compiled, monkeypatch)
    # A statement whose rows are all in the range has all its numbers.
    assert not all(seen.complete) or name == "reversed"
    assert len(seen.complete) == (0 if name == "reversed" else BY_BITS)


def test_a_wider_range_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    write_rows(tmp_path / "t.parquet", rows_of([*range(40), None]))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        engine._bits.keep("t", UnitFacts.of(1, -1000, 7777))
        both(engine, compiled, monkeypatch)
    assert seen.complete == [True]


def test_a_text_that_lacks_numbers_is_not_tried_again(tmp_path: Path, seen: Seen) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        engine._bits.keep("t", UnitFacts.of(240, 0, 3))
        engine.count(compiled)
        engine.count(compiled)
    assert seen.complete == [False]


# -- failures


ERRORS = (
    duckdb.OutOfMemoryException("1 .. 39"),
    duckdb.BinderException("1 .. 39"),
    duckdb.FatalException("1 .. 39"),
    duckdb.InternalException("1 .. 39"),
    MemoryError("1 .. 39"),
    ValueError("1 .. 39"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.sampled(3)
def test_a_text_that_fails_is_no_failure(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))

    def fails(*_: object) -> None:
        raise error

    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        before, charged = numbers(engine.count(compiled)), session.budget()
        monkeypatch.setattr(FasterText, "count", fails)
        assert numbers(engine.count(compiled)) == before
        assert session.run(FIRST).table.num_rows > 0
        after = session.budget()
        assert after.spent.epsilon == charged.spent.epsilon + 1
        assert session.database.ledger.count_failures(session.analyst) == 0


def test_only_the_query_fails_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    monkeypatch.setattr(duckdb_engine, "FILLS_DOMAINS", False)
    with opened(tmp_path) as session:
        prepared, engine = session.prepare(FIRST), session.database.engines().engine
        fails = duckdb.OutOfMemoryException("no")
        monkeypatch.setattr(FasterText, "count", lambda *_: (_ for _ in ()).throw(fails))
        object.__setattr__(private(prepared).counting.plan.compiled, "sql", "SELECT nothing")
        with pytest.raises(StatementFailed):
            session.execute(prepared)
        assert session.database.ledger.count_failures(session.analyst) == 1
        assert engine is session.database.engines().engine


def test_facts_that_cannot_be_read_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))

    def fails(*_: object) -> None:
        raise duckdb.IOException("no")

    monkeypatch.setattr(UnitFacts, "read", fails)
    with opened(tmp_path) as session:
        both(*engine_and_query(session, FIRST), monkeypatch)
    assert seen.texts == []


def test_a_form_that_the_binder_does_not_know_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        words = engine.schema_database.vocabulary
        object.__setattr__(words, "functions", frozenset(words.functions) - {"bitstring_agg"})
        both(engine, compiled, monkeypatch)
    assert seen.texts == []


@pytest.mark.parametrize("where", ["text", "facts"])
def test_a_cancellation_ends_the_statement(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runs: the certified query does not begin."""
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    running = RunningStatement()

    def cancelled(*_: object) -> None:
        running.cancel()
        raise duckdb.InterruptException("interrupted")

    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        if where == "text":
            monkeypatch.setattr(FasterText, "count", cancelled)
        else:
            monkeypatch.setattr(UnitFacts, "read", cancelled)
        with running_statement(running), pytest.raises(Cancelled):
            engine.count(compiled)
        assert not running.failed


def test_the_end_of_the_time_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    running = RunningStatement()

    def late(*_: object) -> None:
        running.end_within(0)
        raise duckdb.InterruptException("interrupted")

    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        monkeypatch.setattr(FasterText, "count", late)
        with running_statement(running), pytest.raises(OperationalError):
            engine.count(compiled)
        assert running.failed


@pytest.mark.slow
def test_where_bits_do_not_fit_the_query_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand groups of a million units, at a limit that the bits of all of them exceed."""
    made = "SELECT i % 1000000 AS u, hash(i) % 1000 AS k, 'a' AS c, 1 AS x FROM range(3000000) r(i)"
    duckdb.sql(f"COPY ({made}) TO '{tmp_path}/t.parquet'")
    monkeypatch.setitem(globals(), "POLICY", POLICY.replace("to = 3 ", "to = 999 "))
    with opened(tmp_path) as session:
        _, compiled = engine_and_query(session, FIRST)
        for memory in (100_000_000, 300_000_000):
            made_engine = DuckDBEngine(session.policy, memory)
            with closing(made_engine) as engine:
                for forced in (False, True):
                    monkeypatch.setattr(Room, "has", (lambda *_: True) if forced else Room.has)
                    engine._bits._failed.clear()
                    outcomes = []
                    for bits in (True, False):
                        monkeypatch.setattr(unit_bits, "COUNTS_BITS", bits)
                        try:
                            outcomes.append(numbers(engine.count(compiled)))
                        except Error as error:
                            outcomes.append([str(error)])
                    assert outcomes[0] == outcomes[1]


# -- versions


def test_facts_are_those_of_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        both(*engine_and_query(session, FIRST), monkeypatch)
        write_rows(tmp_path / "t.parquet", rows_of(range(1000, 1090)))
        both(*engine_and_query(session, FIRST), monkeypatch)
    assert seen.complete == [True, True]
    assert "39" in seen.texts[0]
    assert "1089" in seen.texts[1]


@pytest.mark.parametrize("when", ["before the text", "after the text", "after the facts"])
@pytest.mark.sampled(3, rest="longer")
def test_a_file_that_is_replaced_ends_the_statement(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    count, read = FasterText.count, UnitFacts.read

    def replace_file() -> None:
        write_rows(tmp_path / "t.parquet", rows_of(range(1000, 1090)))

    def counted(text: FasterText, fetch: Callable[[str], Any], size: int) -> Any:
        if when == "before the text":
            replace_file()
        found = count(text, fetch, size)
        if when == "after the text":
            replace_file()
        return found

    def known(*arguments: Any) -> UnitFacts:
        found = read(*arguments)
        if when == "after the facts":
            replace_file()
        return found

    with opened(tmp_path) as session:
        monkeypatch.setattr(FasterText, "count", counted)
        monkeypatch.setattr(UnitFacts, "read", known)
        monkeypatch.setattr(UnitBits, "keep", lambda *_: None)  # what `vet` found
        with pytest.raises(Cancelled, match="the data changed"):
            session.run(FIRST)
        monkeypatch.undo()
        assert session.run(FIRST).table.num_rows > 0


# -- nothing is told


def test_nobody_sees_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    least, greatest = 771_234_501, 771_234_604
    write_rows(tmp_path / "t.parquet", rows_of([least, greatest]))
    told: list[str] = []
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        told += [numbers(engine.count(compiled))[0], explained(session)]
        assert str(least) in seen.texts[-1]
        facts = engine._bits._facts["t"]
        answer = session.run(FIRST)
        told += [repr(facts), repr(FasterText()), repr(engine), repr(engine._bits), repr(answer)]
        told += [str(answer.release), engine.translate(compiled), compiled.sql, repr(compiled)]
        told += [repr(key) for key in engine.schema_database.confirmed]
        told += [repr(engine._bits.__dict__), repr(session)]
        for error in (duckdb.OutOfMemoryException(f"{least}"), ValueError(f"{greatest}")):
            monkeypatch.setattr(FasterText, "count", lambda *_, error=error: (_ for _ in ()).throw(error))
            told.append(repr(session.run(FIRST)))
        told += [path.read_bytes().decode("latin-1") for path in tmp_path.glob("ledger*")]
    for text in told:
        assert str(least) not in text
        assert str(greatest) not in text


def test_what_is_compiled_is_the_same_for_data_of_any_range(tmp_path: Path, seen: Seen) -> None:
    shown = []
    for name, units in (("few", range(40)), ("many", range(-900, -700))):
        folder = tmp_path / name
        folder.mkdir()
        write_rows(folder / "t.parquet", rows_of(units))
        with opened(folder) as session:
            engine, compiled = engine_and_query(session, FIRST)
            engine.count(compiled)
            shown.append((compiled.sql, engine.translate(compiled), explained(session)))
            session.run(FIRST)
    assert shown[0] == shown[1]
    assert seen.texts[0] != seen.texts[-1]
    assert all("bitstring_agg" not in text for text in shown[0])


def test_an_error_of_the_text_has_lost_its_frames(tmp_path: Path) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        _, compiled = engine_and_query(session, FIRST)
    text = FasterText.of(compiled.query, [UnitFacts.of(240, 0, 39)], Room(5, 2, 10**9), BIGINT)
    assert text is not None

    def fails(sql: str) -> Any:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x") as caught:
        text.count(fails, 1)
    frames = []
    trace = caught.value.__traceback__
    while trace is not None:
        frames.append(repr(trace.tb_frame.f_locals))
        trace = trace.tb_next
    assert "bitstring_agg" not in "".join(frames)
    assert duckdb_sql(by_bits(compiled.query, 0, 1, BIGINT) or compiled.query) == bits_form(
        compiled.query, BIGINT
    )


# -- what an attack found


def test_groups_that_no_domain_has_take_no_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """Bits stay in memory, so their number must not depend on the data: those rows are one group, or none.

    Of a range the text leaves them out. It joins other domains to the groups of all rows.
    """
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    largest = "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2"
    monkeypatch.setitem(globals(), "POLICY", POLICY.replace("{{ from = 0, to = 3 }}", "[0, 1, 2, 3]"))
    with opened(tmp_path) as session:
        both(*engine_and_query(session, largest), monkeypatch)
    assert seen.complete == []
    complete = POLICY.replace("[0, 1, 2, 3]", "{{ values = [0, 1, 2, 3, 9], complete = true }}")
    monkeypatch.setitem(globals(), "POLICY", complete)
    rows = [(u, abs(k or 0), c, x) for u, k, c, x in rows_of(range(40))]
    write_rows(tmp_path / "t.parquet", rows)
    with opened(tmp_path) as session:
        both(*engine_and_query(session, largest), monkeypatch)
    assert seen.complete == [True]


@pytest.mark.parametrize("where", ["by_bits", "confirm"])
def test_an_error_before_the_text_runs_is_no_failure(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        monkeypatch.setattr(faster if where == "by_bits" else unit_bits, where, fail)
        both(engine, compiled, monkeypatch)
    assert seen.complete == []


def test_a_text_that_the_time_ends_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        run = engine._run
        ended: list[bool] = []
        attempts = itertools.count()

        def end(work: Any, cancelled: str, *, counts_only: bool) -> Any:
            # The first attempt reads facts, the second one runs the text.
            if "_attempt" in work.__qualname__ and next(attempts) == 1:
                ended.append(True)
                return None
            return run(work, cancelled, counts_only=counts_only)

        monkeypatch.setattr(engine, "_run", end)
        with pytest.raises(OperationalError):
            engine.count(compiled)
        engine.count(compiled)
    assert ended == [True]
    assert seen.complete == []


def test_a_fatal_error_while_facts_are_read_opens_the_database_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    def fail(*_: object) -> None:
        raise duckdb.FatalException("fatal")

    write_rows(tmp_path / "t.parquet", rows_of(range(40)))
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, FIRST)
        opened_again: list[bool] = []
        reopen = engine._reopen

        def open_again() -> None:
            opened_again.append(True)
            reopen()

        monkeypatch.setattr(engine, "_reopen", open_again)
        with monkeypatch.context() as broken:
            broken.setattr(UnitFacts, "read", fail)
            engine.count(compiled)
        assert opened_again == [True]
        engine.count(compiled)  # a read that failed is not kept
    assert seen.complete == [True]
