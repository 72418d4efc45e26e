"""Read other spellings of groups as groups.

HAVING with the largest number of the same groups is the group with the largest number:
`HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY clinic))` and `>= ALL (..)`
ask for the largest group. Released apart, two noisy numbers of one group are hardly ever equal: the answer
would be empty. `ORDER BY COUNT(*) DESC LIMIT 1` is one selection, of one group also where several are equal.

Aggregates over whole partitions, of which DISTINCT leaves one row each, are the aggregates of groups:
`SELECT DISTINCT day, COUNT(*) OVER (PARTITION BY day) FROM visits` has one row for each day, with the number
of its rows: it is `SELECT day, COUNT(*) FROM visits GROUP BY day`. A window over all rows is the aggregate
without GROUP BY, if there are rows. DISTINCT may stand around the subquery that has the windows. These have
one PARTITION BY, without ORDER BY or a frame, and what stands outside of them is of its keys. A mistake could
only ask something else: what is made is analysed like any statement.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, contains_aggregate, is_aggregate
from dpsql.analysis.compiler import call_name, read_alone, read_item, read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.language import (
    copy_tree,
    find_nodes,
    keep_title,
    list_from_items,
    list_given,
    list_terms,
    read_clause,
    walk_tree,
)
from dpsql.policy import Policy
from dpsql.policy.table_parts import Assumed

_ONE = Assumed("of groups that are equally large one is shown")
_SHARED = ("from_", "joins", "where")
_OTHERS = ("having", "qualify", "distinct", "order", "limit", "offset", "laterals", "with_")


def with_largest_groups(tree: exp.Query) -> exp.Query:
    """Return a statement in which such conditions are ORDER BY and LIMIT 1; its tree is changed."""
    for select in find_nodes(tree, exp.Select):
        having = read_clause(select, "having")
        compared = None if having is None else _read_comparison(having)
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
    name = call_name(value)
    of = value.expressions[0] if len(value.expressions) == 1 else None
    if name in ("max", "min") and isinstance(of, exp.Column):
        first = read_clause(inner, "from_")
        groups = first.this if isinstance(first, exp.Subquery) else None
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
    if group is None or list_given(group) - {"expressions"}:
        return None
    return {read_item(select, key) for key in group.expressions}


_KEPT = frozenset({"expressions", "from_", "joins", "where", "with_", "kind", "distinct", "order", "limit"})
_AROUND = frozenset({"expressions", "from_", "with_", "kind", "distinct", "order", "limit"})
"""What a SELECT DISTINCT has that reads the windows of a subquery."""
_MERGED = frozenset({"expressions", "from_", "joins", "where", "kind"})
_WHOLE = frozenset({"this", "partition_by", "over"})
"""What a window has that goes over all rows of its partition."""


def with_groups_of_windows(tree: exp.Query, provenance: Provenance) -> exp.Query:
    """Return a statement whose SELECT DISTINCT of windows over private rows have groups; it is changed."""
    for select in find_nodes(tree, exp.Select):
        if select.args.get("distinct") is not None:
            _merge(select, tree)
        keys = _read_keys(select)
        if keys is None or not _is_of_private_rows(select, tree, provenance.policy):
            continue
        for name in ("expressions", "order"):
            parts = select.args.get(name)
            for part in parts if isinstance(parts, list) else [parts] if parts else []:
                for window in [n for n in walk_tree(part) if isinstance(n, exp.Window)]:
                    window.replace(keep_title(window, copy_tree(window.this)))
        if keys:
            select.set("group", exp.Group(expressions=[copy_tree(key) for key in keys]))
        listed = [_sql(item.unalias()) for item in select.expressions]
        if all(_sql(key) in listed for key in keys):  # the groups are different rows
            select.set("distinct", None)
    return tree


def _merge(select: exp.Select, tree: exp.Query) -> None:
    """Put the rows of a subquery with windows in the place of the name by which DISTINCT reads it."""
    item, order = read_clause(select, "from_"), select.args.get("order")
    items = [copy_tree(item.unalias()) for item in select.expressions]
    within = (exp.Query, exp.Star, exp.Window)
    if item is None or not all(i.alias_or_name for i in select.expressions) or list_given(select) - _AROUND:
        return
    if any(contains_aggregate(i) or any(isinstance(n, within) for n in walk_tree(i)) for i in items):
        return
    columns = [c for i in items for c in find_nodes(i, exp.Column)]
    inner = read_alone(item, tree)
    if inner is None or list_given(inner) - _MERGED or not find_nodes(inner, exp.Window):
        return
    values = {each.alias_or_name.lower(): each.unalias() for each in inner.expressions}
    unknown = len(values) != len(inner.expressions) or any(c.name.lower() not in values for c in columns)
    qualified = order is not None and any(c.table for c in find_nodes(order, exp.Column))
    if unknown or qualified or item.alias_column_names:
        return
    names = [item.alias_or_name for item in select.expressions]
    made = [exp.alias_(item, n, quoted=True, copy=False) for item, n in zip(items, names, strict=True)]
    for column in columns:
        value = copy_tree(values[column.name.lower()])
        column.replace(value if isinstance(column.parent, exp.Alias) else exp.paren(value, copy=False))
    select.set("expressions", made)
    for name in ("from_", "joins", "where"):
        select.set(name, inner.args.get(name))
    holder = inner.parent
    if isinstance(holder, exp.CTE):
        clause = holder.parent
        holder.pop()
        if isinstance(clause, exp.With) and not clause.expressions:
            clause.pop()


def _read_keys(select: exp.Select) -> list[exp.Expr] | None:
    """Return the keys of the partitions whose aggregates a SELECT DISTINCT has; None for other blocks."""
    distinct = select.args.get("distinct")
    if distinct is None or distinct.args.get("on") is not None:
        return None
    if list_given(select) - _KEPT:
        return None
    items = [item.unalias() for item in select.expressions]
    windows = [n for item in items for n in walk_tree(item) if isinstance(n, exp.Window)]
    if not windows or any(contains_aggregate(item) for item in items):
        return None
    by = {tuple(_sql(key) for key in window.args.get("partition_by") or ()) for window in windows}
    if len(by) != 1 or not all(_is_whole(window) for window in windows):
        return None
    keys: list[exp.Expr] = windows[0].args.get("partition_by") or []
    terms = [term.this for term in list_terms(select, "order")]
    names = {item.alias for item in select.expressions if item.alias}
    for item in items:
        if not _is_of(item, keys):
            return None
    for term in terms:
        known = read_whole_number(term) is not None or (isinstance(term, exp.Column) and term.name in names)
        if not (known or _is_of(term, keys)):
            return None
    return keys


def _is_whole(window: exp.Window) -> bool:
    return not (list_given(window) - _WHOLE) and aggregate_name(window.this) is not None


def _is_of(node: exp.Expr, keys: list[exp.Expr]) -> bool:
    """Return whether an expression has nothing but keys, windows and constants."""
    if isinstance(node, exp.Window) or any(_sql(node) == _sql(key) for key in keys):
        return True
    if isinstance(node, (exp.Column, exp.Query, exp.Star, exp.Subquery)):
        return False
    return all(_is_of(child, keys) for child in node.iter_expressions())


def _is_of_private_rows(select: exp.Select, tree: exp.Query, policy: Policy) -> bool:
    """Return whether a block reads rows of a private table, which no release is among."""
    private = False
    for item in list_from_items(select):
        inner = item.this if isinstance(item, exp.Subquery) else None
        if isinstance(item, exp.Table):
            named = [cte for cte in find_nodes(tree, exp.CTE) if cte.alias.lower() == item.name.lower()]
            if len(named) > 1:
                return False
            inner = named[0].this if named else None
            table = policy.table(item.name) if not named and item.name.isascii() else None
            private |= table is not None and not table.public
            if inner is None:
                continue
        if not isinstance(inner, exp.Select) or any(inner.args.get(n) for n in ("group", "having", "limit")):
            return False
        if any(contains_aggregate(each) for each in inner.expressions):
            return False
        private |= _is_of_private_rows(inner, tree, policy)
    return private


def _sql(node: exp.Expr) -> str:
    return node.sql("duckdb").lower()
