"""What is known of the values of a query: types, exact intervals, NULL, and that no row makes it fail.

This is the second, independent proof of what `dpsql.kernel.tree.exact` ensures when a query is made.
`value_of` derives one expression from the scope of its query, each from its parts; `totality.check_total`
walks a whole query. Here are the rules of columns, constants, conditions and CASE; `arithmetic`, `functions`
and `aggregates` have the others.

That a result of CASE is computed only for rows for which its condition holds is used: there the condition
narrows intervals. WHERE narrows none, since an engine computes what it likes before it drops rows.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.kernel.check import aggregates, functions  # noqa: F401  their rules
from dpsql.kernel.check.aggregates import whole_total
from dpsql.kernel.check.arithmetic import arithmetic
from dpsql.kernel.check.certificate import NotCertified
from dpsql.kernel.check.derive import (
    INFINITY,
    NOTHING,
    Around,
    Rows,
    Scope,
    Value,
    comparable,
    derive,
    exact,
    natural,
    needs_try,
    rule,
    unify_values,
    unwrap,
    whole_number,
)
from dpsql.kernel.facts import fold
from dpsql.kernel.tree import (
    Between,
    Binary,
    Case,
    Column,
    Constant,
    Exists,
    InList,
    InQuery,
    IsNull,
    IsTruth,
    Like,
    Not,
    Paren,
    ScalarQuery,
)
from dpsql.types import BOOLEAN, DOUBLE, VARCHAR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.kernel.tree import Expr, Node


TRUTH = Value(BOOLEAN, 0, 1)
CERTAIN = Value(BOOLEAN, 0, 1, nullable=False)


def value_of(expr: Expr, scope: Scope) -> Value:
    """Return what is known of an expression; refused if it can fail on a row or no rule derives it."""
    return derive(expr, Around(scope, found=[]))


def column_value(table: str, name: str, scope: Scope | None) -> Value | None:
    """Return what is known of a column; None if there is none."""
    while scope is not None:
        rows = scope.items.get(table)
        if rows is not None and (found := rows.columns.get(name)) is not None:
            if found.nullable:
                return found._replace(nullable=False) if (table, name) in scope.present else found
            return found._replace(nullable=True) if table in scope.padded else found
        fitting = [] if table else [alias for alias, rows in scope.items.items() if name in rows.columns]
        if len(fitting) == 1:
            return column_value(fitting[0], name, scope)
        scope = scope.outer if table and not fitting else None  # else the database might look beside
    return None


@rule(Column)
def _column(node: Column, at: Around) -> Value:
    found = column_value(node.table, fold(node.name) if node.stored else node.name, at.scope)
    if found is None:
        raise NotCertified("a column of no item of FROM", node)
    if node.type is not None and node.type is not found.type and node.type != found.type:
        raise NotCertified("a column of another type than the tree says", node)
    return found


@rule(Constant)
def _constant(node: Constant, at: Around) -> Value:
    value = node.value
    match value:
        case None:
            return NOTHING
        case bool():
            return Value(BOOLEAN, int(value), int(value), nullable=False)
        case int() if (kind := natural(value)) is not DOUBLE:
            return Value(kind, value, value, nullable=False, literal=True)
        case str():
            return Value(VARCHAR, nullable=False, literal=True)
        case float() if math.isfinite(value):
            number = Fraction(value)
            signed = value == 0 and math.copysign(1, value) < 0
            return Value(DOUBLE, number, number, nullable=False, canonical=not signed)
        case Decimal() if node.type.name == "DECIMAL":
            number = Fraction(value)
            return Value(node.type, number, number, nullable=not 0 < node.type.scale < node.type.precision)
        case datetime() | date() | time():
            return Value(node.type.held, nullable=False)
    raise NotCertified("a constant of an unknown kind", node)


@rule(Paren)
def _paren(node: Paren, at: Around) -> Value:
    return derive(node.inner, at)


_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_TEXT = frozenset(("LIKE", "ILIKE", "GLOB", "^@", "~", "SIMILAR TO"))


@rule(Binary)
def _binary(node: Binary, at: Around) -> Value:
    operator = node.operator
    if operator in ("AND", "OR"):
        return _chain(node, at)
    x, y = derive(node.left, at), derive(node.right, at)
    if operator in _COMPARISONS:
        comparable((x, y), node, at)
        return TRUTH if x.nullable or y.nullable else CERTAIN
    if operator in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
        comparable((x, y), node, at)
        return CERTAIN
    if operator in _TEXT:  # not ||, whose texts may grow with the data: there is a form of it
        _texts((x, y), node)
        needs_try(node, at, "an operator on texts outside TRY")
        return TRUTH
    return arithmetic(node, operator, x, y, at)


def _chain(node: Binary, at: Around) -> Value:
    """Return what is known of many conditions that one operator joins, the last first."""
    found, rest = [condition(node.right, at)], node.left
    while isinstance(rest, Binary) and rest.operator == node.operator:
        found.append(condition(rest.right, at))
        rest = rest.left
    found.append(condition(rest, at))
    return TRUTH if any(x.nullable for x in found) else CERTAIN


def _texts(values: Sequence[Value], node: Node) -> None:
    if any(x.type.name not in ("VARCHAR", "NULL") for x in values):
        raise NotCertified("an operator on texts of something else", node)


def condition(node: Expr, at: Around) -> Value:
    """Return what is known of a condition; refused if it is no truth value."""
    found = derive(node, at)
    if found.type.name not in ("BOOLEAN", "NULL"):
        raise NotCertified("a condition that is no truth value", node)
    return found


@rule(Not)
def _not(node: Not, at: Around) -> Value:
    return TRUTH if condition(node.operand, at).nullable else CERTAIN


@rule(IsNull)
def _is_null(node: IsNull, at: Around) -> Value:
    derive(node.operand, at)
    return CERTAIN


@rule(IsTruth)
def _is_truth(node: IsTruth, at: Around) -> Value:
    condition(node.operand, at)
    return CERTAIN


@rule(InList, Between)
def _comparison(node: InList | Between, at: Around) -> Value:
    others = node.items if isinstance(node, InList) else (node.low, node.high)
    comparable([derive(part, at) for part in (node.operand, *others)], node, at)
    return TRUTH


@rule(Like)
def _like(node: Like, at: Around) -> Value:
    needs_try(node, at, "a search in a text outside TRY")
    _texts([derive(part, at) for part in (node.operand, node.pattern)], node)
    return TRUTH


def _inner(node: InQuery | Exists | ScalarQuery, at: Around) -> Rows:
    """Check a query in an expression; TRY around it would not catch its failures."""
    if at.caught:
        raise NotCertified("a query under TRY", node)
    return at.scope.walk.check_whole(node.query, at.scope)


@rule(Exists)
def _exists(node: Exists, at: Around) -> Value:
    _inner(node, at)
    return CERTAIN


@rule(InQuery)
def _in_query(node: InQuery, at: Around) -> Value:
    columns = [*_inner(node, at).columns.values()]
    if len(columns) != 1:
        raise NotCertified("IN of a query of several columns", node)
    comparable((derive(node.operand, at), columns[0]), node, at)
    return TRUTH


@rule(ScalarQuery)
def _scalar_query(node: ScalarQuery, at: Around) -> Value:
    rows = _inner(node, at)
    if len(rows.columns) != 1 or not rows.single:
        raise NotCertified("the value of a query that can have several rows", node)
    (found,) = rows.columns.values()
    return found._replace(nullable=True)


@rule(Case)
def _case(node: Case, at: Around) -> Value:
    listed = _constant_leaves(node)
    if listed is not None:
        column, ends, leaves = listed
        x, many = derive(column, at), [derive(end, at) for _, end in (ends[0], ends[-1])]
        for end in many:
            comparable((x, end), node, at)
        return unify_values([derive(leaf, at) for _, leaf in (leaves[0], leaves[-1])], node)
    total = whole_total(node, at)
    if total is not None:
        return total
    found, rest = [], at
    for when, then in node.branches:
        _, known, known_else = _decide(when, rest)
        found.append(derive(then, _beside(rest, known)))
        rest = _beside(rest, known_else)
    found.append(NOTHING if node.default is None else derive(node.default, rest))
    return unify_values(found, node, caught=at.caught)


_Numbers = list[tuple[int, "Expr"]]
"""Whole numbers, each with its node."""


def _constant_leaves(node: Case) -> tuple[Column, _Numbers, _Numbers] | None:
    """Return a, the constants c and the results of a tree of CASE WHEN a > c, if these are constants, too.

    Of many constants, all are as the least and the greatest: in their types, and in what they compare with.
    """
    ends: dict[int, Expr] = {}
    leaves: dict[int, Expr] = {}
    waiting: list[Expr] = [node]
    column: Column | None = None
    while waiting:
        each = waiting.pop()
        value = whole_number(each)
        if value is not None:
            leaves[value] = each
            continue
        if not isinstance(each, Case) or len(each.branches) != 1 or each.default is None:
            return None
        when, then = each.branches[0]
        if not isinstance(when, Binary) or when.operator != ">" or type(when.left) is not Column:
            return None
        end = whole_number(when.right)
        if end is None or (column is not None and when.left != column):
            return None
        column = when.left
        ends[end] = when.right
        waiting += (then, each.default)
    if column is None or len(leaves) < _MANY:
        return None
    return column, sorted(ends.items(), key=_first), sorted(leaves.items(), key=_first)


_MANY = 4
"""Fewer results than these are derived one by one, with what conditions say of each."""


def _first(pair: tuple[int, Expr]) -> int:
    return pair[0]


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_Known = dict["Expr", Value]


def _decide(node: Expr, at: Around) -> tuple[Value, _Known, _Known]:
    """Return what is known of a condition, and of expressions where it holds, and where it does not."""
    inner = unwrap(node)
    match inner:
        case Not(operand):
            found, _, known_else = _decide(operand, at)
            return TRUTH if found.nullable else CERTAIN, known_else, {}
        case IsNull(operand, negated):
            x = derive(operand, at)
            there, none = {operand: x._replace(nullable=False)}, _Known()
            if exact(x.type) or x.type.name in ("DECIMAL", "DOUBLE"):
                none[operand] = x._replace(low=INFINITY, high=-INFINITY, nullable=True)
            return (CERTAIN, there, none) if negated else (CERTAIN, none, there)
        case Binary("AND" | "OR" as operator, left, right):
            (x, one, one_else), (y, two, two_else) = _decide(left, at), _decide(right, at)
            found = TRUTH if x.nullable or y.nullable else CERTAIN
            return (
                (found, _meet(one, two), {}) if operator == "AND" else (found, {}, _meet(one_else, two_else))
            )
        case Binary(operator) if operator in _COMPARISONS:
            return _compare(inner, at)
        case Between(operand, low, high):
            ends = Binary(">=", operand, low), Binary("<=", operand, high)
            (_, one, _), (_, two, _) = (_compare(end, at) for end in ends)
            return condition(inner, at), _meet(one, two), {}
    return condition(inner, at), {}, {}


def _compare(node: Binary, at: Around) -> tuple[Value, _Known, _Known]:
    x, y = derive(node.left, at), derive(node.right, at)
    comparable((x, y), node, at)
    found = TRUTH if x.nullable or y.nullable else CERTAIN
    known: _Known = {}
    known_else: _Known = {}
    if all(exact(kind) or kind.name == "DECIMAL" for kind in (x.type, y.type)):
        for part, value, other, signs in ((node.left, x, y, {}), (node.right, y, x, _MIRRORED)):
            if not value.literal:
                sign = signs.get(node.operator, node.operator)
                for each in {part, unwrap(part)}:
                    known[each] = _within(value, other, sign)._replace(nullable=False)
                    if not other.nullable:  # where the comparison is NULL, this number is
                        known_else[each] = _within(value, other, _OPPOSITE[sign])
    return found, known, known_else


def _within(value: Value, other: Value, operator: str) -> Value:
    """Return what is known of a number that compares so with another."""
    step = 1 if exact(value.type) and exact(other.type) else 0
    low, high = value.low, value.high
    if operator in ("<", "<=", "="):
        high = min(high, other.high - (step if operator == "<" else 0))
    if operator in (">", ">=", "="):
        low = max(low, other.low + (step if operator == ">" else 0))
    return Value(value.type, low, high, value.nullable, value.canonical, value.literal, value.settled)


def _meet(one: _Known, two: _Known) -> _Known:
    """Return what is known of values where two conditions hold."""
    made = {**one, **two}
    for node in one.keys() & two.keys():
        x, y = one[node], two[node]
        ends = max(x.low, y.low), min(x.high, y.high)
        made[node] = x._replace(low=ends[0], high=ends[1], nullable=x.nullable and y.nullable)
    return made


def _beside(at: Around, known: _Known) -> Around:
    return at._replace(narrowed=_meet(at.narrowed or {}, known)) if known else at
