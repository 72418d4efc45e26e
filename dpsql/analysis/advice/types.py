"""Advise on arguments whose types do not fit."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.advice.statement import Advice, Statement
from dpsql.errors import Fix, Obstacle

_CASTS = frozenset({"VARCHAR", "DATE", "TIMESTAMP", "BIGINT", "DOUBLE"})
"""Types that an argument may be converted to."""

_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"})


def _fits(given: str, wanted: str) -> bool:
    """Return whether an argument fits as it is; a word in small letters is a literal text."""
    return given == wanted or wanted.islower() or {given, wanted} <= _NUMBERS


def _types(call: str) -> list[str]:
    """Return the types in the parentheses of a call that a message shows."""
    inside = call.partition("(")[2].rpartition(")")[0].partition(") (")[0]
    return inside.split(", ") if inside else []


def types(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Convert the arguments that do not fit a function or operator."""
    given = _types(one.message.partition(" with ")[2])
    operands = [node.this, node.expression] if isinstance(node, exp.Binary) else list(node.expressions)
    allowed = [_types(form) for form in (one.hint or "").split("; ") if len(_types(form)) == len(given)]
    ways = [
        [i for i, (a, b) in enumerate(zip(given, form, strict=True)) if not _fits(a, b)] for form in allowed
    ]
    fitting = [
        (places, form)
        for places, form in zip(ways, allowed, strict=True)
        if places
        and all(form[i] == "VARCHAR" or given[i] == "VARCHAR" for i in places)
        and all(form[i] in _CASTS for i in places)
    ]
    if not fitting or len(operands) != len(given):
        return None
    number = any(t in _NUMBERS for t in given)
    places, form = min(fitting, key=lambda way: (number and "DATE" in way[1], len(way[0])))
    text, casts = of.text, list[Fix]()
    for i in places:
        span = of.outline.span(operands[i])
        if span is None:
            return None
        casts.append(Fix(f"CAST({text[span[0] : span[1]]} AS {form[i]})", *span))
    return ", ".join(c.text for c in casts), replace(casts[0], also=tuple(casts[1:]))


def compared(of: Statement, node: exp.Expr, one: Obstacle) -> Advice | None:
    """Convert a text that is compared with a number or a date."""
    first, _, rest = one.message.partition(" and ")
    target = one.message.partition("CAST(... AS ")[2].partition(")")[0] or rest.partition(" ")[0]
    if not isinstance(node, exp.Binary) or first != "VARCHAR" or target not in _CASTS | {"INTEGER"}:
        return None
    operand = node.expression if isinstance(node.this, exp.Literal) else node.this
    span = of.outline.span(operand)
    if span is None or isinstance(operand, exp.Literal):
        return None
    written = f"CAST({of.text[span[0] : span[1]]} AS {target})"
    return f"{written}, which is NULL where it does not convert", Fix(written, *span)
