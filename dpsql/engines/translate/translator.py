"""A compiled query in an engine's own SQL: the one way in, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.binder import FUNCTIONS
from dpsql.engines.translate.parsing import call, parsed, text_of
from dpsql.engines.translate.public import Public, Shown, travelling
from dpsql.engines.translate.relations import Relation, query
from dpsql.engines.translate.value import Column, Untranslatable, Value, kind_of, years
from dpsql.types import NULL

if TYPE_CHECKING:
    from collections.abc import Collection

    from dpsql.analysis import CompiledQuery
    from dpsql.engines.translate.dialect import Dialect

__all__ = ["Translated", "Translation", "translate", "translate_text"]

LONGEST = 1 << 20
"""Most characters of a translated text, without what travels: rewriting may repeat a part."""

_ROW = (exp.Column, exp.Subquery, exp.Select, exp.Star, exp.Window)
_FOLDED = FUNCTIONS | {"try", "nullif", "ifnull", "concat", "isnan", "date_part"}
"""Functions that DuckDB may compute beforehand: those the binder's check lets pass, none of them volatile."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The engine's text, in which public relations stand by name, and those relations."""

    sql: str
    columns: tuple[Column, ...]
    public: tuple[Public, ...]


@dataclass(slots=True)
class Translation:
    """What the rules of one translation share."""

    dialect: Dialect
    schema_database: Shown
    private: Collection[str]
    cache: dict[str, Public]
    public: dict[str, Public] = field(default_factory=dict)

    def refuse(self, what: str, hint: str | None = None) -> Untranslatable:
        """Refuse a part."""
        return Untranslatable(f"{self.dialect.name} does not run {what}", hint)

    def travels(self, node: exp.Expr) -> Public:
        """Let a public relation travel; the same text travels once."""
        sql = text_of(node)
        if sql not in self.public:
            name = f"p{len(self.public)}"
            made = self.cache.get(sql) or travelling(self.schema_database, name, sql)
            self.cache[sql] = made
            self.public[sql] = Public(name, sql, made.rows, made.columns)
        return self.public[sql]

    def constant(self, node: exp.Expr) -> Value | None:
        """Let DuckDB compute what does not depend on the row; None for what does."""
        if isinstance(node, (exp.Null, *_ROW)) or node.find(*_ROW) is not None:
            return None
        text = text_of(node)
        try:
            kind = self.schema_database.type_of(text)
            kind_of(kind)
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
            return Value(self.dialect.null(kind), kind, constant=None) if kind != NULL else None
        # An infinite date comes as the last or first one there is.
        if (
            kind.name in ("DATE", "TIMESTAMP")
            and self.schema_database.evaluate(f"isfinite({text})") is not True
        ):
            raise self.refuse("an infinite date or timestamp", "the first or last day that can be meant")
        return Value(self.dialect.constant(value, kind), kind, _spread(value), value)


def _spread(value: object) -> tuple[float, float] | None:
    if isinstance(value, float):
        size = abs(value)
        return (size or 1.0, size or 1.0) if size < float("inf") else None
    return years(value)


def translate(
    compiled: CompiledQuery,
    dialect: Dialect,
    schema_database: Shown,
    private: Collection[str],
    cache: dict[str, Public],
) -> Translated:
    """Translate a compiled query, or raise `Untranslatable`; nothing private is read."""
    made = translate_text(compiled.sql, dialect, schema_database, private, cache)
    wanted = [f"k{i}" for i in range(len(compiled.keys))] + [f"n{i}" for i in range(compiled.counts)]
    if [c.name for c in made.columns] != wanted:
        raise Untranslatable("the translated statement has other columns")
    return made


def translate_text(
    sql: str, dialect: Dialect, schema_database: Shown, private: Collection[str], cache: dict[str, Public]
) -> Translated:
    """Translate any text of the compiled language (tests compare its parts)."""
    work = Translation(dialect, schema_database, private, cache)
    try:
        relation: Relation = query(work, parsed(sql), None)
    except RecursionError:
        raise Untranslatable("the statement is nested too deeply for this engine") from None
    if len(relation.sql) > LONGEST:
        raise Untranslatable("the statement becomes too long for this engine", "fewer nested calculations")
    # Each repeats its argument, so that one within another multiplies.
    if dialect.folds is not None and relation.sql.count("translate(") > dialect.folds:
        raise Untranslatable(
            f"{dialect.name} takes too long to change the case of so many texts",
            "fewer of lower, upper and ILIKE, and none within another",
        )
    return Translated(relation.sql, relation.columns, tuple(work.public.values()))
