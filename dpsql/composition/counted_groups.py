"""Count groups of undeclared keys as one number: `COUNT(*) FROM (SELECT k .. GROUP BY k HAVING ..)`, or sum.

Where the values of a key are not declared, each group would be a release with delta, and groups of few
units would be missing. Their number is one number, of which a unit changes as many groups as it is kept to.
So it is counted where a block shows nothing but that number, and somebody says to how many groups a unit is
kept: `max_groups_contributed`, else `groups` or `rows_per_unit` of the policy; where a unit has one row it is
one. Groups of declared keys stay a release of all groups.

So is `SUM(LEAST(n, 100))` of a whole number n of each group, which the statement itself keeps between two
numbers, and `AVG` of it: the sum divided by the number of groups, each a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import function_name, read_number
from dpsql.analysis.released.few_groups import GROUPS, CountedKeys, CountedValue
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.found_values import list_ctes_of
from dpsql.composition.groups_of_joins import join_groups, list_keys
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, copy_tree, find_nodes, keep_title, list_given, name_query, read_clause
from dpsql.policy import fold

_LARGEST = 1 << 40
"""The largest absolute value of what a group adds to a sum."""
_OUTER = frozenset({"expressions", "from_", "where", "with_", "kind"})
_INNER = frozenset({"expressions", "from_", "joins", "where", "group", "having", "kind", "order"})


def with_few_groups(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement that counts groups of undeclared keys as one number; its tree is changed."""
    tree: exp.Query = query.tree
    selects = [*find_nodes(tree, exp.Select)]
    for select in selects:  # those of an average are added
        ctes = list_ctes_of(select.args.get("from_") or select, provenance)
        made = join_groups(select, provenance, ctes)
        if made is None:
            selects += _put_number(select, query, provenance, ctes) or []
        elif (added := _put_number(made, query, provenance, ctes)) is not None:
            for name in ("expressions", "from_", "joins", "where"):
                select.set(name, made.args.get(name))
            selects += added
    return tree


def _put_number(
    select: exp.Select, query: Query, provenance: Provenance, ctes: tuple[Cte, ...]
) -> list[exp.Select] | None:
    """Put one number into the place of groups that a block counts; return blocks that count others.

    None: it counts no groups of which a unit changes few, and is as before.
    """
    inner = _read_inner(select, provenance, ctes)
    if inner is None:
        return None
    keys = list_keys(inner, partial(provenance.has_column, inner, ctes))
    if keys is None:
        return None
    condition = _read_condition(select, inner)
    most = _find_most(query, inner, keys, provenance, ctes)
    if most is None or (condition is not None and find_nodes(condition, exp.Query, exp.Window)):
        return None
    call = select.expressions[0].unalias()
    if (function_name(call) or "").lower() == "avg":
        return divide(select, call, exp.Star())
    value = None if isinstance(call.expressions[0], exp.Star) else _read_value(call, inner)
    if value is not None:
        made = keep_title(call, exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()]))
        call.replace(made)
        call = made
    call.meta[GROUPS] = CountedKeys(tuple(map(copy_tree, keys)), condition, *most, value)
    for name in ("from_", "joins", "where"):
        select.set(name, inner.args.get(name))
    return []


def _read_inner(select: exp.Select, of: Provenance, ctes: tuple[Cte, ...]) -> exp.Select | None:
    """Return the SELECT whose groups a block counts, if it does nothing else; None for others.

    The rows of a set operation are groups, too.
    """
    item = read_clause(select, "from_")
    if list_given(select) - _OUTER or len(select.expressions) != 1:
        return None
    call = select.expressions[0].unalias()
    name = (function_name(call) or "").lower()
    if name not in ("count", "sum", "avg") or len(call.expressions) != 1:
        return None
    if (name == "count") != isinstance(call.expressions[0], exp.Star):
        return None
    if not isinstance(item, exp.Subquery) or item.args.get("joins"):
        return None
    if isinstance(item.this, exp.SetOperation):
        return group_set_operation(item.this, of, ctes)
    inner = item.this
    if not isinstance(inner, exp.Select) or (name != "count" and _read_value(call, inner) is None):
        return None
    return None if list_given(inner) - _INNER else inner


def _read_condition(select: exp.Select, inner: exp.Select) -> exp.Expr | None:
    """Return what a group that is counted meets: HAVING, and WHERE of the block around, of group columns."""
    having, where = read_clause(inner, "having"), read_clause(select)
    parts = [] if having is None else [copy_tree(having)]
    if where is not None:
        parts.append(put_items(exp.Paren(this=copy_tree(where)), inner))
    return exp.and_(*parts, copy=False) if parts else None


def put_items(made: exp.Paren, inner: exp.Select) -> exp.Paren:
    """Return an expression with the items of a block in the places of their names; it is changed."""
    items = {fold(i.alias_or_name): i.unalias() for i in inner.expressions if i.alias_or_name}
    for column in find_nodes(made, exp.Column):
        if fold(column.name) in items:
            column.replace(exp.Paren(this=copy_tree(items[fold(column.name)])))
    return made


def _read_value(call: exp.Anonymous, inner: exp.Select) -> CountedValue | None:
    """Return what is summed of each group: a value that is kept between two whole numbers; None for others.

    LEAST and GREATEST leave NULL out, so that it is never NULL.
    """
    value = put_items(exp.Paren(this=copy_tree(call.expressions[0])), inner)
    if find_nodes(value, exp.Query, exp.Window, exp.Distinct):
        return None
    ends, node = dict[str, int](), value.unnest()
    while (name := (function_name(node) or "").lower()) in ("least", "greatest") and name not in ends:
        assert isinstance(node, exp.Anonymous)  # noqa: S101  it has a function's name
        numbers = [read_number(each) for each in node.expressions]
        if len(numbers) != 2 or numbers.count(None) != 1:
            return None
        (end,) = (each for each in numbers if each is not None)
        if end.denominator != 1 or abs(end) > _LARGEST:
            return None
        ends[name] = int(end)
        node = node.expressions[numbers.index(None)].unnest()
    if (function_name(node.this if isinstance(node, exp.Filter) else node) or "").lower() == "count":
        ends.setdefault("greatest", 0)
    if len(ends) < 2 or ends["greatest"] > ends["least"]:
        return None
    return CountedValue(value, ends["greatest"], ends["least"])


def divide(select: exp.Select, call: exp.Anonymous, counted: exp.Expr) -> list[exp.Select]:
    """Put a sum divided by the number of what it is over in the place of an average; return their blocks."""
    of = {"SUM": call.expressions[0], "COUNT": counted}
    calls = {n: exp.Anonymous(this=f"{MARK}{n}", expressions=[copy_tree(each)]) for n, each in of.items()}
    parts, (total, number) = take_apart(select, calls)
    some = exp.Anonymous(this=f"{MARK}NULLIF", expressions=[number, exp.Literal.number(0)])
    call.replace(keep_title(call, exp.Paren(this=exp.Div(this=total, expression=some))))
    return parts


def take_apart(
    select: exp.Select, calls: Mapping[str, exp.Expr]
) -> tuple[list[exp.Select], list[exp.Column]]:
    """Put blocks of one number each beside each other in FROM of a block; return them, and their numbers."""
    parts = []
    for call in calls.values():
        made = copy_tree(select, "expressions", "with_")
        made.set("expressions", [exp.alias_(call, "number")])
        parts.append(made)
    first, *more = (
        name_query(made, f"of {name}", quoted=True) for name, made in zip(calls, parts, strict=True)
    )
    select.set("from_", exp.From(this=first))
    select.set("joins", [exp.Join(this=each, kind="CROSS") for each in more])
    select.set("where", None)
    return parts, [exp.column("number", f"of {name}", quoted=True) for name in calls]


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
        if not inner.args.get("distinct") or list_given(inner) - _SIDES:
            return None
        left, right = (_read_membership(side, branches) for side in (inner.this, inner.expression))
        if left is None or right is None:
            return None
        if isinstance(inner, exp.Union):
            return exp.Paren(this=exp.Or(this=left, expression=right))
        right = exp.Not(this=right) if isinstance(inner, exp.Except) else right
        return exp.Paren(this=exp.And(this=left, expression=right))
    if not isinstance(inner, exp.Select) or list_given(inner) - _READ:
        return None
    distinct = inner.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        return None
    branches.append(inner)
    there = exp.EQ(this=exp.column(_BRANCH), expression=exp.Literal.number(len(branches) - 1))
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()])
    some = exp.Filter(this=count, expression=exp.Where(this=there))
    return exp.Paren(this=exp.GT(this=some, expression=exp.Literal.number(0)))
