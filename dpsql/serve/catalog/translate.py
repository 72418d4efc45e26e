"""Translate a parsed question into DuckDB's SQL: sqlglot writes it, here PostgreSQL's types are followed.

DuckDB has no type for `name`, `"char"`, `regclass` and their kin. So the tree is walked once: each relation
is replaced by the one of the catalogue's database, each conversion by what it means, and the types that
DuckDB cannot tell are kept. `database.check_sql` checks the SQL, and DuckDB binds it before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from dpsql.lazy_dataclass import dataclass
from dpsql.serve.answers import AnswerColumn
from dpsql.serve.catalog import UnknownQuestion, postgres
from dpsql.serve.catalog.conversions import FromItem, SelectScope, SourceColumn, Tables, call, rename_columns
from dpsql.serve.catalog.database import OWN_TABLE, ObjectNames
from dpsql.serve.catalog.expressions import Expressions
from dpsql.serve.catalog.parse import MAX_RELATIONS, check_size, find_relation, output_name, parse
from dpsql.serve.catalog.postgres import FUNCTIONS, SCHEMAS, TEXT, UNKNOWN

Bind = Callable[[str, int], Sequence[str]]
"""Returns DuckDB's types of the columns of SQL with so many parameters."""

MAX_COLUMNS = 1_664
"""The most columns of a query, as many as PostgreSQL has: without it, `*` could double them at each level."""
MAX_EXPANDED = 10_000
"""The most columns that all `*` of a question stand for."""

_REFUSED = (
    exp.Lock,
    exp.Into,
    exp.TableSample,
    exp.DML,
    exp.DDL,
    exp.Command,
    exp.Placeholder,
    exp.Pivot,
    exp.Cube,
    exp.Rollup,
    exp.GroupingSets,
)
"""Parts of a query that the catalogue does not follow, and statements inside a query."""


@dataclass(frozen=True, slots=True)
class TranslatedQuestion:
    """A translated question, for every session and any values of its parameters."""

    sql: str
    columns: tuple[AnswerColumn, ...]
    parameters: tuple[int, ...]
    """The types of `$1`, `$2`, .."""
    settings: tuple[str, ...]
    """The settings that must exist."""
    changes: tuple[tuple[str, str, bool], ...]


class Translator(Expressions):
    """Translates one question: its queries and their sources."""

    def __init__(self, names: ObjectNames, types: Sequence[int | None] = ()) -> None:
        super().__init__(names, types)
        self._expanded = 0
        """The columns that `*` has stood for until now."""

    def question(self, text: str, bind: Bind) -> TranslatedQuestion:
        """Translate a whole question; `bind` gives DuckDB's types of its columns."""
        tree = parse(text)
        if any(isinstance(node, _REFUSED) for node in tree.walk()):
            raise UnknownQuestion("part of a query")
        holder = exp.Subquery(this=tree)
        for values in list(holder.find_all(exp.Values)):
            _name_columns(values)
        columns = self.query(holder.this, None, {})
        self.settle_parameters(holder)
        check_size(holder)
        sql = holder.this.sql("duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)
        told = bind(sql, len(self.parameter_types()))
        return TranslatedQuestion(
            sql=sql,
            columns=tuple(_column_of(column, kind) for column, kind in zip(columns, told, strict=True)),
            parameters=self.parameter_types(),
            settings=tuple(self.settings),
            changes=tuple(self.changes),
        )

    def query(self, node: exp.Expr, outer: SelectScope | None, tables: Tables) -> list[SourceColumn]:
        """Translate a query; return its columns."""
        with_ = node.args.get("with_")
        if with_ is not None:
            tables = self._common_tables(with_, outer, dict(tables))
        scope = SelectScope(outer, tables)
        match node:
            case exp.Subquery():
                columns = self.query(node.this, outer, tables)
            case exp.SetOperation():
                sides = [self.query(side, outer, tables) for side in (node.this, node.expression)]
                columns = [
                    SourceColumn(first.name, self.common((first.type, second.type)))
                    for first, second in zip(*sides, strict=True)
                ]
            case exp.Select():
                return self._select(node, scope)
            case _:
                raise UnknownQuestion(type(node).__name__)
        for part in ("order", "limit", "offset"):
            self.values(node.args.get(part), scope)
        return columns

    def _common_tables(self, with_: exp.Expr, outer: SelectScope | None, tables: Tables) -> Tables:
        for table in with_.expressions:
            alias, body = table.args["alias"], table.this
            names = [column.name for column in alias.args.get("columns") or []]
            if with_.args.get("recursive") and isinstance(body, exp.Union):
                tables[alias.name] = rename_columns(self.query(body.this.copy(), outer, tables), names)
            tables[alias.name] = rename_columns(self.query(body, outer, tables), names)
            alias.set("this", exp.to_identifier(OWN_TABLE + alias.name, quoted=True))
            table.set("materialized", None)  # else it is planned anew wherever it is named
        return tables

    def _select(self, node: exp.Select, scope: SelectScope) -> list[SourceColumn]:
        from_ = node.args.get("from_")
        if from_ is not None:
            self._source(from_.this, scope)
        self._joins(node, scope)
        items = self._items(node, scope)
        named = [exp.alias_(item.unalias(), output_name(item), quoted=True, copy=False) for item in items]
        node.set("expressions", named)
        columns = [SourceColumn(item.alias, self.expression(item.this, scope).type) for item in named]
        for name, part in list(node.args.items()):
            if name not in ("expressions", "from_", "joins", "with_"):
                self.values(part, scope)
        return columns

    def _items(self, node: exp.Select, scope: SelectScope) -> list[exp.Expr]:
        """Return the items of a SELECT; instead of each `*`, its columns."""
        items: list[exp.Expr] = []
        for item in node.expressions:
            columns = _star_columns(item, scope)
            if columns is None:
                items.append(item)
                continue
            self._expanded += len(columns)
            if len(items) + len(columns) > MAX_COLUMNS or self._expanded > MAX_EXPANDED:
                raise UnknownQuestion("too many columns")
            items += [exp.column(name, table or None, quoted=True) for name, table in columns]
        if not items:
            raise UnknownQuestion("no columns")
        return items

    # Sources.

    def _joins(self, node: exp.Expr, scope: SelectScope) -> None:
        """Translate the sources that an item of FROM, or a SELECT, is joined with."""
        for join in node.args.get("joins") or []:
            before = {column.name for source in scope.sources for column in source.columns}
            count = len(scope.sources)
            self._source(join.this, scope)
            new = [column.name for source in scope.sources[count:] for column in source.columns]
            if join.args.get("method") == "NATURAL":
                scope.merged += [name for name in new if name in before and name not in scope.merged]
            using = [column.name for column in join.args.get("using") or []]
            scope.merged += [name for name in using if name not in scope.merged]
            self.values(join.args.get("on"), scope)

    def _source(self, node: exp.Expr, scope: SelectScope) -> None:
        """Translate an item of FROM, which comes into the scope, and its joins."""
        match node:
            case exp.Table(this=exp.Identifier()):
                self._relation(node, scope)
            case exp.Table(this=exp.Anonymous()) | exp.Lateral(this=exp.Anonymous()):
                self._function(node, scope)
            case exp.Subquery() if isinstance(node.unnest(), exp.Table):
                self._source(node.this, scope)
            case exp.Subquery():
                self._add(node, scope, self.query(node.this, scope, scope.tables), "subquery")
            case exp.Lateral(this=exp.Subquery()):
                self._add(node, scope, self.query(node.this.this, scope, scope.tables), "subquery")
            case exp.Values():
                rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
                types = [[value.type for value in self.values(row, scope)] for row in rows]
                columns = [SourceColumn("", self.common(cells)) for cells in zip(*types, strict=True)]
                self._add(node, scope, columns, "values")
            case _:
                raise UnknownQuestion(type(node).__name__)
        self._joins(node, scope)

    def _add(
        self, node: exp.Expr, scope: SelectScope, columns: Sequence[SourceColumn], default: str, oid: int = 0
    ) -> None:
        """Put an item of FROM into the scope under its alias, which it gets if it has none."""
        if len(scope.sources) >= MAX_RELATIONS:
            raise UnknownQuestion("too many relations")
        alias = node.args.get("alias") or exp.TableAlias()
        if not alias.name:
            alias.set("this", exp.to_identifier(default, quoted=True))
        node.set("alias", alias)
        names = [column.name for column in alias.args.get("columns") or []]
        scope.sources.append(FromItem(alias.name, rename_columns(columns, names), oid))

    def _relation(self, node: exp.Table, scope: SelectScope) -> None:
        name, schema = node.name, node.db
        own = scope.tables.get(name) if not schema else None
        if own is not None:
            node.set("this", exp.to_identifier(OWN_TABLE + name, quoted=True))
            self._add(node, scope, own, name)
            return
        relation = find_relation(schema, name)
        if relation is None or node.catalog:
            raise UnknownQuestion("relation")
        node.set("db", exp.to_identifier(SCHEMAS[relation.schema], quoted=True))
        node.set("this", exp.to_identifier(relation.name, quoted=True))
        columns = [SourceColumn(column, oid) for column, oid in relation.columns]
        self._add(node, scope, columns, name, relation.oid)

    def _function(self, node: exp.Expr, scope: SelectScope) -> None:
        """Replace a function in FROM by a query: a row for each element of its list, or for its value."""
        alias, function, name = node.args.get("alias"), node.this, node.this.name
        if node.text("db"):
            raise UnknownQuestion("function")
        single = alias.name if alias is not None and alias.name else name
        known = FUNCTIONS.get((name, len(function.expressions)))
        if name == "unnest" and len(function.expressions) > 1:
            values = self.values(function.expressions, scope)
            columns = [SourceColumn("unnest", postgres.element_type(value.type)) for value in values]
            lists = [value.node for value in values]
            cells: list[exp.Expr] = [call("unnest", part) for part in lists]
        elif known is not None and known.returns_set:
            found, oid = self.macro(known, function, scope)
            lists, rows = [found], call("unnest", found)
            fields = [SourceColumn(field, postgres.function_type(kind)) for field, kind in known.fields]
            columns = fields or [SourceColumn(single, oid)]
            keys = [exp.Literal.string(column.name) for column in fields]
            cells = [call("struct_extract", rows.copy(), key) for key in keys] or [rows]
        else:
            found, oid = self.function(function, scope)
            columns, lists, cells = [SourceColumn(single, oid)], [], [found]
        items = [
            exp.alias_(cell, column.name, quoted=True) for cell, column in zip(cells, columns, strict=True)
        ]
        if node.args.get("ordinality"):
            if not lists:
                raise UnknownQuestion("ordinality")
            place = call("generate_subscripts", lists[0].copy(), exp.Literal.number(1))
            items.append(exp.alias_(place, "ordinality", quoted=True))
            columns.append(SourceColumn("ordinality", postgres.INT8))
        query = exp.Subquery(this=exp.Select(expressions=items), alias=alias, joins=node.args.get("joins"))
        node.replace(query)
        self._add(query, scope, columns, name)


def _star_columns(item: exp.Expr, scope: SelectScope) -> list[tuple[str, str]] | None:
    """Return columns and sources that `*` or `x.*` stands for; None for another item of a SELECT."""
    if not item.is_star or isinstance(item, exp.Anonymous):
        return None
    if not isinstance(item, (exp.Star, exp.Column)) or any(
        item.args.get(part) for part in ("except_", "replace")
    ):
        raise UnknownQuestion("star")
    return scope.star_columns(item.args["table"].name if isinstance(item, exp.Column) else "")


def _name_columns(values: exp.Expr) -> None:
    """Name the columns of VALUES as PostgreSQL does; make it the source of a query if it is none."""
    first = values.expressions[0]
    count = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("values", quoted=True))
    named = alias.args.get("columns") or []
    listed = [exp.to_identifier(f"column{place + 1}", quoted=True) for place in range(len(named), count)]
    alias.set("columns", [*named, *listed])
    if not isinstance(values.parent, (exp.From, exp.Join, exp.Lateral)):
        place = exp.Select(expressions=[exp.Star()])
        values.replace(place)
        place.set("from_", exp.From(this=values))
    values.set("alias", alias)


def _column_of(column: SourceColumn, kind: str) -> AnswerColumn:
    """Return a column with a type: PostgreSQL's if it was followed, else that of DuckDB."""
    oid = postgres.oid_of_duckdb(kind) if column.type is None else column.type
    oid = TEXT if oid == UNKNOWN else oid
    return AnswerColumn(column.name, postgres.arrow_type(oid), oid)
