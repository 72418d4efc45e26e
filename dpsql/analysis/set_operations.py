"""UNION, INTERSECT and EXCEPT of compiled branches: the unit of their rows, the values of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis import typed_expression
from dpsql.analysis.compiled_relation import CELL, Owner, Relation, select_list
from dpsql.analysis.compiler import StatementCompiler, check_arguments
from dpsql.analysis.facts_of_values import hull_of_bounds
from dpsql.analysis.public_domains import join_domains
from dpsql.analysis.scalar_rules import convert_to_common
from dpsql.analysis.schema_catalog import Catalog
from dpsql.analysis.typed_expression import Bounds, KeyDomain, Span, Typed, UnitRole, join_spans, tells_units
from dpsql.errors import QueryRefused
from dpsql.kernel import tree
from dpsql.kernel.tree import Cast, Column, Constant, Derived, Expr, Item, Select, SetOperation
from dpsql.language import StatementText
from dpsql.types import NULL, SqlType


def combine_branches(
    compiler: StatementCompiler, node: exp.Expr, left: Relation, right: Relation
) -> Relation:
    """Compile UNION, INTERSECT or EXCEPT (ALL or not) of two compiled branches."""
    check_arguments(compiler.source, node, frozenset({"this", "expression", "distinct", "with_"}))
    word = type(node).__name__.upper()
    everything = node.args.get("distinct") is False
    name = f"{word} ALL" if everything else word
    if len(left.columns) != len(right.columns):
        raise compiler.source.refuse(f"the branches of {name} have different numbers of columns", node)
    owner = left.owner or right.owner
    if owner is not None:
        _check_branches(compiler, node, name, left, right, owner)
    a, b = compiler.alias(), compiler.alias()
    pairs = [
        convert_to_common(
            compiler,
            [
                replace(typed_expression.make_column(a, f"c{i}", x.type), bounds=x.bounds, decimal=x.decimal),
                replace(typed_expression.make_column(b, f"c{i}", y.type), bounds=y.bounds, decimal=y.decimal),
            ],
            [node.this, node.expression],
        )
        for i, (x, y) in enumerate(zip(left.columns, right.columns, strict=True))
    ]
    columns = tuple(
        Typed(
            CELL,
            p[0].type,
            name=x.name,
            unit=_join_roles(x, y, word) if _is_unit_kept(x, y, p[0]) else UnitRole.NONE,
            bounds=_join_bounds(x, y, p, word),
            decimal=p[0].decimal,
            domain=join_domains([_convert_domain(c, p[0].type) for c in sides]),
            span=_join_spans(compiler.catalog, sides, p[0].type),
            nulls=any(c.nulls for c in sides),
        )
        for x, y, p in zip(left.columns, right.columns, pairs, strict=True)
        for sides in ((x, y) if word == "UNION" else (x,),)
    )
    branches = []
    for alias, relation, side in ((a, left, 0), (b, right, 1)):
        unit = None if owner is None else _make_unit(alias, relation, owner, name, left)
        listed = select_list(unit, "c", (p[side].guarded_node for p in pairs))
        branches.append(Select(listed, Derived(relation.query, alias)))
    unique = frozenset[frozenset[int]]()
    if not everything:
        others = frozenset(i for i, c in enumerate(columns) if c.unit is not UnitRole.EXACT)
        unique = frozenset({others})
    return Relation(SetOperation(branches[0], name, branches[1]), columns, owner, unique, repeats=True)


def _check_branches(
    compiler: StatementCompiler, node: exp.Expr, name: str, left: Relation, right: Relation, owner: Owner
) -> None:
    if owner.row:
        raise compiler.source.refuse(
            f"each row is a privacy unit, and {name} could repeat or merge rows", node
        )
    kinds = {(side.owner.kind, side.owner.every) for side in (left, right) if side.owner is not None}
    if len(kinds) > 1:
        raise compiler.source.refuse(f"the branches of {name} have different privacy units", node)
    if name == "UNION ALL":
        return
    if left.owner is None:
        raise compiler.source.refuse(f"{name} of public and private rows has no owner", node)
    if right.owner is None and name.startswith("UNION"):
        raise compiler.source.refuse(f"{name} of private and public rows has no owner", node, "UNION ALL")
    if owner.every:
        _check_periods(compiler, node, name, left, right)
        return
    exact = [i for i, c in enumerate(left.columns) if c.unit is UnitRole.EXACT]
    if right.owner is not None:
        exact = [i for i in exact if right.columns[i].unit is UnitRole.EXACT]
    if not exact:
        raise compiler.source.refuse(
            f"both branches of {name} must select the privacy unit at the same place",
            node,
            "SELECT user_id, page FROM .. EXCEPT SELECT user_id, page FROM ..",
        )


def _check_periods(
    compiler: StatementCompiler, node: exp.Expr, name: str, left: Relation, right: Relation
) -> None:
    """Refuse branches that do not select the person and the period of their units at the same places."""
    pairs = zip(left.columns, right.columns, strict=True)
    if right.owner is None or not tells_units(
        typed_expression.make_column("", "", a.type).with_unit(a.unit)
        for a, b in pairs
        if a.unit is b.unit and a.type == b.type
    ):
        raise compiler.source.refuse(
            f"both branches of {name} must select the privacy unit, whose and of which period, at the same"
            " places",
            node,
            "UNION ALL, where rows are not compared",
        )


def _make_unit(alias: str, relation: Relation, owner: Owner, name: str, left: Relation) -> Expr:
    if relation.owner is not None:
        return tree.Column(alias, "u")
    assert owner.type is not None  # noqa: S101  no row of either branch is a unit
    if name == "UNION ALL":
        return Cast(Constant(None, NULL), owner.type, safe=False)
    # The left unit equals its visible column, so matching that column matches the hidden unit too.
    place = next(i for i, c in enumerate(left.columns) if c.unit is UnitRole.EXACT)
    return Cast(tree.Column(alias, f"c{place}"), owner.type)


def refuse_partial_unit(source: StatementText, at: exp.Expr) -> QueryRefused:
    """Return the refusal of a group key that is the privacy unit in one branch of UNION alone."""
    return source.refuse(
        "a key is the privacy unit in one branch of UNION alone: its groups would name single units",
        at,
        "select the unit in all branches, or in none, at the place of the key",
    )


def _is_unit_kept(left: Typed, right: Typed, merged: Typed) -> bool:
    """Return whether a set operation converts neither side's unit, except to a wider integer."""
    return all(
        c.type in (merged.type, NULL) or (c.type.integer and merged.type.integer) for c in (left, right)
    )


def _join_bounds(left: Typed, right: Typed, pair: Sequence[Typed], word: str) -> Bounds | None:
    """Return the bounds of a result column: from both branches for UNION, else from the left branch."""
    sides = (left, right) if word == "UNION" else (left,)
    return hull_of_bounds(p for p, c in zip(pair, sides, strict=False) if c.type != NULL)


def _convert_domain(column: Typed, kind: SqlType) -> KeyDomain | None:
    """Return the public values of a branch's column in the type of the result."""
    domain = column.domain
    if domain is None or column.type == kind:
        return domain
    value = Item(Cast(Column("d", "v"), kind), "v")
    return replace(domain, query=Select((value,), Derived(domain.query, "d"), distinct=True), ordered=False)


def _join_spans(catalog: Catalog, columns: Sequence[Typed], kind: SqlType) -> Span | None:
    """Return the range of the branches' columns, if one of them has a range; of a list that of its ends."""
    if all(column.span is None for column in columns):
        return None
    spans = list[Span | None]()
    for column in columns:
        domain = _convert_domain(column, kind) if kind.moment else None
        span = column.span if column.type == kind else None
        if span is None and domain is not None:
            ends = f"(SELECT [epoch_us(MIN(v)), epoch_us(MAX(v))] FROM ({domain.sql}) AS d WHERE isfinite(v))"
            match catalog.evaluate(ends):
                case [int(first), int(last)]:
                    span = Span(first, last, domain.origin, domain.complete)
        spans.append(span)
    return join_spans(spans)


def _join_roles(left: Typed, right: Typed, word: str) -> UnitRole:
    """Return the role of a result column: it is the unit if each branch has the unit or NULL there.

    A UNION in which one branch alone has the unit holds it in part.

    EXCEPT and INTERSECT return rows of the left branch.
    """
    if word != "UNION" and left.unit is UnitRole.EXACT:
        return UnitRole.EXACT
    if UnitRole.PERSON in (left.unit, right.unit):
        return UnitRole.PERSON if left.unit is right.unit else UnitRole.PARTIAL
    if left.unit is right.unit and not left.unit.names_units:
        return left.unit
    if not (left.unit.names_units or right.unit.names_units):
        return UnitRole.NONE
    roles = [UnitRole.NULLABLE if c.type == NULL else c.unit for c in (left, right)]
    if UnitRole.NONE is left.unit is right.unit or (word != "UNION" and UnitRole.NONE in roles):
        return UnitRole.NONE
    if not all(role.held for role in roles):
        return UnitRole.PARTIAL
    return UnitRole.EXACT if roles == [UnitRole.EXACT, UnitRole.EXACT] else UnitRole.NULLABLE
