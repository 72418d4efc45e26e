"""Rules of function calls, of LIKE, and of parts of a text."""

from __future__ import annotations

from dpsql.engines.writer.conditions import check_comparable
from dpsql.engines.writer.context import ColumnScope, Rule, Writer
from dpsql.engines.writer.value import Value, joint_range, type_family
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr, literal_sql
from dpsql.types import BIGINT, BOOLEAN, NULL, VARCHAR


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
    return work.once([value], lambda values: Value(f"({work.dialect.like(values[0], parts)})", BOOLEAN))


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
            texts, sql_type = work.common(values)
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


RULES: dict[type[Expr], Rule] = {tree.Call: _call, tree.Like: _like, tree.Slice: _slice}
"""The rule of each node type."""
