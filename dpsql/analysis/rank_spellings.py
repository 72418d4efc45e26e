"""Selections spelled by a rank: ARG_MAX over counted groups, QUALIFY ROW_NUMBER."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.analysis.compiler import check_arguments, function_name, read_whole_number
from dpsql.language import StatementText, copy_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

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


def read_ranked_partitions(
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
    k = read_whole_number(bound)
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


_ARG_MAX = frozenset({"arg_max", "argmax", "max_by"})


@dataclass(frozen=True, slots=True)
class RewrittenSelect:
    """A SELECT with ORDER BY .. LIMIT, its original spelling ("" if unchanged), and its only output item."""

    select: exp.Select
    spelling: str = ""
    only: tuple[int, str] | None = None
    """Place in the select list, and the name it gets."""


def rewrite_selection(source: StatementText, select: exp.Select) -> RewrittenSelect:
    """Return the equivalent SELECT with ORDER BY .. LIMIT."""
    found = _rewrite_arg_max(source, select)
    if found is not None:
        return found
    qualify = select.args.get("qualify")
    if qualify is not None and not _is_by_partition(select, qualify.this):
        return RewrittenSelect(_rewrite_qualify(source, select), "QUALIFY ROW_NUMBER")
    return RewrittenSelect(select)


def _rewrite_arg_max(source: StatementText, select: exp.Select) -> RewrittenSelect | None:
    """Rewrite SELECT ARG_MAX(item, n) FROM (SELECT item, COUNT(..) AS n .. GROUP BY item)."""
    if len(select.expressions) != 1:
        return None
    item = select.expressions[0]
    call = item.this if isinstance(item, exp.Alias) else item
    if (function_name(call) or "").lower() not in _ARG_MAX:
        return None
    name = (function_name(call) or "").upper()
    hint = (
        f"SELECT {name}(page, n) FROM (SELECT page, COUNT(DISTINCT user_id) AS n FROM visits GROUP BY page)"
    )
    check_arguments(source, select, frozenset({"expressions", "from_", "with_"}))
    inner = select.args["from_"].this if select.args.get("from_") is not None else None
    if (
        not isinstance(inner, exp.Subquery)
        or not isinstance(inner.this, exp.Select)
        or len(call.expressions) != 2
    ):
        raise source.refuse(f"{name} is supported only over a subquery that counts groups", call, hint)
    check_arguments(source, inner, frozenset({"this", "alias"}))
    block = copy_tree(inner.this)
    for part in ("order", "limit", "having", "qualify", "distinct"):
        if block.args.get(part) is not None:
            raise source.refuse(
                f"{name} is supported only over a subquery that counts groups", block.args[part], hint
            )
    wanted, by = (_find_place(source, block, c) for c in call.expressions)
    if select.args.get("with_") is not None:
        if block.args.get("with_") is not None:
            raise source.refuse("write the common table expressions in one place", block.args["with_"])
        block.set("with_", copy_tree(select.args["with_"]))
    alias = item.alias if isinstance(item, exp.Alias) else f"{name.lower()}_{call.expressions[0].name}"
    block.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(by + 1), desc=True)]))
    block.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    return RewrittenSelect(block, "ARG_MAX over counted groups", (wanted, alias))


def _is_by_partition(select: exp.Select, condition: exp.Expr) -> bool:
    """Return whether a condition keeps the largest groups of each partition."""
    named = {fold(item.alias): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    return read_ranked_partitions(condition, lambda node: named.get(fold(node.name))) is not None


def _find_place(source: StatementText, block: exp.Select, node: exp.Expr) -> int:
    """Return the place of a column in the inner select list."""
    for i, item in enumerate(block.expressions):
        if isinstance(node, exp.Column) and fold(item.alias_or_name) == fold(node.name):
            return i
    raise source.refuse("this is not a column of the inner select list", node)


def _rewrite_qualify(source: StatementText, select: exp.Select) -> exp.Select:
    """Rewrite QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= k."""
    hint = "QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 10"
    clause = select.args["qualify"]
    condition = clause.this
    if not isinstance(condition, (exp.LTE, exp.LT, exp.EQ)):
        raise source.refuse("QUALIFY may only keep the first k rows by a count", clause, hint)
    window, bound = condition.this, condition.expression
    if (
        not isinstance(window, exp.Window)
        or (function_name(window.this) or "").lower() != "row_number"
        or not isinstance(bound, exp.Literal)
        or not str(bound.this).isdecimal()
    ):
        raise source.refuse("QUALIFY may only keep the first k rows by a count", clause, hint)
    if window.args.get("partition_by"):
        raise source.refuse(
            "the first k rows of each partition cannot be selected: a statement has one ranking", window, hint
        )
    check_arguments(source, window, frozenset({"this", "order", "over", "partition_by"}))
    order = window.args.get("order")
    if order is None or select.args.get("order") is not None or select.args.get("limit") is not None:
        raise source.refuse("QUALIFY may only keep the first k rows by a count", clause, hint)
    k = int(bound.this) - isinstance(condition, exp.LT)
    if k < 1 or (isinstance(condition, exp.EQ) and k != 1):
        raise source.refuse("QUALIFY may only keep the first k rows by a count", clause, hint)
    block = copy_tree(select)
    block.set("qualify", None)
    block.set("order", exp.Order(expressions=[copy_tree(term) for term in order.expressions]))
    block.set("limit", exp.Limit(expression=exp.Literal.number(k)))
    return block
