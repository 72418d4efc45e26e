"""Columns of a released relation: its keys and measures, and expressions over them for the outer query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from sqlglot import exp

from dpsql.analysis import function_name
from dpsql.analysis.blocks import check_one_item
from dpsql.analysis.parsed import whole_number
from dpsql.analysis.released.calls import is_released
from dpsql.composition.names import (
    DETAIL_FUNCTIONS,
    Names,
    free_function,
    is_measure,
    is_windowed,
    nodes,
)
from dpsql.language import all_of, copied, title, transformed
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold


@dataclass(slots=True)
class Columns:
    """The columns that the outer query reads of a released relation, each with a name of its own."""

    relation: str
    names: Names
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
            base = name or title(row)
            chosen = f"{base}_{len(self.found)}" if fold(base) in self._taken else base
            self._forms[form] = len(self.found)
            self._taken.add(fold(chosen))
            self.found.append((row, chosen))
        self._written[row if row == node else copied(node)] = self._forms[form]
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
                return self._asked(each)
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
                isinstance(each, exp.Anonymous) and not is_windowed(each) and self._refused(each, within)
            )
            return self.column(each) if refused else each

        return transformed(node, released)

    def asks(self, node: exp.Expr) -> bool:
        """Return whether a node asks for a detail of a column that is computed from released numbers."""
        kind = DETAIL_FUNCTIONS.get((function_name(node) or "").lower())
        if kind is None or len(node.expressions) != 1 or self.measure(node.expressions[0]) is not None:
            return False
        argument = node.expressions[0].unnest()
        place, number = self.names.alias(argument), whole_number(argument)
        if number is not None and 1 <= number <= len(self.names.items):
            place = number - 1
        if self.names.key(argument) is not None:
            return False
        of = argument if place is None else self.names.items[place].node
        return not is_measure(of) and not self.names.free(of)

    def _asked(self, node: exp.Expr) -> exp.Expr:
        """Return it with a column that is written out as one over released columns."""
        made, (argument,) = copied(node), node.expressions
        named = self.names.alias(argument.unnest()) is not None or whole_number(argument.unnest()) is not None
        if not named:
            made.set("expressions", [self.over(argument)])
        return made

    def _subquery(self, node: exp.Query) -> exp.Query:
        """Return a subquery with released columns in the place of the keys that it names by their table."""
        own = {fold(table.alias_or_name) for table in all_of(node, exp.Table, exp.Subquery, exp.CTE)}
        of_block = {fold(origin.alias) for origin in self.names.scope.origins} - own
        made = copied(node)
        for column in all_of(made, exp.Column):
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

    def _refused(self, node: exp.Expr, within: frozenset[int]) -> bool:
        """Return whether a call reads rows, so that nothing of it can be computed after the release."""
        reads = any(isinstance(each, (exp.Column, exp.Query)) for each in nodes(node))
        queries = any(isinstance(each, exp.Query) for each in nodes(node))
        return (
            reads and not queries and self.names.free(node, within) and not self.names.of_keys(node, within)
        )

    def argued(self, node: exp.Expr) -> exp.Expr:
        """Return DP_STDDEV(n) and the like with the measure in the place of its alias."""
        if free_function(node) is None:
            return node
        for argument in node.expressions:
            check_one_item(self.names.scope.source, argument, self.names.items)
        made = copied(node)
        made.set("expressions", [self.measure(argument) or argument for argument in node.expressions])
        return made

    def measure(self, node: exp.Expr) -> exp.Expr | None:
        """Return the aggregate that a term refers to: written out, by its alias or place; else None."""
        number, names = whole_number(node.unnest()), self.names
        place = names.alias(node.unnest()) if names.key(node) is None else None
        if number is not None:
            place = number - 1 if 1 <= number <= len(names.items) else None
        if place is not None:
            node = names.items[place].node
        return node.unnest() if is_released(node) else None
