"""Columns of public rows that never have a value."""

from __future__ import annotations

from dpsql.kernel.check.proof import is_null, stripped, whole_number
from dpsql.kernel.tree import Column, Constant, Derived, DomainScan, Expr, IsNull, Query, Select, SetOperation

BEYOND = 4611686018427387904


def never(query: Query, name: str, expr: object) -> bool:
    """Return whether a column of a public query never has the value of a constant."""
    if not isinstance(expr, Expr):
        return False
    if isinstance(query, SetOperation):
        return query.word == "UNION ALL" and False
    if not isinstance(query, Select):
        return False
    for item in query.items:
        found = item.name or (item.expr.name if isinstance(item.expr, Column) else "")
        if found == name:
            return _differs(query, item.expr, expr)
    return False


def _differs(query: Select, mine: Expr, other: Expr) -> bool:
    one, two = stripped(mine), stripped(other)
    if isinstance(one, Constant) and isinstance(two, Constant) and not is_null(one) and not is_null(two):
        return type(one.value) is type(two.value) and one.value != two.value
    if is_null(two):
        return _never_null(query, one)
    return False


def _never_null(query: Select, expr: Expr) -> bool:
    from dpsql.kernel.check.proof import conjuncts

    if any(isinstance(c, IsNull) and c.negated and stripped(c.operand) == expr for c in conjuncts(query.where)):
        return True
    if not isinstance(expr, Column):
        return isinstance(expr, Constant) and expr.value is not None
    source = query.source
    if isinstance(source, DomainScan):
        return True
    if isinstance(source, Derived) and isinstance(source.query, Select) and expr.table in ("", source.alias):
        for item in source.query.items:
            found = item.name or (item.expr.name if isinstance(item.expr, Column) else "")
            if found == expr.name:
                return _never_null(source.query, stripped(item.expr))
    return False


__all__ = ["never", "whole_number"]
