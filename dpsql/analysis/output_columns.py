"""The output columns of a private statement: what each item of the select list shows, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiled_relation import From, Item
from dpsql.analysis.compiler import StatementCompiler, function_name, read_whole_number
from dpsql.analysis.released.quantiles import Quantile
from dpsql.analysis.released.released_calls import is_released
from dpsql.analysis.select_blocks import check_one_item
from dpsql.analysis.statement_plan import Output
from dpsql.analysis.typed_expression import UNKNOWN, Typed
from dpsql.errors import QueryRefused
from dpsql.estimates import Formula
from dpsql.language import AboveThreshold, AllGroups, Selection, TopK, TopPerPartition, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.places import DETAILS, Places, lay_out, make_distinct
from dpsql.policy import fold

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
    return FREE_KINDS.get((function_name(node) or "").lower())


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
        if not self._is_key_column(item.node) and has_measure(item.node, self.places, self.items):
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

    def _is_key_column(self, node: exp.Expr) -> bool:
        """Return whether a node names a key's column, which an alias of the select list does not hide."""
        if not isinstance(node, exp.Column):
            return False
        with suppress(QueryRefused):
            return any(key.node == self.made.scope.resolve(node).node for key in self.keys)
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
