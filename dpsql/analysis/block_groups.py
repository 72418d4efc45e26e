"""Compile GROUP BY in a subquery: by the unit, with the select list, HAVING and QUALIFY over its groups."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import field, replace
from functools import partial

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, compile_aggregate, contains_aggregate
from dpsql.analysis.casts import make_canonical
from dpsql.analysis.compiled_relation import Block, From, Item, Relation, Scope, list_value, select_list
from dpsql.analysis.compiler import StatementCompiler, check_arguments, read_whole_number
from dpsql.analysis.facts_of_values import is_never_negative
from dpsql.analysis.key_candidates import add_domain
from dpsql.analysis.released import find_default
from dpsql.analysis.row_conditions import (
    Condition,
    KnownRows,
    Names,
    find_known_rows,
    is_fact,
    split_conjuncts,
)
from dpsql.analysis.scalar_rules import compile_condition
from dpsql.analysis.typed_expression import UNKNOWN, Typed, UnitRole, make_column, tells_units
from dpsql.analysis.unit_periods import refuse_totals
from dpsql.errors import QueryRefused
from dpsql.kernel import tree
from dpsql.kernel.tree import Constant, Derived, Expr, Select
from dpsql.language import copy_tree, make_call
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold
from dpsql.types import INTEGER

_SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)


def list_group_nodes(
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
        return [item.node for item in items if not contains_aggregate(item.node)]
    nodes: list[exp.Expr] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.args.get("is_string"):
            place = read_whole_number(key) or 0
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
    most: int | None = None
    """How many rows of a unit count, as the policy says."""
    facts: Names = frozenset()
    """The columns of FROM that have one value in all rows of a unit."""
    around: Scope | None = None
    """The scope in which windows over the groups are compiled."""
    open: set[str] = field(default_factory=set)

    def lookup(self, node: exp.Expr) -> Typed | None:
        """Return a key or aggregate as a column of the group; None for what is built from them."""
        if aggregate_name(node) is not None:
            return self._compile_aggregate(node)
        if isinstance(node, exp.Window) and self.around is not None:
            value = self.compiler.expression(node, self.around)
            self.windows.append(value)
            return self.compiler.name_value(self.alias, f"w{len(self.windows) - 1}", value)
        if contains_aggregate(node) or isinstance(node, (exp.Literal, exp.Null, exp.Boolean, exp.Interval)):
            return None
        if (
            isinstance(node, exp.Column)
            and not node.table
            and (found := self._compile_alias(node)) is not None
        ):
            return found
        try:
            value = self.compiler.tentative(node, self.inner)
        except QueryRefused:
            if isinstance(node, exp.Column):
                raise
            return None  # it may name an aggregate by its alias: its parts are looked up one by one
        if make_canonical(value).node in self.keys:
            return self.keys[make_canonical(value).node]
        if isinstance(node, exp.Column) and is_fact(value, self.facts):
            # All rows of a unit have one value, as the owner declares: any of them is that of the group.
            return self._compile_aggregate(make_call("any_value", copy_tree(node)))
        if isinstance(node, exp.Column):
            raise self.compiler.source.refuse(
                f"{node.name} is neither a group key nor inside an aggregate", node
            )
        return None

    def inside(self, node: exp.Expr) -> Typed | None:
        """Return a part of a window as a column of the group; None for the window: its rule compiles it."""
        return None if isinstance(node, exp.Window) else self.lookup(node)

    def _compile_alias(self, node: exp.Column) -> Typed | None:
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

    def _compile_aggregate(self, node: exp.Expr) -> Typed:
        value = compile_aggregate(self.compiler, node, self.inner)
        for i, other in enumerate(self.aggregates):
            if other.node == value.node:
                return self.compiler.columns[f"{self.alias}.a{i}"]
        self.aggregates.append(value)
        made = self.compiler.name_value(self.alias, f"a{len(self.aggregates) - 1}", value)
        if aggregate_name(node) == "count":
            made = self.compiler.columns[next(iter(made.reads))] = replace(made, nulls=False, most=self.most)
        return made


def compile_groups(
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
        if not contains_aggregate(item.node):
            with compiler.part(item.name):
                scope.aliases.setdefault(fold(item.name), compiler.expression(item.node, scope))
    nodes = list_group_nodes(compiler, node, items, scope)
    known = find_known_rows(compiler, source, where)
    keys: list[Typed] = []
    for key_node in nodes:
        with compiler.part():
            key = make_canonical(compiler.expression(key_node, scope))
            keys.append(add_domain(compiler.catalog, key, known))
    if len(keys) < len(nodes):
        compiler.give_up()
    if owner is not None and not (tells_units(keys) or any(k.groups_units for k in keys)):
        at = node.args.get("group") or node
        if owner.every:
            raise refuse_totals(compiler.source, owner, at)
        raise compiler.source.refuse(
            "a subquery groups private rows only by their privacy unit", at, "GROUP BY user_id, ..."
        )
    alias = compiler.alias()
    bounded = owner is not None and not source.repeats
    most = find_default(compiler.policy, source.source, "rows_per_unit") if bounded else None
    group = Group(compiler, scope, items, alias, most=most, facts=facts if owner is not None else frozenset())
    for i, key in enumerate(keys):
        made = make_column(alias, f"k{i}", key.type)
        link = key.link if key.is_column else ""
        made = replace(made, unit=key.unit, link=link, domain=key.domain, span=key.span)
        made = replace(made, bounds=key.bounds, nulls=key.nulls, decimal=key.decimal)
        compiler.columns[f"{alias}.k{i}"] = made
        group.keys.setdefault(key.node, made)
    around = source.scope.block or Block(owner, source.unit)
    unit = tree.Column(alias, "u") if source.unit is not None else None
    cells = tree.columns(alias, "k", len(keys))
    groups = KnownRows(ChainMap(compiler.columns))
    # With the unit, the keys identify a group.
    find_values = partial(add_domain, compiler.catalog, known=groups)
    block = replace(around, unit=unit, columns=cells, windows=False, find_values=find_values)
    outer = Scope(compiler.source, intercept=group.lookup, block=block)
    group.around = Scope(compiler.source, intercept=group.inside, block=replace(block, windows=True))
    values: list[Typed] = []
    for item in items:
        value = UNKNOWN
        with compiler.part(item.name):
            value = make_canonical(compiler.expression(item.node, outer))
        values.append(value)
    windows = len(group.windows)
    having = _compile_condition(compiler, node, "having", outer)
    if len(group.windows) > windows:
        raise compiler.source.refuse(
            "a window function is allowed in QUALIFY, not in HAVING", node.args["having"]
        )
    qualify = _compile_condition(compiler, node, "qualify", outer)
    by = select_list(source.unit, "k", (k.guarded_node for k in keys))
    # Keys are written by place: the engine reads a key that is an integer constant as a place.
    places = tuple(Constant(i + 1, INTEGER) for i in range(len(by)))
    made_of = tree.items("a", (make_canonical(a).node for a in group.aggregates))
    query = counted = Select((*by, *made_of), source.source, where, group=places)
    held = frozenset(name for k in keys if is_fact(k, facts) for name in group.keys[k.node].reads)
    kept = [Condition(each) for each in (*split_conjuncts(having), *split_conjuncts(qualify))]
    groups = replace(groups, conditions=tuple(kept), source=Derived(counted, alias))
    values = [add_domain(compiler.catalog, value, groups) for value in values]
    columns = tuple(
        list_value(
            i.name,
            v,
            fact=owner is not None and v.reads <= held,
            nulls=v.nulls,
            not_negative=is_never_negative(v, compiler.columns),
        )
        for i, v in zip(items, values, strict=True)
    )
    condition = having
    if group.windows or qualify is not None:
        # HAVING first, then the windows over what it left, then QUALIFY: the same alias names each level.
        inner = select_list(unit, "k", cells)
        inner += tree.items("a", tree.columns(alias, "a", len(group.aggregates)))
        inner += tree.items("w", (make_canonical(w).node for w in group.windows))
        query = Select(inner, Derived(query, alias), having)
        condition = qualify
    listed = select_list(unit, "c", (v.guarded_node for v in values))
    query = Select(listed, Derived(query, alias), condition)
    return Relation(query, columns, owner, _find_unique(keys, group, values), source.repeats)


def _compile_condition(
    compiler: StatementCompiler, node: exp.Select, clause: str, scope: Scope
) -> Expr | None:
    """Compile HAVING or QUALIFY over the groups; None without one."""
    found, condition = node.args.get(clause), None
    if found is not None:
        with compiler.part():
            condition = compile_condition(compiler, found.this, scope).guarded_node
    return condition


def _find_unique(keys: list[Typed], group: Group, values: list[Typed]) -> frozenset[frozenset[int]]:
    """Return the unique column set of a grouped block: its keys, if all of them are selected."""
    places = {v.node: i for i, v in enumerate(values)}
    wanted = {group.keys[k.node].node for k in keys if k.unit is not UnitRole.EXACT}
    if all(key in places for key in wanted):
        return frozenset({frozenset(places[key] for key in wanted)})
    return frozenset()
