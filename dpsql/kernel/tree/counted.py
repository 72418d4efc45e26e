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

from typing import ClassVar

from dpsql.kernel.tree.exact import BEYOND, absolute, furthest, huge, saturate, to_least_steps, whole, within
from dpsql.kernel.tree.expressions import Aggregate, Argument, Binary, Call, Case, Cast, IsNull, Paren
from dpsql.kernel.tree.node import Expr, Node, replace_nodes
from dpsql.kernel.tree.relations import kept
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, HUGEINT, SqlType

Exprs = tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Counted(Node):
    """A number of each group, as it is counted; `row` are the columns of a row that it depends on."""

    row: Exprs
    weighs: ClassVar[bool] = False
    """Whether it is weighed."""
    weighs_one_group: ClassVar[bool] = False
    """Whether it is weighed where there is one group, too."""
    in_turn: ClassVar[bool] = False
    """Whether `weigh` uses b."""
    own_whole: ClassVar[bool] = False
    """Whether `weigh` needs a itself, where `size` may be more."""
    shares: ClassVar[bool] = False
    """Whether each row adds its share, by the number of its unit's rows (`row_shares`)."""

    @property
    def in_full(self) -> int | None:
        """The size of a unit up to which it counts in full; None: no bound is known."""
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
        """Return the measure c of a unit in a group, from the values of `of_unit`."""
        return values[0]

    def rank(self, unit: Expr, keys: Exprs) -> Exprs:
        """Return the order of the groups of a unit."""
        return keys

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """Return the expression of what counts of a unit in a group."""
        return values[0]

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the number as an aggregate of one row a unit: here the sum of values."""
        return saturate(Aggregate("SUM", values))

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
        """The size of a unit up to which it counts in full: a given number of rows, or values."""
        return self.most


@dataclass(frozen=True, slots=True, eq=False)
class Units(Counted):
    """The number of units with a row in the group that meets the condition `row`, if there is one.

    *Claim:* 0 to 1: a unit is one value of DISTINCT, one row that is not 0, or, if `single` is true, the unit
    of one row: it has at most one row in a group.
    """

    single: bool

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the aggregate of a group's rows that counts different units, or rows if `single`."""
        return Aggregate("COUNT", (kept(unit, row),), distinct=not self.single)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the number of units with a row that counts."""
        return Aggregate("COUNT", (Case(((Binary(">", values[0], whole(0)), unit),)),))


@dataclass(frozen=True, slots=True, eq=False)
class FewUnits(Units):
    """The number of units of each group, where each is counted in `most` groups, chosen by a hash.

    *Claim:* 0 to 1, in total `most`: c is 1 in the groups with a row, and 0 in others. A group counts if b <=
    C, so of those with c = 1 the first C do.
    """

    most: int
    weighs: ClassVar[bool] = True
    in_turn: ClassVar[bool] = True

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return None: which groups of a unit count depends on its other groups."""
        return None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return 1 if the unit has a row that counts in the group, else 0."""
        return (Call("LEAST", (Aggregate("COUNT", (kept(unit, row),)), whole(1))),)

    def rank(self, unit: Expr, keys: Exprs) -> Exprs:
        """Return what the groups of a unit are ordered by: a hash of unit and group, then the keys."""
        return (Call("hash", (unit, *keys)), *keys)

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """Return 1 in the first C groups in which the unit has a row, 0 in others."""
        return Case(((Binary("<=", b, whole(self.most)), values[0]),), whole(0))


@dataclass(frozen=True, slots=True, eq=False)
class CappedRows(Counted):
    """The number of rows, or of `different` values, of which `most` count for each unit and group.

    *Claim:* 0 to `most`. The sum is at most the number of all rows, so it is a BIGINT.
    """

    most: int
    different: bool

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the number of the unit's rows in the group, or of different values."""
        return (Aggregate("COUNT", row if self.different else (kept(unit, row),), distinct=self.different),)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the sum over units of their numbers of rows, each cut to `most`."""
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
        """Return the number of different kept values of a group's rows."""
        return Aggregate("COUNT", row, distinct=True)

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the number of the unit's kept values in the group."""
        return (Aggregate("COUNT", row),)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the sum over units of the numbers of kept values."""
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
        """Return f(R) - f(R - c) for a unit of more than C rows, else its number of rows c."""
        rows = Call("LEAST", (a, whole(self.most)))
        hashed = Cast(Call("hash", (unit, whole(0))), HUGEINT)
        # Twice: where an engine's hash is negative, so is the first remainder.
        first = Paren(Binary("%", Paren(Binary("+", Paren(Binary("%", hashed, a)), a)), a))
        before = Paren(Binary("-", b, Cast(values[0], HUGEINT)))
        ends = [Paren(Binary("+", Paren(Binary("*", rows, t)), first)) for t in (b, before)]
        share = Cast(Paren(Binary("-", *(Paren(Binary("//", end, a)) for end in ends))), BIGINT)
        return Case(((Binary("<=", a, whole(self.most)), values[0]),), share)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the sum over units where there is one group, so that nothing is weighed: each cut to C."""
        return sum_of_rows(Call("LEAST", (values[0], whole(self.most))))

    def of_merged(self, unit: Expr, values: Exprs) -> Expr:
        """Return the sum of values that are weighed already, also in rows that stand for several units."""
        return sum_of_rows(values[0])


@dataclass(frozen=True, slots=True, eq=False)
class UnitValue(Counted):
    """The sum over units of a value that is computed of the sum of a unit's rows in the group.

    *Claim:* the least and the greatest value of `value`, and 0; NULL adds nothing. In `value`, an `Argument`
    stands for the sum. `alone` is the value of the only row of a unit in the group.
    """

    value: Expr
    alone: Expr | None

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the sum of the values of single rows; None if a unit may have several."""
        return None if self.alone is None else saturate(Aggregate("SUM", (self.alone,)))

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the sum of the unit's rows in the group, of which `value` is computed."""
        return (Aggregate("SUM", row),)

    def compute(self, values: Exprs) -> Expr:
        """Return the expression of a unit's value."""
        return _fill(self.value, values)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the expression of the sum of the units' values."""
        return saturate(Aggregate("SUM", (self.compute(values),)))


def _fill(template: Expr, values: Exprs) -> Expr:
    """Return an expression with values in the place of its arguments."""

    def change(node: Node) -> Node:
        return values[node.place] if isinstance(node, Argument) and 0 <= node.place < len(values) else node

    made = change(replace_nodes(template, change))
    return made if isinstance(made, Expr) else template


@dataclass(frozen=True, slots=True, eq=False)
class UnitMean(Counted):
    """The sum over units of the average of a unit's values in the group, or of what that lacks to the most.

    Values have `scale` decimals, or none; the average is from `low` steps on, of `width` steps, each of
    `fine` parts, and at `place` 0 it is what it lacks to all of them.

    *Claim:* 0 to W = `width` times `fine`. Of n > 0 values the sum less n `low` is cut to 0 .. n `width`,
    so that, times `fine` and divided by n, it is from 0 to W; so is W less that. A unit without a value
    adds nothing. *Together* both places are W. Of one row (`single`: a unit has one in a group) n is 1 or 0.
    """

    low: int
    width: int
    fine: int
    scale: int
    place: int
    single: bool

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the number as a sum of rows if each unit has one in a group, else None."""
        one = Case(((IsNull(row[0], negated=True), whole(1)),), whole(0))
        return self.of_units(unit, (one, row[0])) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the number of the unit's values in the group, and their sum."""
        return Aggregate("COUNT", row), Aggregate("SUM", row)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """Return the sum over units of the average in parts of steps, or of its distance to the top."""
        n, total = values
        exact, rows = furthest(to_least_steps(total, self.scale)), huge(n)
        above = Paren(Binary("-", exact, multiply(rows, self.low)))
        cut = Call("LEAST", (Call("GREATEST", (above, whole(0))), multiply(rows, self.width)))
        own: Expr = Paren(Binary("//", multiply(cut, self.fine), Call("NULLIF", (rows, whole(0)))))
        made = own if self.place else Paren(Binary("-", whole(self.width * self.fine), own))
        return saturate(Aggregate("SUM", (Case(((Binary(">", n, whole(0)), made),)),)))


@dataclass(frozen=True, slots=True, eq=False)
class CappedSum(Weighed):
    """The sum of values with `scale` decimals, or of whole numbers, in `size_of_step` of their least steps.

    *Claim:* -C to C (0 to C of values from 0 on, and so on), in total C: each sum is first cut and rounded
    towards zero to X, c = |X|, and counts X, or X C // a rounded towards zero if a > C. So the absolute
    values add up to at most a C / a. A unit's `size`, the sum of absolute values of its rows, is at least a.
    Of one row (`single`: a unit has one in all) X is cut to C.
    """

    scale: int
    type: SqlType
    size_of_step: int
    single: bool
    own_whole: ClassVar[bool] = True

    @property
    def in_full(self) -> int | None:
        """The size of a unit up to which it counts in full; None where sums are rounded: no unit does."""
        return self.most if self.size_of_step == 1 else None

    def _cut(self, total: Expr) -> Expr:
        return within(to_least_steps(total, self.scale), BEYOND)

    def _steps(self, total: Expr) -> Expr:
        cut = self._cut(total)
        step = self.size_of_step
        return cut if step == 1 else Paren(Binary("//", cut, Cast(whole(step), HUGEINT)))

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the sum of rows, each cut to C, if each unit has one in all, else None."""
        value = within(self._steps(row[0]), self.most)
        return saturate(Aggregate("SUM", (value,))) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the sum X of the unit's values in the group, in steps, cut and rounded towards zero."""
        return (self._steps(Aggregate("SUM", row)),)

    def size(self, unit: Expr, row: Exprs) -> Expr:
        """Return the sum of the absolute values of all rows of a unit, in least steps."""
        return self._cut(Aggregate("SUM", (absolute(row[0], self.type),)))

    def measure(self, values: Exprs) -> Expr:
        """Return the size of a unit's sum, by which it is weighed: c = |X|."""
        return Call("abs", values)

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """Return X, or X C // a where a > C."""
        return in_ratio(values[0], self.most, a)


def in_ratio(number: Expr, most: int, a: Expr) -> Expr:
    """Return the expression of a HUGEINT that is multiplied by C/a where a > C, rounded towards zero."""
    share = Paren(Binary("//", Paren(Binary("*", number, whole(most))), huge(a)))
    return Case(((Binary("<=", a, whole(most)), number),), share)


def multiply(number: Expr, factor: int) -> Expr:
    """Return a number times a factor; itself for 1."""
    return Paren(Binary("*", number, whole(factor))) if factor != 1 else number
