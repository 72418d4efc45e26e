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

from dpsql.analysis import Catalog
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import function_name, read_whole_number
from dpsql.analysis.released.few_groups import GROUPS, CountedKeys
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import list_ctes_of
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, copy_tree, find_nodes, name_query, walk_tree
from dpsql.policy import Policy, fold

_OUTER = frozenset({"expressions", "from_", "where", "with_", "kind"})
_INNER = frozenset({"expressions", "from_", "joins", "where", "group", "having", "kind"})


def with_few_groups(query: Query, policy: Policy, catalog: Catalog) -> exp.Query:
    """Return a statement that counts groups of undeclared keys as one number; its tree is changed."""
    tree: exp.Query = query.tree
    provenance = Provenance(query.source, policy, catalog)
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


_READ = frozenset({"expressions", "from_", "joins", "where", "distinct", "kind"})
_SIDES = frozenset({"this", "expression", "distinct"})
_BRANCH = "number of the branch"
"""The column beside the values of a row and its unit; a name that no short column has."""


def group_set_operation(node: exp.SetOperation, of: Provenance, ctes: tuple[Cte, ...]) -> exp.Select | None:
    """Return the groups that are the rows of a set operation of rows of units; None for others.

    A row is in a branch if its group has a row of that branch, and NULL is a value like any other in both. Of
    units that are kept to m groups over all branches together a unit changes m of them; kept to m in each
    branch it would change m for each. `INTERSECT ALL` and its like have a row as often as the branches have
    it: they are no groups.

    Rows whose values are all declared are a list of found values, which misses few of them.
    """
    branches = list[exp.Select]()
    condition = _read_membership(node, branches)
    first = branches[0].expressions if branches else []
    items = [item for branch in branches for item in branch.expressions]
    if condition is None or any(len(each.expressions) != len(first) for each in branches):
        return None
    if any(item.is_star or contains_aggregate(item) for item in items):
        return None
    units = [of.find_unit(branch, ctes) for branch in branches]
    plain = [isinstance(item, (exp.Alias, exp.Column)) for item in first]
    names = [item.alias_or_name if is_named else "value" for item, is_named in zip(first, plain, strict=True)]
    own = units[0].name if units[0] is not None else ""
    if own in names or len({*names, own, _BRANCH, ""}) < len(names) + 3:
        names, own = [f"k{n}" for n in range(len(first))], "unit"
    try:
        judged = [of.read_values(b, i.unalias(), ctes) for b in branches for i in b.expressions]
    except QueryRefused:
        return None
    if any(owned for owned, _ in judged) or all(declared for _, declared in judged):
        return None
    rows: exp.Query | None = None
    for number, (branch, unit) in enumerate(zip(branches, units, strict=True)):
        if unit is None:
            return None
        made = copy_tree(branch, "expressions", "distinct")
        values = [*(item.unalias() for item in branch.expressions), exp.Literal.number(number), unit]
        named = zip(values, (*names, _BRANCH, own), strict=True)
        made.set("expressions", [exp.alias_(copy_tree(each), name) for each, name in named])
        rows = made if rows is None else exp.Union(this=rows, expression=made, distinct=False)
    groups = exp.Select(expressions=[exp.column(name) for name in names])
    groups.set("from_", exp.From(this=name_query(rows or node, "s", quoted=False)))
    groups.set("group", exp.Group(expressions=[exp.column(name) for name in names]))
    groups.set("having", exp.Having(this=condition))
    groups.meta["select"] = -1
    return groups


def _read_membership(node: exp.Expr, branches: list[exp.Select]) -> exp.Expr | None:
    """Return by which branches a row is in a query; add its branches. None if it is no set of rows."""
    inner = node.unnest() if isinstance(node, exp.Subquery) else node
    if isinstance(inner, exp.SetOperation):
        if not inner.args.get("distinct") or {k for k, v in inner.args.items() if v} - _SIDES:
            return None
        left, right = (_read_membership(side, branches) for side in (inner.this, inner.expression))
        if left is None or right is None:
            return None
        if isinstance(inner, exp.Union):
            return exp.Paren(this=exp.Or(this=left, expression=right))
        right = exp.Not(this=right) if isinstance(inner, exp.Except) else right
        return exp.Paren(this=exp.And(this=left, expression=right))
    if not isinstance(inner, exp.Select) or {k for k, v in inner.args.items() if v} - _READ:
        return None
    distinct = inner.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return None
    branches.append(inner)
    there = exp.EQ(this=exp.column(_BRANCH), expression=exp.Literal.number(len(branches) - 1))
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()])
    some = exp.Filter(this=count, expression=exp.Where(this=there))
    return exp.Paren(this=exp.GT(this=some, expression=exp.Literal.number(0)))
