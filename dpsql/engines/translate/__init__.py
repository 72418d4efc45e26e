"""Translate compiled queries into another engine's SQL, with DuckDB's meaning or not at all.

=================  ==========================================================================
``translator``     translates a compiled query; assembles the rules of all node types
``context``        what the rules of one translation share; ``expression`` applies them
``relations``      SELECT, joins, set operations
``scalar``         operators, comparisons, CASE, conversions, LIKE
``calls``          function calls; ``grouping`` aggregates and windows; ``subqueries`` IN, EXISTS
``public``         public relations, which DuckDB computes and whose rows are sent to the engine
``forms``          how a dialect writes a function, for which types of arguments
``dialect``        the methods of a dialect; ``shared`` what several dialects use
``value``          a translated expression; ``doubles`` ranges of DOUBLE results
``scans``          the SELECT that reads a declared table; ``cases`` upper and lower case
=================  ==========================================================================

The compiled language is small and closed, so every node type, function and conversion that is translated is
listed. Everything else is refused before anything is charged.
"""

from dpsql.engines.translate.dialect import Dialect
from dpsql.engines.translate.public import PublicEvaluator, PublicRelation
from dpsql.engines.translate.translator import Translated, translate, translate_text
from dpsql.engines.translate.value import TargetColumn, Untranslatable, Value

__all__ = [
    "Dialect",
    "PublicEvaluator",
    "PublicRelation",
    "TargetColumn",
    "Translated",
    "Untranslatable",
    "Value",
    "translate",
    "translate_text",
]
