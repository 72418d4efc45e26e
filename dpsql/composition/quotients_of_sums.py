"""Write averages as quotients of a sum and a count, and sums by buckets of values, where that is closer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp

from dpsql.analysis.compiler import call_name, split_arguments
from dpsql.analysis.released.free_totals import AVERAGES
from dpsql.analysis.statement_shapes import Provenance
from dpsql.composition.analysed_blocks import AnalysedBlocks
from dpsql.composition.block import Separated, separate
from dpsql.language import TITLE, Query, copy_tree, fill_form, find_nodes, keep_title, title_of

_QUOTIENT = "(SUM(x){of} / NULLIF(COUNT(x){with_value}, 0))"
NUMBER = "NOT ISNAN(x)"
"""What no sum or average has among DOUBLEs, and COUNT counts."""


def separate_closer(
    whole: Query,
    analysed: AnalysedBlocks,
    name: str,
    *,
    readers: Sequence[exp.Select],
    asked: bool,
    provenance: Provenance,
) -> Separated:
    """Return what `separate` does, with averages and sums by buckets in forms that are closer."""
    over = partial(
        separate,
        policy=analysed.policy,
        catalog=analysed.catalog,
        name=name,
        readers=readers,
        asked=asked,
        analysed=analysed,
        provenance=provenance,
    )
    plain, rest = over(whole)
    closer = _write_quotients(whole, plain, analysed)
    if closer is not None:
        whole, (plain, rest) = closer, over(closer)
    if not find_nodes(whole.tree, exp.Case) or whole.tree.args.get("group") is None:
        return plain, rest
    from dpsql.composition.sums_of_buckets import find_sums_of_buckets, write_relative_sums  # noqa: PLC0415

    if not find_sums_of_buckets(whole):
        return plain, rest
    relative = write_relative_sums(whole, analysed.find_searched_sums(plain))
    return (plain, rest) if relative is None else over(relative)


def _write_quotients(whole: Query, plain: Query, analysed: AnalysedBlocks) -> Query | None:
    """Return a block with such averages written as quotients; None if it has none.

    `plain` is what is counted of the block as it is: its analysis says which of its averages are closer so.
    """
    if not any(is_average(node) for node in find_nodes(plain.tree, exp.Anonymous)):
        return None
    found = analysed.find_quotients(plain)
    if not found:
        return None
    tree = copy_tree(whole.tree)
    forms = [_form(node) for node, *_ in found]
    calls = [node for node in find_nodes(tree, exp.Anonymous) if is_average(node) and _form(node) in forms]
    for node in calls:
        some = node.parent if isinstance(node.parent, exp.Filter) else None
        conditions = ["(c)"] * (some is not None) + [NUMBER] * found[forms.index(_form(node))][1]
        of = "" if some is None else " FILTER (WHERE c)"
        with_value = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        bound = {"x": split_arguments(node)[1][0]} | ({} if some is None else {"c": some.expression.this})
        made = fill_form(_QUOTIENT.format(of=of, with_value=with_value), bound)
        for some_rows in find_nodes(made, exp.Filter):
            if call_name(some_rows.this) == "count":
                some_rows.meta[TITLE] = title_of(fill_form(f"COUNT(x){of}", bound))
        for each in find_nodes(made, exp.Anonymous):
            if "start" not in each.meta:
                each.meta.update({k: v for k, v in node.meta.items() if k in ("start", "end", "line", "col")})
        written = some or node
        written.replace(keep_title(written, made))
    return replace(whole, tree=tree) if calls else None


def is_average(node: exp.Expr) -> bool:
    """Return whether a node is a call of AVG over the rows of a group."""
    around = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
    return call_name(node) in AVERAGES and not isinstance(around, exp.Window)


def _form(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return what equal averages share: the call, and the condition of its FILTER."""
    return node, node.parent.expression if isinstance(node.parent, exp.Filter) else None
