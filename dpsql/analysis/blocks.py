"""SELECT blocks below the counting one: projection, WHERE, DISTINCT, GROUP BY the unit, UNION ALL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis import aggregates
from dpsql.analysis.candidates import with_domain
from dpsql.analysis.compiler import Cte
from dpsql.analysis.expressions import canonical, check_arguments, common, predicate
from dpsql.analysis.joins import From, from_clause
from dpsql.analysis.relation import Column, Relation, Scope, fold
from dpsql.analysis.typed import Typed, UnitRole

if TYPE_CHECKING:
    from dpsql.analysis.compiler import StatementCompiler

__all__ = ["Item", "expand", "query", "with_ctes"]

_KNOWN = frozenset({"expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"})


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a select list: its expression and the name it gets."""

    node: exp.Expr
    name: str


def with_ctes(compiler: StatementCompiler, node: exp.Expr, outer: tuple[Cte, ...]) -> tuple[Cte, ...]:
    """Collect the common table expressions of a query, each seeing those before it."""
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


def query(compiler: StatementCompiler, node: exp.Expr, ctes: tuple[Cte, ...], depth: int) -> Relation:
    """Compile a subquery to a relation with generated names and a hidden unit if it is owned."""
    compiler.level(depth, node)
    match node:
        case exp.Select():
            return _select(compiler, node, ctes, depth)
        case exp.Union():
            return _union(compiler, node, with_ctes(compiler, node, ctes), depth)
        case exp.Subquery():
            check_arguments(compiler.source, node, frozenset({"this"}))
            return query(compiler, node.this, ctes, depth)
    raise compiler.source.refuse(f"{type(node).__name__.upper()} is not supported over private data", node)


def expand(compiler: StatementCompiler, select: exp.Select, scope: Scope) -> list[Item]:
    """Write out the select list: `*` becomes the columns it stands for."""
    items: list[Item] = []
    for node in select.expressions:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            items += _star(compiler, node, scope)
        elif isinstance(node, exp.Alias):
            check_arguments(compiler.source, node, frozenset({"this", "alias"}))
            items.append(Item(node.this, node.alias))
        else:
            items.append(Item(node, node.name if isinstance(node, exp.Column) else f"col{len(items)}"))
    if not items:
        raise compiler.source.refuse("the select list is empty", select)
    return items


def _star(compiler: StatementCompiler, node: exp.Expr, scope: Scope) -> list[Item]:
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
        for name in origin.names:
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
            items.append(Item(column, name))
    if not items:
        raise compiler.source.refuse("`*` stands for no column here", node)
    return items


def _select(compiler: StatementCompiler, node: exp.Select, outer: tuple[Cte, ...], depth: int) -> Relation:
    check_arguments(compiler.source, node, _KNOWN)
    ctes = with_ctes(compiler, node, outer)
    source = from_clause(compiler, node, ctes, depth)
    where = _where(compiler, node, source)
    items = expand(compiler, node, source.scope)
    if node.args.get("group") is not None or any(aggregates.contains(i.node) for i in items):
        return aggregates.grouped(compiler, node, source, where, items)
    if node.args.get("having") is not None:
        raise compiler.source.refuse("HAVING needs a GROUP BY", node.args["having"])
    scope = source.scope.copy()
    values: list[Typed] = []
    for item in items:
        value = with_domain(canonical(compiler.expression(item.node, scope)), scope)
        values.append(value)
        scope.aliases.setdefault(fold(item.name), value)
    return _project(compiler, node, source, where, items, values)


def _where(compiler: StatementCompiler, node: exp.Select, source: From) -> str:
    clause = node.args.get("where")
    if clause is None:
        return ""
    scope = source.scope.copy()
    for item in node.expressions:
        if isinstance(item, exp.Alias) and not aggregates.contains(item.this):
            _alias_if_missing(compiler, item, scope, clause)
    return f" WHERE {predicate(compiler, clause.this, scope).sql}"


def _alias_if_missing(compiler: StatementCompiler, item: exp.Alias, scope: Scope, clause: exp.Expr) -> None:
    """Make an alias of the select list known to WHERE when WHERE names it and no column has that name."""
    key = fold(item.alias)
    named = any(fold(c.name) == key and not c.table for c in clause.find_all(exp.Column))
    taken = key in scope.merged or any(key in map(fold, o.names) for o in scope.origins)
    if named and not taken:
        scope.aliases.setdefault(key, compiler.expression(item.this, scope))


def _project(
    compiler: StatementCompiler,
    node: exp.Select,
    source: From,
    where: str,
    items: list[Item],
    values: list[Typed],
) -> Relation:
    columns = tuple(Column(i.name, v.type, v.unit, v.candidates) for i, v in zip(items, values, strict=True))
    _storable(compiler, items, values)
    listed = ", ".join(f"{v.sql} AS c{i}" for i, v in enumerate(values))
    distinct = ""
    places = {v.sql: i for i, v in reversed(list(enumerate(values)))}
    unique = frozenset(
        frozenset(places[c] for c in names) for names in source.unique if all(c in places for c in names)
    )
    if node.args.get("distinct") is not None:
        check_arguments(compiler.source, node.args["distinct"], frozenset())
        distinct = "DISTINCT "
        if source.owner is not None:
            if source.owner.row:
                raise compiler.source.refuse(
                    "DISTINCT would merge rows, and each row is a privacy unit", node
                )
            if not any(c.unit is UnitRole.EXACT for c in columns):
                raise compiler.source.refuse(
                    "DISTINCT over private rows must select their privacy unit",
                    node.args["distinct"],
                    "SELECT DISTINCT user_id, page",
                )
        unique = frozenset({frozenset(range(len(columns))) - _unit_places(columns)})
    hidden = f"{source.unit} AS u, " if source.unit is not None else ""
    sql = f"SELECT {distinct}{hidden}{listed} FROM {source.sql}{where}"
    return Relation(sql, columns, source.owner, unique)


def _storable(compiler: StatementCompiler, items: list[Item], values: list[Typed]) -> None:
    for item, value in zip(items, values, strict=True):
        if value.type.name in ("INTERVAL", "JSON", "HUGEINT"):
            raise compiler.source.refuse(
                f"a subquery cannot select a {value.type}", item.node, "CAST it first"
            )


def _unit_places(columns: tuple[Column, ...]) -> frozenset[int]:
    return frozenset(i for i, c in enumerate(columns) if c.unit is UnitRole.EXACT)


def _union(compiler: StatementCompiler, node: exp.Union, ctes: tuple[Cte, ...], depth: int) -> Relation:
    check_arguments(compiler.source, node, frozenset({"this", "expression", "distinct", "with_"}))
    if node.args.get("distinct") is not False:
        raise compiler.source.refuse(
            "UNION without ALL is not supported yet over private data", node, "write UNION ALL"
        )
    left = query(compiler, node.this, ctes, depth)
    right = query(compiler, node.expression, ctes, depth)
    if len(left.columns) != len(right.columns):
        raise compiler.source.refuse("the branches of UNION ALL have different numbers of columns", node)
    owner = left.owner or right.owner
    if owner is not None and owner.row:
        raise compiler.source.refuse("each row is a privacy unit, and UNION ALL could repeat it", node)
    if left.owner is not None and right.owner is not None and left.owner.kind != right.owner.kind:
        raise compiler.source.refuse("the branches of UNION ALL have different privacy units", node)
    a, b = compiler.alias(), compiler.alias()
    pairs = [
        common(
            compiler,
            [Typed(f"{a}.c{i}", x.type), Typed(f"{b}.c{i}", y.type)],
            [node.this, node.expression],
        )
        for i, (x, y) in enumerate(zip(left.columns, right.columns, strict=True))
    ]
    columns = tuple(
        Column(x.name, p[0].type, _union_role(x, y))
        for x, y, p in zip(left.columns, right.columns, pairs, strict=True)
    )
    parts = []
    for alias, relation, place in ((a, left, 0), (b, right, 1)):
        unit = f"{alias}.u" if relation.owner is not None else f"CAST(NULL AS {owner.type})" if owner else ""
        hidden = f"{unit} AS u, " if owner is not None else ""
        listed = ", ".join(f"{p[place].sql} AS c{i}" for i, p in enumerate(pairs))
        parts.append(f"SELECT {hidden}{listed} FROM ({relation.sql}) AS {alias}")
    return Relation(f"{parts[0]} UNION ALL {parts[1]}", columns, owner)


def _union_role(left: Column, right: Column) -> UnitRole:
    """Only the unit in every branch, at that place, is still the unit."""
    if UnitRole.NONE in (left.unit, right.unit):
        return UnitRole.NONE
    return UnitRole.EXACT if left.unit is right.unit is UnitRole.EXACT else UnitRole.NULLABLE
