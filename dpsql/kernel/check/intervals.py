"""Intervals of a unit's values that no rule for one operator gives: means, and what is computed of them.

*Mean.* ``LEAST(x, n W) * k // NULLIF(n, 0)`` with x and n from 0 on, and W and k constants from 0 on: it is
NULL for n = 0, and else at most n W k / n = W k, and from 0 on.
"""

from __future__ import annotations

from dpsql.kernel.check.proof import Proof, is_null, strip_casts, strip_wide_casts, whole_number
from dpsql.kernel.check.types_of import Number
from dpsql.kernel.tree import Binary, Call, Case, Expr, Select


def ends_of(proof: Proof, expr: Expr, query: Select) -> tuple[Number, Number]:
    """Return the least and the greatest value of an expression where it is not NULL."""
    inner = strip_wide_casts(expr)
    match inner:
        case Binary("//"):
            found = _mean(proof, inner, query)
            if found is not None:
                return found
        case Binary("+" | "-" as operator, x, y):
            one, other = ends_of(proof, x, query), ends_of(proof, y, query)
            if operator == "+":
                return one[0] + other[0], one[1] + other[1]
            return one[0] - other[1], one[1] - other[0]
        case Case(branches, default) if any(_is_mean(result) for _, result in branches):
            results = [result for _, result in branches] + ([] if default is None else [default])
            ends = [ends_of(proof, result, query) for result in results if not is_null(result)]
            return min(low for low, _ in ends), max(high for _, high in ends)
    value = proof.value(expr, query)
    return value.low, value.high


def _is_mean(expr: Expr) -> bool:
    inner = strip_casts(expr)
    if isinstance(inner, Binary) and inner.operator in ("+", "-"):
        return _is_mean(inner.left) or _is_mean(inner.right)
    return isinstance(inner, Binary) and inner.operator == "//"


def _mean(proof: Proof, expr: Binary, query: Select) -> tuple[Number, Number] | None:
    divisor = strip_casts(expr.right)
    if not (isinstance(divisor, Call) and divisor.name.upper() == "NULLIF" and len(divisor.arguments) == 2):
        return None
    if whole_number(divisor.arguments[1]) != 0:
        return None
    n, factor, top = strip_casts(divisor.arguments[0]), 1, strip_casts(expr.left)
    if isinstance(top, Binary) and top.operator == "*":
        found = whole_number(top.right)
        if found is None or found < 0:
            return None
        factor, top = found, strip_casts(top.left)
    if not (isinstance(top, Call) and top.name.upper() == "LEAST" and len(top.arguments) == 2):
        return None
    x, bound = top.arguments
    product = strip_casts(bound)
    each: int | None = 1
    if isinstance(product, Binary) and product.operator == "*":
        each, product = whole_number(product.right), strip_casts(product.left)
    if each is None or each < 0 or product != n or proof.value(bound, query).nullable:
        return None
    if proof.value(x, query).low < 0 or proof.value(n, query).low < 0:
        return None
    proof.note("mean", f"a mean of at most {each} is at most {each * factor} in its steps")
    return 0, each * factor
