"""Answer a selection: `choose` quotes the price of a plan and returns the method that runs it.

``mechanism_choice`` picks a method: ``top_k`` (with ``unknown`` for keys without a domain), ``threshold``,
``whole_domain`` or ``every_count`` (``shown`` is what a selection shows of these); ``options`` checks what
was asked for. ``method`` has the types, ``measuring`` the numbers of selected groups, ``table`` the rows,
``different_values`` how many declared values there are, ``numbers`` what EXPLAIN says of each number,
``outside`` that of the rows in no group, ``sources`` and ``noises`` what numbers are made of. ``refine``
releases a count again with less noise. ``error_target`` finds the epsilon of a statement that asks for an
error, or has the connection's.
"""

from dpsql.answers.bound_search import BoundSearches
from dpsql.answers.cut_values import left_out_sentences, with_left_out
from dpsql.answers.error_target import by_default_error, least_epsilon
from dpsql.answers.excess_words import merge_properties, to_be_found
from dpsql.answers.mechanism_choice import choose, considered
from dpsql.answers.method import AtDistance, Considered, Method, NoisyResult, Quote
from dpsql.answers.noises import noises_of
from dpsql.answers.outside import outside_of, sentences_of
from dpsql.answers.quantiles import with_ends
from dpsql.answers.shown import COVERS_LESS, WIDE, by_noise
from dpsql.answers.table import details, doubles, rows, together

__all__ = [
    "COVERS_LESS",
    "WIDE",
    "AtDistance",
    "BoundSearches",
    "Considered",
    "Method",
    "NoisyResult",
    "Quote",
    "by_default_error",
    "by_noise",
    "choose",
    "considered",
    "details",
    "doubles",
    "least_epsilon",
    "left_out_sentences",
    "merge_properties",
    "noises_of",
    "outside_of",
    "rows",
    "sentences_of",
    "to_be_found",
    "together",
    "with_ends",
    "with_left_out",
]
