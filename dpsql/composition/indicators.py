"""Read totals of indicators over groups as counts of groups.

`SELECT SUM(bought) FROM (SELECT visit_id, MAX(CASE WHEN p THEN 1 ELSE 0 END) AS bought FROM events GROUP BY
visit_id)` is the number of visits with a row that meets p: `COUNT(DISTINCT visit_id) FILTER (WHERE p)`. As
groups of undeclared keys only those with enough units would be shown, and their total would be far too low.
The group whose key is NULL is left out, which the answer says.
The rule is a spelling: what it makes is analysed like any statement.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.aggregates import call_of, is_aggregate
from dpsql.language import MARK, all_of, copied, keep_title, walked
from dpsql.policy import Policy, UnitColumn, fold

_OUTER = frozenset({"expressions", "from_", "with_", "kind"})
_INNER = frozenset({"expressions", "from_", "joins", "where", "group", "with_", "kind"})


def with_counts(tree: exp.Query, policy: Policy) -> exp.Query:
    """Return a statement whose totals of indicators are counts of groups; the tree is changed."""
    for select in all_of(tree, exp.Select):
        inner = _inner(select, tree)
        if inner is not None:
            _count(select, inner, policy)
    return tree


def _inner(select: exp.Select, tree: exp.Query) -> exp.Select | None:
    """Return the block in FROM, if there is nothing else in it, and the block around it only computes."""
    first = select.args.get("from_")
    if first is None or any(value for name, value in select.args.items() if name not in _OUTER):
        return None
    item = first.this
    if item.args.get("joins") or (item.args.get("alias") is not None and item.args["alias"].columns):
        return None
    if isinstance(item, exp.Subquery):
        return item.this if isinstance(item.this, exp.Select) else None
    if not isinstance(item, exp.Table) or item.args.get("db") is not None:
        return None
    named = [cte for cte in all_of(tree, exp.CTE) if fold(cte.alias) == fold(item.name)]
    uses = [table for table in all_of(tree, exp.Table) if fold(table.name) == fold(item.name)]
    if len(named) != 1 or len(uses) != 1 or named[0].args["alias"].columns:
        return None
    with_ = named[0].parent
    owner = with_.parent if isinstance(with_, exp.With) else None
    return named[0].this if owner is select and isinstance(named[0].this, exp.Select) else None


def _count(select: exp.Select, inner: exp.Select, policy: Policy) -> None:
    """Count the groups of the inner block in the outer one, if all that it uses of them are indicators."""
    key, found = _key(inner), _indicators(inner)
    if key is None or not found or inner.args.get("from_") is None:
        return
    tables = [policy.table(t.name) for t in all_of(inner.args["from_"], exp.Table) if t.name.isascii()]
    if not any(table is not None and not table.public for table in tables):
        return
    units = {fold(t.unit.column) for t in policy.tables.values() if isinstance(t.unit, UnitColumn)}
    if fold(key.name) in units:
        return
    alias = select.args["from_"].this.alias_or_name
    totals = dict[int, tuple[exp.Expr, exp.Expr | None]]()
    for item in select.expressions:
        for node in walked(item, is_aggregate):
            if isinstance(node, (exp.Query, exp.Window)):
                return
            if is_aggregate(node):
                plain = call_of(node) == "sum" and isinstance(node, exp.Anonymous)
                name = (
                    _column_name(node.expressions[0], alias) if plain and len(node.expressions) == 1 else None
                )
                if name is None or name not in found:
                    return
                totals[id(node)] = node, found[name]
            elif isinstance(node, exp.Column):
                return
    if not totals:
        return
    for node, condition in totals.values():
        node.replace(keep_title(node, _distinct(key, condition)))
    _take(select, inner)
    select.meta["note"] = f"a group without {key.name} is not counted"


def _key(inner: exp.Select) -> exp.Column | None:
    """Return the only key of a block that does nothing but group; None if it does more."""
    group = inner.args.get("group")
    if group is None or any(value for name, value in inner.args.items() if name not in _INNER):
        return None
    if len(group.expressions) != 1 or any(v for n, v in group.args.items() if n != "expressions"):
        return None
    key = group.expressions[0]
    if isinstance(key, exp.Literal) and key.this == "1" and inner.expressions:
        key = inner.expressions[0].unalias()
    return key if isinstance(key, exp.Column) else None


def _indicators(inner: exp.Select) -> dict[str, exp.Expr | None]:
    """Return the conditions of the columns `MAX(CASE WHEN p THEN 1 ELSE 0 END) AS name`, by their names."""
    found = dict[str, exp.Expr | None]()
    for item in inner.expressions:
        call = item.this if isinstance(item, exp.Alias) else item
        if not isinstance(item, exp.Alias) or call_of(call) != "max" or isinstance(call, exp.Filter):
            continue
        case = call.expressions[0].unnest() if len(call.expressions) == 1 else None
        if isinstance(case, exp.Case) and case.this is None and len(case.args["ifs"]) == 1:
            one = case.args["ifs"][0]
            default = case.args.get("default")
            if _is(one.args["true"], "1") and (default is None or _is(default, "0")):
                found[fold(item.alias)] = one.this
    return found


def _is(node: exp.Expr | None, text: str) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.this == text


def _column_name(node: object, alias: str) -> str | None:
    """Return the name of a column of the inner block; None for other nodes."""
    if not isinstance(node, exp.Column) or (node.table and fold(node.table) != fold(alias)):
        return None
    return fold(node.name)


def _distinct(key: exp.Column, condition: exp.Expr | None) -> exp.Expr:
    """Return the number of different keys among the rows that meet a condition."""
    count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[copied(key)])])
    count.meta.update(key.meta)
    if condition is None:
        return count
    return exp.Filter(this=count, expression=exp.Where(this=copied(condition)))


def _take(select: exp.Select, inner: exp.Select) -> None:
    """Give the outer block the rows of the inner one."""
    listed = [c for c in _ctes(select) if c.this is not inner] + _ctes(inner)
    select.set("with_", exp.With(expressions=listed) if listed else None)
    for name in ("from_", "joins", "where"):
        select.set(name, inner.args.get(name))


def _ctes(select: exp.Select) -> list[exp.Expr]:
    with_ = select.args.get("with_")
    return [] if with_ is None else list(with_.expressions)
