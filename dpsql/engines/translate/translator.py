"""A compiled query in an engine's own SQL: the one way in, and what comes out."""

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

LONGEST = 1 << 20
"""Most characters of a translated text, without what travels: rewriting may repeat a part."""

RULES: dict[type[exp.Expr], Rule] = {**scalar.RULES, **subqueries.RULES, **calls.RULES, **grouping.RULES}
"""The rule of each node type of an expression: what is not here is refused."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The engine's text, in which public relations stand by name, and those relations."""

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
    """Translate a compiled query, or raise `Untranslatable`; nothing private is read."""
    made = translate_text(compiled.sql, dialect, schema_database, private, cache)
    wanted = [f"k{i}" for i in range(len(compiled.keys))] + [f"n{i}" for i in range(compiled.counts)]
    if [c.name for c in made.columns] != wanted:
        raise Untranslatable("the translated statement has other columns")
    return made


def translate_text(
    sql: str,
    dialect: Dialect,
    schema_database: PublicEvaluator,
    private: Collection[str],
    cache: dict[str, PublicRelation],
) -> Translated:
    """Translate any text of the compiled language (tests compare its parts)."""
    work = Translation(dialect, schema_database, private, cache, RULES)
    try:
        relation: TranslatedQuery = query(work, parsed(sql), None)
    except RecursionError:
        raise Untranslatable("the statement is nested too deeply for this engine") from None
    if len(relation.sql) > LONGEST:
        raise Untranslatable("the statement becomes too long for this engine", "fewer nested calculations")
    return Translated(relation.sql, relation.columns, tuple(work.public.values()))
