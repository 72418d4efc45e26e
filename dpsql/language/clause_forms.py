"""Read clauses of other dialects as dpsql knows them: joins in parentheses, UNNEST and series, FILTER."""

from __future__ import annotations

from sqlglot import exp

from dpsql.language.syntax_trees import copy_tree, walk_tree
from dpsql.language.tokens import MARK

_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})
_ONE_TIME = frozenset({exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP})


def split_joins(table: exp.Table) -> tuple[exp.Table, list[exp.Expr]]:
    """Return a table without the joins that the parser hangs on it, and the joins."""
    joins = [copy_tree(join) for join in table.args.get("joins") or ()]
    bare = copy_tree(table)
    bare.set("joins", None)
    return bare, joins


def flatten_joins(select: exp.Select) -> None:
    """Leave out parentheses around the first joins of FROM."""
    first = select.args.get("from_")
    group = first.this if isinstance(first, exp.From) else None
    if not isinstance(first, exp.From) or not isinstance(group, exp.Subquery):
        return
    if isinstance(group.this, exp.Table) and not group.args.get("alias"):
        table, joins = split_joins(group.this)
        more = [*(group.args.get("joins") or ()), *(select.args.get("joins") or ())]
        first.set("this", table)
        select.set("joins", [*joins, *more])


def filter_window(node: exp.Window) -> exp.Expr | None:
    """Write FILTER of a window as a CASE in its argument: what is NULL, these aggregates leave out."""
    call, where = node.this.this, node.this.expression.this
    if read_name(call) not in _AGGREGATES or len(call.expressions) != 1:
        return None
    argument = call.expressions[0]
    if isinstance(argument, (exp.Distinct, exp.Kwarg, exp.Order)):
        return None
    value = exp.Literal.number(1) if isinstance(argument, exp.Star) else argument
    made, inner = copy_tree(node), copy_tree(call)
    inner.set("expressions", [exp.Case(ifs=[exp.If(this=copy_tree(where), true=copy_tree(value))])])
    made.set("this", inner)
    return made


def select_series(select: exp.Select) -> None:
    """Move the only item of a SELECT without FROM to FROM, if it is a series that is unnested or cast.

    PostgreSQL's `generate_series(..)::DATE` has a row for each; in DuckDB no list becomes one day.
    """
    if select.args.get("from_") is not None or len(select.expressions) != 1:
        return
    item = select.expressions[0].unalias()
    cast = (
        item if isinstance(item, exp.Cast) and item.to.this in _ONE_TIME and not item.to.expressions else None
    )
    call = cast.this if cast is not None else item
    call = call.this if isinstance(call, exp.Explode) else call if cast is not None else None
    if call is None or read_name(call) not in ("generate_series", "range"):
        return
    name = exp.to_identifier(select.expressions[0].alias or "unnest", quoted=True)
    alias = exp.TableAlias(this=exp.to_identifier("dpsql_list"), columns=[name])
    select.set("from_", exp.From(this=exp.Unnest(expressions=[copy_tree(call)], alias=alias, offset=False)))
    column = exp.Column(this=copy_tree(name), table=exp.to_identifier("dpsql_list"))
    made: exp.Expr = column if cast is None else exp.Cast(this=column, to=copy_tree(cast.to))
    item.replace(made)


def move_unnest(select: exp.Select) -> None:
    """Move UNNEST from a select list to FROM; of two, DuckDB pairs the items, so they stay."""
    found = [n for item in select.expressions if isinstance(n := item.unalias(), exp.Explode)]
    if len(found) != 1 or select.args.get("from_") is None or select.args.get("group") is not None:
        return
    if any(isinstance(n, exp.Window) for item in select.expressions for n in walk_tree(item)):
        return
    item = found[0]
    name = item.parent.alias if isinstance(item.parent, exp.Alias) else "unnest"
    alias = exp.TableAlias(
        this=exp.to_identifier("dpsql_list"), columns=[exp.to_identifier(name, quoted=True)]
    )
    join = exp.Join(this=exp.Unnest(expressions=[copy_tree(item.this)], alias=alias, offset=False))
    select.append("joins", join)
    column = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier("dpsql_list"))
    item.replace(column)


def read_name(node: exp.Expr) -> str:
    """Return the name of a function call in small letters; "" for other nodes."""
    this = node.this if isinstance(node, exp.Anonymous) else None
    return this[len(MARK) :].lower() if isinstance(this, str) and this.startswith(MARK) else ""
