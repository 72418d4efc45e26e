"""Rewrite selections by ARG_MAX over counted groups or QUALIFY ROW_NUMBER to ORDER BY .. LIMIT."""

from __future__ import annotations

from sqlglot import exp

from dpsql.analysis.compiler import check_arguments, function_name
from dpsql.analysis.ranked import ranked_partitions
from dpsql.language import Source, copied
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_ARG_MAX = frozenset({"arg_max", "argmax", "max_by"})


@dataclass(frozen=True, slots=True)
class Spelled:
    """A SELECT with ORDER BY .. LIMIT, its original spelling ("" if unchanged), and its only output item."""

    select: exp.Select
    spelling: str = ""
    only: tuple[int, str] | None = None
    """Place in the select list, and the name it gets."""


def rewritten(source: Source, select: exp.Select) -> Spelled:
    """Return the equivalent SELECT with ORDER BY .. LIMIT."""
    found = _arg_max(source, select)
    if found is not None:
        return found
    qualify = select.args.get("qualify")
    if qualify is not None and not _partitioned(select, qualify.this):
        return Spelled(_qualify(source, select), "QUALIFY ROW_NUMBER")
    return Spelled(select)


def _arg_max(source: Source, select: exp.Select) -> Spelled | None:
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
    block = copied(inner.this)
    for part in ("order", "limit", "having", "qualify", "distinct"):
        if block.args.get(part) is not None:
            raise source.refuse(
                f"{name} is supported only over a subquery that counts groups", block.args[part], hint
            )
    wanted, by = (_place(source, block, c) for c in call.expressions)
    if select.args.get("with_") is not None:
        if block.args.get("with_") is not None:
            raise source.refuse("write the common table expressions in one place", block.args["with_"])
        block.set("with_", copied(select.args["with_"]))
    alias = item.alias if isinstance(item, exp.Alias) else f"{name.lower()}_{call.expressions[0].name}"
    block.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(by + 1), desc=True)]))
    block.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    return Spelled(block, "ARG_MAX over counted groups", (wanted, alias))


def _partitioned(select: exp.Select, condition: exp.Expr) -> bool:
    """Return whether a condition keeps the largest groups of each partition."""
    named = {fold(item.alias): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    return ranked_partitions(condition, lambda node: named.get(fold(node.name))) is not None


def _place(source: Source, block: exp.Select, node: exp.Expr) -> int:
    """Return the place of a column in the inner select list."""
    for i, item in enumerate(block.expressions):
        if isinstance(node, exp.Column) and fold(item.alias_or_name) == fold(node.name):
            return i
    raise source.refuse("this is not a column of the inner select list", node)


def _qualify(source: Source, select: exp.Select) -> exp.Select:
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
    block = copied(select)
    block.set("qualify", None)
    block.set("order", exp.Order(expressions=[copied(term) for term in order.expressions]))
    block.set("limit", exp.Limit(expression=exp.Literal.number(k)))
    return block
