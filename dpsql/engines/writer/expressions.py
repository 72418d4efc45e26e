"""Rules of scalar expressions: columns, comparisons, conditions, CASE, conversions, operators and calls."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql import tree
from dpsql.engines.writer.value import Value, common_type, joint_range, type_family
from dpsql.tree import expanded, literal_sql
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, JSON, NULL, TIMESTAMP, VARCHAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.engines.writer.context import ColumnScope, Rule, Writer
    from dpsql.tree import Expr
    from dpsql.types import SqlType

__all__ = ["RULES", "check_comparable"]


def _column(work: Writer, node: tree.Column, scope: ColumnScope) -> Value:
    found = scope.column(node.table, node.name)
    if found is None:
        raise work.refuse("a column that no table in scope has")
    quote = work.dialect.quote
    sql = f"{quote(node.table)}.{quote(found.name)}"
    return Value(sql, found.type, found.value_range, one_zero=True)


def _null(work: Writer, node: tree.Constant, scope: ColumnScope) -> Value:
    return Value("NULL", NULL, constant=None)


def _paren(work: Writer, node: tree.Paren, scope: ColumnScope) -> Value:
    return work.expression(node.inner, scope)


def _try(work: Writer, node: tree.Try, scope: ColumnScope) -> Value:
    """Write the operand alone: every form of an engine is total."""
    return work.expression(node.operand, scope)


def _apply(work: Writer, node: tree.Apply, scope: ColumnScope) -> Value:
    return work.expression(expanded(node), scope)


def condition(work: Writer, node: Expr, scope: ColumnScope) -> str:
    """Write a BOOLEAN expression."""
    value = work.expression(node, scope)
    if value.type == NULL:
        return work.dialect.constant(None, BOOLEAN)
    if value.type != BOOLEAN:
        raise work.refuse("a condition that is not BOOLEAN")
    return value.sql


def _not(work: Writer, node: tree.Not, scope: ColumnScope) -> Value:
    return Value(f"(NOT {condition(work, node.operand, scope)})", BOOLEAN)


def _is_null(work: Writer, node: tree.IsNull, scope: ColumnScope) -> Value:
    word = "IS NOT NULL" if node.negated else "IS NULL"
    return Value(f"({work.expression(node.operand, scope).sql} {word})", BOOLEAN)


def _is_truth(work: Writer, node: tree.IsTruth, scope: ColumnScope) -> Value:
    word = "TRUE" if node.value else "FALSE"
    return Value(f"({condition(work, node.operand, scope)} IS {word})", BOOLEAN)


def check_comparable(work: Writer, a: Value, b: Value) -> None:
    """Refuse a comparison of types of two families, unless both are exact numbers: engines differ."""
    families = {type_family(a.type), type_family(b.type)} - {"0"}
    if len(families) > 1 and not families <= {"I", "B", "N"}:
        raise work.refuse(f"a comparison of {a.type} with {b.type}")


_DISTINCT = {"IS DISTINCT FROM": False, "IS NOT DISTINCT FROM": True}
_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "&", "|", "^@", "||"})


def _binary(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    word = node.operator
    if word in ("AND", "OR"):
        a, b = condition(work, node.left, scope), condition(work, node.right, scope)
        return Value(f"({a} {word} {b})", BOOLEAN)
    if isinstance(node.right, tree.Interval):
        return _add_interval(work, node, node.right.text, scope)
    if word in _ARITHMETIC:
        return _arithmetic(work, node, scope)
    if word not in ("=", "<>", "<", "<=", ">", ">=", *_DISTINCT):
        raise work.refuse(word)
    left, right = work.expression(node.left, scope), work.expression(node.right, scope)
    check_comparable(work, left, right)
    missing = NULL in (left.type, right.type)
    if word in _DISTINCT:
        if missing:
            raise work.refuse("IS DISTINCT FROM NULL")
        return Value(f"({work.dialect.is_distinct(left.sql, right.sql, negated=_DISTINCT[word])})", BOOLEAN)
    return Value(
        work.dialect.constant(None, BOOLEAN) if missing else f"({left.sql} {word} {right.sql})", BOOLEAN
    )


def _between(work: Writer, node: tree.Between, scope: ColumnScope) -> Value:
    value, low, high = (work.expression(n, scope) for n in (node.operand, node.low, node.high))
    check_comparable(work, value, low)
    check_comparable(work, value, high)
    return Value(f"(({value.sql} >= {low.sql}) AND ({value.sql} <= {high.sql}))", BOOLEAN)


def _in_list(work: Writer, node: tree.InList, scope: ColumnScope) -> Value:
    value, items = work.expression(node.operand, scope), [work.expression(i, scope) for i in node.items]
    for item in items:
        check_comparable(work, value, item)
    listed = ", ".join(work.dialect.in_type(i, value.type) if i.type == NULL else i.sql for i in items)
    return Value(f"({value.sql} IN ({listed}))", BOOLEAN)


def _common(work: Writer, values: Sequence[Value]) -> tuple[list[str], SqlType]:
    """Return the texts of several results in their common type, and that type."""
    sql_type = common_type([v.type for v in values])
    if sql_type == NULL:
        raise work.refuse("a choice among NULLs without a type")
    return [work.dialect.in_type(v, sql_type) for v in values], sql_type


def _case(work: Writer, node: tree.Case, scope: ColumnScope) -> Value:
    conditions = [condition(work, wanted, scope) for wanted, _ in node.branches]
    nodes = [result for _, result in node.branches] + ([] if node.default is None else [node.default])
    results = [work.expression(result, scope) for result in nodes]
    texts, sql_type = _common(work, results)
    text = " ".join(f"WHEN {c} THEN {t}" for c, t in zip(conditions, texts, strict=False))
    tail = f" ELSE {texts[-1]}" if node.default is not None else ""
    return Value(f"(CASE {text}{tail} END)", sql_type, joint_range(results))


def _canonical(work: Writer, node: tree.Canonical, scope: ColumnScope) -> Value:
    return work.dialect.canonical(work.expression(node.operand, scope))


def _cast(work: Writer, node: tree.Cast, scope: ColumnScope) -> Value:
    value = work.expression(node.operand, scope)
    if node.type == JSON:
        raise work.refuse("a conversion to JSON")
    if value.type == NULL:
        return Value(work.dialect.constant(None, node.type), node.type, constant=None)
    if value.type == node.type:
        return value
    return replace(work.dialect.cast(value, node.type), one_zero=True)


def _arithmetic(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left = work.expression(node.left, scope)
    right = work.expression(node.right, scope)
    if node.operator == "+" and left.type == DOUBLE and right.constant == 0 and right.type.name == "DECIMAL":
        return work.dialect.canonical(left)
    if node.operator == "/" and right.type == DOUBLE and not right.one_zero:
        # The sign of the infinite quotient would show the sign of the zero.
        raise work.refuse("a division by a DOUBLE that could be -0.0", "CAST the divisor to BIGINT")
    return work.form(node.operator, [left, right])


def _unary(work: Writer, node: tree.Unary, scope: ColumnScope) -> Value:
    return work.form("neg" if node.operator == "-" else node.operator, [work.expression(node.operand, scope)])


_YEARS_OF = {"year": 1.0, "month": 1 / 12, "week": 1 / 52, "day": 1 / 365, "hour": 1 / 8760}
_YEARS_OF.update(minute=1 / 525_600, second=1 / 31_536_000)
LAST_YEAR = 20_000.0
"""The last year that date arithmetic may reach: every engine has it."""


def _add_interval(work: Writer, node: tree.Binary, interval: str, scope: ColumnScope) -> Value:
    """Write a date or timestamp plus or minus an interval."""
    value = work.expression(node.left, scope)
    found = re.fullmatch(r"(-?\d{1,9})\s+([a-z]+?)s?", interval.strip().lower())
    known = node.operator in ("+", "-") and found is not None and found[2] in _YEARS_OF
    if not known or found is None or value.value_range is None:
        raise work.refuse("this INTERVAL", "INTERVAL 3 MONTH")
    amount = int(found[1]) * (-1 if node.operator == "-" else 1)
    moved = amount * _YEARS_OF[found[2]] * 1.01
    low, high = value.value_range[0] + min(0, moved) - 1, value.value_range[1] + max(0, moved) + 1
    if abs(moved) < 1:  # shorter than a year: only the first or last year can change
        low, high = value.value_range[0] - (amount < 0), value.value_range[1] + (amount > 0)
    if low < -4000 or high > LAST_YEAR:
        raise work.refuse("this date arithmetic: its result could lie beyond the dates that every engine has")
    if type_family(value.type) == "T":
        value = work.dialect.cast(value, TIMESTAMP)
    if type_family(value.type) != "M":
        raise work.refuse("an INTERVAL added to anything but a date or timestamp")
    made = work.form(f"add_{found[2]}", [value, Value(str(amount), BIGINT, constant=amount)])
    return replace(made, value_range=(low, high))


def _like(work: Writer, node: tree.Like, scope: ColumnScope) -> Value:
    value, pattern = work.expression(node.operand, scope), work.expression(node.pattern, scope)
    if type_family(value.type) != "S" or not isinstance(pattern.constant, str):
        raise work.refuse("LIKE with a pattern that is not constant")
    escape = "" if node.escape is None else work.expression(node.escape, scope).constant
    if not isinstance(escape, str) or len(escape) > 1 or (escape.isalpha() and node.word == "ILIKE"):
        raise work.refuse("this ESCAPE")
    parts = pattern_parts(pattern.constant, escape)
    if node.word == "ILIKE":
        value = work.form("lower", [value])
        parts = [p and str(work.schema_database.evaluate(f"lower({literal_sql(p)})")) for p in parts]
    return Value(f"({work.dialect.like(value, parts)})", BOOLEAN)


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


def _slice(work: Writer, node: tree.Slice, scope: ColumnScope) -> Value:
    value, length = work.expression(node.operand, scope), node.high - node.low + 1
    if type_family(value.type) != "S":
        raise work.refuse("elements of lists")
    if node.low < 1 or length < 1:
        raise work.refuse("a slice whose bounds are not constants from 1 on", "substring(x, 1, 3)")
    return work.form("substring", [value, *(Value(str(n), BIGINT, constant=n) for n in (node.low, length))])


def _call(work: Writer, node: tree.Call, scope: ColumnScope) -> Value:
    name = node.name.lower()
    values = [work.expression(argument, scope) for argument in node.arguments]
    match name:
        case "coalesce" | "ifnull" | "greatest" | "least":
            texts, sql_type = _common(work, values)
            if name in ("greatest", "least") and type_family(sql_type) in "LX":
                raise work.refuse(f"{name} of {sql_type}")
            word = "COALESCE" if name == "ifnull" else name.upper()
            return Value(f"{word}({', '.join(texts)})", sql_type, joint_range(values))
        case "nullif":
            check_comparable(work, *values)
            return values[0].with_sql(f"NULLIF({values[0].sql}, {values[1].sql})")
        case "hash" if len(values) > 1:  # samples the groups that a unit keeps; its value is not released
            return Value(work.dialect.hash_values([v.sql for v in values]), BIGINT)
        case "concat":
            return _concat(work, values)
    return work.form(name, values)


def _concat(work: Writer, values: list[Value]) -> Value:
    if any(type_family(v.type) not in "S0" for v in values):
        raise work.refuse("concat of anything but texts")
    present = [v for v in values if v.type != NULL]
    if len(present) < 2:
        present.append(Value(work.dialect.constant("", VARCHAR), VARCHAR))
    made = present[0]
    for value in present[1:]:
        made = work.form("concat_nonnull", [made, value])
    return made


def _unsupported(what: str) -> Rule:
    def refuse(work: Writer, node: Expr, scope: ColumnScope) -> Value:
        raise work.refuse(what)

    return refuse


RULES: dict[type[Expr], Rule] = {
    tree.Column: _column,
    tree.Constant: _null,
    tree.Paren: _paren,
    tree.Try: _try,
    tree.Apply: _apply,
    tree.Not: _not,
    tree.IsNull: _is_null,
    tree.IsTruth: _is_truth,
    tree.Binary: _binary,
    tree.Between: _between,
    tree.InList: _in_list,
    tree.Case: _case,
    tree.Canonical: _canonical,
    tree.Cast: _cast,
    tree.Unary: _unary,
    tree.Like: _like,
    tree.Slice: _slice,
    tree.Call: _call,
    tree.Interval: _unsupported("this INTERVAL"),
    tree.ListOf: _unsupported("a list"),
    tree.Element: _unsupported("elements of lists"),
    tree.Lambda: _unsupported("a function of a list's elements"),
}
"""The rule of each node type."""
