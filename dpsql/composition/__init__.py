"""Statements of several parts: release blocks, and one outer query over what they release.

========================  ===============================================================================
``planner``               prepares a statement: calls all that parses, analyses and prices it, of which
                          ``planned_count``, ``prepared`` and ``refining`` have the results; it keeps
                          them in ``kept_plans``; ``analysed_blocks`` analyses each of its blocks once
``statement_parts``       takes a statement apart into release blocks and an outer query, by the ``kinds``
                          of its blocks; ``equivalent_blocks`` and ``release_blocks`` put them into other
                          forms
``respelled_statements``  writes other spellings of releases as releases, such as CORR, COVAR and REGR:
                          ``grouping_sets`` those of GROUP BY, ``rank_quantiles`` ranks that
                          stand for quantiles, ``tiles_of_rows`` NTILE over all rows,
                          ``values_of_rows`` subqueries over private rows, ``values_by_key`` those of
                          all rows with the key of a row, ``compared_numbers`` joins and windows
                          that are such, ``public_values`` different public values beside private
                          counts, ``found_values`` lists of values
                          and SELECT DISTINCT, ``joined_keys`` joins with released groups
                          by their key, ``counted_groups`` numbers of groups, which it finds in set
                          operations and ``groups_of_joins`` in joins, ``sums_of_first_rows`` sums over the
                          first rows in an order, ``respelled_groups`` groups by
                          DISTINCT of windows and the largest one by HAVING, ``lists_of_values`` MODE,
                          STRING_AGG and lists of quantiles
``checked_numbers``       what a CHECK statement counts, ``planned_answers`` what it answers;
                          ``asked_checks`` asks one check of a lasting stream, or one question of exact
                          answers, of the stream's parts of units; ``first_stable`` lists of statements
                          of which one is answered exactly;
                          ``model_numbers`` has what models expect, ``boards`` makes checks of scores that
                          are compared with the best; ``prepared_streams`` prepares statements of streams,
                          also of what the ledger keeps of them, ``explained_streams`` is EXPLAIN of them
``block``                 divides a release block into what is counted and a SELECT over the released rows;
                          ``block_clauses`` reads HAVING, QUALIFY, ORDER BY and LIMIT, ``block_columns``
                          what they name
``chosen_public_rows``    counts public rows that private values choose; ``values_by_key`` reads EXISTS
                          as the list of these values
``quotients_of_sums``     writes averages beside a sum of the same values as quotients, where that is closer;
                          ``sums_of_buckets`` sums by buckets of the summed value, ``centred_averages``
                          an average without bounds as a centre and the average distance from it
``placed_marks``          puts marks of released values into the blocks that read them
``existence``             decides which groups exist for the outer query; ``half_way_thresholds`` where its
                          thresholds lie
``running``               obtains the releases: those stored, and the others under one reservation
``added_releases``        adds answers up from stored releases; ``untold_cells`` says which rows have none
``composed_statements``   binds and runs the outer query
``derived``               the errors of columns that are computed from released numbers: ``hidden_columns``
                          and ``tracing`` follow them to terms of these (``released_terms``) by
                          ``expressions``, from which ``derived_columns`` computes intervals by the
                          laws of ``answer_numbers``
``selected``              of which releases the outer query shows rows because of their noise;
                          ``selecting`` follows it through its tree
``explain``               EXPLAIN, in ``release_words``; ``show_describe`` SHOW, DESCRIBE, columns of
                          answers
``refusals``              what a refused statement is told, also by the words of a question;
                          ``rewrites`` searches what would be accepted, at last without parts
                          (``left_out_parts``), ``unbound_statements`` why one does not bind, or may
                          fail; ``open_parameters`` the types of a statement's parameters
========================  ===============================================================================
"""

from dpsql.composition.running import Releasing
from dpsql.composition.statement_parts import Parts, ReleasePart, parts_of, release_blocks
