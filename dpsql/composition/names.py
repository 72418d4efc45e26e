"""The names of a release block: keys, aliases of the select list, columns of FROM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from sqlglot import exp

from dpsql.analysis import function_name
from dpsql.analysis.aggregates import is_aggregate
from dpsql.analysis.outer_query import FREE
from dpsql.analysis.relation import Item, Scope
from dpsql.errors import QueryRefused
from dpsql.language import transformed, walked
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_FRAMES = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
"""Nodes that may stand between a window and its function."""


DETAIL_FUNCTIONS = {
    name: kind for name, kind in FREE.items() if kind in ("stddev", "low", "high", "left_out", "bound")
}
"""Functions of one number, with the kind of what they show of it."""


def free_function(node: exp.Expr) -> str | None:
    """Return the kind of DP_STDDEV(n) and the like; None for other nodes."""
    return FREE.get((function_name(node) or "").lower())


def is_measure(node: exp.Expr) -> bool:
    """Return whether a node is a number that only a release has: an aggregate over rows, or DP_STDDEV(n)."""
    if isinstance(node, exp.WithinGroup) or free_function(node) is not None:
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

    yield from walked(node, ends)


@dataclass(slots=True)
class Names:
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

        return transformed(node, spelled).unnest()

    def _origin(self, node: exp.Column) -> str:
        try:
            found = self.scope.resolve(node).node
        except QueryRefused:
            return f"{fold(node.table)}.{fold(node.name)}"
        return repr(found)

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

        return transformed(node, written)
