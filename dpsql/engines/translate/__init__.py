"""Compiled queries in another engine's SQL, with DuckDB's meaning or not at all.

=================  ==========================================================================
``translator``     the way in; what the rules of one translation share
``relations``      SELECT, joins, set operations
``scalar``         expressions, each node type by its own rule
``grouping``       aggregates and windows
``public``         public relations, which DuckDB computes and which travel as rows
``forms``          functions as a target writes them
``dialect``        what a target's writer offers; ``value`` what a translated expression is; ``scans`` tables
=================  ==========================================================================

The compiled language is small and closed, so the list of what is translated is written out; whatever is not
in it is refused before anything is charged.
"""

from dpsql.engines.translate.dialect import Dialect
from dpsql.engines.translate.public import Public, Shown
from dpsql.engines.translate.translator import Translated, translate, translate_text
from dpsql.engines.translate.value import Column, Untranslatable, Value

__all__ = [
    "Column",
    "Dialect",
    "Public",
    "Shown",
    "Translated",
    "Untranslatable",
    "Value",
    "translate",
    "translate_text",
]
