"""Rules of operators, functions, LIKE, aggregates and windows: how a node of the tree is written."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from dpsql.engines.writer.expression_rules import check_comparable, write_condition
from dpsql.engines.writer.statement_writer import ColumnScope, Rule, Writer
from dpsql.engines.writer.written_values import Value, joint_range, type_family
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr, literal_sql
from dpsql.kernel.tree.writer import write_bound
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, NULL, TIMESTAMP, VARCHAR


def _write_binary(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    rule = OPERATORS.get(node.operator)
    if rule is None:
        raise work.refuse(node.operator)
    return rule(work, node, scope)


def _write_arithmetic(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    if isinstance(node.right, tree.Interval):
        return _write_interval_sum(work, node, node.right, scope)
    left = work.expression(node.left, scope)
    right = work.expression(node.right, scope)
    if node.operator == "+" and left.type == DOUBLE and right.constant == 0 and right.type.name == "DECIMAL":
        return work.dialect.canonical(left)
    if node.operator == "/" and right.type == DOUBLE and not right.one_zero:
        # The sign of the infinite quotient would show the sign of the zero.
        raise work.refuse("a division by a DOUBLE that could be -0.0", "CAST the divisor to BIGINT")
    return work.form(node.operator, [left, right])


def _write_logical(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left, right = write_condition(work, node.left, scope), write_condition(work, node.right, scope)
    return Value(f"({left} {node.operator} {right})", BOOLEAN)


def _write_comparison(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left, right = work.expression(node.left, scope), work.expression(node.right, scope)
    check_comparable(work, left, right)
    if NULL in (left.type, right.type):
        return Value(work.dialect.constant(None, BOOLEAN), BOOLEAN)
    return Value(f"({left.sql} {node.operator} {right.sql})", BOOLEAN)


def _write_distinct(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    left, right = work.expression(node.left, scope), work.expression(node.right, scope)
    check_comparable(work, left, right)
    if NULL in (left.type, right.type):
        raise work.refuse("IS DISTINCT FROM NULL")
    negated = node.operator == "IS NOT DISTINCT FROM"
    if negated and isinstance(node.left, tree.Column) and isinstance(node.right, tree.Column):
        return Value(f"({work.dialect.same_column(left, right)})", BOOLEAN)
    return Value(f"({work.dialect.is_distinct(left.sql, right.sql, negated=negated)})", BOOLEAN)


OPERATORS: dict[str, Rule] = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%", "&", "|", "^@", "||"), _write_arithmetic),
    **dict.fromkeys(("AND", "OR"), _write_logical),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _write_comparison),
    **dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _write_distinct),
}
"""The rule of each operator between two operands."""


def _write_unary(work: Writer, node: tree.Unary, scope: ColumnScope) -> Value:
    return work.form("neg" if node.operator == "-" else node.operator, [work.expression(node.operand, scope)])


_YEARS_OF = {"year": 1.0, "month": 1 / 12, "week": 1 / 52, "day": 1 / 365, "hour": 1 / 8760}
_YEARS_OF.update(minute=1 / 525_600, second=1 / 31_536_000)
LAST_YEAR = 20_000.0
"""The last year that date arithmetic may reach: every engine has it."""


def _write_interval_sum(
    work: Writer, node: tree.Binary, interval: tree.Interval, scope: ColumnScope
) -> Value:
    """Write a date or timestamp plus or minus an interval."""
    value = work.expression(node.left, scope)
    found = re.fullmatch(r"(-?\d{1,9})\s+([a-z]+?)s?", interval.text.strip().lower())
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


_MOVABLE = datetime(1, 1, 2), datetime(9999, 12, 30, 23, 59, 59, 999999)
"""The first and last moment that stays within the years 1 to 9999, whose dates every engine has."""


def _write_moved(work: Writer, node: tree.Moved, scope: ColumnScope) -> Value:
    """Write a timestamp moved by less than a day; one that could leave the years 1 to 9999 is NULL."""
    value = work.expression(node.operand, scope)
    if type_family(value.type) != "M":
        raise work.refuse("a move of anything but a timestamp")
    seconds = Value(str(node.seconds), BIGINT, constant=node.seconds)
    first, last = (work.dialect.constant(end, TIMESTAMP) for end in _MOVABLE)

    def move(values: list[Value]) -> Value:
        (x,) = values
        made = work.form("add_second", [x, seconds]).sql
        return Value(f"(CASE WHEN {x.sql} BETWEEN {first} AND {last} THEN {made} END)", TIMESTAMP, (1, 9999))

    return work.once([value], move)


def _write_like(work: Writer, node: tree.Like, scope: ColumnScope) -> Value:
    value, pattern = work.expression(node.operand, scope), work.expression(node.pattern, scope)
    if type_family(value.type) != "S" or not isinstance(pattern.constant, str):
        raise work.refuse("LIKE with a pattern that is not constant")
    escape = "" if node.escape is None else work.expression(node.escape, scope).constant
    if not isinstance(escape, str) or len(escape) > 1 or (escape.isalpha() and node.word == "ILIKE"):
        raise work.refuse("this ESCAPE")
    parts = split_pattern(pattern.constant, escape)
    if node.word == "ILIKE":
        value = work.form("lower", [value])
        parts = [p and str(work.schema_database.evaluate(f"lower({literal_sql(p)})")) for p in parts]
    return work.once([value], lambda values: Value(f"({work.dialect.like(values[0], parts)})", BOOLEAN))


def split_pattern(pattern: str, escape: str) -> list[str | None]:
    r"""Split a LIKE pattern into literal texts, None for `%` and the empty text for `_`.

    >>> split_pattern("a$%_%", "$")
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


def _write_slice(work: Writer, node: tree.Slice, scope: ColumnScope) -> Value:
    value, length = work.expression(node.operand, scope), node.high - node.low + 1
    if type_family(value.type) != "S":
        raise work.refuse("elements of lists")
    if node.low < 1 or length < 1:
        raise work.refuse("a slice whose bounds are not constants from 1 on", "substring(x, 1, 3)")
    return work.form("substring", [value, *(Value(str(n), BIGINT, constant=n) for n in (node.low, length))])


def _write_call(work: Writer, node: tree.Call, scope: ColumnScope) -> Value:
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
            return _write_concat(work, values)
    return work.form(name, values)


def _write_concat(work: Writer, values: list[Value]) -> Value:
    if any(type_family(v.type) not in "S0" for v in values):
        raise work.refuse("concat of anything but texts")
    present = [v for v in values if v.type != NULL]
    if len(present) < 2:
        present.append(Value(work.dialect.constant("", VARCHAR), VARCHAR))
    made = present[0]
    for value in present[1:]:
        made = work.form("concat_nonnull", [made, value])
    return made


_RANKS = {
    "row_number": BIGINT,
    "rank": BIGINT,
    "dense_rank": BIGINT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
}
_VALUES = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})


def _write_aggregate(work: Writer, node: tree.Aggregate, scope: ColumnScope, over: str = "") -> Value:
    name, where = node.name.lower(), ""
    if name == "first":
        # Engines collect the values of a group to order them, and fail if one group is too large.
        raise work.refuse("FIRST and LAST, ARG_MAX and ARG_MIN", "a window: ROW_NUMBER() OVER (..) = 1")
    if node.filter is not None:
        where = f" FILTER (WHERE {write_condition(work, node.filter, scope)})"
    if name == "count" and not node.arguments:
        made = Value(f"COUNT(*){where}{over}", BIGINT)
        work.grouped.add(made.sql)
        return made
    if node.order or len(node.arguments) != 1:
        raise work.refuse(f"{name} with ORDER BY, as for DOUBLE values", "CAST the values to BIGINT")
    value = work.expression(node.arguments[0], scope)
    made = work.dialect.aggregate(name, value, distinct=node.distinct, tail=where + over)
    work.grouped.add(made.sql)
    return made


def _write_window(work: Writer, node: tree.Window, scope: ColumnScope) -> Value:
    parts = []
    if node.partition:
        parts.append("PARTITION BY " + ", ".join(work.expression(p, scope).sql for p in node.partition))
    if node.order:
        parts.append("ORDER BY " + work.ordering(node.order, scope))
    if node.frame is not None:
        parts.append(_write_frame(work, node.frame))
    over = f" OVER ({' '.join(parts)})"
    match node.function:
        case tree.Aggregate(distinct=False):
            value = _write_aggregate(work, node.function, scope, over)
        case tree.Call():
            value = _write_window_function(work, node.function, scope, over, framed=node.frame is not None)
        case _:
            raise work.refuse("DISTINCT in a window")
    work.grouped.add(value.sql)
    return value.with_sql(f"({value.sql})")


def _write_window_function(
    work: Writer, node: tree.Call, scope: ColumnScope, over: str, *, framed: bool
) -> Value:
    name, arguments = node.name.lower(), node.arguments
    if framed and (name in _RANKS or name in ("ntile", "lag", "lead")):
        raise work.refuse(f"a frame for {name}", "leave the frame out: it has no effect")
    if name in _RANKS:
        sql_type = _RANKS[name]
        made = f"{name.upper()}(){over}"
        return Value(made if sql_type == DOUBLE else _write_wide(work, made), sql_type)
    constants = [work.expression(argument, scope).constant for argument in arguments[name in _VALUES :]]
    if not all(isinstance(constant, int) for constant in constants):
        raise work.refuse(f"{name} of anything but a constant number")
    if name == "ntile":
        return Value(_write_wide(work, f"NTILE({constants[0]}){over}"), BIGINT)
    if name in _VALUES:
        value = work.expression(arguments[0], scope)
        return value.with_sql(f"{name.upper()}({', '.join(map(str, (value.sql, *constants)))}){over}")
    raise work.refuse(f"the window function {name}")


def _write_wide(work: Writer, sql: str) -> str:
    """Convert to BIGINT: some engines return INTEGER from ranking functions."""
    return f"CAST({sql} AS {work.dialect.type_name(BIGINT)})"


def _write_frame(work: Writer, frame: tree.Frame) -> str:
    if frame.unit == "GROUPS" and not work.dialect.group_frames:
        raise work.refuse("frames by GROUPS")
    if frame.end is None:
        return f"{frame.unit} {write_bound(frame.start)}"
    return f"{frame.unit} BETWEEN {write_bound(frame.start)} AND {write_bound(frame.end)}"


FUNCTION_RULES: dict[type[Expr], Rule] = {
    tree.Binary: _write_binary,
    tree.Unary: _write_unary,
    tree.Moved: _write_moved,
    tree.Call: _write_call,
    tree.Like: _write_like,
    tree.Slice: _write_slice,
    tree.Aggregate: _write_aggregate,
    tree.Window: _write_window,
}
"""The rules of node types that are operators or calls."""
