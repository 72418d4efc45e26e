"""No frame of an error holds what an analyst may not see: tools that report errors show its variables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.composition import running as running_module
from dpsql.composition.prepared import PreparedComposed, PreparedPrivate
from dpsql.dbapi.named_streams import open_unnamed
from dpsql.engines import CANCELLED, Cancelled
from dpsql.errors import Error, OperationalError
from dpsql.kernel.counts import Counts
from dpsql.policy import load
from dpsql.release import Release
from dpsql.session import Session
from tests.narrow import engine_of, of_type
from tests.support.exact import exact_of
from tests.support.world import write_world

POLICY = """
[engine]
keep = 0  # each count is the engine's
[budget]
epsilon = 100
default_epsilon = 1
max_failures = 1000
ledger = "ledger.sqlite"
[tables.visits]
source = "visits.parquet"
unit = "user_id"
[tables.visits.domain]
page.values = ["a", "b"]
page.complete = true
"""
CANARY = 4711
"""How many units there are: a number that stands nowhere else."""
TOP = (
    "SELECT page, COUNT(DISTINCT user_id) AS n, n + 1 AS m FROM visits GROUP BY page ORDER BY n DESC LIMIT 1"
)
COUNT = "SELECT COUNT(DISTINCT user_id) AS n FROM visits"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write_world(tmp_path, POLICY, visits=f"SELECT i AS user_id, 'a' AS page FROM range({CANARY}) t(i)")
    made = Session(load(tmp_path / "dpsql.toml"))
    yield made
    with contextlib.suppress(Error):
        made.close()


def contents_of(cell: CellType) -> list[object]:
    """Return what a cell of a closure holds; an empty list where its variable has no value."""
    try:
        return [] if cell.cell_contents is None else [cell.cell_contents]
    except ValueError:
        return []


def parts(value: object) -> list[object]:
    """Return what can be reached from a value in one step."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set)):
        return list(value)
    if isinstance(value, FunctionType):
        return [each for cell in value.__closure__ or () for each in contents_of(cell)]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, (ModuleType, type, Session)):
        return []
    slots = [name for name in getattr(type(value), "__slots__", ()) if name != "__weakref__"]
    fields = [getattr(value, name, None) for name in slots]
    return [*getattr(value, "__dict__", {}).values(), *fields]


def private(value: object) -> bool:
    """Whether a value is one that nobody may see."""
    if isinstance(value, (Counts, Release)):
        return True
    if isinstance(value, pa.Table):
        return any(CANARY in column.to_pylist() for column in value.columns)
    if isinstance(value, np.ndarray):
        return bool((value == CANARY).any()) if value.dtype.kind in "iuf" else False
    return isinstance(value, (int, np.integer)) and value == CANARY


def found(error: BaseException) -> list[str]:
    """Name each variable, in each frame of an error and of those behind it, that leads to what is private."""
    told, errors, seen = [], [error], set[int]()
    while errors:
        one = errors.pop()
        errors += [other for other in (one.__context__, one.__cause__) if other is not None]
        trace = one.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            trace = trace.tb_next
            if frame.f_code.co_filename == __file__:
                continue  # the test's own
            for name, value in frame.f_locals.items():
                layer, seen = [value], set()
                for _ in range(5):
                    if any(private(item) for item in layer):
                        told.append(f"{frame.f_code.co_name}: {name}")
                        break
                    seen |= {id(item) for item in layer}
                    layer = [part for item in layer for part in parts(item) if id(part) not in seen]
    return told


def method(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    kind = type(of_type(session.prepare(TOP), PreparedComposed).parts[0].method)
    true = kind.run

    def run(self: object, counts: Counts) -> object:
        true(self, counts)  # type: ignore[arg-type]
        raise error

    patch.setattr(kind, "run", run)


def tables(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    def fails(plan: object, answer: object, shown: pa.Table) -> object:
        raise error

    patch.setattr(running_module, "build_details", fails)


def writing(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    def fails(release: Release) -> bytes:
        raise error

    patch.setattr(running_module, "to_bytes", fails)


def settling(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> int:
        raise error

    patch.setattr(session.ledger, "settle_all", fails)


def counting(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    true = engine_of(session).count

    def fails(compiled: Any) -> object:
        rows = true(compiled)
        raise type(error)(rows, *error.args) if isinstance(error, ValueError) else error

    patch.setattr(engine_of(session), "count", fails)


ERRORS = [
    ValueError("4711 patients"),
    OperationalError("the ledger is full"),
    Cancelled(CANCELLED),
    KeyboardInterrupt(),
    SystemExit(1),
    MemoryError(),
]
Breaking = Callable[[Session, BaseException, pytest.MonkeyPatch], None]


@pytest.mark.parametrize("breaking", [method, tables, writing, settling, counting])
@pytest.mark.sampled(3)
def test_a_statement_that_ends_badly(
    session: Session, monkeypatch: pytest.MonkeyPatch, breaking: Breaking
) -> None:
    session.run(COUNT)
    for error in ERRORS:
        with monkeypatch.context() as patch:
            breaking(session, error, patch)
            with pytest.raises(BaseException) as caught:
                session.run(TOP)
        assert found(caught.value) == []
        assert caught.value.__context__ is None
        assert "4711" not in repr(caught.value)


def checking(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    from dpsql.kernel.mechanisms import CheckStream

    true = CheckStream.check

    def check(self: CheckStream, statistic: Fraction) -> object:
        true(self, statistic)
        raise error

    patch.setattr(CheckStream, "check", check)


def stepping(session: Session, error: BaseException, patch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    patch.setattr(session.ledger.streams, "finish", fails)


@pytest.mark.parametrize("breaking", [checking, stepping, counting])
@pytest.mark.sampled(2, rest="longer")
def test_a_stream_that_ends_badly(
    session: Session, monkeypatch: pytest.MonkeyPatch, breaking: Breaking
) -> None:
    session.run(COUNT)
    for error in ERRORS:
        stream = open_unnamed(session, 1, 1, {"tolerance": 1})
        with monkeypatch.context() as patch:
            breaking(session, error, patch)
            with pytest.raises(BaseException) as caught:
                stream.count(COUNT, 10**6)
        assert found(caught.value) == []
        assert caught.value.__context__ is None


def test_a_vetting_that_ends_badly(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in ERRORS:

        def vet(name: str, error: BaseException = error) -> bool:
            rows = engine_of(session).count(of_type(session.prepare(COUNT), PreparedPrivate).plan.compiled)
            raise error if rows else KeyError

        monkeypatch.setattr(engine_of(session), "vet", vet)
        with pytest.raises(BaseException) as caught:
            session.run(COUNT)
        assert found(caught.value) == []
        assert "4711" not in repr(caught.value)
    assert session.budget().spent.epsilon == 0


def test_the_search_finds_what_is_there(session: Session) -> None:
    space: dict[str, Any] = {}
    exec("def fails(rows):\n    kept = [{'a': (rows,)}]\n    raise ValueError", space)
    counts = engine_of(session).count(of_type(session.prepare(COUNT), PreparedPrivate).plan.compiled)
    for value in (
        counts,
        exact_of(counts).n[0],
        int(exact_of(counts).n[0][0]),
        pa.table({"n": [CANARY]}),
        lambda: counts,
    ):
        with pytest.raises(ValueError) as caught:
            space["fails"](value)
        assert found(caught.value) == ["fails: rows", "fails: kept"]
