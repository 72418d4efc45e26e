"""Private rows that are joined with released groups by their key: rows whose key is in a released list.

`visits v JOIN (SELECT note, COUNT(*) AS n .. GROUP BY note ORDER BY n DESC LIMIT 10) t ON v.note = t.note`
keeps each visit once, or leaves it out, if nothing else of t is read: no two groups have one key. It is
`visits v WHERE v.note IN (SELECT note FROM t)`, whose list is released first and then a constant.
Only inner joins on the whole key of the groups are read so; a NULL has no partner, and is in no list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate
from dpsql.analysis.compiled_relation import Cte, find_cte
from dpsql.analysis.compiler import list_conjuncts, read_whole_number
from dpsql.composition.equivalent_blocks import relation
from dpsql.language import copy_tree, find_nodes, list_given, walk_tree
from dpsql.policy import fold

_PLAIN = frozenset({"expressions", "from_", "where", "order", "limit", "qualify", "with_", "kind"})
"""What a SELECT without groups of its own has, if it leaves out rows at most."""


class _Groups(NamedTuple):
    """The columns of an item of FROM, of which one has a different value in each row."""

    key: str
    names: frozenset[str]


def with_lists_of_keys(
    node: exp.Select,
    ctes: tuple[Cte, ...],
    released: Callable[[exp.Expr], bool],
    private: Callable[[exp.Expr], bool],
    known: Callable[[str], bool],
) -> None:
    """Replace joins of private rows with released groups, of which only the key is read, by lists of IN.

    `released` and `private` say what an item of FROM is; `known` whether an item has a column, once the
    released one has left FROM. A block that cannot be read so stays as it is.
    """
    first, joins = node.args.get("from_"), node.args.get("joins") or []
    if first is None or not joins or node.args.get("laterals") or first.this.args.get("joins"):
        return
    if any(join.args.get(name) for join in joins for name in ("side", "method", "pivots")):
        return
    if any(str(join.args.get("kind") or "") not in ("", "INNER", "CROSS") for join in joins):
        return
    for item in _list_items(node):
        groups = _read_groups(item, ctes)
        others = [i for i in _list_items(node) if i is not item]
        if groups is not None and others and released(item) and any(map(private, others)):
            _replace(node, item, groups, known)


def _list_items(node: exp.Select) -> list[exp.Expr]:
    """Return the items of FROM."""
    return [node.args["from_"].this, *(join.this for join in node.args.get("joins") or ())]


def _replace(node: exp.Select, item: exp.Expr, groups: _Groups, known: Callable[[str], bool]) -> None:
    """Leave one item of released groups out of FROM, if its key alone is read, and write its list."""
    first, joins = node.args["from_"], node.args["joins"]
    place = next((i for i, join in enumerate(joins) if join.this is item), None)
    join = joins[0 if place is None else place]
    items = [each.this for each in (first, *joins)]
    first.set("this", next(each for each in items if each is not item))
    node.set("joins", [each for each in joins if each is not join] or None)
    where = node.args.get("where")
    parts = [*list_conjuncts(join.args.get("on")), *list_conjuncts(None if where is None else where.this)]
    equal = _find_equal(parts, join, item, groups, known)
    using = bool(join.args.get("using"))
    found = None if equal is None else _list_columns(node, item, groups, known, {id(equal[0])}, using=using)
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
    inner = exp.Select(expressions=[exp.column(groups.key, item.alias_or_name, quoted=True)])
    inner.set("from_", exp.From(this=copy_tree(item)))
    inner.meta["select"] = -1
    chosen = exp.In(this=copy_tree(other), query=exp.Subquery(this=inner))
    rest = [part for part in parts if part is not condition]
    node.set("where", exp.Where(this=exp.and_(*rest, chosen, copy=False)))


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
    for root in _roots(node, done):
        for column in find_nodes(root, exp.Column):
            merged = using and not column.table and fold(column.name) == groups.key
            mine = False if merged else _names(column, item, groups, known)
            inside = column.find_ancestor(exp.Select) is not node
            if mine is None or (mine and (inside or fold(column.name) != groups.key)):
                return None
            if mine:
                found.append(column)
        if any(isinstance(each, exp.Star) and not _is_counted(each) for each in walk_tree(root)):
            return None
    return found


def _roots(node: exp.Select, done: set[int]) -> Iterator[exp.Expr]:
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
        return _Groups(key, names) if "*" not in names else None
    first = select.args.get("from_")
    if first is None or list_given(select) - _PLAIN or any(map(contains_aggregate, select.expressions)):
        return None
    inner = _read_groups(first.this, found[1])
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
