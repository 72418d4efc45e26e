"""Sums of rows of which each adds its share: `RowSum` and `Moment`, with the proof of their rule `row_share`.

Let a be the number of rows of a unit that count, in all groups together, C = `most` and T = `fine`. Where
there are keys, a row that has x adds T C x // max(a, C), rounded towards zero. So a unit's rows need not be
grouped to be weighed, and a number is in parts of a step, T of which are one.

*Lemma* (`row_share`). A row that is at most M away from 0 adds at most T C M / max(a, C) without its sign,
since it is rounded towards zero, and a rows add at most a T C M / max(a, C) <= T C M in all groups together.
Rows from L to H add from T C min(L, 0) to T C max(H, 0) in each group. If a <= C, a row adds T x: nothing is
rounded. Else it adds less than 1 too little, a T-th of a step. All this is a function of the unit's own rows.

Where there is one group, or rows may not be read twice, the sum X of a unit's rows in a group is weighed:
T C X // max(a, C), with the same bounds, since |X| is at most M times the number of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import ClassVar

from dpsql.kernel.tree.counted import Exprs, Weighed, in_ratio, multiply
from dpsql.kernel.tree.exact import furthest, huge, saturate, whole
from dpsql.kernel.tree.expressions import Aggregate, Binary, Call, Case, IsNull, Paren
from dpsql.kernel.tree.node import Expr
from dpsql.kernel.tree.relations import kept
from dpsql.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows(Weighed):
    """A sum to which each row adds its share, in `fine` parts of a step."""

    fine: int
    shares: ClassVar[bool] = True

    def share(self, row: Exprs, a: Expr) -> Expr:
        """Return what a row adds, of the number `a` of its unit's rows; NULL for it: C or fewer."""
        return self.share_of(multiply(row[0], self.times), a)

    @property
    def times(self) -> int:
        """What a row has is divided by the number of rows after it is multiplied by this: T C."""
        return self.fine * self.most

    def share_of(self, number: Expr, a: Expr) -> Expr:
        """Return T C x // max(a, C), of T C x. GREATEST leaves a NULL out."""
        return Paren(Binary("//", number, Call("GREATEST", (a, whole(self.most)))))

    def in_fine_steps(self, values: Exprs) -> Expr:
        """Return what rows with the sums `values` add where they count in full."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class RowSum(SharedRows):
    """The sum of values from L to H, of which `most` count for each unit in all groups together.

    The number of rows is the sum of 1, from 1 to 1, of the rows that count.

    *Claim:* T C min(L, 0) to T C max(H, 0), in total T C M, where M is the larger of |L| and |H|, by the
    lemma `row_share`. Of one row (`single`: a unit has one in all) the value itself, and T = 1.
    """

    single: bool

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the sum of rows if each unit has one in all, else None."""
        return saturate(Aggregate("SUM", row)) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the number of the unit's values in the group, and their sum."""
        return Aggregate("COUNT", row), Aggregate("SUM", row)

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """Return the sum T X, or T X C // a where a > C."""
        return in_ratio(multiply(furthest(values[1]), self.fine), self.most, a)

    def in_fine_steps(self, values: Exprs) -> Expr:
        """Return the sum T X."""
        return multiply(Call("COALESCE", (huge(values[1]), whole(0))), self.fine)


@dataclass(frozen=True, slots=True, eq=False)
class Moment(SharedRows):
    """A moment of values x from 0 to R, of degree d = 0, 1 or 2, of which `most` rows count for each unit.

    With y = R - x, the moments of degree 1 are y and x, those of degree 2 are y^2, 2xy and x^2. With `nulls`,
    rows of which the condition (the second of `row`) holds and that have no value add R^d to a further one.

    *Claim:* 0 to T C R^d, in total T C R^d. What a row has in all moments is (x + y)^d = R^d, none of it
    negative; a row with a value meets the condition. The whole of a row adds its share, by the lemma
    `row_share`, the moments but the first theirs, and the first what they leave of the share of the whole:
    floors of parts add up to at most the floor of their sum, so it is not negative. *Together* all places are
    at most T C R^d, over all groups. The same holds of a unit's sums where there is one group. Of one row
    (`single`: a unit has one in all) 0 to R^d, and T = 1.
    """

    width: int
    degree: int
    place: int
    nulls: bool
    single: bool

    @property
    def whole(self) -> int:
        """The greatest moment of one row, in steps: R^d."""
        return int(max(self.width, 1) ** self.degree)

    def of_rows(self, unit: Expr, row: Exprs) -> Expr | None:
        """Return the moment of a group's rows if each unit has one in all, else None."""
        return saturate(self._of(self._numbers(self.of_unit(unit, row)))) if self.single else None

    def of_unit(self, unit: Expr, row: Exprs) -> Exprs:
        """Return the number of rows, of values, and the sums of the values' powers."""
        x = row[0]
        rows = (Aggregate("COUNT", (kept(unit, row[1:]),)),) if self.nulls else ()
        powers = (x, Paren(Binary("*", x, x)))[: self.degree]
        return *rows, Aggregate("COUNT", (x,)), *(Aggregate("SUM", (power,)) for power in powers)

    def _numbers(self, sums: Exprs) -> list[Expr]:
        """Return R^d times the number of rows, and the moments after the first, as HUGEINT, never NULL."""
        rows, (values, *powers) = sums[0], sums[self.nulls :]
        made: list[Expr] = [multiply(huge(rows), self.whole)]
        moments: list[Expr] = [Call("COALESCE", (huge(power), whole(0))) for power in powers]
        if len(moments) == 2:
            x, square = moments
            moments[0] = Paren(Binary("-", multiply(x, 2 * self.width), multiply(square, 2)))
        made += moments
        if self.nulls:
            made.append(multiply(Paren(Binary("-", huge(rows), huge(values))), self.whole))
        return made

    def weigh(self, unit: Expr, values: Exprs, b: Expr, a: Expr) -> Expr:
        """Return what the unit adds to this moment, times C/a where a > C."""
        numbers = (multiply(n, self.fine) for n in self._numbers(values))
        return self._of([in_ratio(n, self.most, a) for n in numbers])

    def in_fine_steps(self, values: Exprs) -> Expr:
        """Return what rows with these sums add to this moment, T times."""
        return multiply(Paren(self._of(self._numbers(values))), self.fine)

    def share(self, row: Exprs, a: Expr) -> Expr:
        """Return what a row adds to this moment."""
        return self._of([self.share_of(n, a) for n in self._numbers_of_row(row)])

    def _numbers_of_row(self, row: Exprs) -> list[Expr]:
        """Return T C times R^d, if the row counts, and times its moments after the first; none is NULL."""
        x, none = row[0], whole(0)
        there, top = IsNull(x, negated=True), whole(self.whole * self.times)
        every: Expr = Case(((row[1] if self.nulls and row[1:] else there, top),), none)
        powers = (x, Paren(Binary("*", x, x)))[: self.degree]
        moments: list[Expr] = [Call("COALESCE", (power, none)) for power in powers]
        if len(moments) == 2:
            moments[0] = Paren(Binary("-", multiply(moments[0], 2 * self.width), multiply(moments[1], 2)))
        made = [top if self.nulls and not row[1:] else every]
        made += [multiply(moment, self.times) for moment in moments]
        if self.nulls:
            lacks: Expr = IsNull(x)
            lacks = Binary("AND", row[1], lacks) if row[1:] else lacks
            made.append(Case(((lacks, top),), none))
        return made

    def _of(self, numbers: Sequence[Expr]) -> Expr:
        """Return this moment; the first is what the others leave of the whole."""
        if self.place:
            return numbers[self.place % len(numbers)]
        return Paren(reduce(partial(Binary, "-"), numbers))
