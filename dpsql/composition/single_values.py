"""Refuse subqueries in the place of one value that have several rows, as far as public values tell.

DuckDB fails on them when it computes the outer query: then the releases that it reads are charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.composition.existence import aggregates
from dpsql.language import AllGroups, Query, TopK, find_nodes, list_given
from dpsql.policy import fold

if TYPE_CHECKING:
    from dpsql.analysis import Plan

_NO_VALUE = (exp.From, exp.Join, exp.In, exp.Exists, exp.All, exp.Any, exp.SetOperation, exp.CTE, exp.Lateral)
"""What a subquery stands in that is not in the place of a value."""


def refuse_several_rows(query: Query, outer: exp.Query, plans: Mapping[str, Plan]) -> None:
    """Refuse a subquery in the place of a value that has a row of each of several declared groups."""
    for sub in find_nodes(outer, exp.Subquery):
        inner = sub.this
        if isinstance(sub.parent, _NO_VALUE) or not isinstance(inner, exp.Select):
            continue
        if list_given(inner) - {"expressions", "from_"} or aggregates(inner):
            continue
        plan = plans.get(fold(inner.args["from_"].this.name)) if inner.args.get("from_") else None
        if plan is None or plan.domain_size is None or not isinstance(plan.selection, (AllGroups, TopK)):
            continue
        most = plan.selection.k if isinstance(plan.selection, TopK) else plan.selection.limit
        size = plan.domain_size - plan.outside
        if min(size, size if most is None else most) > 1:
            raise query.source.refuse(
                f"a subquery in the place of a value has one row, and this one has {size:,} groups",
                plan.query.tree.args.get("group"),
                "leave GROUP BY out, or choose one group in WHERE",
            )
