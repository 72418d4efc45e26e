"""Relations of rows that are grouped by their unit.

GROUP BY of the unit and keys: each group has rows of one unit, so its row is a function of these. The keys
are unique within a unit.
"""

from __future__ import annotations

from dpsql.kernel.check.proof import (
    Proof,
    has_aggregate,
    has_window,
    reads_of,
)
from dpsql.kernel.check.relation import NONE, Kind, Names, Relation, name_of
from dpsql.kernel.check.subqueries import check_row
from dpsql.kernel.tree import (
    Column,
    Expr,
    Select,
)


def relation_of_units(
    proof: Proof, query: Select, source: Relation, names: tuple[str, ...], group: tuple[Expr, ...]
) -> Relation:
    """Return the rows of a GROUP BY of the unit."""
    unit, keys = set[str](), set[str]()
    for expr in group:
        check_row(proof, expr, source)
        if has_window(expr):
            proof.refuse("a window among keys", expr)
    for name, item in zip(names, query.items, strict=True):
        check_row(proof, item.expr, source)
        if has_window(item.expr):
            proof.refuse("a window among aggregates", item.expr)
        if item.expr in source.unit:
            unit.add(name)
        elif item.expr in group:
            keys.add(name)
        elif not has_aggregate(item.expr) and not _of_keys(item.expr, group, source):
            proof.refuse("a column that is no key of its group", item.expr)
    if not unit and source.strays:
        return proof.refuse("groups of a unit without the unit", query)
    proof.note("group by unit", "each group has rows of one unit")
    return _grouped(query, source, names, group, unit, keys)


def _of_keys(expr: Expr, group: tuple[Expr, ...], source: Relation) -> bool:
    """Return whether an expression reads only keys of the group, or the unit."""
    keys = frozenset(name_of(e) for e in group if isinstance(e, Column))
    return reads_of(expr) <= keys


def _grouped(
    query: Select,
    source: Relation,
    names: tuple[str, ...],
    group: tuple[Expr, ...],
    unit: set[str],
    keys: set[str],
) -> Relation:
    """Return the rows of groups of units: their keys are unique within a unit."""
    there = {item.expr for item in query.items}
    unique: frozenset[Names] = frozenset()
    if all(expr in there or expr in source.unit for expr in group):
        unique = frozenset((frozenset(keys),))
    depends: list[tuple[Names, Names]] = [(NONE, frozenset(unit))]
    of_keys = [(n, reads_of(i.expr)) for n, i in zip(names, query.items, strict=True) if n in keys]
    places = {
        name_of(i.expr): n for n, i in zip(names, query.items, strict=True) if isinstance(i.expr, Column)
    }
    sets = [NONE, *(a for a, _ in source.depends if a), *source.unique, *(a for a, _ in source.few)]
    few: list[tuple[Names, int]] = []
    for names_ in dict.fromkeys(sets):
        closed = source.closure(names_)
        reached = frozenset(n for n, reads in of_keys if reads <= closed)
        if not names_ or names_ <= places.keys():
            depends.append((frozenset(places[n] for n in names_), reached))
        few += [(reached, most) for a, most in source.few if a == names_ and reached]
    return Relation(
        Kind.OWNED,
        names,
        frozenset(Column("", name) for name in unit),
        by_row=not unit,
        strays=source.strays,
        unique=unique,
        depends=tuple((a, b) for a, b in depends if not b <= a),
        few=tuple(few),
    )
