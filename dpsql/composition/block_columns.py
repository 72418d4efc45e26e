"""What the names of a release block mean: keys, aliases, columns of FROM; and the columns it releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, is_aggregate
from dpsql.analysis.compiled_relation import Item, Scope
from dpsql.analysis.compiler import call_name, read_whole_number
from dpsql.analysis.output_columns import FREE_KINDS, find_free_kind
from dpsql.analysis.released.released_calls import is_released
from dpsql.analysis.select_blocks import check_one_item
from dpsql.errors import QueryRefused
from dpsql.language import copy_tree, find_nodes, title_of, transform_tree, walk_tree
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_FRAMES = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
"""Nodes that may stand between a window and its function."""


DETAIL_FUNCTIONS = {
    name: kind for name, kind in FREE_KINDS.items() if kind in ("stddev", "low", "high", "left_out", "bound")
}
"""Functions of one number, with the kind of what they show of it."""


def is_total(measure: exp.Expr) -> bool:
    """Return whether a measure is a sum, or a number of rows, that is bounded in all groups together.

    Noise for all groups at once is then less than that of partitions, each of which has a part of epsilon.
    """
    bounded = any(each.name == "contribution_bounds_per_group" for each in find_nodes(measure, exp.Kwarg))
    if isinstance(measure, exp.Filter) or bounded:
        return False
    rows = aggregate_name(measure) == "count" and not find_nodes(measure, exp.Distinct)
    return rows or aggregate_name(measure) == "sum"


def is_measure(node: exp.Expr) -> bool:
    """Return whether a node is a number that only a release has: an aggregate over rows, or DP_STDDEV(n)."""
    if isinstance(node, exp.WithinGroup) or find_free_kind(node) is not None:
        return True
    return is_aggregate(node)


def is_windowed(node: exp.Expr) -> bool:
    """Return whether a call is the function of a window."""
    parent = node.parent
    while isinstance(parent, _FRAMES):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression outside measures and subqueries, and the measures themselves."""

    def ends(each: exp.Expr) -> bool:
        return isinstance(each, exp.Query) or is_measure(each)

    yield from walk_tree(node, ends)


@dataclass(slots=True)
class BlockNames:
    """What the names of a release block mean: columns of FROM, aliases of the select list, keys."""

    items: Sequence[Item]
    scope: Scope
    """The scope of FROM; empty if FROM was refused."""
    keys: list[exp.Expr] = field(default_factory=list)
    _of_keys: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    """The keys whose form is known, with it."""

    def alias(self, node: exp.Expr, within: frozenset[int] = frozenset()) -> int | None:
        """Return the place of the item that a name is the alias of, outside the items `within`."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        name = fold(node.name)
        found = (i for i, item in enumerate(self.items) if fold(item.name) == name)
        return next((i for i in found if i not in within and not self._itself(i, node)), None)

    def _itself(self, place: int, node: exp.Column) -> bool:
        own = self.items[place].node
        return isinstance(own, exp.Column) and fold(own.name) == fold(node.name)

    def normal(self, node: exp.Expr) -> exp.Expr:
        """Return a form that equal expressions share: columns with the table that they are of."""

        def spelled(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.Column):
                return exp.Column(this=exp.to_identifier(self._origin(each), quoted=True))
            return each

        return transform_tree(node, spelled).unnest()

    def _origin(self, node: exp.Column) -> str:
        if self.scope.may_have(node):  # to write a refusal takes longer than to see that there will be one
            with suppress(QueryRefused):
                return repr(self.scope.resolve(node).node)
        return f"{fold(node.table)}.{fold(node.name)}"

    def key(self, node: exp.Expr) -> int | None:
        """Return the place of the key that an expression is; None for other expressions."""
        like = [i for i, key in enumerate(self.keys) if type(key.unnest()) is type(node.unnest())]
        if not like:
            return None
        form = self.normal(node)
        return next((i for i in like if self._form(i) == form), None)

    def _form(self, place: int) -> exp.Expr:
        """Return the form of a key; each is made once."""
        key = self.keys[place]
        known = next((form for of, form in self._of_keys if of is key), None)
        if known is None:
            known = self.normal(key)
            self._of_keys.append((key, known))
        return known

    def free(self, node: exp.Expr, within: frozenset[int] = frozenset()) -> bool:
        """Return whether an expression has no measure and no window, also not through an alias."""
        for each in nodes(node):
            if is_measure(each) or isinstance(each, exp.Window):
                return False
            place = self.alias(each, within)
            if place is None or self.key(each) is not None:
                continue
            if not self.free(self.items[place].node, within | {place}):
                return False
        return True

    def of_keys(self, node: exp.Expr, within: frozenset[int] = frozenset()) -> bool:
        """Return whether an expression reads keys and constants alone."""
        if not isinstance(node, exp.Query) and self.key(node) is not None:
            return True
        if is_measure(node) or isinstance(node, (exp.Query, exp.Window)):
            return False
        place = self.alias(node, within)
        if place is not None:
            return self.of_keys(self.items[place].node, within | {place})
        return not isinstance(node, exp.Column) and all(
            self.of_keys(part, within) for part in node.iter_expressions()
        )

    def as_row(self, node: exp.Expr, *, keys: bool = False) -> exp.Expr:
        """Return an expression of a row with the expressions in the place of aliases.

        A column of FROM comes before an alias of its name; with `keys`, as in HAVING, only a key does.
        """
        return self._as_row(node, frozenset(), keys=keys)

    def _as_row(self, node: exp.Expr, within: frozenset[int], *, keys: bool) -> exp.Expr:
        def written(each: exp.Expr) -> exp.Expr:
            if not isinstance(each, exp.Column):
                return each
            column = self.key(each) is not None if keys else self.scope.has(fold(each.name))
            place = None if column else self.alias(each, within)
            if place is None or not self.free(self.items[place].node, within | {place}):
                return each
            return exp.Paren(this=self._as_row(self.items[place].node, within | {place}, keys=keys))

        return transform_tree(node, written)


@dataclass(slots=True)
class ReleasedColumns:
    """The columns that the outer query reads of a released relation, each with a name of its own."""

    relation: str
    names: BlockNames
    position: Callable[[exp.Expr], int]
    found: list[tuple[exp.Expr, str]] = field(default_factory=list)
    """The expressions of the release block's select list, and their names."""
    _forms: dict[exp.Expr, int] = field(default_factory=dict)
    """The form that equal expressions share, to the place of the column."""
    _taken: set[str] = field(default_factory=set)
    """The folded names of the columns."""
    _written: dict[exp.Expr, int] = field(default_factory=dict)
    """Expressions as they were written, to the place of the column."""

    def place(self, node: exp.Expr, name: str = "") -> int:
        """Return the place of a key or measure among the columns; it is added if it is new."""
        known = self._written.get(node)
        if known is not None:
            return known
        row = self.names.as_row(node)
        form = self.names.normal(row)
        if form not in self._forms:
            base = name or title_of(row)
            chosen = f"{base}_{len(self.found)}" if fold(base) in self._taken else base
            self._forms[form] = len(self.found)
            self._taken.add(fold(chosen))
            self.found.append((row, chosen))
        self._written[row if row == node else copy_tree(node)] = self._forms[form]
        return self._forms[form]

    def column(self, node: exp.Expr, name: str = "") -> exp.Column:
        """Return the column of the relation that holds a key or measure."""
        _, own = self.found[self.place(node, name)]
        made = exp.Column(
            this=exp.to_identifier(own, quoted=True), table=exp.to_identifier(self.relation, quoted=True)
        )
        made.meta["start"] = self.position(node)
        return made

    def over(self, node: exp.Expr, within: frozenset[int] = frozenset()) -> exp.Expr:
        """Return an expression of the block as one over the released columns.

        What is neither a key nor a measure becomes a column as well: the analysis of the block refuses it.
        """
        names = self.names

        def released(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.Query):
                return self._subquery(each)
            if self.asks(each):
                return self._write_asked(each)
            if is_measure(each) or self._difference(each):
                return self.column(self.argued(each))
            place = names.key(each)
            if place is not None:
                return self.column(names.keys[place], each.name if isinstance(each, exp.Column) else "")
            place = names.alias(each, within)
            if place is not None:
                own = names.items[place].node
                inner = self.column(own) if is_released(own) else self.over(own, within | {place})
                return inner if isinstance(inner, exp.Column) else exp.Paren(this=inner)
            refused = isinstance(each, exp.Column) or (
                isinstance(each, exp.Anonymous) and not is_windowed(each) and self._reads_rows(each, within)
            )
            return self.column(each) if refused else each

        return transform_tree(node, released)

    def asks(self, node: exp.Expr) -> bool:
        """Return whether a node asks for a detail of a column that is computed from released numbers."""
        kind = DETAIL_FUNCTIONS.get(call_name(node))
        if kind is None or len(node.expressions) != 1 or self.measure(node.expressions[0]) is not None:
            return False
        argument = node.expressions[0].unnest()
        place, number = self.names.alias(argument), read_whole_number(argument)
        if number is not None and 1 <= number <= len(self.names.items):
            place = number - 1
        if self.names.key(argument) is not None:
            return False
        of = argument if place is None else self.names.items[place].node
        return not is_measure(of) and not self.names.free(of)

    def _write_asked(self, node: exp.Expr) -> exp.Expr:
        """Return the call with its argument written over released columns; an alias or a place stays."""
        made, (argument,) = copy_tree(node), node.expressions
        named = (
            self.names.alias(argument.unnest()) is not None
            or read_whole_number(argument.unnest()) is not None
        )
        if not named:
            made.set("expressions", [self.over(argument)])
        return made

    def _subquery(self, node: exp.Query) -> exp.Query:
        """Return a subquery with released columns in the place of the keys that it names by their table."""
        own = {fold(table.alias_or_name) for table in find_nodes(node, exp.Table, exp.Subquery, exp.CTE)}
        of_block = {fold(origin.alias) for origin in self.names.scope.origins} - own
        made = copy_tree(node)
        for column in find_nodes(made, exp.Column):
            place = self.names.key(column) if fold(column.table) in of_block else None
            if place is not None:
                column.replace(self.column(self.names.keys[place], column.name))
        return made

    def _difference(self, node: exp.Expr) -> bool:
        """Return whether a node is a difference of counts that is released as one number."""
        return isinstance(node, exp.Sub) and is_released(node) and self.has(node)

    def has(self, node: exp.Expr) -> bool:
        """Return whether a key or measure is among the columns."""
        return self.names.normal(self.names.as_row(node)) in self._forms

    def _reads_rows(self, node: exp.Expr, within: frozenset[int]) -> bool:
        """Return whether a call reads rows, so that no part can be computed after the release."""
        reads = any(isinstance(each, (exp.Column, exp.Query)) for each in nodes(node))
        queries = any(isinstance(each, exp.Query) for each in nodes(node))
        return (
            reads and not queries and self.names.free(node, within) and not self.names.of_keys(node, within)
        )

    def argued(self, node: exp.Expr) -> exp.Expr:
        """Return DP_STDDEV(n) and the like with the measure in the place of its alias."""
        if find_free_kind(node) is None:
            return node
        for argument in node.expressions:
            check_one_item(self.names.scope.source, argument, self.names.items)
        made = copy_tree(node)
        made.set("expressions", [self.measure(argument) or argument for argument in node.expressions])
        return made

    def measure(self, node: exp.Expr) -> exp.Expr | None:
        """Return the aggregate that a term refers to: written out, by its alias or place; else None."""
        number, names = read_whole_number(node.unnest()), self.names
        place = names.alias(node.unnest()) if names.key(node) is None else None
        if number is not None:
            place = number - 1 if 1 <= number <= len(names.items) else None
        if place is not None:
            node = names.items[place].node
        return node.unnest() if is_released(node) else None
