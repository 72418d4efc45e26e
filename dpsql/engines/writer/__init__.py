"""Write the query tree as another engine's SQL, with DuckDB's meaning or not at all.

====================  ========================================================================
``query_writer``      writes a compiled query: SELECT, joins, set operations, subqueries
``statement_writer``  what the rules of one statement share; `Writer.expression` applies them
``expression_rules``  rules of columns, CASE, conversions, conditions
``function_rules``    rules of operators, functions, LIKE, aggregates and windows
``written_values``    a written expression, its range and its cost; the forms of functions
``dialect``           the base class of dialects; forms that several engines share
====================  ========================================================================

The tree is small and closed, so every node type, function and conversion that an engine runs is listed.
Everything else is refused before anything is charged.
"""

from dpsql.engines.worker import Untranslatable
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.query_writer import Translated, translate, write
from dpsql.engines.writer.statement_writer import PublicRelation
from dpsql.engines.writer.written_values import TargetColumn, Value

__all__ = [
    "Dialect",
    "PublicRelation",
    "TargetColumn",
    "Translated",
    "Untranslatable",
    "Value",
    "translate",
    "write",
]
