"""The sources of a query: relations of the catalogue, common tables, queries, functions, VALUES."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.serve.catalog import pg_types
from dpsql.serve.catalog.data import SCHEMAS, Relation, data
from dpsql.serve.catalog.errors import UnknownQuestion
from dpsql.serve.catalog.functions import FUNCTIONS
from dpsql.serve.catalog.live import LIVE
from dpsql.serve.catalog.names import called, folded, function_name
from dpsql.serve.catalog.scope import Column, Scope, Source, renamed
from dpsql.serve.catalog.typed import Typed, call

MAX_SOURCES = 200
"""The most items of the FROM clause of one SELECT."""
OWN_TABLE = "q:"
"""Prefix of the names of common table expressions in DuckDB's SQL: no table of DuckDB begins so."""


def find(schema: str, name: str) -> Relation | None:
    """Return the relation of the catalogue that a name means; without a schema, one of `pg_catalog`."""
    return data().relations.get((schema or "pg_catalog", name))


def live_name(schema: str, name: str) -> str:
    """Return the name under which the rows of a live relation are registered."""
    return f"live_{schema}_{name}"


class Sources(Typed):
    """Replaces the sources of a query by those of the catalogue's database."""

    live: set[tuple[str, str]]

    def joins(self, node: exp.Expr, scope: Scope) -> None:
        """Translate the sources that an item of FROM, or a SELECT, is joined with."""
        for join in node.args.get("joins") or []:
            before = {column.name for source in scope.sources for column in source.columns}
            count = len(scope.sources)
            self.source(join.this, scope)
            new = [column.name for source in scope.sources[count:] for column in source.columns]
            if join.args.get("method") == "NATURAL":
                scope.merged += [name for name in new if name in before and name not in scope.merged]
            using = [column.name for column in join.args.get("using") or []]
            scope.merged += [name for name in using if name not in scope.merged]
            self.parts(join.args.get("on"), scope)

    def source(self, node: exp.Expr, scope: Scope) -> None:
        """Translate an item of FROM, which comes into the scope, and its joins."""
        match node:
            case exp.Table(this=exp.Identifier()):
                self._relation(node, scope)
            case exp.Table() | exp.Lateral() if called(node.this) is not None:
                self._function(node, scope)
            case exp.Subquery() if _holds_table(node.this):
                self.source(node.this, scope)
            case exp.Subquery():
                self._add(node, scope, self.query(node.this, scope, scope.tables), "subquery")
            case exp.Lateral(this=exp.Subquery()):
                self._add(node, scope, self.query(node.this.this, scope, scope.tables), "subquery")
            case exp.Values():
                rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
                types = [[self.expression(cell, scope) for cell in row] for row in rows]
                columns = [Column("", self.common(cells)) for cells in zip(*types, strict=True)]
                self._add(node, scope, columns, "values")
            case _:
                raise UnknownQuestion(type(node).__name__)
        self.joins(node, scope)

    def _add(
        self, node: exp.Expr, scope: Scope, columns: Sequence[Column], default: str, oid: int = 0
    ) -> None:
        """Put an item of FROM into the scope under its alias, which it gets if it has none."""
        if len(scope.sources) >= MAX_SOURCES:
            raise UnknownQuestion("too many relations")
        alias = node.args.get("alias") or exp.TableAlias()
        if not alias.name:
            alias.set("this", exp.to_identifier(default, quoted=True))
        node.set("alias", alias)
        names = [column.name for column in alias.args.get("columns") or []]
        scope.sources.append(Source(alias.name, renamed(columns, names), oid))

    def _relation(self, node: exp.Table, scope: Scope) -> None:
        name, schema = node.name, node.db
        own = scope.tables.get(name) if not schema else None
        if own is not None:
            node.set("this", exp.to_identifier(OWN_TABLE + name, quoted=True))
            self._add(node, scope, own, name)
            return
        relation = find(schema, name)
        if relation is None or node.catalog:
            raise UnknownQuestion("relation")
        key = (relation.schema, relation.name)
        if key in LIVE:
            self.live.add(key)
            place = ("temp", "main", live_name(*key))
        else:
            place = ("", SCHEMAS[relation.schema], relation.name)
        for part, text in zip(("catalog", "db", "this"), place, strict=True):
            node.set(part, exp.to_identifier(text, quoted=True) if text else None)
        columns = [Column(column, oid) for column, oid in relation.columns]
        self._add(node, scope, columns, name, relation.oid)

    def _function(self, node: exp.Expr, scope: Scope) -> None:
        """Replace a function in FROM by a query: a row for each element of its list, or for its value."""
        alias, function = node.args.get("alias"), called(node.this)
        if function is None or folded(node.args.get("db")) not in ("", *SCHEMAS):
            raise UnknownQuestion("function")
        name = function_name(function)
        single = alias.name if alias is not None and alias.name else name
        known = FUNCTIONS.get((name, len(function.expressions)))
        if name == "unnest" and len(function.expressions) > 1:
            types = [self.expression(part, scope) for part in list(function.expressions)]
            columns = [Column("unnest", pg_types.element(oid or 0)) for oid in types]
            lists = function.expressions
            cells: list[exp.Expr] = [call("unnest", part) for part in lists]
        elif known is not None and known.returns_set:
            oid = self.macro(known, function, scope)
            lists, rows = [function], call("unnest", function)
            fields = [Column(field, pg_types.named_type(kind)) for field, kind in known.fields]
            columns = fields or [Column(single, oid)]
            cells = [_field(rows.copy(), column.name) for column in fields] or [rows]
        else:
            value = self.value(exp.Paren(this=function).this, scope)
            columns, lists, cells = [Column(single, value.type)], [], [value.node]
        items = [
            exp.alias_(cell, column.name, quoted=True) for cell, column in zip(cells, columns, strict=True)
        ]
        if node.args.get("ordinality"):
            if not lists:
                raise UnknownQuestion("ordinality")
            place = call("generate_subscripts", lists[0].copy(), exp.Literal.number(1))
            items.append(exp.alias_(place, "ordinality", quoted=True))
            columns.append(Column("ordinality", pg_types.INT8))
        query = exp.Subquery(this=exp.Select(expressions=items), alias=alias, joins=node.args.get("joins"))
        node.replace(query)
        self._add(query, scope, columns, name)


def _field(rows: exp.Expr, name: str) -> exp.Expr:
    return call("struct_extract", rows, exp.Literal.string(name))


def _holds_table(node: exp.Expr) -> bool:
    while isinstance(node, exp.Subquery):
        node = node.this
    return isinstance(node, exp.Table)
