"""Write the query tree as another engine's SQL, with DuckDB's meaning or not at all.

Here a compiled query is written: SELECT, joins, set operations, and queries in expressions. `RULES` has the
rules of all node types of expressions.

====================  ========================================================================
``statement_writer``  what the rules of one statement share; `Writer.expression` applies them
``expression_rules``  rules of columns, CASE, conversions, conditions
``function_rules``    rules of operators, functions, LIKE, aggregates and windows
``written_values``    a written expression, its range and its cost; the forms of functions
``dialect``           the base class of dialects; forms that several engines share
====================  ========================================================================

The tree is small and closed, so every node type, function and conversion that an engine runs is listed.
Everything else is refused before anything is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from dpsql.analysis import CompiledQuery
from dpsql.analysis.column_types import give_types
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.expression_rules import EXPRESSION_RULES, write_condition
from dpsql.engines.writer.function_rules import FUNCTION_RULES
from dpsql.engines.writer.statement_writer import (
    ColumnScope,
    PublicRelation,
    Rule,
    Writer,
    check_cost,
    is_public,
)
from dpsql.engines.writer.written_values import (
    NOTHING,
    Cost,
    TargetColumn,
    Value,
    common_type,
    joint_range,
    type_family,
)
from dpsql.kernel import tree
from dpsql.kernel.tree import Expr, Query, Scan, Source, walk
from dpsql.lazy_dataclass import dataclass
from dpsql.types import BOOLEAN


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """The SQL of a query, its columns in order, and the cost of its conditions and keys at all levels.

    What a column costs is paid where it is named.
    """

    sql: str
    columns: tuple[TargetColumn, ...]
    rest: Cost = NOTHING

    @property
    def cost(self) -> Cost:
        """What the whole query costs, as the limits on generated SQL count it."""
        return sum((column.cost for column in self.columns), self.rest)


@dataclass(slots=True)
class From:
    """The text of FROM so far, the columns it has, and the conditions that stand for SEMI and ANTI joins."""

    scope: ColumnScope
    sql: str = ""
    conditions: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    """The conditions of joins."""
    rest: Cost = NOTHING
    """The costs of the queries in FROM, without their columns."""
    columns: tuple[tuple[str, Cost], ...] = ()
    """The names of their columns, and what each costs where it is named."""


def write_query(work: Writer, node: Query, outer: ColumnScope | None) -> WrittenQuery:
    """Write a query by the rule of its node type; it may name columns of the scope `outer`."""
    node = tree.plain(node)
    rule = QUERIES.get(type(node))
    if rule is None:
        raise work.refuse(type(node).__name__)
    return rule(work, node, outer)


def _write_set_operation(work: Writer, node: tree.SetOperation, outer: ColumnScope | None) -> WrittenQuery:
    left, right = write_query(work, node.left, outer), write_query(work, node.right, outer)
    if len(left.columns) != len(right.columns):
        raise work.refuse("a set operation of queries with different numbers of columns")
    columns = []
    for a, b in zip(left.columns, right.columns, strict=True):
        pair = [Value("", a.type, a.value_range), Value("", b.type, b.value_range)]
        sql_type = common_type([a.type, b.type])
        if type_family(a.type) != type_family(b.type):
            raise work.refuse("a set operation of columns of different types")
        columns.append(TargetColumn(a.name, sql_type, joint_range(pair), a.cost + b.cost))
    return WrittenQuery(f"({left.sql}) {node.word} ({right.sql})", tuple(columns), left.rest + right.rest)


def _write_select(work: Writer, node: tree.Select, outer: ColumnScope | None) -> WrittenQuery:
    made = From(ColumnScope({}, outer))
    if node.source is not None:
        _write_source(work, node.source, made)
    scope, conditions = made.scope, list(made.conditions)
    if node.where is not None:
        conditions.append(_write_where(work, node.where, scope))
    items = [(_name_item(item), work.expression(item.expr, scope)) for item in node.items]
    parts = [*conditions, *made.on]
    listed = ", ".join(f"{v.sql} AS {work.dialect.quote(name)}" for name, v in items)
    sql = f"SELECT {'DISTINCT ' if node.distinct else ''}{listed}"
    if made.sql:
        sql += f" FROM {made.sql}"
    if conditions:
        sql += " WHERE " + " AND ".join(f"({c})" for c in conditions)
    if node.group:
        parts += [_write_key(work, key, scope, len(items)) for key in node.group]
        sql += " GROUP BY " + ", ".join(parts[-len(node.group) :])
    if node.order:
        parts.append(work.ordering(node.order, scope))
        sql += f" ORDER BY {parts[-1]}"
    if node.limit is not None:
        sql += f" LIMIT {node.limit}"
    texts = [*parts, *(v.sql for _, v in items)]
    # A column that nothing names may be computed all the same.
    unread = (cost for name, cost in made.columns if not any(name in text for text in texts))
    rest = sum((*map(work.cost, parts), *unread), made.rest)
    return WrittenQuery(sql, tuple(v.as_column(name, work.cost(v.sql)) for name, v in items), rest)


def _write_where(work: Writer, node: Expr, scope: ColumnScope) -> str:
    """Write a condition for which NULL is as good as FALSE: a simple form of IN suffices there."""
    match node:
        case tree.Paren(inner):
            return _write_where(work, inner, scope)
        case tree.Binary("AND" | "OR" as word, left, right):
            return f"({_write_where(work, left, scope)} {word} {_write_where(work, right, scope)})"
        case tree.InQuery():
            return _write_in(work, node, scope)[0]
    return write_condition(work, node, scope)


def _name_item(item: tree.Item) -> str:
    return item.name or (item.expr.name if isinstance(item.expr, tree.Column) else "x")


def _write_key(work: Writer, key: Expr, scope: ColumnScope, width: int) -> str:
    """Write a group key: a position in the select list, or an expression."""
    if not isinstance(key, tree.Constant):
        return work.expression(key, scope).sql
    if not isinstance(key.value, int) or not 1 <= key.value <= width:
        raise work.refuse("a group key that is a constant")
    return str(key.value)


def _write_source(work: Writer, node: Source, made: From) -> None:
    """Write an item of FROM by the rule of its node type, and add its columns to the scope."""
    rule = SOURCES.get(type(node))
    if rule is None:
        raise work.refuse(f"{type(node).__name__.upper()} in FROM")
    rule(work, node, made)


def _write_scan(work: Writer, node: tree.Scan, made: From) -> None:
    if node.table not in work.private:
        raise work.refuse("a public table in FROM")
    text, made.scope.tables[node.alias] = work.dialect.scan(node.table)
    work.scans.add(text)
    made.sql = f"{text} AS {work.dialect.quote(node.alias)}"


def _write_derived(work: Writer, node: tree.Derived, made: From) -> None:
    name = work.dialect.quote(node.alias)
    if is_public(node.query, work.private):
        public = work.embed_public(node.query)
        columns = {c.name: TargetColumn(f"c{i}", c.type, c.value_range) for i, c in enumerate(public.columns)}
        made.sql = f"{work.dialect.quote(public.name)} AS {name}"
    else:
        relation = write_query(work, node.query, made.scope.outer)
        columns = {c.name: c for c in relation.columns}
        made.sql = f"({relation.sql}) AS {name}"
        made.rest += relation.rest
        made.columns += tuple((f"{name}.{work.dialect.quote(c.name)}", c.cost) for c in relation.columns)
    made.scope.tables[node.alias] = columns


_JOINS = frozenset({"CROSS", "INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"})


def _write_join(work: Writer, node: tree.Join, made: From) -> None:
    _write_source(work, node.left, made)
    kind, left = node.kind or "INNER", made.scope
    if kind not in _JOINS or isinstance(node.right, tree.Join) or (node.on is None) != (kind == "CROSS"):
        raise work.refuse(f"this {kind} JOIN")
    if node.on is not None and kind in ("SEMI", "ANTI") and not work.dialect.semi_joins:
        right = From(ColumnScope({}, left))
        _write_source(work, node.right, right)
        word = "EXISTS" if kind == "SEMI" else "NOT EXISTS"
        on = write_condition(work, node.on, right.scope)
        made.rest += right.rest
        made.columns += right.columns
        made.conditions += (f"{word} (SELECT 1 FROM {right.sql} WHERE {on})",)
        return
    if made.conditions and kind in ("RIGHT", "FULL"):
        raise work.refuse(
            f"a {kind} JOIN after a SEMI or ANTI JOIN", "put the SEMI or ANTI JOIN into a subquery"
        )
    right = From(ColumnScope({}, left.outer))
    _write_source(work, node.right, right)
    made.rest += right.rest
    made.columns += right.columns
    made.on += right.on
    both = ColumnScope({**left.tables, **right.scope.tables}, left.outer)
    if kind in ("SEMI", "ANTI"):
        made.sql += f" LEFT {kind} JOIN {right.sql}"
    else:
        made.scope = both
        made.sql += f" {kind} JOIN {right.sql}"
    if node.on is not None:
        if kind == "FULL" and not work.dialect.full_join_conditions:
            _check_equalities(work, node.on)
        made.on += (write_condition(work, node.on, both),)
        made.sql += f" ON {made.on[-1]}"


def _check_equalities(work: Writer, on: Expr) -> None:
    match on:
        case tree.Paren(inner):
            _check_equalities(work, inner)
        case tree.Binary("AND", left, right):
            _check_equalities(work, left)
            _check_equalities(work, right)
        case tree.Binary("=", tree.Column(), tree.Column()):
            pass
        case _:
            raise work.refuse(
                "a FULL JOIN on anything but equalities of columns", "filter each side in a subquery first"
            )


def _refuse_unnest(work: Writer, node: tree.Unnest, made: From) -> None:
    raise work.refuse("UNNEST: lists are not translated")


def _write_in_query(work: Writer, node: tree.InQuery, scope: ColumnScope) -> Value:
    """Write IN over a query; where it would be FALSE for NULL, the rows are looked through for NULL."""
    found, value, relation = _write_in(work, node, scope)
    if work.dialect.in_has_null:
        return Value(found, BOOLEAN)
    name = work.dialect.quote(relation.columns[0].name)
    row = f"({relation.sql}) AS {work.dialect.quote('q')}"
    some = f"EXISTS (SELECT 1 FROM {row})"
    unknown = f"EXISTS (SELECT 1 FROM {row} WHERE {name} IS NULL)"
    null = work.dialect.constant(None, BOOLEAN)
    cases = f"WHEN NOT {some} THEN FALSE WHEN {value.sql} IS NULL OR {unknown} THEN {null}"
    return Value(f"(CASE WHEN {found} THEN TRUE {cases} ELSE FALSE END)", BOOLEAN)


def _write_in(work: Writer, node: tree.InQuery, scope: ColumnScope) -> tuple[str, Value, WrittenQuery]:
    """Write IN over a query as the engine has it; return it with its two parts."""
    value, relation = work.expression(node.operand, scope), write_query(work, node.query, scope)
    if len(relation.columns) != 1 or type_family(relation.columns[0].type) != type_family(value.type):
        raise work.refuse("IN over a subquery of another type")
    return f"({value.sql} IN ({relation.sql}))", value, relation


def _write_exists(work: Writer, node: tree.Exists, scope: ColumnScope) -> Value:
    return Value(f"(EXISTS ({write_query(work, node.query, scope).sql}))", BOOLEAN)


def _write_scalar(work: Writer, node: tree.ScalarQuery, scope: ColumnScope) -> Value:
    """Write a scalar subquery; the analysis has made sure that it has one row."""
    relation = write_query(work, node.query, scope)
    if len(relation.columns) != 1:
        raise work.refuse("a scalar subquery of several columns")
    column = relation.columns[0]
    return Value(f"({relation.sql})", column.type, column.value_range)


QUERIES: dict[type[Query], Callable[..., WrittenQuery]] = {
    tree.Select: _write_select,
    tree.SetOperation: _write_set_operation,
}
"""The rule of each node type of a query."""

SOURCES: dict[type[Source], Callable[..., None]] = {
    tree.Scan: _write_scan,
    tree.Derived: _write_derived,
    tree.Join: _write_join,
    tree.Unnest: _refuse_unnest,
}
"""The rule of each node type in FROM. All others occur in public relations only, which DuckDB computes."""

RULES: dict[type[Expr], Rule] = {
    **EXPRESSION_RULES,
    **FUNCTION_RULES,
    tree.InQuery: _write_in_query,
    tree.Exists: _write_exists,
    tree.ScalarQuery: _write_scalar,
}
"""The rule of each node type of an expression; `QUERIES` and `SOURCES` have those of the others."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement in an engine's SQL: the text, its columns, and the public relations that it names."""

    sql: str
    columns: tuple[TargetColumn, ...]
    public: tuple[PublicRelation, ...]
    tables: frozenset[str] | None = None
    """The declared tables that it reads; None: they are not told apart."""


def translate(
    compiled: CompiledQuery,
    dialect: Dialect,
    schema_database: SchemaDatabase,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Write a compiled query; raises `Untranslatable`. No private row is read."""
    translated = _write_typed(compiled.query, dialect, schema_database, private, cache)
    wanted = [f"k{i}" for i in range(len(compiled.keys))] + [f"n{i}" for i in range(compiled.counts)]
    wanted += compiled.places
    if [c.name for c in translated.columns] != wanted:
        raise Untranslatable("the translated statement has other columns")
    return translated


def write(
    query: Query,
    dialect: Dialect,
    schema_database: SchemaDatabase,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Write a query with DuckDB's meaning in the dialect of an engine; raises `Untranslatable`."""
    typed = give_types(query, schema_database.stored_types)
    return _write_typed(typed, dialect, schema_database, private, cache)


def _write_typed(
    query: Query,
    dialect: Dialect,
    schema_database: SchemaDatabase,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Write a query whose columns have their types, as those of compiled queries do."""
    work = Writer(dialect, schema_database, private, cache, RULES)
    try:
        written = write_query(work, query, None)
    except RecursionError:
        raise Untranslatable("the statement is nested too deeply for this engine") from None
    check_cost(written.cost, written.sql, dialect)
    return Translated(written.sql, written.columns, tuple(work.public.values()), tables_of(query))


def tables_of(query: Query) -> frozenset[str]:
    """Return the declared tables that a query scans."""
    return frozenset(node.table for node in walk(query) if isinstance(node, Scan))
