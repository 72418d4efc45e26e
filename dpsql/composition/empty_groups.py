"""Refuse to count the groups of a release: all groups of a domain are released, also those without rows.

The same SQL over the rows themselves would not have those groups, and their noise does not tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.analysis.aggregates import call_of, calls
from dpsql.analysis.parsed import conjuncts
from dpsql.composition.kinds import Kind, Kinds

_UNCHANGED = frozenset({"sum", "max", "bool_or", "arg_max", "max_by", "argmax"})
"""Aggregates that groups with a count of zero do not change."""


def counted(kinds: Kinds) -> Iterator[tuple[exp.Expr, exp.Select]]:
    """Yield the aggregates that groups without rows would change, each with the release block it reads."""
    for outer in kinds.query.tree.find_all(exp.Select):
        if kinds.of_select.get(id(outer)) is not Kind.POST or outer.args.get("joins"):
            continue
        first = outer.args.get("from_")
        block = _release(first.this, kinds) if first is not None else None
        if block is None or _bounded(outer):
            continue
        for item in outer.expressions:
            for call in calls(item):
                if call_of(call) not in _UNCHANGED and not isinstance(call, exp.Filter):
                    yield call, block


def _release(node: exp.Expr, kinds: Kinds) -> exp.Select | None:
    """Return the release block that an item of FROM is; None for other items."""
    place = node.meta.get("cte")
    inner = kinds.ctes[place].query if place is not None else node.this
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    found = isinstance(inner, exp.Select) and kinds.of_select.get(id(inner)) is Kind.RELEASE
    return inner if found else None


def _bounded(outer: exp.Select) -> bool:
    """Return whether WHERE keeps only rows above some number."""
    where = outer.args.get("where")
    parts = conjuncts(where.this) if where is not None else []
    return any(isinstance(p, (exp.GT, exp.GTE)) and isinstance(p.expression, exp.Literal) for p in parts)
