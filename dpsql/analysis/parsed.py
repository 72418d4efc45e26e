"""Read parts of the parser's nodes that several rules handle alike."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiler import check_arguments
from dpsql.kernel.loss import exact
from dpsql.kernel.tree import Expr, OrderTerm
from dpsql.language import Source


def words(table: str) -> frozenset[str]:
    """Return the words of a table that is written as one text."""
    return frozenset(table.split())


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the conjuncts of a condition."""
    node = node.unnest() if node is not None else None
    if isinstance(node, exp.And):
        return [*conjuncts(node.this), *conjuncts(node.expression)]
    return [] if node is None else [node]


def call_arguments(call: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the arguments of a call that have a name, and the others."""
    named: list[exp.Expr] = [each for each in call.expressions if isinstance(each, exp.Kwarg)]
    return named, [each for each in call.expressions if not isinstance(each, exp.Kwarg)]


def whole_number(node: object) -> int | None:
    """Return the value of a literal that is a whole number; None for other nodes."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        return int(node.this)
    return None


def number(node: exp.Expr) -> Fraction | None:
    """Return the value of a literal number, perhaps with a sign; None for other nodes."""
    sign = 1
    while isinstance(node, (exp.Paren, exp.Neg)):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if not isinstance(node, exp.Literal) or node.args.get("is_string"):
        return None
    try:
        return sign * exact(str(node.this))
    except ValueError:
        return None


def order_terms(source: Source, order: exp.Expr | None) -> list[exp.Expr]:
    """Return the terms of an ORDER BY."""
    if order is None:
        return []
    check_arguments(source, order, frozenset({"this", "expressions"}))
    for term in order.expressions:
        check_arguments(source, term, frozenset({"this", "desc", "nulls_first"}))
    return list(order.expressions)


def order_term(term: exp.Expr, expr: Expr) -> OrderTerm:
    """Return the compiled term of an ORDER BY."""
    nulls = "FIRST" if term.args.get("nulls_first") else "LAST"
    return OrderTerm(expr, "DESC" if term.args.get("desc") else "ASC", nulls)
