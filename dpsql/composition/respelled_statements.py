"""Write other spellings of releases in a statement as releases, each on the tree of the one before."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.analysis.compiler import call_name, read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.equivalent_blocks import with_counts
from dpsql.composition.found_values import with_different_rows
from dpsql.composition.lists_of_values import with_lists
from dpsql.language import Query, copy_tree, fill_form, find_nodes, keep_title, make_presence, walk_tree
from dpsql.lazy_dataclass import replace

_PARTS = {
    "MY": "AVG(y) FILTER (WHERE c)",
    "MX": "AVG(x) FILTER (WHERE c)",
    "VY": "VAR_POP(y) FILTER (WHERE c)",
    "VX": "VAR_POP(x) FILTER (WHERE c)",
    "N": "COUNT(*) FILTER (WHERE c)",
}
_COVARIANCE = "(AVG((p) * (q)) FILTER (WHERE c) - {MY} * {MX})"
_SLOPE = "(CASE WHEN {VX} > 0 THEN {C} / {VX} END)"
_R = "(CASE WHEN {VX} > 0 AND {VY} > 0 THEN GREATEST(-1, LEAST(1, {C} / SQRT({VX} * {VY}))) END)"
FORMULAS: Mapping[str, str] = {
    "covar_pop": "{C}",
    "covar_samp": "(CASE WHEN {N} > 1 THEN {C} * {N} / ({N} - 1) END)",
    "corr": _R,
    "regr_r2": f"({_R} * {_R})",
    "regr_slope": _SLOPE,
    "regr_intercept": f"({{MY}} - {_SLOPE} * {{MX}})",
    "regr_avgx": "{MX}",
    "regr_avgy": "{MY}",
    "regr_count": "{N}",
    "regr_sxx": "({VX} * {N})",
    "regr_syy": "({VY} * {N})",
    "regr_sxy": "({C} * {N})",
}
"""What each statistic of `(y, x)` is, of the rows that meet `c`."""


def write_pair_statistics(tree: exp.Query) -> exp.Query:
    """Return a statement whose statistics of two expressions are written by their moments; it is changed.

    Each moment is released: means, variances and the mean of the product. CORR is cut to -1 and 1; where a
    noisy variance is not above 0, what divides by it is NULL.
    """
    for node in find_nodes(tree, exp.Anonymous):
        formula = FORMULAS.get(call_name(node))
        arguments = node.expressions
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        if formula is None or len(arguments) != 2 or isinstance(whole.parent, exp.Window):
            continue
        if any(
            isinstance(argument, (exp.Distinct, exp.Order, exp.Kwarg, exp.Star)) for argument in arguments
        ):
            continue
        y, x = arguments
        # In one order, so that statistics of x and y, and of y and x, share their moments.
        p, q = sorted(arguments, key=lambda each: each.sql())
        there: list[exp.Expr] = [make_presence(p), make_presence(q)]
        if isinstance(whole, exp.Filter):
            there.append(exp.Paren(this=copy_tree(whole.expression.this)))
        text = formula.format(C=_COVARIANCE.format(**_PARTS), **_PARTS)
        made = fill_form(text, {"y": y, "x": x, "p": p, "q": q, "c": exp.and_(*there, copy=False)})
        for each in find_nodes(made, exp.Anonymous):
            each.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end", "line", "col")})
        whole.replace(keep_title(whole, made))
    return tree


def respell_statement(query: Query, provenance: Provenance) -> Query:
    """Return a statement with releases in the place of other spellings of them, in a copy of its tree."""
    policy, tree = provenance.policy, copy_tree(query.tree)
    nodes = walk_tree(tree)
    if any(call_name(node) in FORMULAS for node in nodes):
        nodes = walk_tree(write_pair_statistics(tree))
    if query.options.as_of is not None:
        from dpsql.composition.values_of_rows import with_clock  # noqa: PLC0415  few are as of a day

        nodes = walk_tree(with_clock(tree, query.options.as_of))
    selects = [node for node in nodes if isinstance(node, exp.Select)]
    if len(selects) > 1 and not query.inner:
        nodes = walk_tree(with_counts(tree, policy))
        selects = [node for node in nodes if isinstance(node, exp.Select)]
    for select in selects:
        offset = select.args.get("offset")
        if offset is not None and read_whole_number(offset.expression) == 0:
            select.set("offset", None)
    if any(join.args.get("side") for join in find_nodes(tree, exp.Join)):
        from dpsql.composition.public_values import with_public_values  # noqa: PLC0415  few have outer joins
        from dpsql.composition.values_by_key import with_anti_joins  # noqa: PLC0415  as above

        tree = with_public_values(with_anti_joins(tree, policy), provenance)
    if any(select.args.get("distinct") is not None for select in selects) and find_nodes(tree, exp.Window):
        from dpsql.composition.respelled_groups import with_groups_of_windows  # noqa: PLC0415  few have both

        tree = with_groups_of_windows(tree, provenance)
    nested = len(selects) > 1
    if nested:
        tree = _respell_nested(replace(query, tree=tree), provenance)
    distinct = find_nodes(tree, exp.Distinct) if nested else [n for n in nodes if isinstance(n, exp.Distinct)]
    values = [value for each in distinct for value in each.expressions]
    if nested or not all(isinstance(value, exp.Column) for value in values):
        from dpsql.composition.values_of_rows import with_distinct_rows  # noqa: PLC0415  few have DISTINCT rows

        tree = with_distinct_rows(replace(query, tree=tree), provenance)
    if nested and find_nodes(tree, exp.Group, exp.SetOperation):
        from dpsql.composition.counted_groups import with_few_groups  # noqa: PLC0415  as above

        tree = with_few_groups(replace(query, tree=tree), provenance)
    query = with_lists(with_different_rows(replace(query, tree=tree), provenance), provenance)
    tree = query.tree
    found = find_nodes(tree, exp.In, exp.Exists, exp.Join)
    listing = any(isinstance(node, exp.In) and node.args.get("query") is not None for node in found)
    if listing or any(isinstance(node, exp.Exists) or node.args.get("side") for node in found):
        from dpsql.composition.chosen_public_rows import with_chosen_public_rows  # noqa: PLC0415  as above
        from dpsql.composition.found_values import with_found_values  # noqa: PLC0415  as above

        query = with_found_values(replace(query, tree=with_chosen_public_rows(query, provenance)), provenance)
    return query


def _respell_nested(query: Query, provenance: Provenance) -> exp.Query:
    """Return a statement with releases in the place of spellings that take several SELECTs; it is changed."""
    tree: exp.Query = query.tree
    if find_nodes(tree, exp.Having):
        from dpsql.composition.respelled_groups import with_largest_groups  # noqa: PLC0415  few have such a HAVING

        tree = with_largest_groups(tree)
    from dpsql.composition.values_of_rows import with_constants, with_covered  # noqa: PLC0415  as below

    if any(table.covers for table in provenance.policy.tables.values()):
        tree = with_covered(tree, provenance.policy)
    tree = with_constants(tree)
    if find_nodes(tree, exp.All, exp.Any):
        from dpsql.composition.values_of_rows import with_quantified  # noqa: PLC0415  few compare so

        tree = with_quantified(tree)
    if find_nodes(tree, exp.Window):
        from dpsql.composition.compared_numbers import with_values_of_windows  # noqa: PLC0415  as above
        from dpsql.composition.rank_quantiles import with_quantiles  # noqa: PLC0415  few statements have ranks
        from dpsql.composition.tiles_of_rows import with_tiles  # noqa: PLC0415  few have tiles

        tree = with_tiles(replace(query, tree=with_quantiles(replace(query, tree=tree))), provenance)
        tree = with_values_of_windows(tree, provenance)
    if find_nodes(tree, exp.Window, exp.Limit):
        from dpsql.composition.sums_of_first_rows import with_first_rows  # noqa: PLC0415  as above

        tree = with_first_rows(replace(query, tree=tree), provenance)
    from dpsql.composition.values_by_key import with_values_by_key  # noqa: PLC0415  most have one SELECT

    return with_values_by_key(replace(query, tree=tree), provenance)
