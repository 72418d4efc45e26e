"""Translates a compiled query into an engine's SQL; assembles the rules of all node types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.engines.translate import calls, grouping, scalar, subqueries
from dpsql.engines.translate.context import Translation
from dpsql.engines.translate.parsing import parsed
from dpsql.engines.translate.relations import TranslatedQuery, query
from dpsql.engines.translate.value import Untranslatable

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlglot import exp

    from dpsql.analysis import CompiledQuery
    from dpsql.engines.translate.context import Rule
    from dpsql.engines.translate.dialect import Dialect
    from dpsql.engines.translate.public import PublicEvaluator, PublicRelation
    from dpsql.engines.translate.value import TargetColumn

__all__ = ["Translated", "translate", "translate_text"]

MAX_LENGTH = 1 << 20
"""The most characters of a translated text without public rows: rules may repeat an operand."""

RULES: dict[type[exp.Expr], Rule] = {**scalar.RULES, **subqueries.RULES, **calls.RULES, **grouping.RULES}
"""The rule of each node type of an expression: what is not here is refused."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated statement: its SQL, its columns, and the public relations that the SQL names."""

    sql: str
    columns: tuple[TargetColumn, ...]
    public: tuple[PublicRelation, ...]


def translate(
    compiled: CompiledQuery,
    dialect: Dialect,
    schema_database: PublicEvaluator,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Translate a compiled query; raises `Untranslatable`. No private row is read."""
    translated = translate_text(compiled.sql, dialect, schema_database, private, cache)
    wanted = [f"k{i}" for i in range(len(compiled.keys))] + [f"n{i}" for i in range(compiled.counts)]
    if [c.name for c in translated.columns] != wanted:
        raise Untranslatable("the translated statement has other columns")
    return translated


def translate_text(
    sql: str,
    dialect: Dialect,
    schema_database: PublicEvaluator,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Translate any text of the compiled language; tests translate parts of queries by it."""
    work = Translation(dialect, schema_database, private, cache, RULES)
    try:
        relation: TranslatedQuery = query(work, parsed(sql), None)
    except RecursionError:
        raise Untranslatable("the statement is nested too deeply for this engine") from None
    if len(relation.sql) > MAX_LENGTH:
        raise Untranslatable("the statement becomes too long for this engine", "use fewer nested expressions")
    # Each repeats its argument, so that one within another multiplies.
    if (
        dialect.max_translate_calls is not None
        and relation.sql.count("translate(") > dialect.max_translate_calls
    ):
        raise Untranslatable(
            f"{dialect.name} takes too long to change the case of so many texts",
            "fewer of lower, upper and ILIKE, and none within another",
        )
    return Translated(relation.sql, relation.columns, tuple(work.public.values()))
