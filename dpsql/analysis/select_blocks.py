"""Compile the SELECTs of subqueries: projection, WHERE, DISTINCT (ON), QUALIFY, and LIMIT of public rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.block_groups import compile_groups
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Block, Cte, From, Item, Relation, Scope, list_value, select_list
from dpsql.analysis.compiler import (
    StatementCompiler,
    check_arguments,
    compile_order_term,
    function_name,
    list_order_terms,
    read_whole_number,
)
from dpsql.analysis.facts_of_values import is_never_negative
from dpsql.analysis.from_joins import compile_from
from dpsql.analysis.key_candidates import add_domain
from dpsql.analysis.public_domains import make_distinct_domain
from dpsql.analysis.row_conditions import Names, find_fact_names, find_fixed_values, find_known_rows, is_fact
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.typed_expression import UNKNOWN, Typed, UnitRole, tells_units
from dpsql.analysis.where_ranges import narrow_expression, narrow_rows
from dpsql.errors import with_article
from dpsql.kernel.tree import Binary, Constant, Derived, Expr, OrderTerm, Paren, Select
from dpsql.kernel.tree import columns as columns_of
from dpsql.kernel.tree import items as items_of
from dpsql.language import MARK, StatementText, copy_tree, find_nodes, list_conjuncts, title_of, walk_tree
from dpsql.policy import fold
from dpsql.types import INTEGER

if TYPE_CHECKING:
    from dpsql.analysis.window_functions import Hoist

_KNOWN = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"}
    | {"qualify", "windows", "order", "limit"}
)


def list_ctes(compiler: StatementCompiler, node: exp.Expr, outer: tuple[Cte, ...]) -> tuple[Cte, ...]:
    """Return the common table expressions that a query may name; each may name those before it."""
    clause = node.args.get("with_")
    if clause is None:
        return outer
    check_arguments(compiler.source, clause, frozenset({"expressions"}))
    visible = outer
    for cte in clause.expressions:
        check_arguments(compiler.source, cte, frozenset({"this", "alias", "materialized"}))
        alias = cte.args["alias"]
        if not isinstance(cte.this, exp.Query):
            raise compiler.source.refuse("a common table expression holds a SELECT: dpsql only reads", cte)
        columns = tuple(c.name for c in alias.args.get("columns") or ())
        visible = (*visible, Cte(alias.name, cte.this, columns, visible))
    return visible


def compile_query(compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int) -> Relation:
    """Compile a subquery to a relation with generated names, with a hidden unit if it is private."""
    compiler.level(depth, node)
    match node:
        case exp.Select():
            return _compile_select(compiler, node, ctes, depth)
        case exp.Union() | exp.Intersect() | exp.Except():
            inner = list_ctes(compiler, node, ctes)
            sides: list[Relation] = []
            for side in (node.this, node.expression):
                with compiler.part():
                    sides.append(compile_query(compiler, side, inner, depth + 1))
            from dpsql.analysis.set_operations import combine_branches  # noqa: PLC0415  few have one

            return combine_branches(compiler, node, *sides) if len(sides) == 2 else compiler.give_up()
        case exp.Subquery():
            check_arguments(compiler.source, node, frozenset({"this"}))
            return compile_query(compiler, node.this, ctes, depth)
    raise compiler.source.refuse(f"{type(node).__name__.upper()} is not supported over private data", node)


def expand_star(compiler: StatementCompiler, select: exp.Select, scope: Scope) -> list[Item]:
    """Return the items of a select list, with `*` replaced by the columns it means."""
    items: list[Item] = []
    for node in select.expressions:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            items += _expand_star(compiler, node, scope)
        elif isinstance(node, exp.Alias):
            check_arguments(compiler.source, node, frozenset({"this", "alias"}))
            items.append(Item(node.this, node.alias))
        else:
            items.append(Item(node, title_of(node)))
    if not items:
        raise compiler.source.refuse("the select list is empty", select)
    return items


def check_one_item(source: StatementText, node: exp.Expr, items: Iterable[Item]) -> None:
    """Refuse the name of an item, in DP_STDDEV(n) and the like, that is the name of another item as well."""
    if isinstance(node, exp.Column) and not node.table:
        named = [item.node for item in items if fold(item.name) == fold(node.name)]
        if any(other != named[0] for other in named[1:]):
            raise source.refuse(
                f"several columns are called {node.name}", node, "give them different names, or write it out"
            )


def _expand_star(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> list[Item]:
    star = node.this if isinstance(node, exp.Column) else node
    check_arguments(compiler.source, star, frozenset({"except_"}))
    excluded = {fold(c.name) for c in star.args.get("except_") or ()}
    wanted = (
        fold(node.args["table"].name) if isinstance(node, exp.Column) and node.args.get("table") else None
    )
    items: list[Item] = []
    merged: set[str] = set()
    for origin in scope.origins:
        if wanted is not None and fold(origin.alias) != wanted:
            continue
        for name, value in zip(origin.names, origin.columns, strict=True):
            key = fold(name)
            if key in excluded or (key in scope.merged and key in merged and wanted is None):
                continue
            table = (
                None
                if key in scope.merged and wanted is None
                else exp.to_identifier(origin.alias, quoted=True)
            )
            merged.add(key)
            column = exp.Column(this=exp.to_identifier(name, quoted=True), table=table)
            column.meta["start"] = compiler.source.position(node)
            items.append(Item(column, name, borrowed=value.borrowed))
    if not items:
        raise compiler.source.refuse("`*` matches no column here", node)
    return items


def _compile_select(
    compiler: StatementCompiler, node: exp.Select, outer: tuple[Cte, ...], depth: int
) -> Relation:
    check_arguments(compiler.source, node, _KNOWN)
    ctes = list_ctes(compiler, node, outer)
    source = compile_from(compiler, node, ctes, depth)
    named = {fold(w.name): w for w in node.args.get("windows") or ()}
    columns = tuple(c.node for c in source.scope.columns)
    block = Block(source.owner, source.unit, ctes, depth, columns, named)
    source.scope.block = block
    where: Expr | None = None
    with compiler.part():
        where = _compile_where(compiler, node, source)
    known = find_known_rows(compiler, source, where)
    source = narrow_rows(compiler, source, known)
    find_values = partial(add_domain, compiler.catalog, known=known)
    source.scope.block = replace(block, find_values=find_values)
    filters = list_conjuncts(node.args["where"].this) if where is not None else []
    facts = find_fact_names(source, find_fixed_values(compiler, filters, source.scope))
    items = expand_star(compiler, node, source.scope)
    if node.args.get("group") is not None or any(contains_aggregate(i.node) for i in items):
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise compiler.source.refuse("DISTINCT ON over groups: put the groups into a subquery", node)
        if distinct is not None:
            return _compile_select(compiler, _select_distinct(node), outer, depth)
        relation = compile_groups(compiler, node, source, where, items, facts)
        return _apply_limit(compiler, node, relation, items)
    if node.args.get("having") is not None:
        raise compiler.source.refuse("HAVING needs a GROUP BY", node.args["having"])
    windows = _count_windows(node)
    hoist: Hoist | None = None
    if windows:
        from dpsql.analysis import window_functions  # noqa: PLC0415  few blocks have any

        hoist = window_functions.Hoist.over(compiler, source, where, windows, facts)
    scope = hoist.scope if hoist is not None else source.scope.copy()
    if hoist is not None:
        known = hoist.move_known(known)
        hoist.find_values(partial(add_domain, compiler.catalog, known=known))
    values: list[Typed] = []
    for item in items:
        value = UNKNOWN
        with compiler.part(item.name):
            value = add_domain(compiler.catalog, make_canonical(compiler.expression(item.node, scope)), known)
            value = narrow_expression(compiler.catalog, value, known)
        values.append(value)
        scope.aliases.setdefault(fold(item.name), value)
    if hoist is not None:
        facts = find_fact_names(replace(source, scope=scope, unique=hoist.unique))
    relation = _project(compiler, node, source, where, items, values, scope, hoist, facts)
    return _apply_limit(compiler, node, relation, items)


def _select_distinct(groups: exp.Select) -> exp.Select:
    """Return SELECT DISTINCT over groups as one over a subquery with them."""
    inner = copy_tree(groups, "distinct", "order", "limit")
    named = exp.TableAlias(this=exp.to_identifier("dpsql_groups"))
    made = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=inner, alias=named)))
    for name in ("distinct", "order", "limit"):
        made.set(name, groups.args.get(name) and copy_tree(groups.args[name]))
    made.meta.update(groups.meta)
    return made


def _count_windows(node: exp.Select) -> int:
    """Count the window functions of a block, DISTINCT ON among them."""
    distinct = node.args.get("distinct")
    on = distinct is not None and distinct.args.get("on") is not None
    qualify = node.args.get("qualify")
    parts = [*node.expressions, *([qualify] if qualify is not None else [])]
    found = sum(
        1
        for part in parts
        for n in walk_tree(part, lambda n: isinstance(n, exp.Query))
        if isinstance(n, exp.Window)
    )
    return max(found + on, 1 if qualify is not None else 0)


def _apply_limit(
    compiler: StatementCompiler, node: exp.Select, relation: Relation, items: list[Item]
) -> Relation:
    """Apply LIMIT to a public relation, in a total order; ORDER BY without LIMIT has no effect here."""
    limit = node.args.get("limit")
    if limit is None:
        return relation
    if relation.owner is not None:
        raise compiler.source.refuse(
            "LIMIT over private rows lets one unit push out another",
            limit,
            "select per unit: QUALIFY ROW_NUMBER() .. = 1",
        )
    check_arguments(compiler.source, limit, frozenset({"expression"}))
    count = read_whole_number(limit.args.get("expression"))
    if count is None:
        raise compiler.source.refuse("LIMIT needs a whole number", limit)
    order = node.args.get("order")
    if order is None:
        raise compiler.source.refuse("LIMIT without ORDER BY may keep any rows", limit, "ORDER BY ... LIMIT")
    cells = columns_of("l", "c", len(relation.columns))
    terms = [
        compile_order_term(term, cells[_find_item(compiler, term.this, items)])
        for term in list_order_terms(compiler.source, order)
    ]
    # The order is total: which rows are kept must not depend on the order in which they are read.
    total = (*terms, *(OrderTerm(c) for c in cells))
    rows = Derived(relation.query, "l")
    limited = Select(items_of("c", cells), rows, order=total, limit=count)
    domains = [make_distinct_domain(c, Derived(limited, "l"), "a public subquery") for c in cells]
    columns = tuple(replace(c, domain=d) for c, d in zip(relation.columns, domains, strict=True))
    return Relation(limited, columns, None, relation.unique)


def _find_item(compiler: StatementCompiler, node: exp.Expr, items: list[Item]) -> int:
    number = read_whole_number(node) or 0
    if 1 <= number <= len(items):
        return number - 1
    for i, item in enumerate(items):
        named = isinstance(node, exp.Column) and not node.table and fold(item.name) == fold(node.name)
        if named or item.node == node:
            return i
    raise compiler.source.refuse("ORDER BY names an item of this select list here", node)


def _compile_where(compiler: StatementCompiler, node: exp.Select, source: From) -> Expr | None:
    clause = node.args.get("where")
    if clause is None:
        return None
    scope = source.scope.copy()
    for item in node.expressions:
        if isinstance(item, exp.Alias) and not contains_aggregate(item.this):
            _add_alias(compiler, item, scope, clause)
    return compile_condition(compiler, clause.this, scope).guarded_node


def _add_alias(compiler: StatementCompiler, item: exp.Alias, scope: Scope, clause: exp.Expr) -> None:
    """Add an alias of the select list to the scope of WHERE if WHERE names it and no column has its name."""
    key = fold(item.alias)
    named = any(fold(c.name) == key and not c.table for c in find_nodes(clause, exp.Column))
    if named and not scope.has(key):
        scope.aliases.setdefault(key, compiler.expression(item.this, scope))


def _project(
    compiler: StatementCompiler,
    node: exp.Select,
    source: From,
    where: Expr | None,
    items: list[Item],
    values: list[Typed],
    scope: Scope,
    hoist: Hoist | None,
    facts: Names,
) -> Relation:
    columns = tuple(
        list_value(
            i.name,
            v,
            fact=source.owner is not None and is_fact(v, facts),
            borrowed=i.borrowed,
            nulls=v.nulls,
            not_negative=is_never_negative(v, compiler.columns),
        )
        for i, v in zip(items, values, strict=True)
    )
    _check_storable(compiler, items, values)
    places = {v.node: i for i, v in reversed(list(enumerate(values)))}
    before = hoist.unique if hoist is not None else source.unique
    unique = {frozenset(places[c] for c in names) for names in before if all(c in places for c in names)}
    for place, item in enumerate(items):  # with its number within a partition, a row is unique
        unique |= {
            each | {place} for each in _find_unique(_find_partition_keys(compiler, item.node, scope), places)
        }
    condition = where if hoist is None else None
    merged = False
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None and hoist is not None:
        condition, on = _compile_distinct_on(compiler, node, distinct, source, hoist, items)
        unique |= _find_unique(on, places)
    elif distinct is not None:
        check_arguments(compiler.source, distinct, frozenset())
        _check_distinct(compiler, node, source, values)
        merged = True
        unique.add(frozenset(i for i, c in enumerate(columns) if c.unit is not UnitRole.EXACT))
    if node.args.get("qualify") is not None:
        if condition is not None:
            raise compiler.source.refuse(
                "DISTINCT ON and QUALIFY together are not supported", node.args["qualify"]
            )
        kept = node.args["qualify"].this
        condition = compile_condition(compiler, kept, scope).guarded_node
        unique |= _find_unique(_find_first_of_each(compiler, kept, scope), places)
    unit, rows = (source.unit, source.source) if hoist is None else (hoist.unit, hoist.rows())
    listed = select_list(unit, "c", (v.guarded_node for v in values))
    query = Select(listed, rows, condition, distinct=merged)
    return Relation(query, columns, source.owner, frozenset(unique), source.repeats)


def _check_distinct(
    compiler: StatementCompiler, node: exp.Select, source: From, values: Sequence[Typed]
) -> None:
    """Refuse DISTINCT of rows of several units; the hidden unit is compared beside a key of one unit each."""
    if source.owner is None:
        return
    if source.owner.row:
        raise compiler.source.refuse("DISTINCT would merge rows, and each row is a privacy unit", node)
    if not (tells_units(values) or any(value.groups_units for value in values)):
        raise compiler.source.refuse(
            "DISTINCT over private rows must select their privacy unit",
            node.args["distinct"],
            "SELECT DISTINCT user_id, page",
        )


def _compile_distinct_on(
    compiler: StatementCompiler,
    node: exp.Select,
    distinct: exp.Expr,
    source: From,
    hoist: Hoist,
    items: list[Item],
) -> tuple[Expr, list[Typed]]:
    """Compile DISTINCT ON as the first row of each partition; all columns complete its ORDER BY."""
    on = distinct.args["on"]
    nodes = on.expressions if isinstance(on, exp.Tuple) else [on]
    order = node.args.get("order")
    if order is None:
        raise compiler.source.refuse(
            "DISTINCT ON without ORDER BY may keep any row", distinct, "ORDER BY user_id, day"
        )
    for column in (c for part in [*nodes, *order.expressions] for c in find_nodes(part, exp.Column)):
        _check_alias(compiler, column, source.scope, items)
    if source.owner is not None:
        values = [compiler.expression(n, source.scope) for n in nodes]
        if source.owner.row or not tells_units(values):
            raise compiler.source.refuse(
                "DISTINCT ON over private rows must name their privacy unit",
                distinct,
                "DISTINCT ON (user_id)",
            )
    call = exp.Anonymous(this=f"{MARK}row_number", expressions=[])
    window = exp.Window(this=call, partition_by=[copy_tree(n) for n in nodes], order=copy_tree(order))
    first = compiler.expression(window, hoist.scope)
    return Paren(Binary("=", first.node, Constant(1, INTEGER))), [
        compiler.expression(n, hoist.scope) for n in nodes
    ]


def _check_alias(
    compiler: StatementCompiler, column: exp.Column, scope: Scope, items: Iterable[Item]
) -> None:
    """Refuse a name that is both a column and an alias of another item: the engine would use the alias."""
    meant = next((i for i in items if fold(i.name) == fold(column.name)), None)
    same = meant is None or (
        isinstance(meant.node, exp.Column) and fold(meant.node.name) == fold(column.name)
    )
    known = any(fold(column.name) in map(fold, o.names) for o in scope.origins)
    if known and not column.table and not same:
        raise compiler.source.refuse(f"{column.name} is a column and an alias here", column)


def _find_first_of_each(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> list[Typed] | None:
    """Return the partition keys of ROW_NUMBER() OVER (PARTITION BY ..) = 1; None for other conditions."""
    one = isinstance(node, exp.EQ) and read_whole_number(node.expression) == 1
    return _find_partition_keys(compiler, node.this, scope) if one else None


def _find_partition_keys(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> list[Typed] | None:
    """Return the partition keys of ROW_NUMBER() OVER (PARTITION BY ..); None for other expressions."""
    if not isinstance(node, exp.Window) or node.args.get("alias"):
        return None
    if (function_name(node.this) or "").lower() != "row_number":
        return None
    return [compiler.expression(p, scope) for p in node.args.get("partition_by") or ()]


def _find_unique(values: list[Typed] | None, places: dict[Expr, int]) -> set[frozenset[int]]:
    """Return the places of the partition keys, which are unique together, if all of them are selected."""
    if values is None:
        return set()
    wanted = [v for v in values if v.unit is not UnitRole.EXACT]
    if all(v.node in places for v in wanted):
        return {frozenset(places[v.node] for v in wanted)}
    return set()


def _check_storable(compiler: StatementCompiler, items: list[Item], values: list[Typed]) -> None:
    for item, value in zip(items, values, strict=True):
        if value.type.name in ("INTERVAL", "JSON", "HUGEINT"):
            raise compiler.source.refuse(
                f"a subquery cannot select {with_article(str(value.type))}", item.node, "CAST it first"
            )
