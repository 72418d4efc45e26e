"""Determine the selection that a private SELECT asks for, from its clauses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.analysis.expressions import check_arguments, function_name
from dpsql.analysis.relation import fold
from dpsql.analysis.released import is_call, is_released
from dpsql.charge import exact
from dpsql.language import AboveThreshold, AllGroups, Scalar, Selection, TopK

if TYPE_CHECKING:
    from dpsql.analysis.relation import Item
    from dpsql.language import Clause, Query, Source

__all__ = ["parse_selection"]


@dataclass(frozen=True, slots=True)
class _Reader:
    source: Source
    items: list[Item]
    counts: tuple[int, ...]
    """Places of the counts in the select list."""
    hidden: list[exp.Expr]
    """Counts in ORDER BY or HAVING that are not selected; their places follow those of the select list."""

    def count_of(self, node: exp.Expr | None, at: exp.Expr | int | None, what: str) -> int:
        """Return the place of the count that a node refers to; without a node, of the only count."""
        if node is None:
            if len(self.counts) == 1:
                return self.counts[0]
            if not self.counts:
                raise self.source.refuse(
                    "the count that orders the groups is missing", at, "TOP 10 BY COUNT(DISTINCT user_id)"
                )
            raise self.source.refuse(f"there are several counts: say which one {what}", at, "TOP 10 BY n")
        place = self.maybe_count(node)
        if place is None:
            raise self.source.refuse(
                f"the value that {what} must be a count of the select list", node, "ORDER BY n DESC LIMIT 10"
            )
        return place

    def maybe_count(self, node: exp.Expr) -> int | None:
        """Return the place of the count that a node refers to; None if it refers to no count."""
        if isinstance(node, exp.Paren):
            return self.maybe_count(node.this)
        if isinstance(node, exp.Literal) and not node.args.get("is_string") and str(node.this).isdecimal():
            place = int(node.this) - 1
            return place if place in self.counts else None
        if isinstance(node, exp.Column) and not node.table:
            name = fold(node.name)
            return next((i for i in self.counts if fold(self.items[i].name) == name), None)
        if is_released(node):
            for i in self.counts:
                if self.items[i].node == node:
                    return i
            if node not in self.hidden:
                self.hidden.append(node)
            return len(self.items) + self.hidden.index(node)
        return None


def parse_selection(
    query: Query, select: exp.Select, items: list[Item]
) -> tuple[Selection, list[exp.Expr], list[exp.Expr]]:
    """Return the selection that a private SELECT asks for.

    Also return the counts that it uses but does not select, and the terms of its ORDER BY.
    """
    hidden: list[exp.Expr] = []
    return _read(query, select, items, hidden), hidden, _order(query.source, select)


def _read(query: Query, select: exp.Select, items: list[Item], hidden: list[exp.Expr]) -> Selection:
    counts = tuple(i for i, item in enumerate(items) if is_released(item.node))
    reader = _Reader(query.source, items, counts, hidden)
    order = _order(query.source, select)
    limit = _limit(query.source, select)
    threshold = _threshold(reader, select, query.clause)
    clause = query.clause
    grouped = select.args.get("group") is not None
    if not grouped:
        return _scalar(query.source, reader, select, order, limit, threshold)
    if clause.top is not None or clause.argmax:
        return _by_clause(reader, select, clause, order, limit, threshold)
    first = reader.maybe_count(order[0].this) if order else None
    if first is not None:
        return _by_order(reader, order, first, limit, threshold, select)
    for term in order:
        if any(is_call(n) or (function_name(n) or "").lower() in _AGGREGATE_WORDS for n in term.walk()):
            raise query.source.refuse("ORDER BY may name a count of the select list or a key", term)
    if threshold is not None:
        value, place, spelling = threshold
        if limit is None and query.options.base_hits is None:
            raise query.source.refuse(
                "a threshold needs LIMIT k: the noise depends on how many groups may pass",
                select.args.get("having") or clause.at,
                "add LIMIT 10",
            )
        return AboveThreshold(value, place, limit, (), spelling)
    return AllGroups((), limit)


_AGGREGATE_WORDS = frozenset({"sum", "avg", "min", "max", "median"})


def _order(source: Source, select: exp.Select) -> list[exp.Expr]:
    order = select.args.get("order")
    if order is None:
        return []
    check_arguments(source, order, frozenset({"expressions"}))
    for term in order.expressions:
        check_arguments(source, term, frozenset({"this", "desc", "nulls_first"}))
    return list(order.expressions)


def _limit(source: Source, select: exp.Select) -> int | None:
    if select.args.get("offset") is not None:
        raise source.refuse(
            "OFFSET is not supported: the groups it skips cost as much as those it shows",
            select.args["offset"],
            "ask for the top k",
        )
    limit = select.args.get("limit")
    if limit is None:
        return None
    check_arguments(source, limit, frozenset({"expression", "count", "direction", "limit_options"}))
    options = limit.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        raise source.refuse("LIMIT as a percentage depends on how many groups there are", limit, "LIMIT 10")
    if options is not None and options.args.get("with_ties"):
        raise source.refuse("WITH TIES depends on exact counts", limit, "FETCH FIRST 10 ROWS ONLY")
    if limit.args.get("direction") not in (None, "FIRST", "NEXT"):
        raise source.refuse("only FETCH FIRST is supported", limit)
    value = limit.args.get("expression") or limit.args.get("count")
    while isinstance(value, exp.Paren):
        value = value.this
    if value is None:
        value = exp.Literal.number(1)  # FETCH FIRST ROW ONLY
    if not isinstance(value, exp.Literal) or value.args.get("is_string") or not str(value.this).isdecimal():
        raise source.refuse("LIMIT needs a positive whole number", limit, "LIMIT 10")
    number = int(value.this)
    if not 1 <= number <= 10**9:
        raise source.refuse("LIMIT needs a positive whole number of at most 1,000,000,000", limit, "LIMIT 10")
    return number


def _threshold(reader: _Reader, select: exp.Select, clause: Clause) -> tuple[Fraction, int, str] | None:
    having = select.args.get("having")
    if having is None:
        if clause.threshold is None:
            return None
        return clause.threshold, reader.count_of(clause.by, clause.at, "is compared"), "ABOVE THRESHOLD"
    if clause.threshold is not None:
        raise reader.source.refuse("the threshold is given twice", having)
    node = having.this
    while isinstance(node, exp.Paren):
        node = node.this
    flipped = {exp.LTE: exp.GTE, exp.LT: exp.GT}
    left, right = node.args.get("this"), node.args.get("expression")
    kind: type[exp.Expr] = type(node)
    if kind in flipped:
        kind, left, right = flipped[kind], right, left  # t <= n
    number = _number(right) if right is not None else None
    place = reader.maybe_count(left) if isinstance(left, exp.Expr) else None
    if kind not in (exp.GT, exp.GTE) or number is None or place is None:
        raise reader.source.refuse(
            "HAVING may compare one count with a constant, from below", having.this, "HAVING n >= 100"
        )
    if kind is exp.GT:  # counts are whole numbers
        number = Fraction(math.floor(number) + 1)
    return number, place, "HAVING"


def _number(node: exp.Expr) -> Fraction | None:
    sign = 1
    while isinstance(node, (exp.Paren, exp.Neg)):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if not isinstance(node, exp.Literal) or node.args.get("is_string"):
        return None
    try:
        return sign * exact(str(node.this))
    except ValueError:
        return None


def _scalar(
    source: Source,
    reader: _Reader,
    select: exp.Select,
    order: list[exp.Expr],
    limit: int | None,
    threshold: tuple[Fraction, int, str] | None,
) -> Selection:
    if threshold is not None:
        raise source.refuse("a threshold selects groups and needs a GROUP BY", select.args.get("having"))
    if order or limit is not None:
        raise source.refuse(
            "ORDER BY and LIMIT select groups and need a GROUP BY",
            select.args.get("order") or select.args.get("limit"),
        )
    if not reader.counts:
        raise source.refuse(
            "a private table is only counted",
            select.expressions[0] if select.expressions else select,
            "select COUNT(DISTINCT unit), with GROUP BY and a selection such as ORDER BY n DESC LIMIT 10",
        )
    return Scalar()


def _by_clause(
    reader: _Reader,
    select: exp.Select,
    clause: Clause,
    order: list[exp.Expr],
    limit: int | None,
    threshold: tuple[Fraction, int, str] | None,
) -> Selection:
    source = reader.source
    if limit is not None:
        raise source.refuse("TOP k and LIMIT say the same: write one", select.args["limit"])
    by = clause.by
    if order:
        place = reader.maybe_count(order[0].this)
        if place is None or by is not None or not order[0].args.get("desc"):
            raise source.refuse(
                "TOP k already orders: leave ORDER BY out", select.args["order"], "TOP 10 BY n"
            )
        by = order[0].this
    place = reader.count_of(by, clause.at, "orders")
    if threshold is not None and threshold[1] != place:
        raise source.refuse("the threshold and the order are about different counts", clause.at)
    k = 1 if clause.argmax else clause.top or 1
    bound = threshold[0] if threshold is not None else None
    return TopK(k, place, threshold=bound, argmax=clause.argmax or k == 1, spelling=clause.spelling)


def _by_order(
    reader: _Reader,
    order: list[exp.Expr],
    place: int,
    limit: int | None,
    threshold: tuple[Fraction, int, str] | None,
    select: exp.Select,
) -> Selection:
    source = reader.source
    lowest = not order[0].args.get("desc")
    for term in order[1:]:
        if any(is_call(n) for n in term.walk()) or reader.maybe_count(term.this) is not None:
            raise source.refuse("one count orders the groups", term)
    if limit is None:
        raise source.refuse(
            "ORDER BY a count needs LIMIT k: how many groups to release", select.args["order"], "LIMIT 10"
        )
    if threshold is not None:
        if threshold[1] != place:
            raise source.refuse(
                "the threshold and the order are about different counts", select.args["order"]
            )
        if lowest:
            raise source.refuse("the lowest counts above a threshold are not selected", select.args["order"])
    spelling = f"ORDER BY .. {'ASC' if lowest else 'DESC'} LIMIT"
    bound = threshold[0] if threshold is not None else None
    return TopK(limit, place, lowest, bound, argmax=limit == 1 and not lowest, spelling=spelling)
