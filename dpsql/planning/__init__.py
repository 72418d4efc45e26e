"""Propose how a plan is answered: choose a mechanism, divide epsilon, predict errors, run it on counts.

Nothing here decides what is private or what is charged: the kernel checks each run against its price.

=======================  ==================================================================================
``method``               what a `Method` is: it quotes a price and errors, and runs once
``mechanism_choice``     picks a method, and the epsilon of a statement that asks for an error
``mechanism_rules``      the candidates of each kind of selection, and the rules of AUTO
``plan_requests``        what a plan asks for: numbers, levels of confidence, options that fit together
``noise_shares``         divides epsilon or a cost among numbers; Laplace and Gaussian noise of a share
``measuring``            the numbers of groups that are already selected
``top_k_selection``      the largest groups of a domain; ``threshold_selection`` those above a threshold
``unknown_keys``         groups of keys without a declared domain
``stable_selections``    exact answers that no unit could change, or none
``all_groups``           all groups of a public domain, of which ``shown_groups`` are shown
``divided_methods``      methods for each share of epsilon, and for each partition
``column_values``        quantiles of a column, and how many different values it has
``bound_search``         finds bounds; ``measured_excess`` and ``excess_noise`` measure what is beyond them
``cut_intervals``        what bounds cut, in intervals and words; ``left_out`` as kept ladders know it
``result_table``         the columns of an answer and the details beside them
=======================  ==================================================================================
"""

from __future__ import annotations

from dpsql.planning.column_values import add_sentence_on_ends
from dpsql.planning.cut_intervals import describe_bounds_to_find, merge_properties, say_of_columns
from dpsql.planning.left_out import left_out_sentences, widen_by_left_out
from dpsql.planning.mechanism_choice import (
    choose,
    least_epsilon,
    needs_few_counts,
    options_of_default_error,
    quote_candidates,
)
from dpsql.planning.method import AtDistance, Considered, Method, NoisyResult, Quote
from dpsql.planning.result_table import (
    build_details,
    build_rows,
    ends_at_once,
    noises_of,
    outside_of,
    sentences_of,
    to_doubles,
)
from dpsql.planning.shown_groups import COVERS_LESS, WIDE, describe_empty, keep_clear, selects_by_noise
from dpsql.planning.stable_selections import StableList
