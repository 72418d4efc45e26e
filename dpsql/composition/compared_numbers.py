"""Private rows that are compared with the numbers of released groups with which they are joined.

`visits v JOIN (SELECT day, AVG(cost) AS mean .. GROUP BY day) t ON t.day = v.day WHERE v.cost > t.mean` keeps
the visits above the average of their day: `WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.day =
v.day)`. The groups are released first, and their numbers are constants then (``values_by_key``). A row
without a partner leaves the join; here its number is NULL, and so is a comparison with it.

So is `AVG(cost) OVER (PARTITION BY day)` of a subquery, whose rows are compared with it outside: the average
of the rows with one day, which are of many units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp

from dpsql.analysis.aggregate_functions import OF_NUMBERS, aggregate_name, is_in_aggregate
from dpsql.analysis.compiler import call_name, find_cte, list_declared_tables
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import list_ctes_of
from dpsql.composition.values_by_key import find_number, say_compared
from dpsql.language import (
    copy_rows,
    copy_tree,
    find_nodes,
    keep_title,
    list_from_items,
    list_given,
    make_select,
    read_clause,
    set_where,
)
from dpsql.policy import fold

_COMPUTED = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div)
_ROWS = frozenset({"expressions", "from_", "joins", "where", "kind"})
_WHOLE = frozenset({"this", "partition_by", "over"})
"""What a window has that goes over all rows of its partition."""
_COMPARED = (*_COMPUTED, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


def compare_rows(
    node: exp.Select,
    item: exp.Expr,
    groups: exp.Select,
    key: str,
    other: exp.Expr,
    conditions: list[exp.Expr],
    columns: Sequence[tuple[exp.Expr, list[exp.Column] | None]],
) -> bool:
    """Write released numbers for the columns of an item that has left FROM; return whether that may be.

    `other` is equal to the key of the groups; `columns` are those of the item in each expression.
    Its numbers stand in comparisons of WHERE, which leave rows without a group out, and in aggregates: there
    the list of keys keeps the rows that have a group.
    """
    kept = False
    for root, found in columns:
        if found is None or any(
            column.find_ancestor(exp.Select) is not node or column is root for column in found
        ):
            return False
        for column in found:
            if fold(column.name) == key:
                continue
            strict = any(root is part for part in conditions) and _is_strict(column, root)
            if not (_is_number(groups, column) and (strict or is_in_aggregate(column, node))):
                return False
            kept |= strict
    groups.meta["note"] = say_compared(other.name or key)
    for column in [column for _, found in columns for column in found or ()]:
        made: exp.Expr = copy_tree(other)
        if fold(column.name) != key:
            made = exp.Subquery(this=find_number(copy_tree(item), key, column.name, other))
        column.replace(made)
    if not kept:
        listed = make_select([exp.column(key, item.alias_or_name, quoted=True)], copy_tree(item))
        conditions = [*conditions, exp.In(this=copy_tree(other), query=exp.Subquery(this=listed))]
    set_where(node, *conditions)
    return True


def with_values_of_windows(tree: exp.Query, provenance: Provenance) -> exp.Query:
    """Return a statement with subqueries for windows over the rows of many units; its tree is changed."""
    for select in find_nodes(tree, exp.Select):
        windows = [node for item in select.expressions for node in find_nodes(item, exp.Window)]
        windows = [window for window in windows if _is_of_numbers(window)]
        if not windows or select is tree or list_given(select) - _ROWS:
            continue
        ctes, tables = list_ctes_of(select, provenance), list_declared_tables(provenance.policy, select)
        plain = len(tables) == len(list_from_items(select)) and not any(find_cte(t) for t, _ in tables)
        if not plain or provenance.find_unit(select, ctes) is None:
            continue
        held = {
            fold(item.alias_or_name): {fold(name) for name, _ in provenance.catalog.columns(table.name)}
            for item, table in tables
        }
        for window in windows:
            keys = window.args.get("partition_by") or []
            if not any(provenance.read_values(select, key, ctes)[0] for key in keys):
                whole = _find_whole(window)
                whole.replace(keep_title(whole, _write_value(select, whole, window, held)))
    return tree


def _is_of_numbers(window: exp.Window) -> bool:
    keys = window.args.get("partition_by") or []
    plain = len(keys) < 2 and all(isinstance(key, exp.Column) for key in keys)
    return plain and not (list_given(window) - _WHOLE) and aggregate_name(window.this) in OF_NUMBERS


def _find_whole(window: exp.Window) -> exp.Expr:
    """Return what is computed of a window and literals alone, as its rounded value."""
    node: exp.Expr = window
    while isinstance(node.parent, (*_COMPUTED, exp.Anonymous)):
        others = [each for each in node.parent.iter_expressions() if each is not node]
        named = not isinstance(node.parent, exp.Anonymous) or call_name(node.parent) == "round"
        if not named or not all(isinstance(each, exp.Literal) for each in others):
            break
        node = node.parent
    return node


def _write_value(
    select: exp.Select, whole: exp.Expr, window: exp.Window, held: Mapping[str, Collection[str]]
) -> exp.Subquery:
    """Return the value of a window as a subquery over the rows of FROM with one key."""
    value, key = copy_tree(exp.paren(whole)), next(iter(window.args.get("partition_by") or []), None)
    for within in find_nodes(value, exp.Window):
        within.replace(copy_tree(within.this))
    made = exp.Select(expressions=[value.this])
    copy_rows(select, made)
    if key is not None:
        owner = fold(key.table) or next(a for a, names in held.items() if fold(key.name) in names)
        name = exp.to_identifier(f"{owner}_all")
        for each in (*list_from_items(made), *find_nodes(made, exp.Column)):
            if isinstance(each, exp.Column) and fold(each.table) == owner:
                each.set("table", name.copy())
            elif isinstance(each, exp.Table) and fold(each.alias_or_name) == owner:
                each.set("alias", exp.TableAlias(this=name))
        sides = (exp.Column(this=key.this.copy(), table=exp.to_identifier(t)) for t in (name.name, owner))
        set_where(made, read_clause(made), exp.NullSafeEQ(this=next(sides), expression=next(sides)))
    made.meta["select"] = -1
    return exp.Subquery(this=made)


def _is_number(groups: exp.Select, column: exp.Column) -> bool:
    """Return whether a column of groups is computed of averages and sums by arithmetic."""
    found = [each.unalias() for each in groups.expressions if fold(each.alias_or_name) == fold(column.name)]
    return len(found) == 1 and _is_computed(found[0])


def _is_computed(node: exp.Expr) -> bool:
    name = aggregate_name(node)
    if name is not None:
        return name in OF_NUMBERS
    if isinstance(node, exp.Anonymous):
        return call_name(node) == "round" and all(map(_is_computed, node.expressions))
    if isinstance(node, exp.Literal):
        return not node.is_string
    return isinstance(node, _COMPUTED) and all(map(_is_computed, node.iter_expressions()))


def _is_strict(column: exp.Column, root: exp.Expr) -> bool:
    """Return whether a condition is not true where a column in it is NULL."""
    node: exp.Expr = column
    while node is not root and node.parent is not None:
        node = node.parent
        if not isinstance(node, _COMPARED):
            return False
    return True
