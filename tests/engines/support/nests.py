"""Expressions that grow by their nesting: one within another, or each a column of a query within the next."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.kernel.tree import (
    Apply,
    Call,
    Column,
    Constant,
    Derived,
    Expr,
    Item,
    Query,
    Scan,
    Select,
    listed_forms,
)
from dpsql.types import VARCHAR

(JOINED,) = listed_forms()["||"]


def selected(node: Expr) -> Query:
    """Return the query of an expression over the column `t0.x`."""
    inner = Select((Item(Column("b", "s", True), "x"),), Scan("rows", "b"))
    return Select((Item(node, "x"),), Derived(inner, "t0"))


def nested(make: Callable[[Expr], Expr], times: int) -> Query:
    node: Expr = Column("t0", "x")
    for _ in range(times):
        node = make(node)
    return selected(node)


def chained(make: Callable[[Expr], Expr], times: int) -> Query:
    """Return the same expression, each step of it a column of a query within the next."""
    made = selected(make(Column("t0", "x")))
    for i in range(1, times):
        made = Select((Item(make(Column(f"t{i}", "x")), "x"),), Derived(made, f"t{i}"))
    return made


def twice(node: Expr) -> Expr:
    return Apply(JOINED, (node, node))


def longer(node: Expr) -> Expr:
    return Apply(JOINED, (node, Constant("a", VARCHAR)))


def upper(node: Expr) -> Expr:
    return Call("upper", (node,))
