"""Random conditions and values that hold subqueries: over public tables, or tied to the row's unit."""

from __future__ import annotations

from fuzz import expressions
from fuzz.scope import Item, Maker, Scope

__all__ = ["possible", "scalar", "subquery_condition"]

MOST = 2
"""Subqueries in expressions, a statement."""


def possible(maker: Maker, scope: Scope) -> bool:
    """Whether one more subquery may stand in an expression over this scope."""
    return maker.subqueries < MOST and bool(scope.items)


def subquery_condition(maker: Maker, scope: Scope) -> str:
    """Write IN, NOT IN, EXISTS or NOT EXISTS of a subquery."""
    maker.subqueries += 1
    unit = _unit(scope)
    ways = {"IN public": 1.0, "EXISTS public": 1.0}
    if scope.owner and scope.of("int"):
        ways |= {"a released number": 0.6}
    if unit is not None:
        ways |= {"IN unit": 2.0, "NOT IN unit": 2.0, "EXISTS tied": 2.0, "NOT EXISTS tied": 2.0}
        if _parent_keys(scope):
            ways |= {"IN parent key": 1.5, "EXISTS parent key": 1.5}
    way = maker.pick(ways)
    word = "NOT " if way.startswith("NOT") or maker.rng.random() < 0.3 else ""
    if way == "a released number":
        return _released(maker, scope)
    if way == "IN public":
        return _in_public(maker, scope, word)
    if way.endswith("parent key"):
        return _by_parent_key(maker, scope, word, way)
    if way == "EXISTS public":
        source, _, where = _tied_public(maker, scope)
        return f"({word}EXISTS (SELECT 1 FROM {source}{where}))"
    if way in ("IN unit", "NOT IN unit"):
        return f"({unit} {'NOT ' if way.startswith('NOT') else ''}IN ({_units(maker, scope)}))"
    source, _, where = _tied(maker, scope, unit or "")
    return f"({'NOT ' if way.startswith('NOT') else ''}EXISTS (SELECT 1 FROM {source}{where}))"


def _released(maker: Maker, scope: Scope) -> str:
    """Compare a number with one that all units have together, which is a release of its own."""
    table = maker.rng.choice(["visits", "users", "orders"])
    where = maker.rng.choice(["", f" WHERE rel.user_id > {maker.rng.randint(0, 3)}"])
    number = f"(SELECT COUNT(DISTINCT rel.user_id) FROM {table} AS rel{where})"
    if maker.slip("one row"):
        number = number.replace("COUNT(DISTINCT rel.user_id)", "rel.user_id")
    mine, sign = maker.rng.choice(scope.of("int")), maker.rng.choice(["<", ">", "<=", "="])
    return f"({mine} {sign} {number})" if maker.rng.random() < 0.7 else f"({mine} % 5 + {number} {sign} 4)"


def scalar(maker: Maker, scope: Scope, kind: str) -> str:
    """Write a subquery of one aggregate, as a value."""
    from fuzz.blocks import aggregate

    maker.subqueries += 1
    unit = _unit(scope)
    if unit is not None and maker.chance(0.6, "scalar tied"):
        source, inner, where = _tied(maker, scope, unit)
    else:
        maker.note("scalar public")
        source, inner, where = _tied_public(maker, scope)
    return f"(SELECT {aggregate(maker, inner, kind)} FROM {source}{where})"


def _unit(scope: Scope) -> str | None:
    return next((n for n, c in scope.units() if c.unit == "exact"), None) if scope.owner else None


def _parent_keys(scope: Scope) -> list[str]:
    return [n for n in scope.of("int") if n.endswith(".order_id")]


def _by_parent_key(maker: Maker, scope: Scope, word: str, way: str) -> str:
    """Ask for rows of another private table with the row's own parent key."""
    from fuzz.joins import base

    mine = maker.rng.choice(_parent_keys(scope))
    source, item, owner, _ = base(maker, maker.rng.choice(["items", "orders"]))
    inner = Scope((item,), owner)
    theirs = f"{item.alias}.order_id"
    if way == "IN parent key":
        return f"({mine} {word}IN (SELECT {theirs} FROM {source}{_where(maker, [], inner)}))"
    where = _where(maker, [f"{theirs} = {mine}"], _both(inner, scope))
    return f"({word}EXISTS (SELECT 1 FROM {source}{where}))"


def _both(inner: Scope, outer: Scope) -> Scope:
    """Names a correlated condition may use; columns merged by USING would be ambiguous."""
    if inner.merged or outer.merged:
        return inner
    items = tuple(Item(i.alias, i.columns) for i in (*inner.items, *outer.items))
    return Scope(items, inner.owner)


def _where(maker: Maker, first: list[str], scope: Scope) -> str:
    parts = [*first, *([expressions.condition(maker, scope, 1)] if maker.rng.random() < 0.5 else [])]
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _tied(maker: Maker, scope: Scope, unit: str) -> tuple[str, Scope, str]:
    """Write FROM and WHERE of private rows tied to the row's own unit."""
    from fuzz.joins import from_clause

    for _ in range(4):
        source, inner, extra = from_clause(maker, scope.owner, 0, maker.rng.choice([0, 0, 1]))
        if inner.units():
            break
    else:
        return source, inner, ""  # shows no unit: the statement will be refused
    mine = inner.units()[0][0] if maker.rng.random() < 0.8 else maker.rng.choice(inner.units())[0]
    if maker.slip("tie"):
        return source, inner, _where(maker, extra, _both(inner, scope))
    tie = f"{mine} = {unit}" if maker.rng.random() < 0.5 else f"{unit} = {mine}"
    return source, inner, _where(maker, [*extra, tie], _both(inner, scope))


def _tied_public(maker: Maker, scope: Scope) -> tuple[str, Scope, str]:
    from fuzz.joins import equality, from_clause

    source, inner, extra = from_clause(maker, None, 0, 0)
    tie = [equality(maker, scope, inner.items[0], _both(inner, scope))] if maker.rng.random() < 0.7 else []
    return source, inner, _where(maker, [*extra, *tie], _both(inner, scope))


def _in_public(maker: Maker, scope: Scope, word: str) -> str:
    from fuzz.joins import from_clause

    source, inner, extra = from_clause(maker, None, 0, 0)
    kinds = [k for k in ("text", "int", "date") if scope.of(k) and inner.of(k)]
    if not kinds:
        return expressions.condition(maker, scope, 0)
    kind = maker.rng.choice(kinds)
    listed = maker.rng.choice(inner.of(kind))
    value, where = expressions.value(maker, scope, kind, 1), _where(maker, extra, inner)
    return f"({value} {word}IN (SELECT {listed} FROM {source}{where}))"


def _units(maker: Maker, scope: Scope) -> str:
    """Write a subquery of units: plain, grouped, or the nullable side of an outer join."""
    from fuzz.blocks import aggregate
    from fuzz.joins import from_clause

    for _ in range(4):
        source, inner, extra = from_clause(maker, scope.owner, 0, maker.rng.choice([0, 1]))
        if inner.units():
            break
    else:
        return f"SELECT NULL FROM {source}"
    name, column = maker.rng.choice(inner.units())
    same = [(n, c) for n, c in inner.references() if c.kind == column.kind]
    if maker.slip("unit in IN"):
        name, column = maker.rng.choice(same)
    where = _where(maker, extra, inner)
    if column.unit == "exact" and maker.chance(0.3, "IN grouped"):
        return (
            f"SELECT {name} FROM {source}{where} GROUP BY {name} HAVING {aggregate(maker, inner, 'int')} >= 2"
        )
    distinct = "DISTINCT " if column.unit == "exact" and maker.rng.random() < 0.2 else ""
    return f"SELECT {distinct}{name} FROM {source}{where}"
