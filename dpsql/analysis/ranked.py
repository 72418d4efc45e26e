"""Recognise the condition that keeps the largest groups of each partition, by a rank with PARTITION BY."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.analysis.compiler import function_name
from dpsql.analysis.parsed import whole_number
from dpsql.lazy_dataclass import dataclass

RANKS = frozenset({"row_number", "rank", "dense_rank"})
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE}


@dataclass(frozen=True, slots=True)
class RankedPartitions:
    """What a condition keeps: the first `k` groups of each partition, in an order."""

    window: exp.Expr
    keys: tuple[exp.Expr, ...]
    order: tuple[exp.Expr, ...]
    k: int
    name: str
    """The function that ranks. Noisy counts have no ties, so all of them rank alike."""


def ranked_partitions(
    condition: exp.Expr, named: Callable[[exp.Expr], exp.Expr | None] = lambda _: None
) -> RankedPartitions | None:
    """Return what a condition such as ROW_NUMBER() OVER (PARTITION BY p ORDER BY n DESC) <= 3 keeps.

    `named` returns the expression that a name stands for, which may be the window. The result is None for
    other conditions, also for ranks without PARTITION BY.
    """
    condition = condition.unnest()
    kind, rank, bound = type(condition), condition.args.get("this"), condition.args.get("expression")
    if isinstance(rank, exp.Literal):
        kind, rank, bound = _FLIPPED.get(kind, kind), bound, rank
    k = whole_number(bound)
    if kind not in (exp.LTE, exp.LT, exp.EQ) or k is None or not isinstance(rank, exp.Expr):
        return None
    k -= kind is exp.LT
    window = named(rank.unnest()) or rank
    window = window.unnest()
    if k < 1 or (kind is exp.EQ and k != 1) or not isinstance(window, exp.Window):
        return None
    name = (function_name(window.this) or "").lower()
    given = {argument for argument, value in window.args.items() if value}
    if name not in RANKS or given != {"this", "partition_by", "order", "over"}:
        return None
    order = tuple(window.args["order"].expressions)
    return RankedPartitions(window, tuple(window.args["partition_by"]), order, k, name)
