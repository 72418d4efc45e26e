"""A further release of a number goes on from what the kernel released, as the ledger has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.errors import InternalError, StatementFailed
from dpsql.kernel import mechanisms as m
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.charged_work import ChargedWork, Paid
from dpsql.kernel.levels import Level, refined_by, split_level, with_level
from dpsql.kernel.loss import Charge, PrivacyLoss
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.noise import SystemEntropy
from dpsql.kernel.release import Run
from dpsql.kernel.tree import Select
from dpsql.ledger import Ledger, RefinementStep
from tests.kernel_trees import of_units_rows
from tests.support.exact import ample, made_up, stored_level, with_exact

QUERY = of_units_rows()
TWO = UnitChanges((NumberChange(0, 1), NumberChange(0, 1)))
FIRST = m.Laplace.plan(1, 1)
FURTHER = m.Refinement.plan(1, [1, 2], resolution=FIRST.resolution)


def run(query: Select | None = QUERY, groups: int = 1, number: int = 1000) -> Run:
    keys = pa.table({"k0": [f"g{i}" for i in range(groups)]})
    counts = made_up(keys, [np.full(groups, number)] * 2, TWO)
    return Run(with_exact(counts, order=(("k0", False),), query=query), ample())


@pytest.mark.parametrize("first", [FIRST, m.Box.plan(1, 1), m.Box.plan(1, 1, monotone=False)])
def test_a_number_is_refined_as_the_ledger_has_it(first: Mechanism[Any]) -> None:
    one = run()
    assert one.level is None
    value = one.measure(first, (1,), one.every()).value[0]
    kept = with_level(b"rows", one.level)
    assert kept is not None
    payload, level = split_level(kept, 7)
    assert payload == b"rows"
    assert level is not None
    assert refined_by(level) is None
    bits = FIRST.resolution if first is FIRST else (first.unit // first.bounds[0]).bit_length() - 1  # type: ignore[attr-defined]
    again = run()
    finer = again.refine(m.Refinement.plan(1, [1, 1000], resolution=bits), 1, level)
    assert abs(finer[0] - 1000) < 1
    assert abs(value - 1000) < 60
    assert refined_by(again.level) == 7


@pytest.mark.parametrize(
    ("level", "query", "place", "further"),
    [
        (stored_level(replace(QUERY, limit=3), FIRST, 9), QUERY, 0, FURTHER),
        (stored_level(QUERY, FIRST, 9), None, 0, FURTHER),
        (stored_level(QUERY, FIRST, 9, place=1), QUERY, 0, FURTHER),
        (stored_level(QUERY, m.Laplace.plan(1, 2), 9), QUERY, 0, FURTHER),
        (stored_level(QUERY, FIRST, 9), QUERY, 0, m.Refinement.plan(1, [2, 3], resolution=FIRST.resolution)),
        (
            stored_level(QUERY, FIRST, 9),
            QUERY,
            0,
            m.Refinement.plan(1, [1, 2], resolution=FIRST.resolution + 1),
        ),
    ],
    ids=["another query", "no query", "another number", "another noise", "another epsilon", "another grid"],
)
def test_a_level_of_something_else_is_refused_before_a_draw(
    monkeypatch: pytest.MonkeyPatch, level: Level, query: Select | None, place: int, further: m.Refinement
) -> None:
    def words(_: object, n: int) -> Any:
        raise AssertionError(f"{n} words were drawn")

    monkeypatch.setattr(SystemEntropy, "words", words)
    with pytest.raises(InternalError, match="no further level"):
        run(query).refine(further, place, level)


def test_a_number_goes_on_from_what_is_stored_and_charged_alone() -> None:
    one = run()
    one.measure(FIRST, (0,), one.every())
    assert one.level is not None
    with pytest.raises(InternalError, match="no such release"):
        run().refine(FURTHER, 0, one.level)
    with pytest.raises(InternalError, match="did not make"):
        run().refine(FURTHER, 0, Level())


def test_no_level_is_kept_of_numbers_with_other_noise() -> None:
    def kept(one: Run, mechanism: Mechanism[Any], places: tuple[int, ...] = (0,)) -> Level | None:
        one.measure(mechanism, places, one.every())
        return one.level

    assert kept(run(), m.Gaussian.plan(1, 1)) is None
    assert kept(run(), m.Laplace.plan(2, 1), (0, 1)) is None
    assert kept(run(groups=2), m.Laplace.plan(2, 1)) is None
    assert kept(run(None), FIRST) is None
    assert kept(run(), m.Laplace.plan(1, "1e-13", resolution=0)) is not None
    fine = m.Laplace.plan(1, 1, resolution=20)
    assert kept(run(), fine) is not None
    assert kept(run(number=1 << 40), fine) is None  # a DOUBLE may not be exact


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(
        tmp_path / "ledger.sqlite", policy_id="p", total=Charge(Fraction(50)), high_water=False
    ) as made:
        yield made


@contextmanager
def statement() -> Iterator[Any]:
    yield SimpleNamespace(cancelled=False, failed=False, before_end=None)


def finished(ledger: Ledger, refines: int | None, level: Level | None) -> int:
    """Charge 1 for a release, and finish it with a level; return its number."""
    step = None if refines is None else RefinementStep(refines, Fraction(2))
    held = ledger.reserve(
        analyst="ann",
        statement="s",
        selection="Scalar",
        mechanism="m",
        charge=Charge(Fraction(1)),
        refines=step,
    )
    work = ChargedWork(ledger, held, statement)
    paid = Paid("answer", Charge(Fraction(1)), b"rows", None, PrivacyLoss.of(Fraction(1)), level)
    found, _ = work.finish([lambda: paid])
    return found[0][1]


def test_the_release_that_is_refined_is_the_one_for_which_it_is_charged(ledger: Ledger) -> None:
    """Two refinements of one release would each have noise that depends on its noise."""

    def refined(level: Level) -> Level | None:
        again = run()
        again.refine(FURTHER, 0, level)
        return again.level

    one = run()
    one.measure(FIRST, (0,), one.every())
    level = ledger.release(finished(ledger, None, one.level), "ann").level
    assert level is not None
    for wrong, refines in ((refined(level), True), (refined(level), False), (one.level, True), (None, True)):
        other = finished(ledger, None, one.level)
        with pytest.raises(StatementFailed):
            finished(ledger, other if refines else None, wrong)
        ledger.clear_failures()
    third = finished(ledger, None, one.level)
    stored = ledger.release(third, "ann")
    assert stored.payload == b"rows"
    assert stored.level is not None
    fourth = finished(ledger, third, refined(stored.level))
    lineage = ledger.lineage(fourth, "ann")
    assert lineage is not None
    assert (lineage.payload, lineage.level is not None) == (b"rows", True)
