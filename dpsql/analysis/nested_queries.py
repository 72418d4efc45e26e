"""Queries within a block: IN, EXISTS and scalar subqueries.

A subquery over private rows must be correlated with the outer row by the privacy unit.
"""

from __future__ import annotations

import math
from collections import ChainMap
from dataclasses import replace
from functools import partial

from sqlglot import exp

from dpsql.analysis import typed_expression
from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.block_groups import Group
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Block, From, Scope
from dpsql.analysis.compiler import Rule, StatementCompiler, check_arguments
from dpsql.analysis.conversions import unify
from dpsql.analysis.from_joins import (
    compile_from,
    find_equalities,
    find_period_equalities,
    find_person,
    is_tied_by_units,
)
from dpsql.analysis.key_candidates import add_domain
from dpsql.analysis.lists_and_series import compile_list_lookup, read_list_lookup
from dpsql.analysis.public_domains import add_null
from dpsql.analysis.public_statements import write_public_sql
from dpsql.analysis.released_values import find_mark, relation_of_list
from dpsql.analysis.row_conditions import KnownRows, find_known_rows
from dpsql.analysis.scalar_rules import compile_condition, compile_in_list
from dpsql.analysis.typed_expression import Typed, UnitRole, make_constant
from dpsql.analysis.unit_periods import refuse_join, refuse_standing
from dpsql.errors import Error, with_article
from dpsql.kernel.tree import (
    OPAQUE,
    Binary,
    Case,
    Cast,
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
from dpsql.language import Clause, Options, Query, copy_tree, find_nodes, list_conjuncts
from dpsql.types import BOOLEAN, INTEGER, NULL, SqlType, column_type

_HINT = "WHERE a.user_id = b.user_id"
_IN_PERSON = "WHERE patient_id IN (SELECT patient_id FROM patients)"


def _block_around(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Block:
    if scope.block is None:
        raise compiler.source.refuse("a subquery is not allowed here", node, "put it into WHERE")
    return scope.block


def _compile_in(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    subquery = node.args.get("query")
    if (only := node.args.get("field")) is not None:
        raise compiler.source.refuse("IN takes a list", only, f"IN ({only.sql('duckdb')})")
    if subquery is None:
        check_arguments(compiler.source, node, frozenset({"this", "expressions"}))
        return compile_in_list(compiler, node, scope)
    block = _block_around(compiler, node, scope)
    if isinstance(node.this.unnest(), exp.Tuple):
        hint = "NOT EXISTS (SELECT 1 FROM (SELECT ..) AS f WHERE f.user_id = t.user_id AND f.day = t.day)"
        what = "NOT IN of rows: a NULL in the query leaves out the rows that may equal it"
        raise compiler.source.refuse(what, node, hint)
    value = compiler.expression(node.this, scope)
    inner = subquery.this if isinstance(subquery, exp.Subquery) else subquery
    mark = find_mark(subquery)
    relation = relation_of_list(mark) if mark else compiler.query(inner, block.ctes, block.depth + 1)
    alias = compiler.alias()
    if len(relation.columns) != 1:
        raise compiler.source.refuse("IN takes a subquery of one column", subquery)
    column = relation.columns[0]
    listed = typed_expression.make_column(alias, "c0", column.type)
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
    if owner.every != relation.owner.every:
        if relation.owner.every:
            raise refuse_standing(compiler.source, relation.owner, node)
        if value.unit is not UnitRole.PERSON or column.unit is not UnitRole.EXACT:
            raise compiler.source.refuse(
                f"IN over rows of {with_article(owner.kind)} compares the {owner.kind} here", node, _IN_PERSON
            )
        query = Select((Item(unit),), Derived(relation.query, alias), IsNull(unit, negated=True))
        return Typed(Paren(InQuery(value.node, query)), BOOLEAN)
    if value.link and value.link == column.link:
        a, b = unify(compiler.source, compiler.catalog, value, listed, node)
        own = conjunction((Paren(Binary("=", unit, block.unit)), there))
        query = Select((Item(b.guarded_node),), Derived(relation.query, alias), own)
        # A key that is NULL is in no list and out of no list, whatever the unit has in it.
        found = Case(((IsNull(a.guarded_node, negated=True), InQuery(a.guarded_node, query)),))
        return Typed(Paren(found), BOOLEAN)
    if owner.every:
        raise compiler.source.refuse(
            f"IN compares one column, and a unit is {with_article(owner.kind)} in one {owner.every}",
            node,
            "EXISTS (SELECT 1 FROM .. WHERE ..), which equates both",
        )
    if not value.unit.held or not column.unit.held:
        raise compiler.source.refuse(
            "IN over a private table compares only privacy units",
            node,
            "WHERE user_id IN (SELECT user_id FROM ...)",
        )
    # The hidden units are compared, not the visible columns, which may have been converted. Without
    # IS NOT NULL, a NULL in another unit's row would make NOT IN unknown for all units.
    every = conjunction((IsNull(unit, negated=True), there))
    query = Select((Item(unit),), Derived(relation.query, alias), every)
    found_unit = InQuery(block.unit, query)
    if value.unit is UnitRole.EXACT:
        return Typed(Paren(found_unit), BOOLEAN)
    # After an outer join the column may be NULL where the row has a unit: NULL is in no list.
    return Typed(Paren(Case(((IsNull(value.guarded_node, negated=True), found_unit),))), BOOLEAN)


def _compile_inner(
    compiler: StatementCompiler, select: exp.Expr, scope: Scope
) -> tuple[From, Scope, Expr | None]:
    """Compile FROM and WHERE of a correlated subquery, and check the owner of its rows."""
    block = _block_around(compiler, select, scope)
    if not isinstance(select, exp.Select):
        raise compiler.source.refuse("this subquery must be one SELECT", select)
    check_arguments(compiler.source, select, frozenset({"expressions", "from_", "joins", "where"}))
    compiler.level(block.depth + 1, select)
    made = compile_from(compiler, select, block.ctes, block.depth + 1)
    inner = made.scope.copy()
    inner.outer = scope
    inner.block = Block(made.owner, made.unit, block.ctes, block.depth + 1)
    where = select.args.get("where")
    conditions: list[Expr] = []
    if made.owner is not None:
        with compiler.part():
            conditions.append(_tie_to_outer(compiler, select, made, inner, scope, block))
    if where is not None:
        conditions.append(compile_condition(compiler, where.this, inner).guarded_node)
    return made, inner, conjunction(conditions)


def _tie_to_outer(
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
    parts = list_conjuncts(where.this) if where is not None else []
    pairs = find_equalities(inner, parts, made.scope.origins)
    if block.owner.every or made.owner.every:
        pairs += find_period_equalities(compiler, inner, parts, made.scope.columns)
        outside = frozenset[str]().union(*(c.reads for c in (*outer.columns, *outer.merged.values())))
        pairs = [(far, near) for far, near in pairs if far.reads <= outside]
        assert made.unit is not None and block.unit is not None  # noqa: S101, PT018  owned rows have a unit
        if block.owner.every == made.owner.every:
            if is_tied_by_units(pairs, block.owner):
                return Paren(Binary("=", made.unit, block.unit))
            raise refuse_join(compiler.source, block.owner, select)
        if made.owner.every:
            raise refuse_standing(compiler.source, made.owner, select)
        person = find_person(pairs)
        if person is not None:
            return Paren(Binary("=", made.unit, person.node))
        raise compiler.source.refuse(
            f"a subquery over rows of {with_article(made.owner.kind)} must be tied to the row's own",
            select,
            _HINT,
        )
    for far, near in pairs:
        if is_tied_by_units([(far, near)]) and far.node in visible:
            assert made.unit is not None  # noqa: S101  owned rows have a unit
            assert block.unit is not None  # noqa: S101
            return Paren(Binary("=", made.unit, block.unit))
    raise compiler.source.refuse(
        "a subquery over private rows must be tied to the row's own privacy unit", select, _HINT
    )


def _compile_exists(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    items = read_list_lookup(node)
    if items is not None:
        return compile_list_lookup(compiler, items, scope, exists=True)
    select = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    whole = next((each for each in select.expressions if contains_aggregate(each)), None)
    if whole is not None:
        raise compiler.source.refuse(
            "an aggregate has a row in any case, so EXISTS of it is always true",
            whole,
            "EXISTS (SELECT 1 FROM ..), or compare (SELECT COUNT(*) FROM ..) with a number",
        )
    made, _, where = _compile_inner(compiler, select, scope)
    return Typed(Exists(Select((Item(Constant(1, INTEGER)),), made.source, where)), BOOLEAN)


def _compile_scalar(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile a scalar subquery: one aggregate without GROUP BY, which always yields exactly one row."""
    of_list = read_list_lookup(node)
    if of_list is not None:
        return compile_list_lookup(compiler, of_list, scope, exists=False)
    select = node.this
    one = read_public_row(compiler, select, scope)
    if one is not None:
        return one
    made, inner, where = _compile_inner(compiler, select, scope)
    items = select.expressions
    item = items[0].this if isinstance(items[0], exp.Alias) else items[0]
    if len(items) != 1 or not contains_aggregate(item):
        raise compiler.source.refuse(
            "a subquery used as a value selects one aggregate: any other could have several rows",
            node,
            "SELECT MAX(..) or MIN(..)",
        )
    alias = compiler.alias()
    known = find_known_rows(compiler, made, None)
    of_rows = partial(add_domain, compiler.catalog, known=known)
    inner.block = inner.block and replace(inner.block, find_values=of_rows)
    group = Group(compiler, inner, [], alias)
    outer = Scope(compiler.source, intercept=group.lookup, block=inner.block)
    value = compiler.expression(item, outer)
    own = frozenset[str]().union(*(c.reads for c in inner.columns))
    for found in group.aggregates:
        if found.reads and not found.reads & own and OPAQUE not in found.reads:
            raise compiler.source.refuse("this aggregate reads nothing of its own subquery", node)
    listed = items_of("a", (make_canonical(a).node for a in group.aggregates))
    query = Select((Item(value.guarded_node),), Derived(Select(listed, made.source, where), alias))
    # Without a row there is no value.
    value = replace(add_domain(compiler.catalog, value, KnownRows(ChainMap(compiler.columns))), nulls=True)
    domain = None if value.domain is None else add_null(value.domain)
    return replace(value, node=ScalarQuery(query), unit=UnitRole.NONE, literal=None, domain=domain)


def _refuse_comparison(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    around, listed = node.parent, node.this.unnest() if node.this is not None else None
    if isinstance(around, (exp.Like, exp.ILike)) and isinstance(listed, exp.Tuple):
        word = " OR " if isinstance(node, exp.Any) else " AND "
        left, like = around.this.sql("duckdb"), "LIKE" if isinstance(around, exp.Like) else "ILIKE"
        hint = word.join(f"{left} {like} {each.sql('duckdb')}" for each in listed.expressions)
        raise compiler.source.refuse("LIKE takes one pattern", node, hint)
    raise compiler.source.refuse("comparisons with ALL or ANY of a subquery are not supported", node)


SUBQUERY_RULES = (
    Rule(exp.In, _compile_in, frozenset({"this", "expressions", "query", "field"})),
    Rule(exp.Exists, _compile_exists, frozenset({"this"})),
    Rule(exp.Subquery, _compile_scalar, frozenset({"this"})),
    Rule(exp.All, _refuse_comparison, frozenset({"this"})),
    Rule(exp.Any, _refuse_comparison, frozenset({"this"})),
)


_CONSTANTS = frozenset({"VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN"})


def read_public_row(compiler: StatementCompiler, select: exp.Expr, scope: Scope) -> Typed | None:
    """Return the value of a query over public tables that is no aggregate; None for other queries.

    It is run now, before anything is charged: without a row it is NULL, and of several rows it is no value.
    """
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or scope.block is None:
        return None
    tables = find_nodes(select, exp.Table)
    known = [compiler.policy.table(t.name) for t in tables if t.name.isascii() and t.args.get("db") is None]
    if contains_aggregate(select.expressions[0]) or not tables or len(known) < len(tables):
        return None
    if not all(table is not None and table.public for table in known) or scope.block.ctes:
        return None
    query = Query(compiler.source, copy_tree(select), Options(), Clause(), False)
    try:
        sql = write_public_sql(query, compiler.policy, compiler.catalog)
        rows = compiler.catalog.run(f"SELECT r.v, typeof(r.v) AS t FROM ({sql}) AS r(v) LIMIT 2")
    except (Error, ValueError):
        return None  # it reads a column of the row around it
    compiler.used.update(table.name for table in known if table is not None)
    if rows.num_rows > 1:
        raise compiler.source.refuse(
            "a subquery used as a value has one row, and this has several", select, "ORDER BY .. LIMIT 1"
        )
    value = rows.column(0)[0].as_py() if rows.num_rows else None
    kind = _read_type(str(rows.column(1)[0].as_py())) if rows.num_rows else NULL
    if kind is None:
        return None
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return make_constant(None, NULL) if kind == NULL else Typed(Cast(Constant(None, NULL), kind), kind)
    made = make_constant(value, kind)
    return Typed(Paren(made.node), kind, literal=made.literal, bounds=made.bounds)


def _read_type(text: str) -> SqlType | None:
    """Return a type whose values are constants; None for others."""
    try:
        kind = column_type(text)
    except ValueError:
        return None
    return kind if kind.numeric or kind.name in _CONSTANTS else None
