"""Determine the selection that a private SELECT asks for, from its clauses."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.compiled_relation import Item
from dpsql.analysis.compiler import (
    StatementCompiler,
    call_name,
    check_arguments,
    list_order_terms,
    read_number,
    read_whole_number,
)
from dpsql.analysis.output_columns import RankedPartitions, read_ranked_partitions
from dpsql.analysis.released.released_calls import is_call, is_released, is_value
from dpsql.errors import Fix
from dpsql.language import (
    AboveThreshold,
    AllGroups,
    Query,
    Scalar,
    Selection,
    StatementText,
    TopK,
    TopPerPartition,
    copy_tree,
    walk_tree,
)
from dpsql.language.options import MAX_NUMBER
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

NOT_COUNTED = "a private table is only counted"
_LIMIT = Fix("LIMIT 10", guess="10")
_AGGREGATE_WORDS = frozenset({"sum", "avg", "min", "max", "median"})


class _Threshold(NamedTuple):
    """A threshold, the place of the count that it is compared with, and how the statement spells it."""

    value: Fraction
    place: int
    spelling: str
    strict: bool = False


def parse_selection(
    compiler: StatementCompiler, query: Query, select: exp.Select, items: list[Item]
) -> tuple[Selection, list[exp.Expr], list[exp.Expr]]:
    """Return the selection that a private SELECT asks for.

    Also return the counts that it uses but does not select, and the terms of its ORDER BY.
    """
    counts = tuple(i for i, item in enumerate(items) if is_released(item.node))
    parser = _Parser(compiler, query, select, items, counts)
    return parser.read_selection(), parser.hidden, parser.order


def read_threshold(node: exp.Expr, *, whole: bool = True) -> tuple[exp.Expr, Fraction] | None:
    """Return what a condition compares with a constant from below, and the least count that meets it.

    Of a number that is not `whole`, it is the constant.
    """
    node = node.unnest()
    flipped = {exp.LTE: exp.GTE, exp.LT: exp.GT}
    left, right = node.args.get("this"), node.args.get("expression")
    kind: type[exp.Expr] = type(node)
    if kind in flipped:
        kind, left, right = flipped[kind], right, left  # t <= n
    value = read_number(right) if right is not None else None
    if kind not in (exp.GT, exp.GTE) or value is None or not isinstance(left, exp.Expr):
        return None
    if kind is exp.GT and whole:
        value = Fraction(math.floor(value) + 1)
    return left, value


def is_one_number(
    parsed: tuple[Selection, list[exp.Expr], list[exp.Expr]] | None, calls: list[exp.Expr]
) -> bool:
    """Return whether a statement releases a single number, of one group or of all groups together."""
    selects = parsed is None or not isinstance(parsed[0], (Scalar, AllGroups))
    return bool(calls) and not selects and all(call == calls[0] for call in calls)


def find_ordering(selection: Selection) -> int | None:
    """Return the place of the number that orders the groups or is compared; None if there is none."""
    best = selection.best if isinstance(selection, TopPerPartition) else selection
    return getattr(best, "count", None)


@dataclass(slots=True)
class _Parser:
    compiler: StatementCompiler
    query: Query
    select: exp.Select
    items: list[Item]
    counts: tuple[int, ...]
    """Places of the counts in the select list."""
    hidden: list[exp.Expr] = field(default_factory=list)
    """Counts in ORDER BY or HAVING that are not selected; their places follow those of the select list."""
    order: list[exp.Expr] = field(init=False)
    limit: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.order = list_order_terms(self.source, self.select.args.get("order"))
        self.limit = _read_limit(self.compiler, self.select)

    @property
    def source(self) -> StatementText:
        return self.query.source

    def read_selection(self) -> Selection:
        clause = self.query.clause
        threshold = self._read_threshold()
        qualify = self.select.args.get("qualify")
        ranked = read_ranked_partitions(qualify.this, self._find_item) if qualify is not None else None
        if ranked is not None:
            return self._select_by_partition(ranked, threshold)
        if self.select.args.get("group") is None:
            return self._select_nothing(threshold)
        if clause.top is not None or clause.argmax:
            return self._select_by_clause(threshold)
        first = self._find_count(self.order[0].this) if self.order else None
        if first is not None:
            return self._select_by_order(first, threshold)
        for term in self.order:
            if any(is_call(n) or call_name(n) in _AGGREGATE_WORDS for n in walk_tree(term)):
                raise self.source.refuse(
                    "ORDER BY may name a count or sum of the select list, or a key", term
                )
        if threshold is None:
            return AllGroups((), self.limit)
        at = threshold.value, threshold.place, self.limit
        return AboveThreshold(*at, (), threshold.spelling, threshold.strict)

    def _find_count(self, node: exp.Expr) -> int | None:
        """Return the place of the count that a node refers to; None if it refers to no count."""
        node = node.unnest()
        number = read_whole_number(node)
        if number is not None:
            return number - 1 if number - 1 in self.counts else None
        if isinstance(node, exp.Column) and not node.table:
            name = fold(node.name)
            return next((i for i in self.counts if fold(self.items[i].name) == name), None)
        if not is_released(node):
            return None
        for i in self.counts:
            if self.items[i].node == node:
                return i
        if node not in self.hidden:
            self.hidden.append(node)
        return len(self.items) + self.hidden.index(node)

    def _is_value(self, place: int) -> bool:
        """Return whether the measure is a number of values, not a count of units or rows."""
        size = len(self.items)
        return is_value(self.items[place].node if place < size else self.hidden[place - size])

    def _require_count(self, node: exp.Expr | None, what: str) -> int:
        """Return the place of the count that a node refers to; without a node, of the only count."""
        at = self.query.clause.at
        if node is None:
            if len(self.counts) == 1:
                return self.counts[0]
            if not self.counts:
                raise self.source.refuse(
                    "the number that orders the groups is missing", at, "TOP 10 BY COUNT(DISTINCT user_id)"
                )
            raise self.source.refuse(f"there are several counts: say which one {what}", at, "TOP 10 BY n")
        place = self._find_count(node)
        if place is None:
            raise self.source.refuse(
                f"the value that {what} must be a count of the select list", node, "ORDER BY n DESC LIMIT 10"
            )
        return place

    def _read_threshold(self) -> _Threshold | None:
        clause, having = self.query.clause, self.select.args.get("having")
        if having is None:
            if clause.threshold is None:
                return None
            of = self._require_count(clause.by, "is compared")
            return self._check_threshold(_Threshold(clause.threshold, of, "ABOVE THRESHOLD"), clause.at)
        if clause.threshold is not None:
            raise self.source.refuse("the threshold is given twice", having)
        found = read_threshold(having.this)
        place = self._find_count(found[0]) if found is not None else None
        strict = False
        if found is not None and place is not None and self._is_value(place):
            found = read_threshold(having.this, whole=False)
            strict = isinstance(having.this.unnest(), (exp.GT, exp.LT))
        if found is None or place is None:
            raise self.source.refuse(
                "HAVING may compare one count or sum with a constant, from below",
                having.this,
                "HAVING n >= 100",
            )
        return self._check_threshold(_Threshold(found[1], place, "HAVING", strict), having.this)

    def _check_threshold(self, threshold: _Threshold, at: exp.Expr | int | None) -> _Threshold:
        """Return a threshold; refuse one that no noise and no prediction can be added to."""
        if abs(threshold.value) > MAX_NUMBER:
            raise self.source.refuse("a threshold is at most 1e100", at)
        return threshold

    def _select_nothing(self, threshold: _Threshold | None) -> Selection:
        select = self.select
        if threshold is not None:
            raise self.source.refuse(
                "a threshold selects groups and needs a GROUP BY", select.args.get("having")
            )
        if self.order or self.limit is not None:
            raise self.source.refuse(
                "ORDER BY and LIMIT select groups and need a GROUP BY",
                select.args.get("order") or select.args.get("limit"),
            )
        if not self.counts:
            raise self.source.refuse(
                NOT_COUNTED,
                select.expressions[0] if select.expressions else select,
                "select COUNT(DISTINCT unit), with GROUP BY and a selection such as ORDER BY n DESC LIMIT 10",
            )
        return Scalar()

    def _select_by_clause(self, threshold: _Threshold | None) -> Selection:
        clause, by = self.query.clause, self.query.clause.by
        if self.limit is not None:
            raise self.source.refuse("TOP k and LIMIT say the same: write one", self.select.args["limit"])
        if self.order:
            first = self.order[0]
            if self._find_count(first.this) is None or by is not None or not first.args.get("desc"):
                raise self.source.refuse(
                    "TOP k already orders: leave ORDER BY out", self.select.args["order"], "TOP 10 BY n"
                )
            by = first.this
        place = self._require_count(by, "orders")
        if threshold is not None and threshold.place != place:
            raise self.source.refuse("the threshold and the order are about different counts", clause.at)
        k = 1 if clause.argmax else clause.top or 1
        bound = threshold.value if threshold is not None else None
        strict, top_one = threshold is not None and threshold.strict, clause.argmax or k == 1
        return TopK(k, place, threshold=bound, argmax=top_one, spelling=clause.spelling, strict=strict)

    def _find_item(self, node: exp.Expr) -> exp.Expr | None:
        """Return the expression of the item that a name is the alias of."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        return next((item.node for item in self.items if fold(item.name) == fold(node.name)), None)

    def _select_by_partition(self, ranked: RankedPartitions, threshold: _Threshold | None) -> Selection:
        """Return the selection of the largest groups of each partition; its keys follow later."""
        at, clause = self.select.args["qualify"], self.query.clause
        if self.select.args.get("group") is None or clause.top is not None or clause.argmax:
            raise self.source.refuse("QUALIFY selects among groups of GROUP BY, without TOP k", at)
        if self.order or self.limit is not None:
            raise self.source.refuse("ORDER BY and LIMIT beside QUALIFY need a SELECT around it", at)
        first, *more = ranked.order
        place = self._find_count(first.this)
        if place is None or any(self._find_count(term.this) is not None for term in more):
            raise self.source.refuse(
                "one count orders the groups of a partition",
                ranked.window,
                "QUALIFY ROW_NUMBER() OVER (PARTITION BY country ORDER BY n DESC) <= 3",
            )
        lowest = not first.args.get("desc")
        if threshold is not None and (lowest or threshold.place != place):
            raise self.source.refuse("the threshold and the order are about different counts", at)
        bound = threshold.value if threshold is not None else None
        spelling = f"QUALIFY {ranked.name.upper()}() OVER (PARTITION BY ..)"
        top_one, strict = ranked.k == 1 and not lowest, threshold is not None and threshold.strict
        best = TopK(ranked.k, place, lowest, bound, argmax=top_one, spelling=spelling, strict=strict)
        self.order = [exp.Ordered(this=copy_tree(key)) for key in ranked.keys]
        return TopPerPartition(best, (), spelling)

    def _select_by_order(self, place: int, threshold: _Threshold | None) -> Selection:
        at = self.select.args["order"]
        lowest = not self.order[0].args.get("desc")
        for term in self.order[1:]:
            if any(is_call(n) for n in walk_tree(term)) or self._find_count(term.this) is not None:
                raise self.source.refuse("one count orders the groups", term)
        if self.limit is None:
            raise self.source.refuse(
                "ORDER BY a count needs LIMIT k: how many groups to release", at, "LIMIT 10", _LIMIT
            )
        if threshold is not None and threshold.place != place:
            raise self.source.refuse("the threshold and the order are about different counts", at)
        if threshold is not None and lowest:
            raise self.source.refuse("the lowest counts above a threshold are not selected", at)
        spelling = f"ORDER BY .. {'ASC' if lowest else 'DESC'} LIMIT"
        bound = threshold.value if threshold is not None else None
        top_one, strict = self.limit == 1 and not lowest, threshold is not None and threshold.strict
        return TopK(self.limit, place, lowest, bound, argmax=top_one, spelling=spelling, strict=strict)


def _read_limit(compiler: StatementCompiler, select: exp.Select) -> int | None:
    source = compiler.source
    if select.args.get("offset") is not None:
        compiler.report(
            source.refuse(
                "OFFSET is not supported: the groups it skips cost as much as those it shows",
                select.args["offset"],
                "ask for the top k",
            )
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
    number = 1 if value is None else read_whole_number(value.unnest())  # FETCH FIRST ROW ONLY has no number
    if number is None:
        raise source.refuse("LIMIT needs a positive whole number", limit, "LIMIT 10")
    if not 1 <= number <= 10**9:
        raise source.refuse("LIMIT needs a positive whole number of at most 1,000,000,000", limit, "LIMIT 10")
    return number
