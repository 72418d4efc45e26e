"""What the rules of one translation share: the target, the columns in scope, and the rules themselves."""

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

_ROW = (exp.Column, exp.Subquery, exp.Select, exp.Star, exp.Window)
_FOLDED = FUNCTIONS | {"try", "nullif", "ifnull", "concat", "isnan", "date_part"}
"""Functions that DuckDB may compute beforehand: those the binder's check lets pass, none of them volatile."""


@dataclass(slots=True)
class ColumnScope:
    """The columns an expression may name, by their table's alias; `outer` is the query around it."""

    tables: dict[str, dict[str, TargetColumn]]
    outer: ColumnScope | None = None

    def column(self, table: str, name: str) -> TargetColumn | None:
        """Find a column here or further out."""
        here: ColumnScope | None = self
        while here is not None:
            if table in here.tables:
                return here.tables[table].get(name)
            here = here.outer
        return None


@dataclass(slots=True)
class Translation:
    """What the rules of one translation share."""

    dialect: Dialect
    schema_database: PublicEvaluator
    private: Collection[str]
    cache: dict[str, PublicRelation]
    rules: Mapping[type[exp.Expr], Rule]
    """The rule of each node type of an expression."""
    public: dict[str, PublicRelation] = field(default_factory=dict)

    def refuse(self, what: str, hint: str | None = None) -> Untranslatable:
        """Refuse a part."""
        return Untranslatable(f"{self.dialect.name} does not run {what}", hint)

    def embed_public(self, node: exp.Expr) -> PublicRelation:
        """Let a public relation travel; the same text travels once."""
        sql = text_of(node)
        if sql not in self.public:
            name = f"p{len(self.public)}"
            made = self.cache.get(sql) or compute_public(self.schema_database, name, sql)
            self.cache[sql] = made
            self.public[sql] = PublicRelation(name, sql, made.rows, made.columns)
        return self.public[sql]

    def constant(self, node: exp.Expr) -> Value | None:
        """Let DuckDB compute what does not depend on the row; None for what does."""
        if isinstance(node, (exp.Null, *_ROW)) or node.find(*_ROW) is not None:
            return None
        text = text_of(node)
        try:
            sql_type = self.schema_database.type_of(text)
            type_family(sql_type)
            # An aggregate of constants is none: it yields one row however many there are.
            calls = {name for part in node.walk() if (name := call(part)) is not None}
            if not calls <= _FOLDED:
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
        # An infinite date comes as the last or first one there is.
        if (
            sql_type.name in ("DATE", "TIMESTAMP")
            and self.schema_database.evaluate(f"isfinite({text})") is not True
        ):
            raise self.refuse("an infinite date or timestamp", "the first or last day that can be meant")
        return Value(self.dialect.constant(value, sql_type), sql_type, _constant_range(value), value)


def _constant_range(value: object) -> tuple[float, float] | None:
    if isinstance(value, float):
        size = abs(value)
        return (size or 1.0, size or 1.0) if size < float("inf") else None
    return year_range(value)


Rule = Callable[[Translation, exp.Expr, ColumnScope], Value]
"""Translates one expression, whose node type it is registered for."""


def expression(work: Translation, node: exp.Expr, scope: ColumnScope) -> Value:
    """Translate one expression; what DuckDB can compute without a row, it computes."""
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
    """Refuse a node with a part that its rule does not name."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            raise work.refuse(f"{name.strip('_')} of {node.key.upper()}")


def ordering(work: Translation, terms: Sequence[exp.Expr], scope: ColumnScope) -> str:
    """Write ORDER BY's terms, with the place of NULLs said."""
    written = []
    for term in terms:
        if not isinstance(term, exp.Ordered):
            raise work.refuse("an order without a direction")
        check_parts(work, term, "this", "desc", "nulls_first")
        value = expression(work, term.this, scope)
        way = "DESC" if term.args.get("desc") else "ASC"
        written.append(f"{value.sql} {way} NULLS {'FIRST' if term.args.get('nulls_first') else 'LAST'}")
    return ", ".join(written)
