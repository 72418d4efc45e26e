"""Relations of the results of queries.

*WHERE* keeps a row or not by what `subqueries` allows, so what is owned stays owned. Of conditions, `x = c`
and
`x = y` add what follows from what, and `u IS NOT NULL` leaves out rows without a unit. In a subquery, a
condition `u = x` with the unit x of an outer row leaves the rows of that unit: they are tied.

*Projection* keeps the unit of each row as a column; a whole number is the same in a type that has all of
the values. Without it each row still has one, but no column tells
which. A column is equal in two rows (of a unit) if all columns that its expression reads are.

*DISTINCT* compares rows with their units, so it keeps the rows of each unit to themselves; after it all
columns but the unit are unique within a unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsql.kernel.check.bounded import relation_of_bounded, relation_of_sampled
from dpsql.kernel.check.counts import relation_of_parents
from dpsql.kernel.check.groups import (
    relation_of_cells,
    relation_of_decided,
    relation_of_marked,
    relation_of_on_domain,
    relation_of_part,
)
from dpsql.kernel.check.implied import as_stored, equal_columns
from dpsql.kernel.check.joins import relation_of
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.proof import Proof, equalities, has_aggregate
from dpsql.kernel.check.relation import NONE, Kind, Names, Relation, name_of
from dpsql.kernel.check.searches import relation_of_above, relation_of_beyond, relation_of_scores
from dpsql.kernel.check.setops import relation_of_operation
from dpsql.kernel.check.sources import check_name
from dpsql.kernel.check.subqueries import check_row, tied_to_outer
from dpsql.kernel.check.units import relation_of_units
from dpsql.kernel.check.weighted import relation_of_weighted
from dpsql.kernel.check.windows import check_windows, follows_from, unique_by_number
from dpsql.kernel.tree import (
    Above,
    Beyond,
    Bounded,
    CellsOfDecided,
    Column,
    Constant,
    Decided,
    Expr,
    IsNull,
    Marked,
    OfDomain,
    OnDomain,
    Query,
    Sampled,
    Scores,
    Select,
    SetOperation,
    Weighted,
)


def relation_of_query(proof: Proof, query: Query) -> Relation:
    """Return the relation of the result of a query."""
    rule = _RULES.get(type(query))
    if rule is not None:
        return rule(proof, query)
    if not isinstance(query, Select):
        return proof.refuse("an unknown kind of query", query)
    proof.selects.append(query)
    made = _relation_of_select(proof, query)
    proof.selects.pop()
    return made


_RULES: dict[type[Query], Callable[[Proof, Any], Relation]] = {
    Weighted: relation_of_weighted,
    Bounded: relation_of_bounded,
    Sampled: relation_of_sampled,
    Scores: relation_of_scores,
    Above: relation_of_above,
    Beyond: relation_of_beyond,
    Marked: relation_of_marked,
    OnDomain: relation_of_on_domain,
    Decided: relation_of_decided,
    CellsOfDecided: relation_of_cells,
    OfDomain: relation_of_part,
    SetOperation: relation_of_operation,
}


def _relation_of_select(proof: Proof, query: Select) -> Relation:
    proof.path.append("source")
    source = relation_of(proof, query.source)
    proof.path.pop()
    names = tuple(item.column for item in query.items)
    known = [name for name in names if name]
    for name in known:
        check_name(proof, name, query)
    if len(set(known)) < len(known):
        proof.refuse("two columns of one name", query)
    if proof.outer:
        _check_aliases(proof, query, source)
    if source.kind in (Kind.CHILDREN, Kind.PARENTS, Kind.GROUPS):
        return proof.refuse("rows of which no unit is known", query)
    source = _kept(proof, query, source)
    for term in query.order:
        if check_row(proof, term.expr, source) and source.kind is Kind.PUBLIC:
            source = source._replace(kind=Kind.TIED)
    aggregated = bool(query.group) or any(has_aggregate(item.expr) for item in query.items)
    if source.outside:
        return _outside(proof, query, source, names, aggregated)
    if query.limit is not None:
        proof.refuse("LIMIT of the rows of units", query)
    if not aggregated:
        return _projected(proof, query, source, names)
    group = tuple(_at_place(query, expr) for expr in query.group)
    if any(expr in source.unit for expr in group) and not source.by_row:
        return relation_of_units(proof, query, source, names, group)
    parents = relation_of_parents(proof, query, source, names, group)
    return parents or proof.refuse("groups of rows of many units that no node counts", query)


def _check_aliases(proof: Proof, query: Select, source: Relation) -> None:
    """Refuse a subquery that gives a name of an outer query to rows of its own."""
    here = {name.partition(".")[0] for name in source.columns} - {""}
    for outer in proof.outer:
        if any(name.partition(".")[0] in here for name in outer.columns):
            proof.refuse("a subquery with an alias of an outer query", query)


def _at_place(query: Select, expr: Expr) -> Expr:
    """Return what a term of GROUP BY names: a whole number is a place in the select list."""
    if isinstance(expr, Constant) and type(expr.value) is int:
        return query.items[expr.value - 1].expr
    return expr


def _kept(proof: Proof, query: Select, source: Relation) -> Relation:
    """Return the rows that WHERE keeps."""
    if query.where is None:
        return source
    proof.path.append("where")
    tied = check_row(proof, query.where, source)
    proof.path.pop()
    conditions = conjuncts(query.where)
    there = [c for c in conditions if isinstance(c, IsNull) and c.negated and c.operand in source.unit]
    if source.outside:
        kind = Kind.TIED if tied else source.kind
        return source._replace(kind=kind, depends=source.depends + tuple(equal_columns(proof, conditions)))
    only = len(there) == len(conditions)
    made = source._replace(
        strays=source.strays and not there,
        depends=source.depends + tuple(equal_columns(proof, conditions)),
        table=source.table if only else None,
    )
    if tied_to_outer(proof, made, [*equalities(conditions)]):
        proof.note("subquery of the unit", "the rows of the subquery are those of the unit of the outer row")
        return made._replace(kind=Kind.TIED, strays=False, table=None)
    return made


def _outside(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], aggregated: bool
) -> Relation:
    """Return the result of a query of public rows, or of those of one unit: it is of the same kind."""
    tied = source.kind is Kind.TIED
    for item in query.items:
        tied |= check_row(proof, item.expr, source)
    for expr in query.group:
        tied |= check_row(proof, expr, source)
    made = project(proof, query, source, names) if not aggregated else Relation(source.kind, names)
    return made._replace(kind=Kind.TIED if tied else Kind.PUBLIC, unique=proof.unique(query))


def _projected(proof: Proof, query: Select, source: Relation, names: tuple[str, ...]) -> Relation:
    for place, item in enumerate(query.items):
        proof.path.append(f"items[{place}]")
        check_row(proof, item.expr, source)
        check_windows(proof, item.expr, source)
        proof.path.pop()
    made = project(proof, query, source, names)
    unique = set(made.unique)
    for name, item in zip(names, query.items, strict=True):
        by = unique_by_number(item.expr, source)
        if by is not None:
            places = _translated(by, _places(query, names), source.closure(()))
            if places is not None:
                unique.add(places | {name})
    unit = frozenset(
        Column("", name)
        for name, item in zip(names, query.items, strict=True)
        if item.expr in source.unit or as_stored(item.expr) in source.unit
    )
    if source.by_row:
        unit |= {
            Column("", name)
            for name, item in zip(names, query.items, strict=True)
            if isinstance(item.expr, Constant) and item.expr.value is True and not source.strays
        }
    elif not unit and source.strays:
        proof.refuse("a projection without the unit", query)
    if query.distinct:
        if source.by_row or not unit:
            proof.refuse("DISTINCT of rows that are units of their own", query)
        unit_names = {u.name for u in unit if isinstance(u, Column)}
        unique.add(frozenset(names) - unit_names)
    return made._replace(
        unit=unit,
        by_row=source.by_row or not unit,
        unique=frozenset(unique),
    )


def _places(query: Select, names: tuple[str, ...]) -> dict[str, str]:
    """Return the names of the columns that a projection passes on."""
    found: dict[str, str] = {}
    for name, item in zip(names, query.items, strict=True):
        if isinstance(item.expr, Column):
            found.setdefault(name_of(item.expr), name)
    return found


def _translated(names: Names, places: dict[str, str], fixed: Names) -> Names | None:
    """Return the names of columns in a result; those that are the same in all rows may be missing."""
    found = {places.get(name) for name in names if name in places or name not in fixed}
    return None if None in found else frozenset(n for n in found if n is not None)


def project(proof: Proof, query: Select, source: Relation, names: tuple[str, ...]) -> Relation:
    """Return what is known of the columns of a projection, beside its unit."""
    places = _places(query, names)
    followed = [
        (name, follows_from(item.expr, source)) for name, item in zip(names, query.items, strict=True)
    ]
    fixed = source.closure(())

    def reached(names: Names) -> Names:
        closed = source.closure(names)
        return frozenset(name for name, reads in followed if reads is not None and reads <= closed)

    sets = dict.fromkeys(a for a, _ in source.depends if a)
    sets.update(dict.fromkeys(source.unique))
    depends = [(NONE, reached(NONE))]
    unique = set[Names]()
    for names_ in sets:
        here = _translated(names_, places, fixed)
        if here is not None and names_ in source.unique:
            unique.add(here)
        if here:
            depends.append((here, reached(names_)))
    few = [(reached(a), most) for a, most in source.few]
    return Relation(
        source.kind,
        names,
        by_row=source.by_row,
        strays=source.strays,
        unique=frozenset(unique),
        depends=tuple((a, b) for a, b in depends if not b <= a),
        few=tuple((a, most) for a, most in few if a),
    )
