"""Relations of the results of queries: of SELECT and its windows, of UNION, INTERSECT and EXCEPT.

*WHERE* keeps a row or not by what `check_row` allows, so what is owned stays owned. Of conditions, `x = c`
and `x = y` add what follows from what, `u IS NOT NULL` leaves out rows without a unit; in a subquery, `u = x`
with the unit x of an outer row leaves the rows of that unit: they are tied.

*Projection* keeps the unit of each row as a column; a whole number is the same in a type that has all of the
values. Without it each row still has one, but no column tells which. A column is equal in two rows (of a
unit) if all columns that its expression reads are.

*DISTINCT* compares rows with their units, so it keeps the rows of each unit to themselves; after it all
columns but the unit are unique within a unit.

*Windows.* A window with a unit among its PARTITION BY computes the values of a unit's rows from that unit's
rows alone. So what is owned stays owned. `totality` proves that no value depends on the order of rows.
`ROW_NUMBER` with the unit and P among PARTITION BY is 1, 2, .. in the rows of a unit that are equal in P: the
number and P are unique within a unit, and so are the number and all columns that P is computed from.

*Set operations.* UNION ALL of owned rows with their units in the same column is owned: the rows of a unit are
those of both sides. Other set operations compare rows with their units, so each unit's rows are compared
among themselves; rows without a unit (NULL) are compared among those. Public rows may be added if their unit
is NULL, and may be taken away or be what is left of INTERSECT: which rows of a unit remain is then a function
of its own rows. INTERSECT and EXCEPT leave rows of the left side: those have no unit that have none there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsql.kernel.check.certificate import NONE, Kind, Names, Relation, name_of
from dpsql.kernel.check.derive import exact, unwrap
from dpsql.kernel.check.few_rows import relation_of_first, relation_of_groups, relation_over_few
from dpsql.kernel.check.orders import conjuncts
from dpsql.kernel.check.part_sets import narrow_parts, parts_of_operation, projected_columns
from dpsql.kernel.check.periods import check_same_sort, common_person, reads_within
from dpsql.kernel.check.proof import (
    Proof,
    equal_columns,
    equalities,
    has_aggregate,
    has_window,
    is_null,
    narrow,
    nodes_of_row,
    reads_of,
    subqueries,
)
from dpsql.kernel.check.row_subqueries import check_row, tied_to_outer
from dpsql.kernel.check.sources import check_name, relation_of
from dpsql.kernel.check.unit_groups import (
    relation_of_bounded,
    relation_of_cells,
    relation_of_decided,
    relation_of_marked,
    relation_of_on_domain,
    relation_of_parents,
    relation_of_part,
    relation_of_sampled,
    relation_of_units,
)
from dpsql.kernel.check.unit_numbers import (
    relation_of_above,
    relation_of_beyond,
    relation_of_scores,
    relation_of_weighted,
)
from dpsql.kernel.tree import (
    Above,
    Aggregate,
    Beyond,
    Bounded,
    Call,
    CellsOfDecided,
    Column,
    Constant,
    Decided,
    Expr,
    FirstRows,
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
    Window,
)

WORDS = frozenset({"UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"})


def relation_of_operation(proof: Proof, query: SetOperation) -> Relation:
    """Return the relation of a set operation."""
    _check_written(proof, query)
    a, b = proof.query(query.left, "left"), proof.query(query.right, "right")
    if query.word not in WORDS or len(a.columns) != len(b.columns):
        proof.refuse("an unknown set operation", query)
    if a.outside and b.outside:
        kind = Kind.TIED if Kind.TIED in (a.kind, b.kind) else Kind.PUBLIC
        return Relation(kind, a.columns, unique=proof.unique(query))
    if a.by_row or b.by_row or not all(r.outside or r.kind is Kind.OWNED for r in (a, b)):
        proof.refuse("a set operation of rows without units", query)
    if Kind.TIED in (a.kind, b.kind):
        proof.refuse("a set operation of rows of an outer unit", query)
    if a.kind is b.kind:
        check_same_sort(proof, a, b)
    places = _unit_places(a) & _unit_places(b) if a.kind is b.kind else _unit_places(a) | _unit_places(b)
    if query.word == "UNION ALL":
        places = {p for p in places if _null_at(query.left, a, p) and _null_at(query.right, b, p)}
    elif a.kind is Kind.PUBLIC or (b.kind is Kind.PUBLIC and query.word.startswith("UNION")):
        proof.refuse(f"{query.word} of public and private rows", query)
    places = {place for place in places if _same_types(proof, query, place)}
    if not places:
        proof.refuse("a set operation of rows with units in different columns", query)
    proof.note("set operation", f"{query.word} compares the units of the rows, too")
    unit = frozenset(Column("", a.columns[place]) for place in places)
    columns = frozenset(a.columns) - {a.columns[place] for place in places}
    unique: frozenset[Names] = frozenset()
    if not query.word.endswith("ALL"):
        unique = frozenset((columns,))
    if not query.word.startswith("UNION"):
        unique |= a.unique
    facts = (NONE, frozenset(a.columns[place] for place in places))
    same = all(_same_types(proof, query, place) for place in range(len(a.columns)))
    if not same:  # what differs may be equal after the conversion
        unique = frozenset((columns,)) if not query.word.endswith("ALL") else frozenset()
    depends = a.depends if same and not query.word.startswith("UNION") else ()
    parts, home, padded = parts_of_operation(query.word, a, b, same=same)
    return Relation(
        Kind.OWNED,
        a.columns,
        unit,
        parts=parts,
        home=home,
        padded=padded,
        strays=a.strays or (query.word.startswith("UNION") and (b.strays or a.kind is not b.kind)),
        unique=unique,
        depends=(facts, *depends),
        few=a.few if same and not query.word.startswith("UNION") else (),
        periods=a.periods or b.periods,
        person=common_person(a, b) if same else frozenset(),
    )


def _check_written(proof: Proof, query: SetOperation) -> None:
    """Refuse operands whose text would be read as another tree, since it has no parentheses."""
    for side in (query.left, query.right):
        if isinstance(side, Select) and (side.order or side.limit is not None):
            proof.refuse("an ordered operand of a set operation", query)
    left, right = query.left, query.right
    if isinstance(right, SetOperation) and not query.word == right.word == "UNION ALL":
        proof.refuse("operands of set operations in another order", query)
    looser = isinstance(left, SetOperation) and not left.word.startswith("INTERSECT")
    if looser and query.word.startswith("INTERSECT"):
        proof.refuse("operands of set operations in another order", query)


def _same_types(proof: Proof, query: SetOperation, place: int) -> bool:
    """Return whether a column has one type on both sides, or whole numbers."""
    one, other = ([*proof.rows(side).columns.values()][place].type for side in (query.left, query.right))
    return one == other or (exact(one) and exact(other))


def _unit_places(relation: Relation) -> set[int]:
    names = {unit.name for unit in relation.unit if isinstance(unit, Column)}
    return {place for place, name in enumerate(relation.columns) if name in names}


def _null_at(query: Query, relation: Relation, place: int) -> bool:
    """Return whether rows have their unit in a column, or NULL if they are public."""
    if relation.kind is Kind.OWNED:
        return True
    return isinstance(query, Select) and is_null(query.items[place].expr)


RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})


def check_windows(proof: Proof, expr: Expr, relation: Relation) -> None:
    """Refuse windows over rows of several units."""
    if not has_window(expr) or relation.kind is not Kind.OWNED:
        return
    for node in nodes_of_row(expr):
        if isinstance(node, Window):
            if relation.by_row or not any(part in relation.unit for part in node.partition):
                proof.refuse("a window over rows of several units", node)
            proof.note("window of the unit", "the window function reads the rows of one unit")


def follows_from(proof: Proof, expr: Expr, relation: Relation) -> Names | None:
    """Return columns from which an expression follows, within a unit; None if that is not known."""
    if not has_window(expr):
        return reads_within(proof, expr, relation)
    if relation.kind is not Kind.OWNED:
        return None
    found: set[str] = set()
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Window):
            if node.order or node.frame is not None or _function(node) in RANKS:
                return None
            for part in node.partition:
                found |= reads_of(part)
        elif has_window(node):
            waiting += [n for n in nodes_of_row(node) if isinstance(n, Window)]
            found |= _outside_windows(node)
        else:
            found |= reads_of(node)
    return frozenset(found)


def _outside_windows(expr: Expr) -> Names:
    """Return the columns that an expression reads beside its windows."""
    inside: set[int] = set()
    for node in nodes_of_row(expr):
        if isinstance(node, Window):
            inside |= {id(n) for n in nodes_of_row(node)}
    return frozenset(name_of(n) for n in nodes_of_row(expr) if isinstance(n, Column) and id(n) not in inside)


def _function(window: Window) -> str:
    name = window.function.name if isinstance(window.function, (Call, Aggregate)) else ""
    return name.upper()


def unique_by_number(expr: Expr, relation: Relation) -> Names | None:
    """Return the columns that are unique together with an expression, if it numbers the rows of a unit."""
    window = unwrap(expr)
    if not isinstance(window, Window) or _function(window) != "ROW_NUMBER" or relation.kind is not Kind.OWNED:
        return None
    rest = [part for part in window.partition if part not in relation.unit]
    if len(rest) == len(window.partition) or any(subqueries(part) or has_window(part) for part in rest):
        return None
    return frozenset[str]().union(*map(reads_of, rest))


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
    FirstRows: relation_of_first,
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
    for name in names:
        check_name(proof, name, query)
    if any(names.count(name) > 1 for name in filter(None, names)):
        proof.refuse("two columns of one name", query)
    _check_aliases(proof, query, source)
    if source.kind in (Kind.CHILDREN, Kind.PARENTS, Kind.GROUPS):
        return proof.refuse("rows of which no unit is known", query)
    source = _relation_of_where(proof, query, source)
    for term in query.order:
        if check_row(proof, term.expr, source) and source.kind is Kind.PUBLIC:
            source = source._replace(kind=Kind.TIED)
    aggregated = bool(query.group) or any(has_aggregate(item.expr) for item in query.items)
    if source.outside:
        return _relation_of_outside(proof, query, source, names, aggregated)
    if query.limit is not None:
        proof.refuse("LIMIT of the rows of units", query)
    group = tuple(_find_term(query, expr) for expr in query.group)
    given = (proof, query, source, names, group)
    if source.kind is Kind.FEW:
        return relation_over_few(*given)
    if not aggregated:
        return _relation_of_rows(proof, query, source, names)
    if any(expr in source.unit for expr in group) and not source.by_row:
        return relation_of_units(*given)
    made = relation_of_parents(*given) or relation_of_groups(*given)
    return made or proof.refuse("groups of rows of many units that no node counts", query)


def _check_aliases(proof: Proof, query: Select, source: Relation) -> None:
    """Refuse a subquery that gives a name of an outer query to rows of its own."""
    here = {name.partition(".")[0] for name in source.columns} - {""}
    for outer in proof.outer:
        if any(name.partition(".")[0] in here for name in outer.columns):
            proof.refuse("a subquery with an alias of an outer query", query)


def _find_term(query: Select, expr: Expr) -> Expr:
    """Return what a term of GROUP BY names: a whole number is a place in the select list."""
    if isinstance(expr, Constant) and type(expr.value) is int:
        return query.items[expr.value - 1].expr
    return expr


def _relation_of_where(proof: Proof, query: Select, source: Relation) -> Relation:
    """Return the rows that WHERE keeps."""
    if query.where is None:
        return source
    proof.path.append("where")
    asked = [source.parts]
    tied = check_row(proof, query.where, source, asked)
    proof.path.pop()
    conditions = conjuncts(query.where)
    there = [c for c in conditions if isinstance(c, IsNull) and c.negated and c.operand in source.unit]
    if source.outside:
        kind = Kind.TIED if tied else source.kind
        return source._replace(kind=kind, depends=source.depends + tuple(equal_columns(proof, conditions)))
    only = len(there) == len(conditions)
    made = narrow_parts(proof, source, conditions, asked)._replace(
        strays=source.strays and not there,
        depends=source.depends + tuple(equal_columns(proof, conditions)),
        table=source.table if only else None,
    )
    if tied_to_outer(proof, made, [*equalities(conditions)]):
        proof.note("subquery of the unit", "the rows of the subquery are those of the unit of the outer row")
        return made._replace(kind=Kind.TIED, strays=False, table=None)
    return made


def _relation_of_outside(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], aggregated: bool
) -> Relation:
    """Return the relation of a query of public rows, or of rows of one unit, which is of the same kind."""
    tied = source.kind is Kind.TIED
    for expr in (*(item.expr for item in query.items), *query.group):
        tied |= check_row(proof, expr, source)
    made = project(proof, query, source, names) if not aggregated else Relation(source.kind, names)
    return made._replace(kind=Kind.TIED if tied else Kind.PUBLIC, unique=proof.unique(query))


def _relation_of_rows(proof: Proof, query: Select, source: Relation, names: tuple[str, ...]) -> Relation:
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
            places = _translate(by, _places(query, names), source.closure(()))
            if places is not None:
                unique.add(places | {name})
    listed = [*zip(names, query.items, strict=True)]
    unit = frozenset(
        Column("", n) for n, i in listed if i.expr in source.unit or narrow(i.expr) in source.unit
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
        person=frozenset(
            Column("", name)
            for name, item in zip(names, query.items, strict=True)
            if item.expr in source.person
        ),
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


def _translate(names: Names, places: dict[str, str], fixed: Names) -> Names | None:
    """Return the names of columns in a result; those that are the same in all rows may be missing."""
    found = {places.get(name) for name in names if name in places or name not in fixed}
    return None if None in found else frozenset(n for n in found if n is not None)


def project(proof: Proof, query: Select, source: Relation, names: tuple[str, ...]) -> Relation:
    """Return what is known of the columns of a projection, beside its unit."""
    places = _places(query, names)
    followed = [
        (name, follows_from(proof, item.expr, source)) for name, item in zip(names, query.items, strict=True)
    ]
    fixed = source.closure(())

    def reach(names: Names) -> Names:
        closed = source.closure(names)
        return frozenset(name for name, reads in followed if reads is not None and reads <= closed)

    sets = dict.fromkeys(a for a, _ in source.depends if a)
    sets.update(dict.fromkeys(source.unique))
    depends = [(NONE, reach(NONE))]
    unique = set[Names]()
    for names_ in sets:
        here = _translate(names_, places, fixed)
        if here is not None and names_ in source.unique:
            unique.add(here)
        if here:
            depends.append((here, reach(names_)))
    few = [(reach(a), most) for a, most in source.few]
    return Relation(
        source.kind,
        names,
        parts=source.parts,
        home=projected_columns(source.home, places),
        padded=projected_columns(source.padded, places),
        periods=source.periods,
        by_row=source.by_row,
        strays=source.strays,
        unique=frozenset(unique),
        depends=tuple((a, b) for a, b in depends if not b <= a),
        few=tuple((a, most) for a, most in few if a),
        rows_of=source.rows_of,
    )
