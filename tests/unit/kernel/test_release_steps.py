"""Steps that would release more than is certified, or cost more than is added up: each is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dpsql.errors import InternalError
from dpsql.kernel import mechanisms as m
from dpsql.kernel.changes import NumberChange, UnitChanges
from dpsql.kernel.check import certify
from dpsql.kernel.counts import Counts
from dpsql.kernel.loss import PrivacyLoss
from dpsql.kernel.loss.composing import Spending
from dpsql.kernel.parted import Parted, run_bins
from dpsql.kernel.release import Run
from dpsql.kernel.tree import Above, Query, plain
from tests.kernel_trees import CELLS as CELLS_OF
from tests.kernel_trees import FACTS, VISITS, both, c, count, select, there
from tests.support.exact import ample, made_up, stored_level, with_exact

ONE = NumberChange(0, 1)
LEVEL = stored_level(CELLS_OF, m.Laplace.plan(1, 1), 3)
FEW = UnitChanges((NumberChange(0, 1, 1),))
"""A unit counts in one group."""
CELLS = UnitChanges(
    (None, NumberChange(0, 1, 1)),
    declared=False,
    one_cell=True,
    every_group=True,
    grouped=((frozenset({"k0"}), 1),),
)
"""Groups have rows for their cells, with numbers of units."""


def counts(changes: UnitChanges, *numbers: list[int], keys: list[str] | None = None) -> Counts:
    names = [f"g{i}" for i in range(len(numbers[0]))] if keys is None else keys
    arrays = [np.array(each, dtype=np.int64) for each in numbers]
    return with_exact(made_up(pa.table({"k0": names}), arrays, changes), order=(("k0", False),))


def listed(*names: str) -> pa.Table:
    return pa.table({"k0": pa.array(names, pa.string())})


def run(changes: UnitChanges, *numbers: list[int], keys: list[str] | None = None, epsilon: int = 1) -> Run:
    return Run(counts(changes, *numbers, keys=keys), Spending(PrivacyLoss.of(Fraction(epsilon))))


def test_no_group_is_measured_twice_as_one() -> None:
    """Its total says what a unit changes of different groups."""
    one = run(FEW, [5, 6, 7])
    with pytest.raises(InternalError, match="twice"):
        one.every().take(np.zeros(9, dtype=np.int64))
    assert len(one.every().take(np.array([2, 0]))) == 2


def test_no_number_is_measured_twice_as_one() -> None:
    """What several numbers change together is no bound of one that is there several times."""
    known = UnitChanges((NumberChange(0, 4), NumberChange(0, 4)), together=((frozenset({0, 1}), 4, 4),))
    assert known.of((0, 1), 1).total == 4
    assert known.of((0, 0, 0), 1).total == 12


def test_a_run_has_the_changes_of_its_counts() -> None:
    known = UnitChanges((NumberChange(0, 9),))
    run = Run(counts(known, [5]), ample())
    assert run.changes is known
    with pytest.raises(InternalError, match="less than one unit"):
        run.measure(m.Laplace.plan(1, 1, sensitivity=8), (0,), run.every())


@pytest.mark.parametrize("declared", [True, False])
def test_a_number_that_is_refined_is_of_one_group(declared: bool) -> None:
    """A unit may be in each of them, and which of them is the first one is private."""
    known = UnitChanges((ONE,), declared=declared)
    with pytest.raises(InternalError, match="one group"):
        Run(counts(known, [5, 6]), ample()).refine(m.Refinement.plan(2, [1, 2]), 0, LEVEL)


def test_what_checks_are_charged_is_spent() -> None:
    one = run(UnitChanges((ONE,)), [1000])
    far, plan = [m.Statistic(((0, Fraction(1), Fraction(0)),))], m.CheckStreamPlan.plan(1, 1)
    stream = m.CheckStream(plan)
    (gap,) = one.check_all(stream, one.every(), far, 1)
    assert gap is not None
    assert one.loss.charge == stream.charge
    assert one.loss.charge.epsilon == 1
    with pytest.raises(InternalError, match="more than what is reserved"):
        one.check_all(m.CheckStream(plan), one.every(), far, 1)


def test_a_checker_costs_no_more_than_it_says() -> None:
    plan = m.CheckStreamPlan.plan(1, 1)
    taken = UnitChanges((ONE,)).of((0,), 1)
    assert plan.covers(taken)
    assert not replace(plan, loss=PrivacyLoss.of(Fraction(1, 100))).covers(taken)
    assert not replace(plan, misses=1000).covers(taken)


def test_one_unit_moves_the_number_of_a_group_of_cells_by_one() -> None:
    """A unit in a lower cell of its own would take the number of the group's first cell from 10^6 to 1."""
    plan = m.Existing.plan(1, "1e-6")
    for cells, numbers in (([5], [10**6]), ([2, 5], [1, 10**6])):
        one = Run(counts(CELLS, cells, numbers, keys=["a"] * len(cells)), ample())
        found = one.existence(plan, 1, cells=True)
        assert len(found.rows) == 1
        assert abs(found.found.value[0] - 10**6) < 100


def test_groups_of_cells_have_no_numbers_to_measure() -> None:
    own, plan = counts(CELLS, [2, 5], [1, 10**6], keys=["a", "a"]), m.Existing.plan(1, "1e-6")
    one = Run(own, ample())
    for groups in (one.groups_of_cells(), one.existence(plan, 1, cells=True).rows):
        with pytest.raises(InternalError, match="no number of its own"):
            one.measure(m.Laplace.plan(1, 1), (1,), groups)
    parted = Parted.of(Run(with_exact(own, order=None), ample()), (0,), None, 1, listed("a"))
    with pytest.raises(InternalError, match="no number of its own"):
        parted.join_rows([parted.runs[0].existence(plan, 1, cells=True).rows])


def test_nothing_is_selected_among_the_groups_that_have_rows() -> None:
    """A unit alone in a group of the domain would put it there."""
    known = UnitChanges((ONE,), declared=False)
    with pytest.raises(InternalError, match="private"):
        Run(counts(known, [5, 6]), ample()).select(m.NoisyTopK.plan(2, 1, 1), 0)


def test_which_groups_exist_is_not_selected() -> None:
    """A unit may be in any number of them, and they come in the order of the engine."""
    known = UnitChanges((ONE,), public=False, declared=False, decides=0)
    own = Run(counts(known, [10**6] * 9), ample())
    with pytest.raises(InternalError):
        own.existence(m.Existing.plan(1, "1e-6"), 0)
    with pytest.raises(InternalError):
        own.select(m.Existing.plan(1, "1e-6"), 0)


@pytest.mark.parametrize(
    "mechanism", [m.Quantile.plan(16, 1), m.Extreme.plan(16, 1)], ids=["quantile", "extreme"]
)
def test_no_cell_is_beyond_the_grid(mechanism: m.Quantile | m.Extreme) -> None:
    """It would be drawn only if it has rows, and so would the cells before it."""
    for cells, fits in ((None, False), ((0, 15), True), ((0, 16), False), ((-1, 15), False)):
        one = Run(counts(replace(CELLS, cells=cells), [3, 5], [2, 1], keys=["a", "a"]), ample())
        groups = one.groups_of_cells()
        if fits:
            assert 0 <= int(one.draw(mechanism, groups)[0, 0]) < 16
        else:
            with pytest.raises(InternalError, match="beyond"):
                one.draw(mechanism, groups)


def test_no_search_has_more_rows_than_bounds() -> None:
    """A row beyond them would make it fail where a unit is in it."""
    scores = NumberChange(0, m.FULL, m.FULL)
    known = UnitChanges((None, NumberChange(0, 1, 1), scores), one_row=True, bounds=(1, 2, 4))
    one = Run(counts(known, [0, 1], [5, 6], [0, m.FULL]), ample())
    assert 0 <= one.search(m.Ladder.plan(3, 1, sensitivity=m.FULL), 3) < 3
    with pytest.raises(InternalError, match="bounds"):
        one.search(m.Ladder.plan(2, 1, sensitivity=m.FULL), 2)


UNITS = select(VISITS, there(c("s.u")), (c("s.u"),), u=c("s.u"), a=count("s.u"))
"""One row a unit, with the number of its rows."""


def above(*ends: int, units: Query = UNITS) -> Above:
    """Return the query of how many units have more than each end."""
    return Above(units, ends)


BINS = m.Bins.plan(4, 1)


def binned(changes: UnitChanges, *queries: Query) -> list[Counts]:
    """Return the numbers of queries, each of one row."""
    sizes = [len(each.ends) if isinstance(each, Above) else 2 for each in queries]
    made = [counts(changes, *([2] for _ in range(size)), keys=["a"]) for size in sizes]
    return [with_exact(each, query=query) for each, query in zip(made, queries, strict=True)]


def test_bins_are_of_numbers_of_units() -> None:
    whole, halves = (above(0, 1, 2, 4),), (above(0, 1), above(2, 4))
    for queries in (whole, halves):
        own = UnitChanges((ONE,) * len(queries[0].ends))
        assert len(run_bins(BINS, binned(own, *queries), ample()).number) == 4
    for wrong in (
        UnitChanges((NumberChange(0, 2),) * 4),
        UnitChanges((NumberChange(-1, 1),) * 4),
        UnitChanges((None,) * 4),
        UnitChanges((ONE,) * 4, declared=False),
    ):
        with pytest.raises(InternalError, match="no numbers of units"):
            run_bins(BINS, binned(wrong, *whole), ample())


@pytest.mark.parametrize(
    "queries",
    [
        (above(0, 2, 1, 4),),
        (above(4, 2, 1, 0),),
        (above(0, 1, 2),),
        (above(0, 1, 2, 5),),
        (above(0, 1), above(1, 4)),
        (above(0, 1), above(2, 4, units=replace(UNITS, where=both(there(c("s.u")), there(c("s.c1")))))),
        (above(0, 1), plain(above(2, 4))),
    ],
    ids=["order", "descending", "few", "other", "again", "rows", "text"],
)
def test_a_unit_is_in_one_bin(queries: tuple[Query, ...]) -> None:
    """Each number counts a unit once; but a unit would change several of their differences."""
    for query in queries:
        if isinstance(query, Above):
            assert {(each.low, each.high) for each in certify(query, FACTS).numbers} == {(0, 1)}
    size = len(certify(queries[0], FACTS).numbers)
    with pytest.raises(InternalError, match="no numbers of units"):
        run_bins(BINS, binned(UnitChanges((ONE,) * size), *queries), ample())


def test_steps_of_parts_are_spent_by_the_whole_at_once() -> None:
    """Also if the groups that they release are never joined."""
    known = UnitChanges((ONE,), grouped=((frozenset({"k0"}), 1),))
    one = run(known, [5, 6])
    first, half = Parted.of(one, (0,), 1, 1), m.Laplace.plan(1, "1/2")
    for part in first.runs:
        part.measure(half, (0,), part.every())
    assert one.loss == PrivacyLoss.of(Fraction(1, 2))
    second = Parted.of(one, (0,), 1, 1)
    part = second.runs[0]
    part.measure(half, (0,), part.every())
    assert one.loss.charge.epsilon == 1
    for other in (part, first.runs[1]):
        with pytest.raises(InternalError, match="more than what is reserved"):
            other.measure(half, (0,), other.every())
    second.runs[1].measure(half, (0,), second.runs[1].every())
    joined, order = second.join_rows([each.every() for each in second.runs])
    assert len(joined) == 2
    assert order == [0, 1]
    assert one.loss.charge.epsilon == 1


def test_how_many_private_groups_a_part_has_is_not_told() -> None:
    known = UnitChanges((ONE,), public=False, declared=False, decides=0, grouped=((frozenset({"k0"}), 1),))
    one = Run(with_exact(counts(known, [5, 6, 7], keys=["a", "a", "b"]), order=None), ample())
    with pytest.raises(InternalError, match="private"):
        Parted.of(one, (0,), 2, 1, listed("a", "b"))
    assert Parted.of(one, (0,), None, 1, listed("a", "b")).sizes == (None, None)
    with pytest.raises(InternalError, match="not listed"):
        Parted.of(one, (0,), None, 1)


@pytest.mark.parametrize("names", [["a"], ["b", "a"], ["x"], ["a", "x", "y"], ["c", "b", "a", "x"]])
def test_no_list_of_partitions_makes_a_statement_fail(names: list[str]) -> None:
    """A unit alone in a partition that is not listed is left out, and changes nothing of the others."""
    known = UnitChanges((ONE,), public=False, declared=False, decides=0, grouped=((frozenset({"k0"}), 1),))
    plan = m.LimitedDomain.plan(1, 1000, "1e-9")
    for keys, numbers in ((["a", "b"], [500, 500]), (["a", "b", "c"], [500, 500, 1])):
        one = Run(counts(known, numbers, keys=keys), Spending(PrivacyLoss.of(Fraction(1000), Fraction(1, 2))))
        parted = Parted.of(one, (0,), None, 1, listed(*names))
        assert parted.sizes == (None,) * len(names)
        rows, _ = parted.join_rows([part.select(plan, 0).rows for part in parted.runs])
        assert one.keys(rows)[0].to_pylist() == sorted({"a", "b"} & {*names})


def test_a_unit_in_more_partitions_than_are_charged_is_refused() -> None:
    """How many there are is counted, and not stated: here it is in two of three."""
    known = UnitChanges((ONE,), grouped=((frozenset({"k0"}), 2),))
    hidden = replace(known, public=False, declared=False, decides=0)
    for changes, names in ((known, None), (hidden, listed("a", "b", "c"))):
        one = Run(with_exact(counts(changes, [5, 6, 7], keys=["a", "b", "c"]), order=None), ample())
        with pytest.raises(InternalError, match="more partitions than are charged"):
            Parted.of(one, (0,), None, 1, names)
        assert len(Parted.of(one, (0,), None, 2, names).runs) == 3


def test_the_place_of_a_part_does_not_tell_which_others_have_rows() -> None:
    """Parts of private keys come in any order; what is released of them in that of their keys."""
    known = UnitChanges((ONE,), public=False, declared=False, decides=0, grouped=((frozenset({"k0"}), 1),))
    plan, seen = m.LimitedDomain.plan(1, 1, "1e-9"), set[tuple[int, ...]]()
    for _ in range(60):
        one = Run(counts(known, [10**6, 1, 10**6], keys=["a", "b", "c"]), ample())
        parted = Parted.of(one, (0,), None, 1, listed("b", "c", "a"))
        found = [part.select(plan, 0).rows for part in parted.runs]
        seen.add(tuple(map(len, found)))
        rows, order = parted.join_rows(found)
        assert one.keys(rows)[0].to_pylist() == ["a", "c"]
        assert [len(found[place]) for place in order] == [1, 1, 0]
    assert seen == {(0, 1, 1), (1, 0, 1), (1, 1, 0)}
