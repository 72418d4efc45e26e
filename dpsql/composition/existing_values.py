"""Show the groups of a private SELECT DISTINCT that other private rows are joined to: those that have rows.

`FROM (SELECT DISTINCT day FROM visits) d LEFT JOIN visits v ON .. GROUP BY d.day` has a group for each day
with a visit. Which days these are is private, so the block is counted for all declared days (see
`analysis.spines`), and a release of the visitors of each day decides which of the groups are shown.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis import Catalog
from dpsql.analysis.provenance import Provenance
from dpsql.analysis.relation import Cte, cte_named
from dpsql.analysis.spines import MARKED, grouped_by, listed
from dpsql.composition.existence import EXISTENCE, HALF
from dpsql.errors import QueryRefused
from dpsql.language import MARK, Clause, Query, all_of, copied
from dpsql.policy import Policy


def with_existing(query: Query, policy: Policy, catalog: Catalog) -> Query:
    """Return a statement whose blocks show the groups that exist; its tree is changed."""
    if query.inner or query.clause != Clause():
        return query
    provenance = Provenance(query.source, policy, catalog)
    _visit(query.tree, (), provenance)
    return query


def _visit(node: exp.Expr, ctes: tuple[Cte, ...], provenance: Provenance) -> None:
    """Look at all blocks of a query, each with the common table expressions that it may name."""
    if isinstance(node, exp.Query) and not isinstance(node, exp.Table) and node.args.get("with_") is not None:
        try:
            ctes = provenance.ctes(node, ctes)
        except QueryRefused:
            return
    if isinstance(node, exp.Select):
        _filter(node, ctes, provenance)
    for child in list(node.iter_expressions()):
        _visit(child, ctes, provenance)


def _filter(block: exp.Select, ctes: tuple[Cte, ...], provenance: Provenance) -> None:
    first = block.args.get("from_")
    if first is None or block.args.get("group") is None or not block.args.get("joins"):
        return
    for item in (first.this, *(join.this for join in block.args["joins"])):
        found = listed(item, ctes)
        if found is None or not grouped_by(block, found.alias, found.name):
            continue
        unit = provenance.unit(found.select, found.visible)
        if unit is None or not _alike(found.select, ctes, found.visible):
            continue
        key = exp.column(found.name, table=found.alias, quoted=True)
        exists = exp.In(this=key, query=exp.Subquery(this=_existing(found.select, unit)))
        having = block.args.get("having")
        both = exists if having is None else exp.and_(having.this, exists, copy=False)
        block.set("having", exp.Having(this=both))
        found.select.meta[MARKED] = True


def _alike(select: exp.Select, ctes: tuple[Cte, ...], visible: tuple[Cte, ...]) -> bool:
    """Return whether the tables of a SELECT have the same meaning in another place."""
    names = [table.name for table in all_of(select, exp.Table)]
    alike = all(cte_named(name, ctes) is cte_named(name, visible) for name in names)
    return select.args.get("with_") is None and alike


def _existing(select: exp.Select, unit: exp.Column) -> exp.Select:
    """Return the query of the values of a SELECT DISTINCT whose noisy number of units is not zero."""
    value = select.expressions[0].unalias()
    units = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Distinct(expressions=[unit])])
    counted = exp.Select(
        expressions=[
            exp.alias_(copied(value), "k", quoted=True),
            exp.alias_(units, "n", quoted=True),
        ]
    )
    for name in ("from_", "joins", "where"):
        part = select.args.get(name)
        made = [copied(each) for each in part] if isinstance(part, list) else part and copied(part)
        counted.set(name, made or None)
    counted.set("group", exp.Group(expressions=[copied(value)]))
    counted.meta["select"] = -1
    counted.meta[EXISTENCE] = (("n",), False)
    outer = exp.Select(expressions=[exp.column("k", quoted=True)])
    outer.set(
        "from_", exp.From(this=exp.Subquery(this=counted, alias=exp.TableAlias(this=exp.to_identifier("s"))))
    )
    half = exp.Literal.number(HALF)
    outer.set("where", exp.Where(this=exp.GTE(this=exp.column("n", quoted=True), expression=half)))
    outer.meta["select"] = -1
    return outer
