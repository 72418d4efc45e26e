"""The public grid on which values are summed: each value becomes a whole number of steps before any sum.

A sum of whole numbers does not depend on the order of rows, and no rounding of one row meets another's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dpsql.tree import Binary, Call, Case, Cast, Constant, Expr, IsNull, Paren, Steps, Unary
from dpsql.types import BIGINT, DOUBLE, HUGEINT, SqlType

MOST_STEPS = 1 << 32
"""The most steps by which one unit may move a number: then 2^28 units at the bound fit into 2^60."""
_FURTHEST = 1 << 62
_FINEST = 1000
"""The negative power of two that the step of a DOUBLE is at least, so that its multiples are DOUBLEs."""
_SEARCHED = 10
"""The step of a DOUBLE without bounds is 2^-10."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid for the values of one type: whole multiples of `step`, cut to `low` .. `high` steps.

    Attributes
    ----------
    type
        The type of the values: an integer, DECIMAL or DOUBLE.
    step
        The step, in the unit of the values.
    low, high
        The bounds in steps, rounded outwards.
    """

    type: SqlType
    step: Fraction
    low: int
    high: int

    @property
    def width(self) -> int:
        """The number of steps between the bounds."""
        return self.high - self.low

    @property
    def natural(self) -> bool:
        """Whether a step is the least difference of two values of the type."""
        return self.type != DOUBLE and self.step == least_step(self.type)

    @property
    def fine(self) -> bool:
        """Whether sums of values that were not cut are in steps of the grid."""
        return self.type == DOUBLE or self.natural

    def row(self, value: Expr, *, shifted: bool, degree: int = 1) -> tuple[Expr, int]:
        """Return a row's value within the bounds, and the decimals of its sums; see `SumPart.scale`."""
        if self.natural and self.type.scale and degree <= 1:
            return self.decimal(value, shifted=shifted), self.type.scale
        return self.steps(value, shifted=shifted), 0

    def uncut(self, value: Expr) -> tuple[Expr, int]:
        """Return a row's value as it is, and the decimals of its sums: totals of units are cut later."""
        if self.type == DOUBLE:
            return Steps(value, -_FURTHEST, _FURTHEST, self.step), 0
        return value, self.type.scale

    def steps(self, value: Expr, *, shifted: bool) -> Expr:
        """Return the steps of a row's value, from `low` on if `shifted`: a BIGINT, NULL for NULL and NaN."""
        base = self.low if shifted else 0
        if self.type == DOUBLE:
            made: Expr = Steps(value, self.low, self.high, self.step)
            return _less(made, base)
        if self.natural and self.type.integer and self.type.name != "UBIGINT":
            # A literal beyond a narrow type's values would be converted to that type.
            wide = value if self.type == BIGINT else Cast(value, BIGINT, safe=False, bounded=True)
            there = Call("LEAST", (Call("GREATEST", (wide, whole(self.low))), whole(self.high)))
            return Case(((IsNull(value, negated=True), _less(there, base)),))
        return Case(((IsNull(value, negated=True), self.nearest(in_least_steps(value, self.type), base)),))

    def nearest(self, least: Expr, base: int) -> Expr:
        """Return least steps of the type, a HUGEINT, as steps from `base` on; cut to the bounds."""
        size = int(self.step / least_step(self.type))
        ends = [whole(end * size) for end in (self.low, self.high)]
        cut = Call("LEAST", (Call("GREATEST", (least, ends[0])), ends[1]))
        # From the lower end on, so that the division is of numbers from 0 on: it truncates towards zero.
        above = Paren(Binary("-", cut, ends[0]))
        if size > 1:
            above = Paren(Binary("//", Paren(Binary("+", above, whole(size // 2))), whole(size)))
        moved = self.low - base
        return Cast(Paren(Binary("+", above, whole(moved))) if moved else above, BIGINT)

    def decimal(self, value: Expr, *, shifted: bool) -> Expr:
        """Return a DECIMAL value cut to the bounds, as DECIMAL: its sums are converted once a unit."""
        kind = SqlType("DECIMAL", 18, self.type.scale)
        most = 10**18 - 1
        ends = [_decimal(max(-most, min(most, end)), kind) for end in (self.low, self.high)]
        cut: Expr = Call("LEAST", (Call("GREATEST", (Cast(value, kind), ends[0])), ends[1]))
        if shifted and self.low:
            cut = Paren(Binary("-", cut, ends[0]))
        return Case(((IsNull(value, negated=True), cut),))


def grid_of(sql_type: SqlType, low: Fraction, high: Fraction, most: int, *, degree: int = 0) -> Grid:
    """Return the finest grid on which one unit moves a number by at most `MOST_STEPS`.

    It moves by at most `most` values; with a degree, by `most` times the power of the width, else of the
    largest distance from zero.
    """
    step = least_step(sql_type)
    if sql_type == DOUBLE:
        step = Fraction(1, 1 << _FINEST)
    reach = _reach(low, high, degree)
    allowed = _root(Fraction(MOST_STEPS, most), degree) - (2 if degree else 1)
    least = Fraction(reach, max(allowed, 1))
    if sql_type == DOUBLE:
        step = _power_of_two(max(least, Fraction(1, 1 << _FINEST)))
    elif least > step:
        step *= math.ceil(least / step)
    return Grid(sql_type, step, math.floor(low / step), math.ceil(high / step))


def searched(sql_type: SqlType, *, signed: bool) -> Grid:
    """Return the grid of values without bounds: a bound on a unit's totals is found privately."""
    step = Fraction(1, 1 << _SEARCHED) if sql_type == DOUBLE else least_step(sql_type)
    return Grid(sql_type, step, -_FURTHEST if signed else 0, _FURTHEST)


def _reach(low: Fraction, high: Fraction, degree: int) -> Fraction:
    return high - low if degree else max(abs(low), abs(high))


def _root(value: Fraction, degree: int) -> int:
    return math.isqrt(math.floor(value)) if degree == 2 else math.floor(value)


def _power_of_two(least: Fraction) -> Fraction:
    """Return the least power of two from a number on."""
    power = math.frexp(float(least))[1] - 2
    while Fraction(2) ** power < least:
        power += 1
    return Fraction(2) ** power


def least_step(sql_type: SqlType) -> Fraction:
    """Return the least difference of two values of an exact type."""
    return Fraction(1, 10**sql_type.scale)


def in_least_steps(value: Expr, sql_type: SqlType) -> Expr:
    """Return an exact value, or a sum of such values, as a whole number of least steps: a HUGEINT."""
    if sql_type.integer:
        return Cast(value, HUGEINT)
    scaled = Binary(
        "*", Cast(value, SqlType("DECIMAL", 38, sql_type.scale)), Constant(10**sql_type.scale, BIGINT)
    )
    return Cast(Paren(scaled), HUGEINT) if sql_type.scale else Cast(value, HUGEINT)


def cut(value: Expr, low: int, high: int) -> Expr:
    """Return a HUGEINT cut to two bounds; NULL stays NULL."""
    ends = Call("LEAST", (Call("GREATEST", (value, whole(low))), whole(high)))
    return Case(((IsNull(value, negated=True), ends),))


def saturated(total: Expr) -> Expr:
    """Return a sum as BIGINT: within 2^60, in no order of rows an overflow, 0 for no rows."""
    limit = 1 << 60
    within = Call("LEAST", (Call("GREATEST", (total, whole(-limit))), whole(limit)))
    # The guard of NULL: LEAST and GREATEST leave NULLs out, and a sum of no rows is 0.
    there = Case(((IsNull(total), Constant(0, BIGINT)),), Cast(within, BIGINT))
    return Paren(there)


def furthest(value: Expr) -> Expr:
    """Return a HUGEINT cut to 62 bits, so that its product with a bound fits."""
    return cut(value, -_FURTHEST, _FURTHEST)


def huge(value: Expr) -> Expr:
    """Return an integer as HUGEINT."""
    return Cast(value, HUGEINT)


def _less(value: Expr, base: int) -> Expr:
    return Paren(Binary("-", value, whole(base))) if base else value


def whole(number: int) -> Expr:
    """Return a whole number; a negative one in parentheses, since two signs in a row begin a comment."""
    kind = BIGINT if abs(number) < 1 << 63 else HUGEINT
    return Constant(number, kind) if number >= 0 else Paren(Unary("-", Constant(-number, kind)))


def _decimal(steps: int, kind: SqlType) -> Expr:
    value = Constant(Decimal(abs(steps)).scaleb(-kind.scale), kind)
    return value if steps >= 0 else Paren(Unary("-", value))
