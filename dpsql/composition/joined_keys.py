"""Private rows that are joined with released groups by their key: rows whose key is in a released list.

`visits v JOIN (SELECT note, COUNT(*) AS n .. GROUP BY note ORDER BY n DESC LIMIT 10) t ON v.note = t.note`
keeps each visit once, or leaves it out, if nothing else of t is read: no two groups have one key. It is
`visits v WHERE v.note IN (SELECT note FROM t)`, whose list is released first and then a constant.
With a number of the group (`v.cost > t.mean`) it is ``compared_numbers``.
Only inner joins on the whole key of the groups are read so; a NULL has no partner, and is in no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.aggregate_functions import aggregate_name, contains_aggregate, is_aggregate
from dpsql.analysis.compiled_relation import Cte, find_cte
from dpsql.analysis.compiler import read_whole_number
from dpsql.composition.equivalent_blocks import joins_inwards, relation
from dpsql.language import (
    copy_tree,
    find_nodes,
    keep_title,
    list_conjuncts,
    list_from_items,
    list_given,
    make_select,
    name_query,
    read_clause,
    set_where,
    transform_tree,
    walk_tree,
    write_node,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_PLAIN = frozenset({"expressions", "from_", "where", "order", "limit", "qualify", "with_", "kind"})
"""What a SELECT without groups of its own has, if it leaves out rows at most."""


_GROUPED = _PLAIN | {"joins", "group", "having"}
_ONE_VALUE = frozenset({"max", "min", "any_value"})
"""Aggregates that are the value, where a group has one."""
_BELOW = "dpsql_groups"
"""The name of the block of the groups."""


class _Groups(NamedTuple):
    """The columns of an item of FROM, of which one has a different value in each row."""

    key: str
    names: frozenset[str]
    select: exp.Select | None = None
    """The block of groups that the item is, if it is one."""


def with_lists_of_keys(
    node: exp.Select,
    ctes: tuple[Cte, ...],
    released: Callable[[exp.Expr], bool],
    private: Callable[[exp.Expr], bool],
    known: Callable[[str], bool],
    same: Callable[[exp.Select, exp.Expr], bool] = lambda groups, other: False,
) -> None:
    """Replace joins of private rows with released groups, of which only the key is read, by lists of IN.

    `released` and `private` say what an item of FROM is; `known` whether an item has a column, once the
    released one has left FROM; `same` whether an expression of the other items is written like the key of
    groups where it is equal. A block that cannot be read so stays as it is.
    """
    first, joins = node.args.get("from_"), node.args.get("joins") or []
    if first is None or not joins or node.args.get("laterals") or first.this.args.get("joins"):
        return
    if not joins_inwards(joins):
        return
    for item in list_from_items(node):
        groups = _read_groups(item, ctes)
        others = [i for i in list_from_items(node) if i is not item]
        if groups is not None and others and released(item) and any(map(private, others)):
            _replace(node, item, groups, known, same)


def _replace(
    node: exp.Select,
    item: exp.Expr,
    groups: _Groups,
    known: Callable[[str], bool],
    same: Callable[[exp.Select, exp.Expr], bool],
) -> None:
    """Leave one item of released groups out of FROM, if its key alone is read, and write its list."""
    first, joins = node.args["from_"], node.args["joins"]
    place = next((i for i, join in enumerate(joins) if join.this is item), None)
    join = joins[0 if place is None else place]
    items = [each.this for each in (first, *joins)]
    first.set("this", next(each for each in items if each is not item))
    node.set("joins", [each for each in joins if each is not join] or None)
    parts = [*list_conjuncts(join.args.get("on")), *list_conjuncts(read_clause(node))]
    using = bool(join.args.get("using"))
    equal = _find_equal(parts, join, item, groups, known)
    found = None if equal is None else _list_columns(node, item, groups, known, {id(equal[0])}, using=using)
    if equal is not None and found is None:
        rest = [part for part in parts if part is not equal[0]]
        if groups.select is not None and same(groups.select, equal[1]):
            from dpsql.composition.compared_numbers import compare_rows  # noqa: PLC0415  few compare so

            columns = [
                (root, _list_own(root, item, groups, known, using=using))
                for root in _list_roots(node, {id(equal[0])})
            ]
            if compare_rows(node, item, groups.select, groups.key, equal[1], rest, columns):
                return
        if _Carried(node, item, groups, known, equal[1], using).move(rest):
            return
    if equal is None or found is None:
        for each, its in zip((first, *joins), items, strict=True):
            each.set("this", its)
        node.set("joins", joins)
        return
    condition, other = equal
    for column in found:
        listed = any(each is column for each in node.expressions)
        value = copy_tree(other)
        column.replace(exp.alias_(value, column.name, quoted=True, copy=False) if listed else value)
    inner = make_select([exp.column(groups.key, item.alias_or_name, quoted=True)], copy_tree(item))
    chosen = exp.In(this=copy_tree(other), query=exp.Subquery(this=inner))
    set_where(node, *(part for part in parts if part is not condition), chosen)


@dataclass(slots=True)
class _Carried:
    """A block with groups that shows columns of a joined release, one value of each beside a key.

    Its groups are released without them, and joined afterwards.
    """

    node: exp.Select
    item: exp.Expr
    groups: _Groups
    known: Callable[[str], bool]
    other: exp.Expr
    """What is equal to the key."""
    using: bool
    keys: list[exp.Expr] = field(default_factory=list)
    measures: list[exp.Expr] = field(default_factory=list)

    def move(self, rest: list[exp.Expr]) -> bool:
        """Put the groups below, and the join around them; return whether that has the same meaning."""
        node, group = self.node, self.node.args.get("group")
        if group is None or list_given(group) != {"expressions"} or list_given(node) - _GROUPED:
            return False
        if any(
            self._of_item(column) is not False for part in rest for column in find_nodes(part, exp.Column)
        ):
            return False
        if not all(map(self._read_key, group.expressions)) or self.other not in self.keys:
            return False
        changed = {name: self._change_part(node.args.get(name)) for name in ("having", "order", "qualify")}
        listed = [self._change_item(each) for each in node.expressions]
        parts = [*listed, *(part for part in changed.values() if part is not None)]
        if any(column.table not in (_BELOW, self.item.alias_or_name) for column in self._find_strange(parts)):
            return False
        inner = copy_tree(node, "expressions", "group", "with_", *changed)
        listed_below = [*self.keys, *self.measures]
        inner.set("expressions", [exp.alias_(copy_tree(e), self._name(e), quoted=True) for e in listed_below])
        inner.set("group", exp.Group(expressions=[copy_tree(key) for key in self.keys]))
        set_where(inner, *map(copy_tree, rest))
        inner.meta["select"] = -1
        tie = exp.EQ(
            this=self._below(self.other),
            expression=exp.column(self.groups.key, self.item.alias_or_name, quoted=True),
        )
        node.args["from_"].set("this", name_query(inner, _BELOW))
        node.set("joins", [exp.Join(this=self.item, on=tie)])
        having = changed.pop("having")
        node.set("expressions", listed)
        set_where(node, *([] if having is None else [having.this]))
        for name in ("group", "having"):
            node.set(name, None)
        for name, part in changed.items():
            node.set(name, part)
        return True

    def _read_key(self, written: exp.Expr) -> bool:
        """Note what a key of the block is, if it is none of the item's columns; return whether it is read."""
        key, place = self._without_alias(written), read_whole_number(written)
        if place is not None:
            if not 1 <= place <= len(self.node.expressions):
                return False
            key = self.node.expressions[place - 1].unalias()
        mine = self._of_item(key)
        if mine:
            key = self.other if fold(key.name) == self.groups.key else key
        if (not mine or key is self.other) and key not in self.keys:
            self.keys.append(copy_tree(key))
        columns = [] if mine else find_nodes(key, exp.Column)
        return mine is not None and all(self._of_item(column) is False for column in columns)

    def _without_alias(self, node: exp.Expr) -> exp.Expr:
        """Return the item of the select list that a name stands for, or the node."""
        if isinstance(node, exp.Column) and not node.table and self._of_item(node) is False:
            for item in self.node.expressions:
                if fold(item.alias) == fold(node.name) and not self.known(node.name):
                    found: exp.Expr = item.unalias()
                    return found
        return node

    def _of_item(self, node: exp.Expr) -> bool | None:
        merged = self.using and isinstance(node, exp.Column) and not node.table
        if merged and fold(node.name) == self.groups.key:
            return False
        return _names(node, self.item, self.groups, self.known)

    def _change_item(self, item: exp.Expr) -> exp.Expr:
        if isinstance(item, exp.Alias):
            return exp.alias_(self._change(item.this), item.alias, quoted=True, copy=False)
        made = self._change(item)
        if isinstance(item, exp.Column) and made is not item:
            return exp.alias_(made, item.name, quoted=True, copy=False)
        return keep_title(item, made)

    def _change_part(self, part: exp.Expr | None) -> exp.Expr | None:
        if part is None:
            return None
        whole = transform_tree(copy_tree(part), self._without_alias) if isinstance(part, exp.Having) else part
        return self._change(whole)

    def _change(self, node: exp.Expr) -> exp.Expr:
        return transform_tree(copy_tree(node), self._read)

    def _read(self, node: exp.Expr) -> exp.Expr:
        """Return a key, a measure or a column of the item as the block around the groups has it."""
        if node in self.keys:
            return self._below(node)
        if isinstance(node, exp.Column) and self._of_item(node):
            return exp.column(node.name, self.item.alias_or_name, quoted=True)
        if not is_aggregate(node):
            return node
        columns = find_nodes(node, exp.Column)
        mine = [self._of_item(column) for column in columns]
        if aggregate_name(node) in _ONE_VALUE and mine == [True] and node.expressions == [columns[0]]:
            return exp.column(columns[0].name, self.item.alias_or_name, quoted=True)
        if any(each is not False for each in mine):
            return node
        if node not in self.measures:
            self.measures.append(copy_tree(node))
        return self._below(node)

    def _name(self, node: exp.Expr) -> str:
        """Return the name of a key or a measure below: that of the item which it is, or its text."""
        named = (item.alias for item in self.node.expressions if item.alias and item.this == node)
        return next(named, write_node(node))

    def _below(self, node: exp.Expr) -> exp.Column:
        return exp.column(self._name(node), _BELOW, quoted=True)

    def _find_strange(self, parts: list[exp.Expr]) -> Iterator[exp.Column]:
        """Yield columns; those that ORDER BY has of the select list are none of them."""
        names = {fold(item.alias) for item in self.node.expressions if item.alias}
        for part in parts:
            for column in find_nodes(part, exp.Column):
                if not (isinstance(part, exp.Order) and not column.table and fold(column.name) in names):
                    yield column
            if find_nodes(part, exp.Query, exp.Star) or any(map(is_aggregate, walk_tree(part))):
                yield exp.column("a query, or an aggregate of the item")


def _find_equal(
    parts: list[exp.Expr], join: exp.Join, item: exp.Expr, groups: _Groups, known: Callable[[str], bool]
) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the condition that a value of the other items is the key, and the value; None without one."""
    using = join.args.get("using") or []
    if using:
        named = len(using) == 1 and fold(using[0].name) == groups.key and known(using[0].name)
        return (using[0], exp.column(using[0].name, quoted=True)) if named else None
    for part in parts:
        if not isinstance(part, exp.EQ):
            continue
        for key, other in ((part.this, part.expression), (part.expression, part.this)):
            mine = _names(key, item, groups, known) is True
            if mine and all(_names(c, item, groups, known) is False for c in find_nodes(other, exp.Column)):
                plain = not find_nodes(other, exp.Query)
                return (part, other) if plain and fold(key.name) == groups.key else None
    return None


def _list_columns(
    node: exp.Select,
    item: exp.Expr,
    groups: _Groups,
    known: Callable[[str], bool],
    done: set[int],
    *,
    using: bool,
) -> list[exp.Column] | None:
    """Return the columns of the key in a block, outside of a condition; None if another column is read."""
    found = list[exp.Column]()
    for root in _list_roots(node, done):
        own = _list_own(root, item, groups, known, using=using)
        if own is None or any(fold(column.name) != groups.key for column in own):
            return None
        if any(column.find_ancestor(exp.Select) is not node for column in own):
            return None
        found += own
    return found


def _list_own(
    root: exp.Expr, item: exp.Expr, groups: _Groups, known: Callable[[str], bool], *, using: bool
) -> list[exp.Column] | None:
    """Return the columns of an item in an expression; None if there may be others."""
    found = list[exp.Column]()
    for column in find_nodes(root, exp.Column):
        merged = using and not column.table and fold(column.name) == groups.key
        mine = False if merged else _names(column, item, groups, known)
        if mine is None:
            return None
        if mine:
            found.append(column)
    stars = (each for each in walk_tree(root) if isinstance(each, exp.Star))
    return None if any(not _is_counted(star) for star in stars) else found


def _list_roots(node: exp.Select, done: set[int]) -> Iterator[exp.Expr]:
    """Yield the expressions of a block, without one of its conditions."""
    for name, part in node.args.items():
        if name in ("from_", "with_"):
            continue
        for root in part if isinstance(part, list) else [part]:
            if isinstance(root, exp.Join):
                yield from [each for each in [root.args.get("on")] if each is not None]
            elif isinstance(root, exp.Where):
                yield from (each for each in list_conjuncts(root.this) if id(each) not in done)
            elif isinstance(root, exp.Expr):
                yield root


def _is_counted(node: exp.Star) -> bool:
    return isinstance(node.parent, exp.Anonymous)


def _names(node: exp.Expr, item: exp.Expr, groups: _Groups, known: Callable[[str], bool]) -> bool | None:
    """Return whether an expression is a column of an item; None if it may be one of several items."""
    if not isinstance(node, exp.Column):
        return False
    if node.table:
        return fold(node.table) == fold(item.alias_or_name)
    if fold(node.name) not in groups.names:
        return False
    return None if known(node.name) else True


def _read_groups(item: exp.Expr, ctes: tuple[Cte, ...]) -> _Groups | None:
    """Return the columns of an item whose rows have different values of one; None for others."""
    found = relation(item, ctes)
    if found is None or item.args.get("joins") or not item.alias_or_name:
        return None
    alias = item.args.get("alias")
    cte = find_cte(item.name, ctes) if isinstance(item, exp.Table) else None
    select = found[0].unnest() if isinstance(found[0], exp.Subquery) else found[0]
    if (alias is not None and alias.args.get("columns")) or (cte is not None and cte.columns):
        return None
    if not isinstance(select, exp.Select):
        return None
    names = frozenset(fold(each.alias_or_name) for each in select.expressions)
    key = _read_key(select)
    if key is not None:
        return _Groups(key, names, select) if "*" not in names else None
    first = read_clause(select, "from_")
    if first is None or list_given(select) - _PLAIN or any(map(contains_aggregate, select.expressions)):
        return None
    inner = _read_groups(first, found[1])
    if inner is None:
        return None
    for each in select.expressions:
        column = each.unalias()
        if isinstance(column, exp.Star) and not (list_given(column)):
            return _Groups(inner.key, inner.names | (names - {"*"}))
        if isinstance(column, exp.Column) and fold(column.name) == inner.key and "*" not in names:
            return _Groups(fold(each.alias_or_name), names)
    return None


def _read_key(select: exp.Select) -> str | None:
    """Return the name of the only key of a block with groups; None for other blocks."""
    group = select.args.get("group")
    if group is None or list_given(group) != {"expressions"} or len(group.expressions) != 1:
        return None
    (key,) = group.expressions
    place = read_whole_number(key)
    if place is not None:
        return fold(select.expressions[place - 1].alias_or_name) if place <= len(select.expressions) else None
    for item in select.expressions:
        if item.unalias() == key or (
            isinstance(key, exp.Column) and not key.table and item.alias == key.name
        ):
            return fold(item.alias_or_name)
    return None
