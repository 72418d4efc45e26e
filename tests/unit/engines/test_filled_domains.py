"""Domains that are filled in have the counts of the certified query, or the query itself is counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.analysis import CompiledQuery
from dpsql.engines import Cancelled
from dpsql.engines.duckdb import duckdb_engine, unit_bits
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.errors import EngineNotTested, OperationalError, StatementFailed
from dpsql.kernel import faster, filled_domains
from dpsql.kernel.charged_work import CANCELLED
from dpsql.kernel.counts import Counts
from dpsql.kernel.filled_domains import FilledDomain
from dpsql.kernel.tree import duckdb_sql
from dpsql.policy import load
from dpsql.session import Session
from tests.narrow import of_type
from tests.sql_fixtures import raw_data, write
from tests.support.exact import exact_of
from tests.unit.analysis.test_sql_fixtures import ACCEPTED, proved
from tests.unit.engines.test_unit_bits import engine_and_query

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
domain.k = {{ from = -2, to = 3, complete = {complete} }}
domain.s = {{ from = 250, to = 254, complete = {complete} }}
domain.d = {{ from = 2024-02-27, to = 2024-03-02, complete = {complete} }}
domain.c = ["a", "b"]
columns = {{ u = "BIGINT", k = "BIGINT", s = "SMALLINT", d = "DATE", c = "VARCHAR", x = "BIGINT" }}
"""
FILLED = (
    "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k",
    "SELECT k, COUNT(DISTINCT u) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2",
    "SELECT s, COUNT(DISTINCT u) AS n, COUNT(DISTINCT u) FILTER (WHERE x > 3) AS m FROM t GROUP BY s",
    "SELECT d, COUNT(DISTINCT u) AS n FROM t GROUP BY d ORDER BY n DESC LIMIT 3",
    "SELECT d, COUNT(DISTINCT u) AS n FROM t WHERE d BETWEEN '2024-02-28' AND '2024-03-01' GROUP BY d",
    "SELECT x, COUNT(DISTINCT u) AS n FROM t WHERE x BETWEEN 1 AND 4 GROUP BY x ORDER BY n DESC LIMIT 2",
    "SELECT s, k, COUNT(DISTINCT u) AS n FROM t GROUP BY k, s",
    "SELECT d, k, COUNT(DISTINCT u) AS n FROM t GROUP BY k, d ORDER BY n DESC LIMIT 4",
    "SELECT k, d, COUNT(DISTINCT u) AS n FROM t WHERE k IS NOT NULL GROUP BY k, d HAVING n > 1",
    "SELECT k, COUNT(DISTINCT u) AS n FROM t WHERE k > -2 AND k <= 2 GROUP BY k ORDER BY n DESC LIMIT 2",
    "SELECT k, SUM(x, contribution_bounds_per_group => (0, 9)) AS n FROM t GROUP BY k",
)
JOINED = (
    "SELECT COUNT(DISTINCT u) AS n FROM t",
    "SELECT c, COUNT(DISTINCT u) AS n FROM t GROUP BY c",
    "SELECT k, c, COUNT(DISTINCT u) AS n FROM t GROUP BY k, c",
    "SELECT date_trunc('month', d) AS m, COUNT(DISTINCT u) AS n FROM t GROUP BY m",
    "SELECT k, MEDIAN(x, contribution_bounds_per_row => (0, 9)) AS n FROM t GROUP BY k",
)
DAYS = [date(2024, 2, 26) + timedelta(i) for i in range(8)]


def write_rows(path: Path, rows: int, *, inside: bool) -> None:
    """Spread units over groups, inside and outside of their domains, and NULL."""
    keys: list[Any] = [-2, 0, 3] if inside else [-3, -2, 0, 3, 4, 2**63 - 1, -(2**63), None]
    small: list[Any] = [250, 252, 254] if inside else [-(2**15), 249, 250, 252, 254, 255, None]
    days: list[Any] = DAYS[1:6] if inside else [*DAYS, date(1, 1, 1), date(9999, 12, 31), None]
    names = ["a", "b"] if inside else ["a", "b", "z", None]
    columns = {
        "u": pa.array([None if i % 17 == 5 else i % 11 for i in range(rows)], pa.int64()),
        "k": pa.array([keys[i * 7 % len(keys)] for i in range(rows)], pa.int64()),
        "s": pa.array([small[i * 5 % len(small)] for i in range(rows)], pa.int16()),
        "d": pa.array([days[i * 3 % len(days)] for i in range(rows)], pa.date32()),
        "c": pa.array([names[i % len(names)] for i in range(rows)], pa.string()),
        "x": pa.array([(*range(7), None)[i * 3 % 8] for i in range(rows)], pa.int64()),
    }
    pq.write_table(pa.table(columns), path)


@pytest.fixture(autouse=True)
def _without_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_bits, "COUNTS_BITS", False)


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether counts were made of each text of a domain that was run."""
    found: list[bool] = []
    make = FilledDomain.seal_counts

    def made(itself: FilledDomain, *given: Any) -> Counts | None:
        counts = make(itself, *given)
        found.append(counts is not None)
        return counts

    monkeypatch.setattr(FilledDomain, "seal_counts", made)
    return found


def opened(folder: Path, rows: int = 90, *, inside: bool = False) -> closing[Session]:
    write_rows(folder / "t.parquet", rows, inside=inside)
    (folder / "dpsql.toml").write_text(POLICY.format(complete=str(inside).lower()), "utf-8")
    return closing(Session(load(folder / "dpsql.toml")))


def numbers(counts: Counts) -> tuple[object, list[str]]:
    found = exact_of(counts)
    columns = [column.to_pylist() for column in found.keys.columns]
    every = [n.tolist() for n in (*found.n, *(n for _, n in sorted(found.places.items())))]
    kinds = found.keys.schema.types, found.order, found.changes, sorted(found.places)
    return kinds, sorted(map(repr, zip(*columns, *every, strict=True)))


def both(engine: DuckDBEngine, compiled: CompiledQuery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count by the text of the groups with rows, and as certified."""
    fast = numbers(engine.count(compiled))
    with monkeypatch.context() as off:
        off.setattr(duckdb_engine, "FILLS_DOMAINS", False)
        assert fast == numbers(engine.count(compiled))


def agree(engine: DuckDBEngine, compiled: CompiledQuery, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether both are equal; a place that there is none of is found where counts are sealed."""
    try:
        both(engine, compiled, monkeypatch)
    except (AssertionError, OperationalError):
        return False
    return True


@pytest.mark.parametrize("rows", [0, 1, 90])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.sampled(5, rest="longer")
def test_counts_are_those_of_the_query(
    rows: int, inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: list[bool]
) -> None:
    with opened(tmp_path, rows, inside=inside) as session:
        for text in FILLED:
            both(*engine_and_query(session, text), monkeypatch)
            assert filled.pop(), text
        for text in JOINED:
            both(*engine_and_query(session, text), monkeypatch)
    assert filled == []


@pytest.mark.parametrize("inside", [False, True])
def test_units_are_counted_by_bits_of_places(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: list[bool]
) -> None:
    monkeypatch.setattr(unit_bits, "COUNTS_BITS", True)
    monkeypatch.setattr(faster, "FEWEST", 0)
    monkeypatch.setattr(faster, "SPARSEST", 1000)
    monkeypatch.setattr(duckdb_engine, "_fill_domain", lambda *_: pytest.fail("bits were not counted"))
    with opened(tmp_path, inside=inside) as session:
        for text in FILLED[:-1]:
            engine, compiled = engine_and_query(session, text)
            made = of_type(FilledDomain.of(compiled.certificate), FilledDomain)
            assert made.by_place is not None
            assert "JOIN" not in duckdb_sql(made.by_place)
            both(engine, compiled, monkeypatch)
            assert filled.pop(), text
    assert filled == []


@pytest.mark.parametrize("text", [FILLED[0], FILLED[1], FILLED[2], FILLED[6], FILLED[8]])
def test_no_key_far_from_its_range_raises(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: list[bool]
) -> None:
    """Places are computed of keys in the range alone: of others the difference may be no BIGINT."""
    monkeypatch.setattr(unit_bits, "COUNTS_BITS", True)
    monkeypatch.setattr(faster, "FEWEST", 0)
    monkeypatch.setattr(faster, "SPARSEST", 1000)
    monkeypatch.setattr(duckdb_engine, "_fill_domain", lambda *_: pytest.fail("bits were not counted"))
    with opened(tmp_path):
        pass
    rows = pq.read_table(tmp_path / "t.parquet")
    ends: dict[str, list[Any]] = {"k": [-(2**63), 2**63 - 1], "s": [-(2**15), 2**15 - 1]}
    ends["d"] = [date.min, date.max]
    far = {name: pa.array(ends.get(name, [1, 2]), rows[name].type) for name in ("u", "k", "s", "d", "x")}
    far["c"] = pa.array(["a", None], pa.string())
    more = pa.table({name: far[name] for name in rows.column_names}, schema=rows.schema)
    pq.write_table(pa.concat_tables([rows, more, more]), tmp_path / "t.parquet")
    with closing(Session(load(tmp_path / "dpsql.toml"))) as session:
        both(*engine_and_query(session, text), monkeypatch)
        assert filled == [True]


def test_the_places_are_the_public_order(tmp_path: Path, filled: list[bool]) -> None:
    with opened(tmp_path) as session:
        for text in FILLED:
            engine, compiled = engine_and_query(session, text)
            found = exact_of(engine.count(compiled))
            if found.order is not None and [name for name, _ in found.order] == [*found.places]:
                assert found.in_order().tolist() == [*range(found.size)]
    assert all(filled)


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.longer)])
def test_all_fixtures(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: list[bool]
) -> None:
    with raw_data() as raw, closing(Session(load(write(tmp_path / "whole", raw)))) as session:
        engine = of_type(session.database.engines().engine, DuckDBEngine)
        for plan in [proved(session, fixture.values[0].statement) for fixture in ACCEPTED[::every]]:
            if FilledDomain.of(plan.compiled.certificate) is not None:
                both(engine, plan.compiled, monkeypatch)
    assert len(filled) >= 2 // every
    assert all(filled)


def groups(**columns: Any) -> dict[str, Any]:
    return {name: np.ma.masked_invalid(c) if c.dtype.kind == "f" else c for name, c in columns.items()}


def _wrong_rows() -> Iterator[tuple[str, dict[str, Any]]]:
    key, number = np.array([0, 1]), np.array([5, 6])
    masked = np.ma.masked_array([5, 6], [False, True])
    yield "a number that is NULL", {"k0": key, "n0": masked}
    yield "a number of another type", {"k0": key, "n0": number.astype(np.float64)}
    yield "a place before the first", {"k0": np.array([-1, 1]), "n0": number}
    yield "a place behind the last", {"k0": np.array([0, 6]), "n0": number}
    yield "a place of another type", {"k0": np.array(["0", "1"]), "n0": number}
    yield "no place", {"k0": np.ma.masked_array([0, 1], [False, True]), "n0": number}


@pytest.mark.parametrize(("_what", "rows"), [pytest.param(w, r, id=w) for w, r in _wrong_rows()])
@pytest.mark.sampled(3, rest="longer")
def test_rows_that_are_not_as_they_must_be_make_no_counts(
    _what: str, rows: dict[str, Any], tmp_path: Path
) -> None:
    with opened(tmp_path) as session:
        text = (
            "SELECT k, COUNT(DISTINCT u) AS n FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY n DESC LIMIT 2"
        )
        compiled = engine_and_query(session, text)[1]
        made = FilledDomain.of(compiled.certificate)
        assert made is not None
        right = {"k0": np.array([0, 5]), "n0": np.array([5, 6])}
        assert made.seal_counts(right, None) is not None
        assert made.seal_counts(rows, None) is None


def test_what_fails_or_is_not_there_is_counted_as_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: list[bool]
) -> None:
    """The answer, its charge and the number of failures are those of the query alone."""
    with opened(tmp_path) as session:
        wrong = {
            "fails": "SELECT error('private 77')",
            "lacks numbers": "SELECT 1::BIGINT AS k0, NULL::BIGINT AS n0",
            "has other keys": "SELECT 77::BIGINT AS k0, 1::BIGINT AS n0",
        }
        for text in wrong.values():
            of = FilledDomain.of

            def changed(certificate: Any, text: str = text, of: Any = of) -> FilledDomain | None:
                found = of(certificate)
                if found is not None:
                    found._text = text
                return found

            with monkeypatch.context() as other:
                other.setattr(FilledDomain, "of", changed)
                other.setattr(duckdb_engine, "confirm", lambda *_: True)
                engine, compiled = engine_and_query(session, FILLED[1])
                fast = numbers(engine.count(compiled))
            with monkeypatch.context() as off:
                off.setattr(duckdb_engine, "FILLS_DOMAINS", False)
                assert fast == numbers(engine.count(compiled))
        assert not any(filled)
        assert len(filled) == 2


@pytest.mark.parametrize(
    "error",
    [duckdb.OutOfMemoryException("77"), duckdb.FatalException("77"), MemoryError("77"), ValueError("77")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.sampled(3, rest="longer")
def test_no_error_of_a_text_is_one_of_the_statement(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a fatal one, the engine runs nothing more on the database: it is opened again."""

    def fail(*_: object) -> None:
        raise error

    with opened(tmp_path) as session:
        engine, _ = engine_and_query(session, FILLED[0])
        before = dict(engine._opened)
        monkeypatch.setattr(FilledDomain, "seal_counts", fail)
        session.run(FILLED[0])
        assert session.ledger.count_failures("analyst") == 0
        assert (engine._opened != before) == isinstance(error, duckdb.FatalException)


def test_a_text_with_unknown_words_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that was not tested may plan a certified query in known words, but not the text."""

    def refuse(*_: object) -> bool:
        raise EngineNotTested("nothing was charged")

    monkeypatch.setattr(duckdb_engine, "confirm", refuse)
    monkeypatch.setattr(duckdb_engine, "_fill_domain", lambda *_: pytest.fail("it was run"))
    with opened(tmp_path) as session:
        session.run(FILLED[0])
        assert session.ledger.count_failures("analyst") == 0


def test_a_cancellation_while_a_text_is_checked_keeps_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as session:
        of = FilledDomain.of

        def cancelled(*given: Any) -> FilledDomain | None:
            session.cancel()
            return of(*given)

        monkeypatch.setattr(FilledDomain, "of", cancelled)
        with pytest.raises(Cancelled) as caught:
            session.run(FILLED[0])
        assert str(caught.value) == CANCELLED
        assert session.budget().spent.epsilon == 1
        assert session.ledger.count_failures("analyst") == 0


def test_a_failure_of_the_query_is_one_of_the_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as session:
        session.run(FILLED[1])

        def failing(*_: object) -> None:
            raise duckdb.Error("private 77")

        monkeypatch.setattr(duckdb_engine, "_fill_domain", lambda *_: None)
        monkeypatch.setattr(duckdb_engine, "_batch_rows", failing)
        with pytest.raises(StatementFailed) as raised:
            session.run(FILLED[3])
        assert "77" not in str(raised.value)
        assert session.ledger.count_failures("analyst") == 1


def test_domains_beyond_the_most_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as session:
        compiled = engine_and_query(session, FILLED[6])[1]
        assert FilledDomain.of(compiled.certificate) is not None
        monkeypatch.setattr(filled_domains, "MOST", 10)
        assert FilledDomain.of(compiled.certificate) is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda part: {"start": part.start + 1},
        lambda part: {"stop": part.stop + 1},
        lambda part: {"nullable": not part.nullable},
        lambda part: {"null": 0},
        lambda part: {"origin": part.origin and part.origin + timedelta(1)},
    ],
)
@pytest.mark.sampled(3, rest="longer")
def test_wrong_places_are_found(wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants of what is read of the candidates; the rows outside make their numbers other ones."""
    of = filled_domains._Part.of

    def mutated(each: Any) -> Any:
        part = of(each)
        return part and replace(part, **wrong(part))

    with opened(tmp_path) as session:
        plans = [engine_and_query(session, text) for text in FILLED[:5]]
        monkeypatch.setattr(filled_domains._Part, "of", mutated)
        assert not all(agree(engine, compiled, monkeypatch) for engine, compiled in plans)
