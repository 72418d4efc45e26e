"""Rules for subqueries in expressions: IN, EXISTS and scalar aggregates.

A subquery over private rows must be correlated with the outer row by the privacy unit.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.analysis import typed
from dpsql.analysis.aggregates import contains
from dpsql.analysis.block_groups import Group
from dpsql.analysis.coerce import unify
from dpsql.analysis.compiler import Rule, StatementCompiler, check_arguments
from dpsql.analysis.expressions import canonical, compile_in_list, predicate
from dpsql.analysis.joins import equalities, from_clause, tied
from dpsql.analysis.parsed import conjuncts
from dpsql.analysis.relation import Block, From, Scope
from dpsql.analysis.typed import Typed, UnitRole
from dpsql.kernel.tree import (
    OPAQUE,
    Binary,
    Case,
    Column,
    Constant,
    Derived,
    Exists,
    Expr,
    InQuery,
    IsNull,
    Item,
    Paren,
    ScalarQuery,
    Select,
    conjunction,
)
from dpsql.kernel.tree import items as items_of
from dpsql.types import BOOLEAN, INTEGER

_HINT = "WHERE a.user_id = b.user_id"


def _block(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Block:
    if scope.block is None:
        raise compiler.source.refuse("a subquery is not allowed here", node, "put it into WHERE")
    return scope.block


def _in(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    subquery = node.args.get("query")
    if subquery is None:
        check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
        return compile_in_list(compiler, node, scope)
    block = _block(compiler, node, scope)
    value = compiler.expression(node.this, scope)
    inner = subquery.this if isinstance(subquery, exp.Subquery) else subquery
    relation = compiler.query(inner, block.ctes, block.depth + 1)
    alias = compiler.alias()
    if len(relation.columns) != 1:
        raise compiler.source.refuse("IN takes a subquery of one column", subquery)
    column = relation.columns[0]
    listed = typed.column(alias, "c0", column.type)
    if relation.owner is None:
        a, b = unify(compiler.source, compiler.catalog, value, listed, node)
        query = Select((Item(b.guarded_node),), Derived(relation.query, alias))
        return Typed(Paren(InQuery(a.guarded_node, query)), BOOLEAN)
    owner = block.owner
    if owner is None or owner.kind != relation.owner.kind or owner.row or relation.owner.row:
        raise compiler.source.refuse("the rows compared have different privacy units", node)
    unit = Column(alias, "u")
    there = IsNull(listed.node, negated=True)
    assert block.unit is not None  # noqa: S101  owned rows have a unit
    if value.link and value.link == column.link:
        a, b = unify(compiler.source, compiler.catalog, value, listed, node)
        own = conjunction((Paren(Binary("=", unit, block.unit)), there))
        query = Select((Item(b.guarded_node),), Derived(relation.query, alias), own)
        # A key that is NULL is in no list and out of no list, whatever the unit has in it.
        found = Case(((IsNull(a.guarded_node, negated=True), InQuery(a.guarded_node, query)),))
        return Typed(Paren(found), BOOLEAN)
    if value.unit is not UnitRole.EXACT or not column.unit.held:
        raise compiler.source.refuse(
            "IN over a private table compares only privacy units",
            node,
            "WHERE user_id IN (SELECT user_id FROM ...)",
        )
    # The hidden units are compared, not the visible columns, which may have been converted. Without
    # IS NOT NULL, a NULL in another unit's row would make NOT IN unknown for all units.
    every = conjunction((IsNull(unit, negated=True), there))
    query = Select((Item(unit),), Derived(relation.query, alias), every)
    return Typed(Paren(InQuery(block.unit, query)), BOOLEAN)


def _inner(compiler: StatementCompiler, select: exp.Expr, scope: Scope) -> tuple[From, Scope, Expr | None]:
    """Compile FROM and WHERE of a correlated subquery, and check the owner of its rows."""
    block = _block(compiler, select, scope)
    if not isinstance(select, exp.Select):
        raise compiler.source.refuse("this subquery must be one SELECT", select)
    check_arguments(compiler.source, select, frozenset({"expressions", "from_", "joins", "where"}))
    compiler.level(block.depth + 1, select)
    made = from_clause(compiler, select, block.ctes, block.depth + 1)
    inner = made.scope.copy()
    inner.outer = scope
    inner.block = Block(made.owner, made.unit, block.ctes, block.depth + 1)
    where = select.args.get("where")
    conditions: list[Expr] = []
    if made.owner is not None:
        with compiler.part():
            conditions.append(_tied(compiler, select, made, inner, scope, block))
    if where is not None:
        conditions.append(predicate(compiler, where.this, inner).guarded_node)
    return made, inner, conjunction(conditions)


def _tied(
    compiler: StatementCompiler, select: exp.Select, made: From, inner: Scope, outer: Scope, block: Block
) -> Expr:
    """Return the condition that the unit of inner and outer row are equal; refuse a subquery without it."""
    if block.owner is None or made.owner is None or block.owner.row or made.owner.row:
        raise compiler.source.refuse(
            "a query over public rows cannot have a subquery over private rows", select
        )
    if block.owner.kind != made.owner.kind:
        raise compiler.source.refuse("the subquery's rows have another privacy unit", select)
    where = select.args.get("where")
    visible = {c.node for c in (*outer.columns, *outer.merged.values())}
    parts = conjuncts(where.this) if where is not None else []
    for far, near in equalities(inner, parts, made.scope.columns):
        if tied([(far, near)]) and far.node in visible:
            assert made.unit is not None  # noqa: S101  owned rows have a unit
            assert block.unit is not None  # noqa: S101
            return Paren(Binary("=", made.unit, block.unit))
    raise compiler.source.refuse(
        "a subquery over private rows must be tied to the row's own privacy unit", select, _HINT
    )


def _exists(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    select = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    made, _, where = _inner(compiler, select, scope)
    return Typed(Exists(Select((Item(Constant(1, INTEGER)),), made.source, where)), BOOLEAN)


def _scalar(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile a scalar subquery: one aggregate without GROUP BY, which always yields exactly one row."""
    select = node.this
    made, inner, where = _inner(compiler, select, scope)
    items = select.expressions
    item = items[0].this if isinstance(items[0], exp.Alias) else items[0]
    if len(items) != 1 or not contains(item):
        raise compiler.source.refuse(
            "a subquery used as a value selects one aggregate: any other could have several rows",
            node,
            "SELECT MAX(..) or MIN(..)",
        )
    alias = compiler.alias()
    group = Group(compiler, inner, [], alias)
    outer = Scope(compiler.source, intercept=group.lookup, block=inner.block)
    value = compiler.expression(item, outer)
    own = frozenset[str]().union(*(c.reads for c in inner.columns))
    for found in group.aggregates:
        if found.reads and not found.reads & own and OPAQUE not in found.reads:
            raise compiler.source.refuse("this aggregate reads nothing of its own subquery", node)
    listed = items_of("a", (canonical(a).node for a in group.aggregates))
    query = Select((Item(value.guarded_node),), Derived(Select(listed, made.source, where), alias))
    return replace(value, node=ScalarQuery(query), unit=UnitRole.NONE, literal=None, domain=None)


def _refused(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    raise compiler.source.refuse(
        "comparisons with ALL or ANY of a subquery are not supported", node, "IN or EXISTS"
    )


SUBQUERY_RULES = (
    Rule(exp.In, _in, frozenset({"this", "expressions", "query"})),
    Rule(exp.Exists, _exists, frozenset({"this"})),
    Rule(exp.Subquery, _scalar, frozenset({"this"})),
    Rule(exp.All, _refused, frozenset({"this"})),
    Rule(exp.Any, _refused, frozenset({"this"})),
)
