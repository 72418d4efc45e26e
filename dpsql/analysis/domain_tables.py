"""`FROM dp_domain(visits.country)`: the public values of a column, as a relation of one column."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from dpsql.analysis.catalog import Catalog
from dpsql.analysis.column_bounds import bounds_of_column
from dpsql.analysis.compiler import function_name
from dpsql.analysis.domains import BOOLEANS, distinct_values
from dpsql.analysis.relation import Column, Relation
from dpsql.analysis.typed import KeyDomain
from dpsql.kernel.tree import Column as TreeColumn
from dpsql.kernel.tree import Derived, Expr, Item, Scan, Select, UtcTime, duckdb_sql
from dpsql.language import Source, all_of
from dpsql.policy import Policy, Table, fold
from dpsql.types import BOOLEAN, TIMESTAMPTZ

NAME = "dp_domain"


def is_domain_table(node: exp.Expr) -> bool:
    """Return whether an item of FROM is a call of DP_DOMAIN."""
    return isinstance(node, exp.Table) and (function_name(node.this) or "").lower() == NAME


def domain_table(source: Source, policy: Policy, catalog: Catalog, node: exp.Table) -> Relation:
    """Compile a call of DP_DOMAIN; refuse a column without public values."""
    arguments = node.this.expressions
    named = arguments[0] if len(arguments) == 1 else None
    if not isinstance(named, exp.Column) or not named.table:
        raise source.refuse("DP_DOMAIN takes the name of a column, with its table", node, _example(policy))
    owner, *parts = (part.name for part in named.parts)
    name = ".".join(parts)  # of a field of a struct, `address.city`
    table = policy.table(owner) if owner.isascii() else None
    if table is None:
        raise source.refuse(f"there is no table {owner[:60]}", named, _example(policy), unknown="table")
    found = next((c for c in catalog.columns(table.name) if fold(c[0]) == fold(name)), None)
    if found is None:
        raise source.refuse(
            f"there is no column {table.name}.{name[:60]}", named, _example(policy), unknown="column"
        )
    domain = BOOLEANS if found[1] == BOOLEAN else values_of(catalog, table, found[0])
    if domain is None:
        what = "has a range of times, no list of values" if catalog.span(table.name, found[0]) else ""
        if catalog.integers(table.name, found[0]) is not None:
            what = "has a range of integers that is too long for a list"
        raise source.refuse(
            f"{table.name}.{found[0]} {what or 'has no declared values'}", named, _example(policy)
        )
    query = Select((Item(TreeColumn("", "v"), "c0"),), Derived(domain.query, "d"))
    bounds = bounds_of_column(catalog, table, *found)
    column = Column(found[0], found[1], domain=domain, bounds=bounds)
    return Relation(query, (column,), None, frozenset({frozenset({0})}))


def values_of(catalog: Catalog, table: Table, column: str) -> KeyDomain | None:
    """Return the values of a public column, or those that are declared for a private one."""
    place = f"{table.name}.{column}"
    if table.unit is None:
        cell: Expr = TreeColumn("b", column, stored=True)
        if any(fold(n) == fold(column) and kind == TIMESTAMPTZ for n, kind in catalog.columns(table.name)):
            cell = UtcTime(cell)
        return distinct_values(cell, Scan(table.name, "b"), f"the values of {place}")
    query = catalog.domain(table.name, column)
    if query is None:
        return None
    complete = catalog.complete(table.name, column)
    return KeyDomain(query, ordered=True, origin=f"the declared domain of {place}", complete=complete)


def put_domains(tree: exp.Expr, source: Source, policy: Policy, catalog: Catalog) -> None:
    """Replace the calls of DP_DOMAIN in a statement that the schema database runs by their queries."""
    for node in all_of(tree, exp.Table):
        if is_domain_table(node):
            relation = domain_table(source, policy, catalog, node)
            query = sqlglot.parse_one(duckdb_sql(relation.query), dialect="duckdb")
            if relation.columns[0].type == TIMESTAMPTZ:
                v = query.expressions[0].unalias()
                zone = exp.Literal.string("UTC")
                query.expressions[0].set("this", exp.Anonymous(this="timezone", expressions=[zone, v]))
            query.expressions[0].set("alias", exp.to_identifier(relation.columns[0].name, quoted=True))
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(NAME))
            node.replace(exp.Subquery(this=query, alias=alias, joins=node.args.get("joins")))


def _example(policy: Policy) -> str | None:
    """Return a call with a column of the policy that has declared values."""
    named = (f"{t.name}.{c}" for t in policy.tables.values() for c in t.domain)
    first = next(named, None)
    return None if first is None else f"FROM {NAME}({first})"
