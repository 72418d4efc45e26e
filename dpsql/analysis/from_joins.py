"""Compile FROM with its joins: the owner of the joined rows, and the condition for joining private tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.analysis.compiled_relation import Cte, From, Origin, Owner, Relation, Scope
from dpsql.analysis.compiler import StatementCompiler, check_arguments
from dpsql.analysis.conversions import unify
from dpsql.analysis.facts_of_values import build_typed, hull_of_bounds
from dpsql.analysis.from_tables import compile_from_item, place_in_from
from dpsql.analysis.lists_and_series import compile_unnest, read_series
from dpsql.analysis.public_domains import compile_declared_values
from dpsql.analysis.row_conditions import find_facts_of_join, mark_facts
from dpsql.analysis.scalar_rules import build_comparison, compile_condition
from dpsql.analysis.typed_expression import Typed, UnitRole
from dpsql.analysis.unit_periods import refuse_join, refuse_standing
from dpsql.errors import QueryRefused, with_article
from dpsql.kernel.tree import (
    Binary,
    Call,
    Column,
    Constant,
    Derived,
    Expr,
    Item,
    Join,
    Paren,
    Select,
    conjunction,
)
from dpsql.language import copy_tree, list_conjuncts, read_clause
from dpsql.policy import fold
from dpsql.types import BOOLEAN, INTEGER


def compile_from(compiler: StatementCompiler, select: exp.Select, ctes: tuple[Cte, ...], depth: int) -> From:
    """Compile a FROM clause, its joins from left to right."""
    first = select.args.get("from_")
    if first is None:
        one = Select((Item(Constant(1, INTEGER)),))
        return From(Derived(one, "t0"), Scope(compiler.source), None, None, frozenset((frozenset(),)))
    check_arguments(compiler.source, first, frozenset({"this"}))
    filters = list_conjuncts(read_clause(select))
    left = _compile_first(compiler, select, first.this, ctes, depth)
    comma = False
    for join in [*(first.this.args.get("joins") or ()), *(select.args.get("joins") or ())]:
        if comma and (join.args.get("side") or "").upper() in ("RIGHT", "FULL"):
            raise compiler.source.refuse(
                "a comma has lower precedence than JOIN: this one joins only the table after the comma",
                join,
                "CROSS JOIN, or a subquery",
            )
        comma = comma or not any(join.args.get(a) for a in ("side", "kind", "on", "using", "method"))
        with compiler.part(of_from=True):
            left = _compile_join(compiler, select, left, join, filters, ctes, depth)
    return left


def _compile_item(
    compiler: StatementCompiler, select: exp.Select, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
) -> tuple[Relation, Origin, str]:
    bare = node
    if node.args.get("joins"):
        bare = copy_tree(node)
        bare.set("joins", None)
    listed = compile_declared_values(compiler, select, bare, ctes, depth)
    relation, alias = (
        compile_from_item(compiler, bare, ctes, depth) if listed is None else (listed, bare.alias_or_name)
    )
    generated = compiler.alias()
    origin = place_in_from(relation, generated, alias)
    compiler.columns.update((name, c) for c in origin.columns for name in c.reads)
    return relation, origin, generated


def _compile_first(
    compiler: StatementCompiler, select: exp.Select, node: exp.Expr, ctes: tuple[Cte, ...], depth: int
) -> From:
    relation, origin, generated = _compile_item(compiler, select, node, ctes, depth)
    unit = Column(generated, "u") if relation.owner is not None else None
    rows, scope = Derived(relation.query, generated), Scope(compiler.source, (origin,))
    return From(rows, scope, relation.owner, unit, relation.unique_in(origin), relation.repeats)


def _read_kind(compiler: StatementCompiler, join: exp.Expr) -> str:
    """Return INNER, CROSS, LEFT, RIGHT, FULL, SEMI or ANTI; other joins are refused."""
    check_arguments(compiler.source, join, frozenset({"this", "side", "kind", "on", "using", "method"}))
    method = (join.args.get("method") or "").upper()
    if method not in ("", "NATURAL"):
        raise compiler.source.refuse(f"{method} JOIN is not supported over private data", join)
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if kind in ("SEMI", "ANTI") and not side:
        return kind
    if side in ("LEFT", "RIGHT", "FULL") and kind in ("", "OUTER"):
        return side
    if not side and kind in ("", "INNER"):
        conditional = join.args.get("on") is not None or join.args.get("using") or method
        return "INNER" if conditional else "CROSS"
    if kind == "CROSS" and not side:
        return "CROSS"
    raise compiler.source.refuse(f"{side} {kind} JOIN is not supported".replace("  ", " ").strip(), join)


def _compile_join(
    compiler: StatementCompiler,
    select: exp.Select,
    left: From,
    join: exp.Expr,
    filters: list[exp.Expr],
    ctes: tuple[Cte, ...],
    depth: int,
) -> From:
    kind = _read_kind(compiler, join)
    if isinstance(join.this, exp.Unnest) and read_series(join.this) is None:
        return compile_unnest(compiler, left, join, kind)
    relation, origin, generated = _compile_item(compiler, select, join.this, ctes, depth)
    if join.this.args.get("joins"):
        raise compiler.source.refuse("write nested joins as subqueries", join)
    if fold(origin.alias) in {fold(o.alias) for o in left.scope.origins}:
        raise compiler.source.refuse(f"two tables are called {origin.alias}", join, "give one another alias")
    both = left.scope.join(origin)
    merged: dict[str, Typed] = {}
    conditions: list[Typed] = []
    pairs: list[tuple[Typed, Typed]] = []
    using = list(join.args.get("using") or ())
    own = list_conjuncts(join.args.get("on"))
    if join.args.get("method"):
        using = _find_shared_names(compiler, left, origin, join)
    if using:
        for name in using:
            a, b = _resolve_using(compiler, left, origin, name)
            x, y = unify(compiler.source, compiler.catalog, a, b, name)
            conditions.append(build_comparison("=", x, y))
            pairs.append((a, b))
            merged[fold(name.name)] = _merge_column(compiler, kind, a, b, name)
    elif join.args.get("on") is not None:
        with compiler.part():
            conditions.append(compile_condition(compiler, join.args["on"], both))
        pairs += find_equalities(both, own, (origin,))
    elif kind != "CROSS":
        raise compiler.source.refuse(f"{kind} JOIN needs a condition", join)
    periods = any(side.owner is not None and side.owner.every for side in (left, relation))
    if periods:
        pairs += find_period_equalities(compiler, both, own, origin.columns)
    single = kind in ("INNER", "LEFT", "CROSS") and _has_single_match(relation, origin, pairs)
    kept = single or kind in ("SEMI", "ANTI")
    if kind in ("INNER", "CROSS"):
        pairs += find_equalities(both, filters, (origin,))
        if periods:
            pairs += find_period_equalities(compiler, both, filters, origin.columns)
    here = Column(generated, "u")
    owner, unit = left.owner or relation.owner, left.unit
    same: list[Expr] = []
    with compiler.part():
        owner, unit, same = _join_owned(compiler, join, kind, left, relation, here, pairs, kept)
    on = conjunction([*same, *(c.guarded_node for c in conditions)])
    if on is None and kind != "CROSS":  # the condition was refused
        on = Constant(value=True, type=BOOLEAN)
    if kind == "CROSS" and on is not None:
        kind = "INNER"
    joined = Join(left.source, kind, Derived(relation.query, generated), on)
    names = find_facts_of_join(kind, left, relation, origin, conditions, pairs, len(using or own))
    scope = mark_facts(_make_scope(compiler, left, relation, origin, kind, merged), names)
    repeats = left.repeats if kept else left.repeats_beside(relation, pairs)
    unique = left.unique if kept else _unique_within_units(kind, left, relation, origin)
    return From(joined, scope, owner, unit, unique, repeats)


def _resolve_using(
    compiler: StatementCompiler, left: From, origin: Origin, name: exp.Expr
) -> tuple[Typed, Typed]:
    column = exp.column(copy_tree(name))
    column.meta.update(name.meta)
    return left.scope.resolve(column), Scope(compiler.source, (origin,)).resolve(column)


def _merge_column(compiler: StatementCompiler, kind: str, a: Typed, b: Typed, at: exp.Expr) -> Typed:
    if kind == "RIGHT":
        return b
    if kind != "FULL":
        return a
    if a.type != b.type:
        raise compiler.source.refuse(
            f"FULL JOIN USING merges {a.type} with {b.type}", at, "CAST one of them first"
        )
    both = a.unit is b.unit and (a.unit.fixed or a.unit.every)
    unit = a.unit if both else UnitRole.NONE
    return build_typed(
        Call("COALESCE", (a.node, b.node)), a.type, a, b, bounds=hull_of_bounds((a, b))
    ).with_unit(unit)


def find_equalities(
    scope: Scope, parts: Iterable[exp.Expr], own: Sequence[Origin]
) -> list[tuple[Typed, Typed]]:
    """Return the conditions `a = b` of two bare columns, of which the second is one of the items `own`."""
    found = []
    nodes = {c.node for origin in own for c in origin.columns}
    for part in parts:
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        if not sides or not all(isinstance(side, exp.Column) for side in sides):
            continue
        if any(o.may_have(s) for s in sides for o in own) and all(map(scope.may_have, sides)):
            try:
                a, b = (scope.resolve(side) for side in sides)
            except QueryRefused:  # a condition of WHERE may name a table that is joined later
                continue
            if a.node in nodes:
                a, b = b, a
            if b.node in nodes and a.node not in nodes:
                found.append((a, b))
    return found


def _join_owned(
    compiler: StatementCompiler,
    join: exp.Expr,
    kind: str,
    left: From,
    right: Relation,
    here: Expr,
    pairs: list[tuple[Typed, Typed]],
    kept: bool,
) -> tuple[Owner | None, Expr | None, list[Expr]]:
    """Return the owner of the joined rows, their hidden unit, and the conditions to add to the join.

    `here` is the unit of the right rows, `pairs` the equated columns; `kept` says that the join repeats no
    left row.
    """
    refuse = compiler.source.refuse
    if any(side.owner is not None and side.owner.row for side in (left, right)):
        if left.owner is not None and right.owner is None and kept:
            return left.owner, left.unit, []
        raise refuse(
            "each row is a privacy unit here, and this join could repeat it",
            join,
            "join a public table on columns the policy declares unique",
        )
    if right.owner is None:
        return left.owner, left.unit, []
    if left.owner is None:
        if kind in ("SEMI", "ANTI"):
            raise refuse(
                "SEMI and ANTI JOIN cannot filter public rows by private ones",
                join,
                "start FROM the private table",
            )
        return right.owner, here, []
    if left.owner.kind != right.owner.kind:
        one, other = with_article(left.owner.kind), with_article(right.owner.kind)
        raise refuse(
            f"rows of {one} and of {other} are never joined", join, "count each in a statement of its own"
        )
    if left.owner.every != right.owner.every:
        return _join_standing(compiler, join, kind, left, right, here, pairs)
    if not is_tied_by_units(pairs, left.owner):
        if left.owner.every:
            raise refuse_join(compiler.source, left.owner, join)
        unit = next((c.name for c in right.columns if c.unit.held), "")
        hint = f"join on the privacy unit: ON a.{unit} = b.{unit}"
        raise refuse(
            "two private tables are joined only on their privacy unit",
            join,
            hint if unit else "select the privacy unit on both sides and join on it",
        )
    assert left.unit is not None  # noqa: S101  owned rows have a unit
    same = Paren(Binary("=", left.unit, here))
    if kind == "RIGHT":
        return right.owner, here, [same]
    if kind == "FULL":
        return left.owner, Call("COALESCE", (left.unit, here)), [same]
    return left.owner, left.unit, [same]


def _find_shared_names(
    compiler: StatementCompiler, left: From, origin: Origin, join: exp.Expr
) -> list[exp.Expr]:
    """Return the columns that NATURAL JOIN compares: the names both sides have."""
    before = {fold(n) for o in left.scope.origins for n in _own_names(o)}
    names = [n for n in _own_names(origin) if fold(n) in before]
    if not names:
        raise compiler.source.refuse(
            "NATURAL JOIN of tables without a common column", join, "JOIN .. USING (..)"
        )
    return [exp.to_identifier(n, quoted=True) for n in names]


def _own_names(origin: Origin) -> list[str]:
    return [n for n, column in zip(origin.names, origin.columns, strict=True) if not column.borrowed]


def _join_standing(
    compiler: StatementCompiler,
    join: exp.Expr,
    kind: str,
    left: From,
    right: Relation,
    here: Expr,
    pairs: list[tuple[Typed, Typed]],
) -> tuple[Owner | None, Expr | None, list[Expr]]:
    """Return the same of rows with periods and standing rows, which are joined on the person."""
    assert left.owner is not None and right.owner is not None and left.unit is not None  # noqa: S101, PT018
    own = left.owner if left.owner.every else right.owner
    mine = own is left.owner
    kept = ("LEFT", "SEMI", "ANTI") if mine else ("RIGHT",)
    if kind not in ("INNER", "CROSS", *kept):
        raise refuse_standing(compiler.source, own, join)
    person = find_person(pairs)
    if person is None:
        raise compiler.source.refuse(
            f"rows of {with_article(own.words)} are joined with those of {with_article(own.kind)} "
            f"on the {own.kind}",
            join,
            "select the column that names it on both sides and join on it",
        )
    # The role of the unit of standing rows is that of the person here.
    same = Paren(Binary("=", person.node, here if mine else left.unit))
    return own, left.unit if mine else here, [same]


def find_person(pairs: Iterable[tuple[Typed, Typed]]) -> Typed | None:
    """Return the person of rows with periods that is equated with the unit of standing rows, if one is."""
    for a, b in pairs:
        for person, unit in ((a, b), (b, a)):
            if person.unit is UnitRole.PERSON and unit.unit is UnitRole.EXACT:
                return person
    return None


def find_period_equalities(
    compiler: StatementCompiler, scope: Scope, parts: Iterable[exp.Expr], own: Iterable[Typed]
) -> list[tuple[Typed, Typed]]:
    """Return the conditions that equate periods of units, one computed of columns of `own`, one of others."""
    mine = frozenset[str]().union(*(c.reads for c in own))
    found = []
    for part in parts:
        sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
        if not sides or all(isinstance(side, exp.Column) for side in sides):
            continue
        try:
            a, b = (compiler.tentative(side, scope) for side in sides)
        except QueryRefused:  # a condition of WHERE may name a table that is joined later
            continue
        if a.reads & mine:
            a, b = b, a
        if a.is_period and b.is_period and b.reads <= mine and not a.reads & mine:
            found.append((a, b))
    return found


def is_tied_by_units(pairs: Iterable[tuple[Typed, Typed]], owner: Owner | None = None) -> bool:
    """Return whether equated columns are units, or unique keys of one table: then rows of one unit meet.

    Equal keys belong to one unit if the owner's declaration is true (`policy.owned_keys`). The unit equality,
    which is added beside, then changes nothing; if it is false, no rows of different units meet.
    """
    listed = list(pairs)
    if owner is not None and owner.every:
        persons = any(UnitRole.PERSON is a.unit is b.unit for a, b in listed)
        if persons and any(_are_of_one_period(a, b) for a, b in listed):
            return True
        return any(a.link and a.link == b.link for a, b in listed)
    return any((a.unit.held and b.unit.held) or (a.link and a.link == b.link) for a, b in listed)


def _are_of_one_period(a: Typed, b: Typed) -> bool:
    """Return whether equal values are of units in one period."""
    return (a.is_period and b.is_period) or bool(a.unit.every and a.unit is b.unit and a.type == b.type)


def _unique_within_units(
    kind: str, left: From, right: Relation, origin: Origin
) -> frozenset[frozenset[Expr]]:
    """Return the sets of columns that are unique within a unit in rows of equal units that meet.

    Where one side has one row of each unit, a unit's rows are as many as those of the other, or one.
    """
    if kind not in ("INNER", "LEFT") or left.owner is None or right.owner is None:
        return frozenset()
    one, found = frozenset[Expr](), frozenset[frozenset[Expr]]()
    if frozenset() in right.unique:
        found |= left.unique
    return found | right.unique_in(origin) if one in left.unique else found


def _has_single_match(right: Relation, origin: Origin, pairs: list[tuple[Typed, Typed]]) -> bool:
    """Return whether each left row meets at most one row of a public relation on the right.

    A set of columns that is unique in it is equated, without a conversion that merges values.
    """
    equated = {b.node for a, b in pairs if a.type == b.type or (a.type.integer and b.type.integer)}
    matched = {i for i, c in enumerate(origin.columns) if c.node in equated}
    return right.owner is None and any(places <= matched for places in right.unique)


def _as_person(column: Typed) -> Typed:
    roles = {UnitRole.EXACT: UnitRole.PERSON, UnitRole.NULLABLE: UnitRole.PARTIAL}
    return column.with_unit(roles.get(column.unit, column.unit))


def _map_scope(scope: Scope, change: Callable[[Typed], Typed]) -> Scope:
    """Return a scope with `change` applied to each column."""
    origins = tuple(origin.map_columns(change) for origin in scope.origins)
    return replace(scope, origins=origins, merged={n: change(c) for n, c in scope.merged.items()})


def _make_scope(
    compiler: StatementCompiler, left: From, of: Relation, origin: Origin, kind: str, merged: dict[str, Typed]
) -> Scope:
    """Return the scope of the joined rows: a column of a nullable side, also its exact unit, can be NULL."""

    def nullable(column: Typed) -> Typed:
        return replace(column, nulls=True).with_unit(column.unit.beside_nulls())

    owners = {owner.every for owner in (left.owner, of.owner) if owner is not None}
    if len(owners) > 1:  # the unit of standing rows is the person of rows with periods
        standing = of.owner is not None and not of.owner.every
        if standing:
            origin = origin.map_columns(_as_person)
        else:
            left = replace(left, scope=_map_scope(left.scope, _as_person))
        merged = {name: _as_person(column) for name, column in merged.items()}

    if kind in ("SEMI", "ANTI"):
        return left.scope
    before, old = left.scope.origins, left.scope.merged
    if kind in ("RIGHT", "FULL"):
        before = tuple(o.map_columns(nullable) for o in before)
        old = {name: nullable(column) for name, column in old.items()}
    if kind in ("LEFT", "FULL"):
        origin = origin.map_columns(nullable)
    return Scope(compiler.source, (*before, origin), {**old, **merged})
