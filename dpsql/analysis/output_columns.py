"""The output columns of a private statement, what each shows and where it is; selections by a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiled_relation import From, Item
from dpsql.analysis.compiler import (
    StatementCompiler,
    call_name,
    check_arguments,
    function_name,
    read_whole_number,
)
from dpsql.analysis.released.quantiles import Quantile
from dpsql.analysis.released.released_calls import is_released
from dpsql.analysis.select_blocks import check_one_item
from dpsql.analysis.statement_plan import Output
from dpsql.analysis.typed_expression import UNKNOWN, Typed
from dpsql.errors import QueryRefused
from dpsql.estimates import Formula
from dpsql.language import (
    AboveThreshold,
    AllGroups,
    Selection,
    StatementText,
    TopK,
    TopPerPartition,
    copy_tree,
    list_given,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.places import DETAILS, Places, lay_out, make_distinct
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
    name = call_name(window.this)
    given = list_given(window)
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
    if call_name(call) not in _ARG_MAX:
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
        or call_name(window.this) != "row_number"
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


FREE_KINDS = {
    "dp_gap": "gap",
    "dp_stddev": "stddev",
    "dp_interval_low": "low",
    "dp_interval_high": "high",
    "dp_left_out": "left_out",
    "dp_bound": "bound",
    "dp_pvalue": "p_value",
    "dp_rank": "rank",
}
"""Functions of released values, with the kind of output column; they cost no privacy budget."""


def find_free_kind(node: exp.Expr) -> str | None:
    """Return the kind of output column of a `dp_` function; None for other nodes."""
    return FREE_KINDS.get(call_name(node))


def has_measure(node: exp.Expr, places: Iterable[int], items: list[Item]) -> bool:
    """Return whether an expression contains a count, written out or by its alias."""
    names = {fold(items[p].name) for p in places if p < len(items)}
    return any(
        is_released(n) or (isinstance(n, exp.Column) and not n.table and fold(n.name) in names)
        for n in walk_tree(node)
    )


@dataclass(frozen=True, slots=True)
class SelectList:
    """The select list of the outermost block, with its compiled keys and counts."""

    compiler: StatementCompiler
    items: list[Item]
    made: From
    keys: tuple[Typed, ...]
    places: dict[int, int]
    """The place of each measure in the select list, or after it, to its first place among the counts."""
    uses: dict[int, tuple[int, ...]]
    """The same, to all of its places."""
    formulas: dict[int, Formula]
    """The formulas of measures that are computed from several counts."""
    quantiles: dict[int, Quantile]
    """What the measures that are quantiles show."""

    def show_item_at(self, item: Item, place: int) -> Output:
        """Return the output column of an item, with its position in the text."""
        found: Output | None = None
        at = self.compiler.source.position(item.node)
        with self.compiler.part(item.name):
            found = self.show_item(item, place, at)
        return found or Output(item.name, "key", at=at)

    def show_item(self, item: Item, place: int, at: int) -> Output:
        """Return the output column of an item, which stands at a position in the text."""
        source = self.compiler.source
        if place in self.places:
            return self._show_measure(item.name, "count", place, at)
        free = find_free_kind(item.node)
        if free is not None:
            return self._show_free(item, free, at)
        if has_measure(item.node, self.places, self.items) and not self._is_key(item.node):
            raise source.refuse(
                "an expression over released numbers may only use these and group keys", item.node
            )
        key = self._find_key(item.node)
        if key is not None:
            return Output(item.name, "key", key, at=at)
        if UNKNOWN in self.keys:
            self.compiler.give_up()  # it may be a key that was refused
        if not self.keys:
            hint = "counts, sums, averages and quantiles are released: COUNT(DISTINCT unit)"
        else:
            hint = "select the keys of GROUP BY and counts"
        raise source.refuse("this is neither a group key nor a count", item.node, hint)

    def _find_key(self, node: exp.Expr) -> int | None:
        """Return the place of the key that an expression is; None for other expressions."""
        value = self.compiler.expression(node, self.made.scope)
        return next((i for i, key in enumerate(self.keys) if key.node == value.node), None)

    def _is_key(self, node: exp.Expr) -> bool:
        """Return whether an expression is a key of columns, which aliases of the select list do not hide."""
        if any(map(is_released, walk_tree(node))):
            return False
        with suppress(QueryRefused):
            return self._find_key(node) is not None
        return False

    def _find_count(self, node: exp.Expr) -> int | None:
        """Return the place of the item with the measure that a node is or names; None for other nodes.

        A name that several different items have is refused: it could mean any of them.
        """
        check_one_item(self.compiler.source, node, self.items)
        for place in self.places:
            if place < len(self.items):
                item = self.items[place]
                name = fold(node.name) if isinstance(node, exp.Column) and not node.table else None
                if fold(item.name) == name or item.node == node:
                    return place
        return None

    def _show_measure(self, name: str, kind: str, place: int, at: int) -> Output:
        """Return an output column with a measure, or with one of its error bars."""
        formula = self.formulas.get(place)
        uses = self.uses[place] if formula is not None else ()
        quantile = self.quantiles.get(place)
        if quantile is not None:
            return Output(name, "quantile", self.places[place], quantile=quantile, at=at)
        return Output(name, kind, self.places[place], uses, formula, at=at)  # type: ignore[arg-type]  # FREE_KINDS' values

    def _show_free(self, item: Item, kind: str, at: int) -> Output:
        source, arguments = self.compiler.source, item.node.expressions
        name = function_name(item.node) or ""
        if kind in ("stddev", "low", "high", "left_out", "bound"):
            if len(arguments) > 1 or (not arguments and len(self.places) != 1):
                raise source.refuse(
                    f"{name.upper()} takes one released number", item.node, f"{name.upper()}(n)"
                )
            place = self._find_count(arguments[0]) if arguments else next(iter(self.places))
            if place is None:
                raise source.refuse(
                    "this is not a count of the select list", arguments[0], "name a count by its alias"
                )
            if place in self.quantiles:
                raise source.refuse(
                    "a quantile has no interval: ask for quantiles on both sides of it",
                    item.node,
                    "PERCENTILE_CONT(x, 0.48) AS low, PERCENTILE_CONT(x, 0.52) AS high",
                )
            return self._show_measure(item.name, kind, place, at)
        if arguments:
            raise source.refuse(f"{name.upper()} takes no argument", item.node)
        return Output(item.name, kind, at=at)  # type: ignore[arg-type]  # FREE_KINDS' values

    def place_order(self, selection: Selection, order: list[exp.Expr]) -> Selection:
        """Return the selection with the places of the keys that order it."""
        found = []
        terms = order[1:] if isinstance(selection, TopK) else order
        of_order = not isinstance(selection, TopPerPartition)
        for term in terms:
            node = term.this
            number = read_whole_number(node) or 0
            if 1 <= number <= len(self.items):
                node = self.items[number - 1].node
            elif of_order and isinstance(node, exp.Column) and not node.table:
                # In ORDER BY an alias comes before a column.
                named = (i.node for i in self.items if fold(i.name) == fold(node.name))
                node = next((n for n in named if not is_released(n)), node)
            with self.compiler.part():
                place = self._find_key(node)
                if place is None:
                    what = "ORDER BY may name a count or sum of the select list, or a key"
                    raise self.compiler.source.refuse(
                        what if of_order else "PARTITION BY names keys of GROUP BY here", term
                    )
                found.append((place, bool(term.args.get("desc"))))
        if len(found) < len(terms):
            self.compiler.give_up()
        if isinstance(selection, (AboveThreshold, AllGroups)):
            return replace(selection, order=tuple(found))
        if isinstance(selection, TopPerPartition):
            return replace(selection, keys=tuple(dict.fromkeys(place for place, _ in found)))
        return selection


def place_columns(
    outputs: Sequence[Output], free: Iterable[str] = (), ordering: int | None = None
) -> tuple[list[str], Places]:
    """Return the names of the columns of a release with these outputs, and their places.

    `free` has the kinds of free columns beside all numbers, `ordering` is the place of the count that orders
    the groups. A column that the statement asked for under the name of a detail is that detail, if it shows
    the same.
    """
    base = make_distinct([output.name for output in outputs])
    numbers = [place for place, output in enumerate(outputs) if output.kind == "count"]

    def own(kind: str, name: str, count: Output | None = None) -> int | None:
        for place, output in enumerate(outputs):
            named = output.kind == kind and output.name == name
            if named and (count is None or _is_same_number(output, count)):
                return place
        return None

    listed = []
    for place in numbers:
        stddev, low, high = (own(kind, f"{base[place]}_{kind}", outputs[place]) for kind in DETAILS)
        listed.append((place, (stddev, low, high)))
    return lay_out(
        [output.name for output in outputs],
        [place for place, output in enumerate(outputs) if output.kind == "key"],
        listed,
        {kind: own(kind, kind) for kind in free},
        next((i for i, place in enumerate(numbers) if outputs[place].of == ordering), None),
    )


def _is_same_number(one: Output, other: Output) -> bool:
    """Return whether two outputs are of the same number."""
    return (one.of, one.uses, one.formula) == (other.of, other.uses, other.formula)
