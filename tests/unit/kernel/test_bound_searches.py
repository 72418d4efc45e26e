"""What one unit adds in a search of bounds is certified, and refused where its node is not as it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsql.kernel.check import Certificate, Keys, NotCertified, certify
from dpsql.kernel.tree import (
    FULL,
    Above,
    Aggregate,
    Beyond,
    Binary,
    Call,
    Cast,
    Column,
    Derived,
    Expr,
    Item,
    Query,
    Sampled,
    Scan,
    Scores,
    Select,
    Sums,
    bound_searches,
    replace_nodes,
)
from dpsql.types import BIGINT, DOUBLE, HUGEINT
from tests.kernel_trees import FACTS, c, cut, n, of_units_rows, stored, there
from tests.narrow import present

BOUNDS = tuple(1 << power for power in range(12))
WIDE = tuple(1 << power for power in range(84))


def rows_of_units(name: str = "a", signed: bool = False, cast: Cast | None = None) -> Select:
    """The number of rows of each unit; `signed` says that it is less by two."""
    unit = stored("b", "user_id")
    rows = Select((Item(unit, "u"), Item(n(1), "f0")), Scan("visits", "b"), there(unit))
    counted: Expr = Aggregate("COUNT", (Column("s", "f0"),))
    counted = Cast(Binary("-", counted, n(2)), BIGINT) if signed else cast or counted
    own = Column("s", "u")
    return Select((Item(counted, name),), Derived(rows, "s"), there(own), group=(own,))


def search(*, server: bool = False, bounds: tuple[int, ...] = BOUNDS, sums: Sums = Sums.NONE) -> Scores:
    signed = sums is Sums.SIGNED
    units = rows_of_units("t" if signed else "a", signed)
    return Scores(units, bounds, True, bounds is WIDE, sums, server=server, signed=signed)


def certified(query: Query) -> Certificate:
    """Certify a query; the nodes that searches of the same bounds share have columns of other types."""
    for shared in (bound_searches._key, bound_searches._numbers):
        shared.cache_clear()
    return certify(query, FACTS)


@pytest.mark.parametrize("server", [False, True])
def test_a_unit_adds_a_full_score_at_most(server: bool) -> None:
    found = certified(search(server=server))
    units, score = present(found.number("n1")), present(found.number("n2"))
    assert (units.low, units.high, score.low, score.high) == (0, 1, 0, FULL)
    assert found.most_groups == 1
    assert dict(found.cells)["n0"] == (0, len(BOUNDS))
    assert found.keys is Keys.CELLS


@pytest.mark.parametrize("server", [False, True])
def test_a_certificate_has_the_bounds(server: bool) -> None:
    found = certified(search(server=server, sums=Sums.SIGNED))
    assert (found.bounds, found.fine) == (BOUNDS, None)
    assert [each.low for each in found.numbers] == [
        0,
        0,
        -found.numbers[2].high,
        0,
        0,
        -found.numbers[5].high,
    ]
    plain = certified(search(server=server, sums=Sums.SIZES))
    assert {each.low for each in plain.numbers} == {0}
    assert {certified(search(server=server)).number(name) for name in ("n3", "n4")} == {None}


@pytest.mark.parametrize("server", [False, True])
def test_bounds_beyond_64_bits(server: bool) -> None:
    found = present(certified(search(server=server, bounds=WIDE, sums=Sums.SIZES)).number("n2"))
    assert (found.low, found.high) == (0, FULL)


def test_totals_in_steps_of_the_last_bound() -> None:
    for sums, fine in ((Sums.SIGNED, 4), (Sums.SIZES, 4), (Sums.NONE, None)):
        assert certified(replace(search(sums=sums), fine=4)).fine == fine


def several(search: Scores) -> Scores:
    assert isinstance(search.units, Select)
    by = (*search.units.group, Column("s", "f0"))
    return replace(search, units=replace(search.units, group=by))


def strays(search: Scores) -> Scores:
    """Rows without a unit are one more row."""
    assert isinstance(search.units, Select)
    joined = replace_nodes(
        search.units,
        lambda node: (
            Select(
                (Item(stored("b", "user_id"), "u"), Item(n(1), "f0")),
                Scan("visits", "b"),
            )
            if isinstance(node, Select) and node.group == ()
            else node
        ),
    )
    return replace(search, units=replace(joined, where=None))


def other_bounds(*bounds: int) -> Callable[[Scores], Scores]:
    return lambda search: replace(search, bounds=bounds)


def of(value: Cast | Call) -> Callable[[Scores], Scores]:
    def changed(search: Scores) -> Scores:
        assert isinstance(search.units, Select)
        return replace(search, units=replace(search.units, items=(Item(value, "a"),)))

    return changed


COUNT = Aggregate("COUNT", (Column("s", "f0"),))
WRONG: dict[str, Callable[[Scores], Scores]] = {
    "several rows of a unit": several,
    "a row of those without a unit": strays,
    "no bounds": other_bounds(),
    "0 alone": other_bounds(0),
    "a bound that is no power of two": other_bounds(1, 2, 3),
    "a power of two that is missing": other_bounds(1, 4, 8),
    "bounds that descend": other_bounds(2, 1),
    "a bound that is no BIGINT": other_bounds(*WIDE),
    "sizes that are no whole numbers": of(Cast(COUNT, DOUBLE)),
    "sizes with signs": of(Cast(Binary("-", COUNT, n(2)), BIGINT)),
    "sizes that may be NULL": of(Call("NULLIF", (COUNT, n(3)))),
    "sizes beyond BIGINT": of(Cast(Binary("*", Cast(COUNT, HUGEINT), n(1 << 40)), HUGEINT)),
    "no steps": lambda search: replace(search, fine=0),
    "steps of which a bound is no whole number": lambda search: replace(search, fine=3),
}


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_a_search_of_what_is_not_so_is_refused(name: str, server: bool) -> None:
    right = search(server=server)
    assert certified(right).numbers
    with pytest.raises(NotCertified):
        certified(WRONG[name](right))


def test_0_may_be_the_first_bound() -> None:
    assert dict(certified(search(bounds=(0, 1, 2))).cells)["n0"] == (0, 3)


def test_units_above_ends() -> None:
    found = certified(Above(rows_of_units(), (3, 7)))
    assert [(each.low, each.high, each.total) for each in found.numbers] == [(0, 1, 1), (0, 1, 1)]
    assert found.keys is Keys.ONE
    with pytest.raises(NotCertified, match="not one row for each unit"):
        certified(Above(several(search()).units, (3, 7)))


def test_what_is_beyond_an_interval() -> None:
    rows = Select((Item(c("x.u")), Item(c("x.f1"), "f0")), Derived(of_units_rows(), "x"))
    right = Beyond(rows, 2, 9, 5, 4, by_unit=True)
    small = Select((Item(c("y.u")), Item(cut(c("y.f0"), 0, 11), "f0")), Derived(rows, "y"))
    right = replace(right, rows=small)
    found = certified(right)
    assert {(each.low, each.high) for each in found.numbers} == {(0, 20)}
    assert [(each.each, each.total) for each in found.together] == [(20, 20)]
    for wrong in (replace(right, by_unit=False), replace(right, most=0), replace(right, width=0)):
        with pytest.raises(NotCertified):
            certified(wrong)


def test_cells_of_single_rows() -> None:
    rows = Select((Item(c("x.u")), Item(c("x.k0")), Item(c("x.f2"), "f0")), Derived(of_units_rows(), "x"))
    for extreme in ("least", "greatest"):
        found = certified(replace(Sampled(rows, 1, 4, extreme), keys=0))
        assert [(each.low, each.high, each.total) for each in found.numbers] == [(0, 1, 1)]
    with pytest.raises(NotCertified, match="any number of rows"):
        certified(Sampled(rows, 0, 4, "rows"))
    own = Select(
        (Item(stored("b", "user_id"), "u"), Item(cut(stored("b", "age"), 0, 9), "f0")), Scan("users", "b")
    )
    assert present(certified(Sampled(own, 0, 4, "rows")).number("n1")).high == 1
    with pytest.raises(NotCertified):
        certified(Sampled(own, 1, 4, "rows"))
