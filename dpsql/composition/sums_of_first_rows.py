"""Read sums over the first rows of all units in an order as one number, of which a unit changes few.

`SUM(y) FROM (SELECT y, ROW_NUMBER() OVER (ORDER BY x) AS r ..) WHERE r <= n`, also written `FROM (SELECT y ..
ORDER BY x LIMIT n)`; AVG is the sum by the number of values, each a release. Only ROW_NUMBER numbers n rows:
of rows that are tied RANK gives all one number, so that one row moves many (`kernel.tree.chosen_rows`).
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import function_name, read_whole_number
from dpsql.analysis.released.first_rows import FIRST, SumOfFirst
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.counted_groups import divide, put_items, take_apart
from dpsql.composition.found_values import list_ctes_of
from dpsql.language import MARK, Query, copy_tree, find_nodes, keep_title, list_given, read_clause, title_of
from dpsql.policy import fold

_OUTER = frozenset({"expressions", "from_", "where", "with_", "kind"})
_INNER = frozenset({"expressions", "from_", "joins", "where", "kind", "order", "limit"})
_WINDOW = frozenset({"this", "order", "over"})
_LARGEST = 1 << 31


def with_first_rows(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement that sums over first rows as one number; its tree is changed."""
    tree: exp.Query = query.tree
    selects = [*find_nodes(tree, exp.Select)]
    for select in selects:  # those of an average are added
        ctes = list_ctes_of(select.args.get("from_") or select, provenance)
        selects += _put_number(select, provenance, ctes)
    return tree


def _put_number(select: exp.Select, of: Provenance, ctes: tuple[Cte, ...]) -> list[exp.Select]:
    """Put one number into the place of first rows that a block adds up; return blocks for an average."""
    item = read_clause(select, "from_")
    inner = item.this if isinstance(item, exp.Subquery) and not item.args.get("joins") else None
    if list_given(select) - _OUTER or not isinstance(inner, exp.Select) or list_given(inner) - _INNER:
        return []
    found = _read_limit(select, inner) or _read_number(select, inner)
    calls = [each.unalias() for each in select.expressions]
    if found is not None and len(calls) > 1 and all(map(_is_number, calls)):
        titled = [(each, title_of(each)) for each in select.expressions]
        parts, numbers = take_apart(select, {str(i): copy_tree(call) for i, call in enumerate(calls)})
        listed = zip(numbers, titled, strict=True)
        made_of = [exp.alias_(n, each.alias or title, quoted=True) for n, (each, title) in listed]
        select.set("expressions", made_of)
        return parts
    call = calls[0]
    if len(calls) != 1 or not _is_number(call) or not isinstance(item, exp.Subquery):
        return []
    name, of_rows = (function_name(call) or "").lower(), isinstance(call.expressions[0], exp.Star)
    one = exp.Literal.number(1) if of_rows else call.expressions[0]
    argument = _name_items(one, inner, item.alias)
    if argument is None:
        return []
    if found is None or of.find_unit(inner, ctes) is None or of.find_outer_column(inner, ctes) is not None:
        return []
    if name == "avg":
        return divide(select, call, argument)
    value = put_items(exp.Paren(this=copy_tree(argument)), inner).unnest()
    order = tuple(_put_terms(term, inner) for term in found[0])
    if any(find_nodes(each, exp.Window, exp.Query) for each in (value, *order)):
        return []
    made = keep_title(call, exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()]))
    made.meta.update({k: v for k, v in call.meta.items() if k in ("start", "end", "line", "col")})
    made.meta[FIRST] = SumOfFirst(order, found[1], value, counts=name == "count")
    call.replace(made)
    for part in ("from_", "joins", "where"):
        select.set(part, inner.args.get(part))
    return []


def _is_number(call: exp.Expr) -> bool:
    """Return whether a call is a number of first rows: COUNT, SUM or AVG of a value of each, or COUNT(*)."""
    name = (function_name(call) or "").lower()
    if not isinstance(call, exp.Anonymous) or len(call.expressions) != 1:
        return False
    star = isinstance(call.expressions[0], exp.Star)
    plain = not isinstance(call.expressions[0], (exp.Distinct, exp.Kwarg))
    return plain and (name == "count" or (name in ("sum", "avg") and not star))


def _name_items(argument: exp.Expr, inner: exp.Select, alias: str) -> exp.Expr | None:
    """Return a copy of what reads a block's rows, with its items' names alone; None if it names others."""
    made = copy_tree(argument)
    items = [item.this if isinstance(item, exp.Column) else item for item in inner.expressions]
    names = None if any(isinstance(i, exp.Star) for i in items) else {fold(i.alias_or_name) for i in items}
    for column in [*find_nodes(made, exp.Column)]:
        if len(column.parts) > 2 or (column.table and fold(column.table) != fold(alias)):
            return None
        if names is not None and fold(column.name) not in names:
            return None
        column.set("table", None)
    return made


def _put_terms(term: exp.Expr, inner: exp.Select) -> exp.Expr:
    """Return a term of ORDER BY with the items of a block in the places of their names and numbers."""
    place = read_whole_number(term.this)
    if place is not None and 1 <= place <= len(inner.expressions):
        made = copy_tree(term)
        made.set("this", copy_tree(inner.expressions[place - 1].unalias()))
        return made
    made = put_items(exp.Paren(this=copy_tree(term)), inner).this
    return made if isinstance(made, exp.Expr) else term


def _read_limit(select: exp.Select, inner: exp.Select) -> tuple[list[exp.Expr], int] | None:
    """Return the terms of ORDER BY and the number of LIMIT of a block; None if it has not both."""
    order, limit = inner.args.get("order"), inner.args.get("limit")
    if order is None or limit is None or select.args.get("where") is not None:
        return None
    plain = isinstance(limit, exp.Limit) and limit.args.get("limit_options") is None  # no percentage
    number = read_whole_number(limit.expression) if plain else None
    return None if number is None or not 0 < number < _LARGEST else (order.expressions, number)


def _read_number(select: exp.Select, inner: exp.Select) -> tuple[list[exp.Expr], int] | None:
    """Return the terms by which rows are numbered, and how many of them WHERE keeps; None if it does not."""
    where = read_clause(select)
    condition = None if where is None else where.unnest()
    if inner.args.get("order") or inner.args.get("limit") or not isinstance(condition, (exp.LTE, exp.LT)):
        return None
    column, number = condition.this.unnest(), read_whole_number(condition.expression.unnest())
    if not isinstance(column, exp.Column) or number is None:
        return None
    number -= isinstance(condition, exp.LT)
    items = {fold(i.alias_or_name): i.unalias() for i in inner.expressions if i.alias_or_name}
    window = items.get(fold(column.name))
    if not isinstance(window, exp.Window) or list_given(window) - _WINDOW:
        return None
    ordered = window.args.get("order")
    if (function_name(window.this) or "").lower() != "row_number" or ordered is None:
        return None
    return (ordered.expressions, number) if 0 < number < _LARGEST else None
