"""The number of groups of rows of many units, of which each unit is kept to few: one number, not one a group.

``COUNT(*) FROM (SELECT note FROM visits GROUP BY note HAVING COUNT(*) > 9)``: a unit that is kept to m groups
changes m of them at most, so the number changes by at most m (`kernel.check.few_rows`). Groups of undeclared
keys would be released each by itself, with delta, and those with few units never. A sum of a whole number of
each group, from L to U with 0 between them, changes by at most m (U - L).
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.block_groups import Group
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.released import name_unit, write_argument
from dpsql.analysis.released.released_numbers import AggregateCall, ReleasedAggregate, UnitNumber
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.typed_expression import make_column
from dpsql.errors import InternalError, with_article
from dpsql.kernel.tree import (
    Aggregate,
    Bounded,
    Call,
    Column,
    Constant,
    Counted,
    Derived,
    Expr,
    IsNull,
    Item,
    Node,
    Query,
    Select,
    replace_nodes,
    walk,
)
from dpsql.kernel.tree.exact import saturate, whole
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import Assumed
from dpsql.types import INTEGER

GROUPS = "groups"
"""The meta of a call of COUNT(*) that counts groups of the rows of its block: a `CountedKeys`."""


@dataclass(frozen=True, slots=True)
class CountedValue:
    """What is summed over groups: an expression of keys and aggregates, from one whole number to another."""

    node: exp.Expr
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """What makes the groups that a call counts."""

    keys: tuple[exp.Expr, ...]
    condition: exp.Expr | None
    """The condition that a group meets, of keys and aggregates."""
    most: int
    """How many groups a unit is kept to."""
    where: str
    """Where that number is from; "" if the statement says it."""
    value: CountedValue | None = None
    """What is summed over the groups; None: they are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberOfFew(UnitNumber):
    """A number of rows that no unit owns: it has a query of its own, and is no sum over units."""

    def build_counted(self, *row: Expr) -> Counted:
        """Raise `InternalError`: the number is made by `build_query`."""
        raise InternalError("this is a bug of dpsql, nothing was run or charged: groups are no sum of units")

    def build_query(self, rows: Query) -> Query:
        """Return the query of the number, of projected rows with the unit `u` and the expressions `f0`, .."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class FewGroups(NumberOfFew):
    """The number of groups of rows that meet a condition; the rows of each unit are kept in few groups."""

    keys: tuple[int, ...]
    """The places of the keys among the expressions of a row."""
    aggregates: tuple[Expr, ...]
    """What is computed of a group, of the columns `y.f0`, .. of its rows."""
    condition: Expr | None
    """The condition, of the columns `g.k0`, .. and `g.a0`, .. of a group."""
    most: int
    value: Expr | None = None
    """What is summed, a whole number of the columns of a group; None: 1 for each group."""
    ends: tuple[int, int] = (0, 1)
    """The least and the greatest that a group adds; 0 is between them."""

    @property
    def unit_change(self) -> tuple[int, int]:
        """The least and the greatest amount by which adding a unit can change the number."""
        low, high = (self.most * end for end in self.ends)
        return (low - high, high - low) if self.aggregates else (low, high)

    def build_query(self, rows: Query) -> Query:
        """Return the query of the number, of projected rows with the unit `u` and the expressions `f0`, .."""
        unit, there = Column("s", "u"), IsNull(Column("s", "u"), negated=True)
        keys = tuple(Item(Column("s", f"f{place}"), f"k{i}") for i, place in enumerate(self.keys))
        fields = tuple(Item(Column("s", f"f{i}"), f"f{i}") for i in range(len(self.row)))
        every = Select((Item(unit, "u"), *keys, *fields), Derived(rows, "s"), there)
        pairs = Select((Item(unit, "u"), *keys), Derived(rows, "s"), there, distinct=True)
        by = tuple(item.column for item in keys)
        kept = Bounded(every, (*by, *(item.column for item in fields)), by, self.most, pairs)
        listed = (*(Item(Column("y", name), name) for name in by),)
        listed += tuple(Item(each, f"a{i}") for i, each in enumerate(self.aggregates))
        places = tuple(Constant(i + 1, INTEGER) for i in range(len(by)))
        groups = Select(listed, Derived(kept, "y"), group=places)
        number = Aggregate("COUNT")
        summed = number if self.value is None else saturate(Aggregate("SUM", (self.value,)))
        return Select((Item(summed, "n0"),), Derived(groups, "g"), self.condition)


def find_number_of_few(numbers: tuple[ReleasedAggregate, ...]) -> NumberOfFew | None:
    """Return the number of rows that no unit owns among released numbers, the only one; None without one."""
    found = [part for number in numbers for part in number.parts if isinstance(part, NumberOfFew)]
    return found[0] if len(found) == len(numbers) == 1 else None


def compile_few_groups(call: AggregateCall, counted: CountedKeys) -> FewGroups:
    """Compile a call that counts groups of the rows of its block."""
    compiler, source = call.compiler, call.source
    if call.by_row or call.conditions:
        raise call.refuse("groups are counted of rows that have a unit", call.node)
    group = Group(compiler, source.scope.copy(), [], "g")
    keys = [make_canonical(call.expression(key)) for key in counted.keys]
    for i, key in enumerate(keys):
        group.keys.setdefault(key.node, make_column("g", f"k{i}", key.type))
    condition = value = None
    outer = Scope(compiler.source, intercept=group.lookup, block=source.scope.block)
    if counted.condition is not None:
        condition = compile_condition(compiler, counted.condition, outer).guarded_node
    ends = 0, 1
    if counted.value is not None:
        found = compiler.expression(counted.value.node, outer)
        if not found.type.integer:
            raise call.refuse(f"a sum over groups is of whole numbers, this is {found.type}", call.node)
        low, high = ends = min(counted.value.low, 0), max(counted.value.high, 0)
        there = Call("COALESCE", (found.guarded_node, whole(0)))
        value = Call("LEAST", (Call("GREATEST", (there, whole(low))), whole(high)))
    aggregates = [make_canonical(each).node for each in group.aggregates]
    if any(isinstance(node, Query) for each in aggregates for node in walk(each)):
        raise call.refuse("a subquery in an aggregate of groups is not counted", call.node)
    read = [node for each in aggregates for node in walk(each) if isinstance(node, Column)]
    row = tuple(dict.fromkeys((*(key.guarded_node for key in keys), *read)))

    def find_column(node: Node) -> Node:
        return Column("y", f"f{row.index(node)}") if isinstance(node, Column) else node

    words = " and ".join(write_argument(key) for key in counted.keys)
    compiler.assume(
        Assumed(f"{words} of {with_article(name_unit(source))}", f"at most {counted.most:,}", counted.where)
    )
    made = tuple(replace_nodes(each, find_column) for each in aggregates)
    places = tuple(row.index(key.guarded_node) for key in keys)
    return FewGroups(row, places, made, condition, counted.most, value, ends)
