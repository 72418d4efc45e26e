"""Write an average without bounds as a centre c, and the average distance from it: `c + SUM(x - c)/COUNT(x)`.

A sum has noise for the largest total of a unit, and a quotient also that of the count, times the average.
Distances from a centre near the average have far smaller totals, and hardly any part of the count's noise.
The centre is the quotient of a sum and a count by an eighth of epsilon: a release that the other one reads
as a constant. Whatever it is, the formula is the average, so that the centre has no interval: it is 0 where
noise may have made it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiler import call_name, split_arguments
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.block import separate
from dpsql.composition.kinds import CENTRE, EPSILON, Kinds
from dpsql.composition.quotients_of_sums import NUMBER
from dpsql.language import (
    TITLE,
    Clause,
    Clauses,
    Options,
    Query,
    copy_rows,
    copy_tree,
    fill_form,
    find_nodes,
    keep_title,
    list_given,
    title_of,
)

SHARE = Fraction(1, 8)
"""The part of a statement's epsilon for the centre."""
_CENTRE = "(CASE WHEN COUNT(x){w} > 4 * DP_STDDEV(COUNT(x){w}) THEN SUM(x) / COUNT(x){w} ELSE 0 END)"
_CENTRED = "(c + SUM(x - c) / NULLIF(COUNT(x){w}, 0))"
_READ = frozenset({"expressions", "from_", "joins", "where", "kind"})
_POSITION = ("start", "end", "line", "col")


def with_centre(query: Query, kinds: Kinds, analysed: AnalysedBlocks) -> tuple[Query, Kinds]:
    """Return a statement that is one release without groups, with its average in that form if it has one."""
    root, options, defaults = query.tree, query.options, analysed.defaults
    epsilon = options.epsilon or (defaults.epsilon if defaults.error is None else None)
    plain_options = replace(options, epsilon=None, delta=None, confidence=None, intervals=None, at={})
    plainly = plain_options == Options() and query.clause == Clause() and not (query.inner or kinds.values)
    if not plainly or epsilon is None or [each.select for each in kinds.releases] != [root]:
        return query, kinds
    found = [] if list_given(root) - _READ else _find_alone(query, analysed)
    if len(found) != 1:
        return query, kinds
    ((call, double),) = found
    x, tree = split_arguments(call)[1][0], copy_tree(root)
    of_numbers = f" FILTER (WHERE {NUMBER})" if double else ""
    centre = exp.Select(expressions=[fill_form(_CENTRE.format(w=of_numbers), {"x": x})])
    copy_rows(kinds.releases[0].select, centre)
    centre.meta.update({"select": -2, CENTRE: True, EPSILON: Fraction(epsilon) * SHARE})
    for node in find_nodes(tree, exp.Anonymous):
        if node == call and not isinstance(node.parent, exp.Filter):
            made = fill_form(_CENTRED.format(w=of_numbers), {"x": x, "c": exp.Subquery(this=centre)})
            for each in find_nodes(made, exp.Anonymous):
                each.meta.update({k: v for k, v in node.meta.items() if k in _POSITION})
                each.meta[TITLE] = f"COUNT({title_of(x)})" if call_name(each) == "count" else title_of(node)
            find_nodes(made, exp.Sub)[0].meta[TITLE] = f"{title_of(x)} - {title_of(node)}"
            node.replace(keep_title(node, made))
    rest = replace(options, epsilon=Fraction(epsilon) * (1 - SHARE))
    own = {-2: Clauses(Options(), has_options=True)}
    query = replace(query, tree=tree, options=rest, has_options=True, inner=own)
    return query, Kinds.of(query, kinds.provenance)


def _find_alone(query: Query, analysed: AnalysedBlocks) -> list[tuple[exp.Expr, bool]]:
    """Return the quotients among the averages of a block that are not beside the sum of the same values."""
    plain, _ = separate(replace(query, tree=copy_tree(query.tree)), analysed.policy, analysed.catalog, "c")
    calls = find_nodes(plain.tree, exp.Anonymous)
    sums = [split_arguments(each)[1] for each in calls if call_name(each) == "sum"]
    found = analysed.find_quotients(plain)
    return [
        (call, double)
        for call, double in found
        if not isinstance(call.parent, exp.Filter) and split_arguments(call)[1] not in sums
    ]
