"""The parser: text to `Statement`. Private clauses are removed from the tokens, the rest is standard SQL.

``parse`` runs ``tokens``, ``dialect_tokens``, ``parameters``, ``clauses``, ``options`` and ``dialect_forms``
in this order;
``titles`` names columns without an alias by their text;
``statement`` has the types, ``source`` positions in errors, ``plain`` copies of the analyst's values;
``outline`` and ``repair`` change the text of a statement that was refused; ``written``
writes parameters into a text.
"""

from dpsql.language.dialect_forms import unclear
from dpsql.language.parameters import (
    Parameters,
    copy_parameters,
    copy_text,
    copy_whole,
    first_words,
    write_parameters,
)
from dpsql.language.parse import keep_title, name_columns, parse, title_of
from dpsql.language.repair import BlockText, Outline, call_end, repair
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
    StatementText,
    TopK,
    TopPerPartition,
    replacement_fix,
    written_name,
)
from dpsql.language.syntax_trees import all_of, copy_tree, tables_in, transform_tree, visible_ctes, walk_tree
from dpsql.language.tokens import MARK, split_script, split_with_places

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
    "Statement",
    "StatementText",
    "TopK",
    "TopPerPartition",
    "all_of",
    "call_end",
    "copy_parameters",
    "copy_text",
    "copy_tree",
    "copy_whole",
    "first_words",
    "keep_title",
    "name_columns",
    "parse",
    "repair",
    "replacement_fix",
    "split_script",
    "split_with_places",
    "tables_in",
    "title_of",
    "transform_tree",
    "unclear",
    "visible_ctes",
    "walk_tree",
    "write_parameters",
    "written_name",
]
