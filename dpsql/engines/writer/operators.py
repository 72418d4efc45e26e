"""Rules of operators: arithmetic, dates plus intervals, and those of conditions."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from dpsql.engines.writer import conditions
from dpsql.engines.writer.context import ColumnScope, Rule, Writer
from dpsql.engines.writer.value import Value, type_family
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr
from dpsql.types import BIGINT, DOUBLE, TIMESTAMP


def _binary(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    rule = OPERATORS.get(node.operator)
    if rule is None:
        raise work.refuse(node.operator)
    return rule(work, node, scope)


def _arithmetic(work: Writer, node: tree.Binary, scope: ColumnScope) -> Value:
    if isinstance(node.right, tree.Interval):
        return _add_interval(work, node, node.right, scope)
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


def _add_interval(work: Writer, node: tree.Binary, interval: tree.Interval, scope: ColumnScope) -> Value:
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


def _moved(work: Writer, node: tree.Moved, scope: ColumnScope) -> Value:
    """Write a timestamp moved by less than a day; one that could leave the years 1 to 9999 is NULL."""
    value = work.expression(node.operand, scope)
    if type_family(value.type) != "M":
        raise work.refuse("a move of anything but a timestamp")
    seconds = Value(str(node.seconds), BIGINT, constant=node.seconds)
    first, last = (work.dialect.constant(end, TIMESTAMP) for end in _MOVABLE)

    def moved(values: list[Value]) -> Value:
        (x,) = values
        made = work.form("add_second", [x, seconds]).sql
        return Value(f"(CASE WHEN {x.sql} BETWEEN {first} AND {last} THEN {made} END)", TIMESTAMP, (1, 9999))

    return work.once([value], moved)


OPERATORS: dict[str, Rule] = {
    **conditions.OPERATORS,
    **dict.fromkeys(("+", "-", "*", "/", "//", "%", "&", "|", "^@", "||"), _arithmetic),
}
"""The rule of each operator between two operands."""

RULES: dict[type[Expr], Rule] = {tree.Binary: _binary, tree.Unary: _unary, tree.Moved: _moved}
"""The rule of each node type."""
