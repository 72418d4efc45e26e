"""Read two grouped blocks that are joined by all their keys as groups of the rows of both together.

`(SELECT note, COUNT(*) AS n .. GROUP BY note) AS a JOIN (.. GROUP BY note) AS b USING (note)` has a row for
each note that both have, and NULL is none. That is a group of the rows of both, numbered by their block: what
a block computes of its own rows is computed of those with its number. In a LEFT, RIGHT or FULL JOIN the
groups of one block alone stay, with NULL for what the other computes. Of units that are kept to m groups of
all these rows a unit changes m, as in `counted_groups`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial

from sqlglot import exp

from dpsql.analysis.aggregate_functions import contains_aggregate, is_aggregate
from dpsql.analysis.compiled_relation import Cte
from dpsql.analysis.compiler import read_item, read_whole_number
from dpsql.analysis.statement_shapes import Provenance
from dpsql.language import (
    MARK,
    copy_tree,
    find_nodes,
    list_conjuncts,
    list_from_items,
    list_given,
    make_presence,
    make_select,
    name_query,
    read_clause,
    transform_tree,
    walk_tree,
)
from dpsql.lazy_dataclass import dataclass
from dpsql.policy import fold

_READ = frozenset({"expressions", "from_", "joins", "where", "group", "having", "kind"})
_WORDS = (exp.Order, exp.Kwarg, exp.PropertyEQ)
"""What stands among the arguments of an aggregate and is none."""
_MISSING: dict[str, tuple[int, ...]] = {"": (), "LEFT": (1,), "RIGHT": (0,), "FULL": (0, 1)}
"""The sides of a join that a row may be without."""
_BLOCK = "number of the block"
"""The column beside keys and values; a name that no short column has."""


@dataclass(slots=True)
class _Side:
    """One of both blocks, and what of its rows is read."""

    number: int
    name: str
    block: exp.Select
    keys: list[exp.Expr]
    items: dict[str, exp.Expr]
    names: list[str] = field(default_factory=list)
    """The columns of the keys."""
    values: list[exp.Expr] = field(default_factory=list)
    made: list[exp.Column] = field(default_factory=list)
    """The columns of the rows of both blocks that have been written."""

    def compute(self, node: exp.Expr) -> exp.Expr | None:
        """Return what the block computes of a group, of the rows of both; None for other expressions."""
        made = transform_tree(node, self.change)
        own = set(map(id, self.made))
        if any(id(column) not in own for column in find_nodes(made, exp.Column)):
            return None
        others = any(isinstance(each, (exp.Query, exp.Window, exp.WithinGroup)) for each in walk_tree(made))
        return None if others else made

    def find_condition(self) -> exp.Expr | None:
        """Return when a group of the rows of both is one of the block; None if HAVING reads more than it."""
        count = exp.Anonymous(this=f"{MARK}COUNT", expressions=[exp.Star()])
        there: exp.Expr = exp.GT(this=self.change(count), expression=exp.Literal.number(0))
        having = read_clause(self.block, "having")
        if having is None:
            return there
        computed = self.compute(having)
        return None if computed is None else exp.and_(there, exp.Paren(this=computed), copy=False)

    def _column(self, name: str) -> exp.Column:
        self.made.append(exp.column(name))
        return self.made[-1]

    def change(self, node: exp.Expr) -> exp.Expr:
        """Return a key, or an aggregate of the block's rows, as one of the rows of both; else the node."""
        if node in self.keys:
            return self._column(self.names[self.keys.index(node)])
        if not is_aggregate(node):
            return node
        call = node.this if isinstance(node, exp.Filter) else node
        if not isinstance(call, exp.Anonymous) or any(isinstance(e, _WORDS) for e in call.expressions):
            return node
        conditions: list[exp.Expr] = [
            exp.EQ(this=self._column(_BLOCK), expression=exp.Literal.number(self.number))
        ]
        if isinstance(node, exp.Filter):
            conditions.append(self._read(node.expression.this))
        made = copy_tree(call)
        made.set("expressions", [self._read_argument(each) for each in call.expressions])
        return exp.Filter(this=made, expression=exp.Where(this=exp.and_(*conditions, copy=False)))

    def _read_argument(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Star):
            return exp.Star()
        if isinstance(node, exp.Distinct) and len(node.expressions) == 1:
            return exp.Distinct(expressions=[self._read(node.expressions[0])])
        return self._read(node)

    def _read(self, node: exp.Expr) -> exp.Expr:
        self.values.append(copy_tree(node))
        return self._column(f"value {len(self.values) - 1} of {self.number}")

    def list_rows(self, unit: exp.Expr, own: str, sizes: list[int]) -> exp.Select:
        """Return the rows of the block with keys, unit, number and values; NULL for those of the other."""
        made = copy_tree(self.block, "expressions", "group", "having")
        named = [(name, copy_tree(key)) for name, key in zip(self.names, self.keys, strict=True)]
        named += [(_BLOCK, exp.Literal.number(self.number)), (own, copy_tree(unit))]
        for number, size in enumerate(sizes):
            values = self.values if number == self.number else [exp.Null() for _ in range(size)]
            named += [(f"value {i} of {number}", value) for i, value in enumerate(values)]
        made.set("expressions", [exp.alias_(value, name) for name, value in named])
        return made


def join_groups(select: exp.Select, of: Provenance, ctes: tuple[Cte, ...]) -> exp.Select | None:
    """Return a SELECT over joined groups as one over the groups of all their rows; None for others."""
    joins = select.args.get("joins") or []
    if len(joins) != 1 or list_given(joins[0]) - {"this", "on", "using", "kind", "side"}:
        return None
    outer = str(joins[0].args.get("side") or "")
    if str(joins[0].args.get("kind") or "") not in ("", "INNER", "OUTER") or outer not in _MISSING:
        return None
    made = [_read_side(number, item, of, ctes) for number, item in enumerate(list_from_items(select))]
    sides = [side for side in made if side is not None]
    units = [of.find_unit(side.block, ctes) for side in sides]
    if len(sides) != 2 or None in units or sides[0].name == sides[1].name:
        return None
    if not _order_keys(joins[0], *sides):
        return None
    unit = getattr(units[0], "name", "")
    names = [key.name if isinstance(key, exp.Column) else f"key {i}" for i, key in enumerate(sides[0].keys)]
    if len({*names, unit, _BLOCK}) < len(names) + 2:
        names, unit = [f"key {i}" for i in range(len(names))], "unit"
    for side in sides:
        side.names[:] = names
    there = [make_presence(exp.column(name)) for name in names]
    conditions = list[exp.Expr](() if outer else there)
    items, columns = list[exp.Expr](), dict[tuple[str, str], str]()
    for side in sides:
        found = side.find_condition()
        if found is None:
            return None
        missing = side.number in _MISSING[outer]
        conditions += [] if missing else [found]
        for name, node in side.items.items():
            computed = side.compute(node)
            if computed is None:
                return None
            if missing:
                computed = exp.Case(ifs=[exp.If(this=copy_tree(found), true=computed)])
            columns[side.name, name] = f"{name} of {side.number}"
            items.append(exp.alias_(computed, f"{name} of {side.number}"))
    sizes = [len(side.values) for side in sides]
    rows = [s.list_rows(own, unit, sizes) for s, own in zip(sides, units, strict=True) if own is not None]
    both = exp.Union(this=rows[0], expression=rows[1], distinct=False)
    groups = make_select(items, name_query(both, "s", quoted=False))
    keys: list[exp.Expr] = [exp.column(name) for name in names]
    if outer:  # a group without a key is that of one block: NULL is joined with nothing
        absent = exp.or_(*(exp.Is(this=copy_tree(key), expression=exp.Null()) for key in keys), copy=False)
        keys.append(exp.Case(ifs=[exp.If(this=absent, true=exp.column(_BLOCK))]))
    if outer == "FULL":
        either = [found for side in sides if (found := side.find_condition()) is not None]
        conditions.append(exp.Paren(this=exp.or_(*either, copy=False)))
    groups.set("group", exp.Group(expressions=keys))
    groups.set("having", exp.Having(this=exp.and_(*conditions, copy=False)))
    using = {fold(name.name) for name in joins[0].args.get("using") or ()}
    return _read_groups(select, groups, columns, using)


def _read_side(number: int, item: exp.Expr, of: Provenance, ctes: tuple[Cte, ...]) -> _Side | None:
    """Return a grouped block that is an item of FROM; None for others."""
    block = item.this if isinstance(item, exp.Subquery) and not item.args.get("joins") else None
    if not isinstance(block, exp.Select) or list_given(block) - _READ:
        return None
    keys = list_keys(block, partial(of.has_column, block, ctes))
    items = {fold(i.alias_or_name): i.unalias() for i in block.expressions if i.alias_or_name}
    if keys is None or len(items) < len(block.expressions):
        return None
    return _Side(number, fold(item.alias_or_name), block, keys, items)


def _order_keys(join: exp.Join, one: _Side, other: _Side) -> bool:
    """Put the keys of the second block in the order of those that they equal; False if they do not."""
    pairs = list[tuple[exp.Expr | None, exp.Expr | None]]()
    for name in join.args.get("using") or ():
        pairs.append((one.items.get(fold(name.name)), other.items.get(fold(name.name))))
    for part in list_conjuncts(join.args.get("on")):
        ends = [part.this, part.expression] if isinstance(part, exp.EQ) else []
        if len(ends) != 2 or not all(isinstance(end, exp.Column) for end in ends):
            return False
        if fold(ends[0].table) == other.name:
            ends.reverse()
        if [fold(end.table) for end in ends] != [one.name, other.name]:
            return False
        pairs.append((one.items.get(fold(ends[0].name)), other.items.get(fold(ends[1].name))))
    ordered = {one.keys.index(a): b for a, b in pairs if a in one.keys and b in other.keys}
    if not len(pairs) == len(ordered) == len(one.keys) == len(other.keys):
        return False
    found = [node for place in range(len(one.keys)) if (node := ordered[place]) is not None]
    if any(key not in found for key in other.keys):
        return False
    other.keys[:] = found
    return True


def _read_groups(
    select: exp.Select, groups: exp.Select, columns: dict[tuple[str, str], str], using: set[str]
) -> exp.Select | None:
    """Return a SELECT over joined groups that reads columns of one item; None if it reads others."""
    made = copy_tree(select, "from_", "joins")
    for column in find_nodes(made, exp.Column):
        name = fold(column.name)
        found = [
            new for (table, old), new in columns.items() if old == name and fold(column.table) in ("", table)
        ]
        if len(found) != 1 and not (name in using and found):
            return None
        named = [exp.column(each) for each in found]
        both = exp.Anonymous(this=f"{MARK}COALESCE", expressions=named)
        column.replace(named[0] if len(named) == 1 else both)
    made.set("from_", exp.From(this=name_query(groups, "g", quoted=False)))
    return made


def list_keys(inner: exp.Select, has_column: Callable[[str], bool]) -> list[exp.Expr] | None:
    """Return the keys of a grouped block as expressions of its rows; None if they are not plain ones.

    A name is that of a column of FROM, if there is one, else the alias of an item.
    """
    group = inner.args.get("group")
    if group is None or list_given(group) - {"expressions"}:
        return None
    found = [read_item(inner, key, has_column) for key in group.expressions]
    places = (read_whole_number(k) for item, k in zip(found, group.expressions, strict=True) if item is k)
    if any(place is not None for place in places):
        return None
    parts = [node for key in found for node in walk_tree(key)]
    grouped = any(isinstance(node, (exp.Query, exp.Window, exp.Star)) for node in parts)
    return None if not found or grouped or any(map(contains_aggregate, found)) else found
