"""Analysis of a private statement: `Statement` and `Policy` to `Plan`, which holds the counting query.

=================  ===========================================================================
``analyse``        the analysis of one private statement, from start to end
``outer_query``    the outermost block: keys, counts, columns computed from them; ``released`` the
                   aggregates that may be released, ``groups`` the counting query, ``counted_groups`` and
                   ``widening`` one query for several statements, ``histograms`` that of quantiles
``selection``      the selection that a statement asks for, from all its spellings (``spellings``)
``blocks``         SELECTs in subqueries; ``hoist`` and ``windows`` their windows, ``aggregates`` their
                   GROUP BY, ``setops`` UNION, INTERSECT, EXCEPT; ``tables`` and ``joins`` FROM,
                   ``unmatched`` the public rows of an outer join that no unit owns
``expressions``    scalar rules; ``constants``, ``calls``, ``syntax``, ``subqueries`` more of them;
                   ``rules`` the table of all; ``functions`` the allowed functions; ``coerce`` conversions
``candidates``     which groups there can be, from public rows (``joined``, ``same``) and from what
                   WHERE lists (``ranges``); ``key_domains`` how many, ``domains`` and ``spans`` lists of
                   values, ``domain_tables`` such a list as an item of FROM
``sparse``         domains of so many groups that only those with rows are counted
``samples``        trial of a call's literals; ``limits`` of patterns and search texts
``survey``         all obstacles of a refused statement; ``hints`` adapts what they advise
``each_value``  COUNT(DISTINCT x) of declared values, counted as the units of each
``released_values``  values of earlier releases, which a compiled query reads as constants
``compiler``       the state of one statement's compilation; ``relation`` and ``typed`` the compiled
                   relations and expressions
``parsed``         parts of the parser's nodes that several rules read
``bounds``         bounds on what one unit contributes, where the statement writes none
``column_bounds``  public bounds of the values of columns; ``intervals`` those of expressions, and
                   ``narrowing`` those within the conditions of WHERE
``common_noise``   one noise for all counts of a domain, or a bound on each unit's groups
``output_layout``  where the columns of a release stand, and what is free beside them
``column_types``   the type of each column of a compiled query, by ``type_rules``
``compiled_query`` the counting query, certified by the kernel; ``claims`` compares the plan's with that
``plan``           the plan of a statement; ``catalog`` the schema database's protocol
``provenance``   what a block groups by, and whether it refers to the rows around it
``binder``         the second check: the plan that the engine's binder makes of the SQL, in the words of its
                   ``vocabulary``
``public``         statements over public tables; ``probes`` those that tools send for columns and values
``views``          the policy's views in the statements that read them
=================  ===========================================================================
"""

from dpsql.analysis.analyse import analyse, complete, is_private, surveyed
from dpsql.analysis.catalog import Catalog
from dpsql.analysis.claims import check_claims
from dpsql.analysis.common_noise import CommonNoise, common_noise, laplace_is_less, shows_all
from dpsql.analysis.compiled_query import CompiledQuery, PublicOrder, check_sealed
from dpsql.analysis.compiler import function_name
from dpsql.analysis.domain_tables import put_domains
from dpsql.analysis.kept_bounds import CutValues, Kept, KeptLadders, LeftOut
from dpsql.analysis.ladders import Contribution
from dpsql.analysis.output_columns import layout
from dpsql.analysis.plan import (
    OF_NUMBERS,
    BoundSearch,
    Output,
    Partitions,
    Plan,
    ValuesOfGroup,
    max_candidates,
    wished_way,
)
from dpsql.analysis.probes import DeclaredValues, NoRows, Preview, probe_of
from dpsql.analysis.public import check_outer, engine_sql, public_sql
from dpsql.analysis.released.aggregate import ReleasedAggregate
from dpsql.analysis.released.cells import CellRows, Quantile
from dpsql.analysis.released.described import cells_of, cut_of, quantile_of, rows_of, what_of
from dpsql.analysis.released_values import value_of, values_in, with_values
from dpsql.analysis.sparse import DomainPart, SparseDomain
from dpsql.analysis.survey import in_order
from dpsql.analysis.views import with_views
from dpsql.analysis.vocabulary import Vocabulary
from dpsql.analysis.widening import alike, widened
from dpsql.kernel.tree import quote

__all__ = [
    "OF_NUMBERS",
    "BoundSearch",
    "Catalog",
    "CellRows",
    "CommonNoise",
    "CompiledQuery",
    "Contribution",
    "CutValues",
    "DeclaredValues",
    "DomainPart",
    "Kept",
    "KeptLadders",
    "LeftOut",
    "NoRows",
    "Output",
    "Partitions",
    "Plan",
    "Preview",
    "PublicOrder",
    "Quantile",
    "ReleasedAggregate",
    "SparseDomain",
    "ValuesOfGroup",
    "Vocabulary",
    "alike",
    "analyse",
    "cells_of",
    "check_claims",
    "check_outer",
    "check_sealed",
    "common_noise",
    "complete",
    "cut_of",
    "engine_sql",
    "function_name",
    "in_order",
    "is_private",
    "laplace_is_less",
    "layout",
    "max_candidates",
    "probe_of",
    "public_sql",
    "put_domains",
    "quantile_of",
    "quote",
    "rows_of",
    "shows_all",
    "surveyed",
    "value_of",
    "values_in",
    "what_of",
    "widened",
    "wished_way",
    "with_values",
    "with_views",
]
