"""Sets of values against brute force over a few values, and what is written of them."""

from __future__ import annotations

import datetime as clock
import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from dpsql.estimates.reports.column_atoms import ColumnAtoms
from dpsql.estimates.reports.marginals import Axis, Marginal
from dpsql.estimates.value_sets import ValueSet, are_apart, unite
from tests.unit.estimates.reports.listed_cells import axis_of_ranges

WHOLE = [*range(-1, 9), None]
TEXTS = ["", "a", "ab", "b", "c", "d", None]


def draw_set(random: Random, values: list[Any]) -> tuple[ValueSet, set[Any]]:
    kind = random.choice(("values", "range", "others", "everything"))
    chosen = [value for value in values if random.random() < 0.4]
    if kind == "everything":
        return ValueSet.everything(), set(values)
    if kind == "range":
        low, high = sorted(random.sample([value for value in values if value is not None], 2))
        low, high = random.choice(((low, high), (None, high), (low, None)))
        closed = random.random() < 0.5
        found = {
            value
            for value in values
            if value is not None
            and (low is None or low <= value)
            and (high is None or value < high or (closed and value == high))
        }
        return ValueSet.of_range(low, high, closed=closed), found
    listed = ValueSet.of_values(chosen)
    return (listed, set(chosen)) if kind == "values" else (listed.complement(), set(values) - set(chosen))


@pytest.mark.parametrize("values", [WHOLE, TEXTS], ids=["whole", "texts"])
def test_sets_are_those_of_their_values(values: list[Any]) -> None:
    random = Random(1)
    for _ in range(600):
        (one, mine), (other, theirs) = draw_set(random, values), draw_set(random, values)
        for made, found in (
            (one & other, mine & theirs),
            (one | other, mine | theirs),
            (one - other, mine - theirs),
            (unite([one, other, one]), mine | theirs),
        ):
            assert {value for value in values if value in made} == found
        assert not (one <= other) or mine <= theirs
        assert one <= one | other
        assert are_apart([one, other]) == (not (one & other))


def test_whole_numbers_and_dates_have_a_next_value() -> None:
    assert ValueSet.of_values([3, 4, 5]) == ValueSet.of_range(3, 6) == ValueSet.of_range(3, 5, closed=True)
    days = [clock.date(2026, 1, 31), clock.date(2026, 2, 1)]
    assert ValueSet.of_values(days) == ValueSet.of_range(days[0], clock.date(2026, 2, 2))
    assert ValueSet.of_values([1.0, 2.0]) != ValueSet.of_range(1.0, 2.0, closed=True)
    assert ValueSet.of_values([False, True]) == ValueSet.of_range(0, 2)


@pytest.mark.parametrize("values", [WHOLE, TEXTS], ids=["whole", "texts"])
def test_values_are_of_one_atom_where_no_set_tells_them_apart(values: list[Any]) -> None:
    random = Random(2)
    for _ in range(200):
        sets = [draw_set(random, values) for _ in range(random.randint(1, 5))]
        universe, there = draw_set(random, values)
        if not there:
            continue
        atoms = ColumnAtoms.of([each for each, _ in sets], universe)
        alone = [ValueSet.of_values([value]) & universe for value in values]
        touched = [atoms.locate([each])[0][0] for each, _ in sets]
        kinds = {tuple(value in members for _, members in sets) for value in there}
        assert atoms.size >= len(kinds)
        for (each, _), row in zip(sets, touched, strict=True):
            whole, cut = atoms.locate([each])
            assert not cut.any()
            assert (whole[0] == row).all()
        for value, one in zip(values, alone, strict=True):
            if value in there:
                # It is in the atom that all sets with it have, and in no other.
                rows = [row for (_, members), row in zip(sets, touched, strict=True) if value in members]
                others = [
                    row for (_, members), row in zip(sets, touched, strict=True) if value not in members
                ]
                kept = [
                    all(row[i] for row in rows) and not any(row[i] for row in others)
                    for i in range(atoms.size)
                ]
                assert sum(kept) == 1, one


def test_a_large_domain_has_as_many_atoms_as_sets_tell_apart() -> None:
    large = ColumnAtoms.of([ValueSet.of_range(10, 20)], ValueSet.of_range(0, 1_000_000))
    small = ColumnAtoms.of([ValueSet.of_range(10, 20)], ValueSet.of_range(0, 100))
    assert large.size == small.size == 2
    names = ValueSet.of_values([f"n{i:05}" for i in range(20_000)])
    listed = ColumnAtoms.of([ValueSet.of_values(["n00003", "n00004"])], names)
    assert listed.size == 2
    assert len(listed.cuts) == 4


def test_sets_with_the_same_values_of_the_domain_are_one() -> None:
    universe = ValueSet.of_values(["a", "b", "c", "d"])
    atoms = ColumnAtoms.of([ValueSet.of_values(["b", "c"])], universe)
    same = [ValueSet.of_range("b", "d"), ValueSet.of_range("aa", "c", closed=True)]
    whole, cut = atoms.locate(same)
    assert whole.sum(axis=1).tolist() == [1, 1]
    assert not cut.any()
    assert atoms.locate([ValueSet.of_values(["b"])])[1].all()


def test_sets_without_a_value_of_the_domain_have_no_atom() -> None:
    atoms = ColumnAtoms.of([ValueSet.of_range(5, 7)], ValueSet.of_range(0, 3))
    assert atoms.size == 1
    assert not atoms.locate([ValueSet.of_range(5, 7)])[0].any()
    nothing = ColumnAtoms.of([ValueSet.of_range(5, 7)], ValueSet.of_values([]))
    whole, cut = nothing.locate([ValueSet.of_range(5, 7), ValueSet.everything()])
    assert whole.shape == (2, 0)
    assert not cut.any()


def test_a_marginal_is_written_exactly() -> None:
    moment = clock.datetime(2026, 1, 5, 12, 30)
    marginal = Marginal(
        (
            Axis.of_groups("text", ["a", "ü", None]),
            axis_of_ranges("day", [clock.date(2026, 1, 5), clock.date(2026, 1, 12)], ["W02"]),
            Axis.of_condition("number", ValueSet.of_range(0.1, None), "0.1 or more"),
            Axis.of_condition("price", ValueSet.of_values([Decimal("1.10")]), "1.10"),
            Axis.of_condition("moment", ValueSet.of_range(None, moment, closed=True), "before"),
            Axis.of_condition("other", ValueSet.everything(), "all"),
        )
    )
    assert Marginal.from_data(json.loads(json.dumps(marginal.to_data()))) == marginal


def test_what_is_no_axis_or_marginal_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one set"):
        Axis.of_groups("a", [])
    with pytest.raises(ValueError, match="one axis for a column"):
        Marginal((Axis.of_groups("a", [1]), Axis.of_groups("a", [2])))
    with pytest.raises(ValueError, match="cannot be written"):
        Marginal((Axis.of_condition("a", ValueSet.of_values([clock.time(1)]), "a"),)).to_data()
