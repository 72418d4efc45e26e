"""Certify a tree by hand in which a SELECT with groups of rows of units stands for the node of these."""

from __future__ import annotations

from dpsql.kernel.check import Certificate
from dpsql.kernel.check import certify as certify_nodes
from dpsql.kernel.facts import Facts
from dpsql.kernel.tree import (
    Aggregate,
    Call,
    Cast,
    Column,
    Constant,
    Counted,
    Derived,
    Expr,
    Item,
    Join,
    Query,
    Select,
    SetOperation,
    Source,
    Units,
    UnitValue,
    Weighted,
)
from dpsql.types import BIGINT, BOOLEAN


def certify(query: Query, facts: Facts) -> Certificate:
    """Certify a query by its nodes."""
    return certify_nodes(of_nodes(query), facts)


def of_nodes(query: Query) -> Query:
    """Return a query with `Weighted` for each SELECT that counts the units or their single rows by keys.

    Queries within expressions are left as they are.
    """
    return _query(query)


def _query(query: Query) -> Query:
    match query:
        case SetOperation(left, word, right):
            return SetOperation(_query(left), word, _query(right))
        case Select(items, source, where, group, order, limit, distinct):
            made = Select(items, _source(source), where, group, order, limit, distinct)
            return _counted(made) or made
    return query


def _source(source: Source | None) -> Source | None:
    match source:
        case Derived(query, alias):
            return Derived(_query(query), alias)
        case Join(left, kind, right, on):
            one, other = _source(left), _source(right)
            assert one is not None
            assert other is not None
            return Join(one, kind, other, on)
    return source


def _counted(query: Select) -> Select | None:
    """Return what is passed on of the node that a SELECT stands for; None if it stands for none."""
    if query.order or query.limit is not None or query.distinct:
        return None
    unit, values, parts = _unit(query), list[Expr](), list[tuple[str, Counted]]()
    keys = [(item.column, item.expr) for item in query.items if item.expr in query.group]
    if unit in query.group or {*query.group} != {expr for _, expr in keys}:
        return None
    for item in query.items:
        if item.expr not in query.group:
            part = _part(item.expr, unit, values)
            if part is None:
                return None
            parts.append((item.column, part))
    if not parts:
        return None
    listed = [("u", unit), *((f"k{i}", key) for i, (_, key) in enumerate(keys))]
    listed += [(f"f{i}", value) for i, value in enumerate(values)]
    rows = Select(tuple(Item(expr, name) for name, expr in listed), query.source, query.where)
    node = Weighted(rows, len(keys), len(values), tuple((part,) for _, part in parts))
    shown = {name: f"k{i}" for i, (name, _) in enumerate(keys)}
    shown |= {name: f"n{i}" for i, (name, _) in enumerate(parts)}
    return Select(
        tuple(Item(Column("g9", shown[item.column]), item.name or item.column) for item in query.items),
        Derived(node, "g9"),
    )


def _unit(query: Select) -> Expr:
    """Return the unit of the rows: what is counted as different, or the column `u`."""
    for item in query.items:
        match item.expr:
            case Aggregate("COUNT", (x,), True):
                return x
    return _named(query.source) or Constant(value=True, type=BOOLEAN)


def _named(source: Source | None) -> Expr | None:
    """Return the column `u` of rows; None if they have none, so that each of them is a unit."""
    match source:
        case Join(left, kind, right):
            return _named(left) or (None if kind in ("SEMI", "ANTI") else _named(right))
        case Derived(query, alias):
            while isinstance(query, SetOperation):
                query = query.left
            listed = {item.column for item in query.items} if isinstance(query, Select) else {"u"}
            return Column(alias, "u") if "u" in listed else None
    return None


def _part(expr: Expr, unit: Expr, values: list[Expr]) -> Counted | None:
    """Return what a number counts; `values` gets what it reads of a row."""
    match expr:
        case Aggregate("COUNT", (x,), True, (), None) if x == unit:
            return Units((), single=False)
        case Aggregate("COUNT", (), False, (), None):
            return Units((), single=True)
        case Aggregate("COUNT", (x,), False, (), None) if x == unit:
            return Units((), single=True)
        case Call("COALESCE" | "LEAST" | "GREATEST", (x, _)):
            return _part(x, unit, values) if not isinstance(x, Aggregate) or x.name == "SUM" else None
        case Cast(x, kind) if kind == BIGINT:
            return _part(x, unit, values)
        case Aggregate("SUM", (x,), False, (), None):
            values.append(x)
            own = Column("s", f"f{len(values) - 1}")
            return UnitValue((own,), own, own)
    return None
