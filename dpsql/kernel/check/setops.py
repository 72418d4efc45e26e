"""Relations of UNION, INTERSECT and EXCEPT.

UNION ALL of owned rows with their units in the same column is owned: the rows of a unit are those of both
sides. Other set operations compare rows with their units, so each unit's rows are compared among themselves;
rows without a unit (NULL) are compared among those. Public rows may be added if their unit is NULL, and may
be taken away or be what is left of INTERSECT: which rows of a unit remain is then a function of its own
rows.
"""

from __future__ import annotations

from dpsql.kernel.check.distinct import items_at, unique_of_union
from dpsql.kernel.check.proof import Proof, is_null
from dpsql.kernel.check.relation import NONE, Kind, Names, Relation
from dpsql.kernel.check.types_of import exact
from dpsql.kernel.tree import Column, Query, Select, SetOperation

WORDS = frozenset({"UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"})


def relation_of_operation(proof: Proof, query: SetOperation) -> Relation:
    """Return the relation of a set operation."""
    _check_written(proof, query)
    a, b = proof.query(query.left, "left"), proof.query(query.right, "right")
    if query.word not in WORDS or len(a.columns) != len(b.columns):
        proof.refuse("an unknown set operation", query)
    if a.outside and b.outside:
        return _outside(proof, query, a, b)
    if a.by_row or b.by_row or not all(r.outside or r.kind is Kind.OWNED for r in (a, b)):
        proof.refuse("a set operation of rows without units", query)
    if Kind.TIED in (a.kind, b.kind):
        proof.refuse("a set operation of rows of an outer unit", query)
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
    same = all(_keeps_apart(proof, query, place) for place in range(len(a.columns)))
    if not same:  # what differs may be equal after the conversion
        unique = frozenset((columns,)) if not query.word.endswith("ALL") else frozenset()
    depends = a.depends if same and not query.word.startswith("UNION") else ()
    return Relation(
        Kind.OWNED,
        a.columns,
        unit,
        strays=a.strays or b.strays or a.kind is not b.kind,
        unique=unique,
        depends=(facts, *depends),
        few=a.few if same and not query.word.startswith("UNION") else (),
    )


def _check_written(proof: Proof, query: SetOperation) -> None:
    """Refuse operands that the text would not have as the tree has them: it has no parentheses."""
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
    kinds = {proof.value(expr, select).type for select, expr in items_at(query, place)}
    return len(kinds) == 1 or (bool(kinds) and all(exact(kind) for kind in kinds))


def _keeps_apart(proof: Proof, query: SetOperation, place: int) -> bool:
    """Return whether values of a column that differ differ in the type of the result."""
    kinds = {proof.value(expr, select).type for select, expr in items_at(query, place)}
    kinds = {kind for kind in kinds if kind.name != "NULL"}
    return len(kinds) <= 1 or all(exact(kind) for kind in kinds)


def _outside(proof: Proof, query: SetOperation, a: Relation, b: Relation) -> Relation:
    kind = Kind.TIED if Kind.TIED in (a.kind, b.kind) else Kind.PUBLIC
    unique: frozenset[Names] = frozenset()
    same = all(_keeps_apart(proof, query, place) for place in range(len(a.columns)))
    if not query.word.endswith("ALL"):
        unique = frozenset((frozenset(a.columns),))
    if not same:
        pass  # what differs may be equal after the conversion
    elif not query.word.startswith("UNION"):
        unique |= a.unique
    elif query.word == "UNION ALL":
        unique = unique_of_union(proof, query, a, b)
    return a._replace(kind=kind, unique=unique, depends=(), few=())


def _unit_places(relation: Relation) -> set[int]:
    names = {unit.name for unit in relation.unit if isinstance(unit, Column)}
    return {place for place, name in enumerate(relation.columns) if name in names}


def _null_at(query: Query, relation: Relation, place: int) -> bool:
    """Return whether rows have their unit in a column, or NULL if they are public."""
    if relation.kind is Kind.OWNED:
        return True
    return isinstance(query, Select) and is_null(query.items[place].expr)
