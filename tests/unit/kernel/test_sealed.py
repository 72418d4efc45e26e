"""No module outside the kernel can read exact counts: nothing that it returns leads to them."""

from __future__ import annotations

import ast
import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsql
from dpsql.errors import InternalError
from dpsql.kernel import mechanisms as m
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.counts import Counts
from dpsql.kernel.kept import KeptCopy
from dpsql.kernel.parted import Figure, Of, Parted, join_runs, run_of_figures
from dpsql.kernel.release import Rows, Run
from dpsql.kernel.sealed import unseal
from tests.kernel_trees import CELLS
from tests.support.exact import ample, exact_of, made_up, stored_level, with_exact
from tests.unit.test_imports import statements

CANARIES = 7_310_001 + 97 * np.arange(12)
"""Counts of 7 digits that stand nowhere else."""
KEYS = [f"{'ab'[i % 2]}{7_411_003 + i}" for i in range(12)]
"""Keys, of which only those of released groups may be seen."""
ORDER = (("k0", False),)
UNITS = NumberChange(0, 1, 12)


def reach(value: object, seen: set[int], depth: int = 0) -> Iterator[object]:
    """Yield what can be reached from a value by attributes, slots, closures and elements."""
    if id(value) in seen or depth > 40 or isinstance(value, (ModuleType, type, str, bytes)):
        return
    seen.add(id(value))
    yield value
    inner: list[object] = []
    if isinstance(value, dict):
        inner += [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner += value
    elif isinstance(value, FunctionType):
        inner += [cell.cell_contents for cell in value.__closure__ or ()]
        inner += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif isinstance(value, MethodType):
        inner += [value.__self__, value.__func__]
    elif isinstance(value, np.ndarray) and value.base is not None:
        inner.append(value.base)
    inner += vars(value).values() if hasattr(value, "__dict__") else ()
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__weakref__", "__dict__"):
                inner.append(getattr(value, name, None))
    for each in inner:
        yield from reach(each, seen, depth + 1)


def shows(value: object, private: set[Any]) -> bool:
    """Whether a value is, or holds, a private number or key."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf" and bool(
            np.isin(value, [p for p in private if isinstance(p, int)]).any()
        )
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return bool(private & {*value.to_pylist()})
    if isinstance(value, pa.Table):
        return any(shows(column, private) for column in value.columns)
    if isinstance(value, (int, float, str, np.integer)):
        return value in private
    return False


def leaks(*values: object, known: tuple[str, ...] = ()) -> list[object]:
    """Return what of some values is private: exact numbers, keys but for some, and orders of an engine."""
    private: set[Any] = {*CANARIES.tolist(), *KEYS} - {*known}
    seen = {id(CANARIES), id(KEYS)}
    return [each for value in values for each in reach(value, seen) if shows(each, private)]


def counts(changes: UnitChanges, *columns: np.ndarray, keys: list[str] | None = None) -> Counts:
    table = pa.table({"k0": KEYS if keys is None else keys})
    return with_exact(made_up(table, [c.copy() for c in columns or (CANARIES,)], changes), order=ORDER)


def steps() -> dict[str, Callable[[], tuple[object, ...]]]:
    """Return steps of each kind, with the keys of what they released."""
    public = UnitChanges((UNITS,))
    unknown = UnitChanges((UNITS,), public=False, declared=False, decides=0)
    cells = UnitChanges((None, UNITS, UNITS), one_cell=True, every_group=True, cells=(0, 15))
    numbers = (NumberChange(0, m.FULL),) * 4
    searched = UnitChanges((None, NumberChange(0, 1), *numbers), one_row=True, bounds=(1, 2, 4, 8))
    bins = [np.array([0, 1, 2]), *(CANARIES[:3] + i for i in range(4))]
    run = Run(counts(public), ample())
    hidden, celled = (
        Run(counts(unknown), ample()),
        Run(counts(cells, np.arange(12), CANARIES, CANARIES), ample()),
    )
    search = Run(counts(searched, *bins, keys=KEYS[:3]), ample())
    one = Run(with_exact(counts(public, CANARIES[:1], keys=KEYS[:1]), query=CELLS), ample())
    first = stored_level(CELLS, m.Laplace.plan(1, "1/9", resolution=0), 3)
    finer = m.Refinement.plan(1, ["1/9", "1/8"], resolution=0)
    noise = m.Laplace.plan(12, "1/1000", groups_per_unit=1, sensitivity=12)

    def parted() -> tuple[object, ...]:
        prefix = pa.table({"k0": [key[0] for key in KEYS], "k1": KEYS})
        whole = Run(with_exact(run.counts, keys=prefix, order=(("k1", False),)), ample())
        made = Parted.of(whole, (0,), 6, 2)
        chosen = [each.select(m.NoisyTopK.plan(6, 1, "1/1000"), 0) for each in made.runs]
        rows = made.join_rows([each.rows for each in chosen])
        return made, chosen, rows, whole

    checks, statistic = m.CheckStreamPlan.plan("1/1000", 1), m.Statistic(((0, Fraction(1), Fraction(-4)),))
    figure = Figure(Of.CLIPPED, 0, (1, 2, 4, 8), 1)
    return {
        "counts": lambda: (run, run.counts, KeptCopy.of(run.counts, 10**6)),
        "all groups": lambda: (run, run.measure(noise, (0,), run.every()), run.every()),
        "apart": lambda: (run, run.measure_apart([(noise, (0,))], run.every())),
        "one noise": lambda: (run, run.measure(m.Box.plan(12, "1/1000"), (0,), run.every(), by_group=True)),
        "a selection": lambda: (run, run.select(m.NoisyTopK.plan(12, 3, "1/1000"), 0)),
        "a scan": lambda: (run, run.select(m.AdaptiveSparseVector.plan(12, 9, 2, "1/1000"), 0)),
        "undeclared keys": lambda: (hidden, hidden.select(m.LimitedDomain.plan(2, "1/1000", "1/10"), 0)),
        "existence": lambda: (
            hidden,
            hidden.existence(m.Existing.plan("1/1000", "1/10", groups_per_unit=12), 0),
        ),
        "cells": lambda: (
            celled,
            celled.draw(m.Quantile.plan(16, 1, rows_per_unit=12), celled.groups_of_cells()),
        ),
        "partitions": parted,
        "a search": lambda: (search, search.search(m.Ladder.plan(4, 1, sensitivity=m.FULL), 4)),
        "figures": lambda: (run_of_figures([search], [figure], ample(), ()),),
        "a refinement": lambda: (one, one.refine(finer, 0, first)),
        "a check": lambda: (one, one.check_all(m.CheckStream(checks), one.every(), [statistic], 1)),
    }


@pytest.mark.parametrize("name", steps())
def test_nothing_that_a_step_returns_leads_to_what_is_counted(name: str) -> None:
    """A noisy number is a group's true one by chance once in two hundred runs; a leak is there each time."""
    assert leaks(*steps()[name]()) == [] or leaks(*steps()[name]()) == []


def test_the_search_for_leaks_finds_them() -> None:
    run = Run(counts(UnitChanges((UNITS,))), ample())
    exact = exact_of(run.counts)
    for value in (exact, [exact.n], lambda: exact.keys, {"a": int(exact.n[0][3])}, exact.keys.column("k0")):
        assert leaks(value) != []
    assert leaks(run.keys(run.every().take(slice(2)))) != []
    assert leaks(run.keys(run.every().take(slice(2))), known=(KEYS[0], KEYS[2])) == []


def test_what_is_sealed_is_not_shown_nor_copied() -> None:
    run = Run(counts(UnitChanges((UNITS,))), ample())
    for value in (run.counts, run.every(), KeptCopy.of(run.counts, 10**6)):
        assert repr(value).endswith("(...)")
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(InternalError, match="cannot be copied"):
                act(value)
    assert repr(run) == "Run(...)"
    with pytest.raises(InternalError, match="did not make"):
        unseal(Counts())


@pytest.mark.parametrize("name", [name for name in steps() if name != "counts"])
def test_no_frame_of_an_error_holds_what_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a mechanism raises, and whatever it has in its frames."""
    made = steps()[name]
    kinds = [kind for kind in vars(m).values() if isinstance(kind, type) and hasattr(kind, "plan")]

    def fails(self: object, given: object, *_: object, **__: object) -> object:
        kept = [given, copy.copy(given)]
        raise ValueError("a mechanism") if kept else KeyError

    for kind in kinds:
        for act in ("run", "again"):
            if hasattr(kind, act):
                monkeypatch.setattr(kind, act, fails)
    monkeypatch.setattr(m.CheckStream, "check", fails)
    monkeypatch.setattr(m.RungBins, "clipped", fails)
    with pytest.raises(ValueError, match="a mechanism") as caught:
        made()
    error: BaseException | None = caught.value
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename != __file__:
                assert leaks(dict(trace.tb_frame.f_locals)) == []
            assert trace.tb_frame.f_code is not fails.__code__
            trace = trace.tb_next
        error = error.__context__


def test_rows_that_no_step_released_are_refused() -> None:
    public, unknown = UnitChanges((UNITS,)), UnitChanges((UNITS,), public=False, declared=False, decides=0)
    run, other, hidden = (Run(counts(changes), ample()) for changes in (public, public, unknown))
    noise = m.Laplace.plan(12, 1, groups_per_unit=1, sensitivity=12)
    with pytest.raises(InternalError, match="not released of these counts"):
        run.measure(noise, (0,), other.every())
    with pytest.raises(InternalError, match="not released of these counts"):
        run.keys(other.every())
    with pytest.raises(InternalError, match="did not make"):
        run.keys(Rows())
    for refused in (hidden.every, hidden.groups_of_cells):
        with pytest.raises(InternalError, match="which groups there are"):
            refused()
    chosen = hidden.existence(m.Existing.plan(1000, "1/10", groups_per_unit=12), 0).rows
    assert len(hidden.keys(chosen)[0]) == len(chosen) == 12
    with pytest.raises(IndexError):
        chosen.take(np.array([12]))


def test_only_what_decides_on_groups_selects_undeclared_ones() -> None:
    changes = UnitChanges((UNITS, UNITS), public=False, declared=False, decides=0)
    run = Run(counts(changes, CANARIES, CANARIES), ample())
    limited = m.LimitedDomain.plan(2, 1, "1/10")
    for refused in (
        lambda: run.select(limited, 1),
        lambda: run.existence(m.Existing.plan(1, "1/10", groups_per_unit=12), 1),
    ):
        with pytest.raises(InternalError, match="another number decides"):
            refused()
    with pytest.raises(InternalError, match="takes groups of a public domain"):
        run.select(m.NoisyTopK.plan(12, 2, 1), 0)
    assert len(run.select(limited, 0).rows) <= 2


def test_a_mechanism_that_needs_more_of_the_largest_groups_is_refused() -> None:
    """The cutoff is above the largest group that is left out: one that is not listed would be above it."""
    for listed, refused in ((20, True), (21, False), (None, False)):
        changes = UnitChanges((UNITS,), public=False, declared=False, decides=0, listed=listed)
        run = Run(counts(changes), ample())
        mechanism = m.LimitedDomain.plan(2, 1, "1/10", candidates=20)
        if refused:
            with pytest.raises(InternalError, match="too few of the largest groups"):
                run.select(mechanism, 0)
        else:
            run.select(mechanism, 0)
    with pytest.raises(InternalError, match="too few of the largest groups"):
        Run(
            counts(UnitChanges((UNITS,), public=False, declared=False, decides=0, listed=9)), ample()
        ).existence(m.Existing.plan(1, "1/10", groups_per_unit=12), 0)


def test_numbers_of_several_groups_are_not_joined() -> None:
    run = Run(counts(UnitChanges((UNITS,))), ample())
    with pytest.raises(InternalError, match="not of one group"):
        join_runs(run, run)


# --- the sources of dpsql -----------------------------------------------------------------------------------

DOORS = {"unseal", "_CONTENTS", "exact", "Exact", "positions_of", "released_at", "level_of", "split_level"}
DOORS |= {"groups_of", "numbers_at", "open_numbers", "counted_later", "FewCounts"}
"""What reads sealed contents, or makes rows and levels: names of modules of the kernel."""
SEALED = {f"dpsql.kernel.{name}" for name in ("sealed", "counts", "release", "kept", "levels", "rows_first")}


def opened(source: str) -> list[str]:
    """Return by which names a module could read what is sealed."""
    found = []
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in SEALED:
            found += [alias.name for alias in node.names if alias.name in DOORS or alias.name == "*"]
        if isinstance(node, ast.ImportFrom) and node.module == "dpsql.kernel":
            found += [alias.name for alias in node.names if f"dpsql.kernel.{alias.name}" in SEALED]
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in SEALED]
    return found


def test_no_module_outside_the_kernel_reads_exact_numbers() -> None:
    folder = Path(dpsql.__file__).parent
    outside = [path for path in folder.rglob("*.py") if (folder / "kernel") not in path.parents]
    assert len(outside) > 300
    found = {str(path): opened(path.read_text("utf-8")) for path in outside}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from dpsql.kernel.counts import exact",
        "from dpsql.kernel.sealed import unseal as f",
        "def f():\n    from dpsql.kernel.release import positions_of",
        "import dpsql.kernel.counts",
        "from dpsql.kernel import sealed",
        "from dpsql.kernel.counts import *",
        "from dpsql.kernel.levels import split_level",
    ],
)
def test_a_door_is_found(source: str) -> None:
    assert opened(source) != []
    assert opened("from dpsql.kernel.counts import Counts\nfrom dpsql.kernel.release import Run") == []


def test_methods_of_answers_take_no_counts() -> None:
    """They propose steps: no function of these packages has counts, or reads an attribute of them."""
    folder, found = Path(dpsql.__file__).parent, []
    paths = [*(folder / "planning").rglob("*.py"), *(folder / "composition").rglob("*.py")]
    assert {path.parent.name for path in paths} >= {"planning", "composition"}
    for path in paths:
        if path.name == "planned_count.py":
            continue  # which hands counts to the kernel
        tree = ast.parse(path.read_text("utf-8"))
        names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
        imported = [a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names]
        found += [path.name for name in (*names, *imported) if name in ("Counts", "KeptCopy", "unseal")]
    assert found == []
    assert "dpsql.kernel.sealed" in sys.modules
