"""Build lists of select items and columns with generated names, and conjunctions of conditions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce

from dpsql.kernel.tree.expressions import Binary, Case, Column, Paren
from dpsql.kernel.tree.node import Expr
from dpsql.kernel.tree.relations import Item


def columns(table: str, prefix: str, count: int) -> tuple[Column, ...]:
    """Return the columns `t.k0`, `t.k1`, .. of an item of FROM."""
    return tuple(Column(table, f"{prefix}{i}") for i in range(count))


def items(prefix: str, expressions: Iterable[Expr]) -> tuple[Item, ...]:
    """Return the items of a select list with the names `k0`, `k1`, .."""
    return tuple(Item(expr, f"{prefix}{i}") for i, expr in enumerate(expressions))


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """Return the conditions joined by AND, an OR among them in parentheses; None if there are none."""
    listed = list(conditions)
    if len(listed) > 1:
        listed = [Paren(c) if isinstance(c, Binary) and c.operator == "OR" else c for c in listed]
    return reduce(partial(Binary, "AND"), listed) if listed else None


def kept(value: Expr, condition: tuple[Expr, ...]) -> Expr:
    """Return a value where a condition holds, else NULL; without a condition, the value."""
    return Case(((condition[0], value),)) if condition else value
