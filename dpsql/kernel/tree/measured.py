"""`Above` and `Beyond`: numbers of all units together, of what each has in a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from dpsql.kernel.tree.build import items
from dpsql.kernel.tree.counted_sums import in_ratio
from dpsql.kernel.tree.exact import clamp, huge, saturated, whole
from dpsql.kernel.tree.expressions import Aggregate, Binary, Call, Case, Column, IsNull, Paren
from dpsql.kernel.tree.node import Expr, Lowered, Query
from dpsql.kernel.tree.relations import Derived, Select


@dataclass(frozen=True, slots=True, eq=False)
class Above(Lowered):
    """How many units are above each of some ends: `n0`, ..

    `units` has one row for each unit, with a number `a`. *Claim:* a unit adds 0 or 1 to each.
    """

    units: Query
    ends: tuple[int, ...]

    def _lower(self) -> Query:
        cases = (Case(((Binary(">", Column("v", "a"), whole(end)), whole(1)),)) for end in self.ends)
        return Select(items("n", (Aggregate("COUNT", (case,)) for case in cases)), Derived(self.units, "v"))


@dataclass(frozen=True, slots=True, eq=False)
class Beyond(Lowered):
    """What values are above (`n0`) and below (`n1`) an interval, and what they lack to w each (`n2`).

    `rows` have the unit `u` and a value `f0`. `most` = B of a unit's rows count: a unit with n > B values
    counts with B/n of what they have. If not `by_unit`, each row is a unit.

    *Claim:* 0 to B w, all three together at most B w, for w = `width`. The first, x, is cut to 0 .. B w, the
    second, y, to 0 .. B w - x, and the third is from 0 to what LEAST(n, B) w has more than x + y. None of
    this is NULL, and it follows from the rows of the unit alone.
    """

    rows: Query
    low: int
    high: int
    width: int
    most: int
    by_unit: bool

    @property
    def units(self) -> Select:
        """How far values of each unit are above the interval (`a0`) and below (`a1`); their number (`a2`)."""
        value, unit = Column("s", "f0"), Column("s", "u")
        ends = (Binary("-", value, whole(self.high)), Binary("-", whole(self.low), value))
        # GREATEST leaves NULLs out: a NULL would be at an end.
        there = IsNull(value, negated=True)
        above, below = (_if(there, Call("GREATEST", (Paren(each), whole(0)))) for each in ends)
        if not self.by_unit:
            return Select(items("a", (above, below, _if(there, whole(1)))), Derived(self.rows, "s"))
        sums = (Aggregate("SUM", (above,)), Aggregate("SUM", (below,)), Aggregate("COUNT", (value,)))
        return Select(items("a", sums), Derived(self.rows, "s"), IsNull(unit, negated=True), group=(unit,))

    def _lower(self) -> Query:
        n, every = Column("v", "a2"), whole(self.most * self.width)
        parts: list[Expr] = []
        for name in ("a0", "a1"):
            own = huge(Call("COALESCE", (Column("v", name), whole(0))))
            parts.append(clamp(in_ratio(own, self.most, n), _rest(every, parts)))
        most = Paren(Binary("*", huge(Call("LEAST", (n, whole(self.most)))), whole(self.width)))
        sums = (*parts, clamp(_rest(most, parts), every))
        return Select(items("n", (saturated(Aggregate("SUM", (x,))) for x in sums)), Derived(self.units, "v"))


def _if(condition: Expr, value: Expr) -> Expr:
    return Case(((condition, value),), whole(0))


def _rest(every: Expr, parts: Sequence[Expr]) -> Expr:
    """Return a number less some parts of it."""
    return reduce(lambda left, part: Paren(Binary("-", left, part)), parts, every)
