"""Write an average without bounds as a centre c, and the average distance from it: `c + SUM(x - c)/COUNT(x)`.

A sum has noise for the largest total of a unit, and a quotient also that of the count, times the average.
Distances from a centre near the average have far smaller totals, and hardly any part of the count's noise.
The centre is the quotient of a sum and a count by a part of epsilon, a release that the other one reads as
a constant; several averages have one release of all their centres. Whatever it is, the formula is the
average, so that the centre has no interval: it is 0 where noise may have made it.
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
    make_select,
    name_query,
    title_of,
)

SHARES = {"pure": Fraction(1, 8), "zcdp": Fraction(1, 4)}
"""The part of a statement's epsilon for the centre; of a cost that is divided a quarter is a sixteenth."""
MOST = 4
"""The most averages of a statement that get one: with more of them each would have too little of it."""
_CENTRE = "(CASE WHEN COUNT(x){w} > 4 * DP_STDDEV(COUNT(x){w}) THEN SUM(x) / COUNT(x){w} ELSE 0 END)"
_CENTRED = "(c + SUM(x - c) / NULLIF(COUNT(x){w}, 0))"
_READ = frozenset({"expressions", "from_", "joins", "where", "kind"})
_POSITION = ("start", "end", "line", "col")


def with_centre(query: Query, kinds: Kinds, analysed: AnalysedBlocks) -> tuple[Query, Kinds]:
    """Return a statement that is one release without groups, with its averages in that form."""
    root, options, defaults = query.tree, query.options, analysed.defaults
    epsilon = options.epsilon or (defaults.epsilon if defaults.error is None else None)
    plain_options = replace(options, epsilon=None, delta=None, confidence=None, intervals=None, at={})
    plainly = plain_options == Options() and query.clause == Clause() and not (query.inner or kinds.values)
    plainly &= analysed.policy.engine == "duckdb"  # servers fail where a difference of DOUBLEs may overflow
    if not plainly or epsilon is None or [each.select for each in kinds.releases] != [root]:
        return query, kinds
    found = [] if list_given(root) - _READ else _find_alone(query, analysed)
    if not 0 < len(found) <= MOST:
        return query, kinds
    share = SHARES[analysed.policy.budget.accounting]
    tree, names = copy_tree(root), {call: f"c{at}" for at, (call, _) in enumerate(found)}
    values = {call: split_arguments(call)[1][0] for call in names}
    of_numbers = {call: f" FILTER (WHERE {NUMBER})" if double else "" for call, double in found}
    centres = exp.Select()
    for call, x in values.items():
        form = _with_titles(
            fill_form(_CENTRE.format(w=of_numbers[call]), {"x": x}), call, f"SUM({title_of(x)})"
        )
        centres.append("expressions", exp.alias_(form, names[call], quoted=True))
    copy_rows(kinds.releases[0].select, centres)
    centres.meta.update({"select": -2, CENTRE: True, EPSILON: Fraction(epsilon) * share})
    for node in find_nodes(tree, exp.Anonymous):
        if node not in names or isinstance(node.parent, exp.Filter):
            continue
        centre = make_select([exp.column(names[node], quoted=True)], name_query(copy_tree(centres), "s"))
        bound: dict[str, exp.Expr | str] = {"x": values[node], "c": exp.Subquery(this=centre)}
        made = _with_titles(fill_form(_CENTRED.format(w=of_numbers[node]), bound), node, title_of(node))
        find_nodes(made, exp.Sub)[0].meta[TITLE] = f"{title_of(values[node])} - {title_of(node)}"
        node.replace(keep_title(node, made))
    rest = replace(options, epsilon=Fraction(epsilon) * (1 - share))
    own = {-2: Clauses(Options(), has_options=True)}
    query = replace(query, tree=tree, options=rest, has_options=True, inner=own)
    return query, Kinds.of(query, kinds.provenance)


def _with_titles(made: exp.Expr, call: exp.Expr, title: str) -> exp.Expr:
    """Return a form of an average with the place of its call, and with names of its sum and its count."""
    for each in find_nodes(made, exp.Anonymous):
        if "start" not in each.meta:
            each.meta.update({key: at for key, at in call.meta.items() if key in _POSITION})
            of_count = f"COUNT({title_of(split_arguments(call)[1][0])})"
            each.meta[TITLE] = {"sum": title, "count": of_count}.get(
                call_name(each), f"DP_STDDEV({of_count})"
            )
    return made


def _find_alone(query: Query, analysed: AnalysedBlocks) -> list[tuple[exp.Expr, bool]]:
    """Return the averages of a block that distances are closer for, not beside the sum of the same values."""
    plain, _ = separate(replace(query, tree=copy_tree(query.tree)), analysed.policy, analysed.catalog, "c")
    calls = find_nodes(plain.tree, exp.Anonymous)
    sums = [split_arguments(each)[1] for each in calls if call_name(each) == "sum"]
    found = analysed.find_quotients(plain)
    return [
        (call, double)
        for call, double, distances in found
        if distances and not isinstance(call.parent, exp.Filter) and split_arguments(call)[1] not in sums
    ]
