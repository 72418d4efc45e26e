"""The parser: text to `Statement`. Private clauses are removed from the tokens, the rest is standard SQL.

`parse` (``parse``) runs these, in this order; ``check_statements`` reads those about streams of checks,
``board_statements`` those about boards and holdouts, and ``check_rewrites`` makes what checks count;
``command_statements`` reads SHOW, DESCRIBE, SET and REFINE, also with what was copied around them, and
``dataframe_forms`` questions in the form of pandas, ``piped_steps`` those of dplyr, Kusto and PRQL:

``tokens``         the tokens of a statement, and limits on its size
``clauses``        those of other dialects as dpsql reads them, by ``clause_forms``; the private clauses,
                   which are removed
``parameters``     values in the place of markers
``options``        the options of the private clause
``dialect_forms``  functions and clauses of other dialects, in the parsed tree; of which the meaning is not
                   clear, ``unclear_calls`` says

``statement`` has the types, errors with a position in the text, and those about reports;
``stream_statements`` has those of streams and of exact answers; ``recursive_series`` reads a recursive query
that counts up as a series;
``syntax_trees`` searches and copies the parser's trees, ``select_parts`` reads and writes their clauses;
``duckdb_dialect`` is DuckDB's dialect of the parser. ``text_outline`` says where words, calls and clauses of
a text stand, and ``repair`` changes a text that does not parse, by ``mistaken_forms``;
``other_dialects`` reads it as these.
"""

from dpsql.language.dialect_forms import READ, READINGS, fill_form, write_node
from dpsql.language.options import DIALECTS
from dpsql.language.parameters import (
    Parameters,
    copy_parameters,
    copy_text,
    read_first_words,
    write_parameters,
)
from dpsql.language.parse import Explain, ExplainForm, Statement, list_titles, name_columns, parse
from dpsql.language.select_parts import (
    copy_rows,
    list_conjuncts,
    list_from_items,
    list_terms,
    make_presence,
    make_select,
    read_clause,
    set_where,
    walk_block,
)
from dpsql.language.statement import (
    CUTS,
    AboveThreshold,
    AllGroups,
    Clause,
    Clauses,
    Cut,
    Describe,
    Options,
    Query,
    Refine,
    ReportCommand,
    Scalar,
    Selection,
    Set,
    Show,
    StatementText,
    TopK,
    TopPerPartition,
    replace_name,
    write_name,
)
from dpsql.language.stream_statements import (
    Ask,
    Check,
    Expectation,
    FirstStable,
    OpenChecks,
    OpenStable,
    StreamCommand,
)
from dpsql.language.syntax_trees import (
    LARGEST,
    MARK,
    TITLE,
    copy_tree,
    find_nodes,
    find_tables,
    keep_title,
    list_given,
    list_visible_ctes,
    make_call,
    name_query,
    read_nodes,
    title_of,
    transform_tree,
    walk_tree,
)
from dpsql.language.text_outline import BlockText, Outline, call_end, refuse_unclear
from dpsql.language.tokens import split_script, split_script_with_places
