"""What sums of values add up of the rows of a unit: with the proof of each; see `counted`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar

from dpsql.kernel.tree.build import kept
from dpsql.kernel.tree.counted import Counted, Exprs, Weighed
from dpsql.kernel.tree.exact import BEYOND, absolute, furthest, huge, in_least_steps, saturated, whole, within
from dpsql.kernel.tree.expressions import (
    Aggregate,
    Argument,
    Binary,
    Call,
    Case,
    Cast,
    IsNull,
    Paren,
)
from dpsql.kernel.tree.node import Expr, Node, replaced
from dpsql.types import HUGEINT, SqlType


@dataclass(frozen=True, slots=True, eq=False)
class UnitValue(Counted):
    """The sum over units of a value that is computed of the sum of a unit's rows in the group.

    *Claim:* the least and the greatest value of `value`, and 0; NULL adds nothing. In `value`, an `Argument`
    stands for the sum. `alone` is the value of the only row of a unit in the group.
    """

    value: Expr
    alone: Expr | None

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        return None if self.alone is None else saturated(Aggregate("SUM", (self.alone,)))

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`."""
        return (Aggregate("SUM", row),)

    def compute(self, values: Exprs) -> Expr:
        """Return the value of a unit."""
        return _filled(self.value, values)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`."""
        return saturated(Aggregate("SUM", (self.compute(values),)))


def _filled(template: Expr, values: Exprs) -> Expr:
    """Return an expression with values in the place of its arguments."""

    def change(node: Node) -> Node:
        return values[node.place] if isinstance(node, Argument) and 0 <= node.place < len(values) else node

    made = change(replaced(template, change))
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
        """See `Counted`."""
        one = Case(((IsNull(row[0], negated=True), whole(1)),), whole(0))
        return self.of_units(unit, (one, row[0])) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`: the number of the unit's values, and their sum."""
        return Aggregate("COUNT", row), Aggregate("SUM", row)

    def of_units(self, unit: Expr, values: Exprs) -> Expr:
        """See `Counted`."""
        n, total = values
        exact, rows = furthest(in_least_steps(total, self.scale)), huge(n)
        above = Paren(Binary("-", exact, _times(rows, self.low)))
        cut = Call("LEAST", (Call("GREATEST", (above, whole(0))), _times(rows, self.width)))
        own: Expr = Paren(Binary("//", _times(cut, self.fine), Call("NULLIF", (rows, whole(0)))))
        made = own if self.place else Paren(Binary("-", whole(self.width * self.fine), own))
        return saturated(Aggregate("SUM", (Case(((Binary(">", n, whole(0)), made),)),)))


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
        """Where sums are rounded, only those of single units are: none counts in full by its size."""
        return self.most if self.size_of_step == 1 else None

    def _cut(self, total: Expr) -> Expr:
        return within(in_least_steps(total, self.scale), BEYOND)

    def _steps(self, total: Expr) -> Expr:
        cut = self._cut(total)
        step = self.size_of_step
        return cut if step == 1 else Paren(Binary("//", cut, Cast(whole(step), HUGEINT)))

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        value = within(self._steps(row[0]), self.most)
        return saturated(Aggregate("SUM", (value,))) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`."""
        return (self._steps(Aggregate("SUM", row)),)

    def size(self, unit: Expr, row: Exprs) -> Expr:
        """See `Counted`."""
        return self._cut(Aggregate("SUM", (absolute(row[0], self.type),)))

    def measure(self, values: Exprs) -> Expr:
        """See `Counted`."""
        return Call("abs", values)

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """See `Counted`."""
        return in_ratio(values[0], self.most, a)


def in_ratio(number: Expr, most: int, a: Expr) -> Expr:
    """Return a HUGEINT, times C/a where a > C; rounded towards zero."""
    share = Paren(Binary("//", Paren(Binary("*", number, whole(most))), huge(a)))
    return Case(((Binary("<=", a, whole(most)), number),), share)


@dataclass(frozen=True, slots=True, eq=False)
class RowSum(Weighed):
    """The sum of values from L to H, of which `most` count for each unit in all groups together.

    *Claim:* C min(L, 0) to C max(H, 0), in total C M, where M is the larger of |L| and |H|. With c_g values
    in a group, the sum X is from c_g L to c_g H. If a <= C the absolute values of X add up to at most a M.
    Else each is X C // a, rounded towards zero, and c_g C / a <= C. Of one row (`single`: a unit has one in
    all) the value itself.
    """

    single: bool

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        return saturated(Aggregate("SUM", row)) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`."""
        return Aggregate("COUNT", row), Aggregate("SUM", row)

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """See `Counted`."""
        return in_ratio(furthest(values[1]), self.most, a)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(Weighed):
    """A moment of values x from 0 to R, of degree d = 0, 1 or 2, of which `most` rows count for each unit.

    With y = R - x, the moments of degree 1 are y and x, those of degree 2 are y^2, 2xy and x^2. With `nulls`,
    rows of which the condition (the second of `row`) holds and that have no value add R^d to a further one.

    *Claim:* 0 to C R^d, in total C R^d. What a row adds to all moments is (x + y)^d = R^d, none of it
    negative; a row with a value meets the condition. A unit with c_g such rows adds c_g R^d there, or if a >
    C the floors of its sums times C/a; the first moment gets the floor of c_g R^d C/a less the floors of the
    others, which is not negative. *Together* all places are at most that, and over all groups c_g R^d C/a
    adds up to C R^d. Of one row (`single`: a unit has one in all) 0 to R^d.
    """

    width: int
    degree: int
    place: int
    nulls: bool
    single: bool

    @property
    def whole(self) -> int:
        """R^d."""
        return int(max(self.width, 1) ** self.degree)

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """See `Counted`."""
        return saturated(self._of(self._numbers(self.of_unit(unit, row)))) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """See `Counted`: the number of rows, of values, and the sums of the values' powers."""
        x = row[0]
        rows = (Aggregate("COUNT", (kept(unit, row[1:]),)),) if self.nulls else ()
        powers = (x, Paren(Binary("*", x, x)))[: self.degree]
        return *rows, Aggregate("COUNT", (x,)), *(Aggregate("SUM", (power,)) for power in powers)

    def _numbers(self, sums: Exprs) -> list[Expr]:
        """Return R^d times the number of rows, and the moments after the first, as HUGEINT, never NULL."""
        rows, (values, *powers) = sums[0], sums[self.nulls :]
        made: list[Expr] = [_times(huge(rows), self.whole)]
        moments: list[Expr] = [Call("COALESCE", (huge(power), whole(0))) for power in powers]
        if len(moments) == 2:
            x, square = moments
            moments[0] = Paren(Binary("-", _times(x, 2 * self.width), _times(square, 2)))
        made += moments
        if self.nulls:
            made.append(_times(Paren(Binary("-", huge(rows), huge(values))), self.whole))
        return made

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """See `Counted`."""
        return self._of([in_ratio(n, self.most, a) for n in self._numbers(values)])

    def _of(self, numbers: Sequence[Expr]) -> Expr:
        """Return this moment; the first is what the others leave of the whole."""
        if self.place:
            return numbers[self.place % len(numbers)]
        return Paren(reduce(partial(Binary, "-"), numbers))


def _times(number: Expr, factor: int) -> Expr:
    return Paren(Binary("*", number, whole(factor))) if factor != 1 else number
