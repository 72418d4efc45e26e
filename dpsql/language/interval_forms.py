"""Read constant intervals: amounts and products of whole numbers, and texts that are cast to INTERVAL."""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.language.syntax_trees import copy_tree

_TEXT = re.compile(r"\s*([+-]?\d{1,9})\s+([A-Za-z]+)\s*")


def read_interval(node: exp.Expr) -> exp.Expr | None:
    """Return an interval with a whole number as its amount; None if the node stays as it is.

    >>> from dpsql.language import parse
    >>> [str(item) for item in parse("SELECT INTERVAL (-1) MONTH, INTERVAL '1' DAY * 2").tree.selects]
    ["INTERVAL '-1' MONTH", "INTERVAL '2' DAY"]
    """
    match node:
        case exp.Interval():
            amount = node.this
            if amount is None or isinstance(amount, exp.Literal):
                return None
            number = _read_whole(amount)
            return None if number is None else _multiply(node, number, 1)
        case exp.Neg() if isinstance(node.this.unnest(), exp.Interval):
            return _multiply(node.this.unnest(), _amount(node.this.unnest()), -1)
        case exp.Mul():
            sides = node.this.unnest(), node.expression.unnest()
            for span, factor in (sides, sides[::-1]):
                number = _read_whole(factor)
                if isinstance(span, exp.Interval) and number is not None:
                    return _multiply(span, _amount(span), number)
        case exp.Cast() if node.to.this == exp.DataType.Type.INTERVAL and not node.to.expressions:
            text = node.this
            found = _TEXT.fullmatch(text.name) if isinstance(text, exp.Literal) and text.is_string else None
            if found is not None:
                return _make(int(found[1]), exp.Var(this=found[2].upper()))
    return None


def _multiply(span: exp.Interval, amount: int | None, factor: int) -> exp.Expr | None:
    unit = span.args.get("unit")
    if amount is None or unit is None or abs(amount * factor) >= 10**9:
        return None
    return _make(amount * factor, copy_tree(unit))


def _make(amount: int, unit: exp.Expr) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string(str(amount)), unit=unit)


def _amount(span: exp.Interval) -> int | None:
    """Return the amount of an interval that is a literal whole number."""
    text = span.this.name if isinstance(span.this, exp.Literal) else ""
    return int(text) if re.fullmatch(r"[+-]?\d{1,9}", text) else None


def _read_whole(node: exp.Expr) -> int | None:
    """Return the value of an expression of literal whole numbers; None for others."""
    match node:
        case exp.Paren():
            return _read_whole(node.this)
        case exp.Neg():
            inner = _read_whole(node.this)
            return None if inner is None else -inner
        case exp.Literal():
            known = not node.is_string and str(node.this).isdecimal() and len(str(node.this)) < 10
            return int(node.this) if known else None
        case exp.Add() | exp.Sub() | exp.Mul():
            a, b = _read_whole(node.this), _read_whole(node.expression)
            if a is None or b is None:
                return None
            return a + b if isinstance(node, exp.Add) else a - b if isinstance(node, exp.Sub) else a * b
    return None
