"""The state that the rules of one statement share, and `Writer.expression`, which applies the rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.schema_database import SchemaDatabase
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.forms import fits, no_form
from dpsql.engines.writer.public import PublicRelation, compute_public
from dpsql.engines.writer.value import TargetColumn, Value, common_type, constant_range, type_family
from dpsql.lazy_dataclass import dataclass
from dpsql.tree import Aggregate, Call, Constant, Expr, OrderTerm, Parameter, Query, duckdb_sql, facts, walk
from dpsql.types import NULL, SqlType

_FOLDABLE = frozenset({"nullif", "ifnull", "date_part", "fmod"})
"""Functions that DuckDB may evaluate for the engine besides those that the binder's check allows.

It writes these as others, in one version or all; none is volatile.
"""


@dataclass(slots=True)
class ColumnScope:
    """The columns that an expression may name, by table alias; `outer` is the enclosing query's scope."""

    tables: dict[str, dict[str, TargetColumn]]
    outer: ColumnScope | None = None

    def column(self, table: str, name: str) -> TargetColumn | None:
        """Return a column of this scope or of the nearest enclosing one that has the table, or None."""
        here: ColumnScope | None = self
        while here is not None:
            if table in here.tables:
                return here.tables[table].get(name)
            here = here.outer
        return None


@dataclass(slots=True)
class Writer:
    """Writes one statement: the dialect, the tables, and the public relations embedded so far."""

    dialect: Dialect
    schema_database: SchemaDatabase
    private: Collection[str]
    cache: dict[str, PublicRelation]
    rules: Mapping[type[Expr], Rule]
    """The rule of each node type of an expression: what is not here is refused."""
    public: dict[str, PublicRelation] = field(default_factory=dict)

    def refuse(self, what: str, hint: str | None = None) -> Untranslatable:
        """Return the error that the engine does not run a part of the statement."""
        return Untranslatable(f"{self.dialect.name} does not run {what}", hint)

    def embed_public(self, query: Query) -> PublicRelation:
        """Send the rows of a public relation with the statement; one text is sent once."""
        sql = duckdb_sql(query)
        if sql not in self.public:
            name = f"p{len(self.public)}"
            relation = self.cache.get(sql) or compute_public(self.schema_database, name, sql)
            self.cache[sql] = relation
            self.public[sql] = PublicRelation(name, sql, relation.rows, relation.columns)
        return self.public[sql]

    def expression(self, node: Expr, scope: ColumnScope) -> Value:
        """Write an expression by the rule of its node type; DuckDB evaluates constant expressions."""
        rule = self.rules.get(type(node))
        if rule is None:
            raise self.refuse(type(node).__name__)
        constant = self._constant(node)
        return constant if constant is not None else rule(self, node, scope)

    def _constant(self, node: Expr) -> Value | None:
        """Write the value of a constant expression; return None for one that depends on a row."""
        if isinstance(node, Constant):
            return self._typed(node.value, node.type.held) if node.value is not None else None
        allowed = self.schema_database.vocabulary.functions
        if facts(node).reads or not all(_foldable(part, allowed) for part in walk(node)):
            return None
        sql = duckdb_sql(node)
        try:
            sql_type = self.schema_database.type_of(sql)
            type_family(sql_type)
            value = self.schema_database.evaluate(sql)
        except (ValueError, Untranslatable):
            return None
        if value is None and sql_type == NULL:
            return None
        # The Python value of an infinite date is the first or last date that Python has.
        dated = value is not None and sql_type.name in ("DATE", "TIMESTAMP")
        if dated and self.schema_database.evaluate(f"isfinite({sql})") is not True:
            raise self.refuse("an infinite date or timestamp", "write the first or last day that can occur")
        return self._typed(value, sql_type)

    def _typed(self, value: object, sql_type: SqlType) -> Value:
        return Value(
            self.dialect.constant(value, sql_type), sql_type, constant_range(value), value, one_zero=True
        )

    def form(self, name: str, values: list[Value]) -> Value:
        """Write a function call or operator by the dialect's first form that takes these arguments."""
        forms = self.dialect.forms.get(name, ())
        for entry in forms:
            if fits(entry, values):
                return entry.apply(values)
        raise no_form(name, self.dialect.name, bool(forms))

    def common(self, values: Sequence[Value]) -> tuple[list[str], SqlType]:
        """Return the texts of several results in their common type, and that type."""
        sql_type = common_type([v.type for v in values])
        if sql_type == NULL:
            raise self.refuse("a choice among NULLs without a type")
        return [self.dialect.in_type(v, sql_type) for v in values], sql_type

    def ordering(self, terms: Sequence[OrderTerm], scope: ColumnScope) -> str:
        """Write the terms of ORDER BY, each with its direction and the place of NULL."""
        return ", ".join(
            f"{self.expression(term.expr, scope).sql} {term.direction or 'ASC'} NULLS {term.nulls or 'LAST'}"
            for term in terms
        )


def _foldable(node: object, allowed: Collection[str]) -> bool:
    """Return whether DuckDB may compute an expression with this node; an aggregate yields no value a row."""
    return not isinstance(node, (Aggregate, Parameter)) and (
        not isinstance(node, Call) or node.name.lower() in allowed or node.name.lower() in _FOLDABLE
    )


Rule = Callable[..., Value]
"""Writes an expression of one node type; takes the writer, the node, and the scope of its columns."""
