"""Counts of different public values, and extremes of them, beside counts of private rows joined by LEFT JOIN.

`SELECT a.kind, COUNT(DISTINCT a.id), COUNT(v.id) FROM ads a LEFT JOIN views v ON v.ad = a.id GROUP BY a.kind`
has all ads, whatever private rows there are: LEFT JOIN keeps each row of the public tables before it, and may
repeat it, which no number of different values and no extreme depends on. So each is a number of public rows
alone, joined by the keys of the groups: `JOIN (SELECT a.kind AS k, COUNT(DISTINCT a.id) AS n FROM ads a GROUP
BY a.kind) p ON p.k = a.kind`, where `p.n` is one more key, with one value in each group.

Sums and averages of public values depend on how often a row is repeated; they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, contains_aggregate, is_aggregate
from dpsql.analysis.compiler import find_cte, read_item
from dpsql.analysis.statement_shapes import Provenance
from dpsql.language import (
    copy_rows,
    copy_tree,
    find_nodes,
    keep_title,
    list_conjuncts,
    list_from_items,
    list_given,
    list_terms,
    name_query,
    read_clause,
    walk_block,
)
from dpsql.policy import fold

_NAME = "dpsql_public"
_EXTREMES = frozenset({"min", "max"})
_BLOCK = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "with_", "kind"}
)


class _Kept(NamedTuple):
    """The public tables of a block whose rows LEFT JOIN keeps."""

    items: list[exp.Expr]
    owner: Callable[[exp.Column], str | None]
    """Returns the folded alias of the one of them that has a column; None for other columns."""

    def has(self, name: str) -> bool:
        """Return whether a name without a table is that of one of their columns."""
        return self.owner(exp.column(name)) is not None

    def is_public(self, node: exp.Expr) -> bool:
        """Return whether an expression of one row reads nothing but their columns, and at least one."""
        columns = find_nodes(node, exp.Column)
        plain = not find_nodes(node, exp.Query, exp.Window, exp.Star)
        return bool(columns) and plain and all(self.owner(column) is not None for column in columns)


def with_public_values(tree: exp.Query, provenance: Provenance) -> exp.Query:
    """Return a statement with such numbers as subqueries over public rows; its tree is changed."""
    for select in find_nodes(tree, exp.Select):
        kept = None if list_given(select) - _BLOCK else _read_kept(select, provenance)
        group = select.args.get("group")
        if kept is None or (group is not None and list_given(group) != {"expressions"}):
            continue
        keys = [read_item(select, key, kept.has) for key in list_terms(select)]
        where = list_conjuncts(read_clause(select))
        if not all(kept.is_public(part) and not contains_aggregate(part) for part in (*keys, *where)):
            continue
        calls = [node for node in walk_block(select, "joins", "where", "group") if is_aggregate(node)]
        found = [call for call in calls if _is_of_values(call) and kept.is_public(call)]
        if not found or len(found) == len(calls):
            continue
        _write(select, found, len(kept.items), keys)
    return tree


def _is_of_values(call: exp.Expr) -> bool:
    """Return whether an aggregate is of different values, however often each is there."""
    values = call.expressions
    if isinstance(call.parent, (exp.Filter, exp.Window)) or len(values) != 1:
        return False
    return aggregate_name(call) in _EXTREMES or (
        aggregate_name(call) == "count" and isinstance(values[0], exp.Distinct)
    )


def _read_kept(select: exp.Select, provenance: Provenance) -> _Kept | None:
    """Return the public tables before the first private one, if a LEFT JOIN follows them; None for others."""
    items, joins = list_from_items(select), select.args.get("joins") or []
    sides = ["", *(str(join.args.get("side") or "").upper() for join in joins)]
    tables = list[exp.Expr]()
    for item in items:
        known = isinstance(item, exp.Table) and item.name.isascii() and find_cte(item) is None
        table = provenance.policy.table(item.name) if known else None
        if table is None or item.args.get("joins") or item.args.get("db"):
            return None
        if table.public and tables == items[: items.index(item)]:
            tables.append(item)
    plain = not any(join.args.get("using") or join.args.get("method") for join in joins[: len(tables) - 1])
    if not tables or not plain or set(sides) - {"", "LEFT"} or set(sides[len(tables) :]) != {"LEFT"}:
        return None
    if any(str(join.args.get("kind") or "") not in ("", "INNER", "OUTER", "CROSS") for join in joins):
        return None
    held = {fold(i.alias_or_name): {fold(n) for n, _ in provenance.catalog.columns(i.name)} for i in items}
    merged = {fold(name.name) for join in joins for name in join.args.get("using") or ()}
    own = {fold(table.alias_or_name) for table in tables}

    def owner(column: exp.Column) -> str | None:
        having = [
            a for a, names in held.items() if fold(column.name) in names and fold(column.name) not in merged
        ]
        alias = fold(column.table) or (having[0] if len(having) == 1 else None)
        return alias if alias in own else None

    return _Kept(tables, owner)


def _write(select: exp.Select, calls: list[exp.Expr], first: int, keys: list[exp.Expr]) -> None:
    """Put aggregates of the first tables of FROM into a subquery of their own, joined by the keys."""
    group, joins = select.args.get("group"), select.args.get("joins") or []
    rows = exp.Select()
    copy_rows(select, rows)
    rows.set("joins", [copy_tree(join) for join in joins[: first - 1]] or None)
    rows.meta["select"] = -1
    if group is None:
        for call in calls:
            made = copy_tree(rows)
            made.set("expressions", [copy_tree(call)])
            call.replace(keep_title(call, exp.Subquery(this=made)))
        return
    listed = [exp.alias_(copy_tree(key), f"k{i}", quoted=True) for i, key in enumerate(keys)]
    listed += [exp.alias_(copy_tree(call), f"n{i}", quoted=True) for i, call in enumerate(calls)]
    rows.set("expressions", listed)
    rows.set("group", exp.Group(expressions=[copy_tree(key) for key in keys]))
    same = [
        exp.NullSafeEQ(this=exp.column(f"k{i}", _NAME, quoted=True), expression=exp.paren(copy_tree(key)))
        for i, key in enumerate(keys)
    ]
    joins.insert(first - 1, exp.Join(this=name_query(rows, _NAME), on=exp.and_(*same, copy=False)))
    for i, call in enumerate(calls):
        number = exp.column(f"n{i}", _NAME, quoted=True)
        group.append("expressions", number.copy())
        call.replace(keep_title(call, number))
