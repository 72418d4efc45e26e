"""A mechanism takes no numbers that one unit changes by more than its noise is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsql.errors import InternalError
from dpsql.kernel import mechanisms as m
from dpsql.kernel.changes import NumberChange, Taken, UnitChanges
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.mechanisms.gaussian import rounded_squares
from dpsql.kernel.mechanisms.mechanism import Mechanism
from dpsql.kernel.noise import SystemEntropy
from dpsql.kernel.parted import Figure, Of
from dpsql.kernel.release import Run
from tests.kernel_trees import CELLS
from tests.support.exact import ample, made_up, stored_level, with_exact


def taken(
    *changes: tuple[int, int] | tuple[int, int, int | None],
    groups: int = 5,
    by_group: bool = False,
    together: int | None = None,
) -> Taken:
    return Taken(tuple(NumberChange(*each) for each in changes), groups, by_group, together)


UP, DOWN, BOTH = (0, 3), (-3, 0), (-3, 3)

CASES: dict[str, tuple[Mechanism[Any], Sequence[Taken], Sequence[Taken]]] = {
    "Laplace": (
        m.Laplace.plan(5, 1, groups_per_unit=2, sensitivity=3),
        [taken((0, 3, 6)), taken((-3, 0, 6)), taken((-2, 3, 6)), taken((0, 3), groups=2)],
        [taken((0, 3, 7)), taken((0, 4, 6)), taken((-4, 0, 6)), taken(UP), taken((0, 3, 6), (0, 1, 1))],
    ),
    "Laplace of all together": (
        m.Laplace.plan(10, 1, groups_per_unit=1, sensitivity=7),
        [taken((0, 7), (0, 7), together=7), taken((0, 9), (0, 9), together=7), taken((0, 3, 3), (0, 4, 4))],
        [taken((0, 7), (0, 7), together=8), taken((0, 3, 3), (0, 5, 5))],
    ),
    "a total": (
        m.Laplace.plan(5, 1, groups_per_unit=1, sensitivity=7, total=True),
        [taken((0, 7, 7))],
        [taken((0, 7, 8))],
    ),
    "no number": (m.Laplace.plan(0, 1), [taken((0, 3), groups=0)], [taken((0, 1), groups=1)]),
    "Box": (
        m.Box.plan(10, 1, sensitivity=[1, 3]),
        [taken((0, 1), UP, by_group=True), taken((-1, 0), DOWN, by_group=True)],
        [
            taken((0, 1), (0, 4), by_group=True),
            taken((0, 2), (0, 3), by_group=True),
            taken((-1, 0), UP, by_group=True),
            taken((0, 1), UP),
        ],
    ),
    "Box, number by number": (
        m.Box.plan(10, 1, sensitivity=[1] * 5 + [3] * 5),
        [taken((0, 1), UP)],
        [taken(UP, (0, 1)), taken((0, 1), (0, 4)), taken((0, 1), (-1, 3))],
    ),
    "a cube": (
        m.Box.plan(10, 1, sensitivity=[1, 3], monotone=False),
        [taken((-1, 1), BOTH, by_group=True)],
        [taken((-1, 1), (-4, 3), by_group=True), taken((-1, 2), BOTH, by_group=True)],
    ),
    "Gaussian": (
        m.Gaussian.plan(10, 1, groups_per_unit=4, sensitivity=[1, 3], monotone=False),
        [taken((-1, 1, 2), (-3, 3, 6), by_group=True)],
        [taken((-1, 1, 2), (-3, 3, 7), by_group=True), taken((-1, 1), BOTH, by_group=True)],
    ),
    "shared Gaussian": (
        m.Gaussian.plan(40, 1, sensitivity=3),
        [taken(UP, groups=40), taken((-1, 2), groups=40)],
        [taken((0, 4), groups=40), taken((-1, 3), groups=40)],
    ),
    "rounded Gaussian": (
        m.Gaussian.plan(4, "1e-9", groups_per_unit=1, sensitivity=1 << 40, monotone=False),
        [taken((0, 1 << 40, 1 << 40), groups=4)],
        [taken((0, 1 << 40, (1 << 40) + (1 << 30)), groups=4), taken((0, 1 << 41, 1 << 41), groups=4)],
    ),
    "NoisyTopK": (
        m.NoisyTopK.plan(9, 2, 1, sensitivity=3),
        [taken(UP), taken((-1, 2)), taken(DOWN)],
        [taken((0, 4)), taken((-1, 3))],
    ),
    "NoisyTopK of differences": (
        m.NoisyTopK.plan(9, 2, 1, sensitivity=3, monotone=False),
        [taken(BOTH)],
        [taken((-4, 3))],
    ),
    "one group": (m.NoisyTopK.plan(1, 2, 1), [taken((-9, 9))], []),
    "HybridTopK": (m.HybridTopK.plan(9, 4, 2, 1, sensitivity=3), [taken(UP)], [taken((0, 4)), taken(BOTH)]),
    "Exponential": (m.Exponential.plan(9, 1, sensitivity=3), [taken(UP)], [taken((0, 4)), taken((-1, 3))]),
    "PeeledTopK": (m.PeeledTopK.plan(9, 2, 1, sensitivity=3), [taken(UP)], [taken((0, 4)), taken((-1, 3))]),
    "GumbelTopK": (m.GumbelTopK.plan(9, 2, 1, sensitivity=3), [taken(UP)], [taken((0, 4)), taken((-1, 3))]),
    "Joint": (m.Joint.plan(9, 2, 1, sensitivity=3), [taken(UP)], [taken((0, 4)), taken((-1, 3))]),
    "LimitedDomain": (
        m.LimitedDomain.plan(2, 1, "1e-6", sensitivity=3),
        [taken(UP)],
        [taken((0, 4)), taken((-1, 2))],
    ),
    "LimitedThenStable": (
        m.LimitedThenStable.plan(2, 1, "1e-6", sensitivity=3),
        [taken(UP)],
        [taken((0, 4)), taken((-1, 2))],
    ),
    "TopStable": (
        m.TopStable.plan(2, 1, "1e-6", candidates=4, sensitivity=3),
        [taken(UP)],
        [taken((0, 4)), taken((-1, 2))],
    ),
    "Existing": (
        m.Existing.plan(1, "1e-6", groups_per_unit=2),
        [taken((0, 1, 2), groups=1 << 40)],
        [taken((0, 1, 3), groups=1 << 40), taken((0, 2, 2)), taken((-1, 1, 2)), taken((0, 1))],
    ),
    "AdaptiveSparseVector": (
        m.AdaptiveSparseVector.plan(9, 4, 2, 1, sensitivity=3),
        [taken(UP), taken(DOWN)],
        [taken((0, 4)), taken((-1, 3))],
    ),
    "AdaptiveSparseVector of differences": (
        m.AdaptiveSparseVector.plan(9, 4, 2, 1, sensitivity=3, monotone=False),
        [taken(BOTH)],
        [taken((-4, 3))],
    ),
    "SparseVectorByRounds": (
        m.SparseVectorByRounds.plan(9, 4, 3, 1, sensitivity=3),
        [taken(UP)],
        [taken((0, 4)), taken((-1, 3))],
    ),
    "HybridSparseVector": (
        m.HybridSparseVector.plan(9, 4, 2, 1, sensitivity=3),
        [taken(UP)],
        [taken((0, 4)), taken((-1, 3))],
    ),
    "Quantile": (
        m.Quantile.plan(64, 1, quantiles=["1/4", "1/2"], rows_per_unit=3),
        [taken((0, 3, 3))],
        [taken((0, 3, 4)), taken((-1, 3, 3)), taken(UP)],
    ),
    "Extreme": (
        m.Extreme.plan(64, 1, groups_per_unit=2),
        [taken((0, 1, 2))],
        [taken((0, 1, 3)), taken((0, 2, 2)), taken((-1, 1, 2))],
    ),
    "Ladder": (m.Ladder.plan(9, 1, sensitivity=3), [taken(UP)], [taken((0, 4)), taken((-1, 3))]),
    "Ladder, capped": (
        m.Ladder.plan(9, 1, sensitivity=3, capped=True),
        [taken(UP)],
        [taken((0, 4)), taken((-1, 3))],
    ),
    "Refinement": (
        m.Refinement.plan(1, [1, 2], sensitivity=3),
        [taken(UP, groups=1), taken(BOTH, groups=1)],
        [taken((0, 4), groups=1)],
    ),
    "CheckStreamPlan": (m.CheckStreamPlan.plan(1, 2), [taken((-1, 1))], [taken((-2, 1)), taken((0, 2))]),
    "Bins": (m.Bins.plan(16, 1), [taken((0, 1, 1))], [taken((0, 1, 2))]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_planned_for_is_taken_and_no_more(name: str) -> None:
    mechanism, within, beyond = CASES[name]
    assert [mechanism.covers(each) for each in within] == [True] * len(within)
    assert [mechanism.covers(each) for each in beyond] == [False] * len(beyond)


def test_every_mechanism_says_what_it_takes() -> None:
    """One that does not say it takes nothing, so a statement that uses it is refused."""

    def kinds(base: type[Any]) -> set[type[Any]]:
        return {base, *(kind for each in base.__subclasses__() for kind in kinds(each))}

    own = [
        kind
        for kind in kinds(Mechanism)
        if kind.__module__.startswith("dpsql.kernel.") and hasattr(kind, "plan")
    ]
    assert len(own) > 20
    silent = {kind.__name__ for kind in own if kind.covers is Mechanism.covers}
    assert silent == set()
    tried = {type(mechanism).__name__ for mechanism, _, _ in CASES.values()}
    assert {kind.__name__ for kind in own} - tried <= {"FirstStable", "StableAnswers", "SparseVectorPlan"}


@pytest.mark.parametrize(
    ("groups", "most", "total"), [(3, 4, 9), (2, 3, 100), (4, 5, 5), (3, 1, 2), (3, 2, 7)]
)
def test_squares_of_rounded_changes_are_at_most_what_is_said(groups: int, most: int, total: int) -> None:
    """All changes of counts that are rounded to multiples of 4, by whole numbers, from any remainders."""
    shift, totals = 4, {0: 0}
    for _ in range(groups):
        more: dict[int, int] = {}
        for spent, squares in totals.items():
            for change in range(min(most * shift, total * shift - spent) + 1):
                moved = -(
                    -change // shift
                )  # rounding moves by no more than this, and by as much for some count
                at = spent + change
                more[at] = max(more.get(at, 0), squares + moved * moved)
        totals = more
    worst = max(totals.values())
    assert worst <= rounded_squares(groups, most, total)
    assert rounded_squares(groups, most, total) <= worst + groups * 2 * most


def run_on(changes: UnitChanges, numbers: int = 1, groups: int = 9) -> Run:
    keys = pa.table({"k0": [f"g{i}" for i in range(groups)]})
    counts = made_up(keys, [np.arange(groups)] * numbers, changes)
    return Run(with_exact(counts, order=(("k0", False),), query=CELLS), ample())


REFUSED = "less than one unit is known to change"


@pytest.mark.parametrize("always", [False, True], ids=["as it is", "a mechanism that takes anything"])
def test_nothing_is_drawn_for_less_than_is_known(monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    """Each verb asks, before a random word is read; with a mechanism that takes anything, it draws."""
    drawn: list[int] = []
    rising = m.CheckStream(m.CheckStreamPlan.plan(1, 1, direction="UP"))
    falls = m.Statistic(((0, Fraction(-1), Fraction(0)),))

    def words(_: object, n: int) -> Any:
        drawn.append(n)
        raise RuntimeError("a word was drawn")

    monkeypatch.setattr(SystemEntropy, "words", words)
    wide = UnitChanges((NumberChange(0, 2, 100),))
    unknown = UnitChanges((NumberChange(0, 2, 100),), public=False, declared=False, decides=0)
    cells = UnitChanges(
        (None, NumberChange(0, 2, 100), NumberChange(0, 2, 100)), every_group=True, cells=(0, 15)
    )
    searched = UnitChanges((None, NumberChange(0, 2, 2), NumberChange(0, 9)), one_row=True, bounds=(1,) * 9)
    nine = m.Laplace.plan(9, 1, groups_per_unit=1)
    run, hidden, celled = run_on(wide), run_on(unknown), run_on(cells, 3)
    first = stored_level(CELLS, m.Laplace.plan(1, 1, resolution=0), 3)
    steps: list[Callable[[], object]] = [
        lambda: run.measure(nine, (0,), run.every()),
        lambda: run.measure_apart([(nine, (0,))], run.every()),
        lambda: run.measure(m.Box.plan(9, 1), (0,), run.every(), by_group=True),
        lambda: run.select(m.NoisyTopK.plan(9, 2, 1), 0),
        lambda: run.select(m.HybridTopK.plan(9, 2, 2, 1), 0),
        lambda: hidden.select(m.LimitedDomain.plan(2, 1, "1e-6"), 0),
        lambda: hidden.existence(m.Existing.plan(1, "1e-6"), 0),
        lambda: celled.draw(m.Quantile.plan(16, 1), celled.groups_of_cells()),
        lambda: run_on(searched, 3).search(m.Ladder.plan(9, 1, sensitivity=m.FULL), 9),
        lambda: run_on(wide, groups=1).refine(m.Refinement.plan(1, [1, 2], resolution=0), 0, first),
        lambda: run.check_all(rising, run.every(), [falls] * 9, 1),
    ]
    if always:
        for kind in {type(mechanism) for mechanism, _, _ in CASES.values()}:
            monkeypatch.setattr(kind, "covers", lambda *_: True)
    for step in steps:
        if always:
            with pytest.raises(RuntimeError, match="drawn"):
                step()
        else:
            with pytest.raises(InternalError, match=REFUSED):
                step()
    assert bool(drawn) is always


def test_a_step_beyond_what_is_reserved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pa.table({"k0": ["a", "b", "c"]})
    counts = made_up(keys, [np.arange(3)], UnitChanges((NumberChange(0, 1, 1),)))
    run = Run(counts, Spending(PrivacyLoss.of(Fraction(1))))
    half = m.Laplace.plan(3, "1/2", groups_per_unit=1)
    assert run.loss == PrivacyLoss()
    for _ in range(2):
        run.measure(half, (0,), run.every())
    assert run.loss == PrivacyLoss.of(Fraction(1, 2)) + PrivacyLoss.of(Fraction(1, 2))

    def words(_: object, n: int) -> Any:
        raise AssertionError("a word was drawn")

    monkeypatch.setattr(SystemEntropy, "words", words)
    for step in (
        lambda: run.measure(half, (0,), run.every()),
        lambda: run.measure_apart([(half, (0,))], run.every()),
        lambda: run.select(m.NoisyTopK.plan(3, 1, "1/2"), 0),
    ):
        with pytest.raises(InternalError, match="more than what is reserved"):
            step()
    assert run.loss.charge.epsilon == 1


def test_several_mechanisms_are_admitted_together() -> None:
    counts = made_up(pa.table({"k0": ["a"]}), [np.arange(1)], UnitChanges((NumberChange(0, 1),)))
    run = Run(counts, Spending(PrivacyLoss.of(Fraction(1))))
    part = m.Laplace.plan(1, "2/3")
    with pytest.raises(InternalError, match="more than what is reserved"):
        run.measure_apart([(part, (0,)), (part, (0,))], run.every())
    assert run.loss == PrivacyLoss()


BOUNDS = (1, 2, 4, 8, 16)
SEARCH = UnitChanges((None, NumberChange(0, 1), NumberChange(0, m.FULL)), one_row=True, bounds=BOUNDS, fine=2)


@pytest.mark.parametrize(
    ("of", "times", "size", "ends"),
    [
        (Of.CLIPPED, 1, 1, (-4, 4)),
        (Of.CLIPPED, 1, 2, (-2, 2)),
        (Of.EXCESS, 1, 1, (0, 4)),
        (Of.EXCESS, 3, 1, (0, 12)),
        (Of.EXCESS, 3, 2, (0, 6)),
        (Of.EXCESS, 0, 1, (0, 0)),
        (Of.LEAD, 1, 1, (-4, 4)),
    ],
)
def test_figures_move_by_their_bound(of: Of, times: int, size: int, ends: tuple[int, int]) -> None:
    figure = Figure(of, 0, BOUNDS, 2, times, Fraction(size), 2)
    change = figure.change(SEARCH, signed=True)
    assert (change.low, change.high) == ends
    assert (figure.change(SEARCH, signed=False).low < 0) == (of is Of.LEAD)


@pytest.mark.parametrize("of", Of)
def test_figures_of_other_bounds_than_those_of_the_search_are_refused(of: Of) -> None:
    others = (replace(SEARCH, bounds=BOUNDS[1:]), replace(SEARCH, bounds=()), replace(SEARCH, fine=4))
    for search in others[: 2 if of is Of.EXCESS else 3]:
        with pytest.raises(InternalError, match="no bounds of the search"):
            Figure(of, 0, BOUNDS, 2, fine=2).change(search, signed=True)
    with pytest.raises(InternalError, match="whole number of steps"):
        Figure(of, 0, BOUNDS, 2, size=Fraction(3), fine=2).change(SEARCH, signed=True)


def test_figures_move_by_no_more_than_is_said() -> None:
    """Every unit with -16 to 16: what it adds to the figures of each bound."""
    for bound in range(len(BOUNDS) - 1):
        figures = [Figure(of, 0, BOUNDS, bound) for of in Of]
        said = [each.change(replace(SEARCH, fine=None), signed=True) for each in figures]
        for own in range(-BOUNDS[-1], BOUNDS[-1] + 1):
            row = sum(abs(own) > each for each in BOUNDS)
            past = abs(own) - BOUNDS[row - 1] if row else 0
            sums = (row, 1, 0, own, past, int(own < 0), past if own > 0 else -past)
            bins = m.RungBins(*(np.array([each]) for each in sums))
            for figure, change in zip(figures, said, strict=True):
                assert change.low <= figure.exact(bins) <= change.high
