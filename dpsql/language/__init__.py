"""The parser: text to `Statement`. Private clauses are removed from the tokens, the rest is standard SQL.

``parse`` runs ``tokens``, ``dialect_tokens``, ``parameters``, ``clauses``, ``options`` and ``dialect_forms``
in this order;
``statement`` has the types, ``source`` positions in errors, ``plain`` copies of the analyst's values;
``outline``, ``respelling`` and ``repair`` change the text of a statement that was refused.
"""

from dpsql.language.copying import copied
from dpsql.language.dialect_forms import unclear
from dpsql.language.naming import tables_in
from dpsql.language.outline import BlockText, Outline, call_end
from dpsql.language.parse import parse
from dpsql.language.plain import Parameters, plain, plain_text, plain_whole
from dpsql.language.repair import repair
from dpsql.language.source import Source, replacing
from dpsql.language.statement import (
    AboveThreshold,
    AllGroups,
    Clause,
    Clauses,
    Describe,
    Explain,
    Options,
    Query,
    Refine,
    Scalar,
    Selection,
    Set,
    Show,
    Statement,
    TopK,
    TopPerPartition,
)
from dpsql.language.tokens import MARK, split

__all__ = [
    "MARK",
    "AboveThreshold",
    "AllGroups",
    "BlockText",
    "Clause",
    "Clauses",
    "Describe",
    "Explain",
    "Options",
    "Outline",
    "Parameters",
    "Query",
    "Refine",
    "Scalar",
    "Selection",
    "Set",
    "Show",
    "Source",
    "Statement",
    "TopK",
    "TopPerPartition",
    "call_end",
    "copied",
    "parse",
    "plain",
    "plain_text",
    "plain_whole",
    "repair",
    "replacing",
    "split",
    "tables_in",
    "unclear",
]
