"""`Statement` + `Policy` to `Plan`: what is private, why it is, and the SQL that counts it.

=================  ===========================================================================
``analyse``        the whole analysis of one private statement, in the order of its proof
``outer_query``    the outermost block: keys, counts (``released``), what is free
``selection``      all spellings of a selection (``spellings``), normalised into one
``blocks``         SELECTs below it; ``hoist`` and ``windows`` their windows, ``aggregates`` their
                   GROUP BY, ``setops`` UNION and its kin; ``tables`` and ``joins`` their FROM
``expressions``    scalar rules; ``calls``, ``syntax`` and ``subqueries`` more of them; ``functions``
                   the list of allowed ones; ``coerce`` conversions, all written out
``candidates``     public domains of keys; ``spans`` those of points of time
``writing``        the forms of the counting SQL
``binder``         the engine's own binder as second wall
``public``         statements over public tables
=================  ===========================================================================
"""

from dpsql.analysis.analyse import analyse, complete, is_private
from dpsql.analysis.binder import DOMAIN_SCHEMA
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.plan import CompiledQuery, Output, Plan, PublicOrder, max_candidates, unknown_mechanism
from dpsql.analysis.public import public_sql
from dpsql.analysis.relation import fold, quote

__all__ = [
    "DOMAIN_SCHEMA",
    "Catalog",
    "CompiledQuery",
    "Output",
    "Plan",
    "PublicOrder",
    "analyse",
    "complete",
    "fold",
    "is_private",
    "max_candidates",
    "public_sql",
    "quote",
    "unknown_mechanism",
]
