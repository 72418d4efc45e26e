"""Compile GROUP BY in a subquery: by the unit, with aggregates that do not depend on row order.

An aggregate that depends on row order (FIRST, LIST, floating-point SUM) may change for one unit when
another unit is removed, because the engine chooses the order of a join from statistics of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from operator import attrgetter
from typing import Protocol

from sqlglot import exp

from dpsql.analysis.candidates import with_domain
from dpsql.analysis.coerce import cast
from dpsql.analysis.compiler import StatementCompiler, check_arguments, function_name
from dpsql.analysis.expressions import canonical, predicate
from dpsql.analysis.integers import mean_of
from dpsql.analysis.intervals import of_cast
from dpsql.analysis.joined import joined
from dpsql.analysis.nulls import never_null
from dpsql.analysis.parsed import order_term, order_terms, whole_number, words
from dpsql.analysis.relation import Block, Column, From, Item, Relation, Scope, select_list
from dpsql.analysis.typed import UNKNOWN, Typed, UnitRole, column
from dpsql.analysis.unit_facts import Names
from dpsql.errors import QueryRefused
from dpsql.kernel import tree
from dpsql.kernel.tree import (
    MOST,
    Aggregate,
    Binary,
    Case,
    Cast,
    Constant,
    Derived,
    Expr,
    IsNull,
    Mean,
    OrderTerm,
    Paren,
    Saturated,
    Select,
)
from dpsql.language import walked
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold
from dpsql.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, SqlType


class Form(Protocol):
    """The signature of an aggregate's compiled form."""

    def __call__(self, x: Typed, *, distinct: bool) -> Typed:
        """Aggregate a guarded expression, or its distinct values."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An aggregate function: the argument types it accepts and its compiled form."""

    accepts: Callable[[SqlType], bool]
    form: Form


def _plain(name: str, result: SqlType | None = None) -> Form:
    def made(x: Typed, *, distinct: bool) -> Typed:
        node = Aggregate(name, (x.node,), distinct)
        return replace(x, node=node, type=result or x.type, unit=UnitRole.NONE)

    return made


def _in_order(x: Typed) -> tuple[OrderTerm, ...]:
    """Return an order for floating-point sums, which depend on the order of their values."""
    return (OrderTerm(x.node),) if x.type == DOUBLE else ()


def _sum(x: Typed, *, distinct: bool) -> Typed:
    made = replace(x, node=Aggregate("SUM", (x.node,), distinct, _in_order(x)))
    if x.type == DOUBLE:
        return made
    kind = BIGINT if x.type.integer else SqlType("DECIMAL", 18, x.type.scale)
    total = cast(made, kind)
    if x.type.integer and x.type.bits <= 32:
        return total  # 2^31 of them fit
    return replace(total, node=Saturated(made.node, kind, MOST))


def _avg(x: Typed, *, distinct: bool) -> Typed:
    mean = mean_of(x, distinct=distinct)
    return mean or replace(x, node=Aggregate("AVG", (x.node,), distinct, _in_order(x)), type=DOUBLE)


def _count_if(x: Typed, *, distinct: bool) -> Typed:
    chosen = Case(((x.node, Constant(True, BOOLEAN)),))
    return replace(x, node=Aggregate("COUNT", (chosen,)), type=BIGINT)


def _median(x: Typed, *, distinct: bool) -> Typed:
    return replace(x, node=Aggregate("MEDIAN", (x.node,), distinct), type=DOUBLE)


def _ordered(sql_type: SqlType) -> bool:
    return sql_type.name not in ("JSON", "INTERVAL", "NULL", "HUGEINT")


_number, _integer = attrgetter("numeric"), attrgetter("integer")


def _boolean(sql_type: SqlType) -> bool:
    return sql_type == BOOLEAN


AGGREGATES: dict[str, Rule] = {
    "count": Rule(_ordered, _plain("COUNT", BIGINT)),
    "count_if": Rule(_boolean, _count_if),
    "countif": Rule(_boolean, _count_if),
    "sum": Rule(_number, _sum),
    "avg": Rule(_number, _avg),
    "mean": Rule(_number, _avg),
    "min": Rule(_ordered, _plain("MIN")),
    "max": Rule(_ordered, _plain("MAX")),
    "any_value": Rule(_ordered, _plain("MIN")),
    "bool_and": Rule(_boolean, _plain("BOOL_AND")),
    "bool_or": Rule(_boolean, _plain("BOOL_OR")),
    "bit_and": Rule(_integer, _plain("BIT_AND")),
    "bit_or": Rule(_integer, _plain("BIT_OR")),
    "bit_xor": Rule(_integer, _plain("BIT_XOR")),
    "median": Rule(_integer, _median),
}
"""Aggregates whose result is a function of the multiset of their values."""

_WITHIN = frozenset({"min", "max", "any_value", "avg", "mean", "median"})
"""Aggregates whose result lies between the least and the greatest of their values."""

ORDER_DEPENDENT = words(
    """
    first last list array_agg string_agg group_concat arg_max arg_min max_by min_by mode stddev variance
    var_pop var_samp stddev_pop stddev_samp quantile_cont quantile_disc product approx_count_distinct
    quantile percentile_cont percentile_disc approx_quantile approx_quantiles
    reservoir_quantile histogram corr
    """
)
"""Aggregates whose result depends on the order of rows, or is not computed exactly."""


def call_of(node: exp.Expr) -> str | None:
    """Return the name of the aggregate that a node calls (with or without FILTER); None for other nodes."""
    inner = node.this if isinstance(node, exp.Filter) else node
    inner = inner.this if isinstance(inner, exp.WithinGroup) else inner
    name = (function_name(inner) or "").lower()
    return name if name in AGGREGATES or name in ORDER_DEPENDENT else None


def calls(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the aggregates in an expression, outside subqueries and windows."""
    for n in walked(node, lambda n: isinstance(n, (exp.Query, exp.Subquery))):
        if isinstance(n, exp.Expr) and is_aggregate(n):
            yield n


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node calls an aggregate of its block, not one of a window."""
    return call_of(node) is not None and not _windowed(node)


def contains(node: exp.Expr) -> bool:
    """Return whether an expression contains an aggregate outside subqueries and windows."""
    return any(True for _ in calls(node))


def _windowed(node: exp.Expr) -> bool:
    """Return whether a call is the function of a window, not an aggregate of the block."""
    parent = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
    return isinstance(parent, exp.Window)


_SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)


def group_nodes(
    compiler: StatementCompiler, node: exp.Select, items: list[Item], scope: Scope
) -> list[exp.Expr]:
    """Return the expressions of GROUP BY, with positions, aliases and ALL replaced by what they refer to."""
    group = node.args.get("group")
    if group is None:
        return []
    several = [n for n in (*group.expressions, *(group.args.get("rollup") or ())) if isinstance(n, _SEVERAL)]
    if several:
        raise compiler.source.refuse(
            "ROLLUP, CUBE and GROUPING SETS are several groupings, and each is a release of its own",
            several[0],
            "one SELECT for each of the groupings, with UNION ALL between them",
        )
    check_arguments(compiler.source, group, frozenset({"expressions", "all"}))
    if group.args.get("all"):
        return [item.node for item in items if not contains(item.node)]
    nodes: list[exp.Expr] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.args.get("is_string"):
            place = whole_number(key) or 0
            if not 1 <= place <= len(items):
                raise compiler.source.refuse(
                    f"GROUP BY {key.this}: the select list has {len(items)} items", key
                )
            nodes.append(items[place - 1].node)
            continue
        if isinstance(key, exp.Column) and not key.table:
            name = fold(key.name)
            match = next((i.node for i in items if fold(i.name) == name), None)
            if match is not None and not scope.has(name):
                nodes.append(match)
                continue
        nodes.append(key)
    return nodes


@dataclass(slots=True)
class Group:
    """The state of a grouped block during its compilation: its keys, aggregates and windows."""

    compiler: StatementCompiler
    inner: Scope
    items: list[Item]
    alias: str
    keys: dict[Expr, Typed] = field(default_factory=dict)
    """The compiled keys, each with its column in the grouped relation."""
    aggregates: list[Typed] = field(default_factory=list)
    windows: list[Typed] = field(default_factory=list)
    around: Scope | None = None
    """The scope in which windows over the groups are compiled."""
    open: set[str] = field(default_factory=set)

    def lookup(self, node: exp.Expr) -> Typed | None:
        """Return a key or aggregate as a column of the group; None for what is built from them."""
        if call_of(node) is not None:
            return self._aggregate(node)
        if isinstance(node, exp.Window) and self.around is not None:
            value = self.compiler.expression(node, self.around)
            self.windows.append(value)
            return column(self.alias, f"w{len(self.windows) - 1}", value.type)
        if contains(node) or isinstance(node, (exp.Literal, exp.Null, exp.Boolean, exp.Interval)):
            return None
        if isinstance(node, exp.Column) and not node.table and (found := self._alias(node)) is not None:
            return found
        try:
            value = self.compiler.tentative(node, self.inner)
        except QueryRefused:
            if isinstance(node, exp.Column):
                raise
            return None  # it may name an aggregate by its alias: its parts are looked up one by one
        if canonical(value).node in self.keys:
            return self.keys[canonical(value).node]
        if isinstance(node, exp.Column):
            raise self.compiler.source.refuse(
                f"{node.name} is neither a group key nor inside an aggregate", node
            )
        return None

    def inside(self, node: exp.Expr) -> Typed | None:
        """Do the same for a part of a window; None for the window itself, which its rule compiles."""
        return None if isinstance(node, exp.Window) else self.lookup(node)

    def _alias(self, node: exp.Column) -> Typed | None:
        key = fold(node.name)
        match = next((i.node for i in self.items if fold(i.name) == key), None)
        if match is None or self.inner.has(key):
            return None
        if key in self.open:
            raise self.compiler.source.refuse(f"{node.name} is defined by itself", node)
        self.open.add(key)
        try:
            block = replace(self.inner.block, windows=False) if self.inner.block is not None else None
            return self.compiler.expression(
                match, Scope(self.inner.source, intercept=self.lookup, block=block)
            )
        finally:
            self.open.discard(key)

    def _aggregate(self, node: exp.Expr) -> Typed:
        value = _compiled(self.compiler, node, self.inner)
        self.aggregates.append(value)
        made = column(self.alias, f"a{len(self.aggregates) - 1}", value.type)
        return replace(made, bounds=value.bounds)


def _compiled(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> Typed:
    """Compile one aggregate over the rows of its group."""
    where: Expr | None = None
    if isinstance(node, exp.Filter):
        check_arguments(compiler.source, node, frozenset({"this", "expression"}))
        where = predicate(compiler, node.expression.this, scope).guarded_node
        node = node.this
    node = node.this if isinstance(node, exp.WithinGroup) else node
    name = (function_name(node) or "").lower()
    aggregate = AGGREGATES.get(name)
    if name in ORDERED or name in EXTREME:
        return ordered(compiler, node, name, scope, where)
    if aggregate is None:
        raise compiler.source.refuse(
            f"the result of {name} depends on the order of rows", node, "use MIN, MAX, COUNT or SUM"
        )
    arguments = node.expressions
    if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        return Typed(Aggregate("COUNT", filter=where), BIGINT)
    distinct = False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        check_arguments(compiler.source, arguments[0], frozenset({"expressions"}))
        distinct, arguments = True, arguments[0].expressions
    if len(arguments) != 1:
        raise compiler.source.refuse(f"{name} takes one argument here", node)
    value = canonical(compiler.expression(arguments[0], scope)).guarding()
    if not aggregate.accepts(value.type):
        raise compiler.source.refuse(f"{name} does not take {value.type}", node)
    result = aggregate.form(value, distinct=distinct)
    bounds = of_cast(value, result.type) if name in _WITHIN else None
    return replace(result, node=_filtered(result.node, where), literal=None, domain=None, bounds=bounds)


ORDERED = {"first": "FIRST", "last": "LAST", "list": "LIST", "array_agg": "LIST"}
EXTREME = {
    **dict.fromkeys(("arg_max", "max_by", "argmax"), "DESC"),
    **dict.fromkeys(("arg_min", "min_by", "argmin"), "ASC"),
}
"""Aggregates that are a function of the rows once their order is complete."""


def ordered(
    compiler: StatementCompiler, node: exp.Expr, name: str, scope: Scope, where: Expr | None
) -> Typed:
    """Compile an ordered aggregate, with the aggregated expression as the last term of its ORDER BY.

    Rows that are equal in all terms are then interchangeable.
    """
    arguments = list(node.expressions)
    if name in EXTREME:
        if len(arguments) != 2 or where is not None:
            raise compiler.source.refuse(f"{name} takes a value and what to order it by", node)
        x, y = (canonical(compiler.expression(a, scope)).guarding() for a in arguments)
        _orderable(compiler, node, x, y)
        # Ties go to the smallest value, so that the result does not depend on the order of rows.
        terms = [OrderTerm(y.node, EXTREME[name], "LAST"), OrderTerm(x.node, "ASC", "LAST")]
        order = tuple(t for t, v in zip(terms, (y, x), strict=True) if v.literal is None)
        if not order:
            raise compiler.source.refuse(f"{name} of constants is a constant", node)
        there = Binary("AND", *(Paren(IsNull(v.node, negated=True)) for v in (x, y)))
        made = Aggregate("FIRST", (x.node,), order=order, filter=there)
        return replace(x, node=made, unit=UnitRole.NONE, literal=None, domain=None)
    if len(arguments) != 1 or not isinstance(arguments[0], exp.Order):
        raise compiler.source.refuse(
            f"the result of {name} depends on the order of rows", node, f"{name.upper()}(page ORDER BY day)"
        )
    inner = arguments[0]
    if inner.this is None or isinstance(inner.this, (exp.Distinct, exp.Star)):
        raise compiler.source.refuse(f"{name} takes one expression with ORDER BY", node)
    value = canonical(compiler.expression(inner.this, scope)).guarding()
    _orderable(compiler, node, value)
    terms = []
    for term in order_terms(compiler.source, inner):
        by = canonical(compiler.expression(term.this, scope)).guarding()
        _orderable(compiler, node, by)
        if by.literal is not None:
            raise compiler.source.refuse("an aggregate is not ordered by a constant", term)
        terms.append(order_term(term, by.node))
    if value.literal is None:
        terms.append(OrderTerm(value.node, "ASC", "LAST"))
    sql_type = SqlType("LIST", item=value.type) if ORDERED[name] == "LIST" else value.type
    if sql_type.name == "LIST" and value.type.name not in ("VARCHAR", "BIGINT", "INTEGER", "DATE"):
        raise compiler.source.refuse(f"lists of {value.type} are not collected", node)
    made = Aggregate(ORDERED[name], (value.node,), order=tuple(terms), filter=where)
    bounds = value.bounds if sql_type == value.type else None
    value = replace(value, unit=UnitRole.NONE, literal=None, domain=None, bounds=bounds)
    return replace(value, node=made, type=sql_type)


def _orderable(compiler: StatementCompiler, node: exp.Expr, *values: Typed) -> None:
    for value in values:
        if not _ordered(value.type):
            raise compiler.source.refuse(f"{value.type} has no order here", node)


def _filtered(node: Expr, where: Expr | None) -> Expr:
    """Add FILTER, which belongs to the aggregate itself, inside a conversion of its result."""
    if isinstance(node, (Cast, Saturated)):
        return replace(node, operand=_filtered(node.operand, where))
    if isinstance(node, Mean):
        return Mean(_filtered(node.total, where), _filtered(node.number, where))
    return replace(node, filter=where) if isinstance(node, Aggregate) else node


def grouped(
    compiler: StatementCompiler,
    node: exp.Select,
    source: From,
    where: Expr | None,
    items: list[Item],
    facts: Names,
) -> Relation:
    """Compile a grouped block: the groups, then the select list, HAVING and QUALIFY over them."""
    owner = source.owner
    if owner is not None and owner.row:
        raise compiler.source.refuse("each row is a privacy unit: a subquery cannot group them", node)
    scope = source.scope.copy()
    for item in items:
        if not contains(item.node):
            with compiler.part(item.name):
                scope.aliases.setdefault(fold(item.name), compiler.expression(item.node, scope))
    nodes = group_nodes(compiler, node, items, scope)
    known = joined(compiler, source, where)
    keys: list[Typed] = []
    for key_node in nodes:
        with compiler.part():
            key = canonical(compiler.expression(key_node, scope))
            keys.append(with_domain(compiler.catalog, key, known))
    if len(keys) < len(nodes):
        compiler.give_up()
    if owner is not None and not any(k.groups_units for k in keys):
        at = node.args.get("group") or node
        raise compiler.source.refuse(
            "a subquery groups private rows only by their privacy unit", at, "GROUP BY user_id, ..."
        )
    alias = compiler.alias()
    group = Group(compiler, scope, items, alias)
    for i, key in enumerate(keys):
        made = column(alias, f"k{i}", key.type)
        link = key.link if key.is_column else ""
        made = replace(made, unit=key.unit, link=link, domain=key.domain, span=key.column_span())
        made = replace(made, bounds=key.bounds, nulls=key.nulls)
        group.keys.setdefault(key.node, made)
    around = source.scope.block or Block(owner, source.unit)
    unit = tree.Column(alias, "u") if source.unit is not None else None
    cells = tree.columns(alias, "k", len(keys))
    # With the unit, the keys identify a group.
    block = replace(around, unit=unit, columns=cells, windows=False)
    outer = Scope(compiler.source, intercept=group.lookup, block=block)
    group.around = Scope(compiler.source, intercept=group.inside, block=replace(block, windows=True))
    values: list[Typed] = []
    for item in items:
        value = UNKNOWN
        with compiler.part(item.name):
            value = canonical(compiler.expression(item.node, outer))
        values.append(value)
    windows = len(group.windows)
    having = _condition(compiler, node, "having", outer)
    if len(group.windows) > windows:
        raise compiler.source.refuse(
            "a window function is allowed in QUALIFY, not in HAVING", node.args["having"]
        )
    qualify = _condition(compiler, node, "qualify", outer)
    by = select_list(source.unit, "k", (k.guarded_node for k in keys))
    # Keys are written by place: the engine reads a key that is an integer constant as a place.
    places = tuple(Constant(i + 1, INTEGER) for i in range(len(by)))
    made_of = tree.items("a", (canonical(a).node for a in group.aggregates))
    query = Select((*by, *made_of), source.source, where, group=places)
    held = frozenset(name for k in keys if k.reads <= facts for name in group.keys[k.node].reads)
    whole = {name for key in group.keys.values() if not key.nulls for name in key.reads}
    columns = tuple(
        Column.of(
            i.name,
            v,
            fact=owner is not None and v.reads <= held,
            nulls=not never_null(v.guarded_node, whole.__contains__),
        )
        for i, v in zip(items, values, strict=True)
    )
    condition = having
    if group.windows or qualify is not None:
        # HAVING first, then the windows over what it left, then QUALIFY: the same alias names each level.
        kept = select_list(unit, "k", cells)
        kept += tree.items("a", tree.columns(alias, "a", len(group.aggregates)))
        kept += tree.items("w", (canonical(w).node for w in group.windows))
        query = Select(kept, Derived(query, alias), having)
        condition = qualify
    listed = select_list(unit, "c", (v.guarded_node for v in values))
    query = Select(listed, Derived(query, alias), condition)
    return Relation(query, columns, owner, _unique(keys, group, values))


def _condition(compiler: StatementCompiler, node: exp.Select, clause: str, scope: Scope) -> Expr | None:
    """Compile HAVING or QUALIFY over the groups; None without one."""
    found, condition = node.args.get(clause), None
    if found is not None:
        with compiler.part():
            condition = predicate(compiler, found.this, scope).guarded_node
    return condition


def _unique(keys: list[Typed], group: Group, values: list[Typed]) -> frozenset[frozenset[int]]:
    """Return the unique column set of a grouped block: its keys, if all of them are selected."""
    places = {v.node: i for i, v in enumerate(values)}
    wanted = {group.keys[k.node].node for k in keys if k.unit is not UnitRole.EXACT}
    if all(key in places for key in wanted):
        return frozenset({frozenset(places[key] for key in wanted)})
    return frozenset()
