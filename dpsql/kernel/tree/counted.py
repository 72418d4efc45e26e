"""What the rows of a unit in a group add to a number, and how a number is written: with the proof of each.

Each class says what one unit changes of the number of a group (*claim*), by a proof about what its methods
write. `Weighted` puts them together: `of_rows` is the number of a group as an aggregate of its rows,
`of_unit` what is aggregated of the rows of one unit in the group, and `of_units` the number as an aggregate
of one row a unit. Let R be the rows of a unit, R_g those in group g. All that is written is a function of
these alone, so without the unit a number is the same but for what the unit adds.

A class with a *total* is weighed: let `measure` be c_g >= 0 of the unit in a group, a their sum over all
groups, at least 1, C = `most`, and b the sum of c up to the group in the order `rank`. `weigh` is what
counts of the unit in the group. A unit whose `size`, at least a, is at most C counts in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpsql.kernel.tree.build import kept
from dpsql.kernel.tree.exact import saturated, whole
from dpsql.kernel.tree.expressions import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Paren,
)
from dpsql.kernel.tree.node import Expr, Node
from dpsql.types import BIGINT, HUGEINT

Exprs = tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Counted(Node):
    """What is counted; `row` are the columns of a row that it depends on."""

    row: Exprs
    weighs: ClassVar[bool] = False
    """Whether it is weighed."""
    weighs_one_group: ClassVar[bool] = False
    """Whether it is weighed where there is one group, too."""
    in_turn: ClassVar[bool] = False
    """Whether `weigh` uses b."""
    own_whole: ClassVar[bool] = False
    """Whether `weigh` needs a itself, where `size` may be more."""

    @property
    def in_full(self) -> int | None:
        """The size of a unit up to which it counts in full; None: nobody says it."""
        return None

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the number as an aggregate of a group's rows; None if it needs a row for each unit."""
        return None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the aggregates of the rows of a unit in the group: here their number."""
        return (Aggregate("COUNT", (kept(unit, row),)),)

    def size(self, unit: Expr, row: Exprs) -> Expr:
        """Return the aggregate of all rows of a unit that is its size."""
        return self.of_unit(unit, row)[0]

    def measure(self, values: Exprs) -> Expr:
        """Return c, from the values of `of_unit`."""
        return values[0]

    def rank(self, unit: Expr, keys: Exprs) -> Exprs:
        """Return the order of the groups of a unit."""
        return keys

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """Return what counts of a unit in a group."""
        return values[0]

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the number as an aggregate of one row a unit: here the sum of values."""
        return saturated(Aggregate("SUM", values))

    def of_merged(self, unit: Expr, values: Exprs) -> Expr:
        """Return the same, where a row without a unit adds up what counts of several."""
        return self.of_units(unit, values)


@dataclass(frozen=True, slots=True, eq=False)
class Weighed(Counted):
    """What is weighed, of which `most` count for each unit in all groups together."""

    most: int
    weighs: ClassVar[bool] = True
    weighs_one_group: ClassVar[bool] = True

    @property
    def in_full(self) -> int | None:
        """The size of a unit up to which it counts in full: so many rows, or values."""
        return self.most


@dataclass(frozen=True, slots=True, eq=False)
class Units(Counted):
    """The number of units with a row in the group that meets the condition `row`, if there is one.

    *Claim:* 0 to 1: a unit is one value of DISTINCT, one row that is not 0, or, if `single` is true, the unit
    of one row: it has at most one row in a group.
    """

    single: bool

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        return Aggregate("COUNT", (kept(unit, row),), distinct=not self.single)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`."""
        return Aggregate("COUNT", (Case(((Binary(">", values[0], whole(0)), unit),)),))


@dataclass(frozen=True, slots=True, eq=False)
class FewUnits(Units):
    """The same, of units that are counted in `most` groups each, chosen by a hash.

    *Claim:* 0 to 1, in total `most`: c is 1 in the groups with a row, and 0 in others. A group counts if b <=
    C, so of those with c = 1 the first C do.
    """

    most: int
    weighs: ClassVar[bool] = True
    in_turn: ClassVar[bool] = True

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        return None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`: 1 if the unit has a row that counts."""
        return (Call("LEAST", (Aggregate("COUNT", (kept(unit, row),)), whole(1))),)

    def rank(self, unit: Expr, keys: Exprs) -> Exprs:
        """See `Counted`: the order of a hash."""
        return (Call("hash", (unit, *keys)), *keys)

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """See `Counted`."""
        return Case(((Binary("<=", b, whole(self.most)), values[0]),), whole(0))


@dataclass(frozen=True, slots=True, eq=False)
class CappedRows(Counted):
    """The number of rows, or of `different` values, of which `most` count for each unit and group.

    *Claim:* 0 to `most`. The sum is at most the number of all rows, so it is a BIGINT.
    """

    most: int
    different: bool

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`."""
        return (Aggregate("COUNT", row if self.different else (kept(unit, row),), distinct=self.different),)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`."""
        return sum_of_rows(Call("LEAST", (values[0], whole(self.most))))


def sum_of_rows(value: Expr) -> Expr:
    """Return a sum of numbers of rows, 0 for none: a BIGINT, as every number of rows is."""
    return Call("COALESCE", (Cast(Aggregate("SUM", (value,)), BIGINT), whole(0)))


@dataclass(frozen=True, slots=True, eq=False)
class KeptValues(Counted):
    """The number of different values in a group, of which each unit keeps `most` (`Weighted` has the column).

    *Claim:* 0 to `most`. It is the size of a union of sets, of which a unit owns one, of at most `most`
    values: ranks of equal (unit, group) by terms of which the last is the value are equal for equal values
    alone. What others keep is a function of their own rows, so without the unit at most its values are lost.
    If not `cut`, a unit has at most one row in a group, and `most` is 1. Where rows are counted by unit, each
    value is in one row of the group, whosever: the sum over units counts the union.
    """

    most: int
    cut: bool

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        return Aggregate("COUNT", row, distinct=True)

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`."""
        return (Aggregate("COUNT", row),)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`."""
        return sum_of_rows(values[0])


@dataclass(frozen=True, slots=True, eq=False)
class WeightedRows(Weighed):
    """The number of rows, of which `most` count for each unit in all groups together.

    *Claim:* 0 to C, in total C. With R = b, M = min(a, C) and one o from 0 to a - 1 of the unit, a hash, a
    group counts f(R) - f(R - c), where f(t) = (M t + o) // a does not decrease, is 0 at 0 and M at a. The
    intervals from R - c to R are apart and within 0 .. a, so none is negative and all add up to at most M. If
    a <= C, c itself is counted, and all add up to a. Where there is one group, LEAST(c, C). The sum is at
    most the number of all rows. *On average* over o it is C c/a (Hermite: (x + o) // a is x/a on average).
    """

    weighs_one_group: ClassVar[bool] = False
    in_turn: ClassVar[bool] = True

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """See `Counted`."""
        rows = Call("LEAST", (a, whole(self.most)))
        hashed = Cast(Call("hash", (unit, whole(0))), HUGEINT)
        # Twice: where an engine's hash is negative, so is the first remainder.
        first = Paren(Binary("%", Paren(Binary("+", Paren(Binary("%", hashed, a)), a)), a))
        before = Paren(Binary("-", b, Cast(values[0], HUGEINT)))
        ends = [Paren(Binary("+", Paren(Binary("*", rows, t)), first)) for t in (b, before)]
        share = Cast(Paren(Binary("-", *(Paren(Binary("//", end, a)) for end in ends))), BIGINT)
        return Case(((Binary("<=", a, whole(self.most)), values[0]),), share)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`; where there is one group nothing is weighted."""
        return sum_of_rows(Call("LEAST", (values[0], whole(self.most))))

    def of_merged(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`."""
        return sum_of_rows(values[0])
