"""The public grid on which values are summed: each value becomes a whole number of steps before any sum.

A sum of whole numbers does not depend on the order of rows, and no rounding of one row meets another's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from dpsql.kernel.tree import (
    Binary,
    Call,
    Case,
    Cast,
    Constant,
    Cut,
    Expr,
    IsNull,
    Paren,
    Steps,
    Unary,
    Unscaled,
)
from dpsql.kernel.tree.exact import (
    BEYOND,
    FAST,
    FURTHEST,
    constant_of,
    exact_steps,
    huge,
    near_steps,
    whole,
    within,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTEGER, SqlType

MOST_STEPS = 1 << 32
"""The most steps by which one unit may move a number: then 2^28 units at the bound fit into 2^60."""
_EXACT = 1 << 51
"""The steps up to which a DOUBLE, and the middle between two steps, are exact."""
_FINEST = 1000
"""The negative power of two that the step of a DOUBLE is at least, so that its multiples are DOUBLEs."""
_LARGEST = Fraction(1 << _FINEST)
"""The largest bound of a DOUBLE, so that its steps are DOUBLEs."""
_SEARCHED = 20
"""The step of a DOUBLE whose bound is searched is 2^-20."""
SMALL = 1 << 53
"""Below it all whole numbers are DOUBLEs."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid for the values of one type: whole multiples of `step`, cut to `low` .. `high` steps."""

    type: SqlType
    """The type of the values: an integer, DECIMAL or DOUBLE."""
    step: Fraction
    """The step, in the unit of the values."""
    low: int
    high: int
    """The bounds in steps, rounded outwards."""

    def __hash__(self) -> int:
        """Hash the bounds alone: grids are parts of many keys, and the hash of a fraction takes long."""
        return hash((self.low, self.high))

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

    @property
    def _size(self) -> int:
        """The least differences of two values of an exact type in a step."""
        return int(self.step / least_step(self.type))

    def write_uncut(self, value: Expr, *, signed: bool = True) -> tuple[Expr, int]:
        """Return a row's value as it is, and the decimals of its sums: totals of units are cut later.

        `signed`: whether a DOUBLE may be below 0; else it counts as 0 there.
        """
        if self.type == DOUBLE:
            return Steps(value, -FURTHEST if signed else 0, FURTHEST, self.step), 0
        if self.type == HUGEINT:  # so that no sum of rows overflows
            ends = (Binary(">", value, whole(BEYOND)), Binary("<", value, whole(-BEYOND)))
            return Case(((ends[0], whole(BEYOND)), (ends[1], whole(-BEYOND))), value), 0
        return _widen(value, self.type)[0], self.type.scale

    @property
    def size_of_step(self) -> int:
        """The number of least differences of two sums in one step; 1 for DOUBLEs."""
        return 1 if self.type == DOUBLE else self._size

    def write_steps(self, value: Expr, *, shifted: bool) -> Expr:
        """Return the steps of a row's value, from `low` on if `shifted`: a BIGINT, NULL for NULL and NaN."""
        base = self.low if shifted else 0
        if self.type == DOUBLE:
            return _add_number(Steps(value, self.low, self.high, self.step), -base)
        return self._nearest(value, self.type, self._size, base)

    def write_total(self, value: Expr, *, single: bool = False) -> Expr:
        """Return a sum of values that were not cut, as steps within the bounds: a BIGINT, NULL for no values.

        `single` says that it is of one value: such a value itself.
        """
        if self.type == DOUBLE:
            return self._nearest(value, BIGINT if single else HUGEINT, 1, 0)
        summed = SqlType("DECIMAL", 38, self.type.scale) if self.type.scale else HUGEINT
        return self._nearest(value, self.type if single else summed, self._size, 0)

    def _nearest(self, value: Expr, kind: SqlType, size: int, base: int) -> Expr:
        """Return the nearest step, of `size` least steps of the type, from `base` on; cut to the bounds.

        The value is cut before it is converted, so that nothing depends on how an engine converts a value
        that does not fit. A NULL is neither less nor greater than a bound, and stays NULL.
        """
        low, high = self.low * size, self.high * size
        wide = max(-low, high, high - low + size) >= 1 << 63
        least, most = _ends_of_type(kind)
        value, kind = _widen(value, kind)
        branches = []
        if low > least:
            branches.append((_make_condition("<", value, low, kind, every=low > most), whole(low)))
        if high < most:
            branches.append((_make_condition(">", value, high, kind, every=high < least), whole(high)))
        inside = _convert_within(value, kind, low, high)
        cut = Case(tuple(branches), inside) if branches else inside
        if branches and kind.scale and kind.precision <= 18 and not wide:
            cut = Cut(cut, value, kind, low, high)
        if size == 1:
            return _add_number(cut, -base)
        if wide:
            cut = Cast(cut, HUGEINT)
        # From the lower end on, so that the division is of numbers from 0 on: it truncates towards zero.
        above = Binary("//", Paren(Binary("+", Paren(cut), whole(size // 2 - low))), whole(size))
        made = _add_number(Paren(above), self.low - base)
        return Cast(made, BIGINT) if wide else made


def grid_of(sql_type: SqlType, low: Fraction, high: Fraction, most: int, *, degree: int = 0) -> Grid:
    """Return the finest grid on which one unit moves a number by at most `MOST_STEPS`.

    It moves by at most `most` values; with a degree, by `most` times the power of the width, else of the
    largest distance from zero.
    """
    if sql_type == DOUBLE:
        low, high = (max(-_LARGEST, min(end, _LARGEST)) for end in (low, high))
    allowed = max(_take_root(MOST_STEPS // most, degree) - (2 if degree else 1), 1)
    # Bounds far from 0 have as many steps as the engine computes exactly, times numbers of rows.
    exact = _EXACT if sql_type == DOUBLE else FURTHEST
    furthest = max(abs(low), abs(high))
    least = max((high - low) / allowed, furthest / exact) if degree else furthest / min(allowed, exact)
    step = least_step(sql_type)
    if sql_type == DOUBLE:
        step = _power_of_two(max(least, Fraction(1, 1 << _FINEST)))
    elif least > step:
        step *= math.ceil(least / step)
    if step != 1:
        low, high = low / step, high / step
    return Grid(sql_type, step, math.floor(low), math.ceil(high))


def parts_of_step(change: int) -> int:
    """Return in how many parts a step is divided, if a unit moves a number by so many steps: a power of two.

    It moves the number by at most `MOST_STEPS` of these parts, too.
    """
    return int(1 << max(MOST_STEPS // max(change, 1), 1).bit_length() - 1)


def prepare_for_search(value: Expr, sql_type: SqlType) -> tuple[Expr, int, Fraction]:
    """Return a row's value for the search of a bound, the decimals of its sums, and the step of these."""
    grid = search_grid(sql_type, signed=True)
    if sql_type == DOUBLE:
        return Steps(value, -BEYOND, BEYOND, grid.step), 0, grid.step
    return (*grid.write_uncut(value), grid.step)


def split_steps(value: Expr) -> tuple[Expr, Expr]:
    """Return the steps of a DOUBLE in a search as two terms: within 2^62, and how far it is beyond.

    The second is NULL for nearly all values. So the first, a BIGINT, is summed fast, and nothing is cut.
    """
    step = search_grid(DOUBLE, signed=True).step
    near, every = Steps(value, -FURTHEST, FURTHEST, step), Steps(value, -BEYOND, BEYOND, step)
    high = Constant(float(FURTHEST * step), DOUBLE)
    beyond = Binary("OR", Binary("<", value, Paren(Unary("-", high))), Binary(">", value, high))
    return near, Case(((beyond, Paren(Binary("-", every, huge(near)))),))


def steps_as_double(value: Expr) -> Expr:
    """Return an expression that converts a DOUBLE into the nearest number of steps of the search grid.

    The number of steps is a DOUBLE itself: up to 2^53 all whole numbers are. NULL stays NULL. A negative
    value and NaN, which is greater than all numbers, give at least 2^53, which says that they are outside.
    """
    factor = Constant(float(1 / search_grid(DOUBLE, signed=True).step), DOUBLE)
    nearest = Call("floor", (Binary("+", Binary("*", value, factor), Constant(0.5, DOUBLE)),))
    there, nothing = Binary(">=", value, Constant(0.0, DOUBLE)), IsNull(value)
    return Case(((there, nearest), (nothing, Constant(None, DOUBLE))), Constant(float(SMALL), DOUBLE))


def search_grid(sql_type: SqlType, *, signed: bool) -> Grid:
    """Return the grid of values without bounds: a bound on a unit's totals is found privately."""
    step = Fraction(1, 1 << _SEARCHED) if sql_type == DOUBLE else least_step(sql_type)
    return Grid(sql_type, step, -FURTHEST if signed else 0, FURTHEST)


def capped_grid(sql_type: SqlType, most: int, *, signed: bool, finest: int) -> tuple[Grid, int]:
    """Return the grid of sums whose totals have a bound, `most` steps of `search_grid`, and the bound on it.

    A DOUBLE has no least step: the bound is then at most `MOST_STEPS` steps. A bound of an exact type beyond
    2^`finest` is as many steps, or 2^`finest` if that is less: each is a power of two of least steps. What
    is left of a bound beyond whole steps is left out of it.
    """
    grid = search_grid(sql_type, signed=signed)
    if sql_type != DOUBLE and most <= 1 << finest:
        return grid, most
    steps = MOST_STEPS if sql_type == DOUBLE else min(MOST_STEPS, 1 << finest)
    above = Fraction(1 << (most - 1).bit_length(), steps)
    return replace(grid, step=grid.step * above), int(most / above)


def _take_root(value: int, degree: int) -> int:
    return math.isqrt(value) if degree == 2 else value


def _power_of_two(least: Fraction) -> Fraction:
    """Return the least power of two that is at least a number."""
    power = math.frexp(float(least))[1] - 2
    while Fraction(2) ** power < least:
        power += 1
    return Fraction(2) ** power


def least_step(sql_type: SqlType) -> Fraction:
    """Return the least difference of two values of an exact type."""
    return Fraction(1, 10**sql_type.scale)


def narrow_steps(value: Expr, scale: int, limit: int) -> Expr:
    """Return the expression that converts a sum to steps as a BIGINT, cut at -limit and limit."""
    cut = Cast(within(exact_steps(value, scale), limit), BIGINT)
    near = near_steps(value, scale) if scale else None
    if near is None:
        return cut
    there, steps = near
    if limit < 10 ** (FAST - scale):
        steps = Call("LEAST", (Call("GREATEST", (steps, whole(-limit))), whole(limit)))
    return Case(((there, steps),), cut)


def _widen(value: Expr, kind: SqlType) -> tuple[Expr, SqlType]:
    """Return a value in a type with which the engine compares bounds; else it converts the bounds."""
    if not kind.integer or kind in (INTEGER, BIGINT):
        return value, kind
    wide = HUGEINT if kind.bits == 64 else BIGINT
    return Cast(value, wide), wide


def _add_number(value: Expr, number: int) -> Expr:
    return Paren(Binary("+", value, whole(number))) if number else value


def _make_condition(operator: str, value: Expr, number: int, kind: SqlType, *, every: bool) -> Expr:
    """Return the condition that a value is beyond a bound, which `every` value of the type may be."""
    return IsNull(value, negated=True) if every else Binary(operator, value, constant_of(number, kind))


def _convert_within(value: Expr, kind: SqlType, low: int, high: int) -> Expr:
    """Return least steps of an exact type, if they lie between two ends: a BIGINT if the ends are ones."""
    if kind.scale:
        # With no more digits than the ends have, the engine computes faster.
        digits = max(len(str(abs(low))), len(str(abs(high))), kind.scale + 1)
        if digits < kind.precision:
            kind = SqlType("DECIMAL", digits, kind.scale)
            value = Cast(value, kind, bounded=True)
        value, kind = Unscaled(value, kind), BIGINT if kind.precision <= 18 else HUGEINT
    target = HUGEINT if max(-low, high) >= 1 << 63 else BIGINT
    return value if kind == target else Cast(value, target)


def _ends_of_type(kind: SqlType) -> tuple[int, int]:
    """Return the ends of an exact type in its least steps."""
    if kind.name == "DECIMAL":
        return 1 - 10**kind.precision, 10**kind.precision - 1
    bits = 128 if kind == HUGEINT else kind.bits
    least = -(1 << bits - 1) if kind == HUGEINT or kind.signed else 0
    return least, least + (1 << bits) - 1
