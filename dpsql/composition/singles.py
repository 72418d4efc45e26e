"""Read joined releases of one row as scalar subqueries: `FROM visits CROSS JOIN (SELECT AVG(ms) AS m ..) a`.

Each column of such a release is one value, which an expression over private rows may use as a constant
(see `Kinds.values`). Only inner joins are read so: they keep each private row once, or leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from dpsql.analysis.aggregates import contains
from dpsql.analysis.relation import Cte, cte_named
from dpsql.language import copied, walked
from dpsql.policy import fold

_LIMITING = ("group", "having", "qualify", "limit", "offset", "distinct", "joins", "laterals", "where")
_AGGREGATED = tuple(name for name in _LIMITING if name not in ("joins", "where"))


def one_row(node: exp.Expr, ctes: tuple[Cte, ...]) -> bool:
    """Return whether a query has exactly one row, whatever its tables hold: an aggregate without GROUP BY."""
    select = node.unnest() if isinstance(node, exp.Subquery) else node
    if not isinstance(select, exp.Select):
        return False
    if any(contains(item) for item in select.expressions):
        return not any(select.args.get(name) for name in _AGGREGATED)
    if any(select.args.get(name) for name in _LIMITING):
        return False
    first = select.args.get("from_")
    if first is None or first.this.args.get("joins"):
        return False
    inner = relation(first.this, ctes)
    return inner is not None and one_row(inner[0], inner[1])


def relation(item: exp.Expr, ctes: tuple[Cte, ...]) -> tuple[exp.Expr, tuple[Cte, ...]] | None:
    """Return the query of an item of FROM, and the common table expressions that it may name."""
    if isinstance(item, exp.Subquery):
        return item.this, ctes
    if isinstance(item, exp.Table) and item.args.get("db") is None:
        cte = cte_named(item.name, ctes)
        return None if cte is None else (cte.query, cte.visible)
    return None


def with_scalars(
    node: exp.Select,
    ctes: tuple[Cte, ...],
    released: Callable[[exp.Expr], bool],
    private: Callable[[exp.Expr], bool],
    known: Callable[[str], bool],
) -> None:
    """Replace the columns of joined releases of one row by scalar subqueries, and leave the releases out.

    `released` and `private` say what an item of FROM is; `known` whether the other items have a column, once
    the releases have left FROM. A block that cannot be read so stays as it is.
    """
    first, joins = node.args.get("from_"), node.args.get("joins") or []
    if first is None or not joins or node.args.get("laterals"):
        return
    items = [first.this, *(join.this for join in joins)]
    singles = {id(i): names for i in items if (names := _columns(i, ctes)) is not None and released(i)}
    if not singles or len(singles) == len(items):
        return
    plain = all(not any(j.args.get(n) for n in ("side", "using", "method", "pivots")) for j in joins)
    plain &= all(str(j.args.get("kind") or "") in ("", "INNER", "CROSS") for j in joins)
    if not plain or any(n.is_star for n in node.expressions):
        return
    kept = [item for item in items if id(item) not in singles]
    if not any(private(item) for item in kept):
        return
    conditions = [j.args["on"] for j in joins if j.args.get("on") is not None]
    first.set("this", kept[0])
    node.set("joins", [exp.Join(this=item, kind="CROSS") for item in kept[1:]])
    where = node.args.get("where")
    every = [*([] if where is None else [where.this]), *conditions]
    if every:
        node.set("where", exp.Where(this=exp.and_(*every, copy=False)))
    for item in items:
        if id(item) in singles:
            for column in list(_named(node, item.alias_or_name, singles[id(item)], known)):
                column.replace(_scalar(column, item))


def _columns(item: exp.Expr, ctes: tuple[Cte, ...]) -> frozenset[str] | None:
    """Return the names of the columns of an item that has one row; None for other items."""
    found = relation(item, ctes)
    if found is None or item.args.get("joins") or not item.alias_or_name or not one_row(*found):
        return None
    select = found[0].unnest() if isinstance(found[0], exp.Subquery) else found[0]
    names = [e.alias_or_name for e in select.expressions] if isinstance(select, exp.Select) else []
    alias = item.args.get("alias")
    listed = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    cte = cte_named(item.name, ctes) if isinstance(item, exp.Table) else None
    if cte is not None:
        names[: len(cte.columns)] = cte.columns
    names[: len(listed)] = listed
    return frozenset(fold(name) for name in names if name)


def _named(
    node: exp.Select, alias: str, names: frozenset[str], known: Callable[[str], bool]
) -> Iterator[exp.Column]:
    """Yield the columns of a block that mean those of a release of one row."""
    for name, part in node.args.items():
        if name in ("from_", "joins", "with_"):
            continue
        for root in part if isinstance(part, list) else [part]:
            if not isinstance(root, exp.Expr):
                continue
            for column in walked(root, lambda n: isinstance(n, exp.Query)):
                if not isinstance(column, exp.Column) or fold(column.name) not in names:
                    continue
                table = column.args.get("table")
                if fold(table.name) == fold(alias) if table is not None else not known(column.name):
                    yield column


def _scalar(column: exp.Column, item: exp.Expr) -> exp.Subquery:
    """Return the scalar subquery of one column of a release of one row."""
    named = exp.Column(this=copied(column.this))
    named.meta.update(column.meta)
    made = exp.Select(expressions=[named])
    made.set("from_", exp.From(this=copied(item)))
    made.meta["select"] = -1
    made.meta.update({k: v for k, v in column.this.meta.items() if k in ("start", "end", "line", "col")})
    return exp.Subquery(this=made)
