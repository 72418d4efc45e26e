"""What one unit changes several numbers by together: moments of one column, and averages with what they lack.

*Rows.* Let the rows of a unit be of three kinds: with a value x, from L to H; without one, but counted; and
others. COUNT(x), the number of counted rows, SUM(x) and SUM(x * x) add to a sum for each row a polynomial of
x, a constant, and 0 (a `Form`), and so does each linear combination N of them. What it adds is never
negative, or at most K, if that holds at L, at H, at the whole numbers next to the vertex, and of the
constant.

*One row.* If a unit has one row in all, it changes numbers N1, .. of one group, by their forms. If none is
negative, all changes add up to at most the most of N1 + ...

*Weighed.* Else a number is f(P) - f(N1) - .., with f(N) = N if a <= C, else N C // a; a being at least how
many rows of the unit have m = 1 in all groups, as `Weighted` proves. If P and all N are never negative, f
rounds down, so that f(N1) + .. <= f(N1 + ..) <= f(P) where P - N1 - .. is never negative: no number is.
In the sum of several numbers, f of equal forms with different signs cancel; those left with a minus only make
it less. Those left with a plus add up to at most f(Q) of their sum Q. If no row has more than K m of Q, that
is at most K C/a times the unit's rows in the group with m = 1, or K times these where a <= C: in all groups
at most K C. Units that share rows are of at most `in_full` <= C rows, and count in full.

*Averages.* If a unit with n > 0 values adds A to one number and W - A to another one, A being from 0 to W,
it adds W to both in a group; one without values adds nothing.

*Rests.* Let a unit have one row in a group, with expressions e1, .. that are never negative nor NULL. If the
last is at most W less the others, all add up to at most W; if it is at most what W has more than the others,
or 0, they add up to at most W, or to what the others do.

No change is negative, so that some of several numbers change by no more than all. A cut of a sum to an
interval around 0 does not grow changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from dpsql.kernel.check.proof import strip_parens as bare
from dpsql.kernel.check.proof import whole_number
from dpsql.kernel.check.types_of import Number, Value
from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Moment,
    Paren,
    UnitMean,
    kept,
)
from dpsql.types import BIGINT, HUGEINT

_UNIT, _A = Column("s", "u"), Column("w", "a")


class Form(NamedTuple):
    """What a row adds: `constant + linear x + square x^2`, or `missing` if it has no value."""

    constant: int = 0
    linear: int = 0
    square: int = 0
    missing: int = 0

    def plus(self, other: Form, times: int = 1) -> Form:
        """Return the form of a sum with so many times another one."""
        return Form(*(a + times * b for a, b in zip(self, other, strict=True)))

    def ends(self, low: int, high: int) -> tuple[int, int]:
        """Return the least and the most that a row adds, of values between two whole numbers, or without."""
        at = {low, high}
        if self.square:
            vertex = Fraction(-self.linear, 2 * self.square)
            at |= {min(max(x, low), high) for x in (floor(vertex), ceil(vertex))}
        found = [self.constant + self.linear * x + self.square * x * x for x in at if low <= high]
        return min([*found, self.missing]), max([*found, self.missing])


def counted_rows(part: Moment) -> Expr:
    """Return what is not NULL in the rows that are counted, with a value or without."""
    return kept(_UNIT, part.row[1:])


def most_of_moments(parts: Sequence[Moment], low: int, high: int, *, by_rows: bool) -> int | None:
    """Return what one unit changes moments by in all groups together; None: no rule bounds it.

    They are of the same rows, with values from `low` to `high`. Rows with a value are among those that
    `counted_rows` counts.
    """
    signed = Counter[Form]()
    weights = set[tuple[Form | None, int]]()
    for part in parts:
        aggregates = part.of_unit(_UNIT, part.row)
        forms = [form for each in aggregates if (form := _of_rows(each, part)) is not None]
        names: list[Expr] = [Column("w", f"r{i}") for i in range(len(forms))]
        if len(forms) < len(aggregates):
            return None
        values = dict(zip(names, forms, strict=True))
        terms = _alone(part, dict(zip(aggregates, forms, strict=True))) if by_rows else _weighed(part, values)
        if terms is None or not _never_negative(terms, low, high):
            return None
        for sign, form in terms:
            signed[form] += sign
        measured = _form(part.measured(tuple(names)), values)
        in_full = part.most if part.in_full is None else part.in_full
        if in_full > part.most or measured != _of_rows(part.size(_UNIT, part.row), part):
            return None
        weights.add((measured, part.most))
    left = Form()
    for form, times in signed.items():
        left = left.plus(form, max(times, 0))
    most = left.ends(low, high)[1]
    if by_rows:
        return most
    (measured, times), *others = weights
    counted = measured == _COUNTED or (measured == _VALUES and not left.missing)
    return most * times if counted and not others else None


def most_of_means(parts: Sequence[UnitMean]) -> int | None:
    """Return what one unit changes averages of units by in each group, together; None: no rule bounds it."""
    n, total = Column("w", "n"), Column("w", "t")
    whole, own = None, set[Expr]()
    for part in parts:
        match summed(part.of_units(_UNIT, (n, total))):
            case Case(((Binary(">", x, zero), value),), None) if x == n and whole_number(zero) == 0:
                inner = value.inner if isinstance(value, Paren) else value
                if isinstance(inner, Binary) and inner.operator == "-" and whole is None:
                    whole, value = whole_number(inner.left), inner.right
                own.add(value)
            case _:
                return None
    return whole if len(parts) == 2 and len(own) == 1 else None


def most_of_rests(exprs: Sequence[Expr], value: Callable[[Expr], Value]) -> Number | None:
    """Return what expressions of a row, never negative, add up to at most; None: no rule bounds it."""
    *others, last = map(bare, exprs)
    if not others:
        return value(last).high
    match last:
        case Call("GREATEST", (x, zero)) if whole_number(zero) == 0:
            whole, rest = _without(x, others), most_of_rests(others, value)
            return None if whole is None or rest is None else max(value(whole).high, rest)
        case Call("LEAST", (x, y)) if not (value(x).nullable or value(y).nullable):
            whole = _without(y, others)
            return most_of_rests((*others, x), value) if whole is None else value(whole).high
    return None


def _without(expr: Expr, others: Sequence[Expr]) -> Expr | None:
    """Return W of an expression that is W less some others; None if it is none."""
    for other in reversed(others):
        expr = bare(expr)
        if not (isinstance(expr, Binary) and expr.operator == "-" and bare(expr.right) == other):
            return None
        expr = expr.left
    return expr


_VALUES, _COUNTED = Form(1), Form(1, missing=1)


def _of_rows(expr: Expr, part: Moment) -> Form | None:
    """Return the form of an aggregate of rows."""
    x = part.row[0]
    match expr:
        case Aggregate("COUNT", (y,), False, (), None) if y in (x, counted_rows(part)):
            return _VALUES if y == x else _COUNTED
        case Aggregate("SUM", (Paren(Binary("*", y, z)),), False, (), None) if x == y == z:
            return Form(square=1)
        case Aggregate("SUM", (y,), False, (), None) if y == x:
            return Form(linear=1)
    return None


def _form(expr: Expr, known: Mapping[Expr, Form]) -> Form | None:
    """Return the form of a linear combination of aggregates whose forms are known."""
    if expr in known:
        return known[expr]
    match expr:
        case Paren(x):
            return _form(x, known)
        case Cast(x) if expr.type == HUGEINT:
            return _form(x, known)
        case Call("COALESCE", (x, zero)) if whole_number(zero) == 0:
            return _form(x, known)
        case Binary("*", x, y) if (times := whole_number(y)) is not None:
            form = _form(x, known)
            return None if form is None else Form().plus(form, times)
        case Binary("-", x, y):
            one, other = _form(x, known), _form(y, known)
            return None if one is None or other is None else one.plus(other, -1)
    return None


Terms = list[tuple[int, Form]]


def _alone(part: Moment, forms: Mapping[Expr, Form]) -> Terms | None:
    """Return the form of a moment of one row a unit, as its only term."""
    written = part.of_rows(_UNIT, part.row)
    form = None if written is None else _form(_uncut(written), forms)
    return None if form is None else [(1, form)]


def _weighed(part: Moment, values: Mapping[Expr, Form]) -> Terms | None:
    """Return the terms P, -N1, .. of what counts of a unit in a group."""
    made = part.weighted(_UNIT, tuple(values), _A, _A)
    written = part.of_units(_UNIT, (made,)), part.of_merged(_UNIT, (made,))
    return None if any(summed(each) != made for each in written) else _terms(made, part.most, values)


def _terms(expr: Expr, most: int, values: Mapping[Expr, Form]) -> Terms | None:
    """Return the terms of a difference of sums in the ratio C/a."""
    match expr:
        case Paren(x):
            return _terms(x, most, values)
        case Binary("-", x, y):
            one, other = _terms(x, most, values), _terms(y, most, values)
            return None if one is None or other is None else one + [(-sign, form) for sign, form in other]
        case Case(((Binary("<=", a, c), n),), Paren(Binary("//", Paren(Binary("*", m, d)), Cast(b, kind)))):
            if a == b == _A and kind == HUGEINT and n == m and whole_number(c) == whole_number(d) == most:
                form = _form(n, values)
                return None if form is None else [(1, form)]
    return None


def _never_negative(terms: Terms, low: int, high: int) -> bool:
    """Return whether no term adds less than 0 for a row, nor the first one less the others."""
    (sign, rest), *others = terms
    for _, form in others:
        rest = rest.plus(form, -1)
    forms = (rest, *(form for _, form in terms))
    signs = sign == 1 and all(other == -1 for other, _ in others)
    return signs and all(form.ends(low, high)[0] >= 0 for form in forms)


def _uncut(expr: Expr) -> Expr:
    """Return a sum without the cut to an interval around 0 that is written around it."""
    match expr:
        case Cast(Call("LEAST", (Call("GREATEST", (Call("COALESCE", (x, zero)), least)), most))):
            low, high = whole_number(least), whole_number(most)
            if whole_number(zero) == 0 and low is not None and high is not None and expr.type == BIGINT:
                return x if -(1 << 62) < low < 0 < high < 1 << 62 else expr
    return expr


def summed(expr: Expr) -> Expr | None:
    """Return what is summed over units, one row each; None if that is not all."""
    match _uncut(expr):
        case Aggregate("SUM", (x,), False, (), None):
            return x
    return None
