"""Window functions over owned rows.

A window with a unit among its PARTITION BY computes the values of a unit's rows from that unit's rows alone.
So what is owned stays owned. `values` proves that no value depends on the order of rows.

`ROW_NUMBER` with the unit and P among PARTITION BY is 1, 2, .. in the rows of a unit that are equal in P: the
number and P are unique within a unit, and so are the number and all columns that P is computed from.
"""

from __future__ import annotations

from dpsql.kernel.check.derive import unwrap
from dpsql.kernel.check.proof import Proof, has_window, nodes_of_row, reads_of, subqueries
from dpsql.kernel.check.relation import Kind, Names, Relation, name_of
from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Column,
    Expr,
    Window,
)

RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})


def check_windows(proof: Proof, expr: Expr, relation: Relation) -> None:
    """Refuse windows over rows of several units."""
    if not has_window(expr) or relation.kind is not Kind.OWNED:
        return
    for node in nodes_of_row(expr):
        if isinstance(node, Window):
            if relation.by_row or not any(part in relation.unit for part in node.partition):
                proof.refuse("a window over rows of several units", node)
            proof.note("window of the unit", "the window function reads the rows of one unit")


def follows_from(expr: Expr, relation: Relation) -> Names | None:
    """Return columns from which an expression follows, within a unit; None if that is not known."""
    if not has_window(expr):
        return reads_of(expr)
    if relation.kind is not Kind.OWNED:
        return None
    found: set[str] = set()
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Window):
            if node.order or node.frame is not None or _function(node) in RANKS:
                return None
            for part in node.partition:
                found |= reads_of(part)
        elif has_window(node):
            waiting += [n for n in nodes_of_row(node) if isinstance(n, Window)]
            found |= _outside_windows(node)
        else:
            found |= reads_of(node)
    return frozenset(found)


def _outside_windows(expr: Expr) -> Names:
    """Return the columns that an expression reads beside its windows."""
    inside: set[int] = set()
    for node in nodes_of_row(expr):
        if isinstance(node, Window):
            inside |= {id(n) for n in nodes_of_row(node)}
    return frozenset(name_of(n) for n in nodes_of_row(expr) if isinstance(n, Column) and id(n) not in inside)


def _function(window: Window) -> str:
    name = window.function.name if isinstance(window.function, (Call, Aggregate)) else ""
    return name.upper()


def unique_by_number(expr: Expr, relation: Relation) -> Names | None:
    """Return the columns that are unique together with an expression, if it numbers the rows of a unit."""
    window = unwrap(expr)
    if not isinstance(window, Window) or _function(window) != "ROW_NUMBER" or relation.kind is not Kind.OWNED:
        return None
    rest = [part for part in window.partition if part not in relation.unit]
    if len(rest) == len(window.partition) or any(subqueries(part) or has_window(part) for part in rest):
        return None
    return frozenset[str]().union(*map(reads_of, rest))
