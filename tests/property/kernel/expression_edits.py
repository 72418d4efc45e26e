"""Edits of expressions: conditions, windows, aggregates, conversions, constants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from dpsql.kernel.tree import (
    Aggregate,
    Apply,
    Between,
    Binary,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Cut,
    Exists,
    Expr,
    InQuery,
    IsNull,
    Node,
    Not,
    OrderTerm,
    Paren,
    Query,
    Saturated,
    Source,
    Steps,
    Try,
    Unscaled,
    Window,
)
from dpsql.types import BIGINT, DOUBLE, HUGEINT, INTEGER, VARCHAR, column_type
from kernel.place import NULL, TRUE, Place, Rule, without
from kernel.sites import kind_of, remade

__all__ = ["RULES"]

ALIKE = (
    ("=", "<", "<=", ">", ">=", "<>", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"),
    ("+", "-", "*", "//", "%"),
    ("AND", "OR"),
)
"""Operators that bind in each other's place."""
AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "ANY_VALUE", "FIRST", "LAST")
TYPES = (BIGINT, HUGEINT, INTEGER, DOUBLE, VARCHAR, column_type("TINYINT"), column_type("DECIMAL(4,2)"))
RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")


def _conjunct(p: Place) -> Iterator[Node]:
    if p.node.operator == "AND":
        yield from (p.node.left, p.node.right)


def _partition(p: Place) -> Iterator[Node]:
    if p.node.partition:
        yield remade(p.node, partition=without(p.node.partition, p.rng))
        yield remade(p.node, partition=())
    for column in p.one(p.others(Column)):
        yield remade(p.node, partition=(column,))


def _frame(p: Place) -> Iterator[Node]:
    if p.node.frame is not None:
        yield remade(p.node, frame=None)
        yield remade(p.node, frame=replace(p.node.frame, unit=p.rng.choice(("ROWS", "RANGE", "GROUPS"))))
        yield remade(p.node, frame=replace(p.node.frame, start=replace(p.node.frame.start, offset=2)))


def _direction(p: Place) -> Iterator[Node]:
    yield remade(p.node, direction="DESC" if p.node.direction != "DESC" else "ASC")
    yield remade(p.node, nulls=p.rng.choice(("FIRST", "LAST")))


def _argument(p: Place) -> Iterator[Node]:
    """Give one argument in the place of a call: of a clamp, COALESCE, a floor."""
    yield from p.node.arguments
    if p.node.name.upper() in ("LEAST", "GREATEST"):
        yield remade(p.node, name="GREATEST" if p.node.name.upper() == "LEAST" else "LEAST")


def _inner(p: Place) -> Iterator[Node]:
    """Give the operand in the place of a conversion, a guard or a negation."""
    yield p.node.inner if isinstance(p.node, Paren) else p.node.operand


def _filter(p: Place) -> Iterator[Node]:
    if p.node.filter is not None:
        yield remade(p.node, filter=None)
    for condition in p.one(p.others(IsNull)):
        yield remade(p.node, filter=condition)


def _constant(p: Place) -> Iterator[Node]:
    value = p.node.value
    if isinstance(value, bool):
        yield remade(p.node, value=not value)
    elif isinstance(value, int):
        for new in (value + 1, value - 1, value * 2, 0, 1, 2, value + (1 << 40), (1 << 62) + 7):
            if new >= 0:
                yield remade(p.node, value=new)
    elif isinstance(value, float | Decimal):
        yield remade(p.node, value=value * 3)
    elif value is None:
        yield remade(p.node, value=1, type=BIGINT)
    else:
        yield remade(p.node, value=None)
        yield from p.one(p.others(Constant, whole=True))


def _steps(p: Place) -> Iterator[Node]:
    yield remade(p.node, low=p.node.low * 2 - 1)
    yield remade(p.node, high=p.node.high * 2 + 1)


def _stated(p: Place) -> Iterator[Node]:
    """Change what a node states of its operand: a type, an end, a form, that it cannot fail."""
    node = p.node
    match node:
        case Cut():
            yield remade(node, low=node.low // 2, high=node.high // 2)
            for column in p.one(p.others(Column)):
                yield remade(node, written=column)
        case Saturated():
            yield remade(node, most=7)
            yield remade(node, type=BIGINT)
            yield remade(node, near=None)
        case Cast():
            yield remade(node, safe=not node.safe)
            yield remade(node, bounded=not node.bounded)
            yield remade(node, type=p.rng.choice(TYPES))
        case Unscaled():
            for other in p.one(p.others(Cast, whole=True)):
                yield remade(node, type=other.type)
        case Apply():
            number = len(node.arguments)
            for other in p.one([n for n in p.others(Apply, whole=True) if len(n.arguments) == number]):
                yield remade(node, form=other.form)
        case Column() if getattr(node, "type", None) is not None:
            yield remade(node, type=p.rng.choice(TYPES))


def _column(p: Place) -> Iterator[Node]:
    same = [c for c in p.others(Column) if c.table == p.node.table]
    yield from p.one(same)
    yield from p.one(p.others(Column))
    yield from p.one(p.others(Column, whole=True))


def _fixed(p: Place) -> Iterator[Node]:
    """Give a constant or a choice in the place of a column: a unit, a key, a value."""
    yield Constant(1, BIGINT)
    yield NULL
    yield Call("COALESCE", (p.node, Constant(1, BIGINT)))
    yield Call("NULLIF", (p.node, p.node))


def _aggregate(p: Place) -> Iterator[Node]:
    yield from (remade(p.node, name=name) for name in AGGREGATES if p.node.arguments and name != p.node.name)
    if p.node.name == "COUNT" and p.node.arguments:
        yield remade(p.node, arguments=(), distinct=False)
    for column in p.one(p.others(Column)):
        yield remade(p.node, arguments=(column,))


def _rank(p: Place) -> Iterator[Node]:
    if isinstance(p.node.function, Call):
        yield from (remade(p.node, function=Call(name, ())) for name in RANKS if name != p.node.function.name)


def _operands(p: Place) -> Iterator[Node]:
    yield remade(p.node, left=p.node.right, right=p.node.left)


def _operand(p: Place) -> Iterator[Node]:
    """Give one operand in the place of arithmetic."""
    if p.node.operator in ALIKE[1]:
        yield from (p.node.left, p.node.right)


def _operator(p: Place) -> Iterator[Node]:
    for group in ALIKE:
        if p.node.operator in group:
            yield from (remade(p.node, operator=word) for word in group if word != p.node.operator)


def _between(p: Place) -> Iterator[Node]:
    yield remade(p.node, low=p.node.high, high=p.node.low)
    yield IsNull(p.node.operand, negated=True)


def _negation(p: Place) -> Iterator[Node]:
    if isinstance(p.node, IsNull):
        yield remade(p.node, negated=not p.node.negated)
    elif isinstance(p.node, (InQuery, Exists)):
        yield Not(p.node)
    yield TRUE


def _case(p: Place) -> Iterator[Node]:
    when, then = p.rng.choice(p.node.branches)
    yield then
    yield remade(p.node, branches=((Not(Paren(when)), then),))
    yield remade(p.node, default=None if p.node.default is not None else Constant(1, BIGINT))
    if p.node.default is not None:
        yield p.node.default
        yield remade(p.node, branches=((when, p.node.default),), default=then)


def _splice(p: Place) -> Iterator[Node]:
    """Give another node of the tree that may stand in this place."""
    kind = kind_of(p.node)
    yield from p.one(p.others(kind, whole=True))


RULES: dict[str, tuple[tuple[type[Node], ...], Rule]] = {
    "drop a conjunct": ((Binary,), _conjunct),
    "change PARTITION BY": ((Window,), _partition),
    "change a frame": ((Window,), _frame),
    "turn an order": ((OrderTerm,), _direction),
    "drop a clamp": ((Call,), _argument),
    "drop a conversion": ((Paren, Cast, Try, Canonical, Saturated, Steps, Not), _inner),
    "change a filter": ((Aggregate,), _filter),
    "change a constant": ((Constant,), _constant),
    "change the steps": ((Steps,), _steps),
    "change what is stated": ((Cut, Saturated, Cast, Unscaled, Apply, Column), _stated),
    "change a column": ((Column,), _column),
    "fix a column": ((Column,), _fixed),
    "change an aggregate": ((Aggregate,), _aggregate),
    "change a rank": ((Window,), _rank),
    "swap operands": ((Binary,), _operands),
    "drop an operand": ((Binary,), _operand),
    "change an operator": ((Binary,), _operator),
    "change BETWEEN": ((Between,), _between),
    "negate a condition": ((IsNull, InQuery, Exists), _negation),
    "change CASE": ((Case,), _case),
    "put a node of elsewhere": ((Expr, Query, Source), _splice),
}
"""The rules, each with the types of the nodes that it edits."""
