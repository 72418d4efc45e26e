"""What a block of private rows groups by, and whether it refers to the rows of a block around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sqlglot import exp

from dpsql.analysis import aggregates, blocks
from dpsql.analysis.block_groups import group_nodes
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.expressions import canonical
from dpsql.analysis.joins import from_clause
from dpsql.analysis.relation import Block, Cte, Scope
from dpsql.analysis.rules import RULES_BY_NODE
from dpsql.analysis.typed import UnitRole
from dpsql.errors import QueryRefused
from dpsql.language import Source, walked
from dpsql.policy import Policy, fold


class Provenance:
    """Compiles parts of a statement to find out where their columns come from.

    What it compiles is dropped: the statement's own compilation decides what is released.
    """

    def __init__(self, source: Source, policy: Policy, catalog: Catalog) -> None:
        self.source, self.policy, self.catalog = source, policy, catalog

    def compiler(self) -> StatementCompiler:
        """Return a new compiler."""
        return StatementCompiler(self.source, self.policy, self.catalog, RULES_BY_NODE, blocks.query)

    def ctes(self, node: exp.Expr, outer: tuple[Cte, ...]) -> tuple[Cte, ...]:
        """Return the common table expressions that a query may name."""
        return blocks.with_ctes(self.compiler(), node, outer)

    def roles(self, select: exp.Select, ctes: tuple[Cte, ...]) -> tuple[set[UnitRole], bool]:
        """Return the roles of the keys of a grouped block; whether one is computed from the unit.

        A unique key of a private table has the role of the unit.
        """
        compiler = self.compiler()
        made = from_clause(compiler, select, ctes, 1)
        made.scope.block = Block(made.owner, made.unit, ctes, 1)
        scope = made.scope.copy()
        items = blocks.expand(compiler, select, scope)
        for item in items:
            if not aggregates.contains(item.node):
                with suppress(QueryRefused):  # it is judged with the block
                    scope.aliases.setdefault(fold(item.name), compiler.expression(item.node, scope))
        nodes = group_nodes(compiler, select, items, scope)
        keys = [canonical(compiler.expression(node, scope)) for node in nodes]
        units = frozenset[str]().union(*(c.reads for c in scope.columns if c.unit is not UnitRole.NONE))
        computed = any(k.unit is UnitRole.NONE and bool(k.reads & units) for k in keys)
        return {UnitRole.EXACT if k.groups_units else k.unit for k in keys}, computed

    def has(self, select: exp.Select, ctes: tuple[Cte, ...], name: str) -> bool:
        """Return whether the items of FROM of a block have a column."""
        return self._scope(select, ctes).has(fold(name))

    def unit(self, select: exp.Select, ctes: tuple[Cte, ...]) -> exp.Column | None:
        """Return a column of FROM that holds the privacy unit of each row; None if there is none."""
        try:
            scope = self._scope(select, ctes)
        except QueryRefused:
            return None
        for origin in scope.origins:
            for name, column in zip(origin.names, origin.columns, strict=True):
                if column.unit is UnitRole.EXACT:
                    return exp.column(name, table=origin.alias, quoted=True)
        return None

    def numeric(self, select: exp.Select, ctes: tuple[Cte, ...]) -> bool:
        """Return whether no aggregate of a block has values that are no numbers, such as the latest day."""
        scope = self._scope(select, ctes)
        for call in (call for item in select.expressions for call in aggregates.calls(item)):
            inner = call.this if isinstance(call, exp.Filter) else call
            if aggregates.call_of(call) == "count" or not inner.expressions:
                continue
            if not self.compiler().expression(inner.expressions[0], scope).type.numeric:
                return False
        return True

    def outside(self, select: exp.Select, ctes: tuple[Cte, ...]) -> exp.Column | None:
        """Return a column that a block takes from a block around it; None if it takes none."""
        try:
            scope = self._scope(select, ctes)
        except QueryRefused:
            return None  # refused where the block is judged
        aliases = {fold(item.alias) for item in select.expressions if isinstance(item, exp.Alias)}
        return next((c for c in _columns(select) if not _inside(c, scope, aliases)), None)

    def _scope(self, select: exp.Select, ctes: tuple[Cte, ...]) -> Scope:
        """Return the columns of a block's FROM clause, compiled by a new compiler; raises its refusals."""
        return from_clause(self.compiler(), select, ctes, 1).scope


def _columns(select: exp.Select) -> Iterator[exp.Column]:
    """Yield the columns that a block names outside its FROM items and subqueries."""
    for name, part in select.args.items():
        if name in ("from_", "with_"):
            continue
        for root in part if isinstance(part, list) else [part]:
            if isinstance(root, exp.Expr):
                for node in walked(root, lambda n: isinstance(n, exp.Query)):
                    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                        yield node


def _inside(node: exp.Column, scope: Scope, aliases: set[str]) -> bool:
    table = node.args.get("table")
    if table is not None:
        return any(fold(o.alias) == fold(table.name) for o in scope.origins)
    return scope.has(fold(node.name)) or fold(node.name) in aliases
