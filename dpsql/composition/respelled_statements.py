"""Write other spellings of releases in a statement as releases, each on the tree of the one before."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiler import read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.chosen_public_rows import with_chosen_public_rows
from dpsql.composition.equivalent_blocks import with_counts
from dpsql.composition.found_values import with_found_values
from dpsql.composition.lists_of_values import with_lists
from dpsql.composition.pair_statistics import write_pair_statistics
from dpsql.composition.values_of_rows import with_clock, with_covered, with_distinct_rows
from dpsql.language import Query, copy_tree, find_nodes


def respell_statement(query: Query, provenance: Provenance) -> Query:
    """Return a statement with releases in the place of other spellings of them, in a copy of its tree."""
    policy, tree = provenance.policy, write_pair_statistics(copy_tree(query.tree))
    if query.options.as_of is not None:
        tree = with_clock(tree, query.options.as_of)
    tree = tree if query.inner else with_counts(tree, policy)
    selects = find_nodes(tree, exp.Select)
    for select in selects:
        offset = select.args.get("offset")
        if offset is not None and read_whole_number(offset.expression) == 0:
            select.set("offset", None)
    nested = len(selects) > 1
    if nested and any(table.covers for table in policy.tables.values()):
        tree = with_covered(tree, policy)
    if nested and find_nodes(tree, exp.Window):
        from dpsql.composition.rank_quantiles import with_quantiles  # noqa: PLC0415  few statements have ranks
        from dpsql.composition.tiles_of_rows import with_tiles  # noqa: PLC0415  few have tiles

        tree = with_tiles(replace(query, tree=with_quantiles(replace(query, tree=tree))), provenance)
    if nested:
        from dpsql.composition.values_by_key import with_values_by_key  # noqa: PLC0415  most have one SELECT

        tree = with_values_by_key(replace(query, tree=tree), provenance)
    distinct = find_nodes(tree, exp.Distinct)
    values = [value for each in distinct for value in each.expressions]
    if (nested and distinct) or not all(isinstance(value, exp.Column) for value in values):
        tree = with_distinct_rows(replace(query, tree=tree), provenance)
    if nested and find_nodes(tree, exp.Group, exp.SetOperation):
        from dpsql.composition.counted_groups import with_few_groups  # noqa: PLC0415  as above

        tree = with_few_groups(replace(query, tree=tree), provenance)
    query = with_lists(replace(query, tree=tree), provenance)
    tree = query.tree
    found = find_nodes(tree, exp.In, exp.Exists, exp.Join)
    listing = any(isinstance(node, exp.In) and node.args.get("query") is not None for node in found)
    if listing or any(isinstance(node, exp.Exists) or node.args.get("side") for node in found):
        query = replace(query, tree=with_chosen_public_rows(query, provenance))
    if listing:
        query = with_found_values(query, provenance)
    return query
