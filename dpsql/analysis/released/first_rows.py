"""Sums over the first rows of all units in an order: one number, of which a unit changes as many as it keeps.

``SUM(y) FROM (SELECT y, ROW_NUMBER() OVER (ORDER BY x) AS r FROM t) WHERE r <= n``: with a unit of which c
rows count, at most min(c, n) of the first n rows leave, and others come in their places. So the sum changes
by at most min(c, n) (U - L), where its values lie from L to U with 0 between them (`kernel.check.few_rows`).
Ties are broken by all that is read of the rows, which SQL leaves open.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiler import compile_order_term
from dpsql.analysis.grids import grid_of
from dpsql.analysis.released import assume_cut, bound_rows, name_unit, write_argument
from dpsql.analysis.released.few_groups import NumberOfFew
from dpsql.analysis.released.released_numbers import AggregateCall, CallArgument
from dpsql.errors import Fix, with_article
from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Column,
    Derived,
    FirstRows,
    IsNull,
    Item,
    OrderTerm,
    Query,
    Select,
)
from dpsql.kernel.tree.exact import saturate, whole
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed

FIRST = "first rows"
"""The meta of a call of COUNT(*) that sums over the first rows of its block: a `SumOfFirst`."""


@dataclass(frozen=True, slots=True)
class SumOfFirst:
    """What is summed over which rows: the terms of their order, how many they are, and a value of each."""

    order: tuple[exp.Expr, ...]
    first: int
    value: exp.Expr
    counts: bool
    """Whether the rows with a value are counted instead."""


@dataclass(frozen=True, slots=True, eq=False)
class FirstNumber(NumberOfFew):
    """The sum of a value over the first rows, or the number of those with one."""

    order: tuple[tuple[int, bool, bool], ...]
    """The places of the terms in `row`, whether they descend, and whether NULL is first."""
    most: int
    first: int
    value: int
    """The place of the value in `row`."""
    ends: tuple[int, int]
    """The least and the greatest that a row adds, in steps; 0 is between them."""
    size: Fraction
    counts: bool
    single: bool
    """Whether each unit has one row at most."""
    argument: CallArgument | None
    """The value that is summed, and how it is cut."""

    @property
    def step(self) -> Fraction:
        """The size of one step of the sum, in the unit of its values."""
        return self.size

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        low, high = self.ends
        end = min(self.most, self.first) * (high - low)
        return -end, end

    @property
    def l1_over_groups(self) -> int | None:
        """The most by which adding a unit can change the number, where a bound on its rows says so."""
        return None if self.single else self.unit_change[1]

    def build_query(self, rows: Query) -> Query:
        """Return the query of the number, of projected rows with the unit `u` and the expressions `f0`, .."""
        names = tuple(f"f{i}" for i in range(len(self.row)))
        listed = tuple(Item(Column("s", name), name) for name in ("u", *names))
        every = Select(listed, Derived(rows, "s"), IsNull(Column("s", "u"), negated=True))
        order = tuple((names[place], down, null) for place, down, null in self.order)
        value, first = Column("g", names[self.value]), FirstRows(every, names, order, self.most, self.first)
        if self.counts:
            there = IsNull(value, negated=True)
            return Select((Item(Aggregate("COUNT"), "n0"),), Derived(first, "g"), there)
        low, high = map(whole, self.ends)
        kept = Call("LEAST", (Call("GREATEST", (Call("COALESCE", (value, whole(0))), low)), high))
        return Select((Item(saturate(Aggregate("SUM", (kept,))), "n0"),), Derived(first, "g"))


def compile_first_rows(call: AggregateCall, asked: SumOfFirst) -> FirstNumber:
    """Compile a call that sums over the first rows of its block."""
    compiler, source = call.compiler, call.source
    if call.by_row or call.conditions:
        raise call.refuse("the first rows are of rows that have a unit", call.node)
    most = 1 if call.one_row else bound_rows(compiler, source, beyond="left out, chosen by a hash")
    if most is None:
        raise call.refuse(
            f"{with_article(name_unit(source))} can have many of the first rows: say how many may count",
            call.node,
            "OPTIONS (max_rows_contributed = 20), or rows_per_unit in the policy",
            Fix("20", option="max_rows_contributed", guess="20"),
        )
    value, terms = call.expression(asked.value), list[OrderTerm]()
    for term in asked.order:
        own = make_canonical(call.expression(term.this))
        if own.literal is not None:
            raise call.refuse("rows are not ordered by a constant", term)
        terms.append(compile_order_term(term, own.guarded_node))
    bounds, text = value.bounds, write_argument(asked.value)
    if not asked.counts and not (value.type.numeric and bounds is not None):
        hint = f"LEAST(GREATEST({text}, 0), 100), or bounds in the policy"
        raise call.refuse("a sum over the first rows needs bounds on its values", asked.value, hint)
    number, ends, size, argument = value.guarded_node, (0, 1), Fraction(1), None
    if bounds is not None and not asked.counts:
        assume_cut(call, text, value.type, bounds)
        grid = grid_of(value.type, bounds.low, bounds.high, min(most, asked.first))
        number = grid.write_steps(number, shifted=False)
        ends, size = (min(grid.low, 0), max(grid.high, 0)), grid.step
        argument = CallArgument(
            text, bounds.low, bounds.high, bounds.origin, per_group=False, cut=bounds.declared
        )
    row = tuple(dict.fromkeys((*(term.expr for term in terms), number)))
    order = tuple((row.index(t.expr), t.direction == "DESC", t.nulls == "FIRST") for t in terms)
    ordered = {*(term.expr for term in terms)}
    if value.literal is None and not ordered & {number, value.guarded_node}:
        compiler.assume(
            Assumed(f"of rows that are equal in the order, those with less {text} are first", "", "")
        )
    kept = most, asked.first, row.index(number)
    return FirstNumber(row, order, *kept, ends, size, asked.counts, call.one_row, argument)
