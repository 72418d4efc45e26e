"""Add columns of public tables to GROUP BY that its keys fix, by a declared-unique set of the table.

`GROUP BY d.code` of a public table with unique codes has one label in each group, so `d.label` is a key
beside it, and MIN, MAX and ANY_VALUE of it are the label itself. The groups stay the same, and so do the
candidates, which are computed from the rows of the public table.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.analysis.aggregate_functions import is_aggregate
from dpsql.analysis.compiled_relation import Scope
from dpsql.analysis.compiler import function_name, list_conjuncts, read_whole_number
from dpsql.composition.grouping_sets import has_several_groupings
from dpsql.language import copy_tree, walk_tree
from dpsql.policy import Policy, Table, fold

_OF_ONE_VALUE = frozenset({"min", "max", "any_value"})
_BEHIND = ("having", "order", "qualify")

_Name = tuple[str, str]
"""The folded alias of an item of FROM, and the folded name of a column of it."""


def may_fix_columns(select: exp.Select, policy: Policy) -> bool:
    """Return whether a block groups rows of a public table with a declared-unique set."""
    first = select.args.get("from_")
    if first is None or select.args.get("group") is None:
        return False
    return any(_find_public(item, policy) is not None for item in _list_items(select))


def _list_items(select: exp.Select) -> list[exp.Expr]:
    return [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]


def _find_public(item: exp.Expr, policy: Policy) -> Table | None:
    """Return the public table with a declared-unique set that an item of FROM is; None for other items."""
    known = isinstance(item, exp.Table) and item.name.isascii() and "cte" not in item.meta
    table = policy.table(item.name) if known else None
    return table if table is not None and table.public and table.unique else None


def add_fixed_columns(select: exp.Select, scope: Scope, policy: Policy) -> None:
    """Add to GROUP BY of a block the columns of public tables that it uses and its keys fix."""
    group = select.args.get("group")
    if group is None or has_several_groupings(select) or group.args.get("all"):
        return
    found = _Columns(select, scope, policy)
    keys = {name for term in group.expressions if (name := found.name_of(_key(select, term))) is not None}
    fixed = found.fixed_by(keys)
    wanted: dict[_Name, exp.Column] = {}
    parts = [*select.expressions, *(p for n in _BEHIND if (p := select.args.get(n)) is not None)]
    for part in parts:
        for column, call in _free_columns(part):
            name = found.name_of(column)
            if name is None or name not in fixed or (name in keys and call is None):
                continue
            if name not in keys:
                wanted.setdefault(name, column)
            if call is not None:
                call.replace(copy_tree(column))
    for added in wanted.values():
        group.append("expressions", copy_tree(added))


def _key(select: exp.Select, term: exp.Expr) -> exp.Expr:
    """Return the expression of a key, of which a place or an alias may be written."""
    place = read_whole_number(term)
    if place is not None and 1 <= place <= len(select.expressions):
        item: exp.Expr = select.expressions[place - 1].unalias()
        return item
    return term


def _free_columns(part: exp.Expr) -> Iterator[tuple[exp.Column, exp.Expr | None]]:
    """Yield the columns outside of aggregates, and those of a MIN, MAX or ANY_VALUE with its call."""
    calls = [n for n in walk_tree(part, is_aggregate) if is_aggregate(n)]
    for node in walk_tree(part, lambda n: is_aggregate(n) or isinstance(n, exp.Query)):
        if isinstance(node, exp.Column):
            yield node, None
    for call in calls:
        one = call.expressions[0] if isinstance(call, exp.Anonymous) and len(call.expressions) == 1 else None
        if isinstance(one, exp.Column) and (function_name(call) or "").lower() in _OF_ONE_VALUE:
            yield one, call


class _Columns:
    """The columns of the items of FROM of a block, and which of them others fix."""

    def __init__(self, select: exp.Select, scope: Scope, policy: Policy) -> None:
        self.select = select
        self.named = {fold(o.alias): [fold(name) for name in o.names] for o in scope.origins}
        self.unique: dict[str, list[frozenset[str]]] = {}
        for item in _list_items(select):
            table, alias = _find_public(item, policy), fold(item.alias_or_name)
            if table is not None and alias in self.named:
                self.unique[alias] = [frozenset(map(fold, names)) for names in table.unique]
        self.links = [*self._links()]

    def name_of(self, node: object) -> _Name | None:
        """Return which column of which item a node names; None for what is no column, or one of several."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        name = fold(node.name)
        if node.table:
            return (fold(node.table), name) if name in self.named.get(fold(node.table), ()) else None
        items = [alias for alias, names in self.named.items() if name in names]
        return (items[0], name) if items else None

    def fixed_by(self, keys: set[_Name]) -> set[_Name]:
        """Return the columns of public items that have one value in each group."""
        known, before = set(keys), -1
        while len(known) > before:
            before = len(known)
            known |= {b for a, b in self.links if a in known}
            for alias, sets in self.unique.items():
                if any(all((alias, name) in known for name in names) for names in sets):
                    known |= {(alias, name) for name in self.named[alias]}
        return {(alias, name) for alias, name in known if alias in self.unique}

    def _links(self) -> Iterator[tuple[_Name, _Name]]:
        """Yield pairs of columns of which the first, where it is known, fixes the second."""
        where = self.select.args.get("where")
        for left, right in self._equal(where.this if where is not None else None)[0]:
            yield from ((left, right), (right, left))
        earlier = [fold(self.select.args["from_"].this.alias_or_name)]
        for join in self.select.args.get("joins") or ():
            alias = fold(join.this.alias_or_name)
            side = str(join.args.get("side") or "").upper()
            pairs, only = self._equal(join.args.get("on"))
            for each in join.args.get("using") or ():
                name = fold(each.name)
                pairs += [((a, name), (alias, name)) for a in earlier if name in self.named.get(a, ())]
            for left, right in pairs:
                inner, outer = (left, right) if right[0] == alias else (right, left)
                if not side:
                    yield from ((left, right), (right, left))
                elif side == "LEFT" and only and outer[0] == alias:
                    yield inner, outer
            earlier.append(alias)

    def _equal(self, condition: exp.Expr | None) -> tuple[list[tuple[_Name, _Name]], bool]:
        """Return the pairs of columns that a condition equates, and whether it does nothing else."""
        pairs, parts = [], list_conjuncts(condition)
        for part in parts:
            names = (
                (self.name_of(part.this), self.name_of(part.expression)) if isinstance(part, exp.EQ) else ()
            )
            if len(names) == 2 and names[0] is not None and names[1] is not None:
                pairs.append((names[0], names[1]))
        return pairs, len(pairs) == len(parts)
