"""Put TRY around the parts of an expression that could fail on a row.

A failure would reveal the values of a row. The form of each allowed function is already total. TRY is a
second protection that does not depend on the list of functions. Comparisons, conditions and choices fail only
if a part does, so TRY goes around their parts: the optimizer still recognises conjunctions and equalities,
and the parts may contain subqueries, which TRY may not.
"""

from __future__ import annotations

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
    UtcTime,
    Window,
)
from dpsql.kernel.tree.node import OPAQUE, Expr, facts, mapped

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
        made = mapped(node, guarded)
    elif OPAQUE in facts(node).reads:
        raise InternalError("this is a bug of dpsql, nothing was run or charged: a subquery under TRY")
    else:
        made = Try(node)
    object.__setattr__(node, "_guarded", made)
    return made
