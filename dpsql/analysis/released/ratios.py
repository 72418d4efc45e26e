"""Cut ratios of a part and a whole to what they can be: from 0 to 1.

`COUNT(*) FILTER (WHERE p) / COUNT(*)` of noisy counts may lie below 0 or above 1, where no share is. The cut
reads released numbers alone, so it costs nothing, and it only brings the ratio nearer to the truth. It is
written as a CASE, since a ratio that is NULL stays NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from dpsql.analysis.compiler import function_name
from dpsql.analysis.parsed import call_arguments
from dpsql.language import all_of, copied, keep_title, transformed, walked
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_CUT = "cut"
"""The mark of a division around which the cut stands already."""
_COUNTS = {"count": False, "count_if": True, "countif": True}
"""The functions that count rows, and whether their argument is a condition."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a call counts: the rows, or the different values, that meet all of some conditions."""

    call: tuple[exp.Expr, ...]
    """What tells counts of different things apart: the argument of DISTINCT, and the bounds."""
    conditions: tuple[exp.Expr, ...]


def with_cut_ratios(select: exp.Select) -> exp.Select:
    """Return a block with its ratios of a part and a whole cut; one without any is returned as it is."""
    counts = _aliases(select)
    if not any(_end(_written(node, counts)) is not None for node in _divisions(select)):
        return select
    changed = copied(select)
    for node in _divisions(changed):
        end = _end(_written(node, counts))
        if end is not None:
            node.replace(keep_title(node, cut(node, end)))
    return changed


def _aliases(select: exp.Select) -> dict[str, exp.Expr]:
    """Return the counts of a select list by their folded aliases, without those that a key is called."""
    group = select.args.get("group")
    keys = {fold(each.name) for each in all_of(group, exp.Column)} if group is not None else set[str]()
    listed = [item for item in select.expressions if isinstance(item, exp.Alias)]
    return {
        fold(item.alias): item.this
        for item in listed
        if fold(item.alias) not in keys and _counted(_bare(item.this)) is not None
    }


def _written(node: exp.Div, counts: Mapping[str, exp.Expr]) -> exp.Div:
    """Return a division with counts in the place of their aliases."""
    if not counts:
        return node

    def named(each: exp.Expr) -> exp.Expr:
        known = isinstance(each, exp.Column) and not each.table
        found = counts.get(fold(each.name)) if known else None
        return each if found is None else copied(found)

    made = transformed(node, named)
    return made if isinstance(made, exp.Div) else node


def cut(ratio: exp.Expr, end: Fraction) -> exp.Expr:
    """Return a ratio cut to lie between 0 and another number."""
    ratio = copied(ratio)
    ratio.meta[_CUT] = True
    zero, other = exp.Literal.number(0), _literal(end)
    low, high = (zero, other) if end > 0 else (other, zero)
    branches = [
        exp.If(this=exp.LT(this=exp.paren(copied(ratio)), expression=copied(low)), true=copied(low)),
        exp.If(this=exp.GT(this=exp.paren(copied(ratio)), expression=copied(high)), true=copied(high)),
    ]
    return exp.Paren(this=exp.Case(ifs=branches, default=exp.paren(copied(ratio))))


def _literal(number: Fraction) -> exp.Expr:
    whole = number.denominator == 1
    literal = exp.Literal.number(str(abs(number.numerator)) if whole else repr(float(abs(number))))
    return literal if number > 0 else exp.Paren(this=exp.Neg(this=literal))


def _divisions(select: exp.Select) -> list[exp.Div]:
    """Return the divisions in the parts of a block that may hold aggregates, none inside another."""
    parts = [*select.expressions, *(select.args.get(name) for name in ("having", "qualify", "order"))]
    nodes = [node for part in parts if part is not None for node in walked(part, is_inner_query)]
    return [node for node in nodes if isinstance(node, exp.Div) and not node.meta.get(_CUT)]


def is_inner_query(node: exp.Expr) -> bool:
    """Return whether a node is a query of its own, whose aggregates are not those of the block."""
    return isinstance(node, (exp.Query, exp.Subquery))


def _end(node: exp.Div) -> Fraction | None:
    """Return what the ratio is where the part is the whole; None for ratios of other numbers."""
    factor, part = _scaled(node.this)
    whole = _bare(node.expression)
    if (function_name(whole) or "").lower() == "nullif" and len(whole.expressions) == 2:
        whole = _bare(whole.expressions[0])
    counted = _counted(part)
    if counted is None:
        return None
    if isinstance(whole, exp.Window):
        return factor if _total_of(whole, part) else None
    other = _counted(whole)
    if other is None or counted.call != other.call or counted == other:
        return None
    return factor if all(_implied(each, counted.conditions) for each in other.conditions) else None


def _scaled(node: exp.Expr) -> tuple[Fraction, exp.Expr]:
    """Return a positive constant factor, 1 if there is none, and what it multiplies."""
    node = _bare(node)
    if isinstance(node, exp.Mul):
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            number = _bare(one)
            if isinstance(number, exp.Literal) and not number.is_string and Fraction(str(number.this)) > 0:
                factor, inner = _scaled(other)
                return Fraction(str(number.this)) * factor, inner
    return Fraction(1), node


def _bare(node: exp.Expr) -> exp.Expr:
    """Return an expression without parentheses and conversions to fractional numbers."""
    node = node.unnest()
    while isinstance(node, exp.Cast) and node.args["to"].this in exp.DataType.REAL_TYPES:
        node = node.this.unnest()
    return node


def _counted(node: exp.Expr) -> _Counted | None:
    """Return what a call counts; None for other expressions."""
    where = node.expression.this if isinstance(node, exp.Filter) else None
    call = node.this if isinstance(node, exp.Filter) else node
    condition = _COUNTS.get((function_name(call) or "").lower())
    if condition is None or not isinstance(call, exp.Anonymous):
        return None
    bounds, arguments = call_arguments(call)
    if len(arguments) > 1 or (condition and not arguments):
        return None
    conditions = [*_conjuncts(where)]
    if condition:
        conditions += _conjuncts(arguments[0])
    elif arguments and isinstance(arguments[0], exp.Distinct):
        return _Counted((arguments[0], *bounds), tuple(conditions))
    elif arguments and not isinstance(arguments[0], exp.Star):
        conditions.append(exp.Not(this=exp.Is(this=arguments[0].copy(), expression=exp.Null())))
    return _Counted(tuple(bounds), tuple(conditions))


def _conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return [*_conjuncts(node.this), *_conjuncts(node.expression)]
    return [node]


def _implied(condition: exp.Expr, conditions: tuple[exp.Expr, ...]) -> bool:
    """Return whether a condition is among others, or says that one of them is not NULL."""
    if condition in conditions:
        return True
    inner = condition.this.unnest() if isinstance(condition, exp.Not) else None
    there = isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null)
    return there and inner is not None and inner.this.unnest() in conditions


def _total_of(window: exp.Window, part: exp.Expr) -> bool:
    """Return whether a window sums a count over all rows of its partition."""
    call = window.this
    plain = not any(window.args.get(name) for name in ("order", "spec", "alias"))
    summed = (function_name(call) or "").lower() == "sum" and len(call.expressions) == 1
    return plain and summed and _bare(call.expressions[0]) == part
