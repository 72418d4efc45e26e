"""Put what stands for a released value into a release block that reads it.

A value stands as a subquery in the place of the one that it is of. Where what is computed of it and of a
column may fail on a row, as the days between two dates may, no TRY can hold a subquery: there the value is
the column of one more row of FROM, which is joined with all rows. Over groups it is ANY_VALUE of that column.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, contains_aggregate
from dpsql.analysis.compiler import call_name
from dpsql.analysis.released_values import ValueMark, find_mark
from dpsql.composition.equivalent_blocks import BY_KEY
from dpsql.language import copy_tree, make_call
from dpsql.types import DATE, TIMESTAMP

_DIFFERENCES = frozenset({"date_diff", "datediff", "date_sub", "datesub", "age"})


def put_mark(at: exp.Expr, mark: exp.Expr) -> None:
    """Put what stands for a value in the place of a subquery; an item of FROM stays one."""
    if at.meta.get(BY_KEY):
        at.set("this", mark)
        return
    select, value = at.find_ancestor(exp.Select), find_mark(mark)
    starred = select is not None and any(isinstance(item, exp.Star) for item in select.expressions)
    if value is None or select is None or starred or not _is_in_difference(at, value):
        at.replace(mark)
        return
    name = f"dpsql_value_{value.place}"
    column: exp.Expr = exp.column("v", table=name, quoted=True)
    grouped = select.args.get("group") is not None or any(map(contains_aggregate, select.expressions))
    if grouped and not _is_of_rows(at, select):
        column = make_call("any_value", column)
    at.replace(column)
    row = exp.Select(expressions=[exp.alias_(copy_tree(mark), "v", quoted=True)])
    row.meta["select"] = -1
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    select.append("joins", exp.Join(this=exp.Subquery(this=row, alias=alias), kind="CROSS"))


def _is_in_difference(at: exp.Expr, value: ValueMark) -> bool:
    """Return whether a date or time is one of two of which a difference is computed."""
    node, around = at, at.parent
    while isinstance(around, exp.Paren):
        node, around = around, around.parent
    if value.listed or value.type not in (DATE, TIMESTAMP):
        return False
    if isinstance(around, exp.Sub):
        return not isinstance(around.expression if around.this is node else around.this, exp.Interval)
    return around is not None and call_name(around) in _DIFFERENCES


def _is_of_rows(at: exp.Expr, select: exp.Select) -> bool:
    """Return whether a part of a grouped block is computed of each row: in WHERE, or inside an aggregate."""
    node: exp.Expr | None = at
    while node is not None and node is not select:
        if isinstance(node, exp.Where) or aggregate_name(node) is not None:
            return True
        node = node.parent
    return False
