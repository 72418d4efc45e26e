"""Read EXISTS with one equality as the list of values that it asks for: `d.code IN (SELECT v.code FROM ..)`.

`EXISTS (SELECT 1 FROM visits v WHERE v.code = d.code AND v.cost > 9)` holds of the rows whose code is among
those of the rows inside that meet the rest. A row without a code is in no list, and NOT EXISTS holds of it:
an equality with NULL is never true. So NOT EXISTS differs from NOT IN, where NULL decides nothing.

``LEFT JOIN visits v ON v.code = d.code WHERE v.code IS NULL`` has the rows of NOT EXISTS with that condition:
in a row with a partner v.code is equal to something, so it is not NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiler import find_cte, list_conjuncts
from dpsql.language import copy_tree, find_nodes
from dpsql.policy import fold

_READ = frozenset({"expressions", "from_", "joins", "where", "kind"})


ColumnsOf = Callable[[exp.Table], Collection[str] | None]
"""Returns the folded names of the columns of a declared table; None for other tables."""


def read_exists(node: exp.Exists, columns_of: ColumnsOf) -> tuple[exp.Column, exp.Select] | None:
    """Return the column of the rows around EXISTS, and the SELECT of the values that it may have.

    EXISTS that compares otherwise than by one equality is not read.
    """
    inner = node.this.unnest()
    if not isinstance(inner, exp.Select) or any(map(contains_aggregate, inner.expressions)):
        return None
    tie = read_tie(inner, columns_of)
    if tie is None:
        return None
    listed = copy_tree(inner, "expressions", "where")
    listed.set("expressions", [copy_tree(tie.within)])
    if tie.rest:
        listed.set("where", exp.Where(this=exp.and_(*(copy_tree(each) for each in tie.rest), copy=False)))
    return tie.around, listed


class Tie(NamedTuple):
    """The equality of a column of a subquery with one of the rows around it, and its other conditions."""

    within: exp.Column
    around: exp.Column
    rest: tuple[exp.Expr, ...]


def read_tie(inner: exp.Select, columns_of: ColumnsOf) -> Tie | None:
    """Return by which equality a SELECT of declared tables is tied to the rows around it, if by one alone."""
    if {name for name, value in inner.args.items() if value} - _READ:
        return None
    first, where = inner.args.get("from_"), inner.args.get("where")
    joins = inner.args.get("joins") or []
    items = [] if first is None else [first.this, *(join.this for join in joins)]
    if len(find_nodes(inner, exp.Query)) > 1 + len(items):
        return None
    own, names = set[str](), set[str]()
    for item in items:
        known = columns_of(item) if isinstance(item, exp.Table) and find_cte(item) is None else None
        if known is None:
            return None
        own.add(fold(item.alias_or_name))
        names |= set(known)

    def is_inside(part: exp.Expr) -> bool:
        columns = find_nodes(part, exp.Column)
        return all(fold(c.table) in own if c.table else fold(c.name) in names for c in columns)

    rest, ties = list[exp.Expr](), list[exp.Expr]()
    for part in list_conjuncts(where.this) if where is not None else ():
        (rest if is_inside(part) else ties).append(part)
    if len(ties) != 1 or not all(is_inside(join) for join in joins):
        return None
    tie = ties[0].unnest()
    sides = [side.unnest() for side in (tie.this, tie.expression)] if isinstance(tie, exp.EQ) else []
    within = [side for side in sides if is_inside(side)]
    around = [side for side in sides if not is_inside(side)]
    if len(within) != 1 or not (isinstance(within[0], exp.Column) and isinstance(around[0], exp.Column)):
        return None
    return Tie(within[0], around[0], tuple(rest))


def read_anti_join(select: exp.Select) -> exp.Select | None:
    """Return a SELECT with NOT EXISTS in the place of a LEFT JOIN without partners; None for others."""
    made = copy_tree(select)
    joins, where = made.args.get("joins") or [], made.args.get("where")
    left = [join for join in joins if str(join.args.get("side") or "").upper() == "LEFT"]
    if len(left) != 1 or where is None or left[0].args.get("on") is None or left[0].args.get("kind"):
        return None
    item, on, rest = left[0].this, left[0].args["on"], list[exp.Expr]()
    if not isinstance(item, exp.Table):
        return None
    name, absent = fold(item.alias_or_name), list[exp.Column]()
    for part in list_conjuncts(where.this):
        node = part.unnest()
        column = node.this.unnest() if isinstance(node, exp.Is) else None
        if (
            isinstance(column, exp.Column)
            and isinstance(node.expression, exp.Null)
            and fold(column.table) == name
        ):
            absent.append(column)
        else:
            rest.append(part)
    equated = [
        side.unnest().sql()
        for part in list_conjuncts(on)
        if isinstance(part.unnest(), exp.EQ)
        for side in (part.unnest().this, part.unnest().expression)
    ]
    joined = [node for part in (*rest, *made.expressions) for node in find_nodes(part, exp.Column)]
    if not absent or any(each.sql() not in equated for each in absent):
        return None
    if any(fold(node.table) == name for node in joined):
        return None
    inner = exp.Select(expressions=[exp.Literal.number(1)])
    inner.meta["select"] = -1
    inner.set("from_", exp.From(this=copy_tree(item)))
    inner.set("where", exp.Where(this=copy_tree(on)))
    made.set("joins", [join for join in joins if join is not left[0]] or None)
    conditions = [*map(copy_tree, rest), exp.Not(this=exp.Exists(this=inner))]
    made.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    return made
