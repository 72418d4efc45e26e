"""The rules of FROM: relations of the catalogue, queries, functions, VALUES and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.serve.catalog import calls, pg_types
from dpsql.serve.catalog.casts import string
from dpsql.serve.catalog.constants import constant_rows
from dpsql.serve.catalog.data import SCHEMAS, Relation, data
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import PREFIX
from dpsql.serve.catalog.live import LIVE
from dpsql.serve.catalog.names import folded, output_name
from dpsql.serve.catalog.values import OWN_TABLE, Column, Scope, Source, Value, refuse_others, renamed
from dpsql.tree import quote

if TYPE_CHECKING:
    from dpsql.serve.catalog.context import Context


def from_clause(t: Context, from_: exp.Expr, joins: Sequence[exp.Expr], scope: Scope) -> str:
    """Translate FROM with its joins; the sources come into the scope."""
    refuse_others(from_.args, ("this",), "from")
    return _item(t, from_.this, scope) + _joins(t, joins, scope)


def _joins(t: Context, joins: Sequence[exp.Expr], scope: Scope) -> str:
    return "".join(_join(t, join, scope) for join in joins)


def _join(t: Context, node: exp.Expr, scope: Scope) -> str:
    refuse_others(node.args, ("this", "side", "kind", "method", "on", "using"), "join")
    side, kind, method = (str(node.args.get(part) or "").upper() for part in ("side", "kind", "method"))
    if side not in ("", "LEFT", "RIGHT", "FULL") or kind not in ("", "INNER", "OUTER", "CROSS"):
        raise UnknownQuestion("join")
    if method not in ("", "NATURAL"):
        raise UnknownQuestion("join")
    before = len(scope.sources)
    item = _item(t, node.this, scope)
    on, using = node.args.get("on"), node.args.get("using")
    if method == "NATURAL":
        old = {c.name for source in scope.sources[:before] for c in source.columns}
        new = [c.name for source in scope.sources[before:] for c in source.columns]
        names = [name for name in new if name in old]
    else:
        names = [folded(_identifier(column)) for column in using or []]
    if names:
        condition = _using(scope, before, names, side)
    elif on is not None:
        condition = t.boolean(on, scope)
    elif not (side or kind or method):
        return f", {item}"
    else:
        if side or kind == "INNER":
            raise UnknownQuestion("join")
        return f" CROSS JOIN {item}"
    return f" {side or 'INNER'} JOIN {item} ON {condition}"


def _identifier(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Column) else node


def _using(scope: Scope, before: int, names: Sequence[str], side: str) -> str:
    """Merge columns of the sources on the left with those of the new ones; return the condition."""
    left = Scope(None, {}, scope.sources[:before], dict(scope.merged), set(scope.hidden))
    right = Scope(None, {}, scope.sources[before:])
    conditions = []
    for name in names:
        first, second = left.find(name), right.find(name)
        if first is None or second is None:
            raise UnknownQuestion("using")
        conditions.append(f"{first.sql} = {second.sql}")
        sqls = {"RIGHT": second.sql, "FULL": f"coalesce({first.sql}, {second.sql})"}
        scope.merged[name] = Value(sqls.get(side, first.sql), first.type)
        scope.hidden |= {(source.name, name) for source in scope.sources if source.column(name) is not None}
    return " AND ".join(conditions)


def _item(t: Context, node: exp.Expr, scope: Scope) -> str:
    """Translate one item of FROM, with the joins inside its parentheses."""
    joins = node.args.get("joins") or []
    if isinstance(node, exp.Subquery) and (not isinstance(node.this, exp.Query) or _holds_table(node.this)):
        refuse_others(node.args, ("this", "joins"), "join")
        return f"({_item(t, node.this, scope)}{_joins(t, joins, scope)})"
    match node:
        case exp.Table() if isinstance(node.this, exp.Identifier):
            sql = _relation(t, node, scope)
        case exp.Table():
            if isinstance(node.this, exp.Parameter | exp.Literal):
                raise UnknownQuestion("a value as a relation")
            refuse_others(node.args, ("this", "alias", "ordinality", "joins"), "function")
            sql = _function(t, node.this, node.args.get("alias"), scope, bool(node.args.get("ordinality")))
        case exp.Subquery():
            refuse_others(node.args, ("this", "alias", "joins", "with_", "order", "limit", "offset"), "from")
            sql = _derived(t, node, scope, lateral=False)
        case exp.Lateral():
            refuse_others(node.args, ("this", "alias", "view", "outer", "ordinality"), "lateral")
            if isinstance(node.this, exp.Subquery):
                sql = _derived(t, node, scope, lateral=True)
            else:
                ordinality = bool(node.args.get("ordinality"))
                sql = _function(t, node.this, node.args.get("alias"), scope, ordinality)
        case exp.Values():
            refuse_others(node.args, ("expressions", "alias"), "values")
            found = constant_rows(t, node, Scope(scope.outer, scope.tables))
            sql = _aliased(scope, f"({found.sql})", found.columns, node.args.get("alias"), "values")
        case _:
            raise UnknownQuestion(type(node).__name__)
    return f"({sql}{_joins(t, joins, scope)})" if joins else sql


def _holds_table(node: exp.Expr) -> bool:
    while isinstance(node, exp.Subquery):
        node = node.this
    return isinstance(node, exp.Table)


def _add(scope: Scope, source: Source) -> None:
    if any(known.name == source.name for known in scope.sources):
        raise UnknownQuestion("two sources of one name")
    scope.sources.append(source)


def _relation(t: Context, node: exp.Expr, scope: Scope) -> str:
    refuse_others(node.args, ("this", "db", "alias", "only", "joins"), "relation")
    name, schema = folded(node.this), folded(node.args.get("db"))
    table = scope.relation(name) if not schema else None
    if table is not None:
        return _aliased(scope, quote(OWN_TABLE + name), table, node.args.get("alias"), name)
    relation = find(schema, name)
    if relation is None:
        raise UnknownQuestion("relation")
    key = (relation.schema, relation.name)
    place = f"{SCHEMAS[relation.schema]}.{quote(relation.name)}"
    if key in LIVE:
        place = t.live(*key)
    columns = tuple(Column(column, oid) for column, oid in relation.columns)
    return _aliased(scope, place, columns, node.args.get("alias"), name, relation)


def find(schema: str, name: str) -> Relation | None:
    """Return the relation of the catalogue that a name means; without a schema, one of `pg_catalog`."""
    return data().relations.get((schema or "pg_catalog", name))


def _aliased(
    scope: Scope,
    sql: str,
    columns: Sequence[Column],
    alias: exp.Expr | None,
    default: str,
    relation: Relation | None = None,
) -> str:
    """Put an item of FROM into the scope under its alias; return its SQL with the alias."""
    name = default if alias is None else folded(alias.this) or default
    names = [folded(column) for column in alias.args.get("columns") or []] if alias is not None else []
    new = renamed(columns, names)
    schema = relation.schema if relation is not None and alias is None else ""
    _add(scope, Source(name, new, schema, relation.oid if relation is not None else 0))
    listed = f" ({', '.join(quote(column.name) for column in new)})" if names else ""
    return f"{sql} AS {quote(name)}{listed}"


def _derived(t: Context, node: exp.Expr, scope: Scope, *, lateral: bool) -> str:
    inner = scope if lateral else Scope(scope.outer, scope.tables)
    query = node.this.this if lateral else node.this
    if not lateral and any(node.args.get(part) for part in ("with_", "order", "limit", "offset")):
        raise UnknownQuestion("subquery")
    found = t.query(query, inner)
    head = "LATERAL " if lateral and scope.sources else ""
    return _aliased(scope, f"{head}({found.sql})", found.columns, node.args.get("alias"), "subquery")


def _function(t: Context, node: exp.Expr, alias: exp.Expr | None, scope: Scope, ordinality: bool) -> str:
    """Translate a function in FROM: a list of rows, or one row with its value."""
    head = "LATERAL " if scope.sources else ""
    name = output_name(node)
    several = _several(t, node, scope)
    if several is not None:
        cells = [f"unnest({value.sql}) AS {quote(column.name)}" for column, value in several]
        columns = [column for column, _ in several]
        if ordinality:
            cells.append(f'generate_subscripts({several[0][1].sql}, 1) AS "ordinality"')
    else:
        value = calls.rows(t, node, scope)
        if value is not None and value.fields:
            place = f', generate_subscripts({value.sql}, 1) AS "ordinality"' if ordinality else ""
            columns = [Column(field, oid) for field, oid in value.fields]
            fields = [f"struct_extract(r.r, {string(c.name)}) AS {quote(c.name)}" for c in columns]
            fields += ['r."ordinality"'] if ordinality else []
            inner = f"SELECT {', '.join(fields)} FROM (SELECT unnest({value.sql}) AS r{place}) AS r"
            columns += [Column("ordinality", pg_types.INT8)] if ordinality else []
            return _aliased(scope, f"{head}({inner})", columns, alias, name)
        single = name if alias is None else folded(alias.this) or name
        if value is not None:
            cells = [f"unnest({value.sql}) AS {quote(single)}"]
            cells += [f'generate_subscripts({value.sql}, 1) AS "ordinality"'] if ordinality else []
        else:
            value = t.decided(t.expression(node, scope))
            if ordinality:
                raise UnknownQuestion("ordinality")
            cells = [f"{value.sql} AS {quote(single)}"]
        columns = [Column(single, value.type)]
    columns += [Column("ordinality", pg_types.INT8)] if ordinality else []
    return _aliased(scope, f"{head}(SELECT {', '.join(cells)})", columns, alias, name)


def _several(t: Context, node: exp.Expr, scope: Scope) -> list[tuple[Column, Value]] | None:
    """Return the columns of `unnest(a, b)`; None for other calls."""
    if (
        not isinstance(node, exp.Anonymous)
        or str(node.this) != f"{PREFIX}unnest"
        or len(node.expressions) < 2
    ):
        return None
    found = []
    for part in node.expressions:
        value = t.expression(part, scope)
        item = pg_types.element(value.type)
        if item is None:
            raise UnknownQuestion("unnest")
        found.append((Column("unnest", item), value))
    return found
