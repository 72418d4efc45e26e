"""HAVING with the largest number of the same groups, read as the group with the largest number.

`HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY clinic))` and `>= ALL (..)`
ask for the largest group. Released apart, two noisy numbers of one group are hardly ever equal: the answer
would be empty. `ORDER BY COUNT(*) DESC LIMIT 1` is one selection, of one group also where several are equal.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.aggregate_functions import is_aggregate
from dpsql.analysis.compiler import function_name, read_item
from dpsql.language import copy_tree, find_nodes
from dpsql.policy.table_parts import Assumed

_ONE = Assumed("of groups that are equally large one is shown")
_SHARED = ("from_", "joins", "where")
_OTHERS = ("having", "qualify", "distinct", "order", "limit", "offset", "laterals", "with_")


def with_largest_groups(tree: exp.Query) -> exp.Query:
    """Return a statement in which such conditions are ORDER BY and LIMIT 1; its tree is changed."""
    for select in find_nodes(tree, exp.Select):
        having = select.args.get("having")
        compared = None if having is None else _read_comparison(having.this)
        if compared is None or any(select.args.get(name) for name in _OTHERS[1:]):
            continue
        number, groups, other, lowest = compared
        number, other = read_item(select, number), read_item(groups, other)
        if not is_aggregate(number) or number != other or not _has_same_groups(select, groups):
            continue
        for key in select.args["group"].expressions:
            read_item(select, key).meta["assumed"] = _ONE
        by = copy_tree(number)
        select.set("having", None)
        select.set("order", exp.Order(expressions=[exp.Ordered(this=by, desc=not lowest)]))
        select.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    return tree


def _read_comparison(node: exp.Expr) -> tuple[exp.Expr, exp.Select, exp.Expr, bool] | None:
    """Return a number, the groups of the other, that, and whether it is the least; None of other forms."""
    if isinstance(node, exp.EQ):
        for number, other in ((node.this, node.expression), (node.expression, node.this)):
            inner = other.this if isinstance(other, exp.Subquery) else None
            found = _read_extreme(inner) if isinstance(inner, exp.Select) else None
            if found is not None:
                return number, *found
    if isinstance(node, (exp.GTE, exp.LTE)) and isinstance(node.expression, exp.All):
        groups = node.expression.this.unnest()
        if isinstance(groups, exp.Select) and len(groups.expressions) == 1 and not _has_more(groups):
            return node.this, groups, groups.expressions[0].unalias(), isinstance(node, exp.LTE)
    return None


def _read_extreme(inner: exp.Select) -> tuple[exp.Select, exp.Expr, bool] | None:
    """Return the groups of which a query has the largest, or the least, number."""
    if len(inner.expressions) != 1:
        return None
    value, order, limit = inner.expressions[0].unalias(), inner.args.get("order"), inner.args.get("limit")
    name = (function_name(value) or "").lower()
    of = value.expressions[0] if len(value.expressions) == 1 else None
    if name in ("max", "min") and isinstance(of, exp.Column):
        first = inner.args.get("from_")
        groups = first.this.this if first is not None and isinstance(first.this, exp.Subquery) else None
        more = any(inner.args.get(part) for part in ("joins", "where", "group", *_OTHERS))
        if more or not isinstance(groups, exp.Select) or _has_more(groups):
            return None
        return groups, exp.column(of.name), name == "min"
    if order is None or not isinstance(limit, exp.Limit) or limit.args.get("limit_options") is not None:
        return None
    if len(order.expressions) != 1 or limit.expression.name != "1":
        return None
    by, lowest = order.expressions[0], not order.expressions[0].args.get("desc")
    first_item = isinstance(by.this, exp.Literal) and by.this.name == "1"
    same = first_item or read_item(inner, by.this) == value
    return None if not same or _has_more(inner, "order", "limit") else (inner, value, lowest)


def _has_more(select: exp.Select, *but: str) -> bool:
    return any(select.args.get(name) for name in _OTHERS if name not in but)


def _has_same_groups(one: exp.Select, other: exp.Select) -> bool:
    """Return whether two SELECTs have the same groups of the same rows."""
    if any(one.args.get(name) != other.args.get(name) for name in _SHARED):
        return False
    keys = [_list_keys(each) for each in (one, other)]
    return bool(keys[0]) and keys[0] == keys[1]


def _list_keys(select: exp.Select) -> set[exp.Expr] | None:
    """Return the keys of GROUP BY; None without one, or with sets of keys."""
    group = select.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return None
    return {read_item(select, key) for key in group.expressions}
