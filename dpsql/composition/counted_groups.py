"""Count groups of undeclared keys as one number: `COUNT(*) FROM (SELECT k .. GROUP BY k HAVING ..)`.

Where the values of a key are not declared, each group would be a release with delta, and groups of few
units would be missing. Their number is one number, of which a unit changes as many groups as it is kept to.
So it is counted where a block shows nothing but that number, and somebody says to how many groups a unit is
kept: `max_groups_contributed`, else `groups` or `rows_per_unit` of the policy. Groups of declared keys stay a
release of all groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import function_name, read_whole_number
from dpsql.analysis.released.few_groups import GROUPS, CountedKeys
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import list_ctes_of
from dpsql.composition.groups_of_sets import group_set_operation
from dpsql.errors import QueryRefused
from dpsql.language import Query, copy_tree, find_nodes, walk_tree
from dpsql.policy import fold

_OUTER = frozenset({"expressions", "from_", "where", "with_", "kind"})
_INNER = frozenset({"expressions", "from_", "joins", "where", "group", "having", "kind"})


def with_few_groups(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement that counts groups of undeclared keys as one number; its tree is changed."""
    tree: exp.Query = query.tree
    for select in find_nodes(tree, exp.Select):
        ctes = list_ctes_of(select, provenance)
        inner = _read_inner(select, provenance, ctes)
        if inner is None:
            continue
        keys = _list_keys(inner, partial(provenance.has_column, inner, ctes))
        if keys is None:
            continue
        condition = _read_condition(select, inner)
        most = _find_most(query, inner, keys, provenance, ctes)
        if most is None or (condition is not None and find_nodes(condition, exp.Query, exp.Window)):
            continue
        call = select.expressions[0].unalias()
        call.meta[GROUPS] = CountedKeys(tuple(map(copy_tree, keys)), condition, *most)
        for name in ("from_", "joins", "where"):
            select.set(name, inner.args.get(name))
    return tree


def _read_inner(select: exp.Select, of: Provenance, ctes: tuple[Cte, ...]) -> exp.Select | None:
    """Return the SELECT whose groups a block counts, if it does nothing else; None for others.

    The rows of a set operation are groups, too.
    """
    first = select.args.get("from_")
    item = None if first is None else first.this
    if {name for name, value in select.args.items() if value} - _OUTER or len(select.expressions) != 1:
        return None
    call = select.expressions[0].unalias()
    if (function_name(call) or "").lower() != "count" or not isinstance(call, exp.Anonymous):
        return None
    if len(call.expressions) != 1 or not isinstance(call.expressions[0], exp.Star):
        return None
    if not isinstance(item, exp.Subquery) or item.args.get("joins"):
        return None
    if isinstance(item.this, exp.SetOperation):
        return group_set_operation(item.this, of, ctes)
    inner = item.this
    if not isinstance(inner, exp.Select):
        return None
    return None if {name for name, value in inner.args.items() if value} - _INNER else inner


def _list_keys(inner: exp.Select, has_column: Callable[[str], bool]) -> list[exp.Expr] | None:
    """Return the keys of a grouped block as expressions of its rows; None if they are not plain ones.

    A name is that of a column of FROM, if there is one, else the alias of an item.
    """
    group = inner.args.get("group")
    if group is None or {name for name, value in group.args.items() if value} - {"expressions"}:
        return None
    named = {fold(i.alias): i.this for i in inner.expressions if isinstance(i, exp.Alias)}
    found = list[exp.Expr]()
    for key in group.expressions:
        place = read_whole_number(key)
        if place is not None:
            if not 1 <= place <= len(inner.expressions):
                return None
            found.append(inner.expressions[place - 1].unalias())
        else:
            plain = isinstance(key, exp.Column) and not key.table and fold(key.name) in named
            found.append(named[fold(key.name)] if plain and not has_column(key.name) else key)
    parts = [node for key in found for node in walk_tree(key)]
    grouped = any(isinstance(node, (exp.Query, exp.Window, exp.Star)) for node in parts)
    return None if not found or grouped or any(map(contains_aggregate, found)) else found


def _read_condition(select: exp.Select, inner: exp.Select) -> exp.Expr | None:
    """Return what a group that is counted meets: HAVING, and WHERE of the block around, of group columns."""
    having, where = inner.args.get("having"), select.args.get("where")
    parts = [] if having is None else [copy_tree(having.this)]
    if where is not None:
        made = exp.Paren(this=copy_tree(where.this))
        items = {fold(i.alias_or_name): i.unalias() for i in inner.expressions if i.alias_or_name}
        for column in find_nodes(made, exp.Column):
            if fold(column.name) in items:
                column.replace(exp.Paren(this=copy_tree(items[fold(column.name)])))
        parts.append(made)
    return exp.and_(*parts, copy=False) if parts else None


def _find_most(
    query: Query, inner: exp.Select, keys: list[exp.Expr], of: Provenance, ctes: tuple[Cte, ...]
) -> tuple[int, str] | None:
    """Return how many groups a unit is kept to and where that is from; None if they are not counted so."""
    if of.find_unit(inner, ctes) is None or of.find_outer_column(inner, ctes) is not None:
        return None
    try:
        judged = [of.read_values(inner, key, ctes) for key in keys]
        if any(owned for owned, _ in judged) or all(declared for _, declared in judged):
            return None
        written = query.options.max_groups_contributed
        if written is not None:
            return written, ""
        found = of.find_bound_on_groups(inner, ctes)
    except QueryRefused:
        return None
    return None if found is None else (found, "policy")
