"""The parser: text to `Statement`. Private clauses are removed from the tokens, the rest is standard SQL.

``parse`` runs ``tokens``, ``dialect_tokens``, ``parameters``, ``clauses``, ``options`` and ``dialect_forms``
in this order;
``titles`` names columns without an alias by their text;
``statement`` has the types, ``source`` positions in errors, ``plain`` copies of the analyst's values;
``outline`` and ``repair`` change the text of a statement that was refused; ``written``
writes parameters into a text.
"""

from dpsql.language.copying import all_of, copied, transformed, walked
from dpsql.language.dialect_forms import unclear
from dpsql.language.naming import tables_in, visible_ctes
from dpsql.language.outline import BlockText, Outline, call_end
from dpsql.language.parse import parse
from dpsql.language.plain import Parameters, plain, plain_text, plain_whole
from dpsql.language.repair import repair
from dpsql.language.source import Source, replacing, written_name
from dpsql.language.statement import (
    CUTS,
    AboveThreshold,
    AllGroups,
    Clause,
    Clauses,
    Cut,
    Describe,
    Explain,
    ExplainForm,
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
from dpsql.language.titles import keep_title, name_columns, title
from dpsql.language.tokens import MARK, pieces, split
from dpsql.language.written import words, written_out

__all__ = [
    "CUTS",
    "MARK",
    "AboveThreshold",
    "AllGroups",
    "BlockText",
    "Clause",
    "Clauses",
    "Cut",
    "Describe",
    "Explain",
    "ExplainForm",
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
    "all_of",
    "call_end",
    "copied",
    "keep_title",
    "name_columns",
    "parse",
    "pieces",
    "plain",
    "plain_text",
    "plain_whole",
    "repair",
    "replacing",
    "split",
    "tables_in",
    "title",
    "transformed",
    "unclear",
    "visible_ctes",
    "walked",
    "words",
    "written_name",
    "written_out",
]
