"""Cells of a search: what one unit adds in each is certified, and what is not as it must be is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dpsql.analysis.score_queries import Sums, score_query
from dpsql.kernel.check import Certificate, NotCertified, certify
from dpsql.kernel.check.cells import Ends
from dpsql.kernel.check.rungs import _width
from dpsql.kernel.check.types_of import INFINITY
from dpsql.kernel.mechanisms import FULL
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    Derived,
    Expr,
    Item,
    Join,
    Node,
    Query,
    Scan,
    Select,
    Values,
    replaced,
)
from dpsql.kernel.tree.exact import whole
from dpsql.types import BIGINT
from tests.kernel_trees import FACTS, n, stored, there
from tests.narrow import present

BOUNDS = tuple(1 << power for power in range(12))
WIDE = tuple(1 << power for power in range(84))


def rows_of_units(signed: bool = False) -> Select:
    """The number of rows of each unit, as `t` and as `a` without its sign."""
    unit = stored("b", "user_id")
    rows = Select((Item(unit, "u"), Item(n(1), "f0")), Scan("visits", "b"), there(unit))
    counted: Expr = Aggregate("COUNT", (Column("s", "f0"),))
    counted = Cast(Binary("-", counted, n(2)), BIGINT) if signed else counted
    own = Select(
        (Item(counted, "t"),), Derived(rows, "s"), there(Column("s", "u")), group=(Column("s", "u"),)
    )
    total = Column("x", "t")
    size = Call("abs", (total,)) if signed else total
    return Select((Item(size, "a"), Item(total, "t")), Derived(own, "x"))


def search(*, server: bool, bounds: tuple[int, ...] = BOUNDS, sums: Sums = Sums.NONE) -> Select:
    units = rows_of_units(signed=sums is Sums.SIGNED)
    return score_query(units, bounds, by_excess=True, wide=bounds is WIDE, sums=sums, server=server)


def untyped(node: Node) -> Node:
    """A column without the type that another query gave it: searches of the same bounds share nodes."""
    return Column(node.table, node.name, node.stored) if isinstance(node, Column) else node


def certified(query: Query) -> Certificate:
    return certify(replaced(query, untyped), FACTS)


@pytest.mark.parametrize("server", [False, True])
def test_a_unit_adds_a_full_score_at_most(server: bool) -> None:
    found = certified(search(server=server))
    units, scores = found.number("n1"), found.number("n2")
    assert units is not None
    assert scores is not None
    assert (units.low, units.high, scores.low, scores.high) == (0, 1, 0, FULL)
    assert found.most_groups == 1
    assert dict(found.cells)["n0"] == (0, len(BOUNDS))


@pytest.mark.parametrize("server", [False, True])
def test_sums_of_a_cell_change_by_its_bounds(server: bool) -> None:
    found = certified(search(server=server, sums=Sums.SIGNED))
    totals, beyond, net = ({r[0]: r[1:] for r in present(found.number(x)).rungs} for x in ("n3", "n4", "n6"))
    for place in range(1, len(BOUNDS)):
        width = BOUNDS[place] - BOUNDS[place - 1]
        assert totals[place] == (-BOUNDS[place], BOUNDS[place])
        assert beyond[place] == (0, width)
        assert net[place] == (-width, width)


@pytest.mark.parametrize("server", [False, True])
def test_bounds_beyond_64_bits(server: bool) -> None:
    scores = certified(search(server=server, bounds=WIDE, sums=Sums.SIZES)).number("n2")
    assert scores is not None
    assert (scores.low, scores.high) == (0, FULL)


def edited(change: Callable[[Node], Node]) -> Query:
    return replaced(search(server=True), change)


def overlapping(node: Node) -> Node:
    """A row of constants whose interval begins below the end of the one before."""
    if isinstance(node, Values):
        rows = [*node.rows]
        rows[3] = (*rows[3][:3], rows[2][3], rows[3][4])
        return replace(node, rows=tuple(rows))
    return node


def one_key_twice(node: Node) -> Node:
    if isinstance(node, Values):
        rows = [*node.rows]
        rows[3] = (rows[2][0], *rows[3][1:])
        return replace(node, rows=tuple(rows))
    return node


def without_an_end(node: Node) -> Node:
    if isinstance(node, Join) and isinstance(node.on, Binary):
        return replace(node, on=node.on.left)
    return node


def with_a_value_that_is_no_constant(node: Node) -> Node:
    if isinstance(node, Values):
        first = (Call("random", ()), *node.rows[0][1:])
        return replace(node, rows=(first, *node.rows[1:]))
    return node


def at_least(node: Node) -> Node:
    """Both ends are in an interval, so that a unit at one of them meets two rows."""
    return replace(node, operator=">=") if isinstance(node, Binary) and node.operator == ">" else node


def left_outer(node: Node) -> Node:
    return replace(node, kind="LEFT") if isinstance(node, Join) else node


def several_rows_of_a_unit(node: Node) -> Node:
    by_unit = isinstance(node, Select) and node.group == (Column("s", "u"),)
    if by_unit and isinstance(node, Select):
        return replace(node, group=(Column("s", "u"), Column("s", "f0")))
    return node


EDITS = (
    overlapping,
    one_key_twice,
    without_an_end,
    with_a_value_that_is_no_constant,
    at_least,
    left_outer,
    several_rows_of_a_unit,
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_rows_of_constants_that_a_unit_may_meet_twice_are_refused(edit: Callable[[Node], Node]) -> None:
    assert edited(edit) != search(server=True)
    with pytest.raises(NotCertified):
        certified(edited(edit))


def test_a_score_that_is_not_cut_is_not_certified_as_a_full_one() -> None:
    def uncut(node: Node) -> Node:
        last = isinstance(node, Call) and node.name == "LEAST" and node.arguments[1] == Constant(FULL, BIGINT)
        return node.arguments[0] if last and isinstance(node, Call) else node

    found = certified(edited(uncut)).number("n2")
    assert found is not None
    assert found.high > FULL


def test_a_number_cut_on_one_side_is_as_far_as_it_was() -> None:
    """A sum that GREATEST alone cuts has no end above: what one unit adds is not cut to twice that end."""
    total, low, high = Column("w", "a"), whole(-9), whole(9)
    both, up = Ends([-1], [1]), Ends([0], [1])
    assert _width(total, "GREATEST", -9, both) == _width(total, "GREATEST", -9, up) == INFINITY
    assert _width(total, "LEAST", 9, both) == INFINITY
    assert _width(total, "LEAST", 9, up) == 9
    assert _width(Call("GREATEST", (total, low)), "GREATEST", -9, both) == INFINITY
    assert _width(Call("GREATEST", (total, low)), "LEAST", 9, both) == 18
    assert _width(Call("LEAST", (total, high)), "GREATEST", -9, both) == 18
