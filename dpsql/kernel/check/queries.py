"""Relations of the results of queries.

*WHERE* keeps a row or not by what `subqueries` allows, so what is owned stays owned. Of conditions, `x = c`
and
`x = y` add what follows from what, and `u IS NOT NULL` leaves out rows without a unit. In a subquery, a
condition `u = x` with the unit x of an outer row leaves the rows of that unit: they are tied.

*Projection* keeps the unit of each row as a column. Without it each row still has one, but no column tells
which. A column is equal in two rows (of a unit) if all columns that its expression reads are.

*DISTINCT* compares rows with their units, so it keeps the rows of each unit to themselves; after it all
columns but the unit are unique within a unit.
"""

from __future__ import annotations

from dpsql.kernel.check.bounded import relation_of_bounded, relation_of_sampled
from dpsql.kernel.check.counts import relation_of_parents
from dpsql.kernel.check.distinct import places_of, unique_after
from dpsql.kernel.check.groups import relation_of_group_rows
from dpsql.kernel.check.implied import equal_columns
from dpsql.kernel.check.joins import relation_of
from dpsql.kernel.check.proof import (
    Proof,
    conjuncts,
    equalities,
    has_aggregate,
    has_window,
    strip_parens,
)
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
    Aggregate,
    Beyond,
    Bounded,
    Call,
    Column,
    Constant,
    Expr,
    IsNull,
    Query,
    Sampled,
    Scores,
    Select,
    SetOperation,
    Weighted,
    Window,
)


def relation_of_query(proof: Proof, query: Query) -> Relation:
    """Return the relation of the result of a query."""
    match query:
        case Weighted():
            return relation_of_weighted(proof, query)
        case Bounded():
            return relation_of_bounded(proof, query)
        case Sampled():
            return relation_of_sampled(proof, query)
        case Scores():
            return relation_of_scores(proof, query)
        case Above():
            return relation_of_above(proof, query)
        case Beyond():
            return relation_of_beyond(proof, query)
        case SetOperation():
            return relation_of_operation(proof, query)
    if not isinstance(query, Select):
        return proof.refuse("an unknown kind of query", query)
    proof.selects.append(query)
    made = _relation_of_select(proof, query)
    proof.selects.pop()
    return made


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
    if source.kind is Kind.GROUPS:
        return relation_of_group_rows(proof, query, source, names)
    if source.kind in (Kind.CHILDREN, Kind.PARENTS):
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
        return made._replace(kind=Kind.TIED, unit=frozenset(), strays=False, table=None)
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
    if query.limit is not None and not _ordered(query):
        proof.refuse("LIMIT in an order that is not total", query)
    kind = Kind.TIED if tied else Kind.PUBLIC
    if aggregated:
        group = [_at_place(query, expr) for expr in query.group]
        return Relation(kind, names, unique=_unique_groups(query, source, names, group))
    made = project(proof, query, source, names)
    numbered = {frozenset((n,)) for n, i in zip(names, query.items, strict=True) if _numbers_all(i.expr)}
    unique = made.unique | numbered | ({frozenset(names)} if query.distinct else set())
    return made._replace(kind=kind, unique=unique)


def _numbers_all(expr: Expr) -> bool:
    """Return whether an expression numbers all rows."""
    window = strip_parens(expr)
    return (
        isinstance(window, Window)
        and not window.partition
        and isinstance(window.function, Call)
        and window.function.name.upper() == "ROW_NUMBER"
    )


def _unique_groups(
    query: Select, source: Relation, names: tuple[str, ...], group: list[Expr]
) -> frozenset[Names]:
    """Return sets of columns that are unique in groups of public rows.

    The keys are. The least or greatest value of a unique column is, too: groups have different rows.
    """
    places = {item.expr: name for name, item in zip(names, query.items, strict=True)}
    found: set[Names] = set()
    if all(expr in places for expr in group):
        found.add(frozenset(places[expr] for expr in group))
    for name, item in zip(names, query.items, strict=True):
        expr = item.expr
        if (
            not isinstance(expr, Aggregate)
            or expr.name.upper() not in ("MIN", "MAX")
            or expr.filter is not None
        ):
            continue
        (x,) = expr.arguments
        if isinstance(x, Column) and group and source.single((name_of(x),)):
            found.add(frozenset((name,)))
    return frozenset(found)


def _ordered(query: Select) -> bool:
    """Return whether the order of public rows tells all rows apart that differ."""
    terms = {term.expr for term in query.order}
    return all(item.expr in terms for item in query.items)


def _projected(proof: Proof, query: Select, source: Relation, names: tuple[str, ...]) -> Relation:
    made = project(proof, query, source, names)
    unique, of_unit = set(made.unique), set[str]()
    for place, (name, item) in enumerate(zip(names, query.items, strict=True)):
        expr = item.expr
        if isinstance(expr, (Column, Call)) and expr in source.unit:
            of_unit.add(name)
        if isinstance(expr, Column) and expr.table:
            continue
        proof.path.append(f"items[{place}]")
        check_row(proof, expr, source)
        if has_window(expr):
            check_windows(proof, expr, source)
            by = unique_by_number(expr, source)
            places = None if by is None else _translated(by, _places(query, names), source.closure(()))
            if places is not None:
                unique.add(places | {name})
        proof.path.pop()
    unit = frozenset(Column("", name) for name in of_unit)
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
        unique.add(frozenset(names) - of_unit)
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
    spelled = places_of(proof, query, names, public=source.outside and not proof.outer)
    places = {column: named[0] for column, named in spelled.items()}
    followed = [
        (name, follows_from(item.expr, source)) for name, item in zip(names, query.items, strict=True)
    ]
    fixed = source.closure(())

    def reached(names: Names) -> Names:
        closed = source.closure(names) if names else fixed
        return frozenset([name for name, reads in followed if reads is not None and reads <= closed])

    sets = dict.fromkeys(a for a, _ in source.depends if a)
    sets.update(dict.fromkeys(source.unique))
    depends = [(NONE, reached(NONE))]
    for names_ in sets:
        here = _translated(names_, places, fixed)
        if here:
            depends.append((here, reached(names_)))
    few = [(reached(a), most) for a, most in source.few]
    return Relation(
        source.kind,
        names,
        by_row=source.by_row,
        strays=source.strays,
        unique=unique_after(source.unique, spelled, fixed),
        depends=tuple((a, b) for a, b in depends if not b <= a),
        few=tuple((a, most) for a, most in few if a),
    )
