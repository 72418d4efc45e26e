"""The state that the rules of one translation share, and `expression`, which applies the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.binder import FUNCTIONS
from dpsql.engines.translate.parsing import call, text_of
from dpsql.engines.translate.public import PublicRelation, compute_public
from dpsql.engines.translate.value import TargetColumn, Untranslatable, Value, type_family, year_range
from dpsql.types import NULL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dpsql.engines.translate.dialect import Dialect
    from dpsql.engines.translate.public import PublicEvaluator

__all__ = ["ColumnScope", "Rule", "Translation", "check_parts", "expression", "ordering"]

_ROW_DEPENDENT = (exp.Column, exp.Subquery, exp.Select, exp.Star, exp.Window)
_FOLDABLE = FUNCTIONS | {"try", "nullif", "ifnull", "concat", "isnan", "date_part"}
"""Functions that DuckDB may evaluate during translation: the binder's check allows them; none is volatile."""


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
class Translation:
    """One translation: the dialect, the tables, and the public relations embedded so far."""

    dialect: Dialect
    schema_database: PublicEvaluator
    private: Collection[str]
    cache: dict[str, PublicRelation]
    rules: Mapping[type[exp.Expr], Rule]
    """The rule of each node type of an expression."""
    public: dict[str, PublicRelation] = field(default_factory=dict)

    def refuse(self, what: str, hint: str | None = None) -> Untranslatable:
        """Return the error that the engine does not run a part of the statement."""
        return Untranslatable(f"{self.dialect.name} does not run {what}", hint)

    def embed_public(self, node: exp.Expr) -> PublicRelation:
        """Send the rows of a public relation with the statement; one text is sent once."""
        sql = text_of(node)
        if sql not in self.public:
            name = f"p{len(self.public)}"
            relation = self.cache.get(sql) or compute_public(self.schema_database, name, sql)
            self.cache[sql] = relation
            self.public[sql] = PublicRelation(name, sql, relation.rows, relation.columns)
        return self.public[sql]

    def constant(self, node: exp.Expr) -> Value | None:
        """Let DuckDB evaluate a constant expression; return None for an expression that depends on a row."""
        if isinstance(node, (exp.Null, *_ROW_DEPENDENT)) or node.find(*_ROW_DEPENDENT) is not None:
            return None
        text = text_of(node)
        try:
            sql_type = self.schema_database.type_of(text)
            type_family(sql_type)
            # An aggregate of constants is no constant: it yields one row, not one for each row.
            calls = {name for part in node.walk() if (name := call(part)) is not None}
            if not calls <= _FOLDABLE:
                return None
            if calls:
                rows = self.schema_database.evaluate(
                    f"(SELECT COUNT(*) FROM (SELECT {text} FROM range(2)) AS r)"
                )
                if rows != 2:
                    return None
            value = self.schema_database.evaluate(text)
        except (ValueError, Untranslatable):
            return None
        if value is None:
            return Value(self.dialect.null(sql_type), sql_type, constant=None) if sql_type != NULL else None
        # The Python value of an infinite date is the first or last date that Python has.
        if (
            sql_type.name in ("DATE", "TIMESTAMP")
            and self.schema_database.evaluate(f"isfinite({text})") is not True
        ):
            raise self.refuse("an infinite date or timestamp", "write the first or last day that can occur")
        return Value(self.dialect.constant(value, sql_type), sql_type, _constant_range(value), value)


def _constant_range(value: object) -> tuple[float, float] | None:
    if isinstance(value, float):
        size = abs(value)
        return (size or 1.0, size or 1.0) if size < float("inf") else None
    return year_range(value)


Rule = Callable[[Translation, exp.Expr, ColumnScope], Value]
"""Translates an expression of one node type."""


def expression(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    """Translate an expression by the rule of its node type; DuckDB evaluates constant expressions."""
    if isinstance(node, exp.Paren):
        return expression(work, node.this, scope)
    constant = work.constant(node)
    if constant is not None:
        return constant
    rule = work.rules.get(type(node))
    if rule is None:
        raise work.refuse(node.key.upper())
    return rule(work, node, scope)


def check_parts(work: Translation, node: exp.Expr, *names: str) -> None:
    """Refuse a node that has an argument besides `names`, those that its rule handles."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            raise work.refuse(f"{name.strip('_')} of {node.key.upper()}")


def ordering(work: Translation, terms: Sequence[exp.Expr], scope: ColumnScope) -> str:
    """Translate the terms of ORDER BY, each with NULLS FIRST or NULLS LAST."""
    written = []
    for term in terms:
        if not isinstance(term, exp.Ordered):
            raise work.refuse("an order without a direction")
        check_parts(work, term, "this", "desc", "nulls_first")
        value = expression(work, term.this, scope)
        direction = "DESC" if term.args.get("desc") else "ASC"
        written.append(f"{value.sql} {direction} NULLS {'FIRST' if term.args.get('nulls_first') else 'LAST'}")
    return ", ".join(written)
