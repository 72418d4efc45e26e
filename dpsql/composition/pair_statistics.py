"""Write CORR, COVAR and REGR of two expressions as what their moments are, over the rows that have both.

Each moment is released: means, variances and the mean of the product. CORR is cut to -1 and 1; where a noisy
variance is not above 0, what divides by it is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.analysis.compiler import function_name
from dpsql.language import copy_tree, fill_form, find_nodes, keep_title

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
    """Return a statement whose statistics of two expressions are written by their moments; it is changed."""
    for node in find_nodes(tree, exp.Anonymous):
        formula = FORMULAS.get((function_name(node) or "").lower())
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
        there: list[exp.Expr] = [
            exp.Not(this=exp.Is(this=copy_tree(each), expression=exp.Null())) for each in (p, q)
        ]
        if isinstance(whole, exp.Filter):
            there.append(exp.Paren(this=copy_tree(whole.expression.this)))
        text = formula.format(C=_COVARIANCE.format(**_PARTS), **_PARTS)
        made = fill_form(text, {"y": y, "x": x, "p": p, "q": q, "c": exp.and_(*there, copy=False)})
        for each in find_nodes(made, exp.Anonymous):
            each.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end", "line", "col")})
        whole.replace(keep_title(whole, made))
    return tree
