"""What is known of the counted rows of a block: their public items of FROM, and the conditions that hold.

Only rows with a unit are counted. A row to which an outer join has no partner holds NULL in all columns of
the items that are missing; `Condition.unless` and `Joined.missing` say which items can be missing together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dpsql.analysis.relation import From
from dpsql.analysis.typed import Typed
from dpsql.policy import Policy
from dpsql.tree import (
    Binary,
    Cast,
    Column,
    Derived,
    Expr,
    InList,
    IsNull,
    Join,
    Paren,
    Query,
    Scan,
    Source,
    walk,
)

Missing = frozenset[frozenset[str]]
"""Sets of items that an outer join leaves out together."""

_NEVER: Missing = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds on each counted row, unless a set of items is missing from the row."""

    expr: Expr
    unless: Missing = _NEVER


@dataclass(frozen=True, slots=True)
class Joined:
    """The columns of a block, its public items by alias, and the conditions that its counted rows meet."""

    columns: Mapping[str, Typed]
    """The columns by their generated names (`t1.c0`)."""
    items: Mapping[str, Query] = field(default_factory=dict)
    missing: Missing = _NEVER
    conditions: tuple[Condition, ...] = ()

    def present(self, aliases: Iterable[str]) -> Joined:
        """Return what is known of the rows from which these items are not missing."""
        there = frozenset(aliases)

        def kept(missing: Missing) -> Missing:
            return frozenset(items for items in missing if not items & there)

        conditions = tuple(Condition(c.expr, kept(c.unless)) for c in self.conditions)
        return replace(self, missing=kept(self.missing), conditions=conditions)

    def alias(self, node: Expr) -> str | None:
        """Return the public item that a bare column belongs to; None for other expressions."""
        node = _bare(node)
        return node.table if isinstance(node, Column) and node.table in self.items else None


def joined(policy: Policy, made: From, where: Expr | None) -> Joined:
    """Return what is known of the counted rows of FROM and WHERE."""
    side = _side(policy, made.source)
    kept = [Condition(part) for part in split(where)]
    columns = {name: c for c in made.scope.columns for name in c.reads}
    found = Joined(columns, side.items, frozenset(side.missing), (*side.conditions, *kept))
    sure = [node for c in found.conditions if not c.unless for node in _not_null(c.expr)]
    return found.present(alias for node in sure if (alias := found.alias(node)))


def split(condition: Expr | None) -> list[Expr]:
    """Return the conjuncts of a compiled condition."""
    if isinstance(condition, Paren):
        return split(condition.inner)
    if isinstance(condition, Binary) and condition.operator == "AND":
        return [*split(condition.left), *split(condition.right)]
    return [] if condition is None else [condition]


def is_public(policy: Policy, query: Query) -> bool:
    """Return whether a query reads public tables only."""
    tables = [policy.table(n.table) for n in walk(query) if isinstance(n, Scan)]
    return all(t is not None and t.unit is None for t in tables)


@dataclass(slots=True)
class _Side:
    """A part of FROM; `owned` says that its rows have units."""

    owned: bool = False
    items: dict[str, Query] = field(default_factory=dict)
    missing: set[frozenset[str]] = field(default_factory=set)
    conditions: list[Condition] = field(default_factory=list)


def _side(policy: Policy, source: Source) -> _Side:
    match source:
        case Join(left, kind, right, on):
            return _both(_side(policy, left), kind, _side(policy, right), split(on))
        case Derived(query, alias):
            public = is_public(policy, query)
            return _Side(not public, {alias: query} if public else {})
    return _Side()


def _both(left: _Side, kind: str, right: _Side, on: list[Expr]) -> _Side:
    if kind == "ANTI":
        return left
    if kind == "SEMI":
        return replace(left, conditions=[*left.conditions, *map(Condition, on)])
    # Where the only owned side is missing, the row has no unit and is not counted.
    without_left = kind in ("RIGHT", "FULL") and not (left.owned and not right.owned)
    without_right = kind in ("LEFT", "FULL") and not (right.owned and not left.owned)
    absent: list[_Side] = [side for side, gone in ((left, without_left), (right, without_right)) if gone]
    conditions = _limited(left.conditions, [left] if without_left else [])
    conditions += _limited(right.conditions, [right] if without_right else [])
    conditions += _limited(map(Condition, on), absent)
    missing = left.missing | right.missing | {frozenset(side.items) for side in absent if side.items}
    return _Side(left.owned or right.owned, {**left.items, **right.items}, missing, conditions)


def _limited(conditions: Iterable[Condition], absent: list[_Side]) -> list[Condition]:
    """Return conditions that hold unless one of some sides is missing, which only its items can show."""
    if not all(side.items for side in absent):
        return []
    sets = frozenset(frozenset(side.items) for side in absent)
    return [Condition(c.expr, c.unless | sets) for c in conditions]


def _bare(node: Expr) -> Expr:
    while isinstance(node, (Paren, Cast)):
        node = node.inner if isinstance(node, Paren) else node.operand
    return node


def _not_null(condition: Expr) -> tuple[Expr, ...]:
    """Return operands that are not NULL where a condition holds."""
    match condition:
        case Binary("=" | "<" | "<=" | ">" | ">=" | "<>", left, right):
            return left, right
        case InList(operand) | IsNull(operand, negated=True):
            return (operand,)
    return ()
