"""`Statement` + `Policy` to `Plan`: what is private, why it is, and the SQL that counts it.

=================  ===========================================================================
``analyse``        the whole analysis of one private statement
``counting``       the outermost block: keys, counts, what is free
``readings``       all spellings of a selection, one reading
``blocks``         SELECTs below it; ``aggregates`` their GROUP BY; ``tables``, ``joins`` their FROM
``expressions``    scalar rules; ``functions`` the list of allowed ones; ``coerce`` conversions
``candidates``     public domains of keys
``binder``         the engine's binder as second wall
``public``         statements over public tables
=================  ===========================================================================
"""

from dpsql.analysis.analyse import analyse, complete, is_private
from dpsql.analysis.binder import DOMAIN_SCHEMA
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.plan import CompiledQuery, Output, Plan, candidates_of, unknown_mechanism
from dpsql.analysis.public import public_sql
from dpsql.analysis.relation import fold, quote

__all__ = [
    "DOMAIN_SCHEMA",
    "Catalog",
    "CompiledQuery",
    "Output",
    "Plan",
    "analyse",
    "candidates_of",
    "complete",
    "fold",
    "is_private",
    "public_sql",
    "quote",
    "unknown_mechanism",
]
