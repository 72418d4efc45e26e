"""Edits of queries and of what they read: keys, joins, set operations, domains, items."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.kernel.tree import (
    Aggregate,
    Binary,
    Call,
    Cast,
    Column,
    Constant,
    Derived,
    DomainScan,
    IsNull,
    Item,
    Join,
    Node,
    OrderTerm,
    Paren,
    Range,
    Scan,
    Select,
    SetOperation,
    Unnest,
    Values,
    Window,
    replace_nodes,
)
from dpsql.types import BIGINT
from kernel.place import TRUE, Place, Rule, without
from kernel.sites import remade

__all__ = ["RULES"]

JOINS = ("", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "CROSS")
WORDS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")


_BY_PLACE = (OrderTerm(Column("", "o")),)


def _condition(p: Place) -> Iterator[Node]:
    if isinstance(p.node, Select) and p.node.where is not None:
        yield remade(p.node, where=None)
    if isinstance(p.node, Join) and p.node.on is not None:
        yield remade(p.node, on=TRUE)


def _key(p: Place) -> Iterator[Node]:
    select = p.node
    if not select.group:
        return
    gone = p.rng.randrange(len(select.group))
    group = select.group[:gone] + select.group[gone + 1 :]
    yield remade(select, group=group)
    yield remade(select, group=group, items=tuple(i for i in select.items if i.expr != select.group[gone]))


def _more_keys(p: Place) -> Iterator[Node]:
    for column in p.one(p.others(Column)) if p.node.group else ():
        yield remade(p.node, group=(*p.node.group, column))
        yield remade(p.node, group=(*p.node.group, column), items=(*p.node.items, Item(column, "k9")))


def _order(p: Place) -> Iterator[Node]:
    if p.node.order:
        yield remade(p.node, order=without(p.node.order, p.rng))
        for column in p.one(p.others(Column)):
            yield remade(p.node, order=(OrderTerm(column),))


def _distinct(p: Place) -> Iterator[Node]:
    if isinstance(p.node, Select) or p.node.arguments:
        yield remade(p.node, distinct=not p.node.distinct)


def _limit(p: Place) -> Iterator[Node]:
    if p.node.limit is not None:
        yield remade(p.node, limit=None)
        yield remade(p.node, limit=1)
    else:
        order = tuple(OrderTerm(item.expr) for item in p.node.items)
        yield remade(p.node, limit=p.rng.choice((1, 2, 5)), order=order)
        yield remade(p.node, limit=p.rng.choice((1, 2, 5)))


def _names(p: Place) -> Iterator[Node]:
    """Give another column the name of one, before it or in its place, or exchange their names."""
    named = [i for i in p.node.items if i.name or isinstance(i.expr, Column)]
    if len(named) < 2:
        return
    one, other = p.rng.sample(named, 2)
    name, second = (i.name or i.expr.name for i in (one, other))
    yield remade(p.node, items=(Item(other.expr, name), *p.node.items))
    yield remade(p.node, items=(Item(Cast(Constant(0, BIGINT), BIGINT, safe=False), name), *p.node.items))
    renamed = {one: Item(one.expr, second), other: Item(other.expr, name)}
    yield remade(p.node, items=tuple(renamed.get(i, i) for i in p.node.items))
    yield remade(p.node, items=tuple(Item(i.expr, second) if i is one else i for i in p.node.items))


def _join_kind(p: Place) -> Iterator[Node]:
    for kind in JOINS:
        if kind != p.node.kind and not isinstance(p.node.right, Unnest):
            on = None if kind == "CROSS" else p.node.on or TRUE
            yield remade(p.node, kind=kind, on=on)


def _join_sides(p: Place) -> Iterator[Node]:
    if not isinstance(p.node.right, (Unnest, Join)):
        yield remade(p.node, left=p.node.right, right=p.node.left)
    yield p.node.left


def _repeated_join(p: Place) -> Iterator[Node]:
    """Join the right side a second time, under another alias."""
    right = p.node.right
    if not isinstance(right, (Derived, Scan, Values, Range)):
        return

    def renamed(node: Node) -> Node:
        return remade(node, table="z9") if isinstance(node, Column) and node.table == right.alias else node

    on = p.node.on
    if on is not None:
        on = replace_nodes(Select((Item(on),)), renamed).items[0].expr
    kind = "CROSS" if on is None else p.node.kind
    yield Join(p.node, kind, remade(right, alias="z9"), on)
    yield Join(p.node, "CROSS", Range(0, 2, alias="z9"))


def _word(p: Place) -> Iterator[Node]:
    yield from (remade(p.node, word=word) for word in WORDS if word != p.node.word)


def _branch(p: Place) -> Iterator[Node]:
    yield from (p.node.left, p.node.right)
    yield remade(p.node, left=p.node.right, right=p.node.left)
    yield remade(p.node, right=p.node.left)


def _doubled(p: Place) -> Iterator[Node]:
    """Have every row of a query twice, or those of the query beside it."""
    yield SetOperation(p.node, "UNION ALL", p.node)


def _item(p: Place) -> Iterator[Node]:
    """Swap the expressions of two items, or leave one out."""
    listed = list(p.node.items)
    if len(listed) > 1:
        a, b = p.rng.sample(range(len(listed)), 2)
        listed[a], listed[b] = remade(listed[a], expr=listed[b].expr), remade(listed[b], expr=listed[a].expr)
        yield remade(p.node, items=tuple(listed))
        listed = list(p.node.items)
        listed[a] = remade(listed[a], expr=listed[b].expr)
        yield remade(p.node, items=tuple(listed))
        yield remade(p.node, items=without(p.node.items, p.rng))


def _scan(p: Place) -> Iterator[Node]:
    for other in p.others(Scan, whole=True):
        yield remade(p.node, table=other.table)
    for name in ("visits", "users", "pages"):
        yield remade(p.node, table=name)
    twice = Select((Item(Column("y9", "*")),), Scan(p.node.table, "y9"))
    yield Derived(SetOperation(twice, "UNION ALL", twice), p.node.alias)


def _domain(p: Place) -> Iterator[Node]:
    """Have a row of a domain twice, or another table's rows in its place."""
    if isinstance(p.node, DomainScan):
        rows = Select((Item(Column("", "v"), "v"), Item(Column("", "o"), "o")), p.node)
        one = Select(rows.items, p.node, order=_BY_PLACE, limit=1)
        one = Select(rows.items, Derived(one, "y9"))
        yield Derived(SetOperation(rows, "UNION ALL", one), p.node.name)
        same = Select((*rows.items[:1], Item(Constant(0, BIGINT), "o")), p.node)
        yield Derived(same, p.node.name)
    elif isinstance(p.node, Values):
        yield remade(p.node, rows=(*p.node.rows, p.node.rows[0]))
        yield remade(p.node, rows=p.node.rows[:1])
    else:
        yield remade(p.node, stop=p.node.stop + 1)
        yield remade(p.node, start=p.node.start - 1)


def _number(p: Place) -> Iterator[Node]:
    """Change a number of the outermost query."""
    if p.node.name.startswith("n") and p.site.query is p.root:
        x = Paren(p.node.expr)
        two = Constant(2, BIGINT)
        for expr in (Binary("*", x, two), Binary("-", Constant(0, BIGINT), x), Binary("//", x, two)):
            yield remade(p.node, expr=expr)
        yield remade(p.node, expr=Binary("*", x, x))
        yield remade(p.node, expr=Call("abs", (x,)))


def _wrapped(p: Place) -> Iterator[Node]:
    """Select from a query what meets a condition on one of its columns."""
    names = [i.name for i in p.node.items if i.name]
    if len(names) == len(p.node.items) and names:
        listed = tuple(Item(Column("e9", name), name) for name in names)
        decided = Column("e9", p.rng.choice(names))
        zero = Constant(0, BIGINT)
        yield Select(listed, Derived(p.node, "e9"), Binary(">", decided, zero))
        yield Select(listed, Derived(p.node, "e9"), IsNull(decided, negated=True))
        yield Select(listed, Derived(p.node, "e9"), order=(OrderTerm(decided),), limit=2)


RULES: dict[str, tuple[tuple[type[Node], ...], Rule]] = {
    "drop a condition": ((Select, Join), _condition),
    "drop a key": ((Select,), _key),
    "add a key": ((Select,), _more_keys),
    "drop a term of ORDER BY": ((Window, Aggregate, Select), _order),
    "change DISTINCT": ((Select, Aggregate), _distinct),
    "change LIMIT": ((Select,), _limit),
    "change a join": ((Join,), _join_kind),
    "change the sides of a join": ((Join,), _join_sides),
    "repeat a join": ((Join,), _repeated_join),
    "change a set operation": ((SetOperation,), _word),
    "change its branches": ((SetOperation,), _branch),
    "double a query": ((Select,), _doubled),
    "change names": ((Select,), _names),
    "change items": ((Select,), _item),
    "change a table": ((Scan,), _scan),
    "change a domain": ((DomainScan, Values, Range), _domain),
    "change a number": ((Item,), _number),
    "wrap a query": ((Select,), _wrapped),
}
"""The rules, each with the types of the nodes that it edits."""
