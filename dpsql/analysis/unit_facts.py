"""Derive the facts of the unit: columns with one value for each privacy unit in the rows of a block.

If all keys of a GROUP BY are facts, each unit is in one group. Columns of a unit that has at most one row
are facts, and so are constants. A deterministic function of facts is one; an expression that contains a
subquery or a window is not taken for one. Rows without a unit have no part in this: they are never counted.

What keeps facts through a step: it only leaves rows out or repeats them (WHERE, DISTINCT, QUALIFY, SEMI,
ANTI, INNER and CROSS JOIN, UNNEST), or the side of an outer join is preserved. A column of the nullable side
has a value in some rows and NULL in others, unless all rows of a unit meet the same rows there: the
condition beside the equality of units may read facts only. After a FULL JOIN each side is nullable, so the
condition must hold for any two rows of a unit. A public row that facts determine, as the only one with equal
values, has facts. Other steps keep no fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from dpsql.analysis.compiler import StatementCompiler
from dpsql.analysis.relation import From, Origin, Owner, Relation, Scope
from dpsql.analysis.typed import Typed, UnitRole
from dpsql.errors import QueryRefused
from dpsql.kernel.tree import facts
from dpsql.types import DOUBLE

Names = frozenset[str]
"""Generated columns, such as `t1.c0`."""

_NONE: Names = frozenset()
T = TypeVar("T")


def fact_places(relation: Relation) -> frozenset[int]:
    """Return the places of a relation's columns that are facts."""
    if relation.owner is None:
        return frozenset()
    every = frozenset(range(len(relation.columns)))
    found = frozenset(i for i in every if relation.columns[i].fact or _exact(relation.columns[i].unit))
    return every if _one_row(relation.owner, relation.unique, found) else found


def fact_names(made: From, fixed: Iterable[Typed] = ()) -> Names:
    """Return the facts among the columns of FROM; `fixed` are those that WHERE equates with a constant."""
    if made.owner is None:
        return _NONE
    columns = (*made.scope.columns, *made.scope.merged.values())
    found = _names(c for c in columns if c.fact) | _names(c for c in fixed if c.is_column)
    unique = [frozenset().union(*(facts(node).reads for node in each)) for each in made.unique]
    return _names(columns) if _one_row(made.owner, unique, found) else found


def fixed_values(compiler: StatementCompiler, filters: Iterable[exp.Expr], scope: Scope) -> list[Typed]:
    """Return what conjuncts of WHERE equate with a literal, without a conversion that merges values.

    A DOUBLE is none of it: 0.0 equals -0.0, and functions tell them apart.
    """
    found = []
    for part in filters:
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        for a, b in (sides, sides[::-1]) if sides else ():
            if isinstance(a, exp.Column) and isinstance(b, exp.Literal):
                try:
                    value, literal = scope.resolve(a), compiler.expression(b, scope)
                except QueryRefused:  # it may be an alias of the select list
                    continue
                if _same_type(value, literal) and value.type != DOUBLE:
                    found.append(value)
    return found


def facts_of_join(
    kind: str,
    left: From,
    right: Relation,
    origin: Origin,
    conditions: Sequence[Typed],
    pairs: Sequence[tuple[Typed, Typed]],
    parts: int,
) -> Names:
    """Return the facts among the columns of two joined sides; `origin` is the right one under its alias.

    `pairs` are the equated columns, for INNER and CROSS those of WHERE too; `parts` is the number of
    conjuncts of the join's own condition.
    """
    before, after = fact_names(left), _names(c for c in origin.columns if c.fact)
    if kind in ("SEMI", "ANTI"):
        return before
    # An equality of columns with different types may compare values that were merged by a conversion.
    pairs = [(a, b) for a, b in pairs if _same_type(a, b)]
    if kind == "FULL":
        units = [1 for a, b in pairs if _exact(a.unit) and _exact(b.unit)]
        return before | after if len(units) == parts else _NONE
    if right.owner is None and left.owner is not None:
        equated = {b.node for a, b in pairs if a.reads <= before}
        unique = [{origin.columns[i].node for i in places} for places in right.unique]
        after = _names(origin.columns) if any(each <= equated for each in unique) else _NONE
    elif left.owner is None and right.owner is not None:
        equated = {a.node for a, b in pairs if b.reads <= after}
        before = _names(left.scope.columns) if any(each <= equated for each in left.unique) else _NONE
    both, preserved = before | after, {"LEFT": left.owner, "RIGHT": right.owner}
    # Where the preserved side is public, rows without a match have no unit: of the others it is INNER.
    if preserved.get(kind) is None or all(c.reads <= both for c in conditions):
        return both
    return before if kind == "LEFT" else after


def with_facts(scope: Scope, names: Names) -> Scope:
    """Mark the columns of FROM that are facts, and no others."""

    def marked(column: Typed) -> Typed:
        return column.with_fact(column.reads <= names)

    origins = tuple(origin.mapped(marked) for origin in scope.origins)
    return replace(scope, origins=origins, merged={n: marked(c) for n, c in scope.merged.items()})


def _names(columns: Iterable[Typed]) -> Names:
    return _NONE.union(*(c.reads for c in columns))


def _same_type(a: Typed, b: Typed) -> bool:
    return a.type == b.type or (a.type.integer and b.type.integer)


def _exact(role: UnitRole) -> bool:
    return role is UnitRole.EXACT


def _one_row(owner: Owner, unique: Iterable[frozenset[T]], found: frozenset[T]) -> bool:
    """Return whether a unit has at most one row: a set of columns that is unique in it has facts only."""
    return owner.row or any(each <= found for each in unique)
