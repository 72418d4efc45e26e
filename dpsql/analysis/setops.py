"""Compile UNION, INTERSECT and EXCEPT in subqueries: each row of the result keeps its privacy unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis import typed
from dpsql.analysis.compiler import StatementCompiler, check_arguments
from dpsql.analysis.expressions import common
from dpsql.analysis.intervals import hull
from dpsql.analysis.relation import Column, Owner, Relation, select_list
from dpsql.analysis.typed import Bounds, Typed, UnitRole
from dpsql.errors import QueryRefused
from dpsql.kernel import tree
from dpsql.kernel.tree import Cast, Constant, Derived, Expr, Select, SetOperation
from dpsql.language import Source
from dpsql.types import NULL


def combined(compiler: StatementCompiler, node: exp.Expr, left: Relation, right: Relation) -> Relation:
    """Compile UNION, INTERSECT or EXCEPT (ALL or not) of two compiled branches."""
    check_arguments(compiler.source, node, frozenset({"this", "expression", "distinct", "with_"}))
    word = type(node).__name__.upper()
    everything = node.args.get("distinct") is False
    name = f"{word} ALL" if everything else word
    if len(left.columns) != len(right.columns):
        raise compiler.source.refuse(f"the branches of {name} have different numbers of columns", node)
    owner = left.owner or right.owner
    if owner is not None:
        _check(compiler, node, name, left, right, owner)
    a, b = compiler.alias(), compiler.alias()
    pairs = [
        common(
            compiler,
            [
                replace(typed.column(a, f"c{i}", x.type), bounds=x.bounds),
                replace(typed.column(b, f"c{i}", y.type), bounds=y.bounds),
            ],
            [node.this, node.expression],
        )
        for i, (x, y) in enumerate(zip(left.columns, right.columns, strict=True))
    ]
    columns = tuple(
        Column(
            x.name,
            p[0].type,
            _role(x, y, word) if _same(x, y, p[0]) else UnitRole.NONE,
            bounds=_bounds(x, y, p, word),
        )
        for x, y, p in zip(left.columns, right.columns, pairs, strict=True)
    )
    branches = []
    for alias, relation, side in ((a, left, 0), (b, right, 1)):
        unit = None if owner is None else _unit(alias, relation, owner, name, left)
        listed = select_list(unit, "c", (p[side].guarded_node for p in pairs))
        branches.append(Select(listed, Derived(relation.query, alias)))
    unique = frozenset[frozenset[int]]()
    if not everything:
        others = frozenset(i for i, c in enumerate(columns) if c.unit is not UnitRole.EXACT)
        unique = frozenset({others})
    return Relation(SetOperation(branches[0], name, branches[1]), columns, owner, unique)


def _check(
    compiler: StatementCompiler, node: exp.Expr, name: str, left: Relation, right: Relation, owner: Owner
) -> None:
    if owner.row:
        raise compiler.source.refuse(
            f"each row is a privacy unit, and {name} could repeat or merge rows", node
        )
    if left.owner is not None and right.owner is not None and left.owner.kind != right.owner.kind:
        raise compiler.source.refuse(f"the branches of {name} have different privacy units", node)
    if name == "UNION ALL":
        return
    if left.owner is None:
        raise compiler.source.refuse(f"{name} of public and private rows has no owner", node)
    if right.owner is None and name.startswith("UNION"):
        raise compiler.source.refuse(f"{name} of private and public rows has no owner", node, "UNION ALL")
    exact = [i for i, c in enumerate(left.columns) if c.unit is UnitRole.EXACT]
    if right.owner is not None:
        exact = [i for i in exact if right.columns[i].unit is UnitRole.EXACT]
    if not exact:
        raise compiler.source.refuse(
            f"both branches of {name} must select the privacy unit at the same place",
            node,
            "SELECT user_id, page FROM .. EXCEPT SELECT user_id, page FROM ..",
        )


def _unit(alias: str, relation: Relation, owner: Owner, name: str, left: Relation) -> Expr:
    if relation.owner is not None:
        return tree.Column(alias, "u")
    assert owner.type is not None  # noqa: S101  no row of either branch is a unit
    if name == "UNION ALL":
        return Cast(Constant(None, NULL), owner.type, safe=False)
    # The left unit equals its visible column, so matching that column matches the hidden unit too.
    place = next(i for i, c in enumerate(left.columns) if c.unit is UnitRole.EXACT)
    return Cast(tree.Column(alias, f"c{place}"), owner.type)


def partial(source: Source, at: exp.Expr) -> QueryRefused:
    """Return the refusal of a group key that is the privacy unit in one branch of UNION alone."""
    return source.refuse(
        "a key is the privacy unit in one branch of UNION alone: its groups would name single units",
        at,
        "select the unit in all branches, or in none, at the place of the key",
    )


def _same(left: Column, right: Column, merged: Typed) -> bool:
    """Return whether a set operation converts neither side's unit, except to a wider integer."""
    return all(
        c.type in (merged.type, NULL) or (c.type.integer and merged.type.integer) for c in (left, right)
    )


def _bounds(left: Column, right: Column, pair: Sequence[Typed], word: str) -> Bounds | None:
    """Return the bounds of a result column: of both branches for UNION, else those of the left one."""
    sides = (left, right) if word == "UNION" else (left,)
    return hull(p for p, c in zip(pair, sides, strict=False) if c.type != NULL)


def _role(left: Column, right: Column, word: str) -> UnitRole:
    """Return the role of a result column: it is the unit if each branch has the unit or NULL there.

    A UNION in which one branch alone has the unit holds it in part.

    EXCEPT and INTERSECT return rows of the left branch.
    """
    if word != "UNION" and left.unit is UnitRole.EXACT:
        return UnitRole.EXACT
    roles = [UnitRole.NULLABLE if c.type == NULL else c.unit for c in (left, right)]
    if UnitRole.NONE is left.unit is right.unit or (word != "UNION" and UnitRole.NONE in roles):
        return UnitRole.NONE
    if not all(role.held for role in roles):
        return UnitRole.PARTIAL
    return UnitRole.EXACT if roles == [UnitRole.EXACT, UnitRole.EXACT] else UnitRole.NULLABLE
