"""Expressions that cannot fail: exact sums of whole numbers, cut before they overflow; TRY around others.

A failure would reveal the values of a row. The form of each allowed function is already total. TRY is a
second protection that does not depend on the list of functions. Comparisons, conditions and choices fail only
if a part does, so TRY goes around their parts: the optimizer still recognises conjunctions and equalities,
and the parts may contain subqueries, which TRY may not.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from dpsql.errors import InternalError
from dpsql.kernel.tree.expressions import (
    Apply,
    Between,
    Binary,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Exists,
    InList,
    InQuery,
    Interval,
    IsNull,
    IsTruth,
    ListOf,
    Mean,
    Not,
    Paren,
    Saturated,
    ScalarQuery,
    Try,
    Unary,
    Unscaled,
    UtcTime,
    Window,
)
from dpsql.kernel.tree.node import OPAQUE, Expr, facts, map_parts
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTEGER, SqlType

BEYOND = 1 << 85
"""Where totals are cut: beyond the largest bound that is searched. 2^40 times it is a HUGEINT."""
FURTHEST = 1 << 62
FAST = 17
"""The digits and decimals, added, of a DECIMAL without its point that is computed in 64 bits."""


@lru_cache(maxsize=256)
def whole(number: int) -> Expr:
    """Return a whole number; a negative one in parentheses, since two signs in a row begin a comment."""
    kind = BIGINT if abs(number) < 1 << 63 else HUGEINT
    return Constant(number, kind) if number >= 0 else Paren(Unary("-", Constant(-number, kind)))


def huge(value: Expr) -> Expr:
    """Return an integer constant of type HUGEINT."""
    return Cast(value, HUGEINT)


def within(value: Expr, limit: int) -> Expr:
    """Return a number cut to a distance from 0; 0 for NULL."""
    # LEAST and GREATEST leave NULLs out: a NULL would become a limit.
    there = Call("COALESCE", (value, whole(0)))
    return Call("LEAST", (Call("GREATEST", (there, whole(-limit))), whole(limit)))


def clamp(value: Expr, most: Expr) -> Expr:
    """Return a number, or 0 if it is less, or `most` if it is more; NULL becomes 0."""
    return Call("LEAST", (Call("GREATEST", (value, whole(0))), most))


def furthest(value: Expr) -> Expr:
    """Return a HUGEINT cut to 62 bits, so that its product with a bound fits; 0 for NULL."""
    return within(value, FURTHEST)


def saturate(total: Expr) -> Expr:
    """Return a sum as BIGINT, cut to 2^60 on both sides; 0 for no rows. No order of rows overflows."""
    limit = 1 << 60
    return Cast(within(total, limit), BIGINT)


def absolute(value: Expr, sql_type: SqlType) -> Expr:
    """Return the absolute value of a row (`Grid.uncut`); the least integer has none of its type.

    That of a DOUBLE is in steps, none of which is the least integer.
    """
    if sql_type == DOUBLE:
        return Call("GREATEST", (value, Paren(Binary("-", whole(0), value))))
    if sql_type == INTEGER:
        value = Cast(value, BIGINT)
    elif not sql_type.scale:
        value = huge(value)
    return Call("abs", (value,))


def to_least_steps(value: Expr, scale: int) -> Expr:
    """Return a sum of exact values with so many decimals as a whole number of least steps: a HUGEINT."""
    if not scale:
        return huge(value)
    near = near_steps(value, scale)
    return (
        exact_steps(value, scale)
        if near is None
        else Case(((near[0], huge(near[1])),), exact_steps(value, scale))
    )


def exact_steps(value: Expr, scale: int) -> Expr:
    """Return a sum of exact values with a given number of decimals in least steps, by its 38 digits."""
    if not scale:
        return huge(value)
    return huge(Unscaled(value, SqlType("DECIMAL", 38, scale)))


def near_steps(value: Expr, scale: int) -> tuple[Expr, Expr] | None:
    """Return the condition that a sum has few digits, and its steps in 64 bits; None: it has none to spare.

    Most sums have few digits, and of these an engine computes several times as fast.
    """
    if FAST - scale <= scale:
        return None
    few = SqlType("DECIMAL", FAST - scale, scale)
    ends = (constant_of(sign * (10**few.precision - 1), few) for sign in (-1, 1))
    return Between(value, *ends), Unscaled(Cast(value, few, bounded=True), few)


def constant_of(number: int, kind: SqlType) -> Expr:
    """Return a given number of least steps of a type, as a constant to compare its values with."""
    if not kind.scale:
        return whole(number)
    value = Constant(Decimal(f"{abs(number)}E-{kind.scale}"), kind)
    return value if number >= 0 else Paren(Unary("-", value))


_WHOLE = (Column, Constant, Interval, ListOf, Window, InQuery, Exists, ScalarQuery)
"""Nodes that cannot fail: stored values, constants, and those whose parts are guarded when they are made."""

_CONDITIONS = frozenset({"AND", "OR", "=", "<>", "<", "<=", ">", ">="})
_CONDITIONS |= {"IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
_CHOICES = frozenset({"coalesce", "ifnull", "greatest", "least", "COALESCE"})


def total(node: Expr) -> bool:
    """Return whether an expression fails on no row, apart from parts that `guarded` puts into TRY."""
    match node:
        case Paren(operand) | Unary(_, operand):
            return total(operand)
        case Binary(operator):
            return operator in _CONDITIONS
        case Cast(operand, bounded=bounded):
            return bounded and total(operand)
        case Canonical(operand) | UtcTime(operand):
            return total(operand)
        case Call(name):
            return name in _CHOICES
        case Apply(form):
            return form.arithmetic and OPAQUE in facts(node).reads
        case Saturated(operand, near=near):
            return near is None and OPAQUE in facts(node).reads and total(operand)
        case Mean(operand, number):
            return OPAQUE in facts(node).reads and total(operand) and total(number)
        case Between() | Not() | IsNull() | IsTruth() | InList() | Case():
            return True
    return isinstance(node, _WHOLE)


def guarded(node: Expr) -> Expr:
    """Return the expression for a query: it evaluates to a value or NULL on every row and never fails.

    It is made once for each node.
    """
    if isinstance(node, _WHOLE):
        return node
    made: Expr | None = getattr(node, "_guarded", None)
    if made is not None:
        return made
    if total(node):
        made = map_parts(node, guarded)
    elif OPAQUE in facts(node).reads:
        raise InternalError("this is a bug of dpsql, nothing was run or charged: a subquery under TRY")
    else:
        made = Try(node)
    object.__setattr__(node, "_guarded", made)
    return made
