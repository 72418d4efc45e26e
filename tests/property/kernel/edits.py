"""Random edits of a query tree: something is dropped, changed, swapped or repeated.

An edit knows nothing of what is certified: many make a query that does not bind or that says something else.
Each rule says which nodes it edits, and gives the nodes that may come in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any

from dpsql.kernel.tree import (
    Aggregate,
    Between,
    Binary,
    Call,
    Canonical,
    Case,
    Cast,
    Column,
    Constant,
    Derived,
    DomainScan,
    Exists,
    Expr,
    InQuery,
    IsNull,
    Item,
    Join,
    Node,
    Not,
    OrderTerm,
    Paren,
    Query,
    Range,
    Saturated,
    Scan,
    Select,
    SetOperation,
    Source,
    Steps,
    Try,
    Unnest,
    Values,
    Window,
    duckdb_sql,
    replaced,
    walk,
)
from dpsql.types import BIGINT, BOOLEAN
from kernel.sites import Site, at_site, everywhere, kind_of, remade, sites

__all__ = ["RULES", "Edited", "edited"]

TRUE = Constant(True, BOOLEAN)
NULL = Constant(None, BIGINT)
TWICE = 0.3
"""How often a tree is edited a second time."""
JOINS = ("", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "CROSS")
WORDS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
ALIKE = (
    ("=", "<", "<=", ">", ">=", "<>", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"),
    ("+", "-", "*", "//", "%"),
    ("AND", "OR"),
)
"""Operators that bind in each other's place."""
AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG", "ANY_VALUE", "FIRST", "LAST")
RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")


@dataclass(frozen=True)
class Edited:
    """A tree that was edited, and what was done to it."""

    query: Query
    edits: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """A node that is edited, where it stands, and the whole tree."""

    site: Site
    root: Query
    rng: Random

    @property
    def node(self) -> Any:
        """The node."""
        return self.site.node

    def others(self, kind: type[Node], *, whole: bool = False) -> list[Any]:
        """Return the other nodes of a kind, of the innermost query or of the whole tree."""
        return [
            n for n in walk(self.root if whole else self.site.query) if isinstance(n, kind) and n != self.node
        ]

    def one(self, found: list[Any]) -> Iterator[Any]:
        """Choose one, if there is any."""
        if found:
            yield self.rng.choice(found)


Rule = Callable[[Place], Iterator[Node]]


def edited(root: Query, rng: Random) -> Edited | None:
    """Edit a tree once or twice; None if that changes nothing."""
    made, names = root, list[str]()
    for _ in range(2 if rng.random() < TWICE else 1):
        made, name = _once(made, rng)
        names.append(name)
    return None if made == root or duckdb_sql(made) == duckdb_sql(root) else Edited(made, tuple(names))


def _once(root: Query, rng: Random) -> tuple[Query, str]:
    """Draw a rule first, then one of its places, so that rare nodes are edited as often as others."""
    found = sites(root)
    names = list(RULES)
    rng.shuffle(names)
    for name in names:
        kinds, rule = RULES[name]
        places = [site for site in found if isinstance(site.node, kinds)]
        rng.shuffle(places)
        for site in places[:20]:
            made = list(rule(Place(site, root, rng)))
            if not made:
                continue
            new = rng.choice(made)
            if isinstance(site.node, Expr) and rng.random() < 0.5:
                return everywhere(root, site.node, new), f"{name}, everywhere"
            return at_site(root, site, new), name
    return root, "nothing"


def _without(values: tuple[Any, ...], rng: Random) -> tuple[Any, ...]:
    place = rng.randrange(len(values))
    return values[:place] + values[place + 1 :]


def _conjunct(p: Place) -> Iterator[Node]:
    if p.node.operator == "AND":
        yield from (p.node.left, p.node.right)


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


def _partition(p: Place) -> Iterator[Node]:
    if p.node.partition:
        yield remade(p.node, partition=_without(p.node.partition, p.rng))
        yield remade(p.node, partition=())
    for column in p.one(p.others(Column)):
        yield remade(p.node, partition=(column,))


def _order(p: Place) -> Iterator[Node]:
    if p.node.order:
        yield remade(p.node, order=_without(p.node.order, p.rng))
        for column in p.one(p.others(Column)):
            yield remade(p.node, order=(OrderTerm(column),))


def _frame(p: Place) -> Iterator[Node]:
    if p.node.frame is not None:
        yield remade(p.node, frame=None)
        yield remade(p.node, frame=replace(p.node.frame, unit=p.rng.choice(("ROWS", "RANGE", "GROUPS"))))
        yield remade(p.node, frame=replace(p.node.frame, start=replace(p.node.frame.start, offset=2)))


def _direction(p: Place) -> Iterator[Node]:
    yield remade(p.node, direction="DESC" if p.node.direction != "DESC" else "ASC")
    yield remade(p.node, nulls=p.rng.choice(("FIRST", "LAST")))


def _argument(p: Place) -> Iterator[Node]:
    """Give one argument in the place of a call: of a clamp, COALESCE, a floor."""
    yield from p.node.arguments
    if p.node.name.upper() in ("LEAST", "GREATEST"):
        yield remade(p.node, name="GREATEST" if p.node.name.upper() == "LEAST" else "LEAST")


def _inner(p: Place) -> Iterator[Node]:
    """Give the operand in the place of a conversion, a guard or a negation."""
    yield p.node.inner if isinstance(p.node, Paren) else p.node.operand


def _distinct(p: Place) -> Iterator[Node]:
    if isinstance(p.node, Select) or p.node.arguments:
        yield remade(p.node, distinct=not p.node.distinct)


def _filter(p: Place) -> Iterator[Node]:
    if p.node.filter is not None:
        yield remade(p.node, filter=None)
    for condition in p.one(p.others(IsNull)):
        yield remade(p.node, filter=condition)


def _constant(p: Place) -> Iterator[Node]:
    value = p.node.value
    if isinstance(value, bool):
        yield remade(p.node, value=not value)
    elif isinstance(value, int):
        for new in (value + 1, value - 1, value * 2, 0, 1, 2, value + (1 << 40), (1 << 62) + 7):
            if new >= 0:
                yield remade(p.node, value=new)
    elif isinstance(value, float | Decimal):
        yield remade(p.node, value=value * 3)
    elif value is None:
        yield remade(p.node, value=1, type=BIGINT)
    else:
        yield remade(p.node, value=None)
        yield from p.one(p.others(Constant, whole=True))


def _steps(p: Place) -> Iterator[Node]:
    yield remade(p.node, low=p.node.low * 2 - 1)
    yield remade(p.node, high=p.node.high * 2 + 1)


def _limit(p: Place) -> Iterator[Node]:
    if p.node.limit is not None:
        yield remade(p.node, limit=None)
        yield remade(p.node, limit=1)
    else:
        yield remade(p.node, limit=p.rng.choice((1, 2, 5)))


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
        on = replaced(Select((Item(on),)), renamed).items[0].expr
    kind = "CROSS" if on is None else p.node.kind
    yield Join(p.node, kind, remade(right, alias="z9"), on)
    yield Join(p.node, "CROSS", Range(0, 2, alias="z9"))


def _column(p: Place) -> Iterator[Node]:
    same = [c for c in p.others(Column) if c.table == p.node.table]
    yield from p.one(same)
    yield from p.one(p.others(Column))
    yield from p.one(p.others(Column, whole=True))


def _fixed(p: Place) -> Iterator[Node]:
    """Give a constant or a choice in the place of a column: a unit, a key, a value."""
    yield Constant(1, BIGINT)
    yield NULL
    yield Call("COALESCE", (p.node, Constant(1, BIGINT)))
    yield Call("NULLIF", (p.node, p.node))


def _aggregate(p: Place) -> Iterator[Node]:
    yield from (remade(p.node, name=name) for name in AGGREGATES if p.node.arguments and name != p.node.name)
    if p.node.name == "COUNT" and p.node.arguments:
        yield remade(p.node, arguments=(), distinct=False)
    for column in p.one(p.others(Column)):
        yield remade(p.node, arguments=(column,))


def _rank(p: Place) -> Iterator[Node]:
    if isinstance(p.node.function, Call):
        yield from (remade(p.node, function=Call(name, ())) for name in RANKS if name != p.node.function.name)


def _operands(p: Place) -> Iterator[Node]:
    yield remade(p.node, left=p.node.right, right=p.node.left)


def _operand(p: Place) -> Iterator[Node]:
    """Give one operand in the place of arithmetic."""
    if p.node.operator in ALIKE[1]:
        yield from (p.node.left, p.node.right)


def _operator(p: Place) -> Iterator[Node]:
    for group in ALIKE:
        if p.node.operator in group:
            yield from (remade(p.node, operator=word) for word in group if word != p.node.operator)


def _between(p: Place) -> Iterator[Node]:
    yield remade(p.node, low=p.node.high, high=p.node.low)
    yield IsNull(p.node.operand, negated=True)


def _negation(p: Place) -> Iterator[Node]:
    if isinstance(p.node, IsNull):
        yield remade(p.node, negated=not p.node.negated)
    elif isinstance(p.node, (InQuery, Exists)):
        yield Not(p.node)
    yield TRUE


def _case(p: Place) -> Iterator[Node]:
    when, then = p.rng.choice(p.node.branches)
    yield then
    yield remade(p.node, branches=((Not(Paren(when)), then),))
    yield remade(p.node, default=None if p.node.default is not None else Constant(1, BIGINT))
    if p.node.default is not None:
        yield p.node.default
        yield remade(p.node, branches=((when, p.node.default),), default=then)


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
        yield remade(p.node, items=_without(p.node.items, p.rng))


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


_BY_PLACE = (OrderTerm(Column("", "o")),)


def _splice(p: Place) -> Iterator[Node]:
    """Give another node of the tree that may stand in this place."""
    kind = kind_of(p.node)
    yield from p.one(p.others(kind, whole=True))


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
    "drop a conjunct": ((Binary,), _conjunct),
    "drop a condition": ((Select, Join), _condition),
    "drop a key": ((Select,), _key),
    "add a key": ((Select,), _more_keys),
    "change PARTITION BY": ((Window,), _partition),
    "drop a term of ORDER BY": ((Window, Aggregate, Select), _order),
    "change a frame": ((Window,), _frame),
    "turn an order": ((OrderTerm,), _direction),
    "drop a clamp": ((Call,), _argument),
    "drop a conversion": ((Paren, Cast, Try, Canonical, Saturated, Steps, Not), _inner),
    "change DISTINCT": ((Select, Aggregate), _distinct),
    "change a filter": ((Aggregate,), _filter),
    "change a constant": ((Constant,), _constant),
    "change the steps": ((Steps,), _steps),
    "change LIMIT": ((Select,), _limit),
    "change a join": ((Join,), _join_kind),
    "change the sides of a join": ((Join,), _join_sides),
    "repeat a join": ((Join,), _repeated_join),
    "change a column": ((Column,), _column),
    "fix a column": ((Column,), _fixed),
    "change an aggregate": ((Aggregate,), _aggregate),
    "change a rank": ((Window,), _rank),
    "swap operands": ((Binary,), _operands),
    "drop an operand": ((Binary,), _operand),
    "change an operator": ((Binary,), _operator),
    "change BETWEEN": ((Between,), _between),
    "negate a condition": ((IsNull, InQuery, Exists), _negation),
    "change CASE": ((Case,), _case),
    "change a set operation": ((SetOperation,), _word),
    "change its branches": ((SetOperation,), _branch),
    "double a query": ((Select,), _doubled),
    "change items": ((Select,), _item),
    "change a table": ((Scan,), _scan),
    "change a domain": ((DomainScan, Values, Range), _domain),
    "put a node of elsewhere": ((Expr, Query, Source), _splice),
    "change a number": ((Item,), _number),
    "wrap a query": ((Select,), _wrapped),
}
"""The rules, each with the types of the nodes that it edits."""
