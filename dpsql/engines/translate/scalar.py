"""Rules of scalar expressions: columns, comparisons, conditions, CASE, conversions, operators and LIKE."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.engines.translate.context import check_parts, expression
from dpsql.engines.translate.forms import fits, no_form
from dpsql.engines.translate.parsing import call
from dpsql.engines.translate.value import NOT_CONSTANT, Value, common_type, joint_range, type_family
from dpsql.types import BIGINT, BOOLEAN, HUGEINT, NULL, TIMESTAMP, column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.engines.translate.context import ColumnScope, Rule, Translation
    from dpsql.types import SqlType

__all__ = ["RULES", "apply_form", "check_comparable", "common_texts"]


def _column(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "table")
    found = scope.column(str(node.args["table"].name), str(node.name)) if node.args.get("table") else None
    if found is None:
        raise work.refuse("a column that no table in scope has")
    quote = work.dialect.quote
    return Value(f"{quote(str(node.args['table'].name))}.{quote(found.name)}", found.type, found.value_range)


def _null(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    return Value("NULL", NULL, constant=None)


def _and_or(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expression")
    a, b = _condition(work, node.this, scope), _condition(work, node.expression, scope)
    return Value(f"({a.sql} {'AND' if isinstance(node, exp.And) else 'OR'} {b.sql})", BOOLEAN)


def _not(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this")
    inner = node.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
        return Value(f"({expression(work, inner.this, scope).sql} IS NOT NULL)", BOOLEAN)
    return Value(f"(NOT {_condition(work, inner, scope).sql})", BOOLEAN)


def _condition(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    value = expression(work, node, scope)
    if value.type == NULL:
        return Value(work.dialect.null(BOOLEAN), BOOLEAN, constant=None)
    if value.type != BOOLEAN:
        raise work.refuse("a condition that is not BOOLEAN")
    return value


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def check_comparable(work: Translation, a: Value, b: Value) -> None:
    """Refuse a comparison of types of two families, unless both are exact numbers: engines differ."""
    families = {type_family(a.type), type_family(b.type)} - {"0"}
    if len(families) > 1 and not families <= {"I", "B", "N"}:
        raise work.refuse(f"a comparison of {a.type} with {b.type}")


def _comparison(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expression")
    a, b = expression(work, node.this, scope), expression(work, node.expression, scope)
    check_comparable(work, a, b)
    if NULL in (a.type, b.type):
        return Value(work.dialect.null(BOOLEAN), BOOLEAN)
    return Value(f"({a.sql} {_COMPARISONS[type(node)]} {b.sql})", BOOLEAN)


def _distinct(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expression")
    a, b = expression(work, node.this, scope), expression(work, node.expression, scope)
    check_comparable(work, a, b)
    if NULL in (a.type, b.type):
        raise work.refuse("IS DISTINCT FROM NULL")
    negated = isinstance(node, exp.NullSafeEQ)
    return Value(f"({work.dialect.is_distinct(a.sql, b.sql, negated=negated)})", BOOLEAN)


def _between(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "low", "high")
    value, low, high = (expression(work, node.args[n], scope) for n in ("this", "low", "high"))
    check_comparable(work, value, low)
    check_comparable(work, value, high)
    return Value(f"(({value.sql} >= {low.sql}) AND ({value.sql} <= {high.sql}))", BOOLEAN)


def _is(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expression")
    what = node.expression
    if isinstance(what, exp.Null):
        return Value(f"({expression(work, node.this, scope).sql} IS NULL)", BOOLEAN)
    if isinstance(what, exp.Boolean):
        value = _condition(work, node.this, scope)
        return Value(f"({value.sql} IS {'TRUE' if what.this else 'FALSE'})", BOOLEAN)
    raise work.refuse("IS of anything but NULL, TRUE or FALSE")


def common_texts(work: Translation, values: Sequence[Value]) -> tuple[list[str], SqlType]:
    """Return the texts of several results in their common type, and that type."""
    sql_type = common_type([v.type for v in values])
    if sql_type == NULL:
        raise work.refuse("a choice among NULLs without a type")
    return [work.dialect.in_type(v, sql_type) for v in values], sql_type


def _case(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "ifs", "default")
    canonical = _canonical_argument(node)
    if canonical is not None:
        return work.dialect.canonical(expression(work, canonical, scope))
    conditions = [_condition(work, branch.this, scope) for branch in node.args["ifs"]]
    results = [expression(work, branch.args["true"], scope) for branch in node.args["ifs"]]
    default = node.args.get("default")
    if default is not None:
        results.append(expression(work, default, scope))
    texts, sql_type = common_texts(work, results)
    text = " ".join(f"WHEN {c.sql} THEN {t}" for c, t in zip(conditions, texts, strict=False))
    tail = f" ELSE {texts[-1]}" if default is not None else ""
    return Value(f"(CASE {text}{tail} END)", sql_type, joint_range(results))


def _canonical_argument(node: exp.Expr) -> exp.Expr | None:
    """Return x of the CASE by which the analysis makes a DOUBLE x canonical; None for every other CASE."""
    branches, default = node.args["ifs"], node.args.get("default")
    if len(branches) != 1 or not isinstance(default, exp.Add) or call(branches[0].this) != "isnan":
        return None
    inner: exp.Expr = branches[0].this.expressions[0]
    added = default.expression
    zero = isinstance(added, exp.Literal) and not added.args.get("is_string") and str(added.this) == "0.0"
    return inner if zero and default.this == inner else None


def _cast(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "to", "safe")
    text = node.args["to"].sql("duckdb")
    value = expression(work, node.this, scope)
    try:
        sql_type = column_type(text) if text.upper() not in ("INT128", "HUGEINT") else HUGEINT
    except ValueError:
        raise work.refuse(f"a conversion to {text}") from None
    if value.type == NULL:
        return Value(work.dialect.null(sql_type), sql_type, constant=None)
    if value.type == sql_type:
        return value
    return work.dialect.cast(value, sql_type)


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseNot: "~",
    exp.Neg: "neg",
    exp.StartsWith: "^@",
    exp.DPipe: "||",
}


def _operator(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expression", "typed", "safe")
    parts = [node.this, *([node.expression] if node.args.get("expression") is not None else [])]
    if isinstance(parts[-1], exp.Interval):
        return _add_interval(work, node, expression(work, node.this, scope), parts[-1])
    name = _OPERATORS[type(node)]
    if name == "+" and _is_zero(parts[1]):
        value = expression(work, parts[0], scope)
        if value.type.name == "DOUBLE":
            return work.dialect.canonical(value)
    values = [expression(work, p, scope) for p in parts]
    if name == "/" and values[1].type.name == "DOUBLE" and values[1].constant is NOT_CONSTANT:
        _check_divisor(work, parts[1])
    return apply_form(work, name, values)


def _check_divisor(work: Translation, node: exp.Expr) -> None:
    """Refuse a divisor that could be -0.0: the sign of the infinite quotient would show it."""
    while isinstance(node, exp.Paren):
        node = node.this
    canonical = isinstance(node, exp.Case) and _canonical_argument(node) is not None
    summed = isinstance(node, exp.Add) and _is_zero(node.expression)
    if not (canonical or summed or isinstance(node, (exp.Column, exp.Cast, exp.TryCast))):
        raise work.refuse("a division by a DOUBLE that could be -0.0", "CAST the divisor to BIGINT")


def _is_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.args.get("is_string") and str(node.this) == "0.0"


_YEARS_OF = {"year": 1.0, "month": 1 / 12, "week": 1 / 52, "day": 1 / 365, "hour": 1 / 8760}
_YEARS_OF.update(minute=1 / 525_600, second=1 / 31_536_000)
LAST_YEAR = 20_000.0
"""The last year that date arithmetic may reach: every engine has it."""


def _add_interval(work: Translation, node: exp.Expr, value: Value, interval: exp.Expr) -> Value:
    """Translate a date or timestamp plus or minus an interval."""
    text = interval.this.this if isinstance(interval.this, exp.Literal) else ""
    unit = interval.args.get("unit")
    words = f"{text} {unit.name}" if unit is not None else str(text)
    found = re.fullmatch(r"(-?\d{1,9})\s+([a-z]+?)s?", words.strip().lower())
    if found is None or found[2] not in _YEARS_OF or value.value_range is None:
        raise work.refuse("this INTERVAL", "INTERVAL 3 MONTH")
    amount = int(found[1]) * (-1 if isinstance(node, exp.Sub) else 1)
    moved = amount * _YEARS_OF[found[2]] * 1.01
    low, high = value.value_range[0] + min(0, moved) - 1, value.value_range[1] + max(0, moved) + 1
    if abs(moved) < 1:  # shorter than a year: only the first or last year can change
        low, high = value.value_range[0] - (amount < 0), value.value_range[1] + (amount > 0)
    check_reachable(work, low, high)
    if type_family(value.type) == "T":
        value = work.dialect.cast(value, TIMESTAMP)
    if type_family(value.type) != "M":
        raise work.refuse("an INTERVAL added to anything but a date or timestamp")
    amount_value = Value(str(amount), BIGINT, constant=amount)
    made = apply_form(work, f"add_{found[2]}", [value, amount_value])
    return replace(made, value_range=(low, high))


def check_reachable(work: Translation, low: float, high: float) -> None:
    """Refuse date arithmetic whose result could lie beyond the dates that every engine has."""
    if low < -4000 or high > LAST_YEAR:
        raise work.refuse("this date arithmetic: its result could lie beyond the dates that every engine has")


def apply_form(work: Translation, name: str, values: list[Value]) -> Value:
    """Write a function call or operator by the dialect's first form that takes these arguments."""
    forms = work.dialect.forms.get(name, ())
    for entry in forms:
        if fits(entry, values):
            return entry.apply(values)
    raise no_form(name, work.dialect.name, bool(forms))


def _like(work: Translation, node: exp.Expr, scope: ColumnScope, escape: str = "") -> Value:
    check_parts(work, node, "this", "expression", "negate")
    value, pattern = expression(work, node.this, scope), expression(work, node.expression, scope)
    if type_family(value.type) != "S" or not isinstance(pattern.constant, str):
        raise work.refuse("LIKE with a pattern that is not constant")
    parts = pattern_parts(pattern.constant, escape)
    if isinstance(node, exp.ILike):
        value = apply_form(work, "lower", [value])
        parts = [str(work.schema_database.evaluate(f"lower({_literal(p)})")) if p else p for p in parts]
    negated = "NOT " if node.args.get("negate") else ""
    return Value(f"({negated}{work.dialect.like(value, parts)})", BOOLEAN)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def pattern_parts(pattern: str, escape: str) -> list[str | None]:
    r"""Split a LIKE pattern into literal texts, None for `%` and the empty text for `_`.

    >>> pattern_parts("a$%_%", "$")
    ['a%', '', None]
    """
    parts: list[str | None] = []
    text, i = "", 0
    while i < len(pattern):
        char = pattern[i]
        if escape and char == escape:
            i += 1
            text += pattern[i] if i < len(pattern) else ""
        elif char in "%_":
            if text:
                parts.append(text)
            text = ""
            parts.append(None if char == "%" else "")
        else:
            text += char
        i += 1
    if text:
        parts.append(text)
    return parts


def _escape(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expression")
    mark = node.expression
    if not isinstance(mark, exp.Literal) or len(str(mark.this)) != 1:
        raise work.refuse("this ESCAPE")
    if not isinstance(node.this, (exp.Like, exp.ILike)):
        raise work.refuse("ESCAPE without LIKE")
    if isinstance(node.this, exp.ILike) and str(mark.this).isalpha():
        raise work.refuse("ILIKE with a letter as ESCAPE")
    return _like(work, node.this, scope, str(mark.this))


def _slice(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    check_parts(work, node, "this", "expressions", "offset", "safe")
    index = node.expressions[0] if len(node.expressions) == 1 else None
    value = expression(work, node.this, scope)
    if type_family(value.type) != "S" or not isinstance(index, exp.Slice):
        raise work.refuse("elements of lists")
    check_parts(work, index, "this", "expression")
    low, high = (expression(work, index.args[n], scope).constant for n in ("this", "expression"))
    if not isinstance(low, int) or not isinstance(high, int) or not 1 <= low <= high:
        raise work.refuse("a slice whose bounds are not constants from 1 on", "substring(x, 1, 3)")
    length = high - low + 1
    parts = [Value(str(n), BIGINT, constant=n) for n in (low, length)]
    return apply_form(work, "substring", [value, *parts])


RULES: dict[type[exp.Expr], Rule] = {
    exp.Column: _column,
    exp.Null: _null,
    exp.And: _and_or,
    exp.Or: _and_or,
    exp.Not: _not,
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.NullSafeEQ: _distinct,
    exp.NullSafeNEQ: _distinct,
    exp.Between: _between,
    exp.Is: _is,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    **dict.fromkeys(_OPERATORS, _operator),
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Bracket: _slice,
}
"""The rule of each node type."""
