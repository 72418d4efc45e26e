"""Statements that select few groups, of which rows are counted first: the same answers as over all counts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dpsql.analysis import CompiledQuery
from dpsql.engines import Cancelled
from dpsql.engines.duckdb import duckdb_engine, faster_counts, unit_bits
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.faster_counts import FewGroups
from dpsql.errors import EngineNotTested, InternalError, StatementFailed
from dpsql.kernel import faster
from dpsql.kernel.counts import Counts
from dpsql.kernel.mechanisms import NoiseSource
from dpsql.kernel.rows_first import CANDIDATES, CountedSoFar, FewCounts, RowsFirst
from dpsql.kernel.sealed import unseal
from dpsql.planning import needs_few_counts
from dpsql.policy import load
from dpsql.release import reuse
from dpsql.session import Session
from tests.narrow import of_type, present, private
from tests.sql_fixtures import raw_data, write
from tests.support.exact import answer_of, exact_of
from tests.support.world import open_world
from tests.unit.analysis.test_sql_fixtures import ACCEPTED

Integers = NDArray[np.int64]

POLICY = """
[budget]
epsilon = 1e6
delta = 1e-3
default_delta = 1e-6
default_epsilon = 1
max_failures = 3
ledger = "ledger.sqlite"
[engine]
keep = {keep}
[tables.t]
source = "{source}"
unit = "u"
domain.k = {{ from = 0, to = 59 }}
domain.c = {texts}
domain.e = {{ values = ["x", "y"], complete = false }}
[tables.t.columns]
u = "{kind}"
k = "BIGINT"
c = "VARCHAR"
x = "DOUBLE"
d = "DATE"
e = "VARCHAR"
w = "VARCHAR"
"""
TEXTS = ["a", "b", "it's", "ü", ""]
ALL = "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k"
TOP = "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2"
STATEMENTS = (
    TOP,
    "SELECT c, COUNT(DISTINCT u) AS n FROM t GROUP BY c ORDER BY n DESC LIMIT 1",
    "SELECT k, c, COUNT(DISTINCT u) AS n FROM t WHERE x > 2 GROUP BY k, c ORDER BY n DESC LIMIT 3",
    "SELECT k, COUNT(DISTINCT u) FILTER (WHERE x > 3 OR c = 'b') AS n, COUNT(DISTINCT u) AS m "
    "FROM t GROUP BY k ORDER BY n DESC LIMIT 2",
    f"{ALL} HAVING COUNT(DISTINCT u) > 20 LIMIT 2 -- ADAPTIVE_SPARSE_VECTOR",
    f"{ALL} HAVING COUNT(DISTINCT u) > 20 ORDER BY k DESC LIMIT 2 -- SPARSE_VECTOR",
    f"{ALL} HAVING COUNT(DISTINCT u) > 20 ORDER BY n DESC LIMIT 3 -- HYBRID_TOP_K",
    f"{ALL} HAVING COUNT(DISTINCT u) > 20 ORDER BY n DESC LIMIT 3 -- HYBRID_SPARSE_VECTOR",
)


def rows_of(units: Sequence[Any], size: int = 1200) -> pa.Table:
    """Spread units over groups of very different sizes, inside and outside of the domains, and NULL."""
    rng = np.random.default_rng(7)
    places = (len(units) * rng.random(size) ** 2).astype(int)
    keys = (63 * rng.random(size) ** 1.5).astype(int)
    texts = [*TEXTS, "z", None]
    return pa.table(
        {
            "u": [units[i] for i in places],
            "k": [None if k == 5 else int(k) for k in keys],
            "c": [texts[min(i, 6)] for i in rng.geometric(0.3, size) - 1],
            "x": [None if i % 9 == 0 else float(i % 7) for i in range(size)],
            "d": pa.array([i % 40 for i in range(size)], pa.date32()),
            "e": ["xyz"[i % 3] for i in range(size)],
            "w": [None if i == 2 else f"word {i}" for i in (600 * rng.random(size) ** 2).astype(int)],
        }
    )


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows of small tables and of few groups be counted first, too."""
    monkeypatch.setattr(faster, "FEWEST", 0)
    monkeypatch.setattr(faster, "SPARSEST", 10**12)
    monkeypatch.setattr(unit_bits, "FEWEST", 0)
    monkeypatch.setattr(faster_counts, "FEWEST_GROUPS", 1)


@contextmanager
def opened(
    folder: Path, units: Sequence[Any] = range(90), *, kind: str = "BIGINT", keep: int = 0, **more: str
) -> Iterator[Session]:
    if not (folder / "t.parquet").exists():
        pq.write_table(rows_of(units), folder / "t.parquet")
    values = {"source": "t.parquet", "texts": str(TEXTS).replace("'it", '"it').replace("s'", 's"'), **more}
    values["texts"] = values["texts"] if "texts" in more else '["a", "b", "it\'s", "ü", ""]'
    with open_world(folder, POLICY.format(kind=kind, keep=keep, **values)) as session:
        yield session


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with opened(tmp_path_factory.mktemp("shared")) as session:
        yield session


@pytest.fixture
def session(shared: Session) -> Session:
    """A session whose engine tries each query again."""
    of_type(shared.database.engines().engine, DuckDBEngine)._few._failed.clear()
    return shared


def engine_and_query(session: Session, text: str) -> tuple[DuckDBEngine, CompiledQuery]:
    counting = private(session.prepare(text)).counting
    return of_type(counting.engines.engine, DuckDBEngine), counting.plan.compiled


def few_of(engine: DuckDBEngine, compiled: CompiledQuery) -> FewCounts:
    return of_type(unseal(of_counts(engine, compiled)), FewCounts)


def numbers(counts: Counts) -> list[str]:
    found = exact_of(counts)
    columns = [column.to_pylist() for column in found.keys.columns]
    every = [n.tolist() for n in (*found.n, *found.places.values())]
    return sorted(map(repr, zip(*columns, *every, strict=True)))


def with_options(text: str, **options: str) -> str:
    """Write options into a statement, with the mechanism that its comment names."""
    statement, _, mechanism = text.partition(" -- ")
    options |= {"mechanism": mechanism} if mechanism else {}
    listed = ", ".join(f"{name} = {value}" for name, value in options.items())
    return statement.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({listed})", 1)


def by_keys(found: Any) -> list[Any]:
    return [*zip(*(column.to_pylist() for column in found.keys.columns), strict=True)]


def compare(engine: DuckDBEngine, compiled: CompiledQuery) -> None:
    """Compare bounds, single groups, and all groups with the certified counts."""
    every = exact_of(engine.count(compiled))
    right = {key: [int(n[i]) for n in every.n] for i, key in enumerate(by_keys(every))}
    few = few_of(engine, compiled)
    order = by_keys(few.groups)
    assert sorted(map(repr, order)) == sorted(map(repr, right))
    light = np.argsort(few.upper[0], kind="stable")
    for at in np.array_split(light[: len(light) // 2], 3):
        for place in range(compiled.counts):
            assert few.at(place, at).tolist() == [right[order[i]][place] for i in at]
    assert few._counting._whole is None
    for place, upper in enumerate(few.upper):
        assert all(upper[i] >= right[key][place] for i, key in enumerate(order))
        found = few.at(place, np.arange(len(order)))
        assert found.tolist() == [right[key][place] for key in order]
    assert few._counting._whole is not None
    assert numbers(engine.count(compiled)) == numbers(of_counts(engine, compiled))


def of_counts(engine: DuckDBEngine, compiled: CompiledQuery) -> Counts:
    engine._few._failed.clear()
    return present(engine.count_few(compiled, lambda: None))


class Given:
    """Noise that depends on nothing but how often any was drawn, in the place of all noise.

    Groups are put in the order of their keys, so that each gets the same noise whatever was counted first.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        given = self

        def draw(_: NoiseSource, noise: str, scale: Fraction, bits: int, size: Any) -> Integers:
            most = max(int(2 * scale * (1 << bits)), 1)
            return given.next().integers(-most if noise == "laplace" else 0, most, size)

        def reaching(
            source: NoiseSource, noise: Any, scale: Fraction, bits: int, need: Integers
        ) -> tuple[Integers, Integers]:
            drawn = draw(source, noise, scale, bits, need.shape)
            where = np.flatnonzero(drawn >= need)
            return where, drawn[where]

        def ranks(_: NoiseSource, n: int, *, trials: int | None = None) -> Integers:
            shape = (n,) if trials is None else (trials, n)
            return given.next().permuted(np.broadcast_to(np.arange(n), shape), axis=-1)

        monkeypatch.setattr(NoiseSource, "draw", draw)
        monkeypatch.setattr(NoiseSource, "draw_reaching", reaching)
        monkeypatch.setattr(NoiseSource, "ranks", ranks)
        self.sealed = Counts.of_table

        def of_table(table: pa.Table, *more: Any) -> Counts | None:
            keys = [(name, "ascending") for name in table.column_names if name[0] == "k"]
            return given.sealed(table.sort_by(keys) if keys else table, *more)

        monkeypatch.setattr(Counts, "of_table", of_table)
        for name in ("box", "cube"):
            monkeypatch.setattr(
                NoiseSource, name, lambda _, rate, size, trials: np.zeros((trials, size), int)
            )

    def next(self) -> np.random.Generator:
        self.calls += 1
        return np.random.default_rng((3, self.calls))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(monkeypatch)


def answered(session: Session, text: str, given: Given) -> list[Any]:
    """Return what a statement releases, and its charge, with the given noise."""
    given.calls = 0
    answer = session.run(with_options(text, fresh="TRUE"))
    assert answer.release is not None
    return [answer.table.to_pylist(), answer.release.charge, given.calls]


class Seen:
    """How often each of the queries was run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.upper, self.few, self.whole = 0, 0, 0
        count, some, every = FewGroups.count, CountedSoFar.count_few, DuckDBEngine.count

        def counted(*arguments: Any, **more: Any) -> Any:
            found = count(*arguments, **more)
            self.upper += found is not None
            return found

        def counted_few(*arguments: Any) -> bool:
            self.few += 1
            return some(*arguments)

        def counted_all(*arguments: Any) -> Counts:
            self.whole += 1
            return every(*arguments)

        monkeypatch.setattr(FewGroups, "count", counted)
        monkeypatch.setattr(CountedSoFar, "count_few", counted_few)
        monkeypatch.setattr(DuckDBEngine, "count", counted_all)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


# -- equality


UNITS: dict[str, tuple[str, Sequence[Any]]] = {
    "integers": ("BIGINT", range(-20, 70)),
    "far apart": ("BIGINT", [-(2**63), 0, 2**63 - 1, *range(50)]),
    "texts": ("VARCHAR", [f"unit {i}" for i in range(80)]),
    "with NULL": ("BIGINT", [None, *range(50)]),
    "one": ("BIGINT", [7]),
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.sampled(3, rest="longer")
def test_groups_are_those_of_the_query(name: str, tmp_path: Path) -> None:
    kind, units = UNITS[name]
    with opened(tmp_path, units, kind=kind) as session:
        for text in STATEMENTS:
            compare(*engine_and_query(session, text))


def test_answers_are_those_over_all_counts(
    session: Session, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    for times, text in enumerate(STATEMENTS):
        before = seen.few + seen.whole
        found = answered(session, text, given)
        assert seen.upper == times + 1, text
        assert seen.few + seen.whole > before, text
        with monkeypatch.context() as off:
            off.setattr(faster_counts, "ROWS_FIRST", False)
            assert answered(session, text, given) == found
        assert seen.upper == times + 1, text


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.longer)])
def test_all_fixtures(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        monkeypatch.setattr(type(session.database.engines()), "_are_all_counted", lambda *_: False)
        asked = 0
        for fixture in ACCEPTED[::every]:
            text = fixture.values[0].statement
            prepared = session.prepare(text)
            if getattr(prepared, "method", None) is None or not needs_few_counts(private(prepared).method):
                continue
            engine, compiled = engine_and_query(session, text)
            found = engine.count_few(compiled, lambda: None)
            if found is None:
                continue
            if compiled.groups is None or compiled.groups.limit is not None:
                assert sorted(listed(found)) == sorted(listed(engine.count(compiled)))
                continue
            asked += 1
            compare(engine, compiled)
            released = []
            for counts in (engine.count(compiled), of_counts(engine, compiled)):
                given.calls = 0
                answer = answer_of(private(prepared).method, private(prepared).plan, counts)
                made = [repr(each and (each.value, each.low, each.high)) for each in answer.counts]
                released.append((answer.keys(), made, repr(answer.gap), answer.loss, given.calls))
            assert released[0] == released[1]
    assert asked > 5 // every


# -- undeclared keys


LARGEST = (
    "SELECT w, COUNT(DISTINCT u) AS n FROM t GROUP BY w ORDER BY n DESC LIMIT 1",
    "SELECT w, COUNT(DISTINCT u) AS n FROM t WHERE x > 1 GROUP BY w ORDER BY n DESC LIMIT 2",
    "SELECT w, e, COUNT(DISTINCT u) AS n FROM t GROUP BY w, e ORDER BY n DESC LIMIT 1 -- LIMITED_DOMAIN",
    "SELECT w, COUNT(DISTINCT u) FILTER (WHERE x > 1) AS n, COUNT(DISTINCT u) AS m FROM t GROUP BY w "
    "ORDER BY n DESC LIMIT 1 -- TOP_STABLE",
)


def listed(counts: Counts) -> list[str]:
    """Return groups in their order."""
    found = exact_of(counts)
    columns = [column.to_pylist() for column in found.keys.columns]
    return [repr(row) for row in zip(*columns, *(n.tolist() for n in found.n), strict=True)]


@pytest.mark.parametrize("name", ["integers", "texts", "with NULL"])
@pytest.mark.sampled(3, rest="longer")
def test_largest_groups_are_those_of_the_query(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given
) -> None:
    monkeypatch.setattr(Counts, "of_table", given.sealed)
    kind, units = UNITS[name]
    with opened(tmp_path, units, kind=kind) as session:
        for text in LARGEST:
            engine, compiled = engine_and_query(session, text)
            few = engine.count_few(compiled, lambda: None)
            assert few is None or listed(few) == listed(engine.count(compiled))
            assert few is not None or name != "integers"  # rows without units count, too
            found = answered(session, text, given)
            with monkeypatch.context() as off:
                off.setattr(faster_counts, "ROWS_FIRST", False)
                assert answered(session, text, given) == found


def some(*sizes: tuple[int, int]) -> pa.Table:
    """Write groups of so many rows and units."""
    made = [(i, unit % units) for i, (rows, units) in enumerate(sizes) for unit in range(rows)]
    table = rows_of(range(9), len(made))
    table = table.set_column(0, "u", [[unit for _, unit in made]])
    return table.set_column(table.column_names.index("w"), "w", [[f"g{i:03}" for i, _ in made]])


SIZES: dict[str, tuple[list[tuple[int, int]], bool]] = {
    "units follow rows": ([(40 - i, 40 - i) for i in range(39)], True),
    "all groups are there": ([(20, 5)] * 9, False),
    "few groups": ([(3, 3), *[(9, 1)] * 2, *[(1, 1)] * 9, (400, 1)], False),
    "ties of units": ([*[(20, 20)] * 6, *[(12, 12)] * 8, *[(8, 8)] * 9, *[(2, 2)] * 90], True),
    "the last ties": ([*[(20, 20)] * 10, *[(8, 8)] * 9, *[(2, 2)] * 90], False),
    "a group of few units has most rows": ([*[(30, 1)] * 20, *[(20, 20)] * 12, *[(9, 9)] * 200], False),
    "others could be larger": ([*[(30, 2)] * 18, *[(20, 20)] * 12, *[(9, 9)] * 200], False),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.sampled(3, rest="longer")
def test_rows_tell_which_groups_are_largest_or_all_are_counted(name: str, tmp_path: Path) -> None:
    """Of one group eleven are counted, so rows of seventeen: the last one tells what others have at most."""
    sizes, told = SIZES[name]
    pq.write_table(some(*sizes), tmp_path / "t.parquet")
    with opened(tmp_path) as session:
        engine, compiled = engine_and_query(session, LARGEST[0])
        found = engine.count_few(compiled, lambda: None)
        assert (found is not None) == told
        if found is not None:
            assert listed(found) == listed(engine.count(compiled))
        else:
            assert engine.count_few(compiled, lambda: None) is None


# -- what is not counted so


@pytest.mark.parametrize(
    "text",
    [
        ALL,
        "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k ORDER BY n LIMIT 2",
        "SELECT COUNT(DISTINCT u) AS n FROM t",
        "SELECT d, COUNT(DISTINCT u) AS n FROM t GROUP BY d ORDER BY n DESC LIMIT 2",
        "SELECT k, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM t GROUP BY k "
        "ORDER BY n DESC LIMIT 2",
        "SELECT k, SUM(x, contribution_bounds_per_group => (0, 3)) AS n FROM t GROUP BY k "
        "ORDER BY n DESC LIMIT 2",
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_all_groups_are_counted(text: str, tmp_path: Path, seen: Seen) -> None:
    with opened(tmp_path) as session:
        session.run(text)
    assert (seen.upper, seen.few, seen.whole) == (0, 0, 1)


@pytest.mark.parametrize(("name", "value"), [("FEWEST_GROUPS", 61), ("ROWS_FIRST", False)])
def test_few_groups_and_switched_off(
    name: str, value: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    monkeypatch.setattr(faster_counts, name, value)
    with opened(tmp_path) as session:
        session.run(TOP)
    assert (seen.upper, seen.whole) == (0, 1)


def test_small_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setattr(unit_bits, "FEWEST", 1201)
    with opened(tmp_path) as session:
        session.run(TOP)
    assert (seen.upper, seen.whole) == (0, 1)


def test_groups_with_most_rows_are_counted_with_all_others(session: Session, seen: Seen) -> None:
    few = few_of(*engine_and_query(session, TOP))
    light, heavy = int(np.argmin(few.upper[0])), int(np.argmax(few.upper[0]))
    few.at(0, np.array([light]))
    assert (seen.few, seen.whole) == (1, 0)
    few.at(0, np.array([light]))
    assert (seen.few, seen.whole) == (1, 0)
    few.at(0, np.argsort(few.upper[0])[-25:])
    assert (seen.few, seen.whole) == (1, 1)
    few.at(0, np.array([heavy]))
    assert (seen.few, seen.whole) == (1, 1)


def test_where_all_were_counted_all_are_counted_at_once(session: Session, seen: Seen) -> None:
    engine, compiled = engine_and_query(session, TOP)
    few_of(engine, compiled).at(0, np.arange(61))
    assert (seen.upper, seen.whole) == (1, 1)
    assert engine.count_few(compiled, lambda: None) is None


# -- failures


ERRORS = (
    duckdb.OutOfMemoryException("secret"),
    duckdb.FatalException("secret"),
    MemoryError("secret"),
    ValueError("secret"),
)


def failing(
    monkeypatch: pytest.MonkeyPatch, engine: DuckDBEngine, which: int, fail: Callable[[], None]
) -> list[int]:
    """Let an attempt of the engine do something else, by its number; the first one reads facts."""
    attempt, made = engine._attempt, list[int]()

    def attempted(work: Any, **more: Any) -> Any:
        made.append(len(made))
        if made[-1] != which:
            return attempt(work, **more)

        def fails(cursor: duckdb.DuckDBPyConnection) -> Any:
            work(cursor)
            fail()

        return attempt(fails, **more)

    monkeypatch.setattr(engine, "_attempt", attempted)
    return made


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.sampled(3, rest="longer")
def test_a_query_that_fails_is_no_failure(
    error: Exception, which: int, session: Session, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    before = session.budget().spent.epsilon
    right, spent = answered(session, TOP, given), session.budget().spent.epsilon
    engine, _ = engine_and_query(session, TOP)
    engine._few._failed.clear()
    made = failing(monkeypatch, engine, which, raising(error))
    whole = seen.whole
    assert answered(session, TOP, given) == right
    assert which in made
    assert seen.whole > whole
    assert session.budget().spent.epsilon - spent == spent - before
    assert session.database.ledger.count_failures(session.analyst) == 0
    made.clear()
    upper = seen.upper
    assert answered(session, TOP, given) == right
    assert seen.upper == upper  # it is not tried again


@pytest.mark.parametrize("text", [TOP, LARGEST[0]])
@pytest.mark.parametrize("where", ["seal_few", "seal_largest"])
@pytest.mark.sampled(3, rest="longer")
def test_what_fails_beside_the_queries_is_no_failure(
    where: str, text: str, session: Session, monkeypatch: pytest.MonkeyPatch, given: Given
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("secret")

    right = answered(session, text, given)
    engine_and_query(session, text)[0]._few._failed.clear()
    monkeypatch.setattr(faster_counts, where, fail)
    assert answered(session, text, given) == right
    assert session.database.ledger.count_failures(session.analyst) == 0


def test_what_fails_while_few_groups_are_placed_is_no_failure(
    session: Session, monkeypatch: pytest.MonkeyPatch, given: Given
) -> None:
    def fail(*_: object) -> bool:
        raise MemoryError("secret")

    right = answered(session, TOP, given)
    monkeypatch.setattr(CountedSoFar, "count_few", fail)
    assert answered(session, TOP, given) == right
    assert session.database.ledger.count_failures(session.analyst) == 0


def test_queries_with_unknown_words_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Seen
) -> None:
    """An engine that was not tested may plan a certified query in known words, but not these."""

    def refuse(*_: object) -> bool:
        raise EngineNotTested("nothing was charged")

    monkeypatch.setattr(faster_counts, "confirm", refuse)
    with opened(tmp_path) as session:
        session.run(TOP)
        assert (seen.upper, seen.whole) == (0, 1)
        assert session.database.ledger.count_failures(session.analyst) == 0


def test_only_the_certified_query_fails_a_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given
) -> None:
    with opened(tmp_path) as session:
        prepared, (engine, _) = session.prepare(TOP), engine_and_query(session, TOP)
        failing(monkeypatch, engine, 2, raising(duckdb.OutOfMemoryException("no")))
        monkeypatch.setattr(duckdb_engine, "FILLS_DOMAINS", False)
        object.__setattr__(private(prepared).counting.plan.compiled, "sql", "SELECT nothing")
        with pytest.raises(StatementFailed) as caught:
            session.execute(prepared)
        assert caught.value.__context__ is None
        assert session.database.ledger.count_failures(session.analyst) == 1


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_cancellation_ends_the_statement(
    which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    with opened(tmp_path) as session:

        def cancel() -> None:
            session.cancel()
            raise duckdb.InterruptException("interrupted")

        engine, _ = engine_and_query(session, TOP)
        failing(monkeypatch, engine, which, cancel)
        with pytest.raises(Cancelled):
            session.run(TOP)
        assert seen.whole == 0
        assert session.database.ledger.count_failures(session.analyst) == 0


@pytest.mark.parametrize("which", [1, 2])
def test_the_end_of_the_time_is_a_failure(
    which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    with opened(tmp_path) as session:

        def end() -> None:
            session._running.end_within(0)
            raise duckdb.InterruptException("interrupted")

        engine, _ = engine_and_query(session, TOP)
        failing(monkeypatch, engine, which, end)
        with pytest.raises(StatementFailed):
            session.run(TOP)
        assert seen.whole == 0
        assert session.database.ledger.count_failures(session.analyst) == 1
        upper = seen.upper
        session.run(TOP.replace("LIMIT 2", "LIMIT 1"))
        assert (seen.upper, seen.whole) == (upper, 1)


# -- numbers that are wrong, or of other data


def altered(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Change what the query of candidates returns."""
    made = CountedSoFar.__init__

    def init(few: Any, keys: Any, upper: Any, n: Any, units: Any, ask: Any) -> None:
        fetch, every = ask

        def changed(table: pa.Table) -> Any:
            found = fetch(table)
            return None if found is None else change({name: np.array(n) for name, n in found.items()})

        made(few, keys, upper, n, units, (changed, every))

    monkeypatch.setattr(CountedSoFar, "__init__", init)


def plus(column: str, by: int) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    def change(found: dict[str, Any]) -> Mapping[str, Any]:
        found[column][0] += by
        return found

    return change


def without_first(found: dict[str, Any]) -> Mapping[str, Any]:
    return {name: n[1:] for name, n in found.items()}


WRONG: dict[str, Callable[[dict[str, Any]], Mapping[str, Any]]] = {
    "a row more": plus("r0", 1),
    "a row less": plus("r0", -1),
    "more units than rows": plus("n0", 10**6),
    "fewer than none": plus("n0", -(10**6)),
    "no place": plus("j", 10**6),
    "a place below": plus("j", -(10**6)),
    "a group is missing": without_first,
    "a column is missing": lambda found: {"j": found["j"], "n0": found["n0"]},
    "other columns": lambda found: {**found, "n1": found["n0"]},
    "floats": lambda found: {**found, "n0": found["n0"].astype(float)},
    "NULL": lambda found: {**found, "n0": np.ma.masked_array(found["n0"], found["n0"] > 0)},
    "twice": lambda found: {name: np.concatenate([n, n[:1]]) for name, n in found.items()},
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.sampled(4, rest="longer")
def test_wrong_numbers_are_not_taken(
    name: str, session: Session, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    monkeypatch.setattr(faster_counts, "ROWS_FIRST", False)
    right = answered(session, TOP, given)
    monkeypatch.setattr(faster_counts, "ROWS_FIRST", True)
    altered(monkeypatch, WRONG[name])
    assert answered(session, TOP, given) == right
    assert (seen.few, seen.whole) == (1, 2)


@pytest.mark.parametrize("which", [1, 2])
def test_a_file_that_is_replaced_ends_the_statement(
    which: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given
) -> None:
    def replace_file() -> None:
        pq.write_table(rows_of(range(1000, 1400), 5000), tmp_path / "t.parquet")

    with opened(tmp_path) as session:
        engine, _ = engine_and_query(session, TOP)
        attempt, made = engine._attempt, list[int]()

        def attempted(work: Any, **more: Any) -> Any:
            found = attempt(work, **more)
            made.append(1)
            if len(made) == which + 1:
                replace_file()
            return found

        monkeypatch.setattr(engine, "_attempt", attempted)
        with pytest.raises(Cancelled, match="the data changed"):
            session.run(TOP)
        monkeypatch.undo()
        assert session.run(TOP).table.num_rows > 0


def test_other_groups_are_an_error(session: Session) -> None:
    engine, compiled = engine_and_query(session, TOP)
    _, other = engine_and_query(session, "SELECT c, COUNT(DISTINCT u) AS n FROM t GROUP BY c")
    few = few_of(engine, compiled)
    few._counting._all = lambda: engine.count(other)
    with pytest.raises(InternalError, match="not those that were there"):
        few.complete()


def test_more_units_than_rows_are_an_error(session: Session) -> None:
    few = few_of(*engine_and_query(session, TOP))
    few._counting.upper = tuple(np.zeros_like(each) for each in few.upper)
    with pytest.raises(InternalError, match="more units than rows"):
        few.complete()


# -- what is kept


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "_SETTLED_SECONDS", -60.0)  # the files are of now


def memory_of(session: Session) -> list[bytearray]:
    entries = session.database.engines().kept._entries.values()
    return [memory for entry in entries for memory in unseal(entry.copy).parts()]


@pytest.mark.usefixtures("_settled")
def test_the_third_statement_counts_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    """The second one needs the rows of none, and of those groups alone that the first one did not count."""
    texts = [TOP, *(TOP.replace("LIMIT 2", f"LIMIT {k}") for k in (3, 1)), f"{ALL} LIMIT 2", f"{TOP}0"]
    texts[3] = texts[3].replace("LIMIT", "HAVING COUNT(DISTINCT u) > 20 ORDER BY k DESC LIMIT")
    counted, right = list[tuple[int, int, int]](), list[Any]()
    monkeypatch.setattr(faster_counts, "ROWS_FIRST", False)
    with opened(tmp_path) as session:
        right += [answered(session, text, given) for text in texts]
    monkeypatch.setattr(faster_counts, "ROWS_FIRST", True)
    with opened(tmp_path, keep=10**8) as session:
        engine, _ = engine_and_query(session, TOP)
        made = failing(monkeypatch, engine, -1, raising(ValueError()))
        for text, answer in zip(texts, right, strict=True):
            seen.whole = seen.few = 0
            made.clear()
            assert answered(session, text, given) == answer
            counted.append((len(made), seen.few, seen.whole))
            assert any(map(any, memory_of(session)))
        memory = memory_of(session)
    (first, few, whole), (second, more, other), *rest = counted
    assert (first, whole) == (2 + few, 0)  # facts, rows, and candidates
    assert (second, other) == (more, 0)
    assert few > 0
    assert rest[0][2] == 1
    assert counted[3:] == [(0, 0, 0)] * 2
    assert not any(map(any, memory))


@pytest.mark.usefixtures("_settled")
def test_what_is_kept_is_overwritten(tmp_path: Path, given: Given) -> None:
    with opened(tmp_path, keep=10**8) as session:
        answered(session, TOP, given)
        memory = memory_of(session)
        assert len(memory) == 4  # keys, rows, units, places
        kept = np.frombuffer(memory[2], np.int64)
        assert -1 in kept.tolist()
        assert 0 < (kept >= 0).sum() < len(kept)
        del kept
    assert not any(map(any, memory))


@pytest.mark.usefixtures("_settled")
def test_statements_that_come_next_are_counted_together(tmp_path: Path, given: Given, seen: Seen) -> None:
    with opened(tmp_path, keep=10**8) as session:
        prepared = [session.prepare(TOP), session.prepare(TOP.replace("LIMIT 2", "LIMIT 1"))]
        with session.together(prepared):
            for each in prepared:
                session.execute(each)
    assert (seen.upper, seen.few, seen.whole) == (0, 0, 1)


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize("name", ["a row more", "NULL"])
def test_wrong_numbers_are_not_kept(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Given, seen: Seen
) -> None:
    with opened(tmp_path) as session:
        right = answered(session, TOP, given)
    with opened(tmp_path, keep=10**8) as session:
        with monkeypatch.context() as wrong:
            altered(wrong, WRONG[name])
            assert answered(session, TOP, given) == right
        assert seen.whole == 1
        assert answered(session, TOP, given) == right


# -- nothing is told


def test_nobody_sees_a_candidate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two texts of a domain with equally many rows, noise alone says which one is released."""
    caplog.set_level(logging.DEBUG)
    names = [f"canary-{i:03}" for i in range(300)]
    rng = np.random.default_rng(1)
    rows = {"u": rng.integers(0, 900, 9000), "c": [names[i] for i in rng.integers(0, 300, 9000)]}
    columns = {**{name: rows_of(range(9), 9000).column(name) for name in "kxdew"}, **rows}
    pq.write_table(pa.table({name: columns[name] for name in "ukcxdew"}), tmp_path / "t.parquet")
    text = "SELECT c, COUNT(DISTINCT u) AS n FROM t GROUP BY c ORDER BY n DESC LIMIT 1"
    listed = str(names).replace("'", '"')
    asked: list[str] = []
    count = CountedSoFar.count_few

    def counted(few: CountedSoFar, keys_at: Any, positions: Integers) -> bool:
        asked.extend(keys_at(positions)[0].to_pylist())
        return count(few, keys_at, positions)

    monkeypatch.setattr(CountedSoFar, "count_few", counted)
    told: list[str] = []
    with opened(tmp_path, texts=listed) as session:
        engine, compiled = engine_and_query(session, text)
        answers = [session.run(text)]
        shown = {row["c"] for row in answers[0].table.to_pylist()}
        few = few_of(engine, compiled)
        few.at(0, np.arange(3))
        told += [repr(few), repr(few.bound(0)), repr(engine), repr(engine._few.__dict__), repr(session)]
        told += [repr(key) for key in engine.schema_database.confirmed]
        told += [engine.translate(compiled), compiled.sql, repr(compiled), caplog.text]
        for error in (duckdb.OutOfMemoryException("canary-000"), ValueError("canary-001")):
            engine._few._failed.clear()
            failing(monkeypatch, engine, 1, raising(error))
            found = session.run(with_options(text, fresh="TRUE"))
            shown |= {row["c"] for row in found.table.to_pylist()}
        profile = engine._connection(counts_only=True).execute("SELECT * FROM duckdb_views()").fetchall()
        told += [repr(profile), *(p.read_bytes().decode("latin-1") for p in tmp_path.glob("ledger*"))]
    assert len(set(asked)) >= 3
    hidden = set(names) - shown
    told = [each for each in told if not all(name in each for name in names)]  # the domain is public
    assert len(told) > 10
    assert not [name for name in set(asked) & hidden for each in told if name in each]
    assert CANDIDATES not in told[-2]


def test_the_text_does_not_depend_on_candidates(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        _, compiled = engine_and_query(session, TOP)
        queries = present(RowsFirst.of(compiled.query))
        assert repr(queries.few(compiled.keys)) == repr(queries.few(compiled.keys))
        assert CANDIDATES in repr(queries.few())
