"""Write the query tree as another engine's SQL, with DuckDB's meaning or not at all.

=================  ==========================================================================
``statement``      writes a compiled query; assembles the rules of all node types
``context``        what the rules of one statement share; `Writer.expression` applies them
``queries``        SELECT, joins, set operations; IN, EXISTS and scalar subqueries
``expressions``    columns, CASE, conversions; ``conditions`` comparisons, BETWEEN, IN
``operators``      arithmetic, intervals; ``calls`` functions, LIKE
``aggregates``     aggregate and window functions
``public``         public relations, which DuckDB computes and whose rows are sent to the engine
``forms``          how a dialect writes a function, for which types of arguments
``dialect``        the base class of dialects; ``common`` forms that several engines share
``value``          a written expression; ``ranges`` the ranges of its values
``scans``          the SELECT that reads a declared table; ``cases`` upper and lower case
=================  ==========================================================================

The tree is small and closed, so every node type, function and conversion that an engine runs is listed.
Everything else is refused before anything is charged.
"""

from dpsql.engines.protocol import Untranslatable
from dpsql.engines.writer.dialect import Dialect
from dpsql.engines.writer.public import PublicRelation
from dpsql.engines.writer.statement import Translated, translate, write
from dpsql.engines.writer.value import TargetColumn, Value

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
