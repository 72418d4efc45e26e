"""Different rows of private tables that are counted: `COUNT(*) FROM (SELECT DISTINCT a, b FROM visits)`.

The number of different rows is the number of different values of one text that has all columns of a row:
of each column its length and its value, or that it is NULL, so that two rows have one text only if they are
equal as DISTINCT compares them, where NULL is a value like any other. `COUNT(DISTINCT (a, b))` is the same
number. One unit adds the rows that it alone has, at most as many as it keeps: it is bounded and released as
every number of different values is.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis import Catalog
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiler import function_name
from dpsql.analysis.statement_shapes import Provenance
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Query, copy_tree, find_nodes, keep_title
from dpsql.policy import Policy

_INNER = frozenset({"expressions", "from_", "joins", "where", "distinct", "kind"})
_OUTER = frozenset({"expressions", "from_", "with_", "kind"})


def with_distinct_rows(query: Query, policy: Policy, catalog: Catalog) -> exp.Query:
    """Return a statement that counts different rows by one text; its tree is changed."""
    tree: exp.Query = query.tree
    for node in find_nodes(tree, exp.Distinct):
        if len(node.expressions) == 1 and isinstance(node.parent, exp.Anonymous):
            row = node.expressions[0].unnest() if not isinstance(node.expressions[0], exp.Tuple) else None
            row = node.expressions[0] if row is None else row
            called = isinstance(row, exp.Anonymous) and row.name.lower().removeprefix(MARK.lower()) == "row"
            if (isinstance(row, exp.Tuple) or called) and len(row.expressions) > 1:
                node.set("expressions", [text_of_row(row.expressions)])
    provenance = Provenance(query.source, policy, catalog)
    for select in find_nodes(tree, exp.Select):
        inner = _read(select)
        if inner is None or not _is_of_units(inner, provenance):
            continue
        values = [copy_tree(item.unalias()) for item in inner.expressions]
        distinct, call = exp.Distinct(expressions=[text_of_row(values)]), select.expressions[0].unalias()
        bounds = [copy_tree(each) for each in call.expressions[1:]]
        count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[distinct, *bounds])
        call.replace(keep_title(call, count))
        for name in ("from_", "joins", "where"):
            select.set(name, inner.args.get(name))
    return tree


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _read(select: exp.Select) -> exp.Select | None:
    """Return the SELECT DISTINCT whose rows a block counts, if it does nothing else; None for others."""
    first = select.args.get("from_")
    item = None if first is None else first.this
    if set(_given(select)) - _OUTER or len(select.expressions) != 1 or not isinstance(item, exp.Subquery):
        return None
    call, inner = select.expressions[0].unalias(), item.this
    arguments = getattr(call, "expressions", [])
    counts = (function_name(call) or "").lower() == "count" and bool(arguments)
    if not counts or not isinstance(arguments[0], exp.Star) or item.args.get("joins"):
        return None
    if not all(isinstance(each, exp.Kwarg) for each in arguments[1:]):
        return None
    if not isinstance(inner, exp.Select) or set(_given(inner)) - _INNER:
        return None
    distinct = inner.args.get("distinct")
    if distinct is None or distinct.args.get("on") is not None:
        return None
    plain = not any(each.is_star or contains_aggregate(each) for each in inner.expressions)
    return inner if plain else None


def _is_of_units(inner: exp.Select, provenance: Provenance) -> bool:
    """Return whether different rows are those of several units: none of their columns is one unit's."""
    if provenance.find_unit(inner, ()) is None:
        return False
    try:
        return not any(provenance.read_values(inner, item.unalias(), ())[0] for item in inner.expressions)
    except QueryRefused:
        return False


def text_of_row(values: list[exp.Expr]) -> exp.Expr:
    """Return one text of several values, which no other values have."""
    parts = [_text_of(value) for value in values]
    made = parts[0]
    for part in parts[1:]:
        made = exp.DPipe(this=made, expression=part)
    return made


def _text_of(value: exp.Expr) -> exp.Expr:
    """Return a value's length and text, or that it is NULL."""
    text = exp.cast(copy_tree(value), "VARCHAR")
    length = exp.cast(exp.Anonymous(this=f"{MARK}LENGTH", expressions=[copy_tree(text)]), "VARCHAR")
    colon = exp.DPipe(this=length, expression=exp.Literal.string(":"))
    null = exp.Is(this=copy_tree(value), expression=exp.Null())
    case = exp.Case(
        ifs=[exp.If(this=null, true=exp.Literal.string("-"))], default=exp.DPipe(this=colon, expression=text)
    )
    return exp.Paren(this=case)
