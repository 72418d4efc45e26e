"""Write the query tree as another engine's SQL, with DuckDB's meaning or not at all.

=================  ==========================================================================
``statement``      writes a compiled query; assembles the rules of all node types
``context``        what the rules of one statement share; `Writer.expression` applies them
``queries``        SELECT, joins, set operations; IN, EXISTS and scalar subqueries
``expressions``    columns, comparisons, conditions, CASE, conversions, operators, calls
``aggregates``     aggregate and window functions
``public``         public relations, which DuckDB computes and whose rows are sent to the engine
``forms``          how a dialect writes a function, for which types of arguments
``dialect``        the methods of a dialect; ``shared`` what several dialects use
``value``          a written expression; ``doubles`` ranges of DOUBLE results
``scans``          the SELECT that reads a declared table; ``cases`` upper and lower case
=================  ==========================================================================

The tree is small and closed, so every node type, function and conversion that an engine runs is listed.
Everything else is refused before anything is charged.
"""

from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.public import PublicEvaluator, PublicRelation
from dpsql.engines.writer.statement import Translated, translate, write
from dpsql.engines.writer.value import TargetColumn, Untranslatable, Value

__all__ = [
    "Dialect",
    "PublicEvaluator",
    "PublicRelation",
    "TargetColumn",
    "Translated",
    "Untranslatable",
    "Value",
    "translate",
    "write",
]
