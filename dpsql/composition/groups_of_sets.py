"""Read the different rows of UNION, INTERSECT and EXCEPT as groups of the rows of all branches together.

A row is in a branch if its group has a row of that branch, and NULL is a value like any other in both. Of
units that are kept to m groups over all branches together a unit changes m of them; kept to m in each branch
it would change m for each. `INTERSECT ALL` and its like have a row as often as the branches have it: they are
no groups.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.statement_shapes import Provenance
from dpsql.errors import QueryRefused
from dpsql.language import MARK, copy_tree, name_query

_READ = frozenset({"expressions", "from_", "joins", "where", "distinct", "kind"})
_SIDES = frozenset({"this", "expression", "distinct"})
_BRANCH = "number of the branch"
"""The column beside the values of a row and its unit; a name that no short column has."""


def group_set_operation(node: exp.SetOperation, of: Provenance, ctes: tuple[Cte, ...]) -> exp.Select | None:
    """Return the groups that are the rows of a set operation of rows of units; None for others.

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
